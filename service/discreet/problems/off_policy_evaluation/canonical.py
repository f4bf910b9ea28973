"""Transitions in their canonical form, every value checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.contents import (
    Content,
    Issues,
    check_bounds,
    in_order,
    real_column,
    rearranged,
    record_order,
    starts_in,
    starts_of,
)
from discreet.problems.off_policy_evaluation.public import Floats, OffPolicyPublic

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
