"""What a simulation adds to its result: what following the signal achieves on the true loads, and
the most that could be."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.problems.contents import Released
from discreet.problems.dr_ensemble import estimates
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats
from discreet.problems.dr_ensemble.request import DrEnsembleRequest
from discreet.problems.plans import Plan
from discreet.solvers.control import signals
from discreet.solvers.control.control_policies import Policy


def truth(
    problem: DrEnsembleRequest,
    public: DrEnsemblePublic,
    plan: Plan,
    released: Released,
    control: Control,
    signal: Floats,
    policy: Policy,
) -> dict[str, Any]:
    """Of a `problem.DrEnsemble`, whose `signal` is followed by loads that move as they do without
    noise."""
    unnoised = estimates.unnoised(public, plan, released)
    true = unnoised.transitions[None]
    start = (
        control.start(unnoised.visits)
        if problem.initial == "released"
        else np.array(problem.initial)
    )
    best = control.values(true, start)
    attained = control.followed(true, best[0], start)
    achieved = control.followed(true, signal, start)
    values = {
        **{
            f"true_{name}": attained[name][0]
            for name in ("expected_power", "default_power", "saving")
        },
        "achieved_power": achieved["expected_power"][0],
        "achieved_saving": control.savings(true, signal[None], start)[0, 0],
        "achieved_policy_saving": control.ordered([true], policy, start)[0][0],
    }
    # With limits the best is that of one start, and no state has a best of its own.
    if problem.limits is None:
        cost = signals.costs(
            true,
            np.array([signal, best[0]]),
            control.utility,
            control.discomfort_weight,
            at=control.at,
            steps=True,
        )[0]
        values["cost_of_privacy"] = np.maximum(cost[0] - cost[1], 0.0)
    return values
