"""The control problem of an ensemble: when power is expensive, how discomfort is weighed, which
policy is used; solved for any transition matrix: that of a release, one that may lie behind it,
or one made from public figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.problems.contents import Progress
from discreet.problems.dr_ensemble.public import Floats, Ints
from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control import signals
from discreet.solvers.control.limited_load import Limits, priced

SAMPLE_SEED = 20_201_114
"""Of the draws of a sampled average policy: post-processing, public, and the same for the same
release."""


ENERGIES = ("event_saving", "rebound")
"""Fields of an answer that compare what is drawn with and without control, in the steps of an event
and outside."""


@dataclass(frozen=True, eq=False)
class Control:
    """utility: float64[T, n], money; power: float64[n]; discomfort_weight: gamma, in money.

    Transitions are float64[n, n]; with `at`, int64[T - 1], float64[blocks, n, n], of which step t
    has that of block `at[t]`. Policies other than the exact one know no blocks and no limits.
    """

    utility: Floats
    power: Floats
    discomfort_weight: float
    policy: Literal["exact", "taylor", "digamma", "average"] = "exact"
    concentration: float | None = None
    samples: int | None = None
    at: Ints | None = None
    blocks: int = 1
    limits: Limits | None = None
    """Of one load."""
    guess: Floats | None = None
    """Of the multipliers of the limits: those of transitions nearby."""
    event: NDArray[np.bool_] | None = None
    """bool[T]: the steps that are compared with the others."""
    hours: float = 1.0
    """Of a step, so that power becomes energy."""
    edges: Floats | None = None
    """float64[n + 1], where the power of a state is the middle of its bin."""

    def start(self, visits: Floats) -> Floats:
        """The distribution of loads at step 0, from how the time is spread over the states, in
        each block if there are any."""
        first: Floats = visits if self.at is None else visits[..., self.at[0], :]
        return first

    def price(self, transitions: Floats, start: Floats) -> tuple[Floats | None, Floats | None]:
        """What power is priced at in each step so that loads from `start` keep the limits,
        float64[T] in money per unit of power, and the multipliers that it is made of; None where
        nothing is limited."""
        if self.limits is None:
            return None, None
        gamma, limits = self.discomfort_weight, self.limits
        return priced(
            transitions,
            self.utility,
            gamma,
            start,
            self.power,
            limits,
            at=self.at,
            guess=self.guess,
        )

    def solve(
        self, transitions: Floats, progress: Progress | None = None, *, price: Floats | None = None
    ) -> lsmdp.Policy:
        """The policy of these transitions, where power has a price of `limits` in each step beside
        what it costs."""
        gamma, k = self.discomfort_weight, self.concentration
        if self.policy == "exact":
            utility = self.utility if price is None else self.utility - np.outer(price, self.power)
            return lsmdp.solve(transitions, utility, gamma, at=self.at, progress=progress)
        if self.policy != "average":
            kind, U = self.policy, self.utility
            return lsmdp.solve(
                transitions, U, gamma, weights=kind, concentration=k, progress=progress
            )
        assert k is not None
        generator = None if self.samples is None else np.random.default_rng(SAMPLE_SEED)
        return lsmdp.average_policy(
            transitions,
            self.utility,
            gamma,
            k,
            samples=self.samples,
            generator=generator,
            progress=progress,
        )

    def load(self, moves: lsmdp.Policy | Floats, start: Floats) -> Floats:
        """Expected power float64[T] of a load that moves by a policy, or transitions, from the
        distribution `start`."""
        return lsmdp.expected_power(self.spread(moves, start), self.power)

    def time(self, moves: lsmdp.Policy | Floats, start: Floats) -> Floats:
        """float64[rows]: of the steps that loads move in, the part that begins in each state, block
        by block."""
        spread = self.spread(moves, start)[:-1]
        if self.at is None:
            shares: Floats = spread.mean(axis=0)
            return shares
        apart = np.zeros((self.blocks, spread.shape[1]))
        np.add.at(apart, self.at, spread / len(spread))
        return apart.ravel()

    def first_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """What is said of each row, of those that loads leave at step 0."""
        return values if self.at is None else values.reshape(self.blocks, -1)[self.at[0]]

    def values(self, matrices: Floats, start: Floats) -> Floats:
        """The signals float64[B, T, n] that are optimal for transitions with an axis in front, and
        loads from `start` float64[n] or [B, n]."""
        prices = None
        if self.limits is not None:
            starts = np.broadcast_to(start, (len(matrices), self.power.size))
            every = [self.price(*one)[0] for one in zip(matrices, starts, strict=True)]
            prices = np.array(every)
        return signals.cost_to_go(
            matrices,
            self.utility,
            self.discomfort_weight,
            at=self.at,
            prices=prices,
            power=self.power,
        )

    def savings(self, matrices: Floats, every: Floats, start: Floats) -> Floats:
        """What following each signal float64[C, T, n] saves: float64[B, C]."""
        return signals.savings(
            matrices, every, self.utility, self.discomfort_weight, start, at=self.at
        )

    def followed(self, matrices: Floats, signal: Floats, start: Floats) -> dict[str, Floats]:
        """Of many transitions the figures of a result, if loads follow the signal float64[T, n], or
        each its own [B, T, n]: `default_power`, `expected_power`, `cost_to_go`, `saving`,
        `ENERGIES`, each with an axis in front."""
        found = signals.followed(
            matrices,
            signal,
            self.utility,
            self.discomfort_weight,
            start,
            self.power,
            at=self.at,
        )
        return self._with_energies(vars(found))

    def ordered(
        self, worlds: Sequence[Floats], policy: lsmdp.Policy, start: Floats
    ) -> list[Floats]:
        """What it saves to order the probabilities of the policy instead: float64[B] of each of the
        `worlds`."""
        return signals.ordered(
            worlds, policy, self.utility, self.discomfort_weight, start, at=self.at
        )

    def _with_energies(self, answer: dict[str, Any]) -> dict[str, Any]:
        """What a load that follows draws less in the steps of the event, and more outside of
        them."""
        if self.event is None:
            return answer
        less = self.hours * (answer["default_power"] - answer["expected_power"])
        inside, outside = less[..., self.event].sum(axis=-1), -less[..., ~self.event].sum(axis=-1)
        return {**answer, "event_saving": inside, "rebound": outside}

    def tilts(self, matrix: Floats, signal: Floats) -> lsmdp.Policy:
        """How loads of this matrix, with `at` of these, move that follow the signal."""
        return signals.follower(matrix, signal, self.discomfort_weight, at=self.at)

    def spread(self, moves: lsmdp.Policy | Floats, start: Floats) -> Floats:
        """float64[T, n]: loads over the states at each step."""
        at = None if isinstance(moves, lsmdp.Policy) else self.at
        return lsmdp.propagate(start, moves, len(self.utility), at=at)
