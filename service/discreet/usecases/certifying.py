"""What the certificate of a job says besides its price: digests, assumptions, and the filters that
hold."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from discreet.ledger.certificates import ACCOUNTS_ASSUMPTION, FAILURE_ASSUMPTION, TIMING_ASSUMPTION
from discreet.privacy import filters
from discreet.privacy.units import Price
from discreet.storage import chains, ledger
from discreet.usecases.budgets import CAPS, cap_of
from discreet.usecases.claims import Claim


def digests_of(result: bytes, tables: Mapping[str, bytes]) -> tuple[str, dict[str, str]]:
    """SHA-256 of the result and of each table, hexadecimal."""
    return sha256(result).hexdigest(), {
        name: sha256(parquet).hexdigest() for name, parquet in tables.items()
    }


def release_assumptions(held: Claim) -> tuple[str, ...]:
    """The assumptions on which the price of a job rests; none if it releases nothing itself."""
    if held.firsts:  # it reuses what earlier jobs released
        return ()
    timing = TIMING_ASSUMPTION.format(quantum=held.plan.resources.release_quantum_seconds)
    return (
        (FAILURE_ASSUMPTION,)
        if held.simulation
        else (ACCOUNTS_ASSUMPTION, FAILURE_ASSUMPTION, timing)
    )


async def filters_passed(connection: Any, held: Claim) -> list[str]:
    """Filters that hold on every account of the data with this job's price counted; caps are left
    out, because they guarantee nothing more."""
    if held.simulation:
        return []
    accounts = await chains.charged_accounts(connection, held.job_id)
    if not accounts:
        return []
    balances = await ledger.balances(connection, accounts)
    return [
        one.name
        for one in filters.FILTERS
        if all(
            filters.holds(one, balance.totals, Price.zero(), cap_of(balance))
            for balance in balances.values()
            if balance.scope not in CAPS
        )
    ]
