"""Trajectories that lie sealed in a file, as the methods that sample them read them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, Released
from discreet.problems.off_policy_evaluation.method import Chosen, Method
from discreet.problems.off_policy_evaluation.public import Ints
from discreet.problems.parts import Passing, Records
from discreet.solvers.evaluation import temporal_difference as td

PART_BYTES = 8 << 20
"""Of the trajectories that are read at once where all of them are."""
DRAWN_SECONDS = 250e-9
"""Of drawing a trajectory ahead, and of finding it among those that were read."""
DRAWN_BYTES_PER_SECOND = 5e8
"""Of drawn trajectories, made into what kernels take anew in each window."""


@dataclass(frozen=True)
class StoredTrajectories:
    """`solvers.evaluation.drawn_records.DrawnTrajectories` of a stored content.

    `transitions`: the form in which a method takes canonical content; `less` is taken off each
    reward then.
    """

    records: Records
    transitions: Callable[[Content], td.Transitions]
    less: float = 0.0

    @property
    def trajectories(self) -> int:
        return self.records.content.units

    @property
    def total_bytes(self) -> int:
        return self.records.content.total_bytes

    @property
    def window_bytes(self) -> int:
        return self.records.window_bytes

    def sizes(self, numbers: Ints) -> Ints:
        return self.records.content.sizes(numbers)

    def read(self, numbers: Ints) -> td.Transitions:
        found = self.transitions(self.records.content.read(numbers))
        return replace(found, reward=found.reward - self.less)

    def parts(self) -> Iterator[td.Transitions]:
        """All of them, some at a time, as they are without `less`."""
        content = self.records.content
        size = min(PART_BYTES, self.window_bytes)
        return map(self.transitions, content.parts(0, content.rows, size))


Trajectories = td.Transitions | StoredTrajectories


def parts_of(trajectories: Trajectories) -> Iterator[td.Transitions]:
    """All trajectories, those that are in memory at once."""
    if isinstance(trajectories, StoredTrajectories):
        return trajectories.parts()
    return iter([trajectories])


def lessened(trajectories: Trajectories, less: float) -> Trajectories:
    """The same with every reward so much less."""
    if isinstance(trajectories, StoredTrajectories):
        return replace(trajectories, less=less)
    return replace(trajectories, reward=trajectories.reward - less)


class SampledMethod(Method):
    """A method each of whose steps draws the trajectories that take part in it."""

    def release_sampled(
        self, events: tuple[Event, ...], chosen: Chosen, records: Records, noise: Noise
    ) -> Released:
        """`release`, of trajectories that lie in a file: the same draws of the same noise."""
        return self._stepped(events, chosen, StoredTrajectories(records, self._read), noise)

    def passing(self, chosen: Chosen) -> Passing:
        """How the largest content is read."""
        most = self.public.most_bytes
        return Passing(most, self.passes(chosen) * most, chosen["steps"], self.seconds(chosen))

    def sampling_seconds(self, chosen: Chosen, event: Event) -> float:
        """What `release_sampled` takes beyond `release`, on the largest content."""
        if not (seconds := self.passing(chosen).seconds):
            return 0.0
        public = self.public
        passes, most = self.passes(chosen), min(public.most_trajectories, public.most_rows)
        made = passes * public.most_bytes / DRAWN_BYTES_PER_SECOND
        drawn = passes * most * DRAWN_SECONDS
        return seconds + made + drawn + self.drawing_seconds(chosen, event)

    @abstractmethod
    def passes(self, chosen: Chosen) -> float:
        """How often each trajectory is drawn, in expectation."""

    def _released(
        self, events: tuple[Event, ...], chosen: Chosen, moved: td.Transitions, noise: Noise
    ) -> Released:
        return self._stepped(events, chosen, moved, noise)

    @abstractmethod
    def _stepped(
        self, events: tuple[Event, ...], chosen: Chosen, moved: Trajectories, noise: Noise
    ) -> Released: ...
