"""Weights of single steps and doubly robust values beside weights of whole trajectories, where
rewards come along the way and patients pass through states.

3,000 made-up patients of eight steps and five states of health choose one of two treatments in each
step, evenly; the target policy prefers one of them by the state, with the probability that gives
weights of whole trajectories their mean square. All estimators are given the same patients and all
of epsilon; errors are in parts of the range of returns; truths by dynamic programming. On request:
`make bench ARGS=per_decision`, some ten minutes.

What one patient adds to what each of them releases, with r_t in [0, 1] the reward of a step, w_t
the product of the ratios up to it, u_t = min(w_t, W) / W (Laplace noise for l1, W as the product
takes it from the number of patients and the largest ratio, which all know):

whole         The same of all steps as one, of u_H and the mean of r_t. l1 <= 1.1.
per_decision  `importance_sampling.per_decision_sums`, of the means of u_t and of u_t r_t: one
              denominator for all steps. l1 <= 1.1 as well.
own_clips     The same of u = mean min(w_t, W_t) / mean W_t, where W_t is max_ratio to the power of
              t at most: what a mean of weights can be. Some of u_t exceed 1 then, so that the
              behaviour policy's value needs sums of its own, of a fourth of the size: l1 <= 1.35.
each_step     For each step the sums of a_t u_t r_t and of a_t u_t (1 - r_t), each normalized by its
              own: with a clip W_t by max_ratio to the power of t at most, and public shares a_t ~
              W_t^(2/3) that sum to 1. l1 <= sum a_t u_t <= 1.
gaussian      The same with a_t = 1 and Gaussian noise at delta 1e-6. l2 <= H^(1/2).
robust        Half of epsilon: visits of (state, action, next state) and rewards of (state, action),
              each 1/H for each step: l1 <= 2. Of them follow Q and V by dynamic programming. Of the
              other half: the sum of d = (m - 1/2 + W c e) / (1/2 + W c) and of d² / 10, where m =
              V(s_0) and c e = mean u_t (r_t + V(s_t+1) - Q(s_t, a_t)), cut at +-c: l1 <= 1.1. The
              number of patients is given to it, which would cost more.
model         All of epsilon for the visits and rewards, and the value of V alone: no weights.

Without privacy the field's estimators, in NumPy: SNTIS and SNPDIS (self-normalized, of whole
trajectories and of each step, as scope-rl names them), DR with the model of the same patients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from discreet.solvers.evaluation.importance_sampling import (
    UNIT,
    WeightedSums,
    per_decision_sums,
)
from discreet.solvers.evaluation.temporal_difference import Transitions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PATIENTS, STEPS, STATES, EPSILONS = 3_000, 8, 5, (0.2, 1.0, 5.0)
SQUARES = (4.0, 48.0)
"""Mean squares of the weights of whole trajectories."""
REPETITIONS, REFERENCE = 200, 100_000
RANDOM = 24
"""Worlds that are drawn, eight repetitions each."""
QUANTILE = float(norm.ppf(0.95))
DELTA = 1e-6
BESIDE = 0.25
"""Of `own_clips`: what the behaviour policy's value adds to l1."""
RESIDUAL = 0.25
"""c of `robust`, in parts of the range of returns."""
HEALTH = np.arange(STATES) / (STATES - 1)
NAMED = ("steady", "decline", "frail")
EACH = np.arange(STEPS)
SUMMED = ("whole", "per_decision")


class Patients(NamedTuple):
    """Of each patient and step; `state` has one step more, `weight` is the product of `ratio` up to
    the step."""

    state: Ints
    action: Ints
    reward: Floats
    ratio: Floats
    weight: Floats


