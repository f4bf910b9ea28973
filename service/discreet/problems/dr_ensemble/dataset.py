"""How loads move between states: as trajectories of loads, or as the matrix of one load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.items import InPieces
from discreet.problems.contents import (
    MAX_ISSUES,
    PRIVATE,
    Content,
    Issues,
    Packed,
    UnitRows,
    are_spread,
    arrays,
    in_order,
    integer_columns,
    owner_column,
    real_column,
    starts_in,
)
from discreet.problems.datasets import (
    TIME_ZONE,
    Column,
    DatasetOfRows,
    ReaderRule,
)
from discreet.problems.dr_ensemble import meters
from discreet.problems.dr_ensemble.canonical import (
    canonical,
    check_participants,
    check_trajectories,
    out_of_step,
    outside,
    state_columns,
)
from discreet.problems.dr_ensemble.meters import Reading
from discreet.problems.dr_ensemble.parts import ReadingRows, StateRows
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats, Ints
from discreet.problems.numbers import Count, Frozen, Real
from discreet.solvers.control.transition_counts import transition_sums
from discreet_client.intervals import plain
from discreet_client.meters import States as Sequences
from discreet_client.meters import bins_of

# Dataset ------------------------------------------------------------------------------------------

GRID = 1 << 20
"""Steps of the grid that a participant's histogram is rounded to, where lengths are not public."""
NO_RULE = "power becomes states by public `edges` and `meters`, which this dataset does not declare"


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
            raise ValueError("trajectories, transitions or power readings of meters are needed")
        return self


