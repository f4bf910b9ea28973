"""What the ledger's part of a job's life costs on a young ledger, and on one with a history and old
statistics.

    python -m benchmarks.ledger_growth [JOBS]

A job on one account, and one on thirty, as a job over thirty blocks or a federated one of thirty
agents has. One session runs all of it, as a worker's pooled connection does, so its plans are as
old as the ledger. Statistics are those of accounts just opened, and autovacuum is off: so things
may stand until ANALYZE comes by. Each step is a statement of its own, and durable. `ratio` is the
median of the last jobs by the median of the first.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from discreet.installation.prepared import embedded
from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage.database import libpq_url
from discreet.usecases.budgets import cap_amounts, filter_limits

JOBS = 400
ACCOUNTS = (1, 30)
ENDS = 40
"""Jobs that are measured at each end, after some that warm up."""
CAP = Cap(10**15, 0)
STEPS: dict[str, LiteralString] = {
    "reserve": "SELECT ledger_reserve(%(job)s, %(accounts)s, %(price)s, '[]', 'analyst')",
    "touch": "SELECT ledger_touch(%(job)s, 'worker')",
    "settle": "SELECT ledger_settle(%(job)s, 'worker')",
}


def run(jobs: int = JOBS) -> list[dict[str, Any]]:
    """Median milliseconds of each step at the end of the history; the peer is its beginning, in the
    same run."""
    rows = []
    for count in ACCOUNTS:
        with (
            tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder,
            embedded(Settings(state=Path(folder), workers=0)) as settings,
        ):
            found = measure(settings, count, jobs)
        for step, (first, last) in found.items():
            row = {
                "benchmark": f"ledger, {step} a job on {count} account{'s' if count > 1 else ''}, "
                f"{jobs} jobs later"
            }
            times = {
                "ours": last,
                "unit": "ms",
                "peer": "its first jobs",
                "peer_value": first,
                "ratio": last / first,
            }
            rows.append({**row, **times, "note": ""})
    return rows


def measure(settings: Settings, count: int, jobs: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds of each step over the first jobs and over the last."""
    assert settings.migration_database_url is not None
    assert settings.database_url is not None
    with psycopg.connect(libpq_url(settings.migration_database_url), autocommit=True) as owner:
        for table in ("accounts", "ledger_entries"):
            owner.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
    names = [f"acc_{count}_{number}" for number in range(count)]
    price = json.dumps(Price.pure(1).to_json())
    seconds: dict[str, list[float]] = {step: [] for step in STEPS}
    with psycopg.connect(libpq_url(settings.database_url), autocommit=True) as connection:
        connection.execute("SET discreet.tenant = '*'")
        tenant = f"ten_{count}"
        connection.execute("INSERT INTO tenants (id, name) VALUES (%s, %s)", [tenant, tenant])
        amounts = [json.dumps(value) for value in (cap_amounts(CAP), filter_limits(CAP))]
        for name in names:
            connection.execute(
                "SELECT ledger_open(%s, %s, 'data', %s, 'request', %s, %s, 'owner', NULL)",
                [name, tenant, name, *amounts],
            )
        with psycopg.connect(libpq_url(settings.migration_database_url), autocommit=True) as owner:
            owner.execute("ANALYZE accounts, ledger_entries")
        for number in range(jobs):
            values = {"job": f"job_{count}_{number}", "accounts": names, "price": price}
            for step, statement in STEPS.items():
                began = time.perf_counter()
                connection.execute(statement, values)
                seconds[step].append(time.perf_counter() - began)
    return {
        step: (
            1e3 * statistics.median(found[10 : 10 + ENDS]),
            1e3 * statistics.median(found[-ENDS:]),
        )
        for step, found in seconds.items()
    }


if __name__ == "__main__":
    for row in run(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS):
        print(
            f"{row['benchmark']}: {row['peer_value']:.3g} -> {row['ours']:.3g} ms "
            f"({row['ratio']:.3g})"
        )
