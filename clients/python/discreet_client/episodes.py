"""A table of visits from the episodes of a reinforcement learning dataset, as Minari, d3rlpy and
loops over Gymnasium give them.

An episode has `observations`, `actions` and `rewards`, one for each of T steps, and `terminations`
(or `terminated`, for the episode as a whole), as attributes or as keys. With T + 1 observations, as
in Minari, the last is the next state of the last step; with T, as in d3rlpy, the last step of a
truncated episode has no next state and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client import reading
from discreet_client.tables import Table, TableError, from_columns

Policy = Callable[[NDArray[Any], NDArray[Any]], Any]
"""Probabilities float[T] of the actions that were taken, from observations [T, …] and actions [T,
…]."""


def table_of_episodes(
    episodes: Iterable[Any], public: Mapping[str, Any], policies: Mapping[str, Policy]
) -> Table:
    """The visits as a table for `patients.transitions_of`, in which every episode is a patient.
    `policies`: the policy that fills each column of probabilities."""
    names = [str(told["name"]) for told in reading.ranges_of(public)]
    parts: list[dict[str, NDArray[Any]]] = []
    for number, episode in enumerate(episodes):
        seen, actions, rewards = (
            _field(episode, name, number) for name in ("observations", "actions", "rewards")
        )
        steps = len(rewards)
        if len(actions) != steps or len(seen) not in (steps, steps + 1):
            found = f"{len(seen)} observations, {len(actions)} actions and {steps} rewards"
            raise TableError(
                f"episode {number} has {found}: equally many are needed, or one more observation"
            )
        if not steps:
            continue
        _refuse_ends_within(episode, number, steps)
        seen = seen.reshape(len(seen), -1)
        width = len(names) or 1
        if seen.shape[1] != width:
            what = (
                f"public.ranges name {width}" if names else "with public.states there is only one"
            )
            raise TableError(
                f"episode {number} has observations of {seen.shape[1]} coordinates; {what}"
            )
        rows = steps if _ends(episode, number) or len(seen) == steps else steps + 1
        # A truncated episode of T + 1 observations has one more row, for its last state, whose
        # action and reward are not used.
        chosen = np.minimum(np.arange(rows), steps - 1)
        terminal = np.zeros(rows, dtype=bool)
        terminal[-1] = _ends(episode, number)
        part = {"patient": np.full(rows, number), "time": np.arange(rows), "terminal": terminal}
        part |= {"reward": rewards[chosen]} | (
            {"action": actions[chosen]} if actions.ndim == 1 else {}
        )
        part |= {name: seen[:rows, axis] for axis, name in enumerate(names or ["state"])}
        for column, policy in policies.items():
            part[column] = np.asarray(policy(seen[:steps], actions), dtype=np.float64)[chosen]
        parts.append(part)
    if not parts:
        raise TableError("no episode has a step")
    if any(part.keys() != parts[0].keys() for part in parts):
        raise TableError("some episodes have actions of one number, others of several")
    return from_columns({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def are_episodes(source: Any) -> bool:
    """Whether this is a dataset or a list of episodes, and not a table."""
    if hasattr(source, "iterate_episodes") or hasattr(source, "episodes"):
        return True
    return isinstance(source, list | tuple) and bool(source) and _has(source[0], "observations")


def episodes_of(source: Any) -> Iterable[Any]:
    """The episodes of a Minari dataset, a d3rlpy dataset or buffer, or a list."""
    if hasattr(source, "iterate_episodes"):
        return source.iterate_episodes()  # type: ignore[no-any-return]
    return source.episodes if hasattr(source, "episodes") else source  # type: ignore[no-any-return]


def ranges_of(space: Any, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """`public.ranges` of a bounded observation space (Gymnasium's Box), whose bounds are public,
    since they do not come from data."""
    low, high = (np.asarray(end, dtype=np.float64).ravel() for end in (space.low, space.high))
    if not (np.isfinite(low) & np.isfinite(high)).all() or np.abs([low, high]).max() > 1e30:
        raise TableError(
            "the observation space has no bounds: give ranges of your own that do not come from "
            "the data"
        )
    called = list(names or (f"x{axis}" for axis in range(low.size)))
    return [
        {"name": name, "low": float(least), "high": float(most)}
        for name, least, most in zip(called, low, high, strict=True)
    ]


def _has(episode: Any, name: str) -> bool:
    return name in episode if isinstance(episode, Mapping) else hasattr(episode, name)


def _field(episode: Any, name: str, number: int) -> NDArray[Any]:
    if not _has(episode, name):
        raise TableError(f"episode {number} has no {name}")
    found = episode[name] if isinstance(episode, Mapping) else getattr(episode, name)
    if isinstance(found, Mapping | tuple):
        raise TableError(f"episode {number}: {name} have several parts; make them one array")
    values = np.asarray(found)
    return (
        values[:, 0]
        if values.ndim == 2 and values.shape[1] == 1 and name != "observations"
        else values
    )


def _refuse_ends_within(episode: Any, number: int, steps: int) -> None:
    """TableError where a step before the last terminated: what follows is another episode."""
    name = next((one for one in ("terminations", "terminated") if _has(episode, one)), None)
    ends = np.zeros(0) if name is None else np.asarray(_field(episode, name, number)).ravel()
    if ends.size == steps and ends[:-1].any():
        first = int(np.flatnonzero(ends)[0])
        raise TableError(
            f"episode {number} terminates at step {first}, and goes on to step {steps - 1}: let "
            "what follows be an episode of its own"
        )


def _ends(episode: Any, number: int) -> bool:
    """Whether the episode terminated, rather than being truncated."""
    for name in ("terminations", "terminated"):
        if _has(episode, name):
            return bool(np.asarray(_field(episode, name, number)).ravel()[-1])
    raise TableError(
        f"episode {number} does not say whether it terminated: terminations, or terminated, is "
        "needed"
    )
