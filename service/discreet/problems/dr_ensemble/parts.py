"""States and meter readings that do not fit memory, read some participants at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.intake.field_issues import and_more
from discreet.problems.contents import Columns, Content, UnitRows, in_order, record_keys, starts_in
from discreet.problems.dr_ensemble.canonical import (
    as_stored,
    check_participants,
    check_trajectories,
    out_of_step,
    outside,
    state_columns,
)
from discreet.problems.dr_ensemble.meters import (
    Written,
    first_lacking,
    gap,
    reading_columns,
    too_many,
)
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Ints
from discreet_client.meters import States

NUMBER = 0
"""The stage of faults (`RowIssues`) after which the number of participants is looked at."""


class _ParticipantRows(UnitRows):
    owner = "participant"
    public: DrEnsemblePublic

    def keys(self, content: Content) -> NDArray[Any]:
        return record_keys(content["start"], [content["states"]])

    def _look_outside(
        self,
        states: NDArray[np.integer[Any]],
        start: Ints,
        row: Ints,
        column: str,
        stage: int,
    ) -> None:
        """Issues of transitions that the support does not have; `row` is that of each state."""
        bad = np.flatnonzero(outside(self.public, states, start))
        moves = states[bad].astype(np.int64) * self.public.states + states[bad + 1]
        for move in np.unique(moves).tolist():
            before, after = divmod(move, self.public.states)
            says = f"the transition {before} to {after} is not in the public support"
            self.issues.where(row[bad[moves == move] + 1], column, says, stage=stage)


class StateRows(_ParticipantRows):
    """Reads states with all of a participant in one part."""

    def rows(self, table: pa.Table, first: int) -> Columns:
        return state_columns(self.public, table, first)

    def part(self, columns: Columns, owner: NDArray[np.integer[Any]], row: Ints) -> Content:
        owner, step, columns, order = in_order(owner, columns.pop("step"), columns)
        states, row = columns["state"], row if order is None else row[order]
        start = starts_in(owner[1:] == owner[:-1], owner.size)
        begin, length = start[:-1], np.diff(start)
        wrong = out_of_step(step, start)
        says = "the steps of a participant are 0, 1, 2, …, each once"
        self.issues.where(row[wrong], "step", says, step[wrong])
        for stage, (bad, says) in enumerate(
            (
                (length < 2, "a trajectory has at least two states"),
                (
                    length != self.public.steps if self.public.steps is not None else length < 0,
                    f"public.steps is {self.public.steps}",
                ),
            ),
            NUMBER + 1,
        ):
            found = [f"{one} states" for one in length[bad].tolist()]
            self.issues.where(row[begin[bad]], self.owner, says, found, stage)
        self._look_outside(states, start, row, "state", NUMBER + 3)
        self.units += length.size
        return as_stored(states, start)

    def check(self) -> None:
        self.issues.check(NUMBER)
        check_trajectories(self.public, self.units, "/content/trajectories")
        super().check()


class ReadingRows(_ParticipantRows):
    """Reads readings of meters with all of a participant in one part."""

    def __init__(self, public: DrEnsemblePublic) -> None:
        super().__init__(public)
        self._rule = public.rule()
        self._states = self._trajectories = 0
        self._overflows = False
        self._lacking: tuple[int, str, int, int] | None = None
        """The first row of somebody with a gap, why, how many there are, and the last such row."""

    def rows(self, table: pa.Table, first: int) -> Columns:
        return reading_columns(self._rule, table, first)

    def part(self, columns: Columns, owner: NDArray[np.integer[Any]], row: Ints) -> Content:
        rule, time, kw = self._rule, columns["time"], columns["kw"]
        self.units += int(owner.max()) + 1
        values: dict[str, Any] = {"kw": kw, "time": time}
        good = True
        for fault in rule.faults(owner, time, kw):
            at = np.flatnonzero(fault.rows)
            found = values[fault.column][at]
            told = Written(found) if fault.column == "time" else found
            self.issues.where(row[at], fault.column, fault.detail, told)
            good = good and not at.size
        nothing = {"states": np.zeros(0, np.int64), "start": np.zeros(1, np.int64)}
        if not good:
            return nothing
        most = max(self.public.most_rows, self.all_rows)
        try:
            made = rule.states(owner, time, kw, most - self._states)
        except OverflowError:
            self._overflows = True  # said after faults of any part
            return nothing
        self._states += made.states.size
        if rule.gaps == "refuse" and made.left_out.size:
            self._refuse_gaps(made, row[made.left_out])
        if made.start.size < 2:
            return nothing
        self._look_outside(made.states, made.start, row[made.row], "kw", NUMBER + 1)
        self._trajectories += made.start.size - 1
        return as_stored(made.states, made.start)

    def check(self) -> None:
        self.issues.check(NUMBER)
        if self._overflows:
            most = max(self.public.most_rows, self.all_rows)
            raise too_many(self.all_rows, f"more than {most} states", self.public.most_rows)
        if self._lacking:
            at, says, count, last = self._lacking
            more = and_more(count - 1, f"{self.prefix}/{last}/{self.owner}")
            raise InvalidInput(says + more, pointer=f"{self.prefix}/{at}/{self.owner}")
        check_participants(self.public, self.units, self._trajectories, self.prefix)
        super().check()

    def _refuse_gaps(self, made: States, rows: Ints) -> None:
        """`rows`: one of each participant who is left out, as it came."""
        first = first_lacking(made._replace(left_out=rows))
        found = int(rows.min()), gap(self._rule, first), rows.size, int(rows.max())
        if self._lacking:
            _, _, count, last = self._lacking
            least = min(found, self._lacking)
            found = least[0], least[1], found[2] + count, max(found[3], last)
        self._lacking = found
