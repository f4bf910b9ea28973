"""Rows that are summed into their cells at once are those that the columns' readers would have
summed, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from discreet.errors import InvalidInput
from discreet.problems.contents import canonical_bytes
from discreet.problems.routing import dataset
from discreet.problems.routing.dataset import RoutingDataset
from discreet.problems.routing.public import RoutingPublic

PUBLIC = RoutingPublic(unit="request", zones=6, periods=4, period_minutes=60)


def rows(size: int, **types: Any) -> pa.Table:
    draw = np.random.default_rng(size)
    bounds = {"period": (0, 4), "origin": (1, 7), "destination": (1, 7), "count": (0, 50)}
    columns = {name: draw.integers(low, high, size) for name, (low, high) in bounds.items()}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})


def read(table: pa.Table, batch: int = 100) -> Any:
    return RoutingDataset.read_batches(
        PUBLIC, iter(table.to_batches(max_chunksize=batch)), table.schema
    )


def outcome(table: pa.Table) -> Any:
    try:
        return b"".join(canonical_bytes(read(table)))
    except InvalidInput as refused:
        return [(issue.pointer, issue.detail) for issue in refused.issues]


CASES = {
    "as CSV has them": rows(1000),
    "columns in another order": rows(1000).select(["count", "destination", "period", "origin"]),
    "narrow": rows(1000, period=pa.int8(), origin=pa.uint32(), count=pa.int32()),
    "floats": rows(1000, count=pa.float64()),
    "wide without sign": rows(1000, count=pa.uint64()),
    **{
        f"{name} {value} in row 777": rows(1000).set_column(
            number,
            name,
            pa.array(
                [*rows(1000)[name].to_pylist()[:777], value, *rows(1000)[name].to_pylist()[778:]]
            ),
        )
        for number, name, value in (
            *(
                (0, "period", -1),
                (0, "period", 4),
                (1, "origin", 0),
                (1, "origin", 7),
                (2, "destination", 0),
            ),
            *((2, "destination", 7), (3, "count", -1), (3, "count", 10**9 + 1), (3, "count", None)),
        )
    },
}


@pytest.mark.parametrize("table", CASES.values(), ids=CASES)
def test_the_same_content_or_the_same_refusal(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = outcome(table)
    monkeypatch.setattr(dataset, "plain_columns", lambda _: None)
    assert found == outcome(table)


def test_rows_of_csv_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("columns were made of rows that need none")

    whole = b"".join(canonical_bytes(read(rows(1000))))
    monkeypatch.setattr(RoutingDataset, "read_table", lambda *_: None)
    monkeypatch.setattr(dataset, "trip_columns", refused)
    assert b"".join(canonical_bytes(read(rows(1000)))) == whole
