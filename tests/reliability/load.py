"""Many submitters of several tenants at once, every kind of problem, two workers, for some minutes.

    python -m tests.reliability.load [--seconds 600] [--submitters 200] [--tenants 10] [--json FILE]

An installation of its own with durable settings. One tenant has half of all submitters, the others
share the rest. Each submitter sends a job, waits until it has ended, thinks for a moment, sends the
next: the queue is never empty. When the time is over they send no more, everything that was
accepted ends, and the books are read (`books.py`): nothing may be lost, nothing charged twice.

Fairness is counted, not timed. While n tenants have work, a job before which p of its own tenant
wait has its turn, if all take turns, after n (p + 1) starts. Its wait is the number of starts that
it saw divided by that: 1 is fair, and no tenant shall wait more than twice as long. Latencies are
of reads (a job, a page of jobs, a budget, a page of entries) by a reader beside the load; memory is
what each part holds (PSS, the shared part divided among those who share it).
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from discreet.installation.postgres import EmbeddedPostgres
from discreet.problems import KINDS
from discreet.storage.migrations import migrate
from tests.conftest import Installation, settings_for
from tests.postgres_fixture import Database
from tests.processes import family, until
from tests.reliability.books import FINAL, check_books
from tests.reliability.chains import superuser_url

WORKERS = 2
HEAVY_SHARE = 0.5
THINK_SECONDS = 0.2
WATCH_SECONDS = 1.0
READ_SECONDS = 0.25
SAMPLE_SECONDS = 5.0
EPSILON = {
    "routing": 0.001,
    "dr_ensemble": 0.01,
    "off_policy_evaluation": 0.01,
    "multi_agent": 0.01,
}
DRAIN_SECONDS = 900.0
"""Most time for what was accepted to end after the last submission."""
FAIR = 2.0


@dataclass
class Report:
    """What the load was and what came of it."""

    seconds: float = 0.0
    submitters: int = 0
    tenants: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    entries: int = 0
    attempts: int = 0
    jobs: dict[str, int] = field(default_factory=dict)
    """By tenant."""
    waits: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By tenant: median and largest wait, in fair shares."""
    reads: dict[str, tuple[int, float, float, float, float]] = field(default_factory=dict)
    """By read: count, then median and 95th percentile (ms) in the first and in the last third of
    the time."""
    memory: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By part: MiB when all was warm (a fifth of the time), and at the end of the load."""

    @property
    def total(self) -> int:
        return sum(self.outcomes.values())


@dataclass
class Customer:
    """A tenant: its key, its datasets, and what became of its jobs."""

    name: str
    http: httpx.AsyncClient
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    account: str = ""
    ended: dict[str, asyncio.Event] = field(default_factory=dict)


class Load:
    """One run on a running installation."""

    def __init__(
        self,
        running: Installation,
        postgres: EmbeddedPostgres,
        say: Callable[[str], None],
        seed: int,
    ) -> None:
        self.running, self.postgres, self.say = running, postgres, say
        self.draw = random.Random(seed)
        self.accepted: dict[str, set[str]] = {}
        self.report = Report()
        self.over = False
        self.latencies: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.samples: list[tuple[float, dict[str, float]]] = []
        self.began = 0.0

    async def run(self, seconds: float, submitters: int, tenants: int) -> Report:
        report = self.report
        report.submitters, report.tenants = submitters, tenants
        async with AsyncExitStack() as stack:
            customers = [await self.open(stack, f"tenant {number}") for number in range(tenants)]
            heavy = max(1, round(HEAVY_SHARE * submitters))
            await self.warm(customers[0])
            self.began = time.monotonic()
            end = self.began + seconds
            others = customers[1:] or customers
            work = [
                *(self.submitter(customers[0], number, end) for number in range(heavy)),
                *(
                    self.submitter(others[n % len(others)], heavy + n, end)
                    for n in range(submitters - heavy)
                ),
            ]
            beside = [
                *(asyncio.create_task(self.watcher(customer)) for customer in customers),
                asyncio.create_task(self.reader(customers[-1])),
                asyncio.create_task(self.sampler()),
            ]
            try:
                async with asyncio.timeout(seconds + DRAIN_SECONDS):
                    await asyncio.gather(*work)
            finally:
                self.over = True
                for task in beside:
                    task.cancel()
                for one in await asyncio.gather(*beside, return_exceptions=True):
                    if isinstance(one, Exception):
                        raise one
        report.seconds = time.monotonic() - self.began
        self._count(seconds)
        return report

    async def open(self, stack: AsyncExitStack, name: str) -> Customer:
        """A tenant with a dataset of every kind that has one."""
        with self.running.client(self.running.operator_key) as operator:
            operator.create_tenant(name)
        key = self.running.key_of("owner", name)
        client = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=self.running.url,
                headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
                timeout=120,
                trust_env=False,
                limits=httpx.Limits(max_connections=1000),
            )
        )
        customer = Customer(name, client)
        for kind, problem in KINDS.items():
            body = problem.example()
            if (dataset := body["problem"].get("dataset")) is not None:
                dataset["cap"] = {"epsilon": 1000, "delta": 0.5}
                answer = await client.post("/v1/datasets", content=json.dumps(dataset))
                assert answer.status_code == 201, answer.text
                body["problem"]["dataset"] = answer.json()["id"]
                body["privacy"] = {**body["privacy"], "epsilon": EPSILON[kind]}
                if "delta" in body["privacy"]:
                    body["privacy"]["delta"] = 1e-7
                customer.account = answer.json()["account"]
            customer.bodies[kind] = body
        return customer

    async def warm(self, customer: Customer) -> None:
        """Wait until all workers are there and one has brought a job of each kind to its end."""
        self.began = time.monotonic()
        watching = asyncio.create_task(self.watcher(customer))
        for kind, body in customer.bodies.items():
            job = await self.submit(customer, f"first {kind}", body)
            self.report.kinds[kind] += 1
            self.accepted[f"first {kind}"] = {job}
            await customer.ended.setdefault(job, asyncio.Event()).wait()
            del customer.ended[job]
        await asyncio.to_thread(
            until, lambda: all(family(worker.pid)[1:] for worker in self.running.workers)
        )
        watching.cancel()
        self.latencies.clear()

    async def submitter(self, customer: Customer, number: int, end: float) -> None:
        draw = random.Random(f"{self.draw.random()}/{number}")
        kinds = sorted(customer.bodies)
        count = 0
        await asyncio.sleep(draw.uniform(0, 1))
        while time.monotonic() < end:
            kind = draw.choice(kinds)
            key = f"load {number}/{count}"
            job = await self.submit(customer, key, customer.bodies[kind])
            count += 1
            self.report.kinds[kind] += 1
            self.accepted.setdefault(key, set()).add(job)
            if count % 20 == 0:  # a client that did not believe the answer
                self.accepted[key].add(await self.submit(customer, key, customer.bodies[kind]))
            await customer.ended.setdefault(job, asyncio.Event()).wait()
            del customer.ended[job]
            await asyncio.sleep(draw.uniform(0, 2 * THINK_SECONDS))

    async def submit(self, customer: Customer, key: str, body: dict[str, Any]) -> str:
        while True:
            answer = await self.ask(
                "submission",
                lambda: customer.http.post(
                    "/v1/jobs", content=json.dumps(body), headers={"Idempotency-Key": key}
                ),
            )
            if answer.status_code == 202:
                return str(answer.json()["id"])
            assert answer.json()["code"] == "request_in_flight", answer.text
            await asyncio.sleep(0.5)

    async def ask(
        self, what: str, request: Callable[[], Awaitable[httpx.Response]]
    ) -> httpx.Response:
        """An answer that means something; a client asks again after 503 and where no answer
        came."""
        while True:
            try:
                answer = await request()
            except httpx.TransportError:
                self.report.answers[f"{what}, no answer"] += 1
            else:
                self.report.answers[f"{what}, {answer.status_code}"] += 1
                if answer.status_code != 503:
                    return answer
            await asyncio.sleep(0.5)

    async def watcher(self, customer: Customer) -> None:
        """Which of the tenant's jobs have ended: one request for all of its submitters."""
        while not self.over:
            await asyncio.sleep(WATCH_SECONDS)
            token: str | None = ""
            missing = set(customer.ended)
            while missing and token is not None:
                query = {"page_size": "200", **({"page_token": token} if token else {})}
                page = (await self.read(customer, "a page of 200 jobs", "/v1/jobs", query)).json()
                for job in page["jobs"]:
                    missing.discard(job["id"])
                    if (
                        job["state"] in FINAL
                        and (event := customer.ended.get(job["id"])) is not None
                    ):
                        event.set()
                token = page["next_page_token"]

    async def reader(self, customer: Customer) -> None:
        job = next(iter(self.accepted.values()), set())
        while not self.over:
            for name, path in (
                ("a budget", f"/v1/budgets/{customer.account}"),
                ("the first 100 entries", f"/v1/budgets/{customer.account}/entries?page_size=100"),
                ("a page of 20 jobs", "/v1/jobs?page_size=20"),
            ):
                await self.read(customer, name, path)
                await asyncio.sleep(READ_SECONDS)
            page = (await self.read(customer, "the newest job", "/v1/jobs?page_size=1")).json()[
                "jobs"
            ]
            job = {page[0]["id"]} if page else job
            for one in job:
                await self.read(customer, "a job", f"/v1/jobs/{one}")

    async def read(
        self, customer: Customer, name: str, path: str, query: dict[str, str] | None = None
    ) -> httpx.Response:
        began = 0.0

        async def get() -> httpx.Response:
            nonlocal began
            began = time.monotonic()
            return await customer.http.get(path, params=query)

        answer = await self.ask("read", get)
        answer.raise_for_status()
        self.latencies[name].append((began - self.began, time.monotonic() - began))
        return answer

    async def sampler(self) -> None:
        while not self.over:
            self.samples.append(
                (time.monotonic() - self.began, await asyncio.to_thread(self.memory))
            )
            done = sum(len(ids) for ids in self.accepted.values())
            self.say(f"{time.monotonic() - self.began:6.0f} s  {done} jobs accepted")
            await asyncio.sleep(SAMPLE_SECONDS)

    def memory(self) -> dict[str, float]:
        """MiB by part."""
        assert self.running.api is not None
        parts = {"API": [self.running.api.pid], "PostgreSQL": family(self.postgres.pid or 0)}
        for number, worker in enumerate(self.running.workers, start=1):
            whole = family(worker.pid)
            parts[f"worker {number}"] = whole[:1]
            parts[f"zygote {number}"] = whole[1:2]
        return {name: sum(_mebibytes(pid) for pid in pids) for name, pids in parts.items()}

    def _count(self, seconds: float) -> None:
        report = self.report
        books = check_books(superuser_url(self.postgres, self.running.settings), self.accepted)
        report.outcomes, report.entries, report.attempts = (
            books.outcomes,
            books.entries,
            books.attempts,
        )
        report.waits = {
            name: (statistics.median(one), max(one)) for name, one in fair_waits(books.jobs).items()
        }
        report.jobs = dict(Counter(row["tenant_id"] for row in books.jobs.values()))
        for name, found in sorted(self.latencies.items()):
            thirds = [
                sorted(1e3 * took for at, took in found if low <= at / seconds < high)
                for low, high in ((0, 1 / 3), (2 / 3, 1))
            ]
            if all(thirds):
                first, last = (
                    (statistics.median(one), one[min(len(one) - 1, int(0.95 * len(one)))])
                    for one in thirds
                )
                report.reads[name] = (len(found), *first, *last)
        during = [parts for at, parts in self.samples if 0.2 * seconds <= at <= seconds]
        if during:
            report.memory = {
                name: (during[0][name], during[-1][name])
                for name in during[0]
                if name in during[-1]
            }