class World:
    """How health changes and what it brings: moves[frail, action, state, next], chance[step, next]
    of a good outcome, and the probability target[state] of treatment 1.

    steady: health goes up by treatment and down without, and the chance of a good outcome is that
    of the health that a step leads to. decline: outcomes become worse with time, whatever is done.
    frail: half of all gain nothing by treatment, and no column tells who. Else a seed: all drawn,
    with trends up or down in time.
    """

    def __init__(self, name: str, square: float) -> None:
        p = 0.5 + 0.5 * math.sqrt(square ** (1 / STEPS) - 1)
        self.largest = (2 * p) ** np.arange(1, STEPS + 1)
        prefers, level = np.arange(STATES) < 3, np.ones((STEPS, 1))
        if name in NAMED:
            one = np.array([_ladder(0.2, 0.4), _ladder(0.6, 0.2)])
            other = np.array([_ladder(0.2, 0.4)] * 2) if name == "frail" else one
            self.moves = np.stack([one, other])
            if name == "decline":
                level = (1 - 0.9 * EACH / (STEPS - 1))[:, None]
            self.chance = level * (0.1 + 0.8 * HEALTH)
        else:
            rng = np.random.default_rng(int(name))
            moves = rng.dirichlet(np.full(STATES, 0.5), (2, STATES))
            self.moves = np.stack([moves, moves])
            slope = rng.normal() * EACH[:, None] / STEPS
            self.chance = 1 / (1 + np.exp(-1.5 * rng.normal(size=STATES) - 2 * slope))
            prefers = rng.random(STATES) < 0.5
        self.target = np.where(prefers, p, 1 - p)

    def draw(self, count: int, rng: np.random.Generator) -> Patients:
        state = np.empty((count, STEPS + 1), dtype=np.int64)
        action, reward = np.empty((count, STEPS), dtype=np.int64), np.empty((count, STEPS))
        state[:, 0] = rng.integers(0, STATES, count)
        frail, below = rng.integers(0, 2, count), self.moves.cumsum(axis=3)
        for t in EACH:
            action[:, t] = rng.random(count) < 0.5
            ends = below[frail, action[:, t], state[:, t]]
            lot = rng.random(count)[:, None]
            state[:, t + 1] = np.minimum((lot > ends).sum(axis=1), STATES - 1)
            reward[:, t] = rng.random(count) < self.chance[t, state[:, t + 1]]
        treated = self.target[state[:, :-1]]
        ratio = 2 * np.where(action == 1, treated, 1 - treated)
        return Patients(state, action, reward, ratio, np.cumprod(ratio, axis=1))

    def worth(self) -> float:
        """Of the target policy, in parts of the range of returns."""
        total = 0.0
        for moves in self.moves:
            value = np.zeros(STATES)
            for t in EACH[::-1]:
                q = moves @ (self.chance[t] + value)
                value = self.target * q[1] + (1 - self.target) * q[0]
            total += float(value.mean()) / len(self.moves)
        return total / STEPS


def _ladder(up: float, down: float) -> Floats:
    found = np.zeros((STATES, STATES))
    for state in range(STATES):
        for there, chance in ((state + 1, up), (state - 1, down), (state, 1 - up - down)):
            found[state, min(max(there, 0), STATES - 1)] += chance
    return found


class Found(NamedTuple):
    """An estimate in parts of the range of returns, an interval where there is one, and ends that
    hold the truth whatever was cut off."""

    value: float
    lower: float = math.nan
    upper: float = math.nan
    least: float = math.nan
    most: float = math.nan


def cap(world: World, epsilon: float) -> float:
    """The product's clip, where the largest ratio of a step is public."""
    return min(float(np.clip(PATIENTS * epsilon / 60, 2.0, 50.0)), float(world.largest[-1]))


# What the product releases ------------------------------------------------------------------------


def summed(people: Patients, name: str, most: float) -> Floats:
    """The seven sums in patients, without noise."""
    count, steps = len(people.ratio), STEPS
    reward, ratio = people.reward, people.ratio
    if name == "whole":  # all steps as one
        steps, reward = 1, reward.mean(axis=1)
        ratio = ratio.prod(axis=1)
    nowhere = np.zeros(count * steps, dtype=np.int32)
    moved = Transitions(
        np.arange(count + 1) * steps,
        nowhere,
        nowhere,
        reward.ravel(),
        ratio.ravel(),
        np.zeros(count * steps, dtype=bool),
    )
    (found,) = per_decision_sums(
        moved, discount=1.0, bounds=(0.0, 1.0), clips=np.array([most]), horizon=steps
    )
    sums: Floats = found[:-1] / UNIT
    return sums


