"""Trajectories of people under a behaviour policy: what is published of them, and their canonical
form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, NotRequired

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.items import InPieces
from discreet.problems.contents import (
    PRIVATE,
    Columns,
    Content,
    Issues,
    Packed,
    UnitRows,
    are_spread,
    check_bounds,
    in_order,
    integer_columns,
    owner_column,
    real_column,
    rearranged,
    record_keys,
    record_order,
    starts_in,
    starts_of,
)
from discreet.problems.contents import check_names as check_columns
from discreet.problems.datasets import Column, ReaderRule
from discreet.problems.numbers import Count, Frozen, Real
from discreet.problems.off_policy_evaluation import propensities
from discreet.problems.off_policy_evaluation.public import (
    MAX_STATES,
    Floats,
    OffPolicyPublic,
    Vector,
)
from discreet.problems.sources import DatasetInBlocks
from discreet.solvers.evaluation import temporal_difference as td

# Dataset ------------------------------------------------------------------------------------------

# Layouts ------------------------------------------------------------------------------------------
# What a page asks about a file of trajectories: visits, or steps from one state to the next.

ASSUMES = (
    "What another policy would have been worth can be computed only from the known probabilities "
    "with which treatments were chosen, in an experiment or by a documented rule. If you enter "
    "0.5 and 0.5 and that is not how it was, values come out wrong, and little will show it."
)
OTHER_FILES = (
    "Your file has one visit a row, and its date? Change the public part: `ranges` say what "
    "features are called and between what they lie. Then visits are read here."
)
"""Shown where states are coordinates and the public part does not name them."""


RULES = (
    ReaderRule(
        "behaviour",
        "Known probability of each treatment, one per line",
        "figures",
        says="Such as “treat: 2/3”, under the policy that was followed: a number, a fraction, or a "
        "formula of columns such as 1/(1+exp(2-0.03*age)). Leave it empty where a column says it.",
    ),
    ReaderRule(
        "target",
        "Policy to be evaluated",
        "policy",
        says="A rule on columns that were known before the treatment, such as “age >= 65 and "
        '"Blood pressure" > 140 -> treat, else wait”, or probabilities as above. It is published '
        "as you write it. Empty: the policy that was followed.",
    ),
    ReaderRule(
        "rewards",
        "Values of outcomes that are words, one per line",
        "figures",
        says="Such as “improved: 1”. Yes and no, true and false are 1 and 0 without being listed.",
    ),
    ReaderRule(
        "last_row",
        "A patient’s last visit",
        "choice",
        (
            (None, "as usual"),
            ("terminal", "ends the episode"),
            ("next_state", "only shows the state that the patient reached"),
        ),
        "Usual is that it ends the episode, and where the public part is “continuing”, that it "
        "only shows a state.",
    ),
    ReaderRule(
        "missing",
        "A missing value",
        "choice",
        (
            (None, "is refused"),
            ("carry", "of a feature is taken from the visit before"),
            ("leave_out", "leaves out the patient, with all visits"),
        ),
    ),
    ReaderRule(
        "interval",
        "Time between visits",
        "number",
        says="In days where times are dates. Empty: visits follow each other whatever the time "
        "between them.",
    ),
    ReaderRule(
        "gaps",
        "A missing visit",
        "choice",
        ((None, "is refused"), ("end", "leaves out this patient’s later visits")),
        "Only where a time between visits is given.",
    ),
)


def rules(public: OffPolicyPublic) -> tuple[ReaderRule, ...]:
    """Of visits, which need what states are: their number, or the public ranges of features."""
    return RULES if public.states is not None or public.ranges is not None else ()


def columns(public: OffPolicyPublic) -> list[Column]:
    """Of visits, and apart from them those of steps; of steps alone where no visit can be read."""
    if not rules(public):
        return steps(public)
    own = visits(public)
    known = {one.name for one in own}
    apart = (one for one in steps(public) if one.name not in known)
    return [*own, *(Column(one.name, one.says, needed=False, apart=True) for one in apart)]


def steps(public: OffPolicyPublic) -> list[Column]:
    """The columns of the contract."""
    if public.states is not None:
        several = public.states > 1
        places = [
            Column("state", "State, counted from 0", needed=several),
            Column("next_state", "State after it, counted from 0", needed=several),
        ]
    else:
        places = [
            Column(f"{name}_{axis}", f"Coordinate {axis} of the state{after}")
            for name, after in (("x", ""), ("x_next", " after it"))
            for axis in range(public.features or 0)
        ]
    chances = () if public.off_policy is False else ("behaviour", "target")
    return [
        Column("trajectory", "Whose row it is"),
        Column("step", "Place in the trajectory, counted from 0"),
        *places,
        Column("reward", "Reward of the step"),
        Column("terminal", "Whether the trajectory ends here"),
        *(
            Column(
                name,
                f"Probability of the action under the {name} policy",
                needed=bool(public.off_policy),
            )
            for name in chances
        ),
    ]


def visits(public: OffPolicyPublic) -> list[Column]:
    """The columns of visits (docs/own-files.md)."""
    if public.ranges is None:
        places = [Column("state", "State, counted from 0", needed=(public.states or 1) > 1)]
    else:
        places = [
            Column(told.name, f"{told.low:g} to {told.high:g} become 0 to 1")
            for told in public.ranges
        ]
    chances = (
        Column("action", "What was done", needed=False),
        Column("probability", "Known probability with which that was chosen", needed=False),
        Column("target", "Its probability under the policy to be evaluated", needed=False),
    )
    return [
        Column("patient", "Whose visit it is"),
        Column("time", "When it was: a number or a date", needed=public.horizon > 1, times=True),
        *places,
        Column("reward", "How it came out"),
        *(() if public.off_policy is False else chances),
        Column("terminal", "Whether the episode ended", needed=False),
    ]


# Dataset ------------------------------------------------------------------------------------------


@with_config(ConfigDict(extra="forbid"))
class TransitionRow(TypedDict):
    """One transition; `state, next_state` (neither where there is one state) or `x, x_next`; both
    probabilities of the action or none."""

    trajectory: str | int
    step: Count
    state: NotRequired[Count]
    x: NotRequired[Vector]
    action: NotRequired[Any]
    reward: Real
    next_state: NotRequired[Count]
    x_next: NotRequired[Vector]
    terminal: bool
    behaviour: NotRequired[Real]
    target: NotRequired[Real]


_OPTIONAL = {
    "state": np.int64,
    "next_state": np.int64,
    "behaviour": np.float64,
    "target": np.float64,
}
_VECTORS = ("x", "x_next")


class OffPolicyContent(Frozen):
    """The private content."""

    transitions: Annotated[list[TransitionRow], InPieces()]


class OffPolicyDataset(DatasetInBlocks):
    """Trajectories of people under a behaviour policy."""

    ROWS: ClassVar[Mapping[str, Any]] = {"transitions": TransitionRow}
    OWNER: ClassVar[str] = "trajectory"
    RECORDS: ClassVar[str] = "start"
    USUAL: ClassVar[tuple[str, ...]] = ("states", "features", "ranges")
    MADE_UP: ClassVar[tuple[str, ...]] = ("states", "topology")
    ASSUMES: ClassVar[str] = ASSUMES
    ROW_BYTES: ClassVar[int] = 17  # two states of 4, a reward of 8, the end
    FIGURES: ClassVar[frozenset[str]] = frozenset(
        (
            *("reward_bound", "least_reward", "max_ratio", "overlap", "actions"),
            *("max_rows", "max_trajectories"),
            *("trajectories", "neighbours", "target_policy", "topology", "rewards", "continuing"),
        )
    )
    LATER: ClassVar[Mapping[str, str]] = {
        "max_ratio": "the largest target / behaviour probability of a step, from the rules of both "
        "policies: what two policies are worth is told without cutting off weights",
        "least_reward": "the least reward by its meaning, such as 0 where rewards count good "
        "outcomes: half the noise where none is negative",
    }
    UNCUT: ClassVar[str] = (
        "a trajectory of a block that does not begin at step 0 was refused, so that rows of one "
        "whose dates lie in two blocks are read in one of them at most; that its steps are counted "
        "from its beginning, and not anew in each block, is taken to be true"
    )
    WHOLE: ClassVar[bool] = False
    """Whether each trajectory must begin at step 0."""

    kind: Literal["off_policy_evaluation"]
    public: OffPolicyPublic
    content: OffPolicyContent = Field(json_schema_extra=PRIVATE)

    @classmethod
    def most_units(cls, public: OffPolicyPublic) -> int | None:
        return public.trajectories or public.max_trajectories

    @classmethod
    def undeclared(cls, public: Mapping[str, Any]) -> dict[str, str]:
        found = super().undeclared(public)
        if not public.get("off_policy"):  # nothing is weighed
            found.pop("max_ratio", None)
        return found

    @classmethod
    def check_again(cls, public: OffPolicyPublic, content: Content) -> None:
        start = content["start"]
        check_number(public, start.size - 1, "/content")
        columns = {name: array for name, array in content.items() if name != "start"}
        if public.topology is not None:
            check_topology(public, columns, _refuse)
        # Steps are not stored: they were below the horizon, which is no figure.
        columns["step"] = np.zeros(columns["reward"].size, dtype=np.int64)
        check_values(public, columns, "/content")

    @classmethod
    def relation(cls, public: OffPolicyPublic) -> dict[str, Any]:
        return {"neighbours": "replaced" if public.replaced else "added or removed"}

    @classmethod
    def sizes(cls, public: OffPolicyPublic, content: Content) -> dict[str, tuple[int, int]]:
        rows, trajectories = content["reward"].size, content["start"].size - 1
        found = {"max_rows": (rows, public.most_rows)}
        return found | (
            {}
            if public.replaced
            else {"max_trajectories": (trajectories, public.most_trajectories)}
        )

    @classmethod
    def most_bytes(cls, public: OffPolicyPublic) -> int | None:
        if public.max_rows is public.max_trajectories is public.trajectories is None:
            return None
        if public.off_policy is None:  # not described yet: it may have both probabilities
            public = public.model_copy(update={"off_policy": True})
        return public.most_bytes + 8

    @classmethod
    def pack(cls, name: str, items: Sequence[Any]) -> Packed:
        """`has_NAME` says which rows have an optional column; vectors are concatenated, with their
        sizes in `size_NAME`."""
        columns: Packed = {
            "trajectory": np.fromiter(
                (row["trajectory"] for row in items), dtype=object, count=len(items)
            ),
            "step": np.array([row["step"] for row in items], dtype=np.int32),
            "reward": np.array([row["reward"] for row in items], dtype=np.float64),
            "terminal": np.array([row["terminal"] for row in items], dtype=bool),
        }
        for optional, kind in _OPTIONAL.items():
            columns[f"has_{optional}"] = np.array([optional in row for row in items], dtype=bool)
            columns[optional] = np.array([row.get(optional, 0) for row in items], dtype=kind)
        for vector in _VECTORS:
            given = [row.get(vector, ()) for row in items]
            size = np.array([len(one) for one in given], dtype=np.int32)
            columns[f"has_{vector}"] = np.array([vector in row for row in items], dtype=bool)
            columns[f"size_{vector}"] = size
            columns[vector] = np.fromiter(
                chain.from_iterable(given), dtype=np.float64, count=int(size.sum())
            )
        return columns

    @classmethod
    def read_packed(cls, public: OffPolicyPublic, packed: Mapping[str, Packed]) -> Content:
        rows, prefix = packed["transitions"], "/content/transitions"
        here, there = ("state", "next_state") if public.states is not None else ("x", "x_next")
        off_policy = bool(rows["has_behaviour"].any() or rows["has_target"].any())
        alike = public.states == 1 and not (rows[f"has_{here}"].any() or rows[f"has_{there}"].any())
        needed = [
            *([] if alike else [here, there]),
            *(["behaviour", "target"] if off_policy else []),
        ]
        unknown = {"state", "next_state", "x", "x_next"} - {here, there}
        issues = Issues(prefix)
        for name in needed:
            issues.where(~rows[f"has_{name}"], name, "needed in every row")
        for name in unknown:
            says = f"this dataset's states are given as {here} and {there}"
            issues.where(rows[f"has_{name}"], name, says)
        if public.features is not None:
            for name in (here, there):
                issues.where(
                    rows[f"size_{name}"] != public.features,
                    name,
                    f"{public.features} coordinates are needed",
                )
        issues.check()
        columns: dict[str, NDArray[Any]] = {"step": rows["step"].astype(np.int64)}
        columns |= {name: rows[name] for name in ("reward", "terminal")}
        for name in (here, there) if alike else ():
            columns[name] = np.zeros(rows["step"].size, dtype=np.int64)
        for name in needed:
            vector = name in _VECTORS
            columns[name] = rows[name].reshape(-1, public.features or 1) if vector else rows[name]
        # As objects: an array of fixed-width text drops zero characters, and two trajectories would
        # be one.
        names = np.fromiter(
            map(str, rows["trajectory"]), dtype=object, count=rows["trajectory"].size
        )
        _, owner = np.unique(names, return_inverse=True)
        check_values(public, columns, prefix)
        numbers = owner.ravel().astype(np.int64)
        return canonical_content(public, columns, numbers, prefix, whole=cls.WHOLE)

    @classmethod
    def in_block(cls) -> type[OffPolicyDataset]:
        return BlockOfTrajectories

    @classmethod
    def not_in_blocks(cls, public: OffPolicyPublic) -> str:
        return not_in_blocks(public)

    @classmethod
    def nothing(cls, public: OffPolicyPublic) -> Content:
        return nothing(public)

    @classmethod
    def combined(cls, public: OffPolicyPublic, number: int) -> OffPolicyPublic:
        return public if number == 1 else cls.read_public(combined(public, number))

    @classmethod
    def joined(cls, public: OffPolicyPublic, contents: Sequence[Content]) -> Content:
        return joined(contents)

    @classmethod
    def columns(cls, public: OffPolicyPublic) -> list[Column]:
        return columns(public)

    @classmethod
    def reader_rules(cls, public: OffPolicyPublic) -> tuple[ReaderRule, ...]:
        return rules(public)

    @classmethod
    def other_files(cls, public: OffPolicyPublic) -> str:
        return OTHER_FILES if public.states is None and public.ranges is None else ""

    @classmethod
    def sample_files(cls) -> Iterable[tuple[dict[str, Any], str, Any]]:
        visits = {
            "unit": "trajectory",
            "horizon": 3,
            "reward_bound": 1,
            "max_ratio": 5,
            "ranges": [{"name": "age", "low": 20, "high": 100}],
            "reader": {
                "dates": "day_first",
                "behaviour": {"treat": 0.5, "wait": 0.5},
                "target": "age >= 65 -> treat, else wait",
                "rewards": {"well": 1, "ill": 0},
                "missing": "leave_out",
                "interval": 1,
            },
            "columns": {"patient": "pid", "time": "date", "action": "arm", "reward": "score"},
        }
        lines = [
            "1;01/02/2026;70;treat;well",
            "1;02/02/2026;70;wait;ill",
            "2;01/02/2026;50;wait;well",
        ]
        for row in ("2;02/02/2026;50;wait;ill", "2;02/02/2026;;wait;ill", "2;31/02/2026;50;no;bad"):
            text = "\n".join(["pid;date;age;arm;score", *lines, row])
            yield visits, "csv", text.encode()

    @classmethod
    def sample_tables(cls) -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
        public = {"unit": "trajectory", "reward_bound": 1, "horizon": 2}
        shared: dict[str, list[Any]] = {
            "step": [0, 1, 0],
            "reward": [0.0, 1.0, 0.5],
            "terminal": [False, True, True],
        }
        chances: dict[str, list[Any]] = {"behaviour": [0.5, 0.5, 1.0], "target": [0.25, 0.5, 1.0]}
        tabular: dict[str, list[Any]] = {"state": [0, 1, 0], "next_state": [1, 2, 2]}
        lists: dict[str, list[Any]] = {"x": [[0.0, 1.0]] * 3, "x_next": [[1.0, 0.0]] * 3}
        flat: dict[str, list[Any]] = {
            f"{name}_{axis}": [0.0, 0.5, 1.0] for name in ("x", "x_next") for axis in range(2)
        }
        for names in ([1, 1, 2], [2, 2, 1], ["b", "b", "a"]):
            rows = {"trajectory": names, **shared}
            yield {**public, "states": 2}, rows | tabular
            yield {**public, "states": 2}, rows | tabular | chances | {"action": [0, 1, 0]}
            yield {**public, "features": 2}, rows | lists
            yield {**public, "features": 2}, rows | flat

    @classmethod
    def read_table(cls, public: OffPolicyPublic, table: pa.Table) -> Content:
        """Columns as in JSON; `x` and `x_next` as lists, or as columns `x_0, x_1, …, x_next_0, …`.
        Where there is one state, neither `state` nor `next_state` is needed."""
        columns, table = columns_of(public, table, "/content")
        owner = owner_column(table, "trajectory", "/content").astype(np.int32, copy=False)
        del table  # the last reference, where the caller keeps none
        pa.default_memory_pool().release_unused()
        check_values(public, columns, "/content")
        return canonical_content(public, columns, owner, "/content", whole=cls.WHOLE)

    @classmethod
    def by_units(cls, public: OffPolicyPublic, schema: pa.Schema) -> UnitRows | None:
        columns_of(public, schema.empty_table(), "/content")  # what is wrong with its columns
        kind = schema.field("trajectory").type
        return TrajectoryRows(public, whole=cls.WHOLE) if are_spread(kind) else None

    @classmethod
    def doubt_sums(cls, public: OffPolicyPublic, content: Content) -> NDArray[np.float64] | None:
        if "behaviour" not in content:
            return None
        most = public.largest_ratio
        return propensities.sums_of(content, most if most < math.inf else None)

    @classmethod
    def doubts(cls, sums: NDArray[np.float64]) -> list[FieldIssue]:
        return propensities.issues(sums)

    @classmethod
    def describe(cls, public: OffPolicyPublic, content: Content) -> OffPolicyPublic:
        off_policy = "behaviour" in content
        if public.off_policy is not None and public.off_policy != off_policy:
            says = (
                "must be true, since rows have behaviour and target"
                if off_policy
                else "must be false, since no row has behaviour and target"
            )
            raise InvalidInput(says, pointer="/public/off_policy")
        if public.continuing and content["terminal"].any():
            raise InvalidInput(
                "a transition is terminal, so episodes end", pointer="/public/continuing"
            )
        return public.model_copy(update={"off_policy": off_policy})


def _refuse(bad: NDArray[np.bool_], name: str, says: str, values: NDArray[Any], first: int) -> None:
    """InvalidInput for the first bad row of a stored content, whose order is not the owner's."""
    if bad.any():
        found = values[int(np.flatnonzero(bad)[0]) + first]
        raise InvalidInput(f"{name}: {says}; found {found!s:.40}", pointer="/content")


