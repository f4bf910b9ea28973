"""The state of a source for its next decision: the rule, the budgets of blocks, and who waits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from discreet.privacy import scheduling
from discreet.privacy.filters import Cap
from discreet.privacy.scheduling import DAY, BlockBudget, Decision, Request, Rule
from discreet.privacy.units import Price
from discreet.storage import ledger, sources, waits
from discreet.storage.ledger import AccountBalance
from discreet.usecases.budgets import cap_of, filter_limits

ALL_BLOCKS = ""
"""Stands for the one account of a source in place of a block."""
CAP_NAME = "cap/"
"""Prefix of the account of a cap on the tenant or a principal, in place of a block; labels of
blocks have no slash. Caps have no shares."""


@dataclass(frozen=True)
class SourceState:
    """The state of a source for its next decision."""

    rule: Rule
    lent_days: int
    accounts: Mapping[str, str]
    """Accounts of blocks by name, or of ALL_BLOCKS; and of caps by CAP_NAME and account."""
    blocks: Mapping[str, BlockBudget]
    balances: Mapping[str, AccountBalance]
    """Balances by account."""
    caps: Mapping[str, Sequence[str]]
    """By principal, the accounts of caps that its jobs are charged to."""
    waiting: Sequence[tuple[Request, int]]
    """The requests that wait, each with the second of its next try."""

    def own(self, names: Sequence[str]) -> list[str]:
        """The blocks whose budget a job on these blocks needs."""
        return [ALL_BLOCKS] if ALL_BLOCKS in self.accounts else list(names)

    def places(self, names: Sequence[str], principal: str) -> list[str]:
        """The blocks and caps whose budget it needs."""
        return [*self.own(names), *(CAP_NAME + one for one in self.caps[principal])]


@lru_cache(maxsize=4096)
def _limits(cap: Cap) -> tuple[Mapping[str, int], ...]:
    """What each privacy filter allows under a cap."""
    return tuple(
        {column: int(units) for column, units in columns.items()}
        for columns in filter_limits(cap).values()
    )


async def state_of(
    connection: Any,
    tenant_id: str,
    source: Mapping[str, Any],
    rule: Mapping[str, Any],
    principal: str | None = None,
    names: Sequence[str] = (),
) -> SourceState:
    """Read the state of a source in this transaction. `principal` asks for one more job on the
    blocks in `names`."""
    rows = await waits.waiting(connection, source["id"])
    caps = {
        name: await ledger.caps(connection, tenant_id, name)
        for name in {row["principal"] for row in rows} | ({principal} if principal else set())
    }
    asked = sorted({name for row in rows for name in row["blocks"]}.union(names))
    found = await sources.blocks(connection, source["id"], asked)
    if source["account_id"] is None:
        accounts = {row["block"]: row["account_id"] for row in found}
        opened = {row["block"]: seconds_of(row["first_at"]) for row in found}
    else:
        accounts = {ALL_BLOCKS: source["account_id"]}
        opened = {ALL_BLOCKS: seconds_of(source["created_at"])}
    for account in {one for of_one in caps.values() for one in of_one}:
        accounts[CAP_NAME + account], opened[CAP_NAME + account] = account, 0
    balances = await ledger.balances(connection, sorted(set(accounts.values())))
    uses = await waits.uses(connection, source["id"], sorted(accounts))
    blocks = {
        name: BlockBudget(
            opened[name],
            _limits(cap_of(balances[account])),
            dict(balances[account].totals),
            uses.get(name, {}),
        )
        for name, account in accounts.items()
    }
    made = SourceState(
        Rule({name: int(share) for name, share in rule["shares"].items()}, rule["lent_days"] * DAY),
        rule["lent_days"],
        accounts,
        blocks,
        balances,
        caps,
        [],
    )
    waiting = [
        (
            Request(
                id=row["job_id"],
                analyst=row["principal"],
                price=Price.from_json(row["price"]).columns(),
                blocks=made.places(row["blocks"], row["principal"]),
                until=seconds_of(row["until"]),
                key=row["place"],
            ),
            seconds_of(row["next_try"]),
        )
        for row in rows
    ]
    return replace(made, waiting=waiting)


def request_of(
    seen: SourceState,
    job_id: str,
    analyst: str,
    price: Price,
    names: Sequence[str],
    now: datetime,
    wait_days: float,
) -> Request:
    """The request of a job that comes `now` and would wait for up to `wait_days`."""
    columns, came = price.columns(), seconds_of(now)
    # Caps over all data are not blocks, and do not count for the order.
    size = scheduling.area(columns, [seen.blocks[name].limits for name in seen.own(names)])
    return Request(
        id=job_id,
        analyst=analyst,
        price=columns,
        blocks=seen.places(names, analyst),
        until=came + round(wait_days * DAY),
        key=scheduling.order_key(came, size),
    )


def decision_on(seen: SourceState, request: Request, now: datetime) -> Decision:
    """The decision on a request that comes now."""
    queue = [other for other, _ in seen.waiting]
    return scheduling.decide_new(request, queue, seen.blocks, seen.rule, seconds_of(now))


def seconds_of(moment: datetime) -> int:
    """Whole seconds since 1970, in which decisions count."""
    return math.floor(moment.timestamp())


def moment_of(seconds: int) -> datetime:
    """The inverse of `seconds_of`, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
