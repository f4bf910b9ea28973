"""Which method `auto` is, from public figures, and why."""

from __future__ import annotations

from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.method import Method
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.problems.off_policy_evaluation.request import WEIGHING, OffPolicyRequest

FEW_STATES, FEW_FEATURES = 8, 10
"""`auto` takes moments up to so many: these have noise on d² numbers once, other methods on 2 d
numbers in each step."""


def name_of(problem: OffPolicyRequest, public: OffPolicyPublic) -> str:
    """The name of the method that answers a request; `auto` follows from public figures."""
    if problem.method != "auto":
        return str(problem.method)
    if problem.weighs(public):
        return WEIGHING
    if problem.tabular:
        # Where nothing says which transitions occur, noise on all n² of them outweighs what
        # occurs.
        few = public.topology is not None or (public.states or 0) <= FEW_STATES
    else:  # importance ratios make trajectories' statistics so large that clips cut most of them
        few = (
            not public.off_policy
            and problem.fitted_features.solver_form(public).dimension <= FEW_FEATURES
        )
    return "moments" if few else "minibatch"


def why_chosen(
    problem: OffPolicyRequest, public: OffPolicyPublic, method: Method, budget: Budget
) -> str:
    """Why `auto` stands for this method, and what the next best would do."""
    if method.name == WEIGHING:
        return (
            "method (auto) is importance_sampling, since the data have the probabilities of the "
            "actions: it tells what the target policy is worth for the people in the data. A "
            "value function is what `initial` or another method asks for"
        )
    name = "minibatch"
    if method.name == "moments":
        why = f"noise is on {method.numbers()} numbers once, and with minibatch in each step"
        if public.topology is not None:
            why = (
                f"the topology is public, so noise is on its {len(public.topology)} "
                "transitions only"
            )
    else:
        numbers = problem.method_for(public, "moments").numbers()
        why = f"moments would have noise on {numbers:,} numbers"
        why += "; with a public topology it would be the better one" if problem.tabular else ""
        name = (
            "constant"
            if public.continuing and method.features.constant() is not None
            else "moments"
        )
    told = problem.method_for(public, name).foretold(budget)
    return f"method (auto) is {method.name}, since {why}; the next best is {name}" + (
        f": {told}" if told else ""
    )
