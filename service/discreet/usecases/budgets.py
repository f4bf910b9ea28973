"""Budgets: what may be spent, what is spent, and the largest request that passes; the entries
behind them are in `history`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import anyio.to_thread
from prometheus_client import Counter

from discreet.errors import BudgetExhausted, Conflict, Forbidden, InvalidInput, NotFound
from discreet.ledger.entries import limits
from discreet.privacy import filters
from discreet.privacy.filters import FILTERS, Cap, Filter
from discreet.privacy.units import (
    DELTA_UNIT,
    EPSILON_UNIT,
    Price,
    delta_units,
    epsilon_units,
    to_decimal,
)
from discreet.storage import audit_log, ledger, ledger_entries, waits
from discreet.storage.identifiers import new_id
from discreet.storage.ledger import AccountBalance, BudgetRow
from discreet.storage.tenants import Principal
from discreet.usecases import budget_requests
from discreet.usecases.access import require
from discreet.usecases.budget_requests import AGENT, AGENTS_OWN
from discreet.usecases.services import Services

BlockOf = Mapping[
    str, tuple[str, str]
]  # of an account of a block: the source's name and the block's
READERS = ("owner", "analyst", "auditor")
CAPS = ("tenant", "principal")
"""Scopes of accounts that are caps over all data; the others are accounts of data, or of agents."""

ANY_UNIT = "any"
"""The unit of a cap: it adds up prices over datasets whose units differ."""

_refusals = Counter("discreet_budget_refusals_total", "Requests that a cap refused")


def units_of(cap: Any) -> Cap:
    """A requested cap in integer units, rounded down."""
    return Cap(epsilon_units(cap.epsilon, "down"), delta_units(cap.delta, "down"))


def cap_amounts(cap: Cap) -> dict[str, str]:
    return {"epsilon": str(cap.epsilon), "delta": str(cap.delta)}


def filter_limits(cap: Cap) -> dict[str, dict[str, str]]:
    """What each filter allows under this cap: the integers that the database compares with."""
    return limits(cap)


def figures(epsilon: int, delta: int) -> dict[str, float]:
    """Epsilon and delta as the numbers that people read."""
    return {
        "epsilon": float(to_decimal(epsilon, EPSILON_UNIT)),
        "delta": float(to_decimal(delta, DELTA_UNIT)),
    }


def cap_of(account: AccountBalance) -> Cap:
    return Cap(account.cap["epsilon"], account.cap["delta"])


@dataclass(frozen=True)
class FilterBalance:
    """The balance of an account under one filter, in integer units; spent + reserved +
    remaining is the cap."""

    spent: tuple[int, int]
    reserved: tuple[int, int]
    remaining: tuple[int, int]

    def to_json(self) -> dict[str, dict[str, float]]:
        return {name: figures(*getattr(self, name)) for name in ("spent", "reserved", "remaining")}


def balance_under(one: Filter, account: AccountBalance) -> FilterBalance | None:
    """The account under one filter; None when the cap gives it nothing to work with.

    A reservation counts as spent until it is released, so `reserved` is what the figure would fall
    by.
    """
    cap = cap_of(account)
    committed = {
        name: units - account.reserved.get(name, 0) for name, units in account.totals.items()
    }
    spent, total = one.spent(committed, cap), one.spent(account.totals, cap)
    if spent is None or total is None:
        return None
    return FilterBalance(
        spent=spent,
        reserved=(total[0] - spent[0], total[1] - spent[1]),
        remaining=(max(0, cap.epsilon - total[0]), max(0, cap.delta - total[1])),
    )


def best_balance(account: AccountBalance) -> FilterBalance:
    """The balance of the filter with most epsilon left, among those that hold."""
    cap, nothing = cap_of(account), Price.zero()
    found = [
        (filters.holds(one, account.totals, nothing, cap), held.remaining, held)
        for one in FILTERS
        if (held := balance_under(one, account)) is not None
    ]
    return max(found, key=lambda item: item[:2])[2]


@lru_cache(maxsize=4096)
def text(row: BudgetRow, delta: int) -> bytes:
    """One budget as JSON text. It depends only on the row that the database just returned, so a
    cached text is never out of date."""
    account = row.balance
    cap = cap_of(account)
    by_filter = [
        {
            "name": one.name,
            **held.to_json(),
            "largest_request": figures(one.largest_epsilon(account.totals, cap, delta), delta),
        }
        for one in FILTERS
        if (held := balance_under(one, account)) is not None
    ]
    body = {
        "id": row.id,
        "scope": row.scope,
        "subject": row.subject,
        "datasets": json.loads(row.datasets),
        "unit": row.unit,
        "cap": figures(cap.epsilon, cap.delta),
        **best_balance(account).to_json(),
        "largest_request": figures(filters.largest_epsilon(account.totals, cap, delta), delta),
        "filters": by_filter,
    }
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


def left_by(account: AccountBalance, price: Price) -> dict[str, Any]:
    """What is left of a cap now, and after one more request of this price."""
    added = price.columns()
    after = replace(
        account, totals={name: account.totals.get(name, 0) + units for name, units in added.items()}
    )
    return {
        "account": account.account_id,
        "scope": account.scope,
        "subject": account.subject,
        "cap": figures(account.cap["epsilon"], account.cap["delta"]),
        "before": figures(*best_balance(account).remaining),
        "after": figures(*best_balance(after).remaining),
    }


def binding(
    account: AccountBalance, price: Price, block: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Why a cap does not let this price pass, with the largest request that would."""
    cap = cap_of(account)
    held = best_balance(account).to_json()
    delta = min(price.delta, cap.delta // 2)
    bound = {
        "account": account.account_id,
        "cap": figures(cap.epsilon, cap.delta),
        "spent": held["spent"],
        "reserved": held["reserved"],
        "requested": figures(price.epsilon, price.delta),
        "largest": figures(filters.largest_epsilon(account.totals, cap, delta), delta),
    }
    if account.scope in (*CAPS, AGENT):
        bound.update(scope=account.scope, subject=account.subject)
    if block is not None:
        bound.update(source=block[0], block=block[1])
    return bound


def binding_of(balances: Sequence[AccountBalance], price: Price, blocks: BlockOf) -> dict[str, Any]:
    """The cap that binds: of those that refuse, the one with least left."""
    refused = min(
        (one for one in balances if not one.admitted),
        key=lambda one: (filters.largest_epsilon(one.totals, cap_of(one), 0), one.account_id),
    )
    return binding(refused, price, blocks.get(refused.account_id))


def refusal(balances: Sequence[AccountBalance], price: Price, blocks: BlockOf) -> BudgetExhausted:
    """The refusal that names the cap that binds."""
    _refusals.inc()
    bound = binding_of(balances, price, blocks)
    whose = {
        "tenant": "the cap on the tenant binds: ",
        "principal": f"the cap on {bound.get('subject')} binds: ",
        AGENT: f"the limits of the agent {str(bound.get('subject'))[:16]} bind: ",
    }
    block = (
        f"the cap of block {bound['block']} of {bound['source']} binds: "
        if "block" in bound
        else ""
    )
    return BudgetExhausted(
        bound,
        f"budget exceeded: {whose.get(bound.get('scope', ''), block)}needs epsilon "
        f"{bound['requested']['epsilon']} and delta {bound['requested']['delta']}; the largest "
        f"request that passes is epsilon {bound['largest']['epsilon']} at delta "
        f"{bound['largest']['delta']}. Nothing was charged. {_who_grants(bound)}",
    )


def _who_grants(bound: Mapping[str, Any]) -> str:
    if bound.get("scope") == AGENT:
        return f"{AGENTS_OWN}; a job's delta may be at most half of that limit"
    own = "scope" not in bound
    path = f"/v1/budgets/{bound['account']}/grants" if own else "/v1/caps"
    command = f"discreet cap grant {bound['account']}" if own else "discreet cap set"
    asking = f"/v1/budgets/{bound['account']}/requests"
    return f"Owner: {command}, POST {path}, or the dashboard. To ask one: POST {asking}"


async def all_budgets(
    services: Services, principal: Principal, delta: Decimal = Decimal(0)
) -> list[dict[str, Any]]:
    require(principal, *READERS)
    rows = await ledger.budget_rows(services.database, principal.tenant_id)
    return [json.loads(text(row, delta_units(delta, "down"))) for row in rows]


async def budget_text(
    services: Services, principal: Principal, account_id: str, delta: Decimal = Decimal(0)
) -> bytes:
    """One budget as JSON text, as the ledger is now: `GET /v1/budgets/{id}`."""
    require(principal, *READERS)
    rows = await ledger.budget_rows(services.database, principal.tenant_id, account_id)
    if not rows:
        raise NotFound("there is no such budget")
    return text(rows[0], delta_units(delta, "down"))


async def one_budget(
    services: Services, principal: Principal, account_id: str, delta: Decimal = Decimal(0)
) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await budget_text(services, principal, account_id, delta))
    return found


