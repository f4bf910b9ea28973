"""Requests for a larger budget. Nothing here writes the ledger: a grant does."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.people_tables import BudgetRequest
from discreet.storage.rows import Row, lock_key, one_of


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
