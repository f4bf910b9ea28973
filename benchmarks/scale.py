"""What size and number change: a large installation against a small one, and one worker against
several.

    python -m benchmarks.scale [--entries 1000000] [--jobs 100000] [--keep FILE] [--no-workers]

Two installations on one PostgreSQL with durable settings, each with an API of its own: one of a
few (3,000 entries, 300 jobs), one of 1,000,000 ledger entries, all of them in the transparency log,
and 100,000 jobs of 50 tenants. The same requests and pages go to both in turns; a ratio is that of
the medians. The large ledger is exported over HTTP and verified from the file by `discreet ledger
verify`; what that takes of memory is the most that a process has held.

Then 1, 2 and 4 worker processes of one slot on one database, with simulated work: children that
sleep.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
from rich.console import Console
from rich.table import Table

from discreet.installation.database_roles import APP, OWNER, SUPERUSER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.prepared import running
from discreet.isolation.processes import end
from discreet.ledger.tree import tile_path
from discreet.problems.routing.problem import Routing
from discreet.settings import Settings
from discreet.storage.keys.opening import Keys
from discreet.storage.secrets import SecretsFile
from discreet.web.responses import Pages
from discreet_client.client import Client

ENTRIES, JOBS = 1_000_000, 100_000
SMALL = 3_000, 300
TENANTS = 50
ACCOUNTS = 5
"""Of the tenant; the first has half of all entries."""
COPY = (
    "COPY ledger_entries (account_id, seq, tenant_id, kind, job_id, body, hash, previous_hash, "
    "totals, reserved, cap, filters, at) FROM STDIN"
)
ROUNDS = 40
SLEEP_SECONDS = 1.0
WORKERS = (1, 2, 4)
JOBS_A_WORKER = 12


@dataclass
class Side:
    """One installation and who talks to it."""

    name: str
    settings: Settings
    http: httpx.Client
    browser: httpx.Client
    """Logged in, as an owner."""
    operator: httpx.Client
    body: dict[str, Any]
    account: str
    processes: tuple[int, ...]
    entries: int = 0

    def connect(self) -> psycopg.Connection[Any]:
        assert self.settings.migration_database_url is not None
        return psycopg.connect(self.settings.migration_database_url, autocommit=True)

    def submit(self) -> str:
        key = {"Idempotency-Key": os.urandom(8).hex()}
        answer = self.http.post("/v1/jobs", content=json.dumps(self.body), headers=key)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def get(self, path: str) -> dict[str, Any]:
        answer = self.http.get(path)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


def open_side(stack: ExitStack, server: EmbeddedPostgres, folder: Path, name: str) -> Side:
    server.create_database(name)
    settings = Settings(
        state=folder / name,
        workers=0,
        database_url=server.url(APP, name),
        migration_database_url=server.url(OWNER, name),
    )
    ready = stack.enter_context(running(settings))
    key = (settings.state / "owner.key").read_text().strip()
    body = Routing.example()
    spec = body["problem"].pop("dataset")
    with Client(ready["api"], key) as client:
        registered = client.register({**spec, "cap": {"epsilon": 1000, "delta": 0}})
    body["problem"]["dataset"] = registered["id"]
    body["privacy"] = {"epsilon": 0.0005}  # of which the cap holds those of 10,000,000 entries

    def of(key: str | None = None) -> httpx.Client:
        said = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        return stack.enter_context(
            httpx.Client(
                base_url=ready["api"], headers=said if key else {}, timeout=600, trust_env=False
            )
        )

    browser = of()
    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', browser.get("/login").text))
    logged_in = browser.post(
        "/login", data={**form, "key": key}, headers={"Origin": ready["api"].rstrip("/")}
    )
    assert logged_in.status_code == 303, logged_in.text
    operator = of((settings.state / "operator.key").read_text().strip())
    family = tuple(family_of(ready["pid"]))
    return Side(name, settings, of(key), browser, operator, body, registered["account"], family)


def family_of(pid: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family_of(int(child))


def most_memory(pids: Iterable[int]) -> float:
    """The most MB that any of these processes has held."""
    found = [
        int(line.split()[1]) * 1024 / 1e6
        for pid in pids
        if (place := Path(f"/proc/{pid}/status")).exists()
        for line in place.read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return max(found)


def fill(side: Side, server: EmbeddedPostgres, entries: int, jobs: int) -> float:
    """Entries on the tenant's accounts and jobs of all tenants; seconds that it took."""
    began = time.perf_counter()
    template = side.submit()
    # The superuser, because COPY does not go into tables with row-level security.
    with psycopg.connect(server.url(SUPERUSER, side.name), autocommit=True) as connection:
        connection.execute("SET discreet.tenant = '*'")
        reservation = connection.execute(
            "SELECT body FROM ledger_entries WHERE job_id = %s", (template,)
        ).fetchone()
        assert reservation is not None
        body = json.loads(reservation[0])
        names = [side.account, *(f"acc_fill_{number}" for number in range(1, ACCOUNTS))]
        for name in names[1:]:
            connection.execute(
                "SELECT ledger_open(%s, %s, 'data', %s, 'request', %s, %s, 'owner', NULL)",
                (name, body["tenant"], name, json.dumps(body["cap"]), json.dumps(body["filters"])),
            )
        for position, name in enumerate(names):
            lives = entries * 4 // 11  # of four jobs three have three entries, one has two
            count = lives // 2 if position == 0 else lives // 2 // (ACCOUNTS - 1)
            last = connection.execute(
                "SELECT body, hash FROM ledger_entries WHERE account_id = %s ORDER BY seq DESC "
                "LIMIT 1",
                (name,),
            ).fetchone()
            assert last is not None
            with connection.cursor() as cursor, cursor.copy(COPY) as copy:
                for row in lives_of(json.loads(last[0]), last[1], body, count):
                    copy.write_row(row)
        others = [f"ten_fill_{number}" for number in range(TENANTS - 1)]
        for name in others:
            connection.execute("INSERT INTO tenants (id, name) VALUES (%s, %s)", (name, name))
        connection.execute((Path(__file__).parent / "scale.sql").read_bytes())
        connection.execute("SELECT pg_temp.fill_jobs(%s, %s, %s)", (template, others, jobs))
        connection.execute("SELECT pg_temp.fill_audit_log(%s, %s)", (template, jobs))
        while connection.execute("SELECT EXISTS (SELECT FROM log_pending)").fetchone() == (True,):
            time.sleep(0.5)  # the API takes them in
        connection.execute("VACUUM ANALYZE")
        (side.entries,) = connection.execute("SELECT count(*) FROM ledger_entries").fetchone() or (
            0,
        )
    return time.perf_counter() - began