class BlockOfTrajectories(OffPolicyDataset):
    """Trajectories as they are read for a block of a source: of one whose rows were divided among
    blocks by their dates, only the block with step 0 can be registered."""

    WHOLE: ClassVar[bool] = True


def transitions_of(content: Content, max_ratio: float) -> td.Transitions:
    """The solver's form of canonical content."""
    ratio = (
        td.importance_ratio(content["target"], content["behaviour"], max_ratio)
        if "behaviour" in content
        else np.empty(0)
    )
    here, there = ("state", "next_state") if "state" in content else ("x", "x_next")
    return td.Transitions(
        trajectory_start=content["start"],
        state=content[here],
        next_state=content[there],
        reward=content["reward"],
        ratio=ratio,
        terminal=content["terminal"],
    )


# Parts --------------------------------------------------------------------------------------------
# Transitions that do not fit memory, read some trajectories at a time.


def columns_of(
    public: OffPolicyPublic, table: pa.Table, prefix: str, first: int = 0
) -> tuple[Columns, pa.Table]:
    """The columns of a table, or of part of one that begins at row `first`, each of a type and
    integers within bounds; and what is left of it, with `trajectory`."""
    given = set(table.column_names)
    off_policy = bool(given & {"behaviour", "target"})
    reals = ["reward", *(["behaviour", "target"] if off_policy else [])]
    integers = {"step": (0, public.horizon - 1)}
    vectors: list[str] = []
    alike = public.states == 1 and not given & {"state", "next_state"}
    if public.states is not None:
        integers |= (
            {} if alike else {"state": (0, public.states - 1), "next_state": (0, MAX_STATES)}
        )
    else:
        for name in ("x", "x_next"):
            split = [f"{name}_{axis}" for axis in range(public.features or 0)]
            vectors += [name] if name in given else split
    needed = ["trajectory", *integers, *reals, *vectors, "terminal"]
    check_columns(table, needed, ["action"], prefix)
    columns: Columns = {}
    for name in ("state", "next_state") if alike else ():
        columns[name] = np.zeros(table.num_rows, dtype=np.int32)
    # One after the other, with few bits, and taken out of the table: a column of 20 million rows is
    # 160 MB in 64 bits.
    for name, bounds in integers.items():
        part = table.select([name])
        columns |= integer_columns(part, {name: bounds}, prefix, first=first, dtype=np.int32)
        table = table.drop_columns([name])
    for name in reals:
        columns[name] = real_column(table, name, prefix, first=first).astype(np.float64, copy=False)
        table = table.drop_columns([name])
    columns["terminal"] = truths_of(table, prefix)
    if public.features is not None:
        columns |= {
            name: vectors_of(table, name, public.features, prefix, first)
            for name in ("x", "x_next")
        }
    return columns, table


