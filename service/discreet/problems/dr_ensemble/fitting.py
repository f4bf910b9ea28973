"""Whether a request fits a dataset's states."""

from __future__ import annotations

from discreet.errors import FieldIssue
from discreet.problems.columns import MAX_ISSUES
from discreet.problems.dr_ensemble import limits
from discreet.problems.dr_ensemble.matrix import SUM_TOLERANCE
from discreet.problems.dr_ensemble.public import MAX_FIGURE, DrEnsemblePublic
from discreet.problems.dr_ensemble.request import DrEnsembleRequest

MAX_POLICY_CELLS = 20_000_000


def issues(problem: DrEnsembleRequest, public: DrEnsemblePublic, method: str) -> list[FieldIssue]:
    """Of a `DrEnsemble` that the method is to answer."""
    n = public.states
    found = []
    if (problem.price is None) == (problem.utility is None):
        found.append(FieldIssue("/problem/price", "either price or utility is needed"))
    if problem.method not in ("auto", method):
        holds = "trajectories" if method == "counts" else "a transition matrix"
        found.append(
            FieldIssue("/problem/method", f"the dataset holds {holds}, which {method} is for")
        )
    if problem.power is None and public.edges is None:
        found.append(
            FieldIssue(
                "/problem/power", "needed, since the dataset declares no `edges` that would give it"
            )
        )
    given = {} if problem.power is None else {"power": problem.power}
    given |= {} if problem.initial == "released" else {"initial": problem.initial}
    for name, values in given.items():
        if len(values) != n:
            found.append(
                FieldIssue(
                    f"/problem/{name}", f"the dataset has {n} states; found {len(values)} numbers"
                )
            )
    for step, row in enumerate(problem.utility or ()):
        if len(row) != n and len(found) < MAX_ISSUES:
            found.append(
                FieldIssue(
                    f"/problem/utility/{step}", f"the dataset has {n} states; found {len(row)}"
                )
            )
    utility = tuple(figure for row in problem.utility or () for figure in row)
    for name, values in (
        ("power", problem.power or ()),
        ("price", problem.price or ()),
        ("utility", utility),
    ):
        if max(map(abs, values), default=0) > MAX_FIGURE:
            found.append(
                FieldIssue(
                    f"/problem/{name}", f"figures must not exceed {MAX_FIGURE:g} in absolute value"
                )
            )
    if abs((total := sum(given.get("initial", (1.0,)))) - 1) > SUM_TOLERANCE:
        found.append(FieldIssue("/problem/initial", f"must sum to 1; sums to {total:.12g}"))
    if method == "counts" and problem.policy != "exact" and problem.concentration is None:
        found.append(
            FieldIssue(
                "/problem/concentration", f"the {problem.policy} policy needs it; counts has no k"
            )
        )
    if problem.samples is not None and problem.policy != "average":
        found.append(FieldIssue("/problem/samples", "only for the average policy"))
    for name, stands, other in (
        ("clip", problem.clip is not None, "dirichlet"),
        ("prior", problem.prior > 0, "counts"),
    ):
        if stands and method == other:
            found.append(FieldIssue(f"/problem/{name}", f"has no effect with the method {method}"))
    if public.day is None and problem.first_step:
        found.append(
            FieldIssue("/problem/first_step", "has no effect here: the dataset declares no `day`")
        )
    if public.day is not None:
        if problem.first_step >= public.day.steps:
            says = f"a day of the dataset has the steps 0 to {public.day.steps - 1}"
            found.append(FieldIssue("/problem/first_step", says))
        if problem.policy != "exact":
            says = (
                "exact is needed where the dataset has a `day`: the other policies are of one "
                "matrix"
            )
            found.append(FieldIssue("/problem/policy", says))
    if problem.limits is not None:
        found += limits.issues(
            problem.limits, public, problem.horizon, problem.policy, "/problem/limits"
        )
    for place, (first, end) in enumerate(problem.event or ()):
        if not first < end <= problem.horizon:
            says = (
                f"[first, end] of a problem of {problem.horizon} steps: first is below end, end "
                "at most that"
            )
            found.append(FieldIssue(f"/problem/event/{place}", says))
    size = (problem.horizon - 1) * int(public.mask().sum())
    if size > MAX_POLICY_CELLS:
        says = (
            f"a policy of {size} transitions; at most {MAX_POLICY_CELLS}: fewer steps or a "
            "smaller support"
        )
        found.append(
            FieldIssue("/problem/price" if problem.utility is None else "/problem/utility", says)
        )
    return found
