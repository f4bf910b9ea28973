"""How many more jobs of a price the blocks of a source let pass, and which of them end it: an
outlook shown with a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.privacy import filters
from discreet.privacy.filters import FILTERS
from discreet.privacy.units import Price
from discreet.storage.ledger import AccountBalance
from discreet.usecases.budgets import cap_of

MOST_JOBS = 1000
"""Up to which jobs are counted: who has more left needs no warning."""
MOST_NAMED = 20


def passing(account: AccountBalance, price: Price, most: int = MOST_JOBS) -> int:
    """How many jobs of this price one after the other the account admits, up to `most`.

    A filter that holds after k of them has held after each one before, so the largest k is found by
    halving.
    """
    low, high, cap = 0, most, cap_of(account)
    while low < high:
        middle = (low + high + 1) // 2
        times = Price(**{name: middle * units for name, units in price.columns().items()})
        if filters.admits(account.totals, times, cap):
            low = middle
        else:
            high = middle - 1
    return low


def ends_zcdp(
    balances: Sequence[AccountBalance], price: Price, blocks: Mapping[str, tuple[str, str]]
) -> str | None:
    """What a plan says of a job that basic composition alone lets pass, on data whose zCDP filter
    holds until then: many small jobs with Gaussian noise would fit under that one, and none do
    after it. None where it ends no such filter."""
    zcdp = next(one for one in FILTERS if one.name == "zcdp")
    ended = [
        one.account_id
        for one in balances
        if one.scope == "data"
        and filters.holds(zcdp, one.totals, Price.zero(), cap_of(one))
        and not filters.holds(zcdp, one.totals, price, cap_of(one))
    ]
    if not ended:
        return None
    names = sorted(blocks[account][1] for account in ended if account in blocks)
    where = f" of {_listed(names)}" if names else ""
    return (
        f"This job ends the zCDP filter{where}: only basic composition lets it pass, and every "
        "later job adds its epsilon in full. Several smaller jobs, or noise that zCDP prices, "
        "would leave room for more"
    )


def until_spent(
    balances: Sequence[AccountBalance], price: Price, blocks: Mapping[str, tuple[str, str]]
) -> dict[str, Any] | None:
    """How many jobs such as this one its blocks let pass in all, and which of them are spent then:
    the first to be.

    `blocks`: the source's and the block's name of each account that is one block's. None where
    nothing is charged to the data of a source, where none passes, and where more than MOST_JOBS do.
    """
    jobs = {one.account_id: passing(one, price) for one in balances if one.scope == "data"}
    fewest = min(jobs.values(), default=0)
    if not 0 < fewest < MOST_JOBS:
        return None
    ending = sorted(account for account, number in jobs.items() if number == fewest)
    names = sorted(blocks[account][1] for account in ending if account in blocks)
    return {
        "jobs": fewest,
        "number": len(ending),
        "blocks": names[:MOST_NAMED],
        "sentence": _sentence(fewest, names),
    }


def _sentence(jobs: int, names: Sequence[str]) -> str:
    if not names:
        spent = "the budget of the source is spent"
    elif len(names) == 1:
        spent = f"block {names[0]} is spent"
    else:
        spent = f"{_listed(names)} are spent"
    if jobs == 1:
        return f"after this job {spent}: another such job on these blocks would be refused"
    return f"{jobs} such jobs fit on these blocks, this one among them, until {spent}"


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"block {names[0]}"
    more = ", …" if len(names) > 3 else ""
    return f"{len(names)} blocks ({', '.join(names[:3])}{more})"
