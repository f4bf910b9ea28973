"""Names of the accounts of blocks that share a chain: chain, a dot, and the block's number."""

from __future__ import annotations

from collections.abc import Sequence


def chain_of(account_id: str) -> tuple[str, int | None]:
    """The account that holds an account's entries, and the number of the block that the account
    stands for."""
    chain, _, number = account_id.partition(".")
    return (chain, int(number)) if number.isascii() and number.isdecimal() else (account_id, None)


def named_together(accounts: Sequence[str]) -> list[str]:
    """Accounts in the form in which the database reserves on them: consecutive blocks are one
    name, `chain.1-30`. The database checks that each exists and is named once."""
    runs: list[list[str]] = []
    chain, number, following = "", None, None
    for account in accounts:
        if account == following:
            runs[-1][1] = account
        else:
            runs.append([account, account])
            chain, number = chain_of(account)
        if number is not None:
            number += 1
        following = None if number is None else f"{chain}.{number}"
    return [
        first if first == last else f"{first}-{last.rpartition('.')[2]}" for first, last in runs
    ]


def ranges(numbers: Sequence[int]) -> str:
    """A set of numbers as the text of a PostgreSQL multirange: `{[1,31),[40,41)}`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1])
    return "{" + ",".join(f"[{first},{end})" for first, end in runs) + "}"
