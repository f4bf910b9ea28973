"""How a table of somebody's own is read: `reader` and `columns` of a public part.

They are part of what a dataset is, and public, but for names that they may hold: `without_names` is
what is stored, shown and digested. What they mean is `discreet_client.readers`, the same program
here and at home.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake import field_issues
from discreet_client import readers
from discreet_client.readers import without_names
from discreet_client.tables import Issue, TableError
from discreet_client.trips import zone_numbers

__all__ = ["without_names"]

VERSION = 1
FIELDS = frozenset(("reader", "columns"))
FOLLOWING = ("features", "least_reward", "max_ratio", "target_policy")
"""Public fields that may follow from rules."""
MOST_COLUMNS = 1000
NO_FILES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")
"""Codecs of names of hosts, which take quadratic time, and of programs: no file is written so."""


def _checked(rules: dict[str, Any]) -> dict[str, Any]:
    if rules.get("version", VERSION) != VERSION:
        raise ValueError(f"version: {VERSION} is needed")
    zones = rules.get("zones")
    if isinstance(zones, str):
        raise ValueError('zones: their names are needed, or {"network": "net_…"}, not a file')
    if isinstance(zones, dict) and "network" in zones and set(zones) != {"network"}:
        raise ValueError('zones: {"network": "net_…"} has no other names beside it')
    place = rules.get("time_zone")
    if place is not None and (not isinstance(place, str) or place not in time_zones()):
        raise ValueError(f"time_zone: there is no time zone {str(place)[:40]!r}, as Europe/Berlin")
    encoding = rules.get("encoding")
    if encoding is not None and (not isinstance(encoding, str) or not is_text_encoding(encoding)):
        raise ValueError(f"encoding: there is no {str(encoding)[:40]!r}; Excel's is cp1252")
    return {"version": VERSION, **rules}


ReaderRules = Annotated[dict[str, Any], AfterValidator(_checked)]
Rules = Annotated[
    ReaderRules | None,
    Field(
        description="Rules by which a table of your own is read, such as "
        '`{"decimal": ",", "time_zone": "Europe/Berlin"}` (docs/own-files.md); with it or '
        "`columns` the content is such a table. `zones` and `participants` as lists, and `except`, "
        "are used and not stored"
    ),
]
Names = Annotated[
    dict[str, str] | None,
    Field(
        max_length=MOST_COLUMNS,
        description="What columns are called in a table of your own, by what they are called here: "
        '`{"origin": "Von", "destination": "Nach"}`',
    ),
]


@cache
def time_zones() -> frozenset[str]:
    """The names of all time zones that are known here."""
    return frozenset(available_timezones())


def is_text_encoding(name: str) -> bool:
    """Whether bytes can be texts in this encoding."""
    try:
        "".encode(name), b"".decode(name)  # not of codecs such as base64
        return codecs.lookup(name).name not in NO_FILES
    except (LookupError, ValueError):
        return False


def is_described(public: Any) -> bool:
    """Whether a public part, as JSON or as a kind's model, says how a table is read."""
    if isinstance(public, Mapping):
        return any(public.get(name) is not None for name in FIELDS)
    return any(getattr(public, name, None) is not None for name in FIELDS)


def completed(kind: str, public: Any) -> Any:
    """A public part as JSON with what its own description says of the rest. InvalidInput."""
    if not isinstance(public, Mapping) or not is_described(public):
        return public
    said = {name: one for name, one in public.items() if name not in FIELDS}
    rules, columns = public.get("reader"), public.get("columns")
    rules, columns = ({} if one is None else one for one in (rules, columns))
    if not isinstance(rules, Mapping) or not isinstance(columns, Mapping):
        return public  # which the model refuses
    try:
        found = readers.completed(kind, {**said, "reader": rules}, columns)
    except TableError as error:
        raise InvalidInput(issues_of(error), pointer="/public/reader") from None
    return {**found, "reader": {"version": VERSION, **rules}, "columns": dict(columns)}


def looked(kind: str, public: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """What a look at a file found (`readers.preview`), with what registration refuses in this
    public part: of a field that is missing or wrong, the model's own word in place of the
    reader's."""
    from discreet.problems import DATASETS  # noqa: PLC0415 - they have descriptions

    following: tuple[str, ...] = ()
    try:
        public = completed(kind, public)
    except InvalidInput:  # of which the reader says what is wrong
        following = FOLLOWING
    adapter, schema = _public_part(DATASETS[kind])
    try:
        adapter.validate_python(public)
    except ValidationError as error:
        said = field_issues.issues_of(error.errors(include_url=False), public, schema)
    else:
        return dict(found)
    others, issues = found["issues"], list[dict[str, Any]]()
    for one in said:
        field, *below = one.pointer.removeprefix("/").split("/")
        if field in following or (field in FIELDS and others):
            continue
        way = ".".join([field, *below] if field in FIELDS else ["public", field, *below])
        told = Issue(one.detail, detail=f"{way}: {one.detail}")
        issues.append({"detail": told.says, **told.as_dict(), "way_out": way})
    ways = {one["way_out"] for one in issues}
    others = [one for one in others if one["way_out"] not in ways]
    return {**found, "issues": [*printable(issues), *others]}


@cache
def _public_part(kind: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    model: Any = kind.model_fields["public"].annotation
    adapter: TypeAdapter[Any] = TypeAdapter(model)
    return adapter, adapter.json_schema()


def undone(kind: str, public: Mapping[str, Any]) -> dict[str, Any]:
    """A public part without what `completed` has made of its rules, so that others may say it."""
    found = dict(public)
    for name in FOLLOWING:
        rest = {one: value for one, value in found.items() if one != name}
        if name in found and completed(kind, rest).get(name) == found[name]:
            found = rest
    return found


def issues_of(error: TableError, pointer: str = "/public/reader") -> list[FieldIssue]:
    """What a reader refuses, an issue for each mistake."""
    found = []
    for one in error.issues if hasattr(error, "issues") else ():
        found.append(FieldIssue(pointer, printable(one.says), printable(one.as_dict())))
    return found or [FieldIssue(pointer, line) for line in str(error).splitlines()]


def printable(value: Any) -> Any:
    """A value of JSON without halves of pairs of UTF-16, which `\\ud800` writes and no text has."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def holds_names(public: Mapping[str, Any]) -> bool:
    """Whether a public part has what is not stored of it."""
    return without_names(public) != dict(public)


def zones_in_order(public: Mapping[str, Any]) -> list[str] | None:
    """The names of zones 1, 2, … by which a table of trips is read; None unless `reader.zones` has
    one name for each of `public.zones`."""
    zones = (public.get("reader") or {}).get("zones")
    if not isinstance(zones, Mapping | list) or "network" in zones:
        return None
    try:
        names = {number: name for name, number in (zone_numbers(zones, []) or {}).items()}
    except TableError:  # which the reader refuses
        return None
    most = public.get("zones")
    if len(names) != len(zones) or sorted(names) != list(range(1, len(names) + 1)):
        return None
    return [names[number] for number in sorted(names)] if len(names) == most else None


def alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two public parts of one content say the same of it, by whatever description it was
    read: arrays and figures are what a dataset means."""
    first, second = (
        {name: value for name, value in said.items() if name not in FIELDS} for said in (one, other)
    )
    return first == second
