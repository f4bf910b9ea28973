"""What is wrong with the fields of a body: pydantic's errors as JSON pointers and sentences that
name the next step."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from discreet.errors import FieldIssue

Schema = Mapping[str, Any]

LONGEST_KEY = 200
"""Characters of a key that a pointer shows."""
LONGEST_TYPO = 60
"""Longest name of a field for which a similar one is suggested, in characters."""
LONGEST_DETAIL = 1000
"""Longest sentence, in characters."""
MOST_ISSUES = 20
MOST_COUNTED = 10_000
"""Bad items of one array that are reported; then the rest is not looked at."""
ALIKE = "alike"
"""Keys in the context of an error that stands for further items too: how many more, and the end
of the location of the last."""
SAME = ("gt", "ge", "lt", "le", "min_length", "max_length", "pattern", "expected")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
WHY = "x-why"
"""Key in the schema of a field: why its limits are as they are, where that may surprise."""
MOST_NAMES = 20
"""The most names that a sentence lists."""
NEEDED = {
    "model": "a JSON object is needed",
    "model_type": "a JSON object is needed",
    "model_attributes_type": "a JSON object is needed",
    "dataclass_type": "a JSON object is needed",
    "dict_type": "a JSON object is needed",
    "list_type": "an array is needed",
    "tuple_type": "an array is needed",
    "string_type": "text is needed",
    "string_unicode": "text in Unicode is needed",
    "int_type": "an integer is needed",
    "int_parsing": "an integer is needed",
    "int_from_float": "an integer is needed",
    "float_type": "a number is needed",
    "float_parsing": "a number is needed",
    "decimal_type": "a number is needed",
    "decimal_parsing": "a number is needed",
    "bool_type": "true or false is needed",
    "bool_parsing": "true or false is needed",
    "datetime_type": "a time such as 2026-11-21T15:00:00Z is needed",
    "datetime_parsing": "a time such as 2026-11-21T15:00:00Z is needed",
    "datetime_from_date_parsing": "a time such as 2026-11-21T15:00:00Z is needed",
}
"""Values of a wrong type, by pydantic's name of the error."""
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""Errors of models and of dataclasses for an unknown field."""
WEAK = {*NEEDED, "too_short"}
"""Errors that say less than others at the same place or below it."""
LIMITS = {
    "greater_than": ("gt", "must be greater than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}


class FieldError(ValueError):
    """A field contradicts others. Raised by a model's validator; `field` is its path below the
    model."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = tuple(field.split("/"))


def escape(key: object) -> str:
    """A key as a token of a JSON pointer (RFC 6901)."""
    return storable(str(key)).replace("~", "~0").replace("/", "~1")


def storable(text: str) -> str:
    """The text with U+FFFD in place of lone surrogates and NUL, which no answer can carry."""
    return _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def place(path: Sequence[object], says: str) -> tuple[str, str]:
    """Pointer and sentence of an issue. A pointer ends above a key that is too long to be sent
    back."""
    for depth, key in enumerate(path):
        if isinstance(key, str) and len(key) > LONGEST_KEY:
            begins = storable(key[:20])
            return pointer(
                path[:depth]
            ), f"below a key of {len(key)} characters that begins {begins!r}: {says}"
    return pointer(path), says


def pointer(location: Iterable[object]) -> str:
    """A JSON pointer from keys and positions."""
    return "".join(f"/{escape(part)}" for part in location)