def by_sums(
    world: World, people: Patients, name: str, epsilon: float, rng: np.random.Generator
) -> Found:
    scale, exact = 1.1 / epsilon, summed(people, name, cap(world, epsilon))
    noised = exact + rng.laplace(0, scale, exact.size)
    sums = WeightedSums(noised, 2 * scale**2, cap(world, epsilon), QUANTILE)
    told = sums.policy()
    return Found(told.value, *told.ends, *sums.true_value())


def clipped_worth(world: World, people: Patients, name: str, epsilon: float) -> float:
    """What the interval of `by_sums` is of, over many people."""
    first, second, third = summed(people, name, cap(world, epsilon))[:3]
    return float((first + second / 2) / (first + second + third))


# What it might ------------------------------------------------------------------------------------


def own_clips(world: World, people: Patients, epsilon: float, rng: np.random.Generator) -> Found:
    aim = float(np.clip(PATIENTS * epsilon / 60, 2.0, 50.0))
    most = world.largest
    if most.mean() > aim:
        one = brentq(lambda w: np.minimum(world.largest, w).mean() - aim, 1.0, world.largest[-1])
        most = np.minimum(world.largest, one)
    clipped = np.minimum(people.weight, most) / most.mean()
    u = clipped.mean(axis=1)
    g = (clipped * people.reward).mean(axis=1) / np.maximum(u, 1e-300)
    exact = np.stack([u * g**2, 2 * u * g * (1 - g), u * (1 - g) ** 2, 0.1 * u**2])
    assert np.abs(exact).sum(axis=0).max() <= 1.1 + 1e-9
    scale = (1.1 + BESIDE) / epsilon
    noised = exact.sum(axis=1) + rng.laplace(0, scale, 4)
    rest = np.full(3, (PATIENTS - noised[:3].sum()) / 3)  # of which the value takes no notice
    sums = np.concatenate([noised[:3], rest, noised[3:]])
    told = WeightedSums(sums, 2 * scale**2, float(most.mean()), QUANTILE).policy()
    return Found(told.value, *told.ends)


def each_step(
    world: World, people: Patients, epsilon: float, gauss: bool, rng: np.random.Generator
) -> Found:
    most = np.minimum(cap(world, epsilon), world.largest)
    share = np.ones(STEPS) if gauss else most ** (2 / 3) / np.sum(most ** (2 / 3))
    u = np.minimum(people.weight, most) / most
    exact = share * np.stack([u * people.reward, u * (1 - people.reward)])
    if gauss:
        assert np.sqrt((exact**2).sum(axis=(0, 2))).max() <= math.sqrt(STEPS) + 1e-9
        deviation = gaussian(epsilon) * math.sqrt(STEPS)
        noise = rng.normal(0, deviation, (2, STEPS))
    else:
        assert np.abs(exact).sum(axis=(0, 2)).max() <= 1 + 1e-9
        deviation = math.sqrt(2) / epsilon
        noise = rng.laplace(0, 1 / epsilon, (2, STEPS))
    good, bad = (exact.sum(axis=1) + noise) / share
    under = np.maximum(good + bad, 1.0)
    value = np.clip(good / under, 0, 1)
    by_noise = deviation / share * np.sqrt((1 - value) ** 2 + value**2) / under
    # u² (r - v)² is at most u (r (1 - v)² + (1 - r) v²); errors of steps may all go one way.
    spread = np.maximum(good, 0) * (1 - value) ** 2 + np.maximum(bad, 0) * value**2
    by_chance = np.sum(np.sqrt(spread) / under)
    half = QUANTILE * math.hypot(float(np.sqrt(np.sum(by_noise**2))), by_chance) / STEPS
    return Found(float(value.mean()), float(value.mean()) - half, float(value.mean()) + half)


