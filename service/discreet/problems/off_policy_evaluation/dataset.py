"""Trajectories of people under a behaviour policy: what is published of them, and their canonical
form."""

from __future__ import annotations

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
    Content,
    Issues,
    Packed,
    UnitRows,
    are_spread,
    owner_column,
)
from discreet.problems.datasets import Column, FileQuestion, ReaderRule
from discreet.problems.numbers import Count, Frozen, Real
from discreet.problems.off_policy_evaluation import blocks, layouts, own_file, propensities
from discreet.problems.off_policy_evaluation.canonical import (
    canonical_content,
    check_number,
    check_topology,
    check_values,
)
from discreet.problems.off_policy_evaluation.parts import TrajectoryRows, columns_of
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic, Vector
from discreet.problems.sources import DatasetInBlocks
from discreet.solvers.evaluation import temporal_difference as td


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
    ASSUMES: ClassVar[str] = layouts.ASSUMES
    ROW_BYTES: ClassVar[int] = 17  # two states of 4, a reward of 8, the end
    ASKED: ClassVar[tuple[FileQuestion, ...]] = own_file.QUESTIONS
    FIGURES: ClassVar[frozenset[str]] = frozenset(
        (
            *("reward_bound", "least_reward", "max_ratio", "max_rows", "max_trajectories"),
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
        return blocks.not_in_blocks(public)

    @classmethod
    def nothing(cls, public: OffPolicyPublic) -> Content:
        return blocks.nothing(public)

    @classmethod
    def combined(cls, public: OffPolicyPublic, number: int) -> OffPolicyPublic:
        return public if number == 1 else cls.read_public(blocks.combined(public, number))

    @classmethod
    def joined(cls, public: OffPolicyPublic, contents: Sequence[Content]) -> Content:
        return blocks.joined(contents)

    @classmethod
    def columns(cls, public: OffPolicyPublic) -> list[Column]:
        return layouts.columns(public)

    @classmethod
    def reader_rules(cls, public: OffPolicyPublic) -> tuple[ReaderRule, ...]:
        return layouts.rules(public)

    @classmethod
    def other_files(cls, public: OffPolicyPublic) -> str:
        return layouts.OTHER_FILES if public.states is None and public.ranges is None else ""

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
        return propensities.sums_of(content, public.max_ratio)

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
