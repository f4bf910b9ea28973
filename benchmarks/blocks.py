"""What it costs to be charged to thirty accounts instead of one: jobs accepted a second, in the
same run.

The statement that accepts jobs, as the service sends it, on a fresh database, with one submitter
and with 16. Rounds alternate, so that both meet the same machine.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discreet.installation.prepared import embedded
from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import acceptance, ledger, tenants
from discreet.storage.acceptance import JobOrder
from discreet.storage.database import SYSTEM, Database
from discreet.usecases.budgets import cap_amounts, filter_limits

BLOCKS, ROUNDS, SUBMITTERS = 30, 5, (1, 16)
JOBS = {1: 40, 16: 160}
"""A round has of each number of accounts."""
CAP = Cap(10**15, 0)
EVENT = {
    "mechanism": "discrete_laplace",
    "sensitivity": 1.0,
    "scale": 10.0,
    "neighbours": "one trip added or removed",
}


def run() -> list[dict[str, Any]]:
    """Acceptances a second over thirty accounts, beside one account."""
    with (
        tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder,
        embedded(Settings(state=Path(folder) / "state")) as ready,
    ):
        return asyncio.run(_measured(ready))


async def _measured(settings: Settings) -> list[dict[str, Any]]:
    database = Database(settings)
    names = [f"acc_{number:02}" for number in range(BLOCKS + 1)]
    try:
        async with database.transaction(SYSTEM) as connection:
            await tenants.add_tenant(connection, "ten_1", "one")
            for name in names:
                await ledger.open_account(
                    connection,
                    name,
                    tenant_id="ten_1",
                    scope="data",
                    subject=name,
                    unit="request",
                    cap=cap_amounts(CAP),
                    filters=filter_limits(CAP),
                    actor="owner",
                )
        rows = []
        for submitters in SUBMITTERS:
            rates: dict[int, list[float]] = {1: [], BLOCKS: []}
            for _ in range(ROUNDS + 1):  # the first warms up
                for accounts in (names[:1], names[1:]):
                    rates[len(accounts)].append(await _rate(database, accounts, submitters))
            one, many = (statistics.median(rates[count][1:]) for count in (1, BLOCKS))
            rows.append(
                {
                    "benchmark": f"jobs accepted over {BLOCKS} blocks, {submitters} submitters",
                    "ours": many,
                    "unit": "1/s",
                    "note": f"medians of {ROUNDS} rounds that alternate",
                    "peer": "over one account",
                    "peer_value": one,
                    "ratio": many / one,
                }
            )
        return rows
    finally:
        await database.close()


async def _rate(database: Database, accounts: Sequence[str], submitters: int) -> float:
    jobs = JOBS[submitters]
    begun = time.perf_counter()

    async def submitter() -> None:
        for _ in range(jobs // submitters):
            found = await acceptance.submit(
                database, _order(), tenant_id="ten_1", principal="p", accounts=list(accounts)
            )
            assert found.outcome == "accepted"

    await asyncio.gather(*(submitter() for _ in range(submitters)))
    return jobs / (time.perf_counter() - begun)


def _order() -> JobOrder:
    name = uuid.uuid4().hex
    return JobOrder(
        key=name,
        digest=b"\0" * 32,
        job_id=f"job_{name}",
        dataset_id=None,
        kind="routing",
        problem='{"kind":"routing"}',
        plan='{"noise":[]}',
        seed=None,
        steps=1,
        price=Price.pure(1).to_json(),
        events=json.dumps([EVENT], separators=(",", ":"), sort_keys=True),
    )
