"""How far the noise may have moved the values of the constraints, and how far it is expected to,
from public figures.

The mean of a constraint's noised values is the mean of its values at the actual states, plus the
mean of independent noise: this is exact. Multipliers and states are different: they respond to the
noise of every step through objectives that only the agents know, so no interval of them follows
from what was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.problems.multi_agent.dataset import read
from discreet.problems.multi_agent.masked import largest_noise
from discreet.problems.plans import Plan
from discreet.problems.results import LEVEL, NOISE, Expected, Interval, Uncertainty
from discreet.solvers.saddle import intervals
from discreet_client.intervals import percent, plain

Floats = NDArray[np.float64]


def uncertainty_of(constraints: Sequence[str], plan: Plan, values: Floats) -> Uncertainty:
    """The field `uncertainty`; values: float64[constraints], `noisy_values`.

    The possible values of a constraint on the public ranges cut its interval off. If the noise is
    as wide as these, the value is mostly noise; the answer is mostly noise if all noised values
    are.
    """
    reach, (low, high) = _reach(constraints, plan, LEVEL), _ranges(constraints, plan)
    lower = np.minimum(np.maximum(values - reach, low), values)
    upper = np.maximum(np.minimum(values + reach, high), values)
    noise = (2 * reach >= high - low) & (reach > 0)
    return Uncertainty(
        level=LEVEL,
        values={"noisy_values": Interval(lower=lower.tolist(), upper=upper.tolist())},
        kinds={"noisy_values": NOISE},
        noise_dominates={"noisy_values": noise.tolist()},
        mostly_noise=bool(noise[reach > 0].all()),
    )


def expected_values(constraints: Sequence[str], plan: Plan, confidence: float) -> Expected:
    """The expectation for the constraint whose values have the most noise relative to their
    possible range."""
    reach, (low, high) = _reach(constraints, plan, confidence), _ranges(constraints, plan)
    parts = 2 * reach / np.maximum(high - low, np.finfo(float).tiny)
    k = int(np.argmax(parts))
    size = float(high[k] - low[k]) if np.isfinite(high[k] - low[k]) else None
    says = (
        f"the mean value of constraints[{k}] within ± {plain(reach[k])} with {percent(confidence)}"
    )
    if size is not None:
        says += f", where the agents' ranges allow {plain(low[k])} to {plain(high[k])}"
    if parts[k] >= 1:
        says += ": mostly noise"
    elif len(parts) > 1:
        says += "; the other constraints have less noise beside their ranges"
    within = float(reach[k]) if parts[k] < 1 else math.inf
    return Expected("noisy_values", within, "in the constraint's own unit", says, size)


def _reach(constraints: Sequence[str], plan: Plan, level: float) -> Floats:
    """The half width of the noise of the mean of each constraint's value over the second half of
    the steps."""
    (event,) = plan.events
    steps = plan.iterations["steps"]
    deviation = event.deviation() * largest_noise(plan)
    deviations = deviation * np.array(plan.parameters["units"][: len(constraints)])
    reach: Floats = float(ndtri((1 + level) / 2)) * deviations / math.sqrt(steps - steps // 2)
    return reach


def _ranges(constraints: Sequence[str], plan: Plan) -> tuple[Floats, Floats]:
    """Bounds of each constraint on the agents' ranges; infinite if they cannot be determined."""
    box: dict[str, Any] = {
        name: intervals.Interval(np.array([low]), np.array([high]))
        for name, low, high in plan.parameters["box"]
    }
    found = [intervals.bounds(read(text, list(box)), box) for text in constraints]
    return np.array([float(one.low[0]) for one in found]), np.array(
        [float(one.high[0]) for one in found]
    )
