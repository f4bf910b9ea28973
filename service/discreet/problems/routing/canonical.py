"""The canonical form of trips, which does not depend on how they were written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.problems.contents import Content

Ints = NDArray[np.int64]


def canonical(columns: dict[str, Ints], persons: NDArray[Any] | None) -> Content:
    """Trips summed by period and pair (and person), sorted, independently of how they were written.
    Rows are period, origin, destination, count, and the class of users if trips have one.

    Persons become numbers in the order of their records, so that neither order nor names of persons
    matter, and no name is stored.
    """
    count = columns["count"]
    own = [columns["user_class"]] if "user_class" in columns else []
    if persons is None:
        # Periods < 2^17, zones < 2^12: one number with the order of (period, origin, destination),
        # followed by the class.
        cells = (columns["period"] << 24) | (columns["origin"] << 12) | columns["destination"]
        cells = (cells << 4) | own[0] if own else cells << 4
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        first = np.flatnonzero(np.diff(cells, prepend=-1))
        sums = np.add.reduceat(count[order], first) if first.size else np.zeros(0, dtype=np.int64)
        cells, sums = cells[first][sums > 0], sums[sums > 0]
        last = [cells & 15] if own else []
        columns_of = [cells >> 28, cells >> 16 & 4095, cells >> 4 & 4095, sums, *last]
        return {"trips": np.stack(columns_of, axis=1)}
    places = [columns[name] for name in ("period", "origin", "destination")]
    keys = np.stack([*places, *own], axis=1)
    _, person = np.unique(persons, return_inverse=True)
    unique, inverse = np.unique(
        np.concatenate([person.reshape(-1, 1), keys], axis=1), axis=0, return_inverse=True
    )
    sums = np.zeros(len(unique), dtype=np.int64)
    np.add.at(sums, inverse.ravel(), count)
    kept = sums > 0
    rows = np.concatenate([unique[kept, 1:4], sums[kept, None], unique[kept, 4:]], axis=1)
    owner = unique[kept, 0]
    records = np.split(rows, np.flatnonzero(np.diff(owner)) + 1) if len(rows) else []
    records.sort(key=lambda record: record.tobytes())
    return {
        "trips": np.concatenate(records)
        if records
        else np.zeros((0, 4 + len(own)), dtype=np.int64),
        "person_start": np.concatenate(
            [[0], np.cumsum([len(record) for record in records])]
        ).astype(np.int64),
    }


def summed(parts: list[Ints]) -> Ints:
    """Canonical trips of several such lists merged."""
    rows = np.concatenate(parts)
    columns = dict(zip(("period", "origin", "destination", "count"), rows.T, strict=True))
    return canonical(columns, None)["trips"]
