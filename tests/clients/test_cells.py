"""What cells and files mean: `cells.jsonl`, one row each, by the client's reader and by the service's.

`of`: number, a reading's kW; time, when it was; zones, numbers of two zones; people, how many
persons two names are; file, trips. `in`: the text; `rules`: of the description; `is`: what it
means; or `refused`: of the sentence. `service`: what the service's own reader of uploads says
where that is something else; it has no rules, and rows with rules are none for it.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from discreet.errors import InvalidInput
from discreet.isolation import reading
from discreet.problems.columns import check_names, owner_column, real_column
from discreet_client import readers
from discreet_client.tables import TableError

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("cells.jsonl").read_text("utf-8").splitlines()
]
ZONE = {"time_zone": "Europe/Berlin"}
TRIPS = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60}
PLAIN = "2026-11-21T15:00Z"


def text_of(row: dict[str, Any]) -> str:
    """The file that has the row's cell."""
    mark, cell = row.get("separator", ";"), row["in"]
    match row["of"]:
        case "number":
            return mark.join(("participant", "time", "kw")) + "\n" + mark.join(("a", PLAIN, cell))
        case "time":
            return f"participant;time;kw\na;{cell};1\n"
        case "zones":
            return f"origin;destination\n{cell[0]};{cell[1]}\n"
        case "people":
            rows = "".join(f"1;2;{name}\n" for name in cell)
            return f"origin;destination;person\n{rows}"
    return str(cell)


def by_the_client(row: dict[str, Any], path: Path) -> Any:
    path.write_bytes(text_of(row).encode(row.get("encoding", "utf-8")))
    rules = row.get("rules", {})
    if row["of"] in ("number", "time"):
        found = readers.read("dr_ensemble", path, {"reader": {**ZONE, **rules}}).columns
        if row["of"] == "time":
            return found["time"].tolist()[0]
        return found["kw"].tolist()[0] if found["kw"].size else None
    zones = {"zones": row["zones"]} if "zones" in row else {}
    public = {**TRIPS, "unit": "person" if row["of"] == "people" else "request"}
    found = readers.read("routing", path, {**public, "reader": {**rules, **zones}}).columns
    pairs = [list(one) for one in zip(found["origin"].tolist(), found["destination"].tolist())]
    match row["of"]:
        case "zones":
            return pairs[0]
        case "people":
            return len(set(found["person"].tolist()))
    return pairs


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['of']}-{row['in']!r:.30}")
def test_the_client(row: dict[str, Any], tmp_path: Path) -> None:
    if "refused" in row:
        with pytest.raises(TableError) as refused:
            by_the_client(row, tmp_path / "table.csv")
        assert row["refused"] in str(refused.value)
    else:
        assert by_the_client(row, tmp_path / "table.csv") == row["is"]


class Kind:
    """Of the service: it takes a table as it comes."""

    OWNER, ROW_BYTES = "person", 1

    @staticmethod
    def by_units(*_: Any) -> None:
        return None

    @staticmethod
    def read_batches(_: Any, batches: Any, schema: Any) -> pa.Table:
        table = pa.Table.from_batches(list(batches), schema)
        assert table.column_names
        return table


def by_the_service(row: dict[str, Any]) -> Any:
    """What its reader of uploads makes of the columns, by the checks of all kinds."""
    content = text_of(row).encode(row.get("encoding", "utf-8"))
    job = {"format": "csv", "content_bytes": 1 << 30}
    table = reading._content(Kind, {}, lambda: io.BytesIO(content), job)
    if row["of"] == "people":
        return len(set(owner_column(table, "person", "/content").tolist()))
    names = ["kw"] if row["of"] == "number" else ["origin", "destination"]
    if row["of"] == "file":
        check_names(table, names, (), "/content")
    columns = [real_column(table, name, "/content") for name in names]
    if row["of"] == "number":
        return float(columns[0][0])
    return [list(one) for one in zip(*(column.tolist() for column in columns), strict=True)]


OF_SERVICE = [
    row
    for row in ROWS
    if "rules" not in row
    and row["of"] in ("number", "people", "file")
    and row.get("service") != "not looked at here"  # but by each kind: what is not finite
]


@pytest.mark.parametrize("row", OF_SERVICE, ids=lambda row: f"{row['of']}-{row['in']!r:.30}")
def test_the_service(row: dict[str, Any]) -> None:
    """Where it says something else, the row has it."""
    expected = row.get("service", row.get("is", InvalidInput))
    if expected is InvalidInput or isinstance(expected, str):
        with pytest.raises(InvalidInput) as refused:
            by_the_service(row)
        assert not isinstance(expected, str) or expected in str(refused.value)
    else:
        assert by_the_service(row) == expected


def test_there_are_enough() -> None:
    assert len(ROWS) >= 120
    assert len({json.dumps(row, sort_keys=True) for row in ROWS}) == len(ROWS)