def fair_waits(jobs: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
    """By tenant, the wait of each of its jobs in fair shares.

    Tenants at work: those that had a job waiting when it came or sent one while it waited. Two more
    starts are allowed for what was under way: a start is seen when its transaction ends.
    """
    queued = sorted(
        (row for row in jobs.values() if row["started_at"] is not None),
        key=lambda row: row["created_at"],
    )
    starts = sorted(row["started_at"] for row in queued)
    by_tenant: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in queued:
        by_tenant[row["tenant_id"]].append(row)
    found: dict[str, list[float]] = defaultdict(list)
    for row in queued:
        came, began = row["created_at"], row["started_at"]
        seen = bisect.bisect_left(starts, began) - bisect.bisect_right(starts, came)
        before = at_work = 0
        for tenant, theirs in by_tenant.items():
            waited = [
                one for one in theirs if one["started_at"] > came and one["created_at"] < began
            ]
            at_work += bool(waited)
            if tenant == row["tenant_id"]:
                before = sum(one["created_at"] < came for one in waited)
        found[row["tenant_id"]].append(max(0, seen - 2) / (at_work * (before + 1)))
    return dict(found)


def _mebibytes(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


@contextmanager
def installation_of_its_own(
    state: Path, **values: Any
) -> Iterator[tuple[Installation, EmbeddedPostgres]]:
    """PostgreSQL with durable settings, an API, and two workers."""
    with ExitStack() as stack:
        postgres = stack.enter_context(EmbeddedPostgres(state / "database"))
        database = Database("discreet", postgres.owner_url, postgres.app_url)
        settings = settings_for(database, state, **values)
        migrate(settings)
        running = Installation(settings, alone=True)
        stack.callback(running.stop)
        running.make_keys()
        running.start_api()
        for _ in range(WORKERS):
            running.start_worker()
        yield running, postgres


def load(
    state: Path,
    *,
    seconds: float,
    submitters: int,
    tenants: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    with installation_of_its_own(state) as (running, postgres):
        return asyncio.run(Load(running, postgres, say, seed).run(seconds, submitters, tenants))


def show(report: Report, console: Console) -> None:
    table = Table(title="the load", title_justify="left", show_header=False)
    for name, value in (
        ("submitters, tenants, workers", f"{report.submitters}, {report.tenants}, {WORKERS}"),
        ("seconds, with the wait for the last", f"{report.seconds:.0f}"),
        ("jobs a second", f"{report.total / report.seconds:.2f}"),
        *((f"jobs, {kind}", str(count)) for kind, count in sorted(report.kinds.items())),
        *(
            (f"jobs that {outcome}", str(count))
            for outcome, count in sorted(report.outcomes.items())
        ),
        *((f"answers, {status}", str(count)) for status, count in sorted(report.answers.items())),
        ("attempts", str(report.attempts)),
        ("ledger entries verified", str(report.entries)),
    ):
        table.add_row(name, value)
    console.print(table)
    table = Table(
        "tenant",
        "jobs",
        "wait, median",
        "wait, largest",
        title="waits in fair shares",
        title_justify="left",
    )
    for tenant, (median, most) in sorted(
        report.waits.items(), key=lambda item: -report.jobs[item[0]]
    ):
        table.add_row(tenant[:12], str(report.jobs[tenant]), f"{median:.2f}", f"{most:.2f}")
    console.print(table)
    table = Table(
        "read",
        "count",
        "p50, p95 first third",
        "p50, p95 last third",
        title="reads, ms",
        title_justify="left",
    )
    for name, (count, *figures) in report.reads.items():
        table.add_row(
            name,
            str(count),
            "{:.0f}, {:.0f}".format(*figures[:2]),
            "{:.0f}, {:.0f}".format(*figures[2:]),
        )
    console.print(table)
    table = Table("part", "warm", "at the end", title="memory, MiB", title_justify="left")
    for name, (warm, end) in report.memory.items():
        table.add_row(name, f"{warm:.0f}", f"{end:.0f}")
    console.print(table)


def as_json(report: Report) -> str:
    return json.dumps(vars(report), indent=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--submitters", type=int, default=200)
    parser.add_argument("--tenants", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="discreet-load-"))
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output, (folder / "log").open("wb") as log:
        console = Console(file=output, width=110)
        console.print(
            f"load: {chosen.submitters} submitters for {chosen.seconds:.0f} s; all parts log to "
            f"{folder}/log"
        )
        for descriptor in (1, 2):  # the parts inherit these
            os.dup2(log.fileno(), descriptor)
        try:
            report = load(
                folder,
                seconds=chosen.seconds,
                submitters=chosen.submitters,
                tenants=chosen.tenants,
                seed=chosen.seed,
                say=console.print,
            )
        except BaseException:
            console.print_exception()
            return 1
        show(report, console)
        if chosen.json is not None:
            chosen.json.write_text(as_json(report))
        unfair = {name: most for name, (_, most) in report.waits.items() if most > FAIR}
        console.print(
            "nothing lost, nothing charged twice; "
            + (f"unfair to {unfair}" if unfair else f"nobody waited more than {FAIR:g} fair shares")
        )
    shutil.rmtree(folder)
    return int(bool(unfair))


if __name__ == "__main__":
    sys.exit(main())