def gaussian(epsilon: float) -> float:
    """Deviation of the Gaussian mechanism of sensitivity 1 (Balle & Wang 2018)."""

    def over(deviation: float) -> float:
        a, b = 1 / (2 * deviation), epsilon * deviation
        return float(norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b)) - DELTA

    return float(brentq(over, 0.05, 1e4))


def model_of(world: World, people: Patients, epsilon: float, rng: np.random.Generator) -> Floats:
    """Q[step, state, action] by visits and rewards, noised where epsilon is finite."""
    here, following = people.state[:, :-1], people.state[:, 1:]
    visits, gains = np.zeros((STATES, 2, STATES)), np.zeros((STATES, 2))
    np.add.at(visits, (here, people.action, following), 1 / STEPS)
    np.add.at(gains, (here, people.action), people.reward / STEPS)
    scale = 2 / epsilon
    visits = np.maximum(visits + rng.laplace(0, scale, visits.shape), 0)
    gains += rng.laplace(0, scale, gains.shape)
    # Toward all rows together, by what noise is worth.
    rows, prior, everywhere = visits.sum(axis=2), 2 * scale + 1e-9, visits.sum(axis=(0, 1))
    moves = visits + prior * everywhere / everywhere.sum()
    mean = float(np.clip(gains.sum() / rows.sum(), 0, 1))
    reward = np.clip((gains + prior * mean) / (rows + prior), 0, 1)
    q, value = np.empty((STEPS, STATES, 2)), np.zeros(STATES)
    for t in EACH[::-1]:
        q[t] = reward + moves / moves.sum(axis=2, keepdims=True) @ value
        value = values(world, q[t])
    return q


def values(world: World, q: Floats) -> Floats:
    """Of states under the target policy."""
    return np.asarray(world.target * q[..., 1] + (1 - world.target) * q[..., 0])


def residuals(world: World, people: Patients, q: Floats) -> Floats:
    """r_t + V(s_t+1) - Q(s_t, a_t) of each patient and step."""
    value = np.concatenate([values(world, q), np.zeros((1, STATES))])
    after = value[EACH + 1, people.state[:, 1:]]
    return np.asarray(people.reward + after - q[EACH, people.state[:, :-1], people.action])


def robust(world: World, people: Patients, epsilon: float, rng: np.random.Generator) -> Found:
    q, most = model_of(world, people, epsilon / 2, rng), cap(world, epsilon)
    u = np.minimum(people.weight, most) / most
    error = np.clip((u * residuals(world, people, q)).mean(axis=1), -RESIDUAL, RESIDUAL)
    start = np.clip(values(world, q)[0, people.state[:, 0]] / STEPS, 0, 1)
    reach = 0.5 + most * RESIDUAL
    moved = (start - 0.5 + most * error) / reach
    exact = np.stack([moved, 0.1 * moved**2])
    assert np.abs(exact).sum(axis=0).max() <= 1.1 + 1e-9
    scale = 1.1 / (epsilon / 2)
    total, squares = exact.sum(axis=1) + rng.laplace(0, scale, 2)
    deviation = math.sqrt(2) * scale
    spread = max(squares + 0.5 * deviation, 0.0) / 0.1
    half = QUANTILE * reach * math.hypot(deviation, math.sqrt(spread)) / PATIENTS
    found = 0.5 + reach * total / PATIENTS
    return Found(float(np.clip(found, 0, 1)), found - half, found + half)


def plainly(world: World, people: Patients, rng: np.random.Generator) -> dict[str, Found]:
    """The field's estimators without noise or clip."""
    weight, reward = people.weight, people.reward
    q = model_of(world, people, math.inf, rng)
    first = values(world, q)[0, people.state[:, 0]]
    found = {
        "SNTIS": weight[:, -1] @ reward.mean(axis=1) / weight[:, -1].sum(),
        "SNPDIS": np.mean(np.sum(weight * reward, axis=0) / weight.sum(axis=0)),
        "DR": np.mean(first / STEPS + (weight * residuals(world, people, q)).mean(axis=1)),
    }
    return {name: Found(float(number)) for name, number in found.items()}


