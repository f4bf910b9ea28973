"""JSON from outside, read strictly: no duplicate keys, no deep nesting, and numbers that keep their own digits.

Python's reader takes `NaN`, silently keeps the last of two equal keys and turns `0.1000000000000000055` into `0.1`.
Here a number with a fraction or an exponent is a `Number`: a float that remembers its text, so that money-like
fields (epsilon, delta) are read as the decimals that were written. NaN, Infinity and 1e999 become non-finite
numbers, which every field refuses by name. Texts hold no NUL and no half of a surrogate pair: no database and no UTF-8
can hold them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from discreet.errors import FieldIssue, InvalidInput, Limit

MAX_DEPTH = 64

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ODD_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_ODD_CHARACTER = re.compile("[\x00\ud800-\udfff]")
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


class Number(float):
    """A float that keeps the text it was read from."""

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


class _Repeated(dict[str, Any]):
    """An object in which a key stands twice."""

    key: str


def loads(body: bytes) -> Any:
    """The value that `body` holds; InvalidInput with a pointer where it is not strict JSON in UTF-8."""
    depth = _depth(body)
    if depth > MAX_DEPTH:
        limit = Limit("json_depth", "levels of nesting", MAX_DEPTH, depth)
        raise InvalidInput(f"JSON nested deeper than {MAX_DEPTH} levels", code="invalid_json", limit=limit)
    repeated: list[_Repeated] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        seen: set[str] = set()
        marked = _Repeated(value)
        marked.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        repeated.append(marked)
        return marked

    try:
        value = json.loads(body.decode("utf-8"), parse_float=Number, parse_constant=Number, object_pairs_hook=members)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 at byte {error.start}", code="invalid_json") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}", code="invalid_json"
        ) from error
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise InvalidInput("a number is too long", code="invalid_json") from error
    if repeated:
        raise InvalidInput(
            (FieldIssue(f"{path}/{escape(mark.key)}", "this key stands twice") for path, mark in _find(value)),
            code="invalid_json",
        )
    if _ODD_ESCAPE.search(body):  # only an escape can bring one in
        issues = [FieldIssue(path, "a text with a NUL character or half a surrogate pair") for path in _odd(value)]
        if issues:
            raise InvalidInput(issues, code="invalid_json")
    return value


def escape(key: object) -> str:
    """A key as a token of a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def pointer(location: Iterable[object]) -> str:
    """A JSON pointer from keys and positions."""
    return "".join(f"/{escape(part)}" for part in location)


def issues_of(errors: Iterable[Mapping[str, Any]], body: Any) -> list[FieldIssue]:
    """pydantic's errors with JSON pointers into `body`: its locations also name the branches of unions."""
    issues = []
    for error in errors:
        path: list[object] = []
        here = body
        location = list(error["loc"])
        for position, part in enumerate(location):
            in_list = isinstance(here, list) and isinstance(part, int) and part < len(here)
            if in_list or (isinstance(here, dict) and part in here):
                here = here[part]
            elif position < len(location) - 1 or error["type"] != "missing":
                continue  # a branch of a union, not a field
            path.append(part)
        detail = error["msg"].removeprefix("Value error, ")
        if error["type"] in ("union_tag_invalid", "union_tag_not_found"):  # the field that tells the branches apart
            path.append(error["ctx"]["discriminator"].strip("'"))
            expected = error["ctx"].get("expected_tags")
            detail = f"must be one of {expected}" if expected else "needed here"
        issues.append(FieldIssue(pointer(path), detail))
    return issues


def _depth(body: bytes) -> int:
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0)


def _find(value: Any, path: str = "") -> Iterable[tuple[str, _Repeated]]:
    if isinstance(value, _Repeated):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from _find(child, f"{path}/{escape(key)}")


def _odd(value: Any, path: str = "") -> Iterable[str]:
    """Pointers to texts and keys that cannot be stored; a key is named by its object, as it cannot be written."""
    if isinstance(value, str) and _ODD_CHARACTER.search(value):
        yield path
    if isinstance(value, dict):
        for key, child in value.items():
            if _ODD_CHARACTER.search(key):
                yield path
            else:
                yield from _odd(child, f"{path}/{escape(key)}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _odd(child, f"{path}/{index}")
