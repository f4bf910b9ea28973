"""Whether a request fits a dataset."""

from __future__ import annotations

from discreet.errors import FieldIssue
from discreet.problems.off_policy_evaluation.choice import name_of
from discreet.problems.off_policy_evaluation.features import initial_issues
from discreet.problems.off_policy_evaluation.methods import methods_named
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.problems.off_policy_evaluation.request import OffPolicyRequest

RELEASED = "released"


def issues_of(problem: OffPolicyRequest, public: OffPolicyPublic) -> list[FieldIssue]:
    """Of a `problem.OffPolicyEvaluation` on a dataset with this public part."""
    found = []
    fitted = not problem.weighs(public)
    if fitted and problem.tabular != (public.states is not None):
        says = (
            f"the dataset has {public.states} numbered states: use tabular"
            if public.states is not None
            else f"a state of the dataset has {public.features} coordinates: use fourier or "
            "identity"
        )
        found.append(FieldIssue("/problem/features/type", says))
    if fitted and problem.discount == 1:
        says = (
            "less than 1 with methods that fit a value function; only importance_sampling and "
            "per_decision take 1"
        )
        found.append(FieldIssue("/problem/discount", says))
    found += problem.fitted_features.issues(public) if fitted else []
    if problem.method != "auto":
        fits = methods_named(problem.method, problem.tabular)
        found += (fits or methods_named(problem.method, True))[0].issues(problem.asked(), public)
        if not fits:
            found.append(FieldIssue("/problem/method", f"{problem.method} needs tabular states"))
    if problem.max_importance is not None and not public.off_policy:
        found.append(
            FieldIssue(
                "/problem/max_importance",
                "the dataset is on-policy: there are no ratios to cap",
            )
        )
    if found:
        return found
    method = problem.method_for(public, name_of(problem, public))
    if method.needs_constant and method.features.constant() is None:
        found.append(
            FieldIssue(
                "/problem/method",
                f"{method.name} needs features for which some weights give the constant 1",
            )
        )
    for name in ("clip", "steps", "step_size", "sampling", "regularization", "return_bounds"):
        if getattr(problem, name) is not None and name not in method.takes:
            says = f"has no effect with the method {method.name} on this dataset"
            found.append(FieldIssue(f"/problem/{name}", says))
    if problem.initial is not None and not method.fitted:
        says = f"has no effect with the method {method.name}, which is about the people in the data"
        found.append(FieldIssue("/problem/initial", says))
    elif problem.initial == RELEASED:
        if not method.visits:
            says = (
                f"the method {method.name} does not release visits of states here: give a "
                f"distribution"
            )
            found.append(FieldIssue("/problem/initial", says))
    elif isinstance(problem.initial, tuple):
        found += initial_issues(problem.fitted_features, problem.initial, public)
    return found
