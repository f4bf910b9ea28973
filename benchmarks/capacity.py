"""How many typical jobs fit under a cap, as they are priced now and as they were: `make bench
ARGS=capacity`.

Before: whatever is calibrated by a loss distribution cost epsilon²/2, a person's trips counted by
their number alone, and the mechanism was the one of least noise in one job. Both columns are of
jobs with the same noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from discreet.privacy import calibration
from discreet.privacy.filters import FILTERS, Cap
from discreet.privacy.mechanism import MechanismEvent
from discreet.privacy.units import EPSILON_UNIT, RHO_UNIT, Price

CAPS = (Cap(EPSILON_UNIT, 10**13), Cap(3 * EPSILON_UNIT, 10**13))
EPSILON, DELTA = EPSILON_UNIT // 10, 10**10
"""Of one job: (0.1, 1e-8)."""


@dataclass(frozen=True)
class Job:
    """A typical job: what it cost, and what one of no more noise costs."""

    kind: str
    what: str
    before: Price
    after: Price


def fitting(price: Price, cap: Cap) -> int:
    """How many such jobs some filter of an account admits."""
    most = 0
    for one in FILTERS:
        budget = one.budget(cap)
        if budget is not None:
            columns = price.columns()
            most = max(
                most, min(most // columns[name] for name, most in budget.items() if columns[name])
            )
    return most


def jobs() -> Iterator[Job]:
    """One for each mechanism of each kind."""
    counts = "in rho, with as much noise as geometric noise of epsilon 0.1"
    for kind, what, number, norm in (
        ("routing", f"counts, a request, {counts}", 1, 1),
        ("routing", f"counts, a person of 500 trips, {counts}", 500, 500),
        ("routing", f"counts, a person of 500 trips over 20 pairs (norm 112), {counts}", 500, 112),
        ("dr_ensemble", f"counts, {counts}", 1 << 24, 1 << 24),
        ("off_policy_evaluation", f"moments of public rewards, {counts}", 1 << 24, 1 << 24),
    ):
        before = calibration.discrete_laplace(number, EPSILON, neighbours="one")
        rho = math.floor(norm**2 / (2 * before.deviation() ** 2) * RHO_UNIT)
        after = calibration.least_variance(number, norm, 0, DELTA, neighbours="one", rho=rho)
        yield Job(kind, what, before.price(), after.price())
    point: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "neighbours": "one"}
    steps = partial(
        calibration.poisson_subsampled_gaussian, 1.0, probability=1e-3, steps=20_000, **point
    )
    found: tuple[tuple[str, str, MechanismEvent], ...] = (
        (
            "dr_ensemble",
            "dirichlet, row change 0.2, prior 2",
            calibration.dirichlet(0.2, 0.0, offset=2.0, **point),
        ),
        (
            "off_policy_evaluation",
            "minibatch, 20,000 steps at 0.001, replaced",
            steps(relation="replace"),
        ),
        (
            "off_policy_evaluation",
            "minibatch, 20,000 steps at 0.001, added",
            steps(relation="add_remove"),
        ),
        (
            "off_policy_evaluation",
            "gradient, 2,000 steps of 2,000 trajectories",
            calibration.one_draw_gaussian(1.0, population=2_000, steps=2_000, **point),
        ),
        (
            "off_policy_evaluation",
            "dp_lsw of 7 states",
            calibration.smooth_sensitivity_gaussian(dimension=7, **point),
        ),
        ("multi_agent", "gaussian, 500 numbers", calibration.gaussian(1.0, dimension=500, **point)),
    )
    for kind, what, event in found:
        gaussian = event.mechanism == "gaussian"
        yield Job(
            kind,
            what,
            event.price() if gaussian else Price.approximate(EPSILON, DELTA),
            event.price(),
        )


def run() -> list[dict[str, Any]]:
    """One row a job and cap. `coupled_qp` has no price: nothing is released by a mechanism."""
    return [
        {
            "benchmark": f"jobs under ({cap.epsilon // EPSILON_UNIT}, 1e-5): {job.kind}, "
            f"{job.what}",
            "ours": fitting(job.after, cap),
            "unit": "jobs",
            "peer": "before",
            "peer_value": fitting(job.before, cap),
            "ratio": fitting(job.after, cap) / fitting(job.before, cap),
        }
        for cap in CAPS
        for job in jobs()
    ]
