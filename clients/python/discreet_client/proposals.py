"""What the form of a table suggests for its description: which column is which by its name, and how
its texts are written. Nothing here decides what a cell means: an owner sees a proposal, and says
it, or something else, as the description.

Bounds, zones, edges and periods are never proposed: they would come from the data.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from discreet_client.cells import AS_WRITTEN, Refusal
from discreet_client.meters import is_energy, is_no_meter
from discreet_client.tables import Table, is_unit, missing

LOOKED_AT = 10_000
"""Rows, of which the form is looked at."""
WHO = ("user", "id", "name", "subject", "kennung", "nummer", "nr")
WHEN = (
    *("date", "datetime", "timestamp", "when", "day", "departure", "start"),
    *("datum", "zeit", "uhrzeit", "zeitstempel", "zeitpunkt", "tag", "abfahrt", "beginn"),
)
ROLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "routing": {
        "origin": (
            *("from", "o", "start", "source", "orig", "pickup", "tail"),
            *("von", "quelle", "start_zone", "startzone", "herkunft", "quellzelle"),
        ),
        "destination": (
            *("to", "d", "end", "target", "dest", "dropoff", "head"),
            *("nach", "ziel", "end_zone", "zielzone", "zielzelle"),
        ),
        "time": WHEN,
        "period": ("hour", "slot", "interval", "stunde", "periode"),
        "count": ("trips", "demand", "flow", "volume", "number", "n", "anzahl", "fahrten", "wege"),
        "person": ("traveller", "device", "household", "card", "reisender", *WHO),
        "user_class": ("class", "mode", "vehicle", "klasse", "modus"),
    },
    "dr_ensemble": {
        "participant": (
            *("meter", "customer", "household", "device", "site"),
            *("zahler", "zaehler", "zahlpunkt", "kunde", "haushalt", *WHO),
        ),
        "time": WHEN,
        "kwh": ("energy", "energie", "arbeit", "verbrauch", "consumption"),
        "kw": ("power", "load", "value", "kilowatt", "leistung", "last", "wert"),
        "step": ("period", "t"),
        "state": ("s", "bin", "level"),
    },
    "off_policy_evaluation": {
        "patient": (
            *("pid", "person", "episode", "patienten", "patientin", "patnr", "patientennummer"),
            *("proband", "fall", "unit", *WHO),
        ),
        "time": ("visit", "week", "month", "visite", "besuch", "woche", "monat", *WHEN),
        "action": ("treatment", "a", "therapie", "behandlung", "medikation"),
        "reward": ("r", "outcome", "score", "ergebnis", "erfolg"),
        "probability": ("behaviour", "propensity", "p_behaviour"),
        "target": ("p_target", "target_probability"),
        "terminal": ("done", "last", "end"),
        "state": ("s", "status"),
    },
}
"""Other words for a column of a reader, as `plain` has them."""
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( *[ap]m)?", re.ASCII | re.IGNORECASE)
_DAY = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}", re.ASCII)
_SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/\d{4}(?: .*)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d*,\d+", re.ASCII)
_THREE = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)
_POINT = re.compile(r"[+-]?\d*\.\d+", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}([.,'’ \xa0\u202f])\d{3}(?:\1\d{3})*([.,]\d+)?", re.ASCII)

STEP = re.compile(
    r"trajectory|step|state|next_state|x_\d+|x_next_\d+|reward|terminal|behaviour|target"
)
"""Columns of trajectories' steps, which the service has by these names."""


def plain(name: str) -> str:
    """A name in small letters of ASCII: `Zähler-Nr.` is `zahler_nr`."""
    letters = unicodedata.normalize("NFD", name.replace("ß", "ss")).encode("ascii", "ignore")
    return re.sub("[^a-z0-9]+", "_", letters.decode().lower()).strip("_")


def proposed(
    kind: str, table: Table, public: Mapping[str, Any], rules: Mapping[str, Any]
) -> dict[str, Any]:
    """{reader, columns}: what this table may be described by, with the rules that it was opened
    by."""
    texts = {name: _texts(table, name) for name in table.columns}
    reader: dict[str, Any] = dict(rules)
    if "units_row" not in rules and _has_units(texts):
        reader["units_row"] = True
        texts = {name: own[1:] for name, own in texts.items()}
    cells = [one for own in texts.values() for one in own if one]
    reader |= {**_numbers(cells, table.grammar.separator), **_dates(cells)}
    columns = roles(kind, list(table.columns), public)
    _halve(columns, texts)
    if kind == "dr_ensemble" and not {"kw", "kwh", "state"} & set(columns) and "time" in columns:
        whole = columns["time"].split("+")
        meters = [name for name in texts if name not in whole and name != columns["time"]]
        if len(meters) > 1:
            others = [name for name in meters if is_no_meter(name)]
            reader |= {"participants": "columns", **({"except": others} if others else {})}
            if any(map(is_energy, meters)):
                reader["units"] = "kWh"
            columns = {"time": columns["time"]}
    return {"reader": reader, "columns": columns}