def issues_of(
    errors: Iterable[Mapping[str, Any]], body: Any, schema: Schema | None = None
) -> list[FieldIssue]:
    """pydantic's errors with JSON pointers into `body`: its locations also name the branches of
    unions.

    At most `MOST_ISSUES` of them; the same mistake in many items of an array is one issue, with
    their count and the last place. With the JSON `schema` of the body, the issue of an unknown
    field names the known ones. Takes time linear in the number of errors.
    """
    by_path: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for error in map(_told_apart, errors):
        by_path.setdefault(_path(error["loc"], error, body), []).append(error)
    # In a union, the branch that got furthest says what is wrong; bad items do not count.
    deeper = {path[:depth] for path in by_path for depth in range(len(path))}
    found: dict[object, list[tuple[object, ...]]] = {}
    for path, several in by_path.items():
        strong = [error for error in several if error["type"] not in WEAK]
        # An empty array is meant for the branch that takes arrays.
        said = by_path[path] = (
            strong or [error for error in several if error["type"] not in NEEDED] or several
        )
        if strong or path not in deeper:
            alike = tuple(tuple(_alike(error)) for error in said)
            pattern = tuple(None if isinstance(part, int) else part for part in path)
            found.setdefault((pattern, alike), []).append(path)
    issues = []
    for paths in islice(found.values(), MOST_ISSUES):
        said = by_path[paths[0]]
        more, last = len(paths) - 1, paths[-1]
        for path in paths:
            first = by_path[path][0]
            counted, end = first.get("ctx", {}).get(ALIKE, (0, ()))
            if counted:
                more, last = more + counted, _path((*first["loc"][: -len(end)], *end), first, body)
        details = _joined([_detail(error, schema)[:LONGEST_DETAIL] for error in said])
        issues += [
            FieldIssue(*place(paths[0], detail + and_more(more, pointer(last))))
            for detail in details
        ]
    if len(found) > MOST_ISSUES or len(issues) > MOST_ISSUES:
        issues = issues[:MOST_ISSUES]
        others = f"{issues[-1].detail} (there are more mistakes, which are not listed here)"
        issues[-1] = FieldIssue(issues[-1].pointer, others)
    return issues


