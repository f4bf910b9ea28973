"""What a clinic learns: intervals of the difference of two policies, with the clip that the release
chooses, over numbers of patients and epsilons.

Made-up patients have a covariate x, uniform from 0 to 1 and drawn anew in each visit, and one of
two treatments with a probability that goes by x and stands in a column; rewards lie between 0 and
100. A rule treats by x.

    one visit     treated with .41 to .59, the rule treats x > .4, which helps them and harms others
    rare action   treated with .03 to .18, the rule treats x > .5
    heavy tails   treated with x², at least .01; the rule treats everybody, and returns grow with
                  weights, so that what clips cut off is worth most
    six visits    as one visit, six times; the rule is followed with probability .8; rewards are
                  summed, or (`mean per visit`) averaged over the 1 to 6 visits that a patient has

Truths are means over a million patients. Plan, release and finish are called directly. `make bench
ARGS=clinics`, two minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic

SIMULATIONS = 40
SIZES = tuple((n, epsilon) for n in (500, 2_000, 10_000) for epsilon in (0.5, 1.0, 4.0))
WORLDS = ("one visit", "rare action", "heavy tails", "six visits", "mean per visit")
MOST = 100.0
SIX = 6


def draw(world: str, number: int, rng: np.random.Generator) -> dict[str, Any]:
    """A content; with `value`, what each patient was expected to gain by the rule."""
    visits = SIX if world in ("six visits", "mean per visit") else 1
    shape = (number, visits)
    x = rng.random(shape)
    follows = 1.0
    if world == "rare action":
        p, rule = 0.03 + 0.15 * x, x > 0.5
        gain = np.full(shape, 16.0)
        base = 40 + 10 * x
    elif world == "heavy tails":
        p, rule = np.maximum(x**2, 0.01), np.ones(shape, dtype=bool)
        gain = 60 * (1 - p)
        base = np.full(shape, 20.0)
    else:
        p, rule = 0.41 + 0.18 * x, x > 0.4
        gain = np.where(rule, 4.0, -4.0)
        base = 45 + 10 * x
        follows = 0.8 if visits > 1 else 1.0
    treated = rng.random(shape) < p
    reward = np.clip(base + gain * treated + 10 * rng.standard_normal(shape), 0, MOST)
    agrees = treated == rule
    chosen = np.where(rule, follows, 1 - follows)
    lengths = np.full(number, visits)
    if world == "mean per visit":
        lengths = rng.integers(1, visits + 1, number)
    there = np.arange(visits) < lengths[:, None]
    last = np.arange(visits) == lengths[:, None] - 1
    zeros = np.zeros(int(lengths.sum()), dtype=np.int32)
    return {
        "start": np.concatenate([[0], np.cumsum(lengths)]),
        "reward": reward[there],
        "terminal": last[there],
        "behaviour": np.where(treated, p, 1 - p)[there],
        "target": np.where(agrees, follows, 1 - follows)[there],
        "state": zeros,
        "next_state": zeros,
        "value": (base + gain * chosen)[there],
        "followed": (base + gain * p)[there],
    }


@cache
def worth(world: str) -> tuple[float, float]:
    """What the rule is worth, and what the followed policy is."""
    many = draw(world, 1_000_000, np.random.default_rng(99))
    people = many["start"].size - 1
    lengths = np.diff(many["start"])
    share = 1 / lengths if world == "mean per visit" else np.ones(people)
    each = np.repeat(share, lengths)
    return tuple(float((many[name] * each).sum() / people) for name in ("value", "followed"))  # type: ignore[return-value]


def measured(
    world: str,
    number: int,
    epsilon: float,
    *,
    declared: Mapping[str, Any] | None = None,
    asked: Mapping[str, Any] | None = None,
    simulations: int = SIMULATIONS,
) -> dict[str, float]:
    """Of the difference the half width, the error and the coverage, and the coverage of the value.
    `declared`: public figures beside the bounds; absent: that there are two treatments."""
    visits = SIX if world in ("six visits", "mean per visit") else 1
    fixed = {"unit": "trajectory", "states": 1, "reward_bound": MOST, "least_reward": 0}
    public = OffPolicyPublic.model_validate(
        {
            **fixed,
            "horizon": visits,
            "off_policy": True,
            **({"actions": 2} if declared is None else declared),
        }
    )
    if asked is None:
        asked = {"estimand": "mean_per_visit"} if world == "mean per visit" else {}
    problem = OffPolicyEvaluation.model_validate(
        {"kind": "off_policy_evaluation", "dataset": "benchmark", "discount": 1, **asked}
    )
    plan = problem.plan(public, Privacy.model_validate({"epsilon": epsilon}).budget)
    rng = np.random.default_rng([WORLDS.index(world), number, int(100 * epsilon)])
    truth, followed = worth(world)
    rows = []
    for seed in range(simulations):
        content = draw(world, number, rng)
        released = problem.release(public, plan, content, Noise.seeded(seed))
        found = problem.finish(public, plan, released, lambda step, total: None).to_json()
        said = found["uncertainty"]["values"]
        ends, value = said["difference"], said["policy_value"]
        rows.append(
            (
                (ends["upper"] - ends["lower"]) / 2,
                (found["difference"] - truth + followed) ** 2,
                ends["lower"] <= truth - followed <= ends["upper"],
                value["lower"] <= truth <= value["upper"],
                found["largest_weight"],
                found["uncertainty"]["mostly_noise"],
            )
        )
    table = np.array(rows, dtype=float)
    mean = table.mean(axis=0)
    error = math.sqrt(mean[1])
    half = float(np.median(table[:, 0]))
    return {
        "effect": truth - followed,
        "half": half,
        "error": error,
        "ratio": half / (1.645 * error),
        "difference_holds": mean[2],
        "value_holds": mean[3],
        "clip": float(np.median(table[:, 4])),
        "noise": mean[5],
    }


def run(releases: int = SIMULATIONS) -> Iterator[dict[str, Any]]:
    for world in WORLDS:
        for number, epsilon in SIZES:
            found = measured(world, number, epsilon, simulations=releases)
            yield {
                "benchmark": f"clinic, {world} (effect {found['effect']:.2g}), {number:,} "
                f"patients, epsilon {epsilon:g}",
                "ours": found["half"],
                "unit": "half width of the difference",
                "peer": "1.645 x error",
                "peer_value": 1.645 * found["error"],
                "ratio": found["ratio"],
                "note": f"difference holds {found['difference_holds']:.2f}, value "
                f"{found['value_holds']:.2f}; clip {found['clip']:.3g}; mostly noise "
                f"{found['noise']:.2f}",
            }