def roles(kind: str, names: Sequence[str], public: Mapping[str, Any]) -> dict[str, str]:
    """The likeliest column for each of a reader's: by its own name, by another word for it, by a
    part of it. A mere `id` is the last choice for whose a row is: it may number the rows."""
    if kind == "off_policy_evaluation":
        said = {plain(name): name for name in names}
        if {"trajectory", "step"} <= said.keys() and "patient" not in said:
            return {role: name for role, name in said.items() if STEP.fullmatch(role)}
    known = dict(ROLES.get(kind, {}))
    if kind == "routing":
        if public.get("unit") != "person":
            known.pop("person")
        if not public.get("user_classes"):
            known.pop("user_class")
    ranges = public.get("ranges")
    features = [
        str(told["name"])
        for told in (ranges if isinstance(ranges, list) else ())
        if isinstance(told, Mapping) and "name" in told
    ]
    known = {**dict.fromkeys(features, ()), **known}
    plains = {name: plain(name) for name in names}
    rounds: list[Callable[[str, Sequence[str], str], bool]] = [
        lambda role, _, name: name == plain(role),
        lambda _, words, name: name != "id" and name in words,
        lambda role, words, name: any(
            len(word) > 1 and word != "id" and word in name.split("_")
            for word in (plain(role), *words)
        ),
        lambda _, words, name: "id" in words and "id" in name.split("_"),
    ]
    chosen: dict[str, str] = {}
    for fits in rounds:
        for role, words in known.items():
            if role in chosen:
                continue
            for name, called in plains.items():
                if name in chosen.values() or (role in ("kw", "kwh") and is_no_meter(name)):
                    continue
                if role == "kw" and is_energy(name):
                    continue
                if fits(role, words, called) or (role == "kwh" and is_energy(name)):
                    chosen[role] = name
                    break
    if "kw" in chosen:
        chosen.pop("kwh", None)
    return {role: chosen[role] for role in known if role in chosen}


def _texts(table: Table, name: str) -> list[str]:
    """The cells of the first rows; empty where nothing stands."""
    values = table.columns[name][:LOOKED_AT]
    lacks = missing(values).tolist()
    return [
        "" if lack else str(value).strip()
        for value, lack in zip(values.tolist(), lacks, strict=True)
    ]


def _is_value(text: str) -> bool:
    return not isinstance(AS_WRITTEN.number(text), Refusal) or any(one.isdigit() for one in text)


def _has_units(texts: Mapping[str, Sequence[str]]) -> bool:
    """Whether the first row has a unit where others have values, and no value."""
    if not texts or len(next(iter(texts.values()))) < 2:
        return False
    below = {name: [one for one in own[1:] if one] for name, own in texts.items()}
    unit = [is_unit(own[0]) and any(map(_is_value, below[name])) for name, own in texts.items()]
    return any(unit) and not any(_is_value(own[0]) for own in texts.values() if own[0])


def _numbers(cells: Iterable[str], separator: str) -> dict[str, str]:
    """`decimal` and `thousands` where texts are refused without them and show which it is."""
    three = comma = point = False
    marks = set[tuple[str, str]]()
    for text in cells:
        three |= _THREE.fullmatch(text) is not None
        comma |= _COMMA.fullmatch(text) is not None
        point |= _POINT.fullmatch(text) is not None and _THREE.fullmatch(text) is None
        found = _GROUPED.fullmatch(text)
        whole = found is not None and (
            found[2] or text.count(found[1]) > 1 or found[1] in "'’ \xa0\u202f"
        )
        if found is not None and whole and (found[2] or "")[:1] != found[1]:
            marks.add((found[1], (found[2] or "")[:1]))
    if marks:
        ((mark, last), *_) = sorted(marks, reverse=True)
        mark = {"’": "'", "\xa0": " ", "\u202f": " "}.get(mark, mark)
        decimal = last or {".": ",", ",": "."}.get(mark, "," if comma else ".")
        return {"decimal": decimal, "thousands": mark}
    if three and separator != ",":
        if comma and not point:
            return {"decimal": ",", "thousands": "."}
        return {"decimal": "."} if point and not comma else {}
    return {"decimal": ","} if comma and separator == "," and not point else {}


def _dates(cells: Iterable[str]) -> dict[str, str]:
    """`dates` where a day above 12 shows which number it is."""
    found = [match for text in cells if (match := _SLASHED.fullmatch(text))]
    day = any(int(one[1]) > 12 for one in found)
    month = any(int(one[2]) > 12 for one in found)
    if day == month:
        return {}
    return {"dates": "day_first" if day else "month_first"}


def _halve(columns: dict[str, str], texts: Mapping[str, Sequence[str]]) -> None:
    """`Date+Time` where days and times of day stand in two columns."""
    if "time" not in columns:
        return

    def all_of(name: str, like: re.Pattern[str]) -> bool:
        own = [one for one in texts[name] if one]
        return bool(own) and all(map(like.fullmatch, own))

    first = columns["time"]
    rest = [name for name in texts if name not in columns.values()]
    if all_of(first, _DAY):
        clocks = [name for name in rest if all_of(name, _CLOCK)]
        if len(clocks) == 1:
            columns["time"] = f"{first}+{clocks[0]}"
    elif all_of(first, _CLOCK):
        days = [name for name in rest if all_of(name, _DAY)]
        if len(days) == 1:
            columns["time"] = f"{days[0]}+{first}"