class TrajectoryRows(UnitRows):
    """Reads transitions with all of a trajectory in one part."""

    owner = "trajectory"
    public: OffPolicyPublic

    def __init__(self, public: OffPolicyPublic, *, whole: bool = False) -> None:
        """If `whole`, each trajectory must begin at step 0."""
        super().__init__(public)
        self._whole = whole

    def rows(self, table: pa.Table, first: int) -> Columns:
        columns, _ = columns_of(self.public, table, self.prefix, first)
        check_values(self.public, columns, self.prefix, first)
        if self.public.topology is not None:
            issues = Issues(self.prefix, first)

            def refuse(
                bad: NDArray[np.bool_], name: str, says: str, values: NDArray[Any], place: int
            ) -> None:
                issues.where(np.pad(bad, (place, 0)), name, says, values)
                issues.check()

            check_topology(self.public, columns, refuse)
        return columns

    def part(
        self, columns: Columns, owner: NDArray[np.integer[Any]], row: NDArray[np.int64]
    ) -> Content:
        owner, step, columns, order = in_order(owner, columns.pop("step"), columns)
        row = row if order is None else row[order]
        same = owner[1:] == owner[:-1]
        for stage, (bad, says) in enumerate(
            (
                (step[1:] == step[:-1], "a step appears twice in its trajectory"),
                (columns["terminal"][:-1], "a terminal transition ends its trajectory"),
            )
        ):
            at = np.flatnonzero(same & bad) + 1
            self.issues.where(row[at], "step", says, step[at], stage)
        start = starts_in(same, owner.size)
        if self._whole:
            headless = start[:-1][step[start[:-1]] != 0]
            self.issues.where(row[headless], "step", HEADLESS, step[headless], 2)
        self.units += start.size - 1
        as_stored(columns)
        return {"start": start, **columns}

    def keys(self, content: Content) -> NDArray[Any]:
        return keys(content)

    def check(self) -> None:
        super().check()
        check_number(self.public, self.units, self.prefix)


