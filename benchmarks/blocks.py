"""What it costs to be charged to many blocks instead of one account: jobs accepted a second, in the
same run, and what a job over thirty blocks writes from its acceptance to its end.

The statement that accepts jobs, as the service sends it, on a fresh database, with one submitter
and with 16. Rounds alternate, so that both meet the same machine. What the ledger does is measured
by itself, and beside it the whole statement, which also locks the source whose versions a job
names, and keeps their numbers.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import text

from discreet.installation.prepared import embedded
from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import acceptance, ledger, tenants
from discreet.storage.acceptance import JobOrder
from discreet.storage.database import SYSTEM, Database
from discreet.usecases.budgets import cap_amounts, filter_limits

BLOCKS, MANY, ROUNDS = 30, 1000, 9
CASES = (
    (BLOCKS, 1, "acc_s", False),
    (BLOCKS, 16, "acc_s", False),
    (MANY, 1, "acc_s", False),
    (BLOCKS, 16, "acc_d", False),
    (MANY, 1, "acc_d", False),
    (BLOCKS, 1, "acc_d", True),
    (BLOCKS, 16, "acc_d", True),
    (MANY, 1, "acc_d", True),
)
"""Blocks of a job, who submit at once, and of which source: on the second each block stands at
sums of its own, so that no two can be looked at together. Whether the job names their versions."""
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
    """Acceptances a second over blocks, beside one account; then the write-ahead log of a job."""
    with (
        tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder,
        embedded(Settings(state=Path(folder) / "state")) as ready,
    ):
        return asyncio.run(_measured(ready))


async def _measured(settings: Settings) -> list[dict[str, Any]]:
    database = Database(settings)
    try:
        async with database.transaction(SYSTEM) as connection:
            await tenants.add_tenant(connection, "ten_1", "one")
            amounts: dict[str, Any] = {
                "cap": cap_amounts(CAP),
                "filters": filter_limits(CAP),
                "actor": "owner",
            }
            whose: dict[str, Any] = {"tenant_id": "ten_1", "unit": "request"}
            await ledger.open_account(
                connection, "acc_1", scope="data", subject="acc_1", **whose, **amounts
            )
            blocks: dict[str, list[str]] = {}
            for chain in ("acc_s", "acc_d"):
                await ledger.open_chain(connection, chain, **whose)
                blocks[chain] = [
                    await ledger.open_block(connection, chain, reason=f"block {number}", **amounts)
                    for number in range(MANY)
                ]
            for number, block in enumerate(blocks["acc_d"], start=1):
                price = Price.pure(number).to_json()
                await ledger.reserve(
                    connection, f"job_{number}", [block], price=price, events=[EVENT], actor="p"
                )
            await connection.execute(_SOURCE)
            await connection.execute(_VERSIONS, {"most": MANY})
        versions = tuple(range(1, MANY + 1))
        rows = []
        for count, submitters, chain, whole in CASES:
            pairs = []
            named = versions[:count] if whole else ()
            for _ in range(ROUNDS + 1):  # the first warms up
                one = await _rate(database, ["acc_1"], submitters)
                ours = await _rate(database, blocks[chain][:count], submitters, named)
                pairs.append((ours, one))
            many, one = (statistics.median(rates) for rates in zip(*pairs[1:], strict=True))
            ratios = sorted(ours / peer for ours, peer in pairs[1:])
            sums = "sums of their own" if chain == "acc_d" else "equal sums"
            if whole:
                sums += " and named versions"
            rows.append(
                {
                    "benchmark": f"jobs accepted over {count} blocks with {sums}, "
                    f"{submitters} submitter{'s' if submitters > 1 else ''}",
                    "ours": many,
                    "unit": "1/s",
                    "note": f"{ROUNDS} rounds that alternate: the median of their ratios, "
                    f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
                    "peer": "over one account",
                    "peer_value": one,
                    "ratio": statistics.median(ratios),
                }
            )
        many, one = [
            await _written(database, names) for names in (blocks["acc_d"][:BLOCKS], ["acc_1"])
        ]
        rows.append(
            {
                "benchmark": f"write-ahead log of a job over {BLOCKS} blocks, to its end",
                "ours": many / 1000,
                "unit": "kB",
                "note": f"mean of {JOBS[1]} jobs: reserved, touched and charged by one entry each",
                "peer": "over one account",
                "peer_value": one / 1000,
                "ratio": many / one,
            }
        )
        return rows
    finally:
        await database.close()


async def _written(database: Database, accounts: Sequence[str]) -> float:
    """Bytes of the write-ahead log for each job: what the ledger alone writes of its life."""
    position = text("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    async with database.transaction(SYSTEM) as connection:
        begun = (await connection.execute(position)).scalar_one()
    for _ in range(JOBS[1]):
        order = _order()
        for step in (
            partial(
                ledger.reserve,
                job_id=order.job_id,
                account_ids=accounts,
                price=order.price,
                events=[EVENT],
                actor="p",
            ),
            partial(ledger.touch, job_id=order.job_id, actor="worker"),
            partial(ledger.settle, job_id=order.job_id, actor="worker"),
        ):
            async with database.transaction(SYSTEM) as connection:
                await step(connection)
    async with database.transaction(SYSTEM) as connection:
        ended = (await connection.execute(position)).scalar_one()
    return float(ended - begun) / JOBS[1]


async def _rate(
    database: Database, accounts: Sequence[str], submitters: int, versions: tuple[int, ...] = ()
) -> float:
    jobs = JOBS[submitters]
    begun = time.perf_counter()

    async def submitter() -> None:
        for _ in range(jobs // submitters):
            found = await acceptance.submit(
                database,
                _order(versions),
                tenant_id="ten_1",
                principal="p",
                accounts=list(accounts),
            )
            assert found.outcome == "accepted"

    await asyncio.gather(*(submitter() for _ in range(submitters)))
    return jobs / (time.perf_counter() - begun)


def _order(versions: tuple[int, ...] = ()) -> JobOrder:
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
        source_id="src_1" if versions else None,
        versions=versions,
    )


_SOURCE = text(
    """
    INSERT INTO sources (id, tenant_id, name, kind, public, mode, block_by, cap_of, cap,
      block_bytes, chain_id, created_by)
    VALUES ('src_1', 'ten_1', 'source', 'routing', '{}', 'private', 'label', 'block', '{}', 1024,
      'acc_d', 'owner')
    """
)
_VERSIONS = text(
    """
    INSERT INTO datasets (id, tenant_id, account_id, name, kind, public, mode, digest,
      content_key_id, source_id, block, version)
    SELECT 'dst_' || n, 'ten_1', 'acc_d.' || n, 'block', 'routing', '{}', 'private',
      sha256(CAST(CAST(n AS text) AS bytea)), 'key', 'src_1', 'block ' || n, 1
    FROM generate_series(1, :most) AS n
    """
)
