"""What a policy is worth for these patients: released importance sampling beside the same weights
without privacy.

3,000 made-up patients, drawn anew for each repetition, choose one of two treatments in each of
eight steps, evenly; the target policy prefers one of them. Returns are 0 or 1, more often 1 where
the target's treatment was chosen more often: strongly (.15 to .85, which is what clips cut off most
of) or mildly (.55 to .75). So truths are known by enumeration. Without privacy: NumPy's own
products of ratios, weighted, and unclipped. On request: `make bench ARGS=importance_sampling`, some
minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic

PATIENTS, STEPS, EPSILONS = 3_000, 8, (0.1, 0.2, 0.6, 2.0)
SQUARES = (4.0, 48.0)
"""Mean squares of the weights of whole trajectories."""
REPETITIONS = 500


class Patients:
    """Of one target policy, whose weights have this mean square."""

    def __init__(self, square: float, effect: str = "strong") -> None:
        # (p² + (1 - p)²) / .5 is the mean square of one step's ratio.
        self.p = 0.5 + 0.5 * math.sqrt(square ** (1 / STEPS) - 1)
        part = np.arange(STEPS + 1) / STEPS
        # Of a return of 1, by how often the target's treatment was chosen.
        self.chance = {"strong": 0.15 + 0.7 * part**2, "mild": 0.55 + 0.2 * part}[effect]
        chosen = np.arange(STEPS + 1)
        self.weight = (2 * self.p) ** chosen * (2 * (1 - self.p)) ** (STEPS - chosen)
        self.often = np.array([math.comb(STEPS, k) for k in chosen]) / 2**STEPS

    def worth(self, cap: float = math.inf) -> float:
        """Of the target policy, with weights up to `cap`."""
        mass = self.often * np.minimum(self.weight, cap)
        return float(mass @ self.chance / mass.sum())

    def behaviour(self) -> float:
        return float(self.often @ self.chance)

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """A content, one reward at each one's end."""
        chosen = rng.random((PATIENTS, STEPS)) < 0.5
        reward = np.zeros((PATIENTS, STEPS))
        reward[:, -1] = rng.random(PATIENTS) < self.chance[chosen.sum(axis=1)]
        target = np.where(chosen, self.p, 1 - self.p)
        states = np.zeros(PATIENTS * STEPS, dtype=np.int32)
        return {
            "start": np.arange(PATIENTS + 1) * STEPS,
            "reward": reward.ravel(),
            "terminal": np.tile(np.arange(STEPS) == STEPS - 1, PATIENTS),
            "behaviour": np.full(PATIENTS * STEPS, 0.5),
            "target": target.ravel(),
            "state": states,
            "next_state": states,
        }


def plainly(content: dict[str, Any]) -> float:
    """Weighted importance sampling in NumPy: no clip, no noise."""
    ratio = (content["target"] / content["behaviour"]).reshape(PATIENTS, STEPS)
    weight, gain = ratio.prod(axis=1), content["reward"].reshape(PATIENTS, STEPS).sum(axis=1)
    return float(weight @ gain / weight.sum())


def public(known: bool) -> OffPolicyPublic:
    part: dict[str, Any] = {"trajectories": PATIENTS} if known else {}
    fixed = {
        "unit": "trajectory",
        "states": 1,
        "reward_bound": 1,
        "horizon": STEPS,
        "off_policy": True,
    }
    return OffPolicyPublic.model_validate({**fixed, **part})


def measured(
    square: float,
    epsilon: float,
    known: bool,
    repetitions: int = REPETITIONS,
    effect: str = "strong",
) -> dict[str, Any]:
    """Errors and coverage of one cell, over repetitions of patients and noise."""
    people, part = Patients(square, effect), public(known)
    body = {
        "kind": "off_policy_evaluation",
        "dataset": "benchmark",
        "discount": 0,
        "return_bounds": [0, 1],
    }
    problem = OffPolicyEvaluation.model_validate({**body, "discount": 1 - 1e-12})
    plan = problem.plan(part, Privacy.model_validate({"epsilon": epsilon}).budget)
    rng = np.random.default_rng([int(square), int(1000 * epsilon), known])
    truth, before = people.worth(), people.behaviour()
    rows = []
    for seed in range(repetitions):
        content = people.draw(rng)
        released = problem.release(part, plan, content, Noise.seeded(seed))
        found = problem.finish(part, plan, released, lambda step, total: None).to_json()
        said = found["uncertainty"]["values"]
        clipped = people.worth(found["largest_weight"])

        def holds(
            name: str, number: float, ends: dict[str, Any] | None = None, said: Any = said
        ) -> bool:
            interval = said[name] if ends is None else ends
            return bool(interval["lower"] <= number <= interval["upper"])

        ends = found["clipped_value"]
        rows.append(
            (
                found["policy_value"] - truth,
                plainly(content) - truth,
                holds("", clipped, ends),
                holds("", truth, ends),
                holds("policy_value", truth),
                (ends["upper"] - ends["lower"]) / 2,
                (found["robust_bounds"]["upper"] - found["robust_bounds"]["lower"]) / 2,
                holds("behaviour_value", before),
                holds("", clipped - before, found["clipped_difference"]),
                holds("difference", truth - before),
                found["largest_weight"],
                found["behaviour_value"] - before,
                found["policy_value"] - found["behaviour_value"] - clipped + before,
            )
        )
    table = np.array(rows, dtype=float)
    mean = table.mean(axis=0)

    def rmse(column: int) -> float:
        return float(np.sqrt(np.mean(table[:, column] ** 2)))

    return {
        "effect": effect,
        "square": square,
        "epsilon": epsilon,
        "known": known,
        "clip": mean[10],
        "rmse": rmse(0),
        "rmse_plain": rmse(1),
        "covers_clipped": mean[2],
        "covers_truth": mean[3],
        "covers_robust": mean[4],
        "half_width": mean[5],
        "half_width_robust": mean[6],
        "covers_behaviour": mean[7],
        "covers_clipped_difference": mean[8],
        "covers_difference": mean[9],
        "rmse_behaviour": rmse(11),
        "rmse_difference": rmse(12),
    }


def cells(repetitions: int = REPETITIONS) -> Iterator[dict[str, Any]]:
    """With a private number of patients both effects, with a public one the strong one."""
    for known, effect in ((False, "mild"), (False, "strong"), (True, "strong")):
        for square in SQUARES:
            for epsilon in EPSILONS:
                yield measured(square, epsilon, known, repetitions, effect)


def run() -> Iterator[dict[str, Any]]:
    """One row a cell. `clipped_value` is the interval for clipped weights alone, which may miss the
    truth; that of `policy_value` must not."""
    for cell in cells():
        relation = "number public" if cell["known"] else "number private"
        yield {
            "benchmark": f"importance sampling, {cell['effect']} effect, mean square of weights "
            f"{cell['square']:g}, {relation}, epsilon {cell['epsilon']:g}",
            "ours": cell["rmse"],
            "unit": "root mean square error",
            "peer": "NumPy without noise or clip",
            "peer_value": cell["rmse_plain"],
            "ratio": cell["rmse"] / cell["rmse_plain"],
            "note": f"clipped_value holds: its own {cell['covers_clipped']:.2f}, truth "
            f"{cell['covers_truth']:.2f}; policy_value holds the truth "
            f"{cell['covers_robust']:.2f}, behaviour {cell['covers_behaviour']:.2f}, difference "
            f"{cell['covers_difference']:.2f}; clip {cell['clip']:.2g}; half widths "
            f"{cell['half_width']:.3f} and {cell['half_width_robust']:.3f}",
        }
