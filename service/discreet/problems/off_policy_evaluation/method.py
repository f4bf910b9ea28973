"""What a method of off-policy evaluation is.

Neighbours add or remove one trajectory, or replace one of a public number. What a method releases
is total: it never fails on content that registration accepted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.errors import FieldIssue
from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.privacy.units import EPSILON_UNIT
from discreet.problems.contents import Content, Profile, Progress, Released
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.dataset import transitions_of
from discreet.problems.off_policy_evaluation.public import Floats, Ints, OffPolicyPublic
from discreet.problems.off_policy_evaluation.result import Answer
from discreet.problems.plans import NoiseSummary
from discreet.problems.results import Expected
from discreet.solvers.evaluation import temporal_difference as td
from discreet.solvers.evaluation.value_features import Features, Fourier

Chosen = dict[str, Any]
"""Public constants of a method: clip, steps, step_size, sampling, each None where it means
nothing."""

DEFAULT_MAX_IMPORTANCE = 10.0
UNCOUNTED = (
    "how large the noise is beside the data cannot be told: the number of trajectories is "
    "not public"
)
COARSE_BITS = 22
DRAW_SECONDS = 1.7e-6
"""Seconds to draw one number by the exact samplers, at most."""


@dataclass(frozen=True)
class Asked:
    """What the methods read of a request; None where it leaves the choice to them."""

    discount: float
    initial: Any = None
    clip: float | None = None
    steps: int | None = None
    step_size: float | None = None
    sampling: float | None = None
    regularization: float | None = None
    max_importance: float | None = None
    return_bounds: tuple[float, float] | None = None
    estimand: str | None = None
    rule_visits: int | None = None


class Method(ABC):
    """One way to evaluate a policy on a dataset of which only the public part is known here."""

    name: ClassVar[str]
    takes: ClassVar[frozenset[str]] = frozenset()
    """Optional fields of the request that mean something to it."""
    fitted: ClassVar[bool] = True
    """Whether it fits a value function of features, of which `initial` asks a mean."""
    chooses_cap: ClassVar[bool] = False
    """Whether `max_importance` is `auto` where the request names none."""
    asked_again: ClassVar[frozenset[str]] = frozenset()
    """Fields of the request that only what follows its release reads."""
    visits: ClassVar[bool] = False
    """Whether its release says how often each state was visited."""
    noised_sums: ClassVar[frozenset[str]] = frozenset()
    """As `Problem.noised_sums`."""
    tabular: ClassVar[bool | None] = None
    """True: for numbered states alone; False: for coordinates alone."""
    off_policy: ClassVar[bool] = True
    needs_population: ClassVar[bool] = False
    """Whether the number of trajectories must be public."""
    needs_constant: ClassVar[bool] = False
    """Whether some weights must give every state the same value."""
    unit: ClassVar[float] = 1.0
    """What one trajectory counts, where sums are of integers."""

    def __init__(
        self, asked: Asked, features: Features, max_ratio: float, public: OffPolicyPublic
    ) -> None:
        """`max_ratio`: the largest importance ratio that counts; 1 where there are none."""
        self.asked, self.features, self.max_ratio, self.public = asked, features, max_ratio, public

    @classmethod
    def issues(cls, asked: Asked, public: OffPolicyPublic) -> list[FieldIssue]:
        """What keeps a request that names this method from being answered by it."""
        found = []
        if public.off_policy and not cls.off_policy:
            says = (
                "Monte Carlo returns are those of the policy that was followed, and this "
                "dataset is off-policy"
            )
            found.append(FieldIssue("/problem/method", f"{says}; use moments"))
        if cls.needs_population and not public.replaced:
            says = (
                "one uniform draw a step needs a public number of trajectories: register the data "
                "with public.trajectories, or use moments or minibatch"
            )
            found.append(FieldIssue("/problem/method", says))
        return found

    def parameters(self) -> Chosen:
        """Public constants: the request's, or defaults that follow from public figures."""
        return {"clip": None, "steps": None, "step_size": None, "sampling": None}

    @abstractmethod
    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        """The main mechanism, what its noise is on, and what else is noised, each with its words:
        the number of trajectories, the mean reward. ValueError where the budget is too small."""

    @abstractmethod
    def seconds(self, chosen: Chosen) -> float:
        """Of work on the largest content that the public bounds allow, on one core;
        `benchmarks.timing` measures it."""

    def drawing_seconds(self, chosen: Chosen, event: Event) -> float:
        """Seconds of the rest of a release, whatever the content."""
        return self.numbers() * DRAW_SECONDS

    def numbers(self) -> int:
        """The number of sums over trajectories."""
        return 0

    def row_seconds(self) -> float:
        """Of reading both ends of one transition as features."""
        if self.public.states is not None:
            return 15e-9
        axes = self.public.features or 1
        per_axis = 100e-9 if isinstance(self.features, Fourier) else 0.0
        return 200e-9 + per_axis * axes + 11e-9 * self.features.dimension

    @abstractmethod
    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        """What error to expect, where public figures tell it."""

    def foretold(self, budget: Budget) -> str:
        """The first sentence of `advice`, were it this method; empty where there is none."""
        chosen = self.parameters()
        try:
            event, *_ = self.events(chosen, budget, "the same")
        except ValueError as error:
            return str(error)
        return next(iter(self.advice(chosen, event, budget.epsilon / EPSILON_UNIT)), "")

    def expected(
        self, event: Event, epsilon: float, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        """The same as figures, perhaps for trajectories as an earlier release says."""
        return ()

    def profile(self, event: Event, released: Released) -> Profile | None:
        """What a release says of the trajectories; None where it does not."""
        return None

    @property
    def cap_in_plan(self) -> float | None:
        """The cap on importance ratios, where it is known before the release."""
        return self.max_ratio

    def best_cap(
        self, event: Event, epsilon: float, *, by_release: bool = False
    ) -> tuple[float | None, str]:
        """The cap on importance ratios that `auto` stands for, and why; None where the release
        chooses it: `by_release`."""
        return DEFAULT_MAX_IMPORTANCE, (
            f"max_importance (auto) is {DEFAULT_MAX_IMPORTANCE:g}: no public figure tells a better "
            "one here"
        )

    def better_cap(self, event: Event, epsilon: float) -> str:
        """What a different cap would achieve."""
        return "a smaller one takes less noise and cuts off more"

    def release(
        self, events: tuple[Event, ...], chosen: Chosen, content: Content, noise: Noise
    ) -> Released:
        """What the mechanisms release."""
        return self._released(events, chosen, self._read(content), noise)

    def _read(self, content: Content) -> td.Transitions:
        return td.bounded(
            transitions_of(content, self.max_ratio), self.public.reward_bound, self.max_ratio
        )

    @abstractmethod
    def _released(
        self, events: tuple[Event, ...], chosen: Chosen, moved: td.Transitions, noise: Noise
    ) -> Released: ...

    def fields(
        self,
        event: Event,
        released: Released,
        start: Floats | None,
        progress: Progress,
        *,
        uncertain: bool,
    ) -> dict[str, Any]:
        """The fields of the result. `uncertain`: `uncertainty` is one of them."""
        found = self.answer(event, released, start, progress)
        tabular, valued = self.public.states is not None, self.asked.initial is not None
        values: dict[str, Any] = {
            "weights": found.weights,
            **({"values": found.weights} if tabular else {}),
        }
        if valued:
            values["policy_value"] = found.policy_value()
        if uncertain:
            values["uncertainty"] = found.uncertainty(tabular=tabular, valued=valued)
        return values

    def answer(
        self, event: Event, released: Released, start: Floats | None, progress: Progress
    ) -> Answer:
        """Weights of what was released, and what may be said of them. `start`: the mean features of
        where the policy's value is asked for, if it is."""
        return Answer(released["weights"], start)

    def steps(self) -> int:
        """Steps of progress while the release is finished; the kind reports the last one."""
        return 1

    def _judged(self, ratio: float, says: str) -> tuple[str, ...]:
        if ratio > 0.1:
            return (
                f"{says}: too few trajectories for this budget, expect the answer to be mostly "
                "noise",
            )
        return (says,)


def coarse(weights: Floats, unit: float) -> Floats:
    """`weights` as multiples of about 2^-22 of the public `unit`, and in 24 significant bits.

    Noise in floating point has gaps in its last bits, by which what it was added to could be told;
    these bits go.
    """
    grid = math.ldexp(1.0, math.frexp(unit)[1] - 1 - COARSE_BITS)
    with np.errstate(over="ignore", invalid="ignore"):
        return (np.rint(weights / grid) * grid).astype(np.float32).astype(np.float64)


class MethodOfSums(Method):
    """A method that noises integer sums over trajectories, which parts of a content add up to."""

    noised_sums = frozenset({"sums"})

    def part_sums(self, chosen: Chosen, content: Content) -> Ints:
        """Sums over the trajectories of a part, before noise, of a plan with one event."""
        return self._summed(chosen, self._read(content))

    def release_sums(
        self, events: tuple[Event, ...], chosen: Chosen, sums: Ints, noise: Noise
    ) -> Released:
        """What the mechanisms release of trajectories that have these sums."""
        (event,) = events
        return {"sums": noise.add(event, sums)}

    @abstractmethod
    def _summed(self, chosen: Chosen, moved: td.Transitions) -> Ints: ...
