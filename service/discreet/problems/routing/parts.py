"""Trips of persons that do not fit memory, read some persons at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.problems.contents import Columns, Content, UnitRows
from discreet.problems.routing.bounds import check_sums, most_of_a_person
from discreet.problems.routing.canonical import Ints, in_any_order, person_keys, summed
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.tables import trip_columns


class PersonRows(UnitRows):
    """Reads trips with all of a person in one part."""

    owner, records = "person", "person_start"
    public: RoutingPublic

    def __init__(self, public: RoutingPublic) -> None:
        super().__init__(public)
        self._totals: Ints = np.zeros(public.periods, dtype=np.int64)
        self._pairs: list[Ints] = [np.zeros((0, 4), dtype=np.int64)]
        """Sums of the parts before, and of some since."""
        self._largest = 0

    def rows(self, table: pa.Table, first: int) -> Columns:
        columns = trip_columns(self.public, table, (self.owner,), first)
        # Counts are below 2^31 by their bounds.
        return {name: values.astype(np.int32) for name, values in columns.items()}

    def part(
        self, columns: Columns, owner: NDArray[np.integer[Any]], row: NDArray[np.int64]
    ) -> Content:
        whole = {name: values.astype(np.int64) for name, values in columns.items()}
        content = in_any_order(whole, owner)
        trips = content["trips"]
        if self.public.max_total is not None:
            np.add.at(self._totals, trips[:, 0], trips[:, 3])
        if self.public.max_pair is not None:
            # As many as there are cells with trips, whatever the rows; merged when they have
            # doubled, so that parts cost n log n together.
            self._pairs.append(summed([trips[:, :4]]))
            if sum(map(len, self._pairs[1:])) >= len(self._pairs[0]):
                self._pairs = [summed(self._pairs)]
        if self.public.max_person is not None:
            self._largest = max(self._largest, most_of_a_person(content))
        return content

    def keys(self, content: Content) -> NDArray[Any]:
        return person_keys(content["trips"], content["person_start"])

    def check(self) -> None:
        super().check()
        pairs = summed(self._pairs)[:, 3]
        check_sums(self.public, self._totals, pairs, self._largest, self.prefix)
