"""The ledger's chains, verified as they grow, so that a page can say how far they hold.

The same rules as `discreet ledger verify`, on the same lines as an export has. Entries that were
checked are not read again, unless `again` restarts from the first entry. Each process keeps its own
memory of it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread

from discreet.ledger.entries import Broken, Chain, Head, entry_line, sign_head
from discreet.storage import ledger
from discreet.storage import ledger as chain_rows
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.ledger import PAGE, READERS
from discreet.usecases.services import Services

STEP = 5000
"""Entries that one look checks at most."""
LITTLE = 1000
"""Who looks in passing checks no more than so many: further looks are asked for."""
TENANTS = 64
"""Tenants whose chains are kept in memory."""


@dataclass(frozen=True)
class Verification:
    """How far a tenant's ledger is known to hold."""

    entries: int
    """Entries that hold."""
    head: Head
    at: datetime
    broken: Broken | None

    @property
    def total(self) -> int:
        return int(self.head["seq"])

    @property
    def state(self) -> str:
        """broken, whole (all entries hold, up to the head), or partial (a further look goes on)."""
        if self.broken is not None:
            return "broken"
        return "whole" if self.entries == self.total else "partial"


@dataclass
class _Tenant:
    chains: dict[str, Chain] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Verifier:
    """The memory of one process."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()

    async def look(
        self,
        services: Services,
        principal: Principal,
        *,
        again: bool = False,
        passing: bool = False,
    ) -> Verification:
        """Check up to STEP entries more and say how far the ledger holds. `again`: everything from
        the first entry; `passing`: what is new alone, where that is little."""
        require(principal, *READERS)
        if again:
            self._tenants.pop(principal.tenant_id, None)
        tenant = self._tenants.setdefault(principal.tenant_id, _Tenant())
        self._tenants.move_to_end(principal.tenant_id)
        while len(self._tenants) > TENANTS:
            self._tenants.popitem(last=False)
        async with tenant.lock:
            return await _look(services, principal.tenant_id, tenant.chains, passing=passing)


async def _look(
    services: Services, tenant_id: str, chains: dict[str, Chain], *, passing: bool
) -> Verification:
    left = STEP
    broken: Broken | None = None
    async with services.database.transaction(tenant_id, snapshot=True) as connection:
        heads = await ledger.heads(connection, tenant_id)
        new = sum(seq for _, seq, _ in heads) - sum(chain.seq for chain in chains.values())
        if passing and new > LITTLE:
            left = 0
        try:
            _check_nothing_is_gone(chains, heads)
            for account, seq, digest in heads:
                chain = chains.setdefault(account, Chain(tenant_id, account))
                while chain.seq < seq and left > 0:
                    rows = await ledger.entries(
                        connection, account, after=chain.seq, size=min(PAGE, left)
                    )
                    if not rows:
                        raise Broken(
                            "the entry is missing: the head names it", account, chain.seq + 1
                        )
                    left -= len(rows)
                    await anyio.to_thread.run_sync(_follow, chain, rows)
                if chain.seq == seq and chain.hash != digest:
                    raise Broken(
                        "its hash is not the one that was verified before: it was changed",
                        account,
                        seq,
                    )
                if chain.seq == seq and chain.blocks:
                    _check_sums(chain, await chain_rows.sums(connection, account), account, seq)
        except Broken as found:
            broken = found
    entries = sum(chain.seq for chain in chains.values())
    if broken is not None:
        chains.clear()  # the next look begins anew, and finds it again
    head = sign_head(tenant_id, heads, services.secrets.signer)
    return Verification(entries, head, datetime.now(UTC), broken)


def _check_nothing_is_gone(
    chains: dict[str, Chain], heads: Sequence[tuple[str, int, bytes]]
) -> None:
    """Broken when entries that were verified before are no longer there."""
    last = {account: seq for account, seq, _ in heads}
    for account, chain in chains.items():
        if chain.seq > last.get(account, 0):
            raise Broken(
                "the entry is missing: it was verified before", account, last.get(account, 0) + 1
            )


def _check_sums(chain: Chain, kept: Mapping[int, Any], account: str, seq: int) -> None:
    """Broken when the sums that are kept of blocks are not those of their entries."""
    for number in sorted(chain.blocks.keys() | kept.keys()):
        block = chain.blocks.get(number)
        totals, reserved, cap = kept.get(number, ({}, {}, {}))
        if block is None or (totals, reserved, cap) != (
            {name: str(units) for name, units in block.totals.items()},
            {name: str(units) for name, units in block.reserved.items()},
            block.cap,
        ):
            raise Broken(f"the sums of block {number} were changed after it", account, seq)


def _follow(chain: Chain, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        chain.follow(entry_line(row["body"], bytes(row["hash"]), bytes(row["previous_hash"])))
