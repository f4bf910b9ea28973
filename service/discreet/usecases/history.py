"""What was charged to an account, and for what: the entries of its ledger, as people see them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import anyio.to_thread

from discreet.storage import ledger, ledger_entries
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.budgets import READERS, known_account
from discreet.usecases.services import Services

HISTORY_ENTRIES = 1000
"""How many of the newest entries are drawn one by one; those before are one sum."""


async def entries(
    services: Services, principal: Principal, account_id: str, *, after: int, size: int
) -> list[dict[str, Any]]:
    """Ledger entries of one account, in the order of their chain."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        await known_account(connection, principal, account_id, chain=True)
        rows = await ledger.entries(connection, account_id, after=after, size=size)
    return [entry(row) for row in rows]


async def search(
    services: Services,
    principal: Principal,
    *,
    account_id: str | None = None,
    kinds: Sequence[str] = (),
    job_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[datetime, str, int] | None = None,
    size: int,
) -> list[dict[str, Any]]:
    """Ledger entries of the tenant that match the filters, newest first, before the entry `after`
    (at, account, seq)."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        rows = await ledger_entries.search(
            connection,
            principal.tenant_id,
            account_id=account_id,
            kinds=kinds,
            job_id=job_id,
            since=since,
            until=until,
            after=after,
            size=size,
        )
    return [entry(row) for row in rows]


class Spending(NamedTuple):
    """What an account has spent. `earlier`: the sums of epsilon in 1e-9 and of delta in 1e-18.
    `lately`: the entries since then (at, seq, job, actor, kind, epsilon, delta), in the order of
    the chain."""

    earlier: tuple[int, int]
    lately: list[tuple[str, int, str | None, str, str, int, int]]


async def history(services: Services, principal: Principal, account_id: str) -> Spending:
    """The newest HISTORY_ENTRIES entries of an account; the sums before them follow from the
    account's balance."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id, snapshot=True) as connection:
        await known_account(connection, principal, account_id)
        rows = await ledger_entries.newest(connection, account_id, HISTORY_ENTRIES)
        totals = (await ledger.balances(connection, [account_id]))[account_id].totals

    def read() -> Spending:
        epsilon, delta = totals.get("epsilon", 0), totals.get("delta", 0)
        lately = []
        for row in reversed(rows):
            body = json.loads(row["body"])
            price = [int(body["price"].get(name, 0)) for name in ("epsilon", "delta")]
            sign = {"reserve": 1, "release": -1}.get(body["kind"], 0)
            epsilon, delta = epsilon - sign * price[0], delta - sign * price[1]
            about = (body["at"], body["seq"], body["job"], body["actor"] or "", body["kind"])
            lately.append((*about, *price))
        return Spending((epsilon, delta), lately)

    return await anyio.to_thread.run_sync(read)


def entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """A ledger entry as it is published: its hashed body, with the hashes."""
    body = json.loads(row["body"])
    return {
        **body,
        "hash": bytes(row["hash"]).hex(),
        "previous_hash": bytes(row["previous_hash"]).hex(),
    }