async def largest_request(services: Services, principal: Principal, account_id: str) -> float:
    """The largest epsilon, at delta 0, that this account and every cap on who asks still let
    pass."""
    own = {principal.tenant_id, principal.name}
    found = await all_budgets(services, principal)
    binding = (
        one
        for one in found
        if one["id"] == account_id or (one["scope"] in CAPS and one["subject"] in own)
    )
    return min((float(one["largest_request"]["epsilon"]) for one in binding), default=0.0)


async def grant(
    services: Services,
    principal: Principal,
    account_id: str,
    cap: Cap,
    reason: str,
    request_id: str | None = None,
) -> dict[str, Any]:
    """Set a new cap, with a reason that stays in the ledger. Conflict when more is spent or
    reserved already, Forbidden for the limits of an agent, which only the agent announces.

    `request_id`: the request that this answers, in the same transaction; the ledger's reason then
    names who asked, and why. NotFound when there is none on this account, Conflict when it was
    answered before.
    """
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        account = await known_account(connection, principal, account_id)
        if account["scope"] == AGENT:
            raise Forbidden(AGENTS_OWN)
        says = reason
        if request_id is not None:
            asked = await budget_requests.held(connection, principal, account_id, request_id)
            says = f"{reason} (asked for by {asked['principal']}: {asked['reason']})"
        granted = await ledger.grant(
            connection,
            account_id,
            cap=cap_amounts(cap),
            filters=filter_limits(cap),
            actor=principal.name,
            reason=says,
        )
        if granted:
            await audit_log.note(connection, principal, "cap.grant", account_id, reason=says)
        if granted:
            await waits.wake_tenant(connection, principal.tenant_id)
        if granted and request_id is not None:
            await budget_requests.granted(connection, principal, request_id, reason)
    if not granted:
        raise Conflict("more than this cap is spent or reserved already", code="cap_below_spent")
    return await one_budget(services, principal, account_id)