# Measuring ----------------------------------------------------------------------------------------


def estimates(
    world: World, people: Patients, epsilon: float, rng: np.random.Generator
) -> dict[str, Found]:
    q, seed = model_of(world, people, epsilon, rng), int(rng.integers(1 << 62))
    return {
        # Both with the same noise, which then says nothing of their difference.
        **{
            name: by_sums(world, people, name, epsilon, np.random.default_rng(seed))
            for name in SUMMED
        },
        "own_clips": own_clips(world, people, epsilon, rng),
        "each_step": each_step(world, people, epsilon, False, rng),
        "gaussian": each_step(world, people, epsilon, True, rng),
        "robust": robust(world, people, epsilon, rng),
        "model": Found(float(values(world, q)[0, people.state[:, 0]].mean()) / STEPS),
        **plainly(world, people, rng),
    }


def measured(
    names: tuple[str, ...], square: float, epsilon: float, repetitions: int = REPETITIONS
) -> dict[str, dict[str, float]]:
    """Of each estimator, over repetitions in each of the worlds: root mean square error, bias, how
    often its interval holds the truth and the truth with clips, and its half width."""
    rows: dict[str, list[tuple[float, ...]]] = {}
    for name in names:
        world = World(name, square)
        truth = world.worth()
        seed = NAMED.index(name) if name in NAMED else 100 + int(name)
        rng = np.random.default_rng([seed, int(square), int(1000 * epsilon)])
        many = world.draw(REFERENCE, rng)
        aims = {each: clipped_worth(world, many, each, epsilon) for each in SUMMED}
        for _ in range(repetitions):
            people = world.draw(PATIENTS, rng)
            for each, one in estimates(world, people, epsilon, rng).items():
                error = one.value - truth
                rows.setdefault(each, []).append(
                    (
                        error**2,
                        error,
                        one.lower <= truth <= one.upper,
                        one.lower <= aims.get(each, truth) <= one.upper,
                        one.least <= truth <= one.most,
                        (one.upper - one.lower) / 2,
                    )
                )
    found = {}
    labels = ("rmse", "bias", "truth", "clipped", "robust", "half_width")
    for each, numbers in rows.items():
        mean = np.mean(np.array(numbers, dtype=float), axis=0)
        mean[0] = math.sqrt(mean[0])
        found[each] = dict(zip(labels, map(float, mean), strict=True))
    return found


def cells() -> Iterator[tuple[str, float, float, dict[str, dict[str, float]]]]:
    for name in (*NAMED, "random"):
        names = (name,) if name in NAMED else tuple(map(str, range(RANDOM)))
        for square in SQUARES:
            for epsilon in EPSILONS:
                times = REPETITIONS if name in NAMED else 8
                yield name, square, epsilon, measured(names, square, epsilon, times)


def run() -> Iterator[dict[str, Any]]:
    """One row a cell and estimator."""
    for name, square, epsilon, cell in cells():
        whole = cell["whole"]
        for each, one in cell.items():
            note = f"bias {one['bias']:+.3f}"
            if math.isfinite(one["half_width"]):
                note += f"; holds: truth with clips {one['clipped']:.2f}, truth {one['truth']:.2f}"
                note += f"; half width {one['half_width']:.3f}"
            if each in SUMMED:
                note += f"; ends without clips hold {one['robust']:.2f}"
            yield {
                "benchmark": f"per decision: {name}, mean square of weights {square:g}, epsilon "
                f"{epsilon:g}: {each}",
                "ours": one["rmse"],
                "unit": "root mean square error",
                "peer": "whole trajectories",
                "peer_value": whole["rmse"],
                "ratio": one["rmse"] / whole["rmse"],
                "note": note,
            }