def _told_apart(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """A value that is not an object has no field that selects a branch of a union: its type is
    the error. NaN and Infinity are such values, which pydantic takes for objects because they
    have attributes."""
    if error["type"] == "union_tag_not_found" and not isinstance(error["input"], Mapping):
        return {**error, "type": "model_type"}
    return error


def _alike(error: Mapping[str, Any]) -> Iterator[object]:
    """The key that equal errors of different items share."""
    yield error["type"]
    if error["type"] in (
        "value_error",
        "assertion_error",
    ):  # of our own validators: the sentence says what it is
        yield error["msg"]
    else:  # the limit that it goes over, or the branch of a union
        context = error.get("ctx", {})
        yield tuple(str(context.get(name)) for name in SAME)


def and_more(more: int, where: str) -> str:
    """The end of an issue that stands for others like it, the last of them at `where`."""
    if more == 0:
        return ""
    if more == 1:
        return f" (and 1 more like this, at {where})"
    least = "at least " if more >= MOST_COUNTED - 1 else ""
    return f" (and {least}{more:,} more like this, up to {where})"


def sentence(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a sentence."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in NEEDED:
        return NEEDED[kind] + _instead(error.get("input"))
    if kind in LIMITS:
        name, words = LIMITS[kind]
        return f"{words} {_figure(context[name])}"
    if kind in UNKNOWN:
        return "there is no such field here"
    match kind:
        case "missing":
            return "this field is needed"
        case "finite_number":
            return "a finite number is needed"
        case "too_short":
            return (
                f"at least {_counted(context['min_length'], 'item')} needed; found "
                f"{context['actual_length']}"
            )
        case "too_long":
            return f"at most {_counted(context['max_length'], 'item')} allowed"
        case "string_too_short":
            return (
                "must not be empty"
                if context["min_length"] == 1
                else f"at least {context['min_length']} characters"
            )
        case "string_too_long":
            return f"at most {context['max_length']} characters are allowed"
        case "string_pattern_mismatch":
            return f"must match the pattern {context['pattern']}"
        case "literal_error" | "enum":
            return f"must be {context['expected']}"
    return str(error["msg"]).removeprefix("Value error, ").replace("Input should", "must")


def _path(location: Sequence[object], error: Mapping[str, Any], body: Any) -> tuple[object, ...]:
    path: list[object] = []
    here = body
    for position, part in enumerate(location):
        in_list = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if in_list or (isinstance(here, dict) and part in here):
            here = here[part]
        elif position < len(location) - 1 or error["type"] != "missing":
            continue  # a branch of a union, not a field
        path.append(part)
    if error["type"] in (
        "union_tag_invalid",
        "union_tag_not_found",
    ):  # the field that tells the branches apart
        path.append(_discriminator(error))
    misfit = error.get("ctx", {}).get("error")
    if isinstance(misfit, FieldError):
        path.extend(misfit.field)
    return tuple(path)


def _detail(error: Mapping[str, Any], schema: Schema | None) -> str:
    kind = error["type"]
    if kind == "union_tag_invalid":
        return f"must be one of {error['ctx']['expected_tags']}"
    if kind == "union_tag_not_found":
        tags = [repr(tag) for tag in _tags(schema, error["loc"])]
        return f"this field is needed: one of {', '.join(tags)}" if tags else "this field is needed"
    if kind in UNKNOWN:
        names = sorted(_fields(schema, error["loc"][:-1]))
        return unknown_name(str(error["loc"][-1]), names, "field")
    if kind == "missing" and (means := _meaning(_at(schema, error["loc"][:-1]), error["loc"][-1])):
        return f"{sentence(error)}: {means}"
    if kind in LIMITS and (why := (_at(schema, error["loc"]) or {}).get(WHY)):
        return f"{sentence(error)}: {why}"
    return sentence(error)


def unknown_name(name: str, known: Sequence[str], what: str) -> str:
    """That there is no such field or parameter, with those that there are."""
    near = difflib.get_close_matches(name, known, n=1) if len(name) <= LONGEST_TYPO else ()
    if near:
        return f"there is no such {what} here; did you mean `{near[0]}`?"
    if 0 < len(known) <= MOST_NAMES:
        return f"there is no such {what} here; the {what}s are {', '.join(known)}"
    return f"there is no such {what} here"


def _meaning(holder: Schema | None, name: object) -> str:
    """What a missing field means: the first sentence of its own description (not of its type's),
    and an example if it has one; empty if it has neither."""
    field = (holder or {}).get("properties", {}).get(name, {})
    if not field.get("description"):
        return ""
    means = re.split(r"(?<=\w)[.;] |\n\n", str(field["description"]), maxsplit=1)[0]
    means = " ".join(means.split()).rstrip(".")
    examples = [json.dumps(one) for one in field.get("examples", ())]
    return f"{means} (for example {' or '.join(examples)})" if examples else means


def _joined(details: Sequence[str]) -> Iterator[str]:
    """The needs of several branches of a union in one sentence: `text is needed; found 3` and its
    like differ in the middle."""
    different = list(dict.fromkeys(details))
    alternatives = [one.partition(" is needed") for one in different]
    if len(different) > 1 and all(middle for _, middle, _ in alternatives):
        yield " or ".join(first for first, _, _ in alternatives) + " is needed" + alternatives[0][2]
    else:
        yield from different


def _discriminator(error: Mapping[str, Any]) -> str:
    return str(error["ctx"]["discriminator"]).strip("'")


def _instead(value: object) -> str:
    """What was sent instead of what is needed."""
    match value:
        case None:
            return "; found null"
        case bool():
            return f"; found {str(value).lower()}"
        case float() if not math.isfinite(value):
            return "; found NaN" if math.isnan(value) else "; found an infinite number"
        case int() | float() if len(str(value)) <= MOST_NAMES:
            return f"; found {value}"
        case str():
            return "; found text" if value else "; found an empty text"
        case list():
            return "; found an array"
        case dict():
            return "; found an object"
    return ""


def _figure(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def _counted(count: int, what: str) -> str:
    return f"{count} {what} is" if count == 1 else f"{count} {what}s are"


# The schema ---------------------------------------------------------------------------------------


def _fields(schema: Schema | None, location: Sequence[object]) -> Iterable[str]:
    """Names of the fields known at this location of pydantic's."""
    node = _at(schema, location)
    return () if node is None else node.get("properties", {}).keys()


def _tags(schema: Schema | None, location: Sequence[object]) -> Iterable[str]:
    """The values of the field that tells the branches of the union there apart."""
    node = _at(schema, location)
    return () if node is None else node.get("discriminator", {}).get("mapping", {}).keys()


def _at(schema: Schema | None, location: Sequence[object]) -> Schema | None:
    """The schema at a location, which also names branches of unions; None if there is none."""
    if schema is None:
        return None
    node: Schema | None = _resolved(schema, schema)
    for part in location:
        if node is None:
            return None
        node = _step(schema, node, part)
    return node


def _step(schema: Schema, node: Schema, part: object) -> Schema | None:
    if part in node.get("properties", {}):
        return _resolved(schema, node["properties"][part])
    if part in node.get("discriminator", {}).get("mapping", {}):
        return _resolved(schema, {"$ref": node["discriminator"]["mapping"][part]})
    if isinstance(part, int) and isinstance(node.get("items"), Mapping):
        return _resolved(schema, node["items"])
    for branch in (
        _resolved(schema, one) for one in (*node.get("anyOf", ()), *node.get("oneOf", ()))
    ):
        if branch.get("title") == part:
            return branch
        found = _step(schema, branch, part)
        if found is not None:
            return found
    return None


def _resolved(schema: Schema, node: Schema) -> Schema:
    while "$ref" in node:
        node = schema["$defs"][str(node["$ref"]).rpartition("/")[2]]
    return node
