"""Whether a dataset's people are in others too: what they lose then belongs on one account."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from discreet.errors import InvalidInput

Budget = Mapping[str, Any]


def others(budgets: Iterable[Budget], body: Mapping[str, Any], simulated: Collection[str] = ()) -> list[Budget]:
    """Accounts on which the people of a dataset that is to be registered may be already: those of data with its unit.
    None where it says whose it is, or is public. simulated: ids of public datasets."""
    public = body.get("public")
    unit = public.get("unit") if isinstance(public, Mapping) else None
    if body.get("account") or body.get("mode") == "simulation":
        return []
    found = (one for one in budgets if one["scope"] == "data" and one["unit"] == unit)
    return [one for one in found if any(dataset["id"] not in simulated for dataset in one["datasets"])]


def account_of(budgets: Iterable[Budget], given: str) -> str:
    """The account of a dataset that is given by id or name; of an erased one where no other is called so. InvalidInput
    where there is none of the name, or there are several."""
    named = [
        (one["id"], dataset["deleted"])
        for one in budgets
        for dataset in one["datasets"]
        if given in (dataset["id"], dataset["name"])
    ]
    found = {account for account, deleted in named if not deleted} or {account for account, _ in named}
    if len(found) == 1:
        return str(found.pop())
    if found:
        raise InvalidInput(f"datasets on {len(found)} accounts are called {given}: say which, by its id")
    raise InvalidInput(f"no dataset is called {given}")


def notes(known: Budget | None, others: Sequence[Budget], made: Mapping[str, Any]) -> list[str]:
    """What is to be known of the account of a dataset that was registered just now. known: that account, where it was
    there before; others: those of which its owner has not yet said that they are of other people."""
    if known is not None:
        names = [one["name"] for one in known["datasets"] if one["id"] != made["id"]]
        where = f"on the account of {', '.join(names)}" if names else "on the account that it had"
        return [f"{made['name']} is charged {where}: {_spent(known)}"]
    if not others:
        return []
    first = others[0]["datasets"][0]["id"]
    return [
        "Is anybody in it in another dataset too? Over several accounts losses add up, and no cap holds. There are:",
        *(f"  {described(one)}" for one in others),
        f"If so, before any job: discreet dataset delete {made['id']}; then add it with --same-people-as {first},"
        " or the like. If not: --other-people.",
    ]


def described(budget: Budget) -> str:
    """`visits_a, visits_b: epsilon 1 of 3 spent`."""
    return f"{', '.join(one['name'] for one in budget['datasets'])}: {_spent(budget)}"


def _spent(budget: Budget) -> str:
    spent = budget["spent"]["epsilon"] + budget["reserved"]["epsilon"]
    return f"epsilon {spent:.9g} of {budget['cap']['epsilon']:.9g} spent"
