"""From the privacy of a request, in figures or in other words, to a budget and the plan that
keeps it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from discreet.errors import FieldIssue, InvalidInput
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT
from discreet.problems import inverse
from discreet.problems.base import Problem
from discreet.problems.contents import Profile
from discreet.problems.federation import FederatedProblem
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.plans import Plan
from discreet.problems.results import LEVEL, Expected
from discreet_client.intervals import percent, plain

LITTLE, NONE = 5, 10
"""Epsilons: above the one there is hardly any protection, above the other none. Who is in doubt
before is 99.4 % sure afterwards with the one, and 99.996 % with the other."""
MOST_DECIMALS = 6


@dataclass(frozen=True)
class Budgeted:
    """A plan, the budget that it was made for, and whether the request gave that budget in other
    words."""

    plan: Plan
    budget: Budget
    in_other_words: bool = False

    @property
    def figures(self) -> dict[str, float]:
        """The budget as figures to send again; a delta that no mechanism needs is left out."""
        delta = self.budget.delta if self.plan.total.delta else 0
        return {"epsilon": self.budget.epsilon / EPSILON_UNIT, "delta": delta / DELTA_UNIT}

    def require_figures(self, privacy: Privacy | None) -> None:
        """InvalidInput if a job asks for an accuracy: what it spends must be in its request."""
        if privacy is not None and privacy.accuracy is not None:
            figures = ", ".join(f'"{name}": {value:g}' for name, value in self.figures.items())
            says = (
                "a job needs figures, and POST /v1/plans finds them for an accuracy: send "
                f"{{{figures}}}"
            )
            raise InvalidInput(says, pointer="/privacy/accuracy")


def budgeted(
    problem: Problem, public: Any, privacy: Privacy | None, around: Profile | None = None
) -> Budgeted:
    """The plan of what is asked for; its advice begins with what was chosen where that is said in
    other words, and with what it means where it protects nobody any more.

    Sees public figures only, and what an earlier release said of such data where an accuracy is
    asked for `around` it. InvalidInput with pointers into the request.
    """

    def make(budget: Budget) -> Plan:
        if isinstance(problem, FederatedProblem) and problem.terms is not None:
            return problem.plan_federation((), budget)
        return problem.plan_within(public, budget)

    if (
        privacy is not None
        and privacy.accuracy is not None
        and privacy.accuracy.around is not None
        and around is None
    ):
        raise InvalidInput(
            "only a server can look up what that job released", pointer="/privacy/accuracy/around"
        )
    budget = problem.budget(privacy)
    if privacy is None or privacy.in_figures:
        plan = make(budget)
        if (charged := plan.total.epsilon / EPSILON_UNIT) > LITTLE:
            plan = plan.model_copy(
                update={"advice": (_meaning(f"epsilon {charged:g}", plan), *plan.advice)}
            )
        return Budgeted(plan, budget)
    budget = problem.budget(privacy.settled(problem.units(public)))
    chosen: tuple[str, ...] = ()
    if privacy.accuracy is not None:
        found = inverse.smallest(problem, public, privacy.accuracy, budget.delta, around)
        budget = found.budget
        plan = make(budget)
        if around is not None:  # instead of what public figures alone would tell
            plan = _told_around(problem, public, plan, around)
        epsilon, expected = f"{budget.epsilon / EPSILON_UNIT:g}", found.expected
        chosen = (
            f"epsilon {epsilon} is about the smallest with which {expected.quantity} is expected "
            f"to be within ± {plain(expected.promised, 3)} with "
            f"{percent(privacy.accuracy.confidence)} ({expected.unit})"
            + (
                f", if the data are as {privacy.accuracy.around} released them"
                if around is not None
                else ""
            )
            + _spread(expected, budget, public_alone=around is None),
            _meaning(f"epsilon {epsilon}", plan),
        )
    else:
        plan = _renamed(make, budget, privacy)
        if privacy.preset is not None:
            chosen = (
                _meaning(f"{privacy.preset} is epsilon {budget.epsilon / EPSILON_UNIT:g}", plan),
            )
    if privacy.delta is None:
        chosen += (_delta(problem, public, plan, budget),)
    return Budgeted(
        plan.model_copy(update={"advice": (*chosen, *plan.advice)}), budget, in_other_words=True
    )


def _told_around(problem: Problem, public: Any, plan: Plan, around: Profile) -> Plan:
    """The plan with advice at a profile in place of that at public figures."""
    before = {problem.model, *(one.sentence for one in problem.expected(public, plan, LEVEL))}
    told = tuple(one.sentence for one in problem.expected(public, plan, LEVEL, around))
    rest = tuple(one for one in plan.advice if one not in before)
    return plan.model_copy(update={"advice": (*told, *rest)})


def _spread(expected: Expected, budget: Budget, *, public_alone: bool) -> str:
    """How far from the smallest the epsilon may be, as simulations showed."""
    if expected.took is None:
        return ""
    low, high = (plain(budget.epsilon / EPSILON_UNIT * part, 2) for part in expected.took)
    more = (
        ": public figures do not say how your data are distributed; a rehearsal, or a plan around "
        "an earlier release, tells more"
    )
    return (
        f". Eight of ten simulated data needed between {low} and "
        f"{high}{more if public_alone else ''}"
    )


def _renamed(make: Any, budget: Budget, privacy: Privacy) -> Plan:
    """The plan; an error about a figure names the word that was given instead."""
    words = {"epsilon": "preset"} if privacy.preset is not None else {}
    if privacy.preset is not None and "delta" not in privacy.model_fields_set:
        words["delta"] = "preset"
    try:
        plan: Plan = make(budget)
    except InvalidInput as refused:
        pointers = {f"/privacy/{figure}": f"/privacy/{word}" for figure, word in words.items()}
        raise InvalidInput(
            FieldIssue(pointers.get(one.pointer, one.pointer), one.detail) for one in refused.issues
        ) from None
    return plan


def _meaning(what: str, plan: Plan) -> str:
    """What an epsilon means for one unit: the posterior of who finds both neighbours equally likely
    before."""
    epsilon = plan.total.epsilon / EPSILON_UNIT
    protects = ""
    if epsilon > LITTLE:
        protects = " is hardly any protection" if epsilon <= NONE else " is no protection any more"
    doubt = 100 / (1 + math.exp(min(700.0, epsilon)))
    decimals = max(1, 1 - math.floor(math.log10(doubt)))
    doubt = math.floor(doubt * 10**decimals) / 10**decimals
    says = f"is at most {100 - doubt:.{decimals}f} % sure afterwards"
    if decimals > MOST_DECIMALS:
        says = "may be all but sure afterwards"
    delta = plan.total.delta / DELTA_UNIT
    but = f", but for a probability of {delta:g}" if delta else ""
    return (
        f"{what}{protects}: whoever finds the data and their neighbours ({plan.neighbours}) "
        f"equally likely before {says} which of both they are{but}"
    )


def _delta(problem: Problem, public: Any, plan: Plan, budget: Budget) -> str:
    """Which delta was chosen, and why."""
    if not plan.total.delta:
        return "no delta is needed, so none is spent"
    units, delta = problem.units(public), f"{budget.delta / DELTA_UNIT:g}"
    if units is None:
        return (
            f"delta {delta} was chosen, small enough for a million: no public figure says how "
            f"many there are"
        )
    return (
        f"delta {delta} was chosen: a power of ten of at most 1e-6, and of at most 1 / (1,000 x "
        f"{units:,} units)"
    )
