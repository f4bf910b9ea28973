"""How far the noise of a release may have moved a demand response: draws of what may lie behind it, each finished."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.problems.accuracy import LEVEL, Interval, Uncertainty
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.dataset import Floats
from discreet.problems.dr_ensemble.estimates import Estimate

DRAWS, LEAST_DRAWS = 200, 50
MOST_NUMBERS = 10_000_000
"""Of all draws together: transitions, and states of all steps. Larger problems get fewer draws; from those that would
have less than `LEAST_DRAWS` none are made."""
STRETCH = (1.1, 0.5)
"""How much wider an interval is than its draws say: 1.1 and half of the share of the noise. Without it, counts of 0 to
.7 noise were covered .88 to .52 (loads) of the times, see `benchmarks/COVERAGE.md`; cells are not quite exchangeable."""
MOST_STEPS = 40_000
"""Of all draws together whose policies are not the exact ones, which are made one by one."""


def uncertainty(control: Control, estimate: Estimate, initial: Floats | None, answer: dict[str, Any]) -> Uncertainty:
    """Of the fields of `answer`: 5 and 95 % of the draws, made wider where they do not hold the answer.

    initial: float64[n], or None for that of the release. No intervals are given of an answer that is mostly noise, of
    one too large to be drawn often enough, and of a policy that is itself made of draws.
    """
    rows = estimate.noise_dominates()
    said = Uncertainty(
        level=LEVEL,
        values={},
        noise_dominates={"transitions": rows.tolist()},
        mostly_noise=estimate.mostly_noise,
    )
    draws = draws_of(control)
    drawn = estimate.draw(draws) if draws >= LEAST_DRAWS else None
    if drawn is None:
        return said
    matrices, visits = drawn
    found = {"transitions": matrices, **control.answers(matrices, visits if initial is None else initial)}
    stretch = STRETCH[0] + STRETCH[1] * estimate.share
    for name, values in found.items():
        said["values"][name] = _interval(values, np.asarray(answer[name]), stretch)
    return said


def draws_of(control: Control) -> int:
    """How many draws a problem of this size gets."""
    horizon, states = control.utility.shape
    draws: int = min(DRAWS, MOST_NUMBERS // (states * max(states, horizon)))
    if control.policy == "exact":
        return draws
    return 0 if control.samples else min(draws, MOST_STEPS // horizon)


def _interval(draws: Floats, answer: Floats, stretch: float) -> Interval:
    """Stretched about the median of the draws, within what any of them says and the answer."""
    tail = (1 - LEVEL) / 2
    least, lower, middle, upper, most = np.quantile(draws, (0, tail, 0.5, 1 - tail, 1), axis=0)
    lower = np.minimum(np.maximum(middle - stretch * (middle - lower), least), answer)
    upper = np.maximum(np.minimum(middle + stretch * (upper - middle), most), answer)
    return Interval(lower=lower.tolist(), upper=upper.tolist())
