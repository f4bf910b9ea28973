"""Queries of ledger entries: the newest of an account, and those of a tenant that match
filters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select, true, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.ledger import about, chain_of
from discreet.storage.tables import Account, LedgerEntry


async def newest(connection: AsyncConnection, account_id: str, most: int) -> list[dict[str, Any]]:
    """Bodies of up to `most` entries of an account, newest first."""
    statement = select(LedgerEntry.body).where(*about(account_id))
    statement = statement.order_by(LedgerEntry.seq.desc()).limit(most)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def search(
    connection: AsyncConnection,
    tenant_id: str,
    *,
    account_id: str | None,
    kinds: Sequence[str],
    job_id: str | None,
    since: datetime | None,
    until: datetime | None,
    after: tuple[datetime, str, int] | None,
    size: int,
) -> list[dict[str, Any]]:
    """Entries of all accounts of a tenant (or of one), newest first, before the entry `after` (at,
    account, seq).

    Each account is read backwards in time. That is the reverse order of its chain unless the clock
    was set back; even then no entry is skipped.
    """
    wanted = [LedgerEntry.account_id == Account.id]
    if account_id is not None:
        wanted += about(account_id)
    if kinds:  # as literals, so that the partial index of rare kinds can be used
        chosen: Any = bindparam("kinds", list(kinds), expanding=True, literal_execute=True)
        wanted.append(LedgerEntry.kind.in_(chosen))
    if job_id is not None:
        wanted.append(LedgerEntry.job_id == job_id)
    if since is not None:
        wanted.append(LedgerEntry.at >= since)
    if until is not None:
        wanted.append(LedgerEntry.at < until)
    if after is not None:
        place = tuple_(LedgerEntry.at, LedgerEntry.account_id, LedgerEntry.seq)
        wanted += [place < tuple_(*after), LedgerEntry.at <= after[0]]
    backwards = LedgerEntry.at.desc(), LedgerEntry.seq.desc()
    newest = select(LedgerEntry).where(*wanted).order_by(*backwards).limit(size).lateral()
    statement = (
        select(
            newest.c.account_id,
            newest.c.seq,
            newest.c.at,
            newest.c.body,
            newest.c.hash,
            newest.c.previous_hash,
        )
        .select_from(Account)
        .join(newest, true())
        .where(Account.tenant_id == tenant_id)
        .order_by(newest.c.at.desc(), newest.c.account_id.desc(), newest.c.seq.desc())
        .limit(size)
    )
    if account_id is not None:
        statement = statement.where(Account.id == chain_of(account_id)[0])
    return [dict(row) for row in (await connection.execute(statement)).mappings()]
