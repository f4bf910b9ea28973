"""How far noise is expected to move values of numbered states, from public figures alone.

A model stands for the data: each state is visited as often as the others, its possible transitions
are as likely as one another, and rewards that are not public are uniform within their bound. To
first order noise of a deviation in the row of state s moves its balance by e_s, of variance

    deviation² (sum over s' of (r + discount v(s') - v(s))² + reward_bound² where rewards have
    noise)

and the values by (I - discount P)^-1 (e / visits). With importance ratios of mean 1, cut off at W,
a visit counts 1/W.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from discreet.problems.off_policy_evaluation.public import Floats, OffPolicyPublic
from discreet.problems.off_policy_evaluation.result import REWARD
from discreet.problems.results import LEVEL, Expected
from discreet_client.intervals import percent, plain

MOST_STATES = 400
"""There is no model of more states: a plan takes milliseconds."""
FEW = 3
"""Transitions of a state in the model where no topology is public, beside the end of the episode:
noise of transitions that never occur is recognized by its small counts."""
MODELS = 16
"""Draws of rewards that are not public."""
TOOK = {
    False: {"policy_value": (0.45, 0.91), "values": (0.5, 1.11)},
    True: {"policy_value": (0.55, 0.88), "values": (0.51, 1.08)},
}
"""`Expected.took`: from public figures, and where an earlier release told visits and chain."""
RATIO_SQUARE = 4.0
"""Mean square of importance ratios in the model, in which they are lognormal of mean 1."""
CAPS = (2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)
NEARLY = 0.9
"""Another cap with more than this part of the error is hardly better."""
MOSTLY_NOISE = 0.7
"""The share of all noise beyond which an answer is called noise."""
TOLD = 2.5
"""A row of counts that is not so many deviations of its noise is mostly noise."""
UNEVEN = 1.3
"""Some states are visited more often than others: the factor by which the median state's value has
more noise than in the model."""
NARROWER = 0.7
"""Factor of the first-order width where the topology is public and rewards are not: a sum of
rewards is held within its count, and counts are not negative, so intervals were .5 to .8 as wide
(`make bench ARGS=advice`)."""
GOOD, POOR = 0.05, 0.25
"""Parts of the largest value: an interval of a half width within the first is useful, beyond the
second useless."""


class Model(NamedTuple):
    """What noise of deviation 1 on the counts of one trajectory would do, and how large a value may
    be."""

    value: float
    """Standard deviation of the value of a state, the median over states."""
    policy: float
    """Standard deviation of the policy's value."""
    row: float
    """Noise of a row relative to its visits, on average over where the policy begins."""
    size: float


def model_of(
    public: OffPolicyPublic, discount: float, initial: tuple[float, ...] | None
) -> Model | None:
    """The model of public figures; None for more than MOST_STATES states, and where public rewards
    make all values 0."""
    if public.states is None or public.states > MOST_STATES:
        return None
    topology = None if public.topology is None else tuple(public.topology)
    rewards = None if public.rewards is None else tuple(public.rewards)
    model = _model(
        public.states, topology, rewards, public.reward_bound, public.horizon, discount, initial
    )
    return model if model.size > 0 else None


