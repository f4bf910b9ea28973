"""What a reservation costs: the transaction that accepts a job against a bare transaction of three
inserts.

    python -m benchmarks.ledger

Ours is the whole of what `POST /v1/jobs` writes (idempotency record, reservation with its
hash-chained entry on every account, job, queue entry, first event), called as the use case calls
it, without HTTP: submitters who meet on an account go together, as in an API process. The use case
plans one problem again and again, so its plan is kept; it logs as the service does, to nowhere. The
peer inserts three rows of the same sizes into plain tables, with nothing to check and nothing to
lock. Same server, durable settings, same driver and pool, in short turns; a ratio is the median of
the ratios of neighbouring turns, since machines have other work too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from discreet.installation.database_roles import APP
from discreet.installation.prepared import embedded, running
from discreet.observability import telemetry
from discreet.problems.numbers import Privacy
from discreet.problems.routing.problem import Routing
from discreet.settings import Settings
from discreet.storage import acceptance, ledger
from discreet.storage.database import libpq_url
from discreet.storage.identifiers import new_id
from discreet.storage.tenants import Principal
from discreet.usecases import access, budgets
from discreet.usecases import jobs as job_cases
from discreet.usecases.services import Services, open_services
from discreet_client.client import Client

CROWD = 16
ACCOUNTS = 64
ROUNDS = 12
SECONDS = 0.4
READS = 300
BARE = "a bare transaction of three inserts"
AT_ONCE = "three inserts in one statement, one round trip"

TABLES = f"""
CREATE TABLE bench_jobs (id text PRIMARY KEY, problem jsonb, plan jsonb);
CREATE TABLE bench_entries (id text PRIMARY KEY, body text);
CREATE TABLE bench_requests (id text PRIMARY KEY, digest bytea);
GRANT SELECT, INSERT ON bench_jobs, bench_entries, bench_requests TO {APP};
"""
INSERTS = (
    text("INSERT INTO bench_jobs VALUES (:id, CAST(:problem AS jsonb), CAST(:plan AS jsonb))"),
    text("INSERT INTO bench_entries VALUES (:id, :body)"),
    text("INSERT INTO bench_requests VALUES (:id, :digest)"),
)
INSERT_AT_ONCE = text(
    """
    WITH job AS (
           INSERT INTO bench_jobs VALUES (:id, CAST(:problem AS jsonb), CAST(:plan AS jsonb))),
         entry AS (INSERT INTO bench_entries VALUES (:id, :body))
    INSERT INTO bench_requests VALUES (:id, :digest) RETURNING id
    """
)

Work = Callable[[], Awaitable[object]]


@dataclass
class Measured:
    """Calls a second in each turn, and the seconds of every call."""

    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def percentile(self, share: float) -> float:
        """In milliseconds."""
        return 1e3 * sorted(self.seconds)[int(share * (len(self.seconds) - 1))]


class Submissions:
    """One registered dataset, one request on it, planned once."""

    def __init__(
        self, services: Services, principal: Principal, problem: Routing, privacy: Privacy
    ) -> None:
        self.services, self.principal, self.problem, self.privacy = (
            services,
            principal,
            problem,
            privacy,
        )
        self.draw = random.Random(1)
        self.keys = itertools.count()

    async def prepare(self) -> None:
        planned = await self.services.planner.plan(
            self.services.database, self.principal, self.problem, self.privacy, None
        )
        assert planned.dataset is not None
        self.own = planned.accounts[0]
        self.accounts = [self.own]
        self.order = acceptance.JobOrder(
            key="",
            digest=bytes(32),
            job_id="",
            dataset_id=planned.dataset.dataset_id,
            kind=self.problem.kind,
            problem=planned.texts.problem,
            plan=planned.texts.plan_text,
            seed=None,
            steps=planned.plan.resources.steps,
            price=planned.plan.total.to_json(),
            events=planned.texts.events,
        )
        async with self.services.database.transaction(self.principal.tenant_id) as connection:
            standing = (await ledger.balances(connection, [self.own]))[self.own]
            cap = budgets.cap_of(standing)
            for _ in range(ACCOUNTS - 1):
                account = new_id("acc")
                await ledger.open_account(
                    connection,
                    account,
                    tenant_id=self.principal.tenant_id,
                    scope="data",
                    subject=account,
                    unit="request",
                    cap=budgets.cap_amounts(cap),
                    filters=budgets.filter_limits(cap),
                    actor="benchmark",
                )
                self.accounts.append(account)
        self.bare_values = {
            "problem": self.order.problem,
            "plan": self.order.plan,
            "body": "x" * 1200,  # about an entry's canonical JSON
            "digest": bytes(32),
        }

    async def submit(self, accounts: list[str]) -> None:
        order = replace(self.order, key=f"bench {next(self.keys)}", job_id=new_id("job"))
        found = await acceptance.submit(
            self.services.database,
            order,
            tenant_id=self.principal.tenant_id,
            principal=self.principal.name,
            accounts=accounts,
        )
        assert found.outcome == "accepted", found

    def on(self, count: int) -> Work:
        """The transaction on `count` accounts, always the same."""
        return lambda: self.submit(self.accounts[:count])

    def on_any(self) -> Work:
        return lambda: self.submit([self.draw.choice(self.accounts)])

    async def whole(self) -> None:
        """The use case: plan, then the transaction."""
        key = f"bench {next(self.keys)}"
        await job_cases.submit(
            self.services,
            self.principal,
            idempotency_key=key,
            request=key.encode(),
            problem=self.problem,
            privacy=self.privacy,
            seed=None,
        )

    async def bare(self) -> None:
        values = {"id": new_id("job"), **self.bare_values}
        async with self.services.database.transaction(self.principal.tenant_id) as connection:
            for insert in INSERTS:
                await connection.execute(insert, values)

    async def at_once(self) -> None:
        await self.services.database.ask(INSERT_AT_ONCE, {"id": new_id("job"), **self.bare_values})


async def turn(measured: Measured, work: Work, crowd: int, seconds: float = SECONDS) -> None:
    """`crowd` callers at once for some time."""
    count = 0
    begun = time.perf_counter()

    async def caller() -> None:
        nonlocal count
        while (started := time.perf_counter()) - begun < seconds:
            await work()
            measured.seconds.append(time.perf_counter() - started)
            count += 1

    await asyncio.gather(*(caller() for _ in range(crowd)))
    measured.rates.append(count / (time.perf_counter() - begun))


async def measure(settings: Settings, problem: Routing, url: str, key: str) -> list[dict[str, Any]]:
    async with open_services(settings.model_copy(update={"pool_size": CROWD})) as services:
        principal = await access.local_owner(services)
        made = Submissions(services, principal, problem, Privacy(epsilon=Decimal("0.001")))
        await made.prepare()
        works: dict[tuple[str, int], Work] = {
            (name, crowd): work
            for crowd in (1, CROWD)
            for name, work in (
                ("bare", made.bare),
                ("one", made.on(1)),
                ("at once", made.at_once),
                ("three", made.on(3)),
                ("many", made.on_any()),
                ("whole", made.whole),
            )
        }
        found = {name: Measured() for name in works}
        for name, work in works.items():  # prepared statements, warm pool
            await turn(Measured(), work, name[1], 0.3)
        for _ in range(ROUNDS):
            for name, work in works.items():
                await turn(found[name], work, name[1])
        http, direct = await reads(services, principal, made.own, url, key)

    def against(title: str, name: str, crowd: int, peer: str = "bare") -> dict[str, Any]:
        peer_name = BARE if peer == "bare" else AT_ONCE
        note = "one submitter" if crowd == 1 else f"{crowd} submitters at once"
        ours, theirs = found[name, crowd], found[peer, crowd]
        answer = row(title, ours.rate, "1/s", note, peer_name, theirs.rate)
        answer["ratio"] = statistics.median(
            a / b for a, b in zip(ours.rates, theirs.rates, strict=True)
        )
        return answer

    contended, free = found["one", CROWD], found["bare", CROWD]
    note = f"{CROWD} submitters on one account"
    return [
        against("accept a job, one account", "one", 1),
        against("accept a job, one account, contended", "one", CROWD),
        against("accept a job, three accounts", "three", 1),
        against("accept a job, three accounts, contended", "three", CROWD),
        against(f"accept a job, any of {ACCOUNTS} accounts", "many", CROWD),
        against("accept a job, one account, by round trip", "one", 1, "at once"),
        against("accept a job, one account, contended, by round trip", "one", CROWD, "at once"),
        against("the whole use case, one account", "whole", CROWD),
        row("accept a job, p50", contended.percentile(0.5), "ms", note, BARE, free.percentile(0.5)),
        row(
            "accept a job, p99", contended.percentile(0.99), "ms", note, BARE, free.percentile(0.99)
        ),
        row(
            "GET a budget, p50",
            http.percentile(0.5),
            "ms",
            "one client",
            "the use case",
            direct.percentile(0.5),
        ),
    ]


async def reads(
    services: Services, principal: Principal, account: str, url: str, key: str
) -> tuple[Measured, Measured]:
    """The same budget over HTTP and from the use case."""
    over_http, direct = Measured(), Measured()
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as http:

        async def get() -> None:
            (await http.get(f"/v1/budgets/{account}")).raise_for_status()

        works: tuple[tuple[Measured, Work], ...] = (
            (over_http, get),
            (direct, lambda: budgets.one_budget(services, principal, account)),
        )
        for number in range(READS):
            for measured, work in works:
                started = time.perf_counter()
                await work()
                if number >= READS // 10:
                    measured.seconds.append(time.perf_counter() - started)
    return over_http, direct


def row(
    name: str, ours: float, unit: str, note: str, peer: str, peer_value: float
) -> dict[str, Any]:
    return {
        "benchmark": name,
        "ours": ours,
        "peer": peer,
        "peer_value": peer_value,
        "ratio": ours / peer_value,
        "unit": unit,
        "note": note,
    }


def run() -> list[dict[str, Any]]:
    """Rates (more is better) and milliseconds (less is better); `ratio` is ours by the peer's."""
    body = Routing.example()
    spec = body["problem"].pop("dataset")
    with (
        tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder,
        embedded(Settings(state=Path(folder) / "database", workers=0)) as settings,
    ):
        assert settings.migration_database_url is not None
        with psycopg.connect(libpq_url(settings.migration_database_url)) as connection:
            connection.execute(TABLES.encode())
        served = settings.model_copy(
            update={"state": Path(folder) / "served", "secrets_file": settings.secrets_path}
        )
        with running(served) as ready:
            key = (served.state / "owner.key").read_text().strip()
            with Client(ready["api"], key) as client:
                registered = client.register({**spec, "cap": {"epsilon": 1000, "delta": 0}})
            problem = Routing.model_validate({**body["problem"], "dataset": registered["id"]})
            with _written_to(os.devnull):
                return asyncio.run(measure(settings, problem, ready["api"], key))


@contextlib.contextmanager
def _written_to(path: str) -> Iterator[None]:
    """Log lines are made and written as in the service, but not to the terminal."""
    try:
        with open(path, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            telemetry.configure()
            yield
    finally:
        telemetry.configure()


def main() -> None:
    table = Table(
        "benchmark", "ours", "peer", "ratio", "note", title="the ledger, durable settings"
    )
    for one in run():
        peer = f"{one['peer_value']:.4g} {one['unit']} ({one['peer']})"
        table.add_row(
            one["benchmark"],
            f"{one['ours']:.4g} {one['unit']}",
            peer,
            f"{one['ratio']:.3g}",
            one["note"],
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