# Blocks -------------------------------------------------------------------------------------------
# Blocks of trajectories as one set of trajectories.

REPLACED = (
    "with a public number of trajectories every block would have to hold exactly as many: "
    "neighbours add_remove are needed, so leave `trajectories` out (`max_trajectories` bounds "
    "their number)"
)
UNSAID = (
    "give `off_policy`: whether rows have behaviour and target. Otherwise it follows from the "
    "content, and a block may have no records"
)
MOST_ROWS = 10**9


def not_in_blocks(public: OffPolicyPublic) -> str:
    """Why no source is made of such data; empty where one can be."""
    if public.replaced:
        return REPLACED
    return UNSAID if public.off_policy is None else ""


def nothing(public: OffPolicyPublic) -> Content:
    """Canonical content of no trajectories."""
    here, there = ("state", "next_state") if public.states is not None else ("x", "x_next")
    shape, kind = (
        ((0,), np.int32) if public.states is not None else ((0, public.features or 1), np.float64)
    )
    reals = ("reward", *(("behaviour", "target") if public.off_policy else ()))
    return {
        "start": np.zeros(1, dtype=np.int64),
        here: np.zeros(shape, dtype=kind),
        there: np.zeros(shape, dtype=kind),
        "terminal": np.zeros(0, dtype=bool),
        **{name: np.zeros(0) for name in reals},
    }