@lru_cache(maxsize=64)
def _model(
    states: int,
    topology: tuple[tuple[int, int], ...] | None,
    rewards: tuple[float, ...] | None,
    bound: float,
    horizon: int,
    discount: float,
    initial: tuple[float, ...] | None,
) -> Model:
    possible = np.zeros((states, states + 1))
    narrower = NARROWER if topology is not None and rewards is None else 1.0
    if topology is None:
        topology = tuple((s, (s + 1 + k * k) % states) for s in range(states) for k in range(FEW))
        topology += tuple((s, states) for s in range(states))
    origin, target = np.array(topology).T
    possible[origin, target] = 1.0
    width = possible.sum(axis=1)
    P = possible / np.maximum(width, 1.0)[:, None]
    solved = np.linalg.inv(np.eye(states) - discount * P[:, :states])
    largest = (
        bound * -math.expm1(horizon * math.log(discount)) / (1 - discount) if discount else bound
    )
    fixed = np.zeros_like(P)
    if rewards is not None:
        fixed[origin, target] = rewards
        gains = (P * fixed).sum(axis=1)[None]
        largest = min(largest, _largest(possible, fixed, discount, horizon))
    else:
        gains = bound * np.random.default_rng(1).uniform(-1, 1, (MODELS, states))
    noise = []
    for values in gains @ solved.T:
        noise.append(_noise(possible, fixed, values, discount, bound if rewards is None else 0.0))
    variance = narrower**2 * np.median(noise, axis=0) * (width > 0) * states**2
    begin = np.full(states, 1 / states) if initial is None else np.array(initial)
    return Model(
        value=float(np.median(np.sqrt(solved**2 @ variance))),
        policy=math.sqrt(float((begin @ solved) ** 2 @ variance)),
        row=float(begin @ np.sqrt(width)) * states,
        size=largest,
    )


def noise_of(
    public: OffPolicyPublic, possible: Floats, rewards: Floats, values: Floats, discount: float
) -> Floats:
    """float64[n]: the variance that noise of deviation 1 on each possible cell brings to the
    balance of its state."""
    return _noise(
        possible, rewards, values, discount, public.reward_bound if public.rewards is None else 0.0
    )


def _noise(
    possible: Floats, rewards: Floats, values: Floats, discount: float, bound: float
) -> Floats:
    error = rewards + discount * np.append(values, 0.0) - values[:, None]
    found: Floats = (possible * error**2).sum(axis=1) + bound**2
    return found


def _largest(possible: Floats, rewards: Floats, discount: float, horizon: int) -> float:
    """The largest modulus of a value that public rewards allow."""
    ends = []
    for side in (1.0, -1.0):
        values = np.zeros(len(possible))
        for _ in range(min(horizon, 1000)):
            ahead = side * rewards + discount * np.append(values, 0.0)
            best = np.where(possible > 0, ahead, -np.inf).max(axis=1)
            values, before = np.where(np.isfinite(best), best, 0.0), values
            if np.abs(values - before).max() < 1e-9:
                break
        ends.append(float(values.max()))
    return max(ends)


