"""How many more jobs of a price the blocks of a source let pass, and which of them end it: an
outlook for who plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.privacy import filters
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
        more = ", …" if len(names) > 3 else ""
        spent = f"{len(names)} blocks are spent ({', '.join(names[:3])}{more})"
    if jobs == 1:
        return f"after this job {spent}: another such job on these blocks would be refused"
    return f"{jobs} such jobs fit on these blocks, this one among them, until {spent}"
