"""What the commands say of a dataset whose people are in others too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from discreet.errors import InvalidInput
from discreet_client import people
from discreet_client.people import Budget


def account_of(budgets: Iterable[Budget], given: str) -> str:
    """The account of a dataset by its id or name. InvalidInput where there is none, or there are
    several."""
    try:
        return people.account_of(budgets, given)
    except ValueError as error:
        raise InvalidInput(str(error)) from None


def notes(known: Budget | None, others: Sequence[Budget], made: Mapping[str, Any]) -> list[str]:
    """What is to be known of the account of a dataset that was registered just now. known: that
    account, where it was there before; others: those of which its owner has not yet said that they
    are of other people."""
    if known is not None:
        names = [one["name"] for one in known["datasets"] if one["id"] != made["id"]]
        where = f"on the account of {', '.join(names)}" if names else "on the account that it had"
        return [f"{made['name']} is charged {where}: {people.spent(known)}"]
    if not others:
        return []
    first = others[0]["datasets"][0]["id"]
    return [
        "Is anybody in it in another dataset too? Over several accounts losses add up, and no "
        "single cap bounds them. There are:",
        *(f"  {people.described(one)}" for one in others),
        f"If so, then before any job: discreet dataset delete {made['id']}; then add it with "
        f"--same-people-as {first}, or the like. If not: --other-people.",
    ]


def undeclared(made: Mapping[str, Any]) -> list[str]:
    """What later questions may need, and is not declared of a dataset yet."""
    return [
        f"not declared: {name}, {buys}. While nothing was spent on it: discreet dataset correct "
        f"{made['id']} --set {name}=…"
        for name, buys in made.get("undeclared", {}).items()
    ]
