"""Requests for a larger budget: whoever may not grant asks, and an owner grants or declines.

A request is a sentence with an amount. It reserves nothing and changes no ledger; what answers it
with more is a grant as any other (`budgets.grant`), whose reason names who asked, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import Conflict, Forbidden, NotFound
from discreet.privacy.filters import Cap
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, to_decimal
from discreet.storage import audit_log, ledger
from discreet.storage.identifiers import new_id
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.services import Services

log = structlog.get_logger()

ASKERS = ("owner", "analyst")
READERS = ("owner", "analyst", "auditor")
AGENT = "agent"
"""Scope of the account of an agent of federated jobs, whose cap is what the agent announces."""
AGENTS_OWN = (
    "only the agent can raise these limits, when it enrols: discreet-agent --limit-epsilon E "
    "--limit-delta D"
)
MOST_OPEN = 3
"""Of one principal: who has so many waits for an answer before asking again."""
SHOWN = 100


async def ask(
    services: Services, principal: Principal, account_id: str, more: Cap, reason: str
) -> dict[str, Any]:
    """Ask for `more` on an account. Conflict when this principal has MOST_OPEN open requests
    already; Forbidden on an agent's account, whose cap no owner can raise."""
    require(principal, *ASKERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        if await _scope(connection, principal, account_id) == AGENT:
            raise Forbidden(AGENTS_OWN)
        await ledger.lock_principal(connection, principal.tenant_id, principal.name)
        if await ledger.count_open(connection, principal.tenant_id, principal.name) >= MOST_OPEN:
            says = (
                f"{MOST_OPEN} of your requests wait for an owner’s answer; send another one after "
                "that"
            )
            raise Conflict(says, code="too_many_open_requests")
        row = await ledger.add(
            connection,
            id=new_id("ask"),
            tenant_id=principal.tenant_id,
            account_id=account_id,
            principal=principal.name,
            more={"epsilon": str(more.epsilon), "delta": str(more.delta)},
            reason=reason,
        )
    log.info("budget asked for", request=row["id"], account=account_id)
    return view(row)


async def of_account(
    services: Services, principal: Principal, account_id: str
) -> list[dict[str, Any]]:
    """Requests on an account, newest first."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        await _scope(connection, principal, account_id)
        return [
            view(row)
            for row in await ledger.newest(connection, principal.tenant_id, account_id, SHOWN)
        ]


async def unanswered(services: Services, principal: Principal) -> list[dict[str, Any]]:
    """Open requests on all accounts, oldest first: what an owner has to answer."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        return [view(row) for row in await ledger.all_open(connection, principal.tenant_id, SHOWN)]


async def decline(
    services: Services, principal: Principal, account_id: str, request_id: str, answer: str
) -> dict[str, Any]:
    """Answer a request with a sentence and nothing more. Conflict when it was answered before."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        await held(connection, principal, account_id, request_id)
        row = await ledger.answer(
            connection, request_id, "declined", owner=principal.name, says=answer
        )
        await audit_log.note(
            connection, principal, "budget_request.decline", request_id, account=account_id
        )
    log.info("budget declined", request=request_id, account=account_id)
    return view(row)


async def held(
    connection: AsyncConnection, principal: Principal, account_id: str, request_id: str
) -> dict[str, Any]:
    """An open request on this account, held until the transaction ends. NotFound, or Conflict when
    it was answered."""
    row = await ledger.lock(connection, principal.tenant_id, account_id, request_id)
    if row is None:
        raise NotFound("there is no such request on this budget")
    if row["state"] != "open":
        raise Conflict(
            f"{row['answered_by']} has {row['state']} this request already", code="request_answered"
        )
    return row


async def granted(
    connection: AsyncConnection, principal: Principal, request_id: str, says: str
) -> None:
    """Note with a grant, in its transaction, that it answers a request which `held` has given."""
    await ledger.answer(connection, request_id, "granted", owner=principal.name, says=says)


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A request as it is published."""
    names = (
        "id",
        "principal",
        "reason",
        "state",
        "created_at",
        "answered_by",
        "answer",
        "answered_at",
    )
    more = {
        "epsilon": float(to_decimal(int(row["more"]["epsilon"]), EPSILON_UNIT)),
        "delta": float(to_decimal(int(row["more"]["delta"]), DELTA_UNIT)),
    }
    return {**{name: row[name] for name in names}, "account": row["account_id"], "more": more}


async def _scope(connection: AsyncConnection, principal: Principal, account_id: str) -> str:
    """Of an account with a budget; NotFound where there is none."""
    found = await ledger.accounts(connection, principal.tenant_id, account_id=account_id)
    if not found or found[0]["scope"] == "source":  # a chain has no budget, its blocks have
        raise NotFound("there is no such budget")
    return str(found[0]["scope"])