async def caps(services: Services, principal: Principal) -> list[dict[str, Any]]:
    """The caps on the tenant and on its principals, as budgets."""
    return [one for one in await all_budgets(services, principal) if one["scope"] in CAPS]


async def set_cap(
    services: Services, principal: Principal, *, scope: str, name: str | None, cap: Cap, reason: str
) -> tuple[dict[str, Any], bool]:
    """Cap everything that the tenant, or one principal of it, may spend; the budget and whether it
    is new.

    It counts from now on: what was reserved before is not in it. It belongs to the principal's name
    and outlives its keys. Set again, it is a grant. There is no way to remove one but to raise it.
    """
    require(principal, "owner")
    if scope not in CAPS:
        raise InvalidInput(f"one of {', '.join(CAPS)}", pointer="/scope")
    if (name is None) == (scope == "principal"):
        raise InvalidInput(
            "a cap on a principal needs `principal`, a cap on the tenant takes none",
            pointer="/principal",
        )
    subject = principal.tenant_id if name is None else name
    async with services.database.transaction(principal.tenant_id) as connection:
        await ledger.lock_caps(connection, principal.tenant_id)
        known = await ledger.accounts(connection, principal.tenant_id, scope=scope, subject=subject)
        if not known:
            account_id = new_id("acc")
            await ledger.open_account(
                connection,
                account_id,
                tenant_id=principal.tenant_id,
                scope=scope,
                subject=subject,
                unit=ANY_UNIT,
                cap=cap_amounts(cap),
                filters=filter_limits(cap),
                actor=principal.name,
                reason=reason,
            )
            await audit_log.note(
                connection, principal, "cap.set", account_id, scope=scope, whose=subject
            )
    if known:
        return await grant(services, principal, known[0]["id"], cap, reason), False
    return await one_budget(services, principal, account_id), True


async def known_account(
    connection: Any, principal: Principal, account_id: str, *, chain: bool = False
) -> dict[str, Any]:
    """NotFound unless this is an account of the tenant. The chain of a source has no budget and
    is found only on request."""
    found = await ledger.accounts(connection, principal.tenant_id, account_id=account_id)
    if not found or (found[0]["scope"] == "source" and not chain):
        raise NotFound("there is no such budget")
    return found[0]


# History ------------------------------------------------------------------------------------------
# What was charged to an account, and for what: the entries of its ledger, as people see them.

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
