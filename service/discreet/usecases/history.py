"""What was charged to an account, and for what: the entries of its ledger, for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import anyio.to_thread

from discreet.storage import ledger
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.budgets import READERS, known_account
from discreet.usecases.services import Services

HISTORY_ENTRIES = 20_000
"""More entries than this are not drawn; the export has them all."""
HISTORY_PAGE = 1000


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
    """Ledger entries of the tenant, newest first, before `after` (at, account, seq), as far as they
    fit the filters."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        rows = await ledger.search(
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


async def history(
    services: Services, principal: Principal, account_id: str
) -> list[tuple[str, int, str | None, str, str, int, int]] | None:
    """What happened on an account: at, seq, job, actor, kind, epsilon in 1e-9, delta in 1e-18. None
    above HISTORY_ENTRIES entries."""
    require(principal, *READERS)
    rows: list[dict[str, Any]] = []
    async with services.database.transaction(principal.tenant_id) as connection:
        await known_account(connection, principal, account_id)
        while len(rows) <= HISTORY_ENTRIES:
            page = await ledger.entries(connection, account_id, after=len(rows), size=HISTORY_PAGE)
            rows += page
            if len(page) < HISTORY_PAGE:
                break
    if len(rows) > HISTORY_ENTRIES:
        return None

    def read() -> list[tuple[str, int, str | None, str, str, int, int]]:
        bodies = [json.loads(row["body"]) for row in rows]
        return [
            (
                body["at"],
                body["seq"],
                body["job"],
                body["actor"] or "",
                body["kind"],
                int(body["price"].get("epsilon", 0)),
                int(body["price"].get("delta", 0)),
            )
            for body in bodies
        ]

    return await anyio.to_thread.run_sync(read)


def entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """A ledger entry as it is published: its hashed body, with the hashes."""
    body = json.loads(row["body"])
    return {
        **body,
        "hash": bytes(row["hash"]).hex(),
        "previous_hash": bytes(row["previous_hash"]).hex(),
    }
