"""The ledger, as the application sees it: it reads rows and calls the functions that write them.

The rules stand in `migrations/current/02_ledger.sql` and hold against the application itself: its
role may execute those functions and cannot INSERT, UPDATE or DELETE an account or an entry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rfc8785
from sqlalchemy import ColumnElement, Integer, bindparam, cast, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Text

from discreet.storage.database import Database, Row, lock_key, one_of
from discreet.storage.people_tables import BudgetRequest
from discreet.storage.tables import Account, BlockSums, LedgerEntry

Amounts = Mapping[str, str]
"""Integers in decimal strings by name of the price column."""


@dataclass(frozen=True)
class AccountBalance:
    """The balance of one account, from its last entry."""

    account_id: str
    scope: str
    subject: str
    totals: dict[str, int]
    reserved: dict[str, int]
    cap: dict[str, int]
    admitted: bool = True


@dataclass(frozen=True)
class BudgetRow:
    """An account, its last entry and its datasets as PostgreSQL writes them: equal rows are equal
    budgets."""

    id: str
    scope: str
    subject: str
    unit: str
    totals: str
    reserved: str
    cap: str
    datasets: str
    """JSON: `[{id, name, deleted}]` in the order of registration."""

    @property
    def balance(self) -> AccountBalance:
        amounts = {name: json.loads(getattr(self, name)) for name in ("totals", "reserved", "cap")}
        return account_balance(
            {"account_id": self.id, "scope": self.scope, "subject": self.subject, **amounts}
        )


@dataclass(frozen=True)
class Settlement:
    """An entry that ended a reservation."""

    account_id: str
    seq: int
    kind: str
    hash: bytes
    blocks: list[list[int]] | None = None
    """First and last of each run of blocks that it is about, in the chain of a source."""

    @property
    def place(self) -> dict[str, Any]:
        """The entry as a certificate names it."""
        about = {} if self.blocks is None else {"blocks": self.blocks}
        return {"account": self.account_id, "seq": self.seq, "hash": self.hash.hex(), **about}


async def open_account(
    connection: AsyncConnection,
    account_id: str,
    *,
    tenant_id: str,
    scope: str,
    subject: str,
    unit: str,
    cap: Amounts,
    filters: Mapping[str, Amounts],
    actor: str,
    reason: str | None = None,
) -> None:
    await connection.execute(
        _OPEN,
        {
            "account": account_id,
            "tenant": tenant_id,
            "scope": scope,
            "subject": subject,
            "unit": unit,
            "cap": dict(cap),
            "filters": dict(filters),
            "actor": actor,
            "reason": reason,
        },
    )


async def grant(
    connection: AsyncConnection,
    account_id: str,
    *,
    cap: Amounts,
    filters: Mapping[str, Amounts],
    actor: str,
    reason: str,
) -> bool:
    """Set a cap. False, and nothing written, if what is spent or reserved would exceed the new
    cap."""
    values = {
        "account": account_id,
        "cap": dict(cap),
        "filters": dict(filters),
        "actor": actor,
        "reason": reason,
    }
    return bool((await connection.execute(_GRANT, values)).scalar_one())


async def reserve(
    connection: AsyncConnection,
    job_id: str,
    account_ids: Sequence[str],
    *,
    price: Amounts,
    events: Sequence[Mapping[str, Any]],
    actor: str,
) -> list[AccountBalance]:
    """How each account stood before. When all are admitted each has its entry (blocks share one,
    and are left out here); when one is not, nothing was written."""
    values = {
        "job": job_id,
        "accounts": named_together(account_ids),
        "price": dict(price),
        "events": rfc8785.dumps(list(events)).decode(),
        "actor": actor,
    }
    return [account_balance(row) for row in (await connection.execute(_RESERVE, values)).mappings()]


async def touch(connection: AsyncConnection, job_id: str, actor: str) -> None:
    """Write `data_touched` on every account of the job, once: from here on it is charged in
    full."""
    await connection.execute(_TOUCH, {"job": job_id, "actor": actor})


async def settle(connection: AsyncConnection, job_id: str, actor: str) -> list[Settlement]:
    """Commit the job's reservations if it touched data, release them otherwise; returns the
    entries written, none if all was settled already."""
    rows = (await connection.execute(_SETTLE, {"job": job_id, "actor": actor})).all()
    return [Settlement(row[0], row[1], row[2], bytes(row[3]), row[4]) for row in rows]


async def balances(
    connection: AsyncConnection, account_ids: Sequence[str]
) -> dict[str, AccountBalance]:
    """The state of accounts, without a lock: what their last entries say, or the sums of blocks."""
    last = (
        select(LedgerEntry)
        .where(LedgerEntry.account_id == Account.id)
        .order_by(LedgerEntry.seq.desc())
        .limit(1)
        .lateral()
    )
    of_block = BlockSums.account_id == Account.id
    statement = (
        select(
            Account.id.label("account_id"),
            Account.scope,
            Account.subject,
            func.coalesce(BlockSums.totals(), last.c.totals).label("totals"),
            func.coalesce(BlockSums.reserved(), last.c.reserved).label("reserved"),
            func.coalesce(BlockSums.cap, last.c.cap).label("cap"),
        )
        .outerjoin(BlockSums.view, of_block)
        .outerjoin(last, BlockSums.account_id.is_(None))
        .where(Account.id.in_(list(account_ids)), Account.scope != "source")
    )
    return {
        row["account_id"]: account_balance(row)
        for row in (await connection.execute(statement)).mappings()
    }


async def budget_rows(
    database: Database, tenant_id: str, account_id: str | None = None
) -> list[BudgetRow]:
    """All accounts of a tenant in the order they were opened, or one; one statement, hence one
    round trip."""
    rows = await database.ask(_READ_BUDGETS, {"tenant": tenant_id, "account": account_id})
    return [BudgetRow(**row) for row in rows]


async def caps(connection: AsyncConnection, tenant_id: str, principal: str) -> list[str]:
    """The accounts of the caps that stand on the tenant and on the principal."""
    return list(
        (
            await connection.execute(_CAPS, {"tenant": tenant_id, "principal": principal})
        ).scalar_one()
    )


async def lock_caps(connection: AsyncConnection, tenant_id: str) -> None:
    """Lock out other changes of the tenant's caps until this transaction ends."""
    await lock_key(connection, f"caps/{tenant_id}")