@dataclass(frozen=True)
class Outlook:
    """What to expect of one release: the model of its public figures and the noise on it."""

    model: Model
    deviation: float
    """Standard deviation of the noise on a count, in trajectories, if there were no ratios."""
    cells: int
    epsilon: float
    trajectories: int | None
    cap: float = 1.0
    """The cap on importance ratios: a visit counts 1/cap."""
    uneven: float = UNEVEN
    """`UNEVEN`; 1 where the visits of each state are known."""

    def noise(self, cap: float) -> float:
        """The noise on a count relative to the number of trajectories, or to one trajectory where
        that is private."""
        return self.deviation * cap / (self.trajectories or 1)

    def expected(self, valued: bool, confidence: float) -> tuple[Expected, ...]:
        """What to expect of the values and, where `valued`, of the policy's value; nothing without
        a public number of trajectories."""
        if self.trajectories is None:
            return ()
        share, row = (
            self.noise(self.cap) * self.cells / math.sqrt(2),
            self.noise(self.cap) * self.model.row,
        )
        drowned = share > MOSTLY_NOISE or TOLD * row >= 1
        found = []
        for name, what, unit in self._quantities(valued):
            half = self._half(unit, confidence)
            size = f"of at most {plain(self.model.size, 3)} in {REWARD}"
            says = f"{what} within about ± {plain(half)} with {percent(confidence)}, {size}"
            if drowned:
                says = f"{what} is expected to be mostly noise, {size}"
            says += self._judged(math.inf if drowned else half, self._half(unit, LEVEL))
            within, took = math.inf if drowned else half, TOOK[self.uneven != UNEVEN][name]
            found.append(Expected(name, within, f"in {REWARD}", says, self.model.size, took=took))
        return tuple(found)

    def advice(self, valued: bool) -> tuple[str, ...]:
        if self.trajectories is not None:
            return tuple(one.sentence for one in self.expected(valued, LEVEL))
        good = GOOD * self.model.size
        if good == 0:  # no transition pays anything, publicly
            return ()
        return tuple(
            f"{what} within about ± {plain(good)} with {percent(LEVEL)}, of at most "
            f"{plain(self.model.size, 3)}, takes some "
            f"{rounded(self._half(unit, LEVEL) / good):,.0f} trajectories at this epsilon"
            for _, what, unit in self._quantities(valued)[:1]
        )

    def best_cap(self) -> tuple[float, str]:
        """The cap on ratios of least expected error: the noise it multiplies, and what it cuts off
        from the ratios of the model; with the reason."""
        best, other = sorted(CAPS, key=self._error)[:2]
        return best, (
            f"max_importance (auto) is {best:g}: values within about ± {plain(self._error(best))} "
            f"by noise and by what is cut off, if the mean square of ratios is {RATIO_SQUARE:g}; "
            f"the next best, {other:g}, gives ± {plain(self._error(other))}"
        )

    def better_cap(self, cap: float) -> str:
        """What `auto` would reach instead of this cap on ratios."""
        best, _ = self.best_cap()
        if self._error(best) > NEARLY * self._error(cap):
            return '"auto" would hardly be better'
        says = f'"max_importance": "auto" would take {best:g}: '
        if self._error(best) > self.model.size:
            return (
                says
                + f"the error is {plain(self._error(cap) / self._error(best))} times smaller then, "
                "and too large"
            )
        return says + (
            f"values within about ± {plain(self._error(best))} instead of ± "
            f"{plain(self._error(cap))}, by noise and by what is cut off, if the mean square of "
            f"ratios is {RATIO_SQUARE:g}"
        )

    def _error(self, cap: float) -> float:
        """The error of a value: the noise, which a cap multiplies, and what it cuts off from the
        ratios of the model."""
        return math.hypot(self._at(cap), cut_off(cap) * self.model.size)

    def _at(self, cap: float) -> float:
        return float(ndtri((1 + LEVEL) / 2)) * self.noise(cap) * UNEVEN * self.model.value

    def _half(self, unit: float, confidence: float) -> float:
        return float(ndtri((1 + confidence) / 2)) * self.noise(self.cap) * unit

    def _quantities(self, valued: bool) -> list[tuple[str, str, float]]:
        values = ("values", "the value of the median state", self.uneven * self.model.value)
        return ([("policy_value", "the policy's value", self.model.policy)] if valued else []) + [
            values
        ]

    def _judged(self, half: float, usual: float) -> str:
        """What an interval of this half width is good for, and what a narrow one would take."""
        size = self.model.size
        if half <= GOOD * size:
            return ""
        factor = usual / (GOOD * size)
        says = ": useless" if half > POOR * size else ""
        people, epsilon = rounded(factor * (self.trajectories or 1)), rounded(factor * self.epsilon)
        return (
            f"{says}; with {people:,.0f} trajectories or epsilon {epsilon:g}, about ± "
            f"{plain(GOOD * size)}"
        )


def cut_off(cap: float, square: float = RATIO_SQUARE) -> float:
    """The part of the mean of the ratios, of this mean square, that a cap cuts off."""
    deviation = math.sqrt(math.log(square))
    above = math.log(cap) / deviation
    return float(ndtr(deviation / 2 - above) - cap * ndtr(-deviation / 2 - above))


def rounded(number: float) -> float:
    """The number rounded up to two significant digits."""
    place = 10.0 ** (math.floor(math.log10(number)) - 1) if number > 0 else 1.0
    return math.ceil(number / place - 1e-9) * place
