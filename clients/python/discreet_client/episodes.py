"""Episodes of reinforcement learning's datasets, as Minari, d3rlpy and Gymnasium loops have them,
to a table of visits.

An episode has `observations`, `actions`, `rewards`, one each of T steps, and `terminations` (or
`terminated`, of its end): as attributes or as keys. Of T + 1 observations, as Minari has them, the
last is the next state of the last step; of T, as d3rlpy has them, the last step of an episode
without an end has no next state, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client import reading
from discreet_client.tables import Table, TableError, table_of

Policy = Callable[[NDArray[Any], NDArray[Any]], Any]
"""Probabilities float[T] of the actions that were taken, from observations [T, …] and actions [T,
…]."""


def table_of_episodes(
    episodes: Iterable[Any], public: Mapping[str, Any], policies: Mapping[str, Policy]
) -> Table:
    """Visits, as `patients.transitions_of` takes them: every episode is a patient. policies: by
    column."""
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
                f"episode {number} has {found}: as many are needed, or one observation more"
            )
        if not steps:
            continue
        seen = seen.reshape(len(seen), -1)
        width = len(names) or 1
        if seen.shape[1] != width:
            what = f"public.ranges name {width}" if names else "public.states is of one number"
            raise TableError(
                f"episode {number} has observations of {seen.shape[1]} coordinates; {what}"
            )
        rows = steps if _ends(episode, number) or len(seen) == steps else steps + 1
        # A row more, of an episode that was cut off, is where it came to: what was done there is
        # not looked at.
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
    return table_of({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def are_episodes(source: Any) -> bool:
    """Whether this is a dataset or a list of episodes, and not a table."""
    if hasattr(source, "iterate_episodes") or hasattr(source, "episodes"):
        return True
    return isinstance(source, list | tuple) and bool(source) and _has(source[0], "observations")


def episodes_of(source: Any) -> Iterable[Any]:
    """Of a Minari dataset, a d3rlpy dataset or buffer, or a list."""
    if hasattr(source, "iterate_episodes"):
        return source.iterate_episodes()  # type: ignore[no-any-return]
    return source.episodes if hasattr(source, "episodes") else source  # type: ignore[no-any-return]


def ranges_of(space: Any, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """`public.ranges` of a bounded observation space (Gymnasium's Box): its bounds are public, they
    are not of data."""
    low, high = (np.asarray(end, dtype=np.float64).ravel() for end in (space.low, space.high))
    if not (np.isfinite(low) & np.isfinite(high)).all() or np.abs([low, high]).max() > 1e30:
        raise TableError(
            "an observation space without bounds: say ranges of your own, not of the data"
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
        raise TableError(f"episode {number}: {name} of several parts; make them one array")
    values = np.asarray(found)
    return (
        values[:, 0]
        if values.ndim == 2 and values.shape[1] == 1 and name != "observations"
        else values
    )


def _ends(episode: Any, number: int) -> bool:
    """Whether the episode ended, and was not cut off."""
    for name in ("terminations", "terminated"):
        if _has(episode, name):
            return bool(np.asarray(_field(episode, name, number)).ravel()[-1])
    raise TableError(
        f"episode {number} says nothing of its end: terminations, or terminated, is needed"
    )
