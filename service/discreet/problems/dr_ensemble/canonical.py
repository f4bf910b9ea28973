"""States of participants in their canonical form, and what is checked of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.problems.contents import Content, integer_columns, rearranged, record_order, starts_of
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Ints


def state_columns(
    public: DrEnsemblePublic, table: pa.Table, first: int = 0
) -> dict[str, NDArray[Any]]:
    """Step and state of the rows of a table, or of part of one that begins at row `first`."""
    bounds = {"step": (0, 10**9), "state": (0, public.states - 1)}
    return integer_columns(table, bounds, "/content", ("participant",), first, np.int32)


def check_trajectories(public: DrEnsemblePublic, trajectories: int, prefix: str) -> None:
    """InvalidInput for fewer participants than can be hidden, or others than the public number."""
    if trajectories < 2:
        raise InvalidInput(
            "at least two participants are needed: a single participant cannot be hidden",
            pointer=prefix,
        )
    if public.participants is not None and trajectories != public.participants:
        raise InvalidInput(
            f"found {trajectories} trajectories, but the public number of participants is "
            f"{public.participants}",
            pointer=prefix,
        )


def check_participants(
    public: DrEnsemblePublic, participants: int, trajectories: int, prefix: str
) -> None:
    """The same of participants with readings, of whom so many have a trajectory."""
    if public.participants is not None and participants != public.participants:
        says = (
            f"readings of {participants} participants of {public.participants} public ones. A "
            f"home under two names (a meter that was replaced) counts as two and is protected "
            f"half as well: give it one name. Totals and weather are not participants. The public "
            f"number is what is known without the readings"
        )
        raise InvalidInput(says, pointer=prefix)
    if trajectories < 2:
        says = (
            f"of {participants} participants {trajectories} have a trajectory, and at "
            "least two are needed: "
        )
        raise InvalidInput(says + "a single participant cannot be hidden", pointer=prefix)


def out_of_step(step: NDArray[np.integer[Any]], start: Ints) -> NDArray[np.bool_]:
    """bool[rows]: which steps, of rows in order, are not 0, 1, 2, … of their trajectory."""
    wrong = np.empty(step.size, dtype=bool)
    wrong[1:] = step[1:] != step[:-1] + 1
    wrong[start[:-1]] = step[start[:-1]] != 0
    if not wrong.any():
        return wrong
    # Where the steps of one begin to be wrong, all after it are.
    return np.asarray(step != np.arange(step.size) - np.repeat(start[:-1], np.diff(start)))


def outside(
    public: DrEnsemblePublic, states: NDArray[np.integer[Any]], start: Ints
) -> NDArray[np.bool_]:
    """bool[states - 1]: where the support does not allow what follows."""
    if public.support == "all":
        return np.zeros(max(states.size - 1, 0), dtype=bool)
    outside: NDArray[np.bool_] = ~public.mask()[states[:-1], states[1:]]
    outside[start[1:-1] - 1] = False  # from one trajectory to the next
    return outside


def canonical(states: NDArray[np.integer[Any]], start: Ints) -> Content:
    sequence = record_order(start, [states])
    return as_stored(rearranged(states, start, sequence), starts_of(start, sequence))


def as_stored(states: NDArray[np.integer[Any]], start: Ints) -> Content:
    return {"states": states.astype(np.int64, copy=False), "start": start}
