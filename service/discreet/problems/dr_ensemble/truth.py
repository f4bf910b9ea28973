"""What a simulation adds to its result: the best possible values, and those of the released
policy on the true load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from discreet.problems.contents import Released
from discreet.problems.dr_ensemble import estimates
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.dr_ensemble.request import DrEnsembleRequest
from discreet.problems.plans import Plan
from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control.control_policies import Policy


def truth(
    problem: DrEnsembleRequest,
    public: DrEnsemblePublic,
    plan: Plan,
    released: Released,
    control: Control,
    policy: Policy,
) -> dict[str, Any]:
    """Of a `problem.DrEnsemble`, whose `policy` is in use where loads move as they do without
    noise."""
    unnoised = estimates.unnoised(public, plan, released)
    true = unnoised.transitions
    start = (
        control.start(unnoised.visits)
        if problem.initial == "released"
        else np.array(problem.initial)
    )
    exact = replace(control, policy="exact")
    best = exact.answer(true, exact.solve(true, price=exact.price(true, start)[0]), start)
    values = {
        **{f"true_{name}": best[name] for name in ("expected_power", "default_power", "saving")},
        "achieved_power": control.load(policy, start),
        "achieved_saving": control.saving(true, control.cost_to_go(policy, true), start),
    }
    # With limits the best policy is that of one start, and no state has a best of its own.
    if problem.limits is None:
        cost = lsmdp.cost_of_privacy(
            policy, true, control.utility, problem.discomfort_weight, at=control.at
        )
        values |= {
            "cost_of_privacy": cost,
            "achieved_saving": best["saving"] - float(start @ cost[0]),
        }
    return values
