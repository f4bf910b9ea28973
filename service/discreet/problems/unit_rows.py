"""How a kind reads rows by the unit that they are of: checked a batch at a time, in threads too,
then brought together and put into canonical form, all units at once or, of rows that do not fit
memory, a part of them at a time.

A part holds all rows of each of its units, from whichever file they came, so what is said of a
unit's rows together (steps that follow each other, a person's sums) is checked and made there. The
records of all parts, merged by their keys, are the content that `Dataset.read_table` makes of all
rows at once, byte for byte: the digest knows nothing of parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.field_issues import and_more
from discreet.problems.columns import MAX_ISSUES, in_order_of_keys
from discreet.problems.contents import Content
from discreet.problems.owners import Owners

Columns = dict[str, NDArray[Any]]


@dataclass
class _Fault:
    """The first row with a fault, its value, how many there are and the last of them."""

    row: int
    value: str
    count: int
    last: int


class RowIssues:
    """Faults of rows that are found part by part: what is said of them in the end is the same for
    any parts in any order.

    Faults of a stage are looked for where there are none of the stages before, but which units are
    in a part with such a fault is drawn: so only those of the first stage with any are told."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._faults: dict[tuple[int, str, str], _Fault] = {}

    def __bool__(self) -> bool:
        return bool(self._faults)

    def where(
        self,
        rows: NDArray[np.int64],
        column: str,
        detail: str,
        values: Sequence[Any] | NDArray[Any] | None = None,
        stage: int = 0,
    ) -> None:
        """`rows`: the numbers of those with the fault, as they came; `values`: one for each."""
        if not rows.size:
            return
        place = int(rows.argmin())
        value = "" if values is None else f"; found {values[place]!s:.40}"
        new = _Fault(int(rows[place]), value, rows.size, int(rows.max()))
        known = self._faults.setdefault((stage, column, detail), new)
        if known is not new:
            if new.row < known.row:
                known.row, known.value = new.row, new.value
            known.count, known.last = known.count + new.count, max(known.last, new.last)

    def check(self, stage: int | None = None) -> None:
        """InvalidInput with what was found, by rows, in this stage or those before; in all."""
        first = min((one for one, _, _ in self._faults), default=None)
        if first is None or (stage is not None and first > stage):
            return
        found = sorted(
            (item for item in self._faults.items() if item[0][0] == first),
            key=lambda one: (one[1].row, one[0]),
        )
        raise InvalidInput(
            FieldIssue(
                f"{self._prefix}/{fault.row}/{column}",
                detail
                + fault.value
                + and_more(fault.count - 1, f"{self._prefix}/{fault.last}/{column}"),
            )
            for (_, column, detail), fault in found[:MAX_ISSUES]
        )


class Checked(NamedTuple):
    """Rows whose values are as they should be, each by itself, in as few bits as they need: nothing
    else of their batch is kept."""

    columns: Columns
    owners: Owners

    @property
    def num_rows(self) -> int:
        return len(self.owners)

    def taken(self, first: int, last: int) -> Checked:
        """The rows first..last-1."""
        columns = {name: column[first:last] for name, column in self.columns.items()}
        return Checked(columns, self.owners.taken(first, last))

    def alone(self) -> Checked:
        """The same rows, without memory that they share with others of their batches."""
        return Checked({name: one.copy() for name, one in self.columns.items()}, self.owners)


class UnitRows(ABC):
    """Reads the rows of one content. It keeps what is to be checked of the whole."""

    owner: str
    """The column that says whose a row is."""
    records = "start"
    """The array of a content that says where each record starts."""
    prefix = "/content"

    def __init__(self, public: Any) -> None:
        self.public = public
        self.issues = RowIssues(self.prefix)
        self.all_rows = self.units = 0

    def checked(self, table: pa.Table, first: int = 0) -> Checked:
        """A part of a table whose first row has the number `first`. Threads may do so at once.
        InvalidInput with the row for each value that is wrong by itself."""
        return Checked(self.rows(table, first), Owners.of(table, self.owner, self.prefix, first))

    def together(self, parts: Sequence[Checked], known: int = 0) -> Checked:
        """Several batches as one, which says each owner in one way, and is counted, but for
        `known` rows. InvalidInput where there are none, or no name is left."""
        if not parts:
            raise InvalidInput("there are no rows", pointer=self.prefix)
        owners = Owners.together([part.owners for part in parts], self.owner, self.prefix)
        self.all_rows += len(owners) - known
        if len(parts) == 1:
            return Checked(parts[0].columns, owners)
        names = list(parts[0].columns)
        # Out of each batch, so that little is there twice.
        columns = {
            name: np.concatenate([part.columns.pop(name) for part in parts]) for name in names
        }
        return Checked(columns, owners)

    def whole(self, parts: Sequence[Checked]) -> Content:
        """The content of all rows at once. InvalidInput for what is wrong with it."""
        columns, owners = self.together(parts)
        part = self.part(columns, owners.numbers(), np.arange(len(owners)))
        self.check()
        return in_order_of_keys(part, self.keys(part), self.records)[0]

    @abstractmethod
    def rows(self, table: pa.Table, first: int) -> Columns:
        """What is kept of the rows of part of a table, whose first has the number `first`, beside
        their owner: arrays with an entry a row. It changes nothing here. InvalidInput with the row
        for each value that is wrong by itself."""

    @abstractmethod
    def part(
        self, columns: Columns, owner: NDArray[np.integer[Any]], row: NDArray[np.int64]
    ) -> Content:
        """The content of some units, at least one row, but for the order of its records; the rows
        were counted. `owner`: whose each row is, by number; `row`: as which one it came. Faults go
        to `issues`; what is returned is not used then."""

    @abstractmethod
    def keys(self, content: Content) -> NDArray[Any]:
        """A key of each record of a content: in canonical form they stand in the order of keys."""

    def check(self) -> None:
        """InvalidInput for what is wrong with the whole, when all parts were made."""
        self.issues.check()
