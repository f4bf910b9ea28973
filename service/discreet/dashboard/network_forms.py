"""The form of a new network: its fields, the options that they give the reader of files, and the
reader's errors in the words of the form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.dashboard import forms
from discreet.errors import FieldIssue
from discreet.isolation.network_files import ENCODINGS
from discreet_client.networks.columns import LINK_ROLES, NODE_ROLES, units_of_headings
from discreet_client.networks.measures import KILOMETRES, SPEEDS

COLUMNS = "columns"
FILES = "files"
MOST_COLUMNS = 120
"""Columns of two files, each with its name and its meaning."""


@dataclass(frozen=True)
class Choice:
    """A field with a choice of values; the empty one gives the reader no option."""

    name: str
    label: str
    options: Sequence[tuple[str, str]]
    hint: str = ""


@dataclass(frozen=True)
class Figure:
    """A field that holds a number, or nothing."""

    name: str
    label: str
    hint: str = ""


UNITS = (
    Choice(
        "length_unit",
        "Lengths in the file are in",
        [("", "–"), ("km", "km"), ("m", "m"), ("mi", "miles"), ("ft", "feet")],
    ),
    Choice(
        "speed_unit",
        "Speeds in the file are in",
        [("", "–"), ("kph", "km/h"), ("mph", "miles per hour"), ("mps", "m/s")],
        "Both are needed where times follow from lengths and speeds.",
    ),
)
CAPACITIES = (
    Figure(
        "period_minutes",
        "Minutes of a period",
        "For capacities per hour: they are converted to periods of this length. Empty: they stay "
        "as they are.",
    ),
    Figure(
        "lane_capacity",
        "Capacity of one lane",
        "For a file without capacities: multiplied by its column of lanes, if it has one.",
    ),
)
TIMES = (
    Figure("speed", "Speed on all links", "For a file with lengths and no speeds."),
    Choice(
        "time_unit",
        "Unit of times in the file",
        [("", "–"), ("seconds", "seconds"), ("minutes", "minutes"), ("hours", "hours")],
        "Shown with answers; times computed from lengths and speeds are in minutes.",
    ),
)
COSTS = (
    Figure("toll_weight", "Time that a unit of toll is worth", "0: tolls are ignored."),
    Figure("distance_weight", "Time that a unit of length is worth", "Added to the travel time."),
)
READING = (
    Choice(
        "doubled",
        "Duplicate links with the same figures",
        [
            ("refuse", "are refused"),
            ("keep-first", "are taken once"),
            ("sum", "become one link with the sum of their capacities"),
        ],
    ),
    Choice(
        "encoding",
        "CSV files are written in",
        [("", "UTF-8"), *((one, one) for one in ENCODINGS)],
        "Excel writes cp1252 in most of Europe.",
    ),
)
NUMBERS = (
    Choice(
        "decimal",
        "Decimal mark of numbers in CSV files",
        [("", "as the separator tells"), (".", "a point"), (",", "a comma")],
        "Asked where no comma lies between columns and 1.234 may be a fraction or a thousand.",
    ),
)
PAIRS = (UNITS, CAPACITIES, TIMES, COSTS, READING, NUMBERS)
TICKS = (
    ("both_ways", "Links without an opposite one lead both ways"),
    ("through_zones", "Paths may lead through other zones (TNTP files state this themselves)"),
)
BLANK = {
    "name": "",
    **{one.name: "" for pair in PAIRS for one in pair},
    "doubled": "refuse",
    "both_ways": "",
    "through_zones": "yes",
}
LABELS = {
    **{one.name: one.label for pair in PAIRS for one in pair},
    **dict(TICKS),
    "units": "Lengths in the file are in” and “Speeds in the file are in",
}
_FIELDS_OF = {"units": ("length_unit", "speed_unit")}

MEANINGS = {
    "tail": "where a link begins",
    "head": "where it ends",
    "free_flow_time": "time without traffic",
    "length": "its length",
    "speed": "speed without traffic",
    "capacity": "vehicles that it can carry",
    "lanes": "number of lanes",
    "name": "name of the street",
    "directed": "whether it leads one way only",
    "toll": "toll",
    "b": "b of its BPR function",
    "power": "power of its BPR function",
    "fixed_cost": "time added at any flow",
    "node": "its id, as links name it",
    "node_name": "its name for people",
    "x": "to the right, or longitude",
    "y": "upward, or latitude",
    "zone": "the zone that it is",
}
"""The meaning of each role of a column, in words."""


@dataclass(frozen=True)
class Asked:
    """A form as read: the options of the reader, and the errors of its fields."""

    options: dict[str, Any]
    issues: list[FieldIssue] = field(default_factory=list)
    chosen: bool = False
    """Whether the form assigns roles to columns."""


def asked(form: forms.Form) -> Asked:
    """The reader's options in a form, and its errors."""
    options: dict[str, Any] = {"through_zones": bool(form.get("through_zones"))}
    options["both_ways"] = bool(form.get("both_ways"))
    issues = []
    for one in (one for pair in PAIRS for one in pair):
        text = forms.filled(form, one.name)
        if text is None:
            continue
        if isinstance(one, Choice):
            if text not in dict(one.options):
                issues.append(FieldIssue(f"/{one.name}", "not one of the choices"))
            options[one.name] = text
        elif isinstance(number := forms.number(form, one.name), str):
            issues.append(FieldIssue(f"/{one.name}", f"a number is needed, not “{number[:40]}”"))
        else:
            options[one.name] = float(str(number))
    length, speed = options.pop("length_unit", None), options.pop("speed_unit", None)
    if length and speed:
        options["units"] = f"{length},{speed}"
    elif length or speed:
        lacks = "speed_unit" if length else "length_unit"
        issues.append(FieldIssue(f"/{lacks}", "lengths and speeds both need their units"))
    if name := forms.filled(form, "name"):
        options["name"] = name
        if "\0" in name:
            issues.append(FieldIssue("/name", "a NUL character is not allowed"))
    columns, wrong = _columns(form)
    chosen = "column-0" in form
    return Asked({**options, "columns": columns}, [*issues, *wrong], chosen)