async def accounts(
    connection: AsyncConnection,
    tenant_id: str,
    *,
    scope: str | None = None,
    subject: str | None = None,
    account_id: str | None = None,
) -> list[dict[str, Any]]:
    """Accounts of a tenant in the order they were opened."""
    statement = (
        select(Account)
        .where(Account.tenant_id == tenant_id)
        .order_by(Account.created_at, Account.id)
    )
    if scope is not None:
        statement = statement.where(Account.scope == scope)
    if subject is not None:
        statement = statement.where(Account.subject == subject)
    if account_id is not None:
        statement = statement.where(Account.id == account_id)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


def about(account_id: str) -> list[ColumnElement[bool]]:
    """Which entries are about an account; of a block those of its chain that name it."""
    chain, number = chain_of(account_id)
    about = [LedgerEntry.account_id == chain]
    if number is not None:
        about.append(LedgerEntry.blocks.op("@>")(cast(min(number, 2**31 - 1), Integer)))
    return about


async def entries(
    connection: AsyncConnection, account_id: str, *, after: int, size: int
) -> list[dict[str, Any]]:
    """Entries of one account in the order of their chain; of a block those that are about it."""
    columns = (LedgerEntry.seq, LedgerEntry.body, LedgerEntry.hash, LedgerEntry.previous_hash)
    statement = (
        select(*columns)
        .where(*about(account_id), LedgerEntry.seq > after)
        .order_by(LedgerEntry.seq)
        .limit(size)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def reservation(connection: AsyncConnection, job_id: str) -> list[dict[str, Any]]:
    """Every entry that names the job."""
    columns = (LedgerEntry.account_id, LedgerEntry.seq, LedgerEntry.kind, LedgerEntry.hash)
    statement = (
        select(*columns)
        .where(LedgerEntry.job_id == job_id)
        .order_by(LedgerEntry.account_id, LedgerEntry.seq)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def heads(connection: AsyncConnection, tenant_id: str) -> list[tuple[str, int, bytes]]:
    """Account, sequence number and hash of the last entry of each account of a tenant, sorted by
    account."""
    last = (
        select(LedgerEntry.seq, LedgerEntry.hash)
        .where(LedgerEntry.account_id == Account.id)
        .order_by(LedgerEntry.seq.desc())
        .limit(1)
        .lateral()
    )
    statement = select(Account.id, last.c.seq, last.c.hash).where(Account.tenant_id == tenant_id)
    return sorted((row[0], row[1], bytes(row[2])) for row in await connection.execute(statement))


async def of_job(connection: AsyncConnection, job_id: str) -> list[dict[str, Any]]:
    """Body and hash of every entry that names the job."""
    statement = (
        select(LedgerEntry.body, LedgerEntry.hash)
        .where(LedgerEntry.job_id == job_id)
        .order_by(LedgerEntry.account_id, LedgerEntry.seq)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


def account_balance(row: Any) -> AccountBalance:
    """The balance of a row, or from the JSON of one."""
    amounts = {
        name: {key: int(value) for key, value in row[name].items()}
        for name in ("totals", "reserved", "cap")
    }
    return AccountBalance(
        row["account_id"],
        row["scope"],
        row["subject"],
        **amounts,
        admitted=bool(row.get("admitted", True)),
    )


_OPEN = text(
    "SELECT ledger_open(:account, :tenant, :scope, :subject, :unit, :cap, :filters, :actor, "
    ":reason)"
).bindparams(bindparam("cap", type_=JSONB), bindparam("filters", type_=JSONB))
_GRANT = text("SELECT ledger_grant(:account, :cap, :filters, :actor, :reason)").bindparams(
    bindparam("cap", type_=JSONB), bindparam("filters", type_=JSONB)
)
_RESERVE = text(
    "SELECT * FROM ledger_reserve(:job, :accounts, :price, :events, :actor)"
).bindparams(bindparam("accounts", type_=ARRAY(Text)), bindparam("price", type_=JSONB))
_READ_BUDGETS = text("SELECT * FROM read_budgets(:tenant, :account)").bindparams(
    bindparam("account", type_=Text)
)
_CAPS = text("SELECT ledger_caps(:tenant, :principal)")
_TOUCH = text("SELECT ledger_touch(:job, :actor)")
_SETTLE = text(
    """
    SELECT s.account_id, s.seq, s.kind, s.hash,
      (SELECT CAST(e.body AS jsonb) -> 'blocks' FROM ledger_entries AS e
       WHERE e.job_id = :job AND e.account_id = s.account_id AND e.kind = 'reserve')
    FROM ledger_settle(:job, :actor) AS s
    """
)


# Block names --------------------------------------------------------------------------------------
# Names of the accounts of blocks that share a chain: chain, a dot, and the block's number.


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


# Budget requests ----------------------------------------------------------------------------------
# Requests for a larger budget. Nothing here writes the ledger: a grant does.


async def lock_principal(connection: AsyncConnection, tenant_id: str, principal: str) -> None:
    """Lock out other requests of the principal until this transaction ends, so that the open ones
    can be counted."""
    await lock_key(connection, f"budget_requests/{tenant_id}/{principal}")


async def count_open(connection: AsyncConnection, tenant_id: str, principal: str) -> int:
    statement = select(func.count()).where(
        BudgetRequest.tenant_id == tenant_id,
        BudgetRequest.principal == principal,
        BudgetRequest.state == "open",
    )
    return int((await connection.execute(statement)).scalar_one())


async def add(connection: AsyncConnection, **values: Any) -> Row:
    row = (
        (await connection.execute(insert(BudgetRequest).values(**values).returning(BudgetRequest)))
        .mappings()
        .one()
    )
    return dict(row)


async def newest(
    connection: AsyncConnection, tenant_id: str, account_id: str, size: int
) -> list[Row]:
    """Requests on an account, newest first."""
    statement = (
        select(*BudgetRequest.__table__.columns)
        .where(BudgetRequest.tenant_id == tenant_id, BudgetRequest.account_id == account_id)
        .order_by(BudgetRequest.created_at.desc(), BudgetRequest.id.desc())
        .limit(size)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def all_open(connection: AsyncConnection, tenant_id: str, size: int) -> list[Row]:
    """Requests of the tenant that nobody has answered, oldest first."""
    statement = (
        select(*BudgetRequest.__table__.columns)
        .where(BudgetRequest.tenant_id == tenant_id, BudgetRequest.state == "open")
        .order_by(BudgetRequest.created_at, BudgetRequest.id)
        .limit(size)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def lock(
    connection: AsyncConnection, tenant_id: str, account_id: str, request_id: str
) -> Row | None:
    """The request, locked until this transaction ends, so that it is answered only once."""
    statement = (
        select(*BudgetRequest.__table__.columns)
        .where(
            BudgetRequest.id == request_id,
            BudgetRequest.tenant_id == tenant_id,
            BudgetRequest.account_id == account_id,
        )
        .with_for_update()
    )
    return one_of(await connection.execute(statement))


async def answer(
    connection: AsyncConnection, request_id: str, state: str, *, owner: str, says: str
) -> Row:
    """Grant or decline a request that this transaction has locked."""
    statement = (
        update(BudgetRequest)
        .where(BudgetRequest.id == request_id)
        .values(state=state, answered_by=owner, answer=says, answered_at=func.now())
        .returning(BudgetRequest)
    )
    return dict((await connection.execute(statement)).mappings().one())


# Chains -------------------------------------------------------------------------------------------
# Sources whose blocks share one chain of entries: the balance of each block is kept as sums beside
# it.
#
# The account of a block is named after the chain and the block's number there, with a dot between,
# and has no entries of its own. Rules and sums stand in `migrations/current/02_ledger.sql`.


async def open_chain(
    connection: AsyncConnection, account_id: str, *, tenant_id: str, unit: str
) -> None:
    """The chain of a source; its first entry opens its first block."""
    await connection.execute(
        _OPEN_chains, {"account": account_id, "tenant": tenant_id, "unit": unit}
    )


async def open_block(
    connection: AsyncConnection,
    chain_id: str,
    *,
    cap: Amounts,
    filters: Mapping[str, Amounts],
    actor: str,
    reason: str,
) -> str:
    """The next block of a chain: its account."""
    values = {
        "chain": chain_id,
        "cap": dict(cap),
        "filters": dict(filters),
        "actor": actor,
        "reason": reason,
    }
    return str((await connection.execute(_OPEN_BLOCK, values)).scalar_one())


async def charged_accounts(connection: AsyncConnection, job_id: str) -> list[str]:
    """The accounts on which a job has reserved, each block by itself."""
    return list((await connection.execute(_CHARGED, {"job": job_id})).scalars())


async def sums(
    connection: AsyncConnection, chain_id: str
) -> dict[int, tuple[dict[str, str], dict[str, str], dict[str, str]]]:
    """Totals, reserved amounts and cap of each block of a chain, by its number."""
    columns = (BlockSums.number, BlockSums.totals(), BlockSums.reserved(), BlockSums.cap)
    rows = await connection.execute(select(*columns).where(BlockSums.chain_id == chain_id))
    return {number: (totals, reserved, cap) for number, totals, reserved, cap in rows}


_OPEN_chains = text("SELECT ledger_open_chain(:account, :tenant, :unit)")
_OPEN_BLOCK = text("SELECT ledger_open_block(:chain, :cap, :filters, :actor, :reason)").bindparams(
    bindparam("cap", type_=JSONB), bindparam("filters", type_=JSONB)
)
_CHARGED = text(
    """
    SELECT coalesce(b.account_id, e.account_id) FROM ledger_entries AS e
    LEFT JOIN LATERAL unnest(e.blocks) AS r ON true
    LEFT JOIN block_sums AS b
      ON b.chain_id = e.account_id AND b.number >= lower(r) AND b.number < upper(r)
    WHERE e.job_id = :job AND e.kind = 'reserve' ORDER BY 1
    """
).bindparams(bindparam("job", type_=Text))
