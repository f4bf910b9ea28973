"""The columns of tables of trips: integers within bounds, counts in parts of a trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.problems.contents import Issues, check_bounds, integer_columns, real_column
from discreet.problems.routing.bounds import bounds_of
from discreet.problems.routing.labels import class_column
from discreet.problems.routing.public import RoutingPublic

NEARLY_WHOLE = 1e-6
"""Tolerance between a decimal of a trip in doubles and an integer number of counts."""


def trip_columns(
    public: RoutingPublic, table: pa.Table, beside: Sequence[str] = (), first: int = 0
) -> dict[str, NDArray[Any]]:
    """The columns of an uploaded table, or of a part of one that begins at row `first`: integers,
    with `trip_scale` counts for a trip in `count`."""
    bounds = bounds_of(public)
    if public.user_classes is not None:
        plain = public.model_copy(update={"user_classes": None})
        found = trip_columns(plain, table, (*beside, "user_class"), first)
        found["user_class"] = class_column(public, table, "/content", first)
        return found
    if public.trip_scale == 1:
        return integer_columns(table, bounds, "/content", beside, first)
    places = {name: bounds[name] for name in bounds if name != "count"}
    columns = integer_columns(table, places, "/content", (*beside, "count"), first)
    return counted(
        public,
        {**columns, "count": real_column(table, "count", "/content", first=first)},
        "/content",
        first,
    )


def counted(
    public: RoutingPublic, columns: Mapping[str, NDArray[Any]], prefix: str, first: int = 0
) -> dict[str, NDArray[Any]]:
    """Columns with trips, converted to integers with counts: only the rounding of decimals to
    doubles is undone.

    InvalidInput, with its row, for a value that is out of bounds or not an integer number of
    counts."""
    trips, scale = columns["count"], public.trip_scale
    issues = Issues(prefix, first)
    with np.errstate(invalid="ignore"):
        counts = np.asarray(trips, dtype=np.float64) * scale
        whole = np.rint(counts)
        apart = ~(np.abs(counts - whole) <= (NEARLY_WHOLE if scale > 1 else 0.0))
    says = (
        "an integer is needed"
        if scale == 1
        else f"trips in parts of 1/{scale} (public.trip_scale) are needed"
    )
    issues.where(apart, "count", says, trips)
    issues.check()
    check_bounds(columns, bounds_of(public), prefix, first)
    return {
        name: (whole if name == "count" else values).astype(np.int64)
        for name, values in columns.items()
    }
