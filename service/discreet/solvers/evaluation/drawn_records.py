"""Trajectories that are not in memory: those that the next steps of a sampling method draw are
read together.

    stretches(trajectories, steps, generator, draw) -> steps, and the transitions that they need

Which trajectories a step draws follows from the generator alone, never from what stands in them. So
a copy of the generator draws ahead, as many steps as fit into memory, before the first of them is
made; what these draw is read in one go, and the generator itself then draws the same again, with
the noise, step by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.solvers.evaluation.temporal_difference import Ints, Transitions

Draw = Callable[[np.random.Generator, Ints, Ints], int]
"""draw(ahead, numbers, ends) -> steps: takes from `ahead` all that steps take, and writes which
trajectories they draw, ascending or not, into `numbers`, and into `ends` how many were drawn up to
the end of each. Ends with the step before the first that has no room."""

FILLED = 0.9
"""Of the room in memory, what steps are drawn for: lengths differ."""


class DrawnTrajectories(Protocol):
    """m trajectories, numbered from 0, that are read by their numbers."""

    @property
    def trajectories(self) -> int:
        """m. Private if neighbours add or remove a trajectory."""
        ...

    @property
    def total_bytes(self) -> int:
        """Of all of them."""
        ...

    @property
    def window_bytes(self) -> int:
        """Of those that are in memory at once, at most: those of one step, if these are more."""
        ...

    def sizes(self, numbers: Ints) -> Ints:
        """Bytes of those of these ascending, different numbers."""
        ...

    def read(self, numbers: Ints) -> Transitions:
        """Those of these ascending, different numbers, in this order."""
        ...


@dataclass(frozen=True)
class Stretch:
    """The steps first..last-1, and the trajectories of these ascending numbers, among which are all
    that they draw; without numbers all there are."""

    transitions: Transitions
    numbers: Ints
    first: int
    last: int


def stretches(
    trajectories: DrawnTrajectories, steps: int, generator: np.random.Generator, draw: Draw
) -> Iterator[Stretch]:
    """All steps in order, as few at once as memory asks for. Whoever takes a stretch makes its
    steps with `generator`, and takes from it what `draw` takes, before asking for the next."""
    if trajectories.total_bytes <= trajectories.window_bytes:
        every = np.arange(trajectories.trajectories)
        yield Stretch(trajectories.read(every), np.empty(0, dtype=np.int64), 0, steps)
        return
    ahead = np.random.Generator(type(generator.bit_generator)())
    room = _draws_within(trajectories)
    first = 0
    while first < steps:
        ahead.bit_generator.state = generator.bit_generator.state
        # Draws are what a window holds few of; steps that draw nobody take no room in it.
        numbers, ends = np.empty(room, dtype=np.int64), np.empty(steps - first, dtype=np.int64)
        drawn = draw(ahead, numbers, ends)
        if drawn == 0:  # a single step draws more
            room *= 2
            continue
        ends = ends[:drawn]
        numbers, taken = _within(trajectories, numbers[: ends[-1]], ends)
        yield Stretch(trajectories.read(numbers), numbers, first, first + taken)
        first += taken


def _draws_within(trajectories: DrawnTrajectories) -> int:
    """About how many draws the window holds: n draws with replacement find m(1 - e^(-n/m))
    different ones of m."""
    part = FILLED * trajectories.window_bytes / trajectories.total_bytes
    return max(1, math.ceil(-math.log1p(-part) * trajectories.trajectories))


def _within(trajectories: DrawnTrajectories, numbers: Ints, ends: Ints) -> tuple[Ints, int]:
    """Of the steps with these `ends` as many as fit into the window, at least one, and the
    different numbers that they draw, ascending."""
    different, place = np.unique(numbers, return_index=True)
    order = np.argsort(place)
    needed = np.cumsum(trajectories.sizes(different)[order])
    fitting = int(np.searchsorted(needed, trajectories.window_bytes, side="right"))
    if fitting == different.size:
        return different, ends.size
    # The first draw that finds no room, and the steps that ended before it.
    taken = max(1, int(np.searchsorted(ends, place[order[fitting]], side="right")))
    return np.unique(numbers[: ends[taken - 1]]), taken
