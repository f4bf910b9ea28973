"""What a clip costs: the interval of what a policy is worth, with clipped weights and without
clips, over a grid of numbers of patients, epsilons, horizons and largest ratios.

Each trial draws its treatment in every visit. A ratio of 3: two treatments drawn 2 to 1, and a rule
by which half of the patients should have each; of 2: drawn evenly; of 1.5: everybody should have
the one of the 2. Patients who were treated by the rule in a visit are well there with a chance,
others with another (`helps`: .9 and .2; `little`: .5 and .45; `sicker`: as `helps`, but .3 for
those who should have the rare treatment, whose weights are cut off most), or the last visit comes
out well for those who always were, and there is no other reward (`all or nothing`: .9 and .1). So
truths are known. Plan, release and finish are called directly; a private number of patients is one
that the plan does not know. On request: `make bench ARGS=clips`, about half an hour.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic

SIMULATIONS = 200
METHODS = ("importance_sampling", "per_decision")
RULES = ((1, 3.0), (3, 3.0), (4, 2.0), (5, 3.0), (4, 1.5))
"""Horizon, and the largest ratio of a visit."""
SIZES = ((200, 1.0), (500, 1.0), (500, 3.0), (1500, 0.3), (1500, 1.0), (5000, 1.0), (1500, 3.0))
"""Patients, and epsilon."""
WORLDS = {
    "helps": (0.9, 0.9, 0.2),
    "little": (0.5, 0.5, 0.45),
    "sicker": (0.9, 0.3, 0.2),
    "all or nothing": (0.9, 0.9, 0.1),
}
"""Chances to be well: of those treated by the rule who should have the common treatment, and the
rare one; of the others."""
FEW = 2.0
"""Ratios below it have one rule for everybody."""
FARTHEST = 40.0
"""Largest weight in clips: beyond it both are useless."""


def draw(
    number: int, horizon: int, ratio: float, world: str, rng: np.random.Generator
) -> dict[str, Any]:
    """A content: rewards of each visit are 0 or 1."""
    common = 1 / ratio if ratio < FEW else 1 - 1 / ratio
    treated = rng.random((number, horizon)) < common
    due = np.ones((number, 1), dtype=bool) if ratio < FEW else rng.random((number, 1)) < 0.5
    agrees = treated == due
    often, seldom, else_well = WORLDS[world]
    well = np.where(due, often, seldom)
    if world == "all or nothing":
        always = agrees.all(axis=1)
        reward = np.zeros((number, horizon))
        reward[:, -1] = rng.random(number) < np.where(always, well[:, 0], else_well)
    else:
        reward = (rng.random(agrees.shape) < np.where(agrees, well, else_well)).astype(float)
    zeros = np.zeros(number * horizon, dtype=np.int32)
    return {
        "start": np.arange(number + 1) * horizon,
        "state": zeros,
        "next_state": zeros,
        "reward": reward.ravel(),
        "terminal": np.tile(np.arange(horizon) == horizon - 1, number),
        "behaviour": np.where(treated, common, 1 - common).ravel(),
        "target": agrees.ravel().astype(float),
    }


def measured(
    method: str,
    number: int,
    epsilon: float,
    horizon: int,
    ratio: float,
    world: str,
    *,
    known: bool,
    clip: float | None = None,
    simulations: int = SIMULATIONS,
) -> dict[str, float]:
    """Coverage, half widths and errors in parts of the range of returns. `clip`: None is the
    product's own."""
    fixed = {"unit": "trajectory", "states": 1, "reward_bound": 1, "least_reward": 0}
    rules = {"horizon": horizon, "max_ratio": ratio, "off_policy": True}
    part = {"trajectories": number} if known else {}
    public = OffPolicyPublic.model_validate({**fixed, **rules, **part})
    asked = {"kind": "off_policy_evaluation", "dataset": "benchmark", "discount": 1}
    problem = OffPolicyEvaluation.model_validate(
        {**asked, "method": method, "max_importance": clip}
    )
    plan = problem.plan(public, Privacy.model_validate({"epsilon": epsilon}).budget)
    rng = np.random.default_rng([number, int(100 * epsilon), horizon, known])
    truth, followed = worth(horizon, ratio, world)
    rows = []
    for seed in range(simulations):
        content = draw(number, horizon, ratio, world, rng)
        released = problem.release(public, plan, content, Noise.seeded(seed))
        found = problem.finish(public, plan, released, lambda step, total: None).to_json()
        said = found["uncertainty"]["values"]
        value = said["policy_value"]
        clipped = found.get("clipped_value", value)
        rows.append(
            (
                value["lower"] <= truth <= value["upper"],
                said["difference"]["lower"] <= truth - followed <= said["difference"]["upper"],
                clipped["lower"] <= truth <= clipped["upper"],
                (value["upper"] - value["lower"]) / 2 / horizon,
                (clipped["upper"] - clipped["lower"]) / 2 / horizon,
                ((found["policy_value"] - truth) / horizon) ** 2,
                found["largest_weight"],
                found["uncertainty"]["mostly_noise"],
                found["clipped_mass"],
            )
        )
    table = np.array(rows, dtype=float)
    mean, median = table.mean(axis=0), np.median(table, axis=0)
    return {
        "holds": mean[0],
        "difference_holds": mean[1],
        "clipped_holds": mean[2],
        "half_width": median[3],
        "clipped_half_width": median[4],
        "error": float(np.sqrt(mean[5])),
        "clip": median[6],
        "noise": mean[7],
        "cut": median[8],
    }


