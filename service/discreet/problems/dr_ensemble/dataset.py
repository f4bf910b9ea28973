"""How loads move between states: as trajectories of loads, or as the matrix of one load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems.columns import (
    MAX_ISSUES,
    Issues,
    integer_columns,
    owner_column,
    rearranged,
    record_order,
    starts_of,
)
from discreet.problems.contents import PRIVATE, Content, Packed, arrays
from discreet.problems.datasets import Column, DatasetOfRows, Layout
from discreet.problems.dr_ensemble import layouts, meters
from discreet.problems.dr_ensemble.day import Day
from discreet.problems.dr_ensemble.matrix import matrix_content, matrix_table
from discreet.problems.dr_ensemble.meters import Meters, Reading
from discreet.problems.numbers import Count, Frozen, Positive, Real
from discreet_client.meters import MeterRule
from discreet_client.meters import States as Sequences

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRID = 1 << 20
"""Steps of the grid that a participant's histogram is rounded to, where lengths are not public."""
MAX_STATES = 2000
UNDECLARED_ROWS = 500_000
"""Most of a private content whose owner declares no bound: releases take the time of so many."""
MAX_FIGURE = 1e12
"""Of power, price and utility: the costs of a whole horizon stay finite numbers."""
Probability = Annotated[Real, Field(gt=0, lt=1)]
NO_RULE = "power becomes states by public `edges` and `meters`, which this dataset does not declare"


