"""What following a released signal achieves on the true loads, against what its result says:
households with habits of their own (five states, five blocks of a day), loads of 20 states that
move by two at most (no support declared), loads without order, and loads without jumps at a tariff
of a few cents.

Told are, in parts of the most that can be saved: what is achieved (mean, and worst tenth of the
releases), how often its interval holds it, half the width of the interval, and how often its lower
end is above 0; and what ordering the probabilities of the `policy` achieves, and how often the
least that is told of that holds. On request: `make bench ARGS="signals --releases 30"`, about two
minutes of processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.noise import Noise
from discreet.problems.dr_ensemble.dataset import DrEnsembleContent, DrEnsembleDataset
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.numbers import Budget

RELEASES = 30
EPSILONS = (0.5, 1.0, 4.0)
Truth = tuple[dict[str, Any], NDArray[np.int64], dict[str, Any]]
"""Public part, states int64[loads, steps], and fields of the problem."""


def households(people: int = 500) -> Truth:
    """A day of quarter-hours; each household stays as long as it likes."""
    rng, steps = np.random.default_rng([91, 0]), 96
    begin = [0, 24, 36, 64, 88]
    wanted = np.array(
        [
            [0.6, 0.25, 0.1, 0.04, 0.01],
            [0.25, 0.3, 0.25, 0.15, 0.05],
            [0.4, 0.3, 0.18, 0.09, 0.03],
            [0.15, 0.25, 0.3, 0.2, 0.1],
            [0.4, 0.3, 0.18, 0.1, 0.02],
        ]
    )
    near = np.exp(-np.abs(np.subtract.outer(np.arange(5), np.arange(5))) / 1.5)
    moves = near * wanted[:, None]
    moves /= moves.sum(axis=2, keepdims=True)
    matrices = 0.6 * np.eye(5) + 0.4 * moves
    block = np.searchsorted(begin, np.arange(steps), side="right") - 1
    states = np.empty((people, steps), dtype=np.int64)
    states[:, 0] = rng.choice(5, people, p=wanted[0])
    stay = np.maximum(rng.uniform(0.3, 0.85, people) - 0.55, 0.0)
    for step in range(1, steps):
        now = _moved(matrices[block[step - 1]], states[:, step - 1], rng)
        kept = rng.random(people) < stay
        states[:, step] = np.where(kept, states[:, step - 1], now)
    public = {"unit": "participant", "states": 5, "steps": steps, "participants": people}
    price = [0.05] * 68 + [0.1] * 12 + [0.05] * 16
    fields = {"power": [0.15, 0.55, 1.2, 2.3, 4.5], "price": price, "discomfort_weight": 0.2}
    return (
        {**public, "day": {"steps": steps, "blocks": begin}},
        states,
        {**fields, "initial": "released"},
    )


def sticky(seed: int = 0, people: int = 1000, states: int = 20) -> Truth:
    rng = np.random.default_rng([92, seed])
    matrix = np.zeros((states, states))
    for state in range(states):
        stay = rng.uniform(0.5, 0.8)
        near = range(max(0, state - 2), min(states, state + 3))
        matrix[state, near] += (1 - stay) * rng.dirichlet(np.ones(len(near)))
        matrix[state, state] += stay
    price = [0.06] * 14 + [0.3] * 8 + [0.06] * 10
    return _chain(matrix, people, 96, rng, price=price, discomfort_weight=1.0)


def lively(seed: int = 0, people: int = 1000, states: int = 8) -> Truth:
    rng = np.random.default_rng([93, seed])
    matrix = rng.dirichlet(np.full(states, 0.6), states)
    price = [0.2] * 14 + [1.0] * 5 + [0.2] * 5
    return _chain(matrix, people, 48, rng, price=price, discomfort_weight=1.0)


def without_jumps(seed: int = 0, people: int = 1000, states: int = 8) -> Truth:
    """To the next states alone; the tariff is two and five cents."""
    rng = np.random.default_rng([94, seed])
    matrix = np.zeros((states, states))
    for state in range(states):
        if state < states - 1:
            matrix[state, state + 1] = rng.uniform(0.05, 0.25)
        if state > 0:
            matrix[state, state - 1] = rng.uniform(0.1, 0.35)
        matrix[state, state] = 1 - matrix[state].sum()
    price = [0.02] * 34 + [0.05] * 8 + [0.02] * 6
    return _chain(matrix, people, 96, rng, price=price, discomfort_weight=0.5, initial="released")


TRUTHS: dict[str, Callable[[], Truth]] = {
    "households": households,
    "sticky, 20 states": sticky,
    "lively, no order": lively,
    "without jumps, a few cents": without_jumps,
}


def _moved(
    matrix: NDArray[np.float64], states: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    drawn = rng.random(states.size)[:, None] > matrix.cumsum(axis=1)[states]
    found: NDArray[np.int64] = np.minimum(drawn.sum(axis=1), len(matrix) - 1)
    return found


def _chain(
    matrix: NDArray[np.float64], people: int, steps: int, rng: np.random.Generator, **fields: Any
) -> Truth:
    n = len(matrix)
    states = np.empty((people, steps), dtype=np.int64)
    states[:, 0] = rng.integers(0, n, people)
    for step in range(1, steps):
        states[:, step] = _moved(matrix, states[:, step - 1], rng)
    public = {"unit": "participant", "states": n, "steps": steps, "participants": people}
    return public, states, {"power": np.linspace(0, 5, n).tolist(), "initial": [1 / n] * n} | fields


def simulated(truth: Truth, epsilon: float, seeds: range) -> list[dict[str, Any]]:
    """Results of releases of these seeds, as those of a simulation."""
    public, states, fields = truth
    part = DrEnsemblePublic.model_validate(public)
    content = DrEnsembleDataset.read_rows(part, DrEnsembleContent(trajectories=states.tolist()))
    problem = DrEnsemble.model_validate({"kind": "dr_ensemble", "dataset": "loads", **fields})
    plan = problem.draft(part, Budget(epsilon=round(epsilon * 1e9), delta=0))
    true = problem.diagnose(part, plan, content, Noise.seeded(0))
    return [
        problem.finish(
            part,
            plan,
            problem.release(part, plan, content, Noise.seeded(seed)) | true,
            lambda *_: None,
        ).to_json()
        for seed in seeds
    ]


def judged(results: list[dict[str, Any]]) -> dict[str, float]:
    """The figures of the module's docstring."""
    found = []
    for body in results:
        ends = body["uncertainty"]["values"]["saving"]
        most = body["true_saving"]
        told = (body["achieved_saving"], ends["lower"], ends["upper"])
        policy = (body["achieved_policy_saving"], body["policy_saving"])
        found.append([one / most for one in (*told, *policy)])
    achieved, lower, upper, policy, least = np.array(found).T
    return {
        "achieved": float(achieved.mean()),
        "worst tenth": float(np.quantile(achieved, 0.1)),
        "held": float(np.mean((lower <= achieved + 1e-9) & (achieved <= upper + 1e-9))),
        "half width": float((upper - lower).mean() / 2),
        "above 0": float((lower > 0).mean()),
        "policy achieved": float(policy.mean()),
        "policy held": float((policy >= least).mean()),
    }


def run(releases: int = RELEASES) -> Iterator[dict[str, Any]]:
    for name, truth in TRUTHS.items():
        for epsilon in EPSILONS:
            figures = judged(simulated(truth(), epsilon, range(releases)))
            yield {
                "benchmark": f"signal: {name}, epsilon {epsilon:g}",
                "ours": figures["achieved"],
                "unit": "of the optimum",
                "note": ", ".join(f"{what} {one:.2f}" for what, one in figures.items()),
            }
