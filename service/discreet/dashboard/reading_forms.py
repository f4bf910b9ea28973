"""The form of how a file is read: its columns, the reader's rules, what was understood of it.

The service reads the file; here texts of fields become `public.reader` and `public.columns`, and
back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.dashboard import forms
from discreet.errors import DiscreetError, FieldIssue, InvalidInput
from discreet.isolation.network_files import ENCODINGS
from discreet.problems import DATASETS
from discreet.problems.datasets import Column, ReaderRule
from discreet.web import bodies

MOST_SHOWN = 12
"""Columns of a file of which the first rows are shown."""
OF_FILES = (
    ReaderRule(
        "encoding",
        "The file is written in",
        "choice",
        ((None, "UTF-8"), *((one, one) for one in ENCODINGS)),
        "Excel writes cp1252 in most of Europe.",
    ),
    ReaderRule(
        "decimal",
        "Decimal mark",
        "choice",
        ((None, "as the separator tells"), (".", "a point"), (",", "a comma")),
        "Asked where 1.234 may be a fraction or a thousand.",
    ),
    ReaderRule(
        "thousands",
        "Mark of thousands",
        "choice",
        (
            (None, "none"),
            (".", "a point"),
            (",", "a comma"),
            ("'", "an apostrophe"),
            (" ", "a space"),
        ),
    ),
    ReaderRule(
        "dates",
        "In the file 01/02/2026 is",
        "choice",
        (
            (None, "not there"),
            ("day_first", "1 February: the day first"),
            ("month_first", "January 2: the month first"),
        ),
    ),
    ReaderRule(
        "units_row",
        "Below the names of columns",
        "choice",
        ((None, "rows begin"), (True, "a row of units stands")),
    ),
    ReaderRule(
        "missing_words",
        "Texts that stand for a missing value",
        "lines",
        says="One a line, such as unknown or -99; NA and empty cells always do. It is public.",
    ),
    ReaderRule("sheet", "Sheet of an Excel file", says="Empty: its only one."),
)
"""Rules of how a file is written, whatever its kind."""


@dataclass(frozen=True)
class Known:
    """What the reader of a kind knows for a public part: its columns, and its rules."""

    columns: Sequence[Column]
    rules: Sequence[ReaderRule]


def known(kind: str, public: Any) -> Known:
    """Nothing where the public part is invalid, which its look reports."""
    told = public if isinstance(public, Mapping) else {}
    plain = {name: one for name, one in told.items() if name not in ("reader", "columns")}
    try:
        read = DATASETS[kind].read_public(plain)
    except (KeyError, ValueError):
        return Known((), OF_FILES)
    dataset = DATASETS[kind]
    return Known(dataset.columns(read), (*dataset.reader_rules(read), *OF_FILES))


# From fields to the description -------------------------------------------------------------------


def described(form: forms.Form, kind: str, public: Mapping[str, Any]) -> dict[str, Any]:
    """The public part with the description that the form says; rules that it does not show stay.
    InvalidInput, with the pointers of all fields that are wrong."""
    there, issues = known(kind, public), list[FieldIssue]()
    reader = {name: one for name, one in (public.get("reader") or {}).items() if name != "version"}
    for rule in there.rules:
        if f"rule-{rule.name}" not in form:
            continue
        reader.pop(rule.name, None)
        try:
            value = _value(rule, form)
        except ValueError as error:
            issues.append(FieldIssue(f"/public/reader/{rule.name}", f"{rule.asks}: {error}"))
            continue
        if value is not None:
            reader[rule.name] = value
    columns = {}
    for column in there.columns:
        if name := form.get(f"column-{column.name}", ""):
            clock = form.get(f"clock-{column.name}", "")
            columns[column.name] = f"{name}+{clock}" if clock and clock != name else name
    if issues:
        raise InvalidInput(issues)
    rest = {name: one for name, one in public.items() if name not in ("reader", "columns")}
    said = {"reader": reader, "columns": columns}
    return {**rest, **{name: one for name, one in said.items() if one}}


def _value(rule: ReaderRule, form: forms.Form) -> Any:
    """The value of a rule; None where nothing is said. ValueError for a text that is none."""
    text = form[f"rule-{rule.name}"].replace("\r\n", "\n").strip()
    if rule.sort == "zones" and (network := form.get("rule-zones-network")):
        return {"network": network}
    if not text:
        return None
    if rule.sort == "choice":
        if not text.isascii() or not text.isdigit() or int(text) >= len(rule.choices):
            raise ValueError("one of the choices is needed")
        return rule.choices[int(text)][0]
    if rule.sort == "number":
        return forms.number(form, f"rule-{rule.name}")
    if rule.sort in ("lines", "zones", "figures", "policy") and text[0] in "[{":
        return _json(text)
    if rule.sort in ("lines", "zones"):
        return [line.strip() for line in text.split("\n") if line.strip()]
    if rule.sort == "figures" or (rule.sort == "policy" and not _is_rule(text)):
        return dict(_figure(line) for line in text.split("\n") if line.strip())
    return text


def _json(text: str) -> Any:
    try:
        return bodies.value_of(text.encode())
    except InvalidInput:
        raise ValueError("this is not JSON") from None


def _is_rule(text: str) -> bool:
    return "->" in text or "→" in text or text.startswith("else ")


def _figure(line: str) -> tuple[str, Any]:
    """`treat: 2/3`, or without the colon, as a name and what it counts."""
    name, mark, figure = (part.strip() for part in line.strip().rpartition(":"))
    if not mark:
        name, _, figure = line.strip().rpartition(" ")
    if not name.strip() or not figure:
        raise ValueError(f"a line is a name and a number, such as treat: 2/3, not “{line[:40]}”")
    number = forms.number({"": figure.replace(",", ".")}, "")
    return name.strip(), figure if isinstance(number, str) else number


# From the description to fields -------------------------------------------------------------------


def shown(
    kind: str,
    public: Mapping[str, Any],
    found: Mapping[str, Any] | None,
    typed: forms.Form,
    refused: DiscreetError | None,
) -> dict[str, Any]:
    """What the template shows: fields with their values and errors, and the outcome of the look.

    `found`: of `usecases.reads`; None where there is no file. `typed`: the fields as they were
    sent, which stay where the form was refused.
    """
    there = known(kind, public)
    proposal = (found or {}).get("proposal") or {}
    is_said = bool(public.get("reader") or public.get("columns"))
    said = public if is_said else proposal
    reader, chosen = said.get("reader") or {}, said.get("columns") or {}
    names = list((found or {}).get("columns", ()))
    issues = [_issue(one) for one in (found or {}).get("issues", ())]
    own = list(getattr(refused, "issues", ()))
    issues += [
        _issue({"way_out": _way_of(one.pointer), **(one.more or {}), "detail": one.detail})
        for one in own
        if one.detail not in {other["detail"] for other in issues}
    ]
    wrong: dict[str, list[str]] = {}
    fields = {f"rule-{rule.name}": rule.asks for rule in there.rules}
    fields |= {f"column-{column.name}": column.name for column in there.columns}
    for one in issues:
        if one["field"] in fields:
            wrong.setdefault(one["field"], []).append(one["detail"])
            one["label"] = fields[one["field"]]
    rules = [_rule(rule, reader, typed, wrong) for rule in there.rules]
    return {
        "columns": [_column(one, chosen, names, typed, wrong) for one in there.columns],
        "rules": [one for one in rules if one["name"] not in _OF_FILES or one["set"]],
        "more": [one for one in rules if one["name"] in _OF_FILES and not one["set"]],
        "names": names,
        "issues": issues,
        "found": found,
        "table": _table(found, chosen),
    }


_OF_FILES = {rule.name for rule in OF_FILES}


def _way_of(pointer: str) -> str | None:
    """The rule that an error of the form itself is about."""
    prefix = "/public/reader/"
    return f"reader.{pointer.removeprefix(prefix)}" if pointer.startswith(prefix) else None


def _issue(one: Mapping[str, Any]) -> dict[str, Any]:
    """A mistake, with the id of the field that mends it."""
    way = str(one.get("way_out") or "")
    sort, _, name = way.partition(".")
    field = ""
    if sort == "reader":
        field = f"rule-{name.partition('.')[0]}"
    elif sort == "columns":
        field = f"column-{name}" if name else "columns"
    elif sort == "public":
        field = "change"
    count = one.get("count") or 1
    last = one.get("last")
    more = f" (and {count - 1:,} more like this{f', up to {last:,}' if last else ''})"
    detail = str(one["detail"])
    return {
        "detail": detail + (more if count > 1 and "more like this" not in detail else ""),
        "field": field,
        "label": {"columns": "the columns", "change": "the public part"}.get(field, ""),
    }


def _column(
    column: Column,
    chosen: Mapping[str, str],
    names: Sequence[str],
    typed: forms.Form,
    wrong: Mapping[str, list[str]],
) -> dict[str, Any]:
    name = chosen.get(column.name, "")
    day, clock = name, ""
    if name and name not in names and "+" in name:
        day, _, clock = (part.strip() for part in name.partition("+"))
    field = f"column-{column.name}"
    return {
        "field": field,
        "column": column,
        "chosen": typed.get(field, day),
        "clock": typed.get(f"clock-{column.name}", clock),
        "wrong": wrong.get(field, []),
    }


def _rule(
    rule: ReaderRule,
    reader: Mapping[str, Any],
    typed: forms.Form,
    wrong: Mapping[str, list[str]],
) -> dict[str, Any]:
    field, value = f"rule-{rule.name}", reader.get(rule.name)
    network = value["network"] if isinstance(value, Mapping) and "network" in value else ""
    text = typed[field] if field in typed else "" if network else _text(rule, value)
    return {
        "name": rule.name,
        "field": field,
        "rule": rule,
        "text": text,
        "network": typed.get("rule-zones-network", network),
        "set": bool(value is not None or field in wrong),
        "wrong": wrong.get(field, []),
    }


def _text(rule: ReaderRule, value: Any) -> str:
    """A value as its field has it; as JSON where it is of another sort."""
    if rule.sort == "choice":
        known_ = [one for one, _ in rule.choices]
        return str(known_.index(value)) if value in known_ else "0"
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if rule.sort in ("lines", "zones") and _all_texts(value):
        return "\n".join(value)
    if rule.sort in ("figures", "policy") and isinstance(value, Mapping):
        return "\n".join(f"{name}: {one}" for name, one in value.items())
    return json.dumps(value, ensure_ascii=False)


def _all_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _table(found: Mapping[str, Any] | None, chosen: Mapping[str, str]) -> dict[str, Any] | None:
    """The first rows: cells as written, those of chosen columns first, and what each row means."""
    if not found or not found.get("rows"):
        return None
    rows = found["rows"]
    used = [part.strip() for name in chosen.values() for part in (name, *name.split("+"))]
    written = list(rows[0]["cells"])
    names = sorted(written, key=lambda name: name not in used)[:MOST_SHOWN]
    roles: dict[str, list[str]] = {}
    for role, name in chosen.items():
        for part in {name, *(one.strip() for one in name.split("+"))}:
            roles.setdefault(part, []).append(role)
    return {
        "names": [(name, ", ".join(roles.get(name, ()))) for name in names],
        "more": len(written) - len(names),
        "rows": [
            {
                "row": one["row"],
                "cells": [one["cells"].get(name) for name in names],
                "meaning": [_meaning(record) for record in one["meaning"]],
            }
            for one in rows
        ],
    }


def _meaning(record: Mapping[str, Any]) -> str:
    told = {name.replace("_", " "): one for name, one in record.items() if one is not None}
    return ", ".join(
        f"{name} {one:.6g}" if isinstance(one, float) else f"{name} {one}"
        for name, one in told.items()
    )
