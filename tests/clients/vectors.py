"""What cells and files mean: the rows of `cells.jsonl`, each as a file and a description of it, as
every surface is given them.

`of`: number, a reading's kW; time, when it was; meters, when the readings of a file were; zones,
numbers of two zones; people, how many persons two names are; file, trips. `in`: the text; `rules`
and `columns`: of the description; `is`: what it means; or `refused`: of the sentence. `service`:
what the service's own reader of uploads says where that is something else; it has no rules, and
rows with rules are none for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
ROWS: list[Row] = [
    json.loads(line)
    for line in Path(__file__).with_name("cells.jsonl").read_text("utf-8").splitlines()
]
ZONE = {"time_zone": "Europe/Berlin"}
TRIPS = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60}
PLAIN = "2026-11-21T15:00Z"
METERS = {"unit": "participant", "states": 2, "edges": [0, 2, 9]}
NUMBERS = {row["is"] for row in ROWS if row["of"] == "number" and row.get("is") is not None}
EDGES = [-1e7, *sorted(one + near * 1e-6 for one in NUMBERS for near in (-1, 1)), 1e7]
"""A bin of its own for each number of the rows."""


def name_of(row: Row) -> str:
    return f"{row['of']}-{row['in']!r:.30}"


def text_of(row: Row) -> str:
    """The file that has the row's cell; of a number another reading stands below it."""
    mark, cell = row.get("separator", ";"), row["in"]
    match row["of"]:
        case "number":
            lines = [("participant", "time", "kw"), ("a", PLAIN, cell), ("b", PLAIN, "1")]
            return "\n".join(map(mark.join, lines))
        case "time":
            return f"participant;time;kw\na;{cell};1\nb;{cell};1\n"
        case "zones":
            return f"origin;destination\n{cell[0]};{cell[1]}\n"
        case "people":
            rows = "".join(f"1;2;{name}\n" for name in cell)
            return f"origin;destination;person\n{rows}"
    return str(cell)


def content_of(row: Row) -> bytes:
    return text_of(row).encode(row.get("encoding", "utf-8"))


def described(row: Row) -> tuple[str, dict[str, Any]]:
    """Kind and public part of a dataset that is the row's file. Of readings they tell apart what
    the row says from everything else: a number has a bin of its own, and a time a period."""
    rules, told = row.get("rules", {}), row.get("is")
    if row["of"] in ("zones", "people", "file"):
        zones = {"zones": row["zones"]} if "zones" in row else {}
        public: dict[str, Any] = {**TRIPS, "zones": max(2, len(row.get("zones", ())))}
        public["unit"] = "person" if row["of"] == "people" else "request"
        columns = {"origin": "origin"}  # with no word of a description it would be proposed
        return "routing", {**public, "reader": {**rules, **zones}, "columns": columns}
    steps = 9 + ROWS.index(row)  # other arrays in each row: no two rows are one dataset
    public = {**METERS, "steps": steps}
    meters = {"start": PLAIN, "interval_seconds": 60, "carry": steps, "gaps": "leave_out"}
    if row["of"] == "number":
        public |= {"states": len(EDGES) - 1, "edges": EDGES}
    elif row["of"] == "time":
        meters |= {"start": told or PLAIN}
        if rules.get("time_zone", "") is None:
            meters |= {"utc_offset": "+01:00"}
    else:
        meters |= {"start": told[0] if told else PLAIN, "interval_seconds": 1800}
    if row.get("of") != "meters" or "interval_seconds" not in row.get("refused", ""):
        public["meters"] = meters
    return "dr_ensemble", {
        **public,
        "reader": {**ZONE, **rules},
        "columns": row.get("columns", {}),
    }


def meaning_of(row: Row, columns: Mapping[str, Any]) -> Any:
    """What the row's cell is in what was read, as `is` says it."""
    match row["of"]:
        case "number":
            figures = columns["kw"].tolist()
            return figures[0] if len(figures) == 2 else None
        case "time":
            return columns["time"].tolist()[0]
        case "meters":
            return columns["time"][columns["participant"] == 0].tolist()
        case "people":
            return len(set(columns["person"].tolist()))
    ends = (columns[name].tolist() for name in ("origin", "destination"))
    pairs = [list(pair) for pair in zip(*ends, strict=True)]
    return pairs[0] if row["of"] == "zones" else pairs
