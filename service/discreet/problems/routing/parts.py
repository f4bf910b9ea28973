"""Trips of persons that do not fit memory, read some persons at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.problems.contents import Content
from discreet.problems.routing.bounds import check_sums, kept
from discreet.problems.routing.canonical import Ints, canonical, person_keys, summed
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.tables import trip_columns
from discreet.problems.unit_rows import Columns, UnitRows


class PersonRows(UnitRows):
    """Reads trips with all of a person in one part."""

    owner = "person"
    public: RoutingPublic

    def __init__(self, public: RoutingPublic) -> None:
        super().__init__(public)
        self._totals: Ints = np.zeros(public.periods, dtype=np.int64)
        self._pairs: Ints = np.zeros((0, 4), dtype=np.int64)
        self._of_person = public.model_copy(update={"max_total": None, "max_pair": None})

    def rows(self, table: pa.Table, first: int) -> Columns:
        columns = trip_columns(self.public, table, (self.owner,), first)
        # Counts are below 2^31 by their bounds.
        return {name: values.astype(np.int32) for name, values in columns.items()}

    def part(
        self, columns: Columns, owner: NDArray[np.integer[Any]], row: NDArray[np.int64]
    ) -> Content:
        whole = {name: values.astype(np.int64) for name, values in columns.items()}
        content = kept(self._of_person, canonical(whole, owner), self.prefix)
        trips = content["trips"]
        if self.public.max_total is not None:
            np.add.at(self._totals, trips[:, 0], trips[:, 3])
        if self.public.max_pair is not None:
            # As many as there are cells with trips, whatever the rows.
            self._pairs = summed([self._pairs, trips[:, :4]])
        return content

    def keys(self, content: Content) -> NDArray[Any]:
        return person_keys(content["trips"], content["person_start"])

    def check(self) -> None:
        super().check()
        check_sums(self.public, self._totals, self._pairs[:, 3], self.prefix)
