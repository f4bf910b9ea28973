"""The order of records, which datasets are known by: it must never change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.problems import contents
from discreet.problems.contents import rearranged, record_order, starts_of

MASK = (1 << 64) - 1
SEEDS = 0x243F6A8885A308D3, 0x13198A2E03707344


def by_python(records: list[list[tuple[int, ...]]]) -> list[int]:
    """Lengths first, then the second hash, then the first: chains of SplitMix64's finalizer in
    Python's integers."""

    def key(record: list[tuple[int, ...]]) -> tuple[int, int, int]:
        found = []
        for seed in SEEDS:
            state = seed
            for column in range(len(record[0])):
                for row in record:
                    state = ((state ^ (row[column] & MASK)) + 0x9E3779B97F4A7C15) & MASK
                    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
                    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
                    state ^= state >> 31
            found.append(state)
        return len(record), found[1], found[0]

    return sorted(range(len(records)), key=lambda place: key(records[place]))


ROW = st.tuples(st.integers(-(2**31), 2**31 - 1), st.floats(-1e9, 1e9), st.booleans())


@given(st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=8))
def test_records_are_ordered_by_their_hashes_in_64_bits(records: list[list[Any]]) -> None:
    """Columns in fewer bits than 64 count as in 64: what was registered before is found again."""
    rows = [row for record in records for row in record]
    start = np.cumsum([0, *map(len, records)]).astype(np.int64)
    narrow: list[Any] = [
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.float64) + 0.0,
        np.array([row[2] for row in rows], np.bool_),
    ]
    bits = narrow[1].view(np.uint64)
    words = iter(zip(narrow[0].tolist(), bits.tolist(), map(int, narrow[2]), strict=True))
    expected = by_python([[next(words) for _ in record] for record in records])
    order = record_order(start, narrow)
    assert order.tolist() == expected
    assert record_order(start, [narrow[0].astype(np.int64), *narrow[1:]]).tolist() == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "ROWS_AT_ONCE", 2)
        assert record_order(start, narrow).tolist() == expected
    assert (
        starts_of(start, order).tolist()
        == np.cumsum([0, *(len(records[place]) for place in order)]).tolist()
    )
    for column in narrow:
        moved = np.concatenate([column[start[place] : start[place + 1]] for place in order])
        np.testing.assert_array_equal(rearranged(column, start, order), moved)


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.int64, np.float64])
@pytest.mark.parametrize("width", [(), (3,)])
def test_columns_of_any_width_are_moved(dtype: Any, width: tuple[int, ...]) -> None:
    column = np.random.default_rng(0).integers(0, 2, (7, *width)).astype(dtype)
    found = rearranged(column, np.array([0, 2, 3, 7]), np.array([2, 0, 1]))
    np.testing.assert_array_equal(found, column[[3, 4, 5, 6, 0, 1, 2]])
    assert found.dtype == dtype