class DrEnsemblePublic(Frozen):
    """What is published of an ensemble. With `row_change` its content is a transition matrix, else
    trajectories."""

    unit: Literal["participant", "row"] = Field(description="Whom a neighbouring dataset changes")
    states: Annotated[int, Field(strict=True, ge=2, le=MAX_STATES)]
    support: Literal["all"] | Annotated[list[tuple[Count, Count]], InPieces()] = Field(
        default="all",
        description="Transitions [from, to] that are possible; all others have probability 0",
    )
    min_probability: Probability | None = Field(
        default=None, description="Floor of the transitions in the support"
    )
    row_change: Probability | None = Field(
        default=None,
        description="l1 distance h of neighbouring rows: two entries move by at most h/2",
    )
    participants: Annotated[int, Field(strict=True, ge=2, le=10**9)] | None = Field(
        default=None,
        description="Given: public, and neighbours replace one. Else neighbours add or remove one",
    )
    steps: Annotated[int, Field(strict=True, ge=2, le=10**6)] | None = Field(
        default=None,
        description="Number of states of every trajectory, when it is the same and public",
    )

    max_rows: Positive | None = Field(
        default=None,
        description="Public bound on the states of all trajectories together, chosen without "
        "looking at them: releases "
        f"take the time of so many. Absent: the larger of {UNDECLARED_ROWS:,} and ten for each "
        "public participant",
    )
    edges: Annotated[tuple[Real, ...], InPieces(min_length=3, max_length=MAX_STATES + 1)] | None = (
        Field(
            default=None,
            description="Increasing power in kW, chosen without looking at the data: state s is "
            "edges[s] <= kW < "
            "edges[s + 1], and its power is the middle where a problem says none",
        )
    )
    meters: Meters | None = Field(
        default=None,
        description="How readings of meters become states, with `edges`; else contents hold states",
    )
    day: Day | None = Field(
        default=None,
        description="Hours of the day that move by transition matrices of their own, from the same "
        "noise. Absent: one "
        "matrix for all hours, by which a load that is left alone goes to its mean and stays there",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.row_change is None and self.unit == "row":
            raise FieldError("row_change", "the unit row needs row_change")
        if self.row_change is not None:
            if self.min_probability is None:
                says = (
                    "row_change needs min_probability: the noise of a row rests on its least entry"
                )
                raise FieldError("min_probability", says)
            if self.row_change >= 2 * self.min_probability:
                raise FieldError("row_change", "must be less than twice min_probability")
            if self.participants is not None or self.steps is not None or self.max_rows is not None:
                says = (
                    "is of a transition matrix; participants, steps and max_rows are of "
                    "trajectories"
                )
                raise FieldError("row_change", says)
        if self.day is not None:
            self.day.check(
                self.states,
                MAX_STATES,
                self.steps,
                of_matrix=self.row_change is not None,
                of_meters=self.meters is not None,
            )
        if self.edges is not None:
            if len(self.edges) != self.states + 1:
                says = f"{self.states} states have {self.states + 1} edges; found {len(self.edges)}"
                raise FieldError("edges", says)
            if max(map(abs, self.edges)) > MAX_FIGURE or any(
                low >= high for low, high in pairwise(self.edges)
            ):
                raise FieldError("edges", f"must increase, and be at most {MAX_FIGURE:g} large")
            if self.row_change is not None:
                raise FieldError(
                    "edges", "are of trajectories; row_change is of a transition matrix"
                )
        if self.meters is not None:
            if self.edges is None:
                raise FieldError("edges", "needed with meters: they make states of power")
            if self.meters.gaps == "end" and self.steps is not None:
                says = (
                    "a trajectory that ends before a gap has not public.steps states: "
                    "leave_out, or no steps"
                )
                raise FieldError("meters/gaps", says)
        if isinstance(self.support, list):
            if any(state >= self.states for pair in self.support for state in pair):
                raise FieldError("support", f"states are 0 to {self.states - 1}")
            if len(set(self.support)) != len(self.support):
                raise FieldError("support", "a transition stands twice")
            if len({origin for origin, _ in self.support}) != self.states:
                raise FieldError("support", "every state needs a transition")
        widest = int(self.mask().sum(axis=1).max())
        if self.min_probability is not None and self.min_probability * widest > 1:
            raise FieldError(
                "min_probability", f"times the {widest} transitions of a state it exceeds 1"
            )
        return self

    @property
    def most_rows(self) -> int:
        """How many states of trajectories there may be, from public figures."""
        most = self.max_rows or max(UNDECLARED_ROWS, 10 * (self.participants or 0))
        return self.participants * self.steps if self.participants and self.steps else most

    @property
    def middles(self) -> Floats | None:
        """float64[n]: the power in the middle of each state's bin; None where states are no
        bins."""
        return (
            None
            if self.edges is None
            else (np.array(self.edges[1:]) + np.array(self.edges[:-1])) / 2
        )

    @property
    def blocks(self) -> int:
        """How many transition matrices there are."""
        return 1 if self.day is None else len(self.day.blocks)

    @property
    def cells(self) -> int:
        """How many transitions are counted: those of the support, in each block."""
        return self.blocks * int(self.mask().sum())

    @property
    def matrix(self) -> str:
        """The field of a result that has the released transitions."""
        return "transitions" if self.day is None else "block_transitions"

    @property
    def shares(self) -> Floats:
        """float64[blocks]: the part of the moves that falls into each block."""
        return np.ones(1) if self.day is None else self.day.shares(self.steps)

    def widths(self) -> Ints:
        """int64[blocks · n]: how many transitions leave each state, in each block."""
        return np.tile(self.mask().sum(axis=1), self.blocks)

    def rule(self) -> MeterRule:
        """The rule by which readings become states."""
        return MeterRule.of(self.model_dump(include={"edges", "steps", "meters"}))

    def mask(self) -> NDArray[np.bool_]:
        """bool[n, n]: the support."""
        if self.support == "all":
            return np.ones((self.states, self.states), dtype=bool)
        mask = np.zeros((self.states, self.states), dtype=bool)
        pairs = np.array(self.support)
        mask[pairs[:, 0], pairs[:, 1]] = True
        return mask


States = Annotated[list[Count], Field(fail_fast=True)]
Row = Annotated[list[Annotated[Real, Field(ge=0, le=1)]], Field(fail_fast=True)]


class DrEnsembleContent(Frozen):
    """The private content: state sequences, one a participant, or a transition matrix, or readings
    of meters."""

    model_config = arrays(
        {"axes": ["participant", "step"], "value": "state", "integers": True},
        {"axes": ["from", "to"], "value": "probability", "sparse": True},
    )

    trajectories: Annotated[list[States], InPieces()] | None = None
    transitions: Annotated[list[Row], InPieces()] | None = None
    power: Annotated[list[Reading], InPieces()] | None = Field(
        default=None,
        description="Readings of meters, in any order; for a public part with `meters`",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if [self.trajectories, self.transitions, self.power].count(None) != 2:
            raise ValueError(
                "either trajectories or transitions are needed, or the power that meters read"
            )
        return self


class DrEnsembleDataset(DatasetOfRows):
    """Trajectories of loads through the states of an ensemble, or their transition matrix."""

    ROW_BYTES: ClassVar[int] = 8  # a state, or a probability
    OWNER: ClassVar[str] = "participant"
    USUAL: ClassVar[tuple[str, ...]] = ("participants", "steps", "edges", "meters")
    ROWS: ClassVar[Mapping[str, Any]] = {
        "trajectories": States,
        "transitions": Row,
        "power": Reading,
    }

    kind: Literal["dr_ensemble"]
    public: DrEnsemblePublic
    content: DrEnsembleContent = Field(json_schema_extra=PRIVATE)

    @classmethod
    def sizes(cls, public: DrEnsemblePublic, content: Content) -> dict[str, tuple[int, int]]:
        return (
            {}
            if public.row_change is not None
            else {"max_rows": (content["states"].size, public.most_rows)}
        )

    @classmethod
    def most_units(cls, public: DrEnsemblePublic) -> int | None:
        return public.states if public.unit == "row" else public.participants

    @classmethod
    def relation(cls, public: DrEnsemblePublic) -> dict[str, Any]:
        if public.row_change is not None:
            return {"neighbours": "rows moved", "row_change": public.row_change}
        return {"neighbours": "added or removed" if public.participants is None else "replaced"}

    @classmethod
    def pack(cls, name: str, items: Sequence[Any]) -> Packed:
        if name == "power":
            return meters.packed_readings(items)
        size = np.fromiter(map(len, items), dtype=np.int64, count=len(items))
        kind = np.int32 if name == "trajectories" else np.float64
        return {
            "size": size,
            "values": np.fromiter(chain.from_iterable(items), dtype=kind, count=int(size.sum())),
        }

    @classmethod
    def read_packed(cls, public: DrEnsemblePublic, packed: Mapping[str, Packed]) -> Content:
        if public.row_change is not None:
            if "transitions" not in packed:
                (given,) = packed
                raise InvalidInput(
                    "a dataset with row_change holds transitions", pointer=f"/content/{given}"
                )
            matrix = packed["transitions"]
            rows = (
                np.split(matrix["values"], np.cumsum(matrix["size"])[:-1])
                if matrix["size"].size
                else []
            )
            return matrix_content(public.mask(), public.min_probability or 0.0, rows)
        if "power" in packed:
            if public.meters is None:
                raise InvalidInput(NO_RULE, pointer="/content/power")
            found = meters.read_packed(public.rule(), packed["power"], public.most_rows)
            return _meter_content(public, *found, "/content/power")
        if "trajectories" not in packed:
            raise InvalidInput(
                "transitions need a public row_change", pointer="/content/transitions"
            )
        size = packed["trajectories"]["size"]
        start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        return _trajectory_content(
            public, packed["trajectories"].pop("values"), start
        )  # the last reference

    @classmethod
    def other_files(cls, public: DrEnsemblePublic) -> str:
        return layouts.other_files(public)

    @classmethod
    def columns(cls, public: DrEnsemblePublic) -> list[Column]:
        return layouts.columns(public)

    @classmethod
    def layouts(cls, public: DrEnsemblePublic) -> list[Layout]:
        return layouts.layouts(public)

    @classmethod
    def sample_tables(cls) -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
        for names in ([1, 1, 2, 2], [2, 2, 1, 1], ["b", "b", "a", "a"]):
            yield (
                {"unit": "participant", "states": 2},
                {"participant": names, "step": [0, 1, 0, 1], "state": [0, 1, 1, 0]},
            )
        yield (
            {"unit": "row", "states": 2, "row_change": 0.1, "min_probability": 0.1},
            {"from": [0, 0, 1, 1], "to": [0, 1, 0, 1], "probability": [0.4, 0.6, 0.7, 0.3]},
        )
        yield from meters.sample_tables()

    @classmethod
    def sample_contents(cls) -> Iterable[dict[str, Any]]:
        yield meters.sample_content()

    @classmethod
    def read_table(cls, public: DrEnsemblePublic, table: pa.Table) -> Content:
        """Columns `participant, step, state` for trajectories; `from, to, probability` for a
        transition matrix; `participant, time, kw` for readings of meters."""
        if public.row_change is not None:
            return matrix_table(public.mask(), public.min_probability or 0.0, table)
        if {"time", "kw"} & set(table.column_names):
            if public.meters is None:
                raise InvalidInput(NO_RULE, pointer="/content")
            return _meter_content(
                public, *meters.read_table(public.rule(), table, public.most_rows), "/content"
            )
        columns = integer_columns(
            table,
            {"step": (0, 10**9), "state": (0, public.states - 1)},
            "/content",
            beside=("participant",),
        )
        owner = owner_column(table, "participant", "/content")
        order = np.lexsort((columns["step"], owner))
        owner, step = owner[order], columns["step"][order]
        start = np.concatenate([np.flatnonzero(np.diff(owner, prepend=-1)), [owner.size]]).astype(
            np.int64
        )
        issues = Issues("/content")
        expected = np.arange(owner.size) - np.repeat(start[:-1], np.diff(start))
        wrong = np.zeros(owner.size, dtype=bool)
        wrong[order] = step != expected
        issues.where(
            wrong, "step", "the steps of a participant are 0, 1, 2, …, each once", columns["step"]
        )
        issues.check()
        return _trajectory_content(public, columns["state"][order], start)


def _trajectory_content(
    public: DrEnsemblePublic, states: NDArray[np.integer[Any]], start: Ints
) -> Content:
    """Checked state sequences in an order that tells nothing of whose they are."""
    prefix = "/content/trajectories"
    length = np.diff(start)
    if length.size < 2:
        raise InvalidInput(
            "at least two participants are needed: one cannot hide among itself", pointer=prefix
        )
    if public.participants is not None and length.size != public.participants:
        raise InvalidInput(
            f"{length.size} trajectories of {public.participants} public participants",
            pointer=prefix,
        )
    for bad, says in (
        (length < 2, "a trajectory has at least two states"),
        (
            length != public.steps if public.steps is not None else length < 0,
            f"public.steps is {public.steps}",
        ),
    ):
        if bad.any():
            raise InvalidInput(
                [
                    FieldIssue(f"{prefix}/{row}", f"{says}; found {length[row]} states")
                    for row in np.flatnonzero(bad)[:MAX_ISSUES]
                ]
            )

    def where(place: int) -> str:
        owner = int(np.searchsorted(start, place, side="right")) - 1
        return f"{prefix}/{owner}/{place - start[owner]}"

    found = []
    for place in np.flatnonzero((states < 0) | (states >= public.states))[:MAX_ISSUES].tolist():
        found.append(
            FieldIssue(where(place), f"must be 0 to {public.states - 1}; found {states[place]}")
        )
    if not found:
        for place in np.flatnonzero(_outside(public, states, start))[:MAX_ISSUES].tolist():
            says = (
                f"the transition {states[place]} to {states[place + 1]} is not in the public "
                "support"
            )
            found.append(FieldIssue(where(place + 1), says))
    if found:
        raise InvalidInput(found)
    return _canonical(states, start)


def _outside(
    public: DrEnsemblePublic, states: NDArray[np.integer[Any]], start: Ints
) -> NDArray[np.bool_]:
    """bool[states - 1]: where the support does not allow what follows."""
    if public.support == "all":
        return np.zeros(max(states.size - 1, 0), dtype=bool)
    outside: NDArray[np.bool_] = ~public.mask()[states[:-1], states[1:]]
    outside[start[1:-1] - 1] = False  # from one trajectory to the next
    return outside


def _canonical(states: NDArray[np.integer[Any]], start: Ints) -> Content:
    sequence = record_order(start, [states])
    states = rearranged(states, start, sequence)
    return {"states": states.astype(np.int64, copy=False), "start": starts_of(start, sequence)}


def _meter_content(
    public: DrEnsemblePublic, found: Sequences, participants: int, prefix: str
) -> Content:
    """Trajectories of readings; of public `participants` some may have none, and count for
    nothing."""
    if public.participants is not None and participants != public.participants:
        says = (
            f"readings of {participants} participants of {public.participants} public ones. A home "
            "under two names (a"
            " meter that was replaced) counts as two and is protected half as well: have it under "
            "one. Totals and"
            " weather are no participants. The public number is what is known without the readings"
        )
        raise InvalidInput(says, pointer=prefix)
    if found.start.size < 3:
        says = (
            f"of {participants} participants {found.start.size - 1} have a trajectory, and at "
            "least two are needed: "
        )
        raise InvalidInput(says + "one cannot hide among itself", pointer=prefix)
    issues = []
    for place in np.flatnonzero(_outside(public, found.states, found.start))[:MAX_ISSUES].tolist():
        says = (
            f"the transition {found.states[place]} to {found.states[place + 1]} is not in the "
            "public support"
        )
        issues.append(FieldIssue(f"{prefix}/{found.row[place + 1]}/kw", says))
    if issues:
        raise InvalidInput(issues)
    return _canonical(found.states, found.start)
