"""The inverse of a plan: from a requested accuracy to the smallest epsilon that is expected to
reach it.

Only public figures are used, and what an earlier release said where that is asked:
`Problem.expected` of plans without advice. Few are made: about four where the expected width falls
as a power of epsilon, and never more than `MOST_PLANS`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.errors import InvalidInput
from discreet.privacy.units import EPSILON_UNIT
from discreet.problems.base import Problem
from discreet.problems.contents import Profile
from discreet.problems.numbers import MAX_EPSILON, Accuracy, Budget
from discreet.problems.plans import Plan
from discreet.problems.results import Expected
from discreet_client.intervals import percent

NEAR = 1.005
"""The epsilon that is found is at most so many times the smallest one, where the width falls as
epsilon grows."""
MOST_PLANS = 40
"""Every third one halves the bracket at least, in logarithms: it is narrow enough after 13 halves
at most."""
DIGITS = 4
"""Of the epsilon that is found: it is there to be read, and to be sent again."""
POINTER = "/privacy/accuracy"


@dataclass(frozen=True)
class Attempt:
    """A plan that was tried."""

    budget: Budget
    plan: Plan
    expected: Expected
    ratio: float
    """Of the expected half width to what was asked for: the accuracy is kept where it is at most
    1."""


def smallest(
    problem: Problem, public: Any, accuracy: Accuracy, delta: int, around: Profile | None = None
) -> Attempt:
    """The plan, without its advice, of the smallest epsilon that keeps the accuracy at this delta
    (in units); `around`: for data as an earlier release said that they are.

    InvalidInput if the kind predicts no such quantity, if a percentage is asked for though its
    size is not public, or if no epsilon reaches the accuracy.
    """
    low, high = 0, MAX_EPSILON * EPSILON_UNIT + 1
    kept: Attempt | None = None
    tried: list[Attempt] = []
    epsilon = EPSILON_UNIT
    for number in range(MOST_PLANS):
        found = _attempt(problem, public, accuracy, Budget(epsilon=epsilon, delta=delta), around)
        tried += [] if found is None else [found]
        if found is not None and found.ratio <= 1:
            kept, high = found, epsilon
        else:
            low = epsilon
        if high <= NEAR * low or high - low <= 1:
            break
        # A little above where the width is expected to be as asked, then a little below: so both
        # ends come near it.
        guess = _crossing(tried[-2:])
        epsilon = _rounded(guess * (1.002 if guess * 1.003 < high else 0.998))
        if number % 3 == 2 or not low < epsilon < high:
            epsilon = _rounded(math.sqrt(max(low, 0.5) * high))
    if kept is None:
        raise _unreachable(accuracy, tried)
    return kept


def _attempt(
    problem: Problem, public: Any, accuracy: Accuracy, budget: Budget, around: Profile | None
) -> Attempt | None:
    """None where the epsilon is too small for any plan."""
    try:
        plan = problem.draft(public, budget)
    except InvalidInput as refused:
        if any(one.pointer != "/privacy/epsilon" for one in refused.issues):
            raise
        return None
    known = problem.expected(public, plan, accuracy.confidence, around)
    if not known:
        why = problem.why_unpredictable(public) or "ask for an epsilon"
        says = (
            f"{problem.kind} cannot predict from public figures how accurate its answers will "
            f"be: {why}"
        )
        raise InvalidInput(says, pointer=POINTER)
    expected = next((one for one in known if accuracy.quantity in (None, one.quantity)), None)
    if expected is None:
        names = ", ".join(one.quantity for one in known)
        raise InvalidInput(
            f"must be a quantity that is predicted before a release: {names}",
            pointer=f"{POINTER}/quantity",
        )
    if expected.lacks:
        others = ", ".join(one.quantity for one in known if not one.lacks)
        says = (
            f"cannot predict {expected.quantity}: no public figure says {expected.lacks}. Or use "
            "--around JOB, an earlier release"
        )
        says += f"; or predict {others}, as a number (--quantity, --within)" if others else ""
        raise InvalidInput(says, pointer=f"{POINTER}/quantity")
    return Attempt(budget, plan, expected, expected.promised / _asked(accuracy, expected))


def _asked(accuracy: Accuracy, expected: Expected) -> float:
    """The requested half width, in the quantity's unit."""
    part = accuracy.part
    if part is None:
        return float(accuracy.within)
    if not expected.size:
        says = (
            f"the size of {expected.quantity} is not known without the data: give a number, "
            f"{expected.unit}, instead"
        )
        says += " of per cent, or ask around an earlier release (--around JOB)"
        raise InvalidInput(says, pointer=f"{POINTER}/within")
    return max(part * abs(expected.size), sys.float_info.min)


def _crossing(tried: Sequence[Attempt]) -> float:
    """Where the half width is as asked if it falls as a power of epsilon: the one through two
    attempts, else the first. 0 where that cannot be told."""
    known = [one for one in tried if 0 < one.ratio < math.inf]
    if not known:
        return 0.0
    power, last = 1.0, known[-1]
    if len(known) == 2 and (step := math.log(last.budget.epsilon / known[0].budget.epsilon)):
        power = -math.log(last.ratio / known[0].ratio) / step
    if power <= 0:
        return 0.0
    return last.budget.epsilon * math.exp(max(-40.0, min(40.0, math.log(last.ratio) / power)))


def _rounded(epsilon: float) -> int:
    """With `DIGITS` digits."""
    units = round(epsilon)
    return round(units, min(0, DIGITS - len(str(units))))


def _unreachable(accuracy: Accuracy, tried: Sequence[Attempt]) -> InvalidInput:
    asked = f"no epsilon up to {MAX_EPSILON} is expected to bring"
    within = f"within {accuracy.within} with {percent(accuracy.confidence)}"
    if not tried:
        return InvalidInput(f"{asked} the answer {within}", pointer=f"{POINTER}/within")
    missed = max(tried, key=lambda one: one.budget.epsilon)
    expected, at = missed.expected, missed.budget.epsilon / EPSILON_UNIT
    unit = "" if accuracy.part is not None else f" ({expected.unit})"
    says = f"{asked} {expected.quantity} {within}{unit}; with epsilon {at:.4g}: {expected.sentence}"
    return InvalidInput(says, pointer=f"{POINTER}/within")
