"""A running installation whose parts are hit at random while clients submit jobs; nothing may be
lost or charged twice.

    python -m tests.reliability.chaos [--jobs 60] [--sessions 8] [--seed 1]

PostgreSQL, an API and two workers of its own run as real processes. While jobs come in, parts are
killed with SIGKILL, or stopped and continued with SIGSTOP and SIGCONT, and fault points kill the
API and the workers between any two statements (`discreet.observability.faults`). What has died is
started again, as a supervisor would. Clients do what clients should: they repeat a request with the
same Idempotency-Key until it is answered. Then federated sessions have their own storm
(`sessions.py`).

Run by root, all of it, logs included, lies on a small file system that nobody else sees, which is
filled to the last byte for some seconds and emptied again.

The seed fixes the order of faults, jobs and draws; what a fault meets depends on the machine, as it
does in life.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from discreet.errors import Unavailable
from discreet.installation.postgres import EmbeddedPostgres
from discreet.observability.faults import SWITCH
from discreet.storage.migrations import migrate
from tests import bodies
from tests.conftest import Installation, settings_for
from tests.postgres_fixture import Database
from tests.processes import command, family
from tests.reliability import sessions
from tests.reliability.books import FINAL, check_books
from tests.reliability.chains import superuser_url

WORKERS = 2
CLIENTS = 6
DATASETS = 3
EPSILON = 0.01
ZONES, NODES = 8, 16  # enough to keep a child busy until it is hit
CANCELLED_SHARE = 0.1
LEASE_SECONDS = 2.0
MAX_ATTEMPTS = 1000  # no job fails for the kills it met: every one that nobody cancels must succeed

ASK_AGAIN = 4
"""One in so many jobs asks the first one again, for nothing."""
API_POINTS = "submit.*=0.05 statement=0.002"
WORKER_POINTS = (
    "claim.*=0.02 touch.*=0.04 release.*=0.04 publish.*=0.04 runner.*=0.03 statement=0.001"
)

LONG = {
    "worker killed": 10,
    "worker stopped": 10,
    "zygote killed": 8,
    "zygote stopped": 6,
    "child killed": 14,
    "child stopped": 8,
    "postmaster killed": 3,
    "postmaster stopped": 3,
    "backend killed": 4,
    "API killed": 8,
    "API stopped": 4,
}
ON_A_SMALL_DISK = {**LONG, "disk filled": 10}
DISK_MEGABYTES = 700
"""Of the small file system: PostgreSQL with its log needs some 200."""
SHORT = {
    "worker killed": 1,
    "worker stopped": 1,
    "zygote killed": 1,
    "zygote stopped": 1,
    "child killed": 2,
    "child stopped": 1,
    "postmaster killed": 1,
    "postmaster stopped": 1,
    "backend killed": 1,
    "API killed": 1,
    "API stopped": 1,
}


@dataclass
class Report:
    """What was done to the installation, and what came of the jobs."""

    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    """What clients heard: HTTP statuses, and requests that got no answer."""
    outcomes: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    entries: int = 0


class Customer(threading.Thread):
    """One client: submits its jobs one by one, cancels a few, waits for their ends."""

    def __init__(self, chaos: Chaos, numbers: list[int], seed: str) -> None:
        super().__init__(daemon=True)
        self.chaos = chaos
        self.numbers = numbers
        self.draw = random.Random(seed)
        self.accepted: dict[str, set[str]] = {}
        self.cancelled: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self.chaos.running.http() as http:
                http.timeout = httpx.Timeout(10.0)
                for number in self.numbers:
                    self.one(http, number)
        except BaseException as error:
            self.error = error

    def one(self, http: httpx.Client, number: int) -> None:
        self.until(lambda: self.chaos.progress >= number / self.chaos.jobs or None)
        key = f"chaos {number}"
        question = bodies.job(
            self.draw.choice(self.chaos.datasets), EPSILON, network=bodies.network(NODES)
        )
        if number % ASK_AGAIN == 0:
            question = {
                "problem": {**question["problem"], "dataset": None, "release": self.chaos.first}
            }
        body = json.dumps(question)
        ids = self.accepted.setdefault(key, set())

        def submit() -> str | None:
            answer = self.ask(
                http, "POST", "/v1/jobs", content=body, headers={"Idempotency-Key": key}
            )
            return (
                str(answer.json()["id"])
                if answer is not None and answer.status_code == 202
                else None
            )

        ids.add(self.until(submit))
        ids.add(self.until(submit))  # a client that did not believe the answer
        (job,) = ids
        if self.draw.random() < CANCELLED_SHARE:
            time.sleep(self.draw.uniform(0, 2))
            self.cancelled.add(job)
            self.until(lambda: self.ask(http, "POST", f"/v1/jobs/{job}/cancel"))
        self.until(lambda: self.ended(http, job))

    def ended(self, http: httpx.Client, job: str) -> bool:
        answer = self.ask(http, "GET", f"/v1/jobs/{job}")
        return answer is not None and answer.json()["state"] in FINAL

    def ask(
        self, http: httpx.Client, method: str, path: str, **request: Any
    ) -> httpx.Response | None:
        """An answer that means something; None: ask again."""
        try:
            answer = http.request(method, path, **request)
        except httpx.TransportError:
            self.answers["no answer"] += 1
            return None
        problem = answer.json().get("code") if answer.is_error else None
        self.answers[f"{answer.status_code} {problem}" if problem else str(answer.status_code)] += 1
        if answer.status_code >= 500 or problem == "request_in_flight":
            return None
        assert not answer.is_error or problem == "job_ended", answer.text
        return answer

    def until(self, what: Callable[[], Any]) -> Any:
        while not (found := what()):
            if self.chaos.over:
                raise TimeoutError("the deadline has passed")
            time.sleep(0.1)
        return found


class Chaos:
    """The installation and the storm over it. Everything that starts processes happens on the
    caller's thread."""

    def __init__(
        self,
        running: Installation,
        postgres: EmbeddedPostgres,
        plan: dict[str, int],
        jobs: int,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self.running = running
        self.postgres = postgres
        self.jobs = jobs
        self.seed = seed
        self.say = say
        self.draw = random.Random(seed)
        self.plan = [name for name, count in plan.items() for _ in range(count)]
        self.draw.shuffle(self.plan)
        self.progress = 0.0
        self.over = False
        self.datasets: list[str] = []
        self.first = ""
        self.report = Report()
        self.customers: list[Customer] = []
        self._log = running.settings.state / "faults.log"
        self._starts = itertools.count(1)
        self._stopped: dict[int, float] = {}
        self._postgres_due = 0.0
        self._filler = running.settings.state / "filler"
        self._empty_at = math.inf
        self._storm = False

    def run(self, deadline_seconds: float) -> Report:
        """All jobs through the storm; AssertionError when an invariant is broken at the end."""
        began = time.monotonic()
        with self.running.client() as client:
            for _ in range(DATASETS):
                self.datasets.append(
                    client.register(bodies.dataset(zones=ZONES, epsilon=(self.jobs + 1) * EPSILON))[
                        "id"
                    ]
                )
            self._storm = True
            for _ in range(WORKERS):
                self._start_worker()
            body = bodies.job(self.datasets[0], EPSILON, network=bodies.network(NODES))
            self.first = first = client.submit(body, idempotency_key="chaos first")["id"]
            while (
                client.job(first)["state"] not in FINAL
            ):  # before it nothing is warm that could be hit
                self._wait(0.1)
        self._hit_api(signal.SIGKILL)  # the next one has fault points
        share = [list(range(self.jobs))[start::CLIENTS] for start in range(CLIENTS)]
        self.customers = customers = [
            Customer(self, numbers, f"{self.seed}/{place}") for place, numbers in enumerate(share)
        ]
        for customer in customers:
            customer.start()
        try:
            for done, fault in enumerate(self.plan, start=1):
                self._wait(self.draw.uniform(0.1, 1.0))
                if time.monotonic() - began > deadline_seconds:
                    break
                self._inject(fault)
                self.progress = max(self.progress, done / len(self.plan))
            self.progress = 1.0
            self._storm = (
                False  # processes with fault points live on, those that start from now on have none
            )
            while any(customer.is_alive() for customer in customers):
                if time.monotonic() - began > deadline_seconds:
                    break
                self._wait(0.1)
        finally:
            self.over = True
            self._continue(everything=True)
        for customer in customers:
            while customer.is_alive():
                self._wait(0.1)
            self.report.answers += customer.answers
            if customer.error is not None:
                raise AssertionError("a client gave up") from customer.error
        if self._log.exists():
            self.report.points += Counter(self._log.read_text().split())
        accepted = {"chaos first": {first}}
        accepted |= {key: ids for customer in customers for key, ids in customer.accepted.items()}
        self._verify(accepted, {job for customer in customers for job in customer.cancelled})
        self.report.seconds = time.monotonic() - began
        return self.report

    # -- the storm ---------------------------------------------------------------------------------

    def _inject(self, fault: str) -> None:
        part, what = fault.rsplit(" ", 1)
        number = signal.SIGKILL if what == "killed" else signal.SIGSTOP
        if part == "disk":
            self._fill()
        elif part == "API":
            self._hit_api(number)
        elif part == "postmaster":
            # Killed, or stopped as `pg_ctl stop -m immediate` does it; both times the next one
            # recovers from its log.
            if (pid := self.postgres.pid) is not None and self.postgres.poll() is None:
                self._strike(pid, signal.SIGQUIT if what == "stopped" else number, fault)
                self.postgres.wait(60)
                self._postgres_due = time.monotonic() + self.draw.uniform(0, 1)
        elif found := self._find(part):
            self._strike(found, number, fault)

    def _fill(self) -> None:
        """Leave no room on the disk for some seconds: for tables, logs and spool alike."""
        with suppress(OSError), self._filler.open("ab", buffering=0) as out:
            while True:
                out.write(bytes(1 << 14))
        self._empty_at = time.monotonic() + self.draw.uniform(0.5, 2.5 * LEASE_SECONDS)
        self.report.faults["disk filled"] += 1
        self.say(f"{sum(self.report.faults.values()):4} disk filled")

    def _find(self, part: str, seconds: float = 30.0) -> int | None:
        """A process of this kind that is not stopped. Children live for moments: it waits, and lets
        more jobs in."""
        now = time.monotonic()
        end, more = now + seconds, now + 0.5
        while now < end:
            if not any(customer.is_alive() for customer in self.customers):
                return None
            if found := [pid for pid in self._candidates(part) if pid not in self._stopped]:
                return self.draw.choice(found)
            self._tend()
            now = time.monotonic()
            if now > more:
                self.progress, more = self.progress + 1 / self.jobs, more + 1.0
        return None

    def _candidates(self, part: str) -> list[int]:
        if part == "backend":
            return family(self.postgres.pid)[1:] if self.postgres.pid else []
        workers = [worker.pid for worker in self.running.workers if worker.poll() is None]
        if part == "worker":
            return workers
        below = [pid for worker in workers for pid in family(worker)[1:2]]
        zygotes = [pid for pid in below if "discreet.isolation.zygote" in command(pid)]
        if part == "zygote":
            return zygotes
        watch = time.monotonic() + 0.1
        while time.monotonic() < watch:  # without a pause: they come and go
            if children := [pid for zygote in zygotes for pid in family(zygote)[1:]]:
                return children
        return []

    def _hit_api(self, number: signal.Signals) -> None:
        api = self.running.api
        if api is not None and api.poll() is None:
            self._strike(
                api.pid, number, f"API {'killed' if number == signal.SIGKILL else 'stopped'}"
            )

    def _strike(self, pid: int, number: signal.Signals, name: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            self.report.faults[name] += 1
            self.say(f"{sum(self.report.faults.values()):4} {name}")
            if number == signal.SIGSTOP:
                self._stopped[pid] = time.monotonic() + self.draw.uniform(0.5, 2.5 * LEASE_SECONDS)

    def _continue(self, *, everything: bool = False) -> None:
        if everything or time.monotonic() >= self._empty_at:
            self._filler.unlink(missing_ok=True)
            self._empty_at = math.inf
        for pid, until in list(self._stopped.items()):
            if everything or time.monotonic() >= until:
                del self._stopped[pid]
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._tend()
            time.sleep(0.02)

    def _tend(self) -> None:
        """Start again what has died; continue what was stopped for long enough."""
        self._continue()
        if self.postgres.poll() is not None and time.monotonic() >= self._postgres_due:
            self._postgres_due = time.monotonic() + 0.5
            try:
                self.postgres.start()
            except (Unavailable, OSError):
                # Without room it recovers from nothing. It is asked again, as by a supervisor.
                assert self._empty_at < math.inf, "PostgreSQL does not start, and there is room"
        if self.running.api is not None and self.running.api.poll() is not None:
            self.running.extra = self._points(API_POINTS)
            self.running.spawn_api()
        for worker in list(self.running.workers):
            if worker.poll() is not None:
                self.running.workers.remove(worker)
                self._start_worker()

    def _start_worker(self) -> None:
        self.running.extra = self._points(WORKER_POINTS)
        self.running.start_worker()

    def _points(self, text: str) -> dict[str, str]:
        if not self._storm:
            return {}
        return {
            "DISCREET_FAULTS_SWITCH": SWITCH,
            "DISCREET_FAULTS": text,
            "DISCREET_FAULTS_LOG": str(self._log),
            "DISCREET_FAULTS_SEED": f"{self.seed}/{next(self._starts)}",
        }

    # -- the books ---------------------------------------------------------------------------------

    def _verify(self, accepted: dict[str, set[str]], cancelled: set[str]) -> None:
        assert len(accepted) == self.jobs + 1, "a request was never accepted"
        books = check_books(
            superuser_url(self.postgres, self.running.settings), accepted, cancelled=cancelled
        )
        self.report.outcomes, self.report.attempts, self.report.entries = (
            books.outcomes,
            books.attempts,
            books.entries,
        )


@contextmanager
def installation_of_its_own(state: Path) -> Iterator[tuple[Installation, EmbeddedPostgres]]:
    """PostgreSQL with durable settings, and an API; workers come with the storm."""
    with ExitStack() as stack:
        postgres = stack.enter_context(EmbeddedPostgres(state / "database"))
        database = Database("discreet", postgres.owner_url, postgres.app_url)
        settings = settings_for(
            database, state, lease_seconds=LEASE_SECONDS, max_attempts=MAX_ATTEMPTS
        )
        migrate(settings)
        running = Installation(settings, alone=True)
        stack.callback(running.stop)
        running.make_keys()
        running.start_api()
        yield running, postgres


def storm(
    state: Path,
    plan: dict[str, int],
    *,
    jobs: int,
    seed: int,
    deadline_seconds: float,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """One run on an installation of its own in the folder `state`; `say` hears of each fault."""
    with installation_of_its_own(state) as (running, postgres):
        return Chaos(running, postgres, plan, jobs, seed, say).run(deadline_seconds)


def show(report: Report, console: Console) -> None:
    for title, counts in (
        ("faults injected", report.faults),
        ("fault points that killed", report.points),
        ("what clients heard", report.answers),
        ("jobs", report.outcomes),
    ):
        table = Table(
            title=f"{title}: {sum(counts.values())}", title_justify="left", show_header=False
        )
        table.add_column(min_width=34)
        table.add_column(justify="right")
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(name, str(count))
        console.print(table)
    console.print(
        f"{report.entries} ledger entries verified; {report.attempts} attempts; "
        f"{report.seconds:.0f} s; "
        "nothing lost, nothing charged twice, nothing free after touch"
    )


def show_sessions(report: sessions.Report, console: Console) -> None:
    table = Table(title="federated sessions", title_justify="left", show_header=False)
    for name, count in (
        *report.faults.items(),
        *sorted(report.points.items()),
        *report.outcomes.items(),
    ):
        table.add_row(name, str(count))
    console.print(table)
    console.print(
        f"{report.entries} ledger entries verified; {report.agents} agents a session, "
        f"{report.rounds} rounds, each"
        f" decided once; {report.seconds:.0f} s; every agent charged once"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed when left out")
    parser.add_argument(
        "--sessions", type=int, default=8, help="federated sessions after the jobs; 0: none"
    )
    parser.add_argument("--short", action="store_true", help="the plan of the tests")
    parser.add_argument("--small-disk", help=argparse.SUPPRESS)  # where it is mounted already
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    folder = Path(chosen.small_disk or tempfile.mkdtemp(prefix="discreet-chaos-"))
    unshare = Path("/usr/bin/unshare")
    if not (chosen.small_disk or chosen.short) and os.geteuid() == 0 and unshare.exists():
        size = f"mode=0700,size={DISK_MEGABYTES}m"
        mount = f'mount -t tmpfs -o {size} tmpfs "$1" && shift && exec "$@"'
        again = [sys.executable, "-m", "tests.reliability.chaos", "--small-disk", str(folder)]
        command = [str(unshare), "--mount", "sh", "-ec", mount, "sh", str(folder), *again]
        return subprocess.run([*command, *sys.argv[1:]], check=False).returncode
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output, (folder / "log").open("wb") as log:
        console = Console(file=output)
        console.print(f"chaos: {chosen.jobs} jobs, seed {seed}; all parts log to {folder}/log")
        for descriptor in (1, 2):  # the parts inherit these
            os.dup2(log.fileno(), descriptor)
        plan = SHORT if chosen.short else ON_A_SMALL_DISK if chosen.small_disk else LONG
        try:
            report = storm(
                folder, plan, jobs=chosen.jobs, seed=seed, deadline_seconds=1800, say=console.print
            )
        except BaseException:
            console.print_exception()
            return 1
        show(report, console)
        if chosen.sessions:
            console.print(f"federated sessions: {chosen.sessions} of 3 agents, 12 rounds")
            try:
                found = sessions.storm(
                    folder / "sessions",
                    sessions=chosen.sessions,
                    agents=3,
                    rounds=12,
                    kills=chosen.sessions,
                    seed=seed,
                    deadline_seconds=1200,
                    say=console.print,
                )
            except BaseException:
                console.print_exception()
                return 1
            show_sessions(found, console)
    shutil.rmtree(folder, ignore_errors=chosen.small_disk is not None)  # it is mounted there
    return 0


if __name__ == "__main__":
    sys.exit(main())