def meanings(form: forms.Form) -> dict[tuple[str, str], str]:
    """The role that the form assigns to each column, by its file (links or nodes) and its name."""
    return {
        (form.get(f"of-{place}", ""), _as_read(form[f"column-{place}"])): form.get(
            f"means-{place}", ""
        )
        for place in range(MOST_COLUMNS)
        if f"column-{place}" in form
    }


def _roles(of: str) -> Sequence[str]:
    return LINK_ROLES if of == "links" else NODE_ROLES


def _as_read(column: str) -> str:
    """A name with the ends of lines that spreadsheets write: browsers send others."""
    return column.replace("\r\n", "\n")


def _columns(form: forms.Form) -> tuple[dict[str, str], list[FieldIssue]]:
    said, issues = meanings(form), []
    columns: dict[str, str] = {}
    for (_, column), role in said.items():
        if role and role in columns and columns[role] != column:
            says = f"“{columns[role]}” and “{column}” are both chosen for {role}"
            issues.append(FieldIssue(f"/{COLUMNS}", says))
        elif role:
            columns[role] = column
    for (of, column), role in said.items():
        if not role and column in _roles(of) and column not in columns:
            says = f"a column that is called {column} is always read as {column}"
            issues.append(FieldIssue(f"/{COLUMNS}", f"{says}: choose it, or rename the column"))
    known = {role: column for role, column in columns.items() if role in MEANINGS}
    return {role: column for role, column in known.items() if role != column}, issues


# Errors of the reader -----------------------------------------------------------------------------

CHOICES = {one.name: dict(one.options) for pair in PAIRS for one in pair if isinstance(one, Choice)}
WORDS = {"labels": LABELS, "choices": CHOICES}
"""How its sentences call the fields of this page."""


def issues_of(faults: Sequence[tuple[str, str]]) -> list[FieldIssue]:
    """What it refuses, each sentence beside the field that it is about."""
    fields = {COLUMNS, *LABELS}
    return [
        FieldIssue(f"/{field}", says)
        for about, says in faults
        for field in _FIELDS_OF.get(about, (about if about in fields else FILES,))
    ]


def tables(columns: Sequence[Mapping[str, Any]], form: forms.Form) -> list[dict[str, Any]]:
    """The columns of files as the form asks about them, each with the role that was chosen before,
    or else with the reader's guess."""
    said, place, found = meanings(form), 0, []
    for table in columns:
        rows = []
        for name, guessed in table["columns"][: MOST_COLUMNS - place]:
            means = said.get((table["of"], name), guessed)
            rows.append({"place": place, "name": name, "means": means})
            place += 1
        roles = [(role, f"{role}: {MEANINGS[role]}") for role in table["roles"]]
        found.append({**table, "rows": rows, "roles": roles})
    return found


def with_units(columns: Sequence[Mapping[str, Any]], form: forms.Form) -> forms.Form:
    """The form, in which units that the headings name are proposed when columns are first asked
    about; what was typed stays."""
    if "column-0" in form or forms.filled(form, "length_unit") or forms.filled(form, "speed_unit"):
        return form
    links = [table for table in columns if table["of"] == "links"]
    named = units_of_headings(dict(links[0]["columns"])) if len(links) == 1 else None
    if named is None:
        return form
    of = zip(("length_unit", "speed_unit"), (KILOMETRES, SPEEDS), named, strict=True)
    return {
        **form,
        **{
            field: next(one for one in CHOICES[field] if sizes.get(one) == sizes[unit])
            for field, sizes, unit in of
        },
    }


def columns_before(form: forms.Form) -> list[dict[str, Any]]:
    """The columns that the form was sent with, for files that could not be read this time."""
    found: dict[str, dict[str, Any]] = {}
    for (of, column), role in meanings(form).items():
        blank = {"file": "", "of": of, "roles": _roles(of), "columns": [], "more": 0}
        found.setdefault(of, blank)["columns"].append([column, role])
    return list(found.values())