def combined(public: OffPolicyPublic, blocks: int) -> dict[str, Any]:
    """The public part of so many blocks: as many times the trajectories and transitions that one
    may have."""
    rows = public.most_rows * blocks
    if rows > MOST_ROWS:
        says = (
            f"{blocks} blocks may have {rows} transitions together, by public bounds; at most "
            f"{MOST_ROWS} are read"
        )
        raise InvalidInput(says, pointer="/problem/source")
    given = public.model_dump(mode="json", exclude_none=True)
    return {**given, "max_trajectories": public.most_trajectories * blocks, "max_rows": rows}


def keys(content: Content) -> NDArray[Any]:
    """Keys by which trajectories are in the order of `joined`."""
    columns = (content[name] for name in sorted(content) if name != "start")
    return record_keys(content["start"], columns)


def joined(contents: Sequence[Content]) -> Content:
    """Trajectories of all blocks in the one order that depends on nothing but what stands in them:
    which block one is of does not show."""
    full = [content for content in contents if content["start"][-1]]
    if len(full) < 2:
        return full[0] if full else contents[0]
    ends = np.cumsum([0, *(content["start"][-1] for content in full)])
    starts = [content["start"][1:] + end for content, end in zip(full, ends, strict=False)]
    start = np.concatenate([[0], *starts]).astype(np.int64)
    columns = {
        name: np.concatenate([content[name] for content in full])
        for name in full[0]
        if name != "start"
    }
    sequence = record_order(start, (columns[name] for name in sorted(columns)))
    content = {name: rearranged(columns.pop(name), start, sequence) for name in list(columns)}
    return {"start": starts_of(start, sequence), **content}


