"""The quick way through a table takes nothing that the reader of whole tables refuses, and makes
the same content of what it takes; it does take what is as it should be."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from discreet.errors import DiscreetError
from discreet.isolation import quick, reading, tables
from discreet.problems import DATASETS

Columns = dict[str, Any]

SEEDS = 40
CELLS = (
    *("", "NA", "null", "N/A", "nan", "NaN", "inf", "-inf", "-0", "-0.0", "0", "1", "2", "1.0"),
    *("1.5", "1e0", "1e400", "0x1", "1_0", "01", "+1", " 1", "1 ", "\t1", "-1", "2147483648"),
    *("9007199254740993", "9223372036854775808", "99999999999999999999", "0.1", ".5", "5."),
    *("0.30000000000000004", "true", "FALSE", "True", "yes", "anna", "Ä", "A\u0308", "7.0", "007"),
    *("\ufeff1", "1\x00", "2026-10-01", "2026-10-02", "2026-10-01 00:30:00", "2026-10-01T01:00Z"),
    *("2026-10-01T01:00:00.5", "2026-10-01T01:00:00+02:00", "2026-13-01", "1,5", "1;5", '"1"'),
    *('"1', '1"', '"1\n"', '"1\r\n1"', '"', '""', '"1""1"', "1\r1", "\n1", "x" * 300, "1" * 300),
)
ENDS = ("\n", "\n", "\n", "\r\n", "\r", "\n\n")


def forms() -> Iterator[tuple[str, dict[str, Any], Columns, str | None]]:
    """Kind, public part, columns of some rows and block of tables that are good."""
    routing: dict[str, Any] = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
    n = 120
    draw = np.random.default_rng(1)
    trips: Columns = {
        "period": draw.integers(0, 2, n),
        "origin": draw.integers(1, 4, n),
        "destination": draw.integers(1, 4, n),
        "count": draw.integers(0, 9, n),
    }
    yield "routing", routing, trips, None
    halves = {**trips, "count": trips["count"] / 2}
    yield "routing", {**routing, "trip_scale": 2}, halves, None
    persons = {**trips, "person": [f"p{row // 4}" for row in range(n)]}
    yield "routing", {**routing, "unit": "person"}, persons, None
    for day in ("2026-10-01", date(2026, 10, 1), datetime(2026, 10, 1, 23, 59, 59)):
        yield "routing", routing, {**trips, "date": [day] * n}, "2026-10-01"
    public: dict[str, Any] = {"unit": "trajectory", "reward_bound": 1, "horizon": 4}
    shared: Columns = {
        "trajectory": [row // 4 for row in range(n)],
        "step": [row % 4 for row in range(n)],
        "reward": draw.integers(-8, 9, n) / 8 + 0.0,
        "terminal": [row % 4 == 3 for row in range(n)],
    }
    states: Columns = {"state": draw.integers(0, 3, n), "next_state": draw.integers(0, 3, n)}
    yield "off_policy_evaluation", {**public, "states": 3}, shared | states, None
    chances: Columns = {"behaviour": [0.5] * n, "target": draw.random(n)}
    names: Columns = {"trajectory": [f"n{row // 4 % 7}{row // 28}" for row in range(n)]}
    whole = shared | states | chances | names | {"action": ["a"] * n}
    yield "off_policy_evaluation", {**public, "states": 3, "max_ratio": 3}, whole, None
    flat: Columns = {
        f"{name}_{axis}": draw.random(n) for name in ("x", "x_next") for axis in (0, 1)
    }
    yield "off_policy_evaluation", {**public, "features": 2}, shared | flat, None
    ensemble: dict[str, Any] = {"unit": "participant", "states": 3}
    walks: Columns = {
        "participant": shared["trajectory"],
        "step": shared["step"],
        "state": states["state"],
    }
    yield "dr_ensemble", ensemble, walks, None
    rule: dict[str, Any] = {
        "start": "2026-10-01T00:00:00Z",
        "interval_seconds": 3600,
        "gaps": "leave_out",
    }
    metered: dict[str, Any] = {
        **ensemble,
        "edges": [0, 1, 2, 4],
        "meters": {**rule, "utc_offset": "+00:00"},
    }
    clock = [datetime(2026, 10, 1, row % 4) for row in range(n)]
    yield "dr_ensemble", metered, walks, None
    for time in (clock, [f"{moment:%Y-%m-%d %H:%M:%S.5+00:00}" for moment in clock]):
        kw = draw.random(n) * 4
        yield (
            "dr_ensemble",
            metered,
            {"participant": names["trajectory"], "time": time, "kw": kw},
            None,
        )


FORMS = list(forms())


def lines_of(columns: Columns) -> list[list[str]]:
    """The rows of a CSV file, the names first."""
    sink = io.BytesIO()
    options = pc.WriteOptions(quoting_style="none")
    pc.write_csv(pa.table({name: list(column) for name, column in columns.items()}), sink, options)
    return [line.split(",") for line in sink.getvalue().decode().splitlines()]


def spoilt(draw: random.Random, rows: list[list[str]]) -> bytes:
    """The file with some places that are wrong, or only unusual."""
    rows = [list(row) for row in rows]
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        row = draw.choice(rows[draw.choice((0, 1)) :])
        match draw.randrange(9):
            case 0:
                row.append(draw.choice(CELLS))
            case 1:
                del row[draw.randrange(len(row))]
            case 2:
                rows.insert(draw.randrange(1, len(rows) + 1), list(row))
            case 3:
                rows[1:] = draw.sample(rows[1:], len(rows) - 1)
            case 4:  # in every row
                column, cell = draw.randrange(len(rows[0])), draw.choice(CELLS)
                for each in rows[1:]:
                    if column < len(each):
                        each[column] = cell
            case _ if row:
                row[draw.randrange(len(row))] = draw.choice(CELLS)
    end, separator = draw.choice(ENDS), draw.choice((",", ",", ",", ";", "\t"))
    text = end.join(separator.join(row) for row in rows) + draw.choice((end, end, "", "\n\n", " "))
    if draw.random() < 0.2:
        text = "\ufeff" + text
    data = bytearray(text.encode())
    if draw.random() < 0.1:
        data[draw.randrange(len(data))] = draw.choice(b'\xff\x00\n\r",;.')
    return bytes(data)


def outcome(make: Callable[[], Any]) -> Any:
    """A content as bytes, or the refusal."""
    try:
        content = make()
    except DiscreetError as error:
        return [(issue.pointer, issue.detail) for issue in getattr(error, "issues", ())] or str(
            error
        )
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in sorted(content.items())}


def read(form: tuple[Any, ...], content: bytes, written: str) -> Any:
    kind, public, _, block = form
    job = {"format": written, "content_bytes": 1 << 30}
    if block is not None:
        job["block"] = {"by": "day", "name": block, "realm": "", "empty": ""}
    model = DATASETS[kind]
    return outcome(
        lambda: reading._content(model, model.read_public(public), lambda: io.BytesIO(content), job)
    )


class Watched:
    """What the quick way made of the files that it was given."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.taken = self.left = 0
        self.off = False
        for name in ("csv_content", "parquet_content"):
            patch.setattr(quick, name, self._watching(getattr(quick, name)))

    def _watching(self, content: Any) -> Any:
        def made(*arguments: Any) -> Any:
            found = None if self.off else content(*arguments)
            self.taken += found is not None
            self.left += found is None and not self.off
            return found

        return made

    def both(self, form: tuple[Any, ...], content: bytes, written: str) -> tuple[Any, Any]:
        self.off = False
        here = read(form, content, written)
        self.off = True
        return here, read(form, content, written)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.mark.parametrize("number", range(len(FORMS)))
def test_what_the_quick_way_takes_is_what_the_other_reads(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    form = FORMS[number]
    rows = lines_of(form[2])
    draw = random.Random(number)
    for seed in range(SEEDS):
        monkeypatch.setattr(tables, "CSV_BLOCK_BYTES", draw.choice((1 << 7, 1 << 9, 1 << 20)))
        content = spoilt(draw, rows)
        here, there = watched.both(form, content, "csv")
        assert here == there, (seed, content)
    assert watched.taken
    assert watched.left


@pytest.mark.parametrize("number", range(len(FORMS)))
def test_good_files_are_taken(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK_BYTES", 1 << 9)
    form = FORMS[number]
    table = pa.table({name: list(column) for name, column in form[2].items()})
    plain, quoted, parquet = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pc.write_csv(table, plain, pc.WriteOptions(quoting_style="none"))
    pc.write_csv(table, quoted)
    pq.write_table(table, parquet, row_group_size=50)
    for sink, written in ((plain, "csv"), (quoted, "csv"), (parquet, "parquet")):
        taken = watched.taken
        here, there = watched.both(form, sink.getvalue(), written)
        assert here == there
        assert isinstance(here, dict)
        assert watched.taken == taken + 1