def lives_of(
    last: dict[str, Any], before: bytes, like: dict[str, Any], count: int
) -> Iterator[tuple[Any, ...]]:
    """Rows that go on with an account's chain: lives of `count` jobs that reserve as `like` did;
    three in four are committed, the others released. That they hold is shown by the verification at
    the end."""
    price = {name: int(units) for name, units in like["price"].items()}
    sums = {
        part: {name: int(units) for name, units in last[part].items()}
        for part in ("totals", "reserved")
    }
    same = {
        name: last[name]
        for name in ("account", "scope", "subject", "tenant", "unit", "cap", "filters")
    }
    cap, filters = (
        json.dumps(last["cap"]),
        json.dumps(last["filters"], sort_keys=True, separators=(",", ":")),
    )
    seq, digest, at = last["seq"], before, last["at"]
    for number in range(count):
        job = f"job_{last['account']}_{number}"
        for kind in ("reserve", "data_touched", "commit") if number % 4 else ("reserve", "release"):
            sign = 1 if kind == "reserve" else -1 if kind in ("commit", "release") else 0
            for name, units in price.items():
                sums["reserved"][name] += sign * units
                sums["totals"][name] += 0 if kind == "commit" else sign * units
            texts = {
                part: {name: str(units) for name, units in sums[part].items()} for part in sums
            }
            body = {
                **same,
                **texts,
                "actor": "owner" if kind == "reserve" else "worker",
                "at": at,
                "events": like["events"] if kind == "reserve" else [],
                "job": job,
                "kind": kind,
                "price": like["price"] if sign else {},
                "reason": None,
                "seq": (seq := seq + 1),
            }
            text = json.dumps(body, sort_keys=True, separators=(",", ":"))
            previous, digest = digest, hashlib.sha256(digest + text.encode()).digest()
            amounts = (json.dumps(texts["totals"]), json.dumps(texts["reserved"]))
            row = (
                last["account"],
                seq,
                last["tenant"],
                kind,
                job,
                text,
                digest,
                previous,
                *amounts,
                cap,
                filters,
                at,
            )
            yield row