# Canonical ----------------------------------------------------------------------------------------
# Transitions in their canonical form, every value checked.

ROWS_AT_ONCE = 1 << 16
HEADLESS = (
    "a trajectory of a block begins at step 0: all of its rows are registered in the block of its "
    "first, with that date"
)


def truths_of(table: pa.Table, prefix: str) -> NDArray[np.bool_]:
    column = table.column("terminal")
    if column.null_count or not (
        pa.types.is_boolean(column.type) or pa.types.is_integer(column.type)
    ):
        raise InvalidInput(
            "column 'terminal' must hold true or false, none missing", pointer=prefix
        )
    return np.asarray(column.cast(pa.bool_()).to_numpy(), dtype=bool)


def vectors_of(table: pa.Table, name: str, size: int, prefix: str, first: int = 0) -> Floats:
    """float64[N, size] of a list column, or of one column a coordinate."""
    import pyarrow.compute as pc  # noqa: PLC0415 - 8 MB of Arrow's functions, for who reads lists

    if name not in table.column_names:
        split = [real_column(table, f"{name}_{axis}", prefix, first=first) for axis in range(size)]
        return np.stack(split, axis=1).astype(np.float64, copy=False)
    column = table.column(name).combine_chunks()
    kind = column.type
    if not (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        raise InvalidInput(f"column {name!r} must hold lists of {size} numbers", pointer=prefix)
    flat = column.flatten()
    lengths = pc.list_value_length(column)
    if (
        column.null_count
        or flat.null_count
        or not pc.all(pc.equal(lengths, size), min_count=0).as_py()
    ):
        raise InvalidInput(
            f"column {name!r} must hold lists of {size} numbers, none missing", pointer=prefix
        )
    values = flat.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values.reshape(-1, size))


