"""Whether a dataset's people are in other datasets too: then their privacy loss belongs on one
account."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

Budget = Mapping[str, Any]


def others(
    budgets: Iterable[Budget], body: Mapping[str, Any], simulated: Collection[str] = ()
) -> list[Budget]:
    """The accounts that may already be those of the people in a dataset to be registered: accounts
    of data with its unit. None if the dataset names its account or is a simulation. `simulated`:
    ids of datasets for simulations, which do not count."""
    public = body.get("public")
    unit = public.get("unit") if isinstance(public, Mapping) else None
    if body.get("account") or body.get("mode") == "simulation":
        return []
    found = (one for one in budgets if one.get("scope") == "data" and one["unit"] == unit)
    return [
        one for one in found if any(dataset["id"] not in simulated for dataset in one["datasets"])
    ]


def account_of(budgets: Iterable[Budget], given: str) -> str:
    """The account of a dataset that is given by id or name; an erased one counts only if no other
    has the name. ValueError if no dataset has it, or datasets on several accounts."""
    named = [
        (one["id"], dataset["deleted"])
        for one in budgets
        for dataset in one["datasets"]
        if given in (dataset["id"], dataset["name"])
    ]
    found = {account for account, deleted in named if not deleted} or {
        account for account, _ in named
    }
    if len(found) == 1:
        return str(found.pop())
    if found:
        raise ValueError(
            f"datasets on {len(found)} accounts are called {given}: give the id of one"
        )
    raise ValueError(f"no dataset is called {given}")


def described(budget: Budget) -> str:
    """`visits_a, visits_b: epsilon 1 of 3 spent`."""
    return f"{', '.join(one['name'] for one in budget['datasets'])}: {spent(budget)}"


def spent(budget: Budget) -> str:
    """`epsilon 1 of 3 spent`, where reservations count as spent."""
    amount = budget["spent"]["epsilon"] + budget["reserved"]["epsilon"]
    return f"epsilon {amount:.9g} of {budget['cap']['epsilon']:.9g} spent"
