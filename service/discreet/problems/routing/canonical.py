"""The canonical form of trips, which does not depend on how they were written."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.problems.contents import Content, in_order_of_keys

Ints = NDArray[np.int64]


def canonical(columns: dict[str, Ints], persons: NDArray[Any] | None) -> Content:
    """Trips summed by period and pair (and person), sorted, independently of how they were written.
    Rows are period, origin, destination, count, and the class of users if trips have one.

    Persons become numbers in the order of their records, so that neither order nor names of persons
    matter, and no name is stored.
    """
    content = in_any_order(columns, persons)
    if persons is None:
        return content
    keys = person_keys(content["trips"], content["person_start"])
    return in_order_of_keys(content, keys, "person_start")[0]


def in_any_order(columns: dict[str, Ints], persons: NDArray[Any] | None) -> Content:
    """The same, with persons in an order that depends on how they were written."""
    count = columns["count"]
    own = [columns["user_class"]] if "user_class" in columns else []
    # Periods < 2^17, zones < 2^12: one number with the order of (period, origin, destination),
    # followed by the class.
    cells = (columns["period"] << 24) | (columns["origin"] << 12) | columns["destination"]
    cells = (cells << 4) | own[0] if own else cells << 4
    person: NDArray[Any] | None = None
    if persons is None:
        order = np.argsort(cells, kind="stable")
    else:
        person = persons
        if persons.dtype == object:
            person = np.unique(persons, return_inverse=True)[1].reshape(-1)
        order = np.lexsort((cells, person))
        person = person[order]
    cells = cells[order]
    new = np.ones(cells.size, dtype=np.bool_)
    np.not_equal(cells[1:], cells[:-1], out=new[1:])
    if person is not None:
        new[1:] |= person[1:] != person[:-1]
    first = np.flatnonzero(new)
    sums = np.add.reduceat(count[order], first) if first.size else np.zeros(0, dtype=np.int64)
    first, sums = first[sums > 0], sums[sums > 0]
    cells = cells[first]
    last = [cells & 15] if own else []
    rows = np.stack([cells >> 28, cells >> 16 & 4095, cells >> 4 & 4095, sums, *last], axis=1)
    if person is None:
        return {"trips": rows}
    person = person[first]
    changes = np.flatnonzero(person[1:] != person[:-1]) + 1
    start = np.concatenate([np.zeros(min(1, len(rows))), changes, [len(rows)]]).astype(np.int64)
    return {"trips": rows, "person_start": start}


def person_keys(trips: Ints, start: Ints) -> NDArray[np.object_]:
    """object[persons]: the bytes of each person's rows, in whose order their records stand."""
    data = trips.tobytes()
    ends = (start * (trips.shape[1] * trips.itemsize)).tolist()
    records = (data[here:end] for here, end in pairwise(ends))
    return np.fromiter(records, dtype=object, count=start.size - 1)


def summed(parts: list[Ints]) -> Ints:
    """Canonical trips of several such lists merged."""
    rows = np.concatenate(parts)
    columns = dict(zip(("period", "origin", "destination", "count"), rows.T, strict=True))
    return canonical(columns, None)["trips"]