def canonical_content(
    public: OffPolicyPublic,
    columns: dict[str, NDArray[Any]],
    owner: NDArray[np.integer[Any]],
    prefix: str,
    *,
    whole: bool = False,
) -> Content:
    """Rows by trajectory and step, in an order that tells nothing of whose they are, of which each
    value by itself was found good (`check_values`). If `whole`, each trajectory begins at step 0.

    Trajectories that are empty do not exist; actions are not kept, only their probabilities.
    """
    step = columns.pop("step")
    owner, step, columns, order = in_order(owner, step, columns)
    same = owner[1:] == owner[:-1]
    start = starts_in(same, owner.size)

    def refuse(
        bad: NDArray[np.bool_], name: str, says: str, values: NDArray[Any], first: int
    ) -> None:
        """`bad`, of the rows from `first` on, and `values` are in the sorted order; rows are named
        as they came."""
        if bad.any():
            places = np.flatnonzero(bad)[:20] + first
            rows = places if order is None else order[places]
            raise InvalidInput(
                [
                    FieldIssue(f"{prefix}/{row}/{name}", f"{says}; found {values[place]!s:.40}")
                    for row, place in zip(rows.tolist(), places.tolist(), strict=True)
                ]
            )

    refuse(
        same & (step[1:] == step[:-1]), "step", "a step appears twice in its trajectory", step, 1
    )
    refuse(
        same & columns["terminal"][:-1],
        "step",
        "a terminal transition ends its trajectory",
        step,
        1,
    )
    if whole:
        headless = np.zeros(step.size, dtype=np.bool_)
        headless[start[:-1]] = step[start[:-1]] != 0
        refuse(headless, "step", HEADLESS, step, 0)
    check_number(public, start.size - 1, prefix)
    if public.topology is not None:
        check_topology(public, columns, refuse)
    del step, owner, same
    return stored(columns, start)


