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
from discreet.problems.columns import (
    Issues,
    check_bounds,
    check_names,
    integer_columns,
    owner_column,
    real_column,
    rearranged,
    record_order,
    starts_of,
)
from discreet.problems.contents import PRIVATE, Content, Packed
from discreet.problems.datasets import Column, Layout
from discreet.problems.numbers import Count, Frozen, Real
from discreet.problems.off_policy_evaluation import blocks, layouts
from discreet.problems.off_policy_evaluation.public import (
    MAX_STATES,
    Floats,
    Ints,
    OffPolicyPublic,
    Vector,
)
from discreet.problems.sources import DatasetInBlocks
from discreet.solvers.evaluation import temporal_difference as td

ROWS_AT_ONCE = 1 << 16


@with_config(ConfigDict(extra="forbid"))
class TransitionRow(TypedDict):
    """One transition; `state, next_state` (of one state neither) or `x, x_next`; both probabilities
    of the action or none."""

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
    USUAL: ClassVar[tuple[str, ...]] = ("states", "features", "ranges")
    MADE_UP: ClassVar[tuple[str, ...]] = ("states", "topology")
    ASSUMES: ClassVar[str] = layouts.ASSUMES
    ROW_BYTES: ClassVar[int] = 17  # two states of 4, a reward of 8, the end

    kind: Literal["off_policy_evaluation"]
    public: OffPolicyPublic
    content: OffPolicyContent = Field(json_schema_extra=PRIVATE)

    @classmethod
    def most_units(cls, public: OffPolicyPublic) -> int | None:
        return public.trajectories or public.max_trajectories

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
    def pack(cls, name: str, items: Sequence[Any]) -> Packed:
        """`has_NAME` of a column that rows may lack; vectors one behind the other, with their
        sizes."""
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
        return _canonical(public, columns, owner.ravel().astype(np.int64), prefix)

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
        return layouts.steps(public)

    @classmethod
    def layouts(cls, public: OffPolicyPublic) -> list[Layout]:
        return layouts.layouts(public)

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
        Of one state neither `state` nor `next_state` need be there."""
        prefix = "/content"
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
        check_names(table, needed, ["action"], prefix)
        columns: dict[str, NDArray[Any]] = {}
        for name in ("state", "next_state") if alike else ():
            columns[name] = np.zeros(table.num_rows, dtype=np.int32)
        # One after the other, narrow, and gone from the table: a column of 20 million rows is 160
        # MB in 64 bits.
        for name, bounds in integers.items():
            columns |= integer_columns(table.select([name]), {name: bounds}, prefix, dtype=np.int32)
            table = table.drop_columns([name])
        for name in reals:
            columns[name] = real_column(table, name, prefix).astype(np.float64, copy=False)
            table = table.drop_columns([name])
        columns["terminal"] = _truths(table, prefix)
        if public.features is not None:
            columns |= {
                name: _vectors(table, name, public.features, prefix) for name in ("x", "x_next")
            }
        owner = owner_column(table, "trajectory", prefix).astype(np.int32, copy=False)
        del table  # the last reference, where the caller keeps none
        pa.default_memory_pool().release_unused()
        return _canonical(public, columns, owner, prefix)

    @classmethod
    def describe(cls, public: OffPolicyPublic, content: Content) -> OffPolicyPublic:
        off_policy = "behaviour" in content
        if public.off_policy is not None and public.off_policy != off_policy:
            says = (
                "rows have behaviour and target"
                if off_policy
                else "no row has behaviour and target"
            )
            raise InvalidInput(says, pointer="/public/off_policy")
        if public.continuing and content["terminal"].any():
            raise InvalidInput(
                "a transition is terminal, so episodes end", pointer="/public/continuing"
            )
        return public.model_copy(update={"off_policy": off_policy})


def _truths(table: pa.Table, prefix: str) -> NDArray[np.bool_]:
    column = table.column("terminal")
    if column.null_count or not (
        pa.types.is_boolean(column.type) or pa.types.is_integer(column.type)
    ):
        raise InvalidInput(
            "column 'terminal' must hold true or false, none missing", pointer=prefix
        )
    return np.asarray(column.cast(pa.bool_()).to_numpy(), dtype=bool)


def _vectors(table: pa.Table, name: str, size: int, prefix: str) -> Floats:
    """float64[N, size] of a list column, or of one column a coordinate."""
    import pyarrow.compute as pc  # noqa: PLC0415 - 8 MB of Arrow's functions, for who reads lists

    if name not in table.column_names:
        split = [real_column(table, f"{name}_{axis}", prefix) for axis in range(size)]
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


def _canonical(
    public: OffPolicyPublic,
    columns: dict[str, NDArray[Any]],
    owner: NDArray[np.integer[Any]],
    prefix: str,
) -> Content:
    """Checked rows by trajectory and step, in an order that tells nothing of whose they are.

    Trajectories that are empty do not exist; actions are not kept, only their probabilities.
    """
    step = columns.pop("step")
    _check_values(public, step, columns, prefix)
    order: NDArray[np.int64] | None = None
    same = owner[1:] == owner[:-1]
    if not ((owner[1:] > owner[:-1]) | (same & (step[1:] > step[:-1]))).all():
        order = np.lexsort((step, owner))
        step, owner = step[order], owner[order]
        columns = {name: column[order] for name, column in columns.items()}
        same = owner[1:] == owner[:-1]
    start = np.concatenate(
        [np.zeros(min(owner.size, 1)), np.flatnonzero(~same) + 1, [owner.size]]
    ).astype(np.int64)

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

    refuse(same & (step[1:] == step[:-1]), "step", "a step stands twice in its trajectory", step, 1)
    refuse(
        same & columns["terminal"][:-1],
        "step",
        "a terminal transition ends its trajectory",
        step,
        1,
    )
    if start.size < 2:
        raise InvalidInput("at least one trajectory is needed", pointer=prefix)
    if public.trajectories is not None and start.size - 1 != public.trajectories:
        found = f"{start.size - 1} trajectories of {public.trajectories} public ones"
        raise InvalidInput(found, pointer="/public/trajectories")
    if public.topology is not None:
        assert public.states is not None
        _check_topology(public, columns, refuse)
    for name, column in columns.items():
        if column.dtype.kind == "f":
            columns[name] = np.add(
                column, 0.0, out=column if column.flags.writeable else None
            )  # one zero
    # In the order of their names: formats give columns in different orders.
    sequence = record_order(start, (columns[name] for name in sorted(columns)))
    del step, owner, same
    content = {name: rearranged(columns.pop(name), start, sequence) for name in list(columns)}
    for name in ("state", "next_state"):
        if name in content:
            content[name] = content[name].astype(np.int32, copy=False)
    return {"start": starts_of(start, sequence), **content}


def _check_values(
    public: OffPolicyPublic, step: Ints, columns: dict[str, NDArray[Any]], prefix: str
) -> None:
    """Each value by itself, rows as they came."""
    bounds = {"step": (0, public.horizon - 1)}
    if public.states is not None:
        bounds |= {"state": (0, public.states - 1), "next_state": (0, public.states - 1)}
        # Where an episode ends the next state is not looked at.
        columns["next_state"] = np.where(columns["terminal"], np.int32(0), columns["next_state"])
    check_bounds({"step": step, **columns}, bounds, prefix)
    issues = Issues(prefix)
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
        says = "the action was taken, so its behaviour probability is above 0 and at most 1"
        issues.where((behaviour <= 0) | (behaviour > 1), "behaviour", says, behaviour)
        issues.where((target < 0) | (target > 1), "target", "a probability is 0 to 1", target)
        if public.max_ratio is not None:
            too_large = target > behaviour * (public.max_ratio * (1 + 1e-9))
            issues.where(
                too_large,
                "target",
                f"public.max_ratio says at most {public.max_ratio:g} x behaviour",
                target,
            )
    issues.check()


def _check_topology(public: OffPolicyPublic, columns: dict[str, NDArray[Any]], refuse: Any) -> None:
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
                "public.rewards says another reward of this transition",
                rewards,
                first,
            )


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