def worth(horizon: int, ratio: float, world: str) -> tuple[float, float]:
    """What the rule is worth, and what the followed policy is."""
    common = 1 / ratio if ratio < FEW else 1 - 1 / ratio
    often, seldom, else_well = WORLDS[world]
    groups = [(common, often)] + ([] if ratio < FEW else [(1 - common, seldom)])
    visits, at_once = (1, horizon) if world == "all or nothing" else (horizon, 1)
    rule = statistics.fmean(well for _, well in groups)
    followed = statistics.fmean(
        agrees**at_once * well + (1 - agrees**at_once) * else_well for agrees, well in groups
    )
    return visits * rule, visits * followed


def cells() -> Iterator[tuple[str, int, float, int, float, bool, float]]:
    """Each with how many times the usual clip the largest weight is."""
    for method in METHODS:
        for horizon, ratio in RULES:
            for number, epsilon in SIZES:
                for known in (True, False):
                    usual = max(number * epsilon / 60 * (1.1 / 2.1 if known else 1.0), 2.0)
                    times = ratio**horizon / usual
                    if times <= FARTHEST:
                        yield method, number, epsilon, horizon, ratio, known, times


def run(releases: int = SIMULATIONS) -> Iterator[dict[str, Any]]:
    """A row for each cell and world: the product's interval, and those with the usual clip and
    without one where they differ."""
    for method, number, epsilon, horizon, ratio, known, times in cells():
        for world in WORLDS:
            largest = ratio**horizon
            ways = {"own": None, "clip": largest / times, "no clip": largest}
            if times <= 1:
                ways = {"own": None}
            told = {
                name: measured(
                    method,
                    number,
                    epsilon,
                    horizon,
                    ratio,
                    world,
                    known=known,
                    clip=clip,
                    simulations=releases,
                )
                for name, clip in ways.items()
            }
            own = told["own"]
            others = "; ".join(
                f"{name}: ± {one['half_width']:.3f}, error {one['error']:.3f}, noise "
                f"{one['noise']:.2f}"
                for name, one in told.items()
                if name != "own"
            )
            yield {
                "benchmark": f"{method}, {number:,} patients ({'public' if known else 'private'}), "
                f"epsilon {epsilon:g}, horizon {horizon}, ratio {ratio:g}, {world}",
                "ours": own["half_width"],
                "unit": "half width of the value's interval, in parts of the range",
                "peer": "with clipped weights alone",
                "peer_value": own["clipped_half_width"],
                "ratio": own["half_width"] / own["clipped_half_width"],
                "note": f"holds {own['holds']:.3f}, difference {own['difference_holds']:.3f}, "
                f"clipped alone {own['clipped_holds']:.3f}; clip {own['clip']:.3g} of "
                f"{largest:.3g}, cut {own['cut']:.2f}, noise {own['noise']:.2f}, error "
                f"{own['error']:.3f}{others and '; '}{others}",
            }