class DrEnsembleDataset(DatasetOfRows):
    """Trajectories of loads through the states of an ensemble, or their transition matrix."""

    ROW_BYTES: ClassVar[int] = 8  # a state, or a probability
    OWNER: ClassVar[str] = "participant"
    RECORDS: ClassVar[str] = "start"
    USUAL: ClassVar[tuple[str, ...]] = ("participants", "steps", "edges", "meters", "day")
    ROWS: ClassVar[Mapping[str, Any]] = {
        "trajectories": States,
        "transitions": Row,
        "power": Reading,
    }
    FIGURES: ClassVar[frozenset[str]] = frozenset(("day", "max_rows", "min_probability", "support"))
    LATER: ClassVar[Mapping[str, str]] = {
        "day": "blocks of hours with a matrix of their own, at the same noise: what a load does at "
        "night and in the evening is told apart"
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
    def most_bytes(cls, public: DrEnsemblePublic) -> int | None:
        if public.unit == "row" or public.max_rows is public.participants is None:
            return None
        # States and starts: a participant has at least two states.
        return 12 * public.most_rows + 8

    @classmethod
    def most_units(cls, public: DrEnsemblePublic) -> int | None:
        return public.states if public.unit == "row" else public.participants

    @classmethod
    def undeclared(cls, public: Mapping[str, Any]) -> dict[str, str]:
        return super().undeclared(public) if public["unit"] == "participant" else {}

    @classmethod
    def check_again(cls, public: DrEnsemblePublic, content: Content) -> None:
        if "transitions" in content:
            rows = list(content["transitions"])
            matrix_content(public.mask(), public.min_probability or 0.0, rows)
            return
        states, start = content["states"], content["start"]
        if outside(public, states, start).any():
            says = "a transition of the content is not in the public support"
            raise InvalidInput(says, pointer="/public/support")

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
        return other_files(public)

    @classmethod
    def columns(cls, public: DrEnsemblePublic) -> list[Column]:
        return columns(public)

    @classmethod
    def reader_rules(cls, public: DrEnsemblePublic) -> tuple[ReaderRule, ...]:
        return rules(public)

    @classmethod
    def sample_files(cls) -> Iterable[tuple[dict[str, Any], str, Any]]:
        meters: dict[str, Any] = {
            "unit": "participant",
            "states": 2,
            "edges": [0, 1, 20],
            "steps": 3,
            "meters": {"start": "2026-10-25T00:00", "interval_seconds": 1800},
            "reader": {"time_zone": "Europe/Berlin", "units": "kWh", "decimal": ","},
        }
        lines = [f"25.10.2026 {at};a;0,2" for at in ("00:00", "00:30", "01:00")]
        read = "time;participant;kw\n" + "\n".join(lines)
        yield meters, "csv", read.encode()
        yield meters, "csv", (read + "\n25.10.2026 01:30;a;x").encode()
        wide = {"participants": "columns", "except": ["Summe"], "units_row": True}
        rest = "Zeit;a;Summe\n;kWh;kWh\n" + "\n".join(f"{one[:16]};0,2;1" for one in lines)
        apart = {**meters, "reader": {**meters["reader"], **wide}, "columns": {"time": "Zeit"}}
        yield apart, "csv", rest.encode()
        stamps = [
            datetime(2026, 10, 24, 23 + hour // 2, 30 * (hour % 2), tzinfo=UTC) for hour in (0, 1)
        ]
        zoned = [{"time": one, "participant": "a", "kw": 0.5} for one in stamps]
        yield {**meters, "steps": 2}, "parquet", zoned

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
        columns = state_columns(public, table)
        owner = owner_column(table, "participant", "/content")
        return _sequence_content(public, columns, owner)

    @classmethod
    def by_units(cls, public: DrEnsemblePublic, schema: pa.Schema) -> UnitRows | None:
        """States and readings of participants; a matrix is small."""
        if public.row_change is not None:
            return None
        empty = schema.empty_table()  # what is wrong with its columns
        units: UnitRows
        if not {"time", "kw"} & set(schema.names):
            state_columns(public, empty)
            units = StateRows(public)
        elif public.meters is None:
            return None
        else:
            meters.reading_columns(public.rule(), empty)
            units = ReadingRows(public)
        return units if are_spread(schema.field("participant").type) else None


def _sequence_content(
    public: DrEnsemblePublic,
    columns: dict[str, NDArray[Any]],
    owner: NDArray[np.integer[Any]],
) -> Content:
    """Trajectories of rows with step and state, in any order."""
    given = columns["step"]
    owner, step, columns, order = in_order(owner, given, {"state": columns["state"]})
    same = owner[1:] == owner[:-1]
    start = starts_in(same, owner.size)
    disorder = out_of_step(step, start)
    if disorder.any():
        wrong = np.zeros(owner.size, dtype=bool)
        wrong[slice(None) if order is None else order] = disorder
        issues = Issues("/content")
        says = "the steps of a participant are 0, 1, 2, …, each once"
        issues.where(wrong, "step", says, given)
        issues.check()
    return _trajectory_content(public, columns["state"], start)


def _trajectory_content(
    public: DrEnsemblePublic, states: NDArray[np.integer[Any]], start: Ints
) -> Content:
    """Checked state sequences in an order that tells nothing of whose they are."""
    prefix = "/content/trajectories"
    length = np.diff(start)
    check_trajectories(public, length.size, prefix)
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
        for place in np.flatnonzero(outside(public, states, start))[:MAX_ISSUES].tolist():
            says = (
                f"the transition {states[place]} to {states[place + 1]} is not in the public "
                "support"
            )
            found.append(FieldIssue(where(place + 1), says))
    if found:
        raise InvalidInput(found)
    return canonical(states, start)


def _meter_content(
    public: DrEnsemblePublic, found: Sequences, participants: int, prefix: str
) -> Content:
    """Trajectories of readings; of public `participants` some may have none, and count for
    nothing."""
    check_participants(public, participants, found.start.size - 1, prefix)
    issues = []
    for place in np.flatnonzero(outside(public, found.states, found.start))[:MAX_ISSUES].tolist():
        says = (
            f"the transition {found.states[place]} to {found.states[place + 1]} is not in the "
            "public support"
        )
        issues.append(FieldIssue(f"{prefix}/{found.row[place + 1]}/kw", says))
    if issues:
        raise InvalidInput(issues)
    return canonical(found.states, found.start)


# Counting -----------------------------------------------------------------------------------------
# How often participants move from state to state: the sums that noise is added to.


def transition_counts(
    public: DrEnsemblePublic, content: Content, grid: int, clip: float | None
) -> Ints:
    """Integer sums int64[cells] over participants of their histograms of transitions, see
    `transition_sums`.

    In a dataset with a `day` each block has cells of its own: a state counts as another one in each
    block, so a participant's histogram is spread over more cells, and sums to 1 as before.
    """
    mask, states, start = public.mask(), content["states"], content["start"]
    if public.day is not None:
        step = np.arange(states.size) - np.repeat(start[:-1], np.diff(start))
        states = states + public.states * public.day.block_of(step)
    cell_of = np.full(
        (public.blocks, public.states, public.blocks, public.states), -1, dtype=np.int64
    )
    # A transition belongs to the block of the step that it leaves, whichever block it leads to.
    cell_of.transpose(2, 0, 1, 3)[:, :, mask] = np.arange(public.cells).reshape(public.blocks, -1)
    flat = cell_of.reshape(public.blocks * public.states, -1)
    return transition_sums(states, start, flat, public.cells, grid, clip or 1.0)


# Layouts ------------------------------------------------------------------------------------------
# What a page asks about a file of an ensemble: states, or readings of meters.

OTHER_FILES = (
    "Your file has kW at times? Change the public part: `edges` are the kW between states, "
    "`meters` says when readings begin and how many seconds they are apart. Then time and kW are "
    "asked for here."
)
"""Shown where a dataset takes states and not readings."""
RULES = (
    TIME_ZONE,
    ReaderRule(
        "participants",
        "A row of the file is",
        "choice",
        ((None, "a reading of one meter"), ("columns", "a time, with a column for each meter")),
    ),
    ReaderRule(
        "except",
        "Columns that are no meters, one per line",
        "lines",
        says="Of a file with a column for each meter: totals, weather, prices.",
    ),
    ReaderRule(
        "units",
        "Values are",
        "choice",
        ((None, "as their column says"), ("kW", "power, in kW"), ("kWh", "energy, in kWh")),
        "Energy is divided by the hours of a period, which then is the time between two readings.",
    ),
)


def other_files(public: DrEnsemblePublic) -> str:
    return "" if public.meters is not None or public.row_change is not None else OTHER_FILES


def rules(public: DrEnsemblePublic) -> tuple[ReaderRule, ...]:
    return RULES if public.meters is not None else ()


def columns(public: DrEnsemblePublic) -> list[Column]:
    """Of transitions, of readings or of states."""
    if public.row_change is not None:
        return [
            Column("from", "State before, counted from 0"),
            Column("to", "State after, counted from 0"),
            Column("probability", "How probable the step is"),
        ]
    if public.meters is not None:
        return [
            Column("participant", "Whose meter it is", needed=False),
            Column("time", "When it was read", times=True),
            Column("kw", "Power in kW", needed=False),
            Column("kwh", "Or energy in kWh", needed=False),
        ]
    return [
        Column("participant", "Whose row it is"),
        Column("step", "Place in the sequence, counted from 0"),
        Column("state", "State, counted from 0"),
    ]


# Matrix -------------------------------------------------------------------------------------------
# The private content that is a transition matrix: checked, from JSON or from a table.

SUM_TOLERANCE = 1e-9


def matrix_content(
    mask: NDArray[np.bool_], floor: float, rows: Sequence[Sequence[float] | NDArray[np.float64]]
) -> Content:
    """Of rows as JSON has them. mask: bool[n, n], the support; floor: the least that an entry of it
    may be."""
    prefix = "/content/transitions"
    n = len(mask)
    if len(rows) != n:
        raise InvalidInput(f"{n} rows are needed, one a state; found {len(rows)}", pointer=prefix)
    ragged = [
        FieldIssue(f"{prefix}/{row}", f"{n} entries are needed")
        for row in range(n)
        if len(rows[row]) != n
    ]
    if ragged:
        raise InvalidInput(ragged[:MAX_ISSUES])
    matrix = np.array(rows, dtype=np.float64)
    found = []
    for origin, to in np.argwhere(~mask & (matrix > 0))[:MAX_ISSUES]:
        found.append(FieldIssue(f"{prefix}/{origin}/{to}", "must be 0 outside the public support"))
    for origin, to in np.argwhere(mask & (matrix < floor))[:MAX_ISSUES]:
        found.append(FieldIssue(f"{prefix}/{origin}/{to}", f"below min_probability {floor}"))
    for origin in np.flatnonzero(np.abs(matrix.sum(axis=1) - 1) > SUM_TOLERANCE)[:MAX_ISSUES]:
        found.append(
            FieldIssue(f"{prefix}/{origin}", f"must sum to 1; sums to {matrix[origin].sum():.12g}")
        )
    if found:
        raise InvalidInput(found[:MAX_ISSUES])
    return {"transitions": matrix}


def matrix_table(mask: NDArray[np.bool_], floor: float, table: pa.Table) -> Content:
    """The same of columns `from, to, probability`."""
    n = len(mask)
    columns = integer_columns(
        table, {"from": (0, n - 1), "to": (0, n - 1)}, "/content", beside=("probability",)
    )
    probability = real_column(table, "probability", "/content")
    cells = columns["from"] * n + columns["to"]
    if np.unique(cells).size != cells.size:
        raise InvalidInput("a transition is given twice", pointer="/content")
    matrix = np.zeros((n, n))
    matrix.ravel()[cells] = probability
    if not np.isfinite(matrix).all():
        raise InvalidInput("column 'probability' must hold finite numbers", pointer="/content")
    return matrix_content(mask, floor, matrix.tolist())


# Measurements -------------------------------------------------------------------------------------
# From measurements and tariffs to states and utilities.

HOUR = 3600
LENGTHS = ((86_400, "day"), (HOUR, "hour"), (60, "minute"), (1, "second"))


def state_sequences(power: ArrayLike, edges: ArrayLike) -> list[list[int]]:
    """State sequences of power series, `content.trajectories` of a dataset.

    power: float[participants, steps], any unit; edges: float[states + 1], increasing, in the same
    unit, public. State s is edges[s] <= power < edges[s + 1]; power below the first or above the
    last edge counts to the outer states.
    """
    series, bins = np.asarray(power, dtype=np.float64), np.asarray(edges, dtype=np.float64)
    if series.ndim != 2 or not np.isfinite(series).all():
        raise InvalidInput("power is a finite array of participants by steps", pointer="/power")
    if bins.ndim != 1 or bins.size < 3 or not (np.diff(bins) > 0).all():
        raise InvalidInput("at least three increasing edges are needed", pointer="/edges")
    states: list[list[int]] = bins_of(series, bins).tolist()
    return states


def step_length(seconds: int) -> str:
    """A number of seconds in words, such as `15 minutes`."""
    size, unit = next((size, unit) for size, unit in LENGTHS if seconds % size == 0)
    count = seconds // size
    return f"{count} {unit}{'' if count == 1 else 's'}"


def price_in_words(price: ArrayLike, seconds: int) -> str:
    """The highest price of steps of so many seconds, also in money a kWh, as tariffs are: the unit
    of a price cannot be seen from its value."""
    highest = float(np.max(price))
    if seconds == HOUR:
        return (
            "taken per kW and step of an hour, which is a kWh: the highest is "
            f"{plain(highest, 3)} a kWh"
        )
    kwh = plain(highest * HOUR / seconds, 3)
    return (
        f"taken per kW and step of {step_length(seconds)}: the highest, {plain(highest, 3)}, is "
        f"{kwh} a kWh"
    )


def tariff_utility(price: ArrayLike, power: ArrayLike) -> Floats:
    """Utility float64[T, n] of a tariff: minus what a state's power costs.

    price: float[T], money per unit of power and step; power: float[n] of the states.
    """
    return -np.outer(np.asarray(price, dtype=np.float64), np.asarray(power, dtype=np.float64))