def check_number(public: OffPolicyPublic, trajectories: int, prefix: str) -> None:
    """InvalidInput for too few trajectories, or others than the public number."""
    if trajectories < 1:
        raise InvalidInput("at least one trajectory is needed", pointer=prefix)
    if public.trajectories is not None and trajectories != public.trajectories:
        found = f"found {trajectories} trajectories, but the public number is {public.trajectories}"
        raise InvalidInput(found, pointer="/public/trajectories")


def stored(columns: dict[str, NDArray[Any]], start: NDArray[np.int64]) -> Content:
    """The canonical content of checked rows, in the order of trajectories and steps. `columns` is
    emptied."""
    as_stored(columns)
    # In the order of their names: formats give columns in different orders.
    sequence = record_order(start, (columns[name] for name in sorted(columns)))
    content = {name: rearranged(columns.pop(name), start, sequence) for name in list(columns)}
    return {"start": starts_of(start, sequence), **content}


def as_stored(columns: dict[str, NDArray[Any]]) -> None:
    """Make checked columns what is stored of them."""
    for name, column in columns.items():
        if column.dtype.kind == "f":
            columns[name] = np.add(
                column, 0.0, out=column if column.flags.writeable else None
            )  # one zero
        elif name in ("state", "next_state"):
            columns[name] = column.astype(np.int32, copy=False)


def check_values(
    public: OffPolicyPublic, columns: dict[str, NDArray[Any]], prefix: str, first: int = 0
) -> None:
    """Each value by itself, rows as they came, from row `first` on."""
    bounds = {"step": (0, public.horizon - 1)}
    if public.states is not None:
        bounds |= {"state": (0, public.states - 1), "next_state": (0, public.states - 1)}
        # Where an episode ends the next state is not looked at.
        columns["next_state"] = np.where(columns["terminal"], np.int32(0), columns["next_state"])
    check_bounds(columns, bounds, prefix, first)
    issues = Issues(prefix, first)
    for name, column in columns.items():
        if column.dtype.kind == "f":
            bad = ~np.isfinite(column)
            issues.where(
                bad if bad.ndim == 1 else bad.any(axis=1), name, "a finite number is needed", column
            )
    issues.check()
    reward = columns["reward"]
    says = f"the public reward bound is {public.reward_bound:g}"
    issues.where(np.abs(reward) > public.reward_bound, "reward", says, reward)
    if public.least_reward is not None:
        low = (reward < public.least_reward) & (reward >= -public.reward_bound)
        issues.where(low, "reward", f"the public least_reward is {public.least_reward:g}", reward)
    if "behaviour" in columns:
        behaviour, target = columns["behaviour"], columns["target"]
        says = "the action was taken, so its behaviour probability must be above 0 and at most 1"
        issues.where((behaviour <= 0) | (behaviour > 1), "behaviour", says, behaviour)
        issues.where(
            (target < 0) | (target > 1), "target", "a probability must be between 0 and 1", target
        )
        if public.max_ratio is not None:
            too_large = target > behaviour * (public.max_ratio * (1 + 1e-9))
            issues.where(
                too_large,
                "target",
                f"public.max_ratio allows at most {public.max_ratio:g} x behaviour",
                target,
            )
        if public.overlap is not None:
            says = f"public.overlap says that no action is less probable than {public.overlap:g}"
            issues.where(behaviour < public.overlap * (1 - 1e-9), "behaviour", says, behaviour)
    issues.check()


def check_topology(public: OffPolicyPublic, columns: dict[str, NDArray[Any]], refuse: Any) -> None:
    """By parts, which stay in the cache: nothing as long as the columns is made."""
    states = public.states
    assert states is not None
    cell_of = np.full((states, states + 1), -1, dtype=np.int32)
    cells = public.cells()
    cell_of[cells[:, 0], cells[:, 1]] = np.arange(len(cells))
    expected = None if public.rewards is None else np.array(public.rewards)
    rewards = columns["reward"]
    for first in range(0, rewards.size, ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        to = np.where(columns["terminal"][part], np.int32(states), columns["next_state"][part])
        found = cell_of[columns["state"][part], to]
        bad = found < 0
        if bad.any():
            to = np.where(columns["terminal"], np.int32(states), columns["next_state"])
            refuse(bad, "next_state", "this transition is not in the public topology", to, first)
        if expected is not None:
            wrong = np.abs(rewards[part] - expected[found]) > 1e-9 * public.reward_bound
            refuse(
                wrong,
                "reward",
                "public.rewards gives another reward for this transition",
                rewards,
                first,
            )