def requests(side: Side) -> dict[str, Callable[[], object]]:
    """What is asked of both; the answers are of one size."""
    with side.connect() as connection:
        connection.execute("SET discreet.tenant = '*'")
        tenant, seq = connection.execute(
            "SELECT tenant_id, max(seq) FROM ledger_entries WHERE account_id = %s GROUP BY 1",
            (side.account,),
        ).fetchone() or ("", 0)
        (leaves,) = connection.execute("SELECT count(*) FROM log_leaves").fetchone() or (0,)
    secrets = SecretsFile(side.settings.secrets_path, Keys.of(side.settings)).current
    late = Pages(secrets, tenant, "entries", side.account).token(seq - 100)
    listed = side.get("/v1/jobs?page_size=100")
    job = next(one["id"] for one in listed["jobs"] if one["state"] == "succeeded")
    tile = tile_path((0, leaves // 256 - 1))

    def get(path: str, client: httpx.Client = side.http) -> Callable[[], object]:
        return lambda: client.get(path).raise_for_status()

    def page(path: str) -> Callable[[], object]:
        def look() -> None:
            answer = side.browser.get(path)
            assert answer.status_code == 200, (path, answer.status_code, answer.text)

        return look

    def price() -> None:
        side.http.post("/v1/plans", content=json.dumps(side.body)).raise_for_status()

    return {
        "GET a budget": get(f"/v1/budgets/{side.account}"),
        "GET budgets": get("/v1/budgets"),
        "GET entries, first 100": get(f"/v1/budgets/{side.account}/entries?page_size=100"),
        "GET entries, last 100": get(
            f"/v1/budgets/{side.account}/entries?page_size=100&page_token={late}"
        ),
        "GET jobs, newest 100": get("/v1/jobs?page_size=100"),
        "GET jobs, second 100": get(
            f"/v1/jobs?page_size=50&page_token={listed['next_page_token']}"
        ),
        "GET jobs, 5 failed": get("/v1/jobs?page_size=5&state=failed"),
        "GET jobs, 1 queued": get("/v1/jobs?page_size=1&state=queued"),
        "GET jobs, none running": get("/v1/jobs?state=running"),
        "GET a job": get(f"/v1/jobs/{job}"),
        "GET datasets": get("/v1/datasets"),
        "GET the signed head": get("/v1/ledger/head"),
        "GET the log's checkpoint": get("/v1/log/checkpoint"),
        "GET the log's last whole tile": get(f"/v1/log/tile/{tile}"),
        "GET the audit log": get("/v1/audit-log"),
        "GET of it what nobody did": get("/v1/audit-log?action=tenant.create"),
        "GET operations": get("/v1/operations", side.operator),
        "page of budgets": page("/"),
        "page of a budget": page(f"/budgets/{side.account}"),
        "page of jobs": page("/jobs"),
        "page of a job": page(f"/jobs/{job}"),
        "page of datasets": page("/datasets"),
        "page of the ledger": page("/ledger"),
        "page of the ledger, one kind": page("/ledger?kind=grant"),
        "page of the ledger, one job": page(f"/ledger?job={job}"),
        "page of the audit log": page("/audit"),
        "POST a plan": price,
        "POST a job": side.submit,
    }


def compare(small: Side, large: Side) -> list[dict[str, Any]]:
    """Median milliseconds of each request on both sides, in turns."""
    sides = [requests(small), requests(large)]
    rows = []
    for name in sides[0]:
        seconds: list[list[float]] = [[], []]
        for number in range(ROUNDS + 5):
            for which, side in enumerate(sides):
                began = time.perf_counter()
                side[name]()
                if number >= 5:
                    seconds[which].append(time.perf_counter() - began)
        peer, ours = (1e3 * statistics.median(one) for one in seconds)
        rows.append(
            _row(f"scale: {name}", ours, "ms", "", (f"{SMALL[0]} entries, {SMALL[1]} jobs", peer))
        )
    return rows


def verification(side: Side, file: Path) -> list[dict[str, Any]]:
    """The tenant's whole ledger in one file, and its verification by the command."""
    before = most_memory(side.processes)
    began = time.perf_counter()
    with file.open("wb") as out, side.http.stream("GET", "/v1/ledger/export") as answer:
        answer.raise_for_status()
        for part in answer.iter_bytes():
            out.write(part)
    exported = time.perf_counter() - began
    served = most_memory(side.processes)
    began = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        verifying = subprocess.Popen(
            [sys.executable, "-m", "discreet", "ledger", "verify", str(file), "--json"], stdout=told
        )
        _, status, used = os.wait4(verifying.pid, 0)
        verified = time.perf_counter() - began
        told.seek(0)
        found = json.load(told)
    assert status == 0, found
    entries = found["entries"]
    assert entries > side.entries, found  # jobs were submitted since it was filled
    note = f"{entries} entries, {file.stat().st_size / 1e6:.0f} MB in one file"
    return [
        _row(
            "scale: ledger export",
            entries / exported,
            "1/s",
            f"{note}; the largest process held {before:.0f} MB before and {served:.0f} after",
        ),
        _row(
            "scale: ledger verify",
            entries / verified,
            "1/s",
            f"{verified:.1f} s with start, at most {used.ru_maxrss * 1024 / 1e6:.0f} MB",
        ),
    ]


def repairs(large: Side) -> list[dict[str, Any]]:
    """What every worker asks every few seconds: are there jobs that nobody will come for?"""
    import asyncio

    from discreet.usecases import running as repairs
    from discreet.usecases.services import open_services

    async def go() -> float:
        async with open_services(large.settings) as services:
            await repairs.repair(services)
            began = time.perf_counter()
            for _ in range(10):
                await repairs.repair(services)
            return (time.perf_counter() - began) / 10

    return [
        _row(
            "scale: one look for stranded jobs",
            1e3 * asyncio.run(go()),
            "ms",
            "1 in 100 jobs is queued",
        )
    ]


def workers(server: EmbeddedPostgres, folder: Path) -> list[dict[str, Any]]:
    """Jobs a second by the number of worker processes of one slot, with children that sleep."""
    rates: dict[int, float] = {}
    with ExitStack() as stack:
        side = open_side(stack, server, folder, "workers")
        for count in WORKERS:
            environment = {
                **os.environ,
                "DISCREET_DATABASE_URL": side.settings.database_url or "",
                "DISCREET_STATE": str(side.settings.state),
                "DISCREET_WORKER_CONCURRENCY": "1",
            }
            started = [
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.sleeping", str(SLEEP_SECONDS)],
                    env=environment,
                )
                for _ in range(count)
            ]
            try:
                with side.connect() as connection:
                    while connection.execute(
                        "SELECT count(*) FROM procrastinate_workers"
                    ).fetchone() != (count,):
                        time.sleep(0.05)
                wait(side, [side.submit() for _ in range(2 * count)])  # all are warm
                made = [side.submit() for _ in range(JOBS_A_WORKER * count)]
                wait(side, made)
                with side.connect() as connection:
                    connection.execute("SET discreet.tenant = '*'")
                    (seconds,) = connection.execute(
                        "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM jobs "
                        "WHERE id = ANY(%s)",
                        (made,),
                    ).fetchone() or (0,)
                rates[count] = len(made) / float(seconds)
            finally:
                for process in started:
                    end(process, (signal.SIGTERM, 30.0))
                with side.connect() as connection:
                    connection.execute("DELETE FROM procrastinate_workers")
    alone = (f"{WORKERS[0]} worker", rates[WORKERS[0]])
    note = f"simulated work of {SLEEP_SECONDS} s beside the quantum of 0.25 s"
    return [
        _row(f"scale: jobs a second, {count} workers of one slot", rate, "1/s", note, alone)
        for count, rate in rates.items()
    ]


def wait(side: Side, made: list[str]) -> None:
    for job in made:
        while (found := side.get(f"/v1/jobs/{job}"))["finished_at"] is None:
            time.sleep(0.05)
        assert found["state"] == "succeeded", found


def _row(
    name: str, ours: float, unit: str, note: str, peer: tuple[str, float] | None = None
) -> dict[str, Any]:
    row: dict[str, Any] = {"benchmark": name, "ours": ours, "unit": unit, "note": note}
    if peer is not None:
        row.update(peer=peer[0], peer_value=peer[1], ratio=ours / peer[1])
    return row


def run(
    entries: int = ENTRIES, jobs: int = JOBS, keep: Path | None = None, *, parallel: bool = True
) -> list[dict[str, Any]]:
    """Milliseconds (less is better) with `ratio` large by small; rates with `ratio` several workers
    by one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-scale-")))
        server = stack.enter_context(EmbeddedPostgres(folder / "database"))
        with ExitStack() as both:
            small, large = (open_side(both, server, folder, name) for name in ("small", "large"))
            fill(small, server, *SMALL)
            seconds = fill(large, server, entries, jobs)
            rows = [
                _row(
                    "scale: filling",
                    large.entries / seconds,
                    "1/s",
                    f"entries; {jobs} jobs beside them",
                )
            ]
            rows += compare(small, large) + repairs(large)
            rows += verification(large, keep or folder / "ledger.jsonl")
        return rows + (workers(server, folder) if parallel else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--keep", type=Path, help="where the export shall stay")
    parser.add_argument("--no-workers", action="store_true", help="the first part alone")
    chosen = parser.parse_args()
    table = Table(
        "benchmark", "ours", "peer", "ratio", "note", title="size and number, durable settings"
    )
    for one in run(chosen.entries, chosen.jobs, chosen.keep, parallel=not chosen.no_workers):
        peer = f"{one['peer_value']:.4g} {one['unit']} ({one['peer']})" if "peer" in one else ""
        ratio = f"{one['ratio']:.3g}" if "ratio" in one else ""
        table.add_row(
            one["benchmark"], f"{one['ours']:.4g} {one['unit']}", peer, ratio, one["note"]
        )
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
