"""Federated sessions through a storm: rpc and API processes die between any two steps while agents
work together.

Part of `make chaos`. Each agent is a process of its own. The rpc process dies at the fault points
of a session and of its coordinator, and by SIGKILL; the API dies with an owner's approval written
and not committed. What has died is started again. Every session must come to its end with the same
result for all agents, each of which has decided each round once, and every agent's account must be
charged once.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg

from discreet.installation.postgres import EmbeddedPostgres
from discreet.observability.faults import SWITCH
from discreet.storage.migrations import migrate
from discreet_client.client import ApiError
from tests.conftest import settings_for
from tests.postgres_fixture import Database
from tests.reliability.books import check_books
from tests.reliability.chains import superuser_url
from tests.rpc.conftest import Federation, free_port
from tests.rpc.helpers import once_each

API_POINTS = "approve.written=0.4"
RPC_POINTS = "session.taken=0.05 session.*=0.08 coordinator.*=0.05"
LEASE_SECONDS = 2.0
MAX_ATTEMPTS = 1000
PAUSE_SECONDS = 0.02


@dataclass
class Report:
    """What was done to the sessions, and what came of them."""

    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    agents: int = 0
    rounds: int = 0
    entries: int = 0


class Owner(threading.Thread):
    """Approves every session when all of its agents are there; asks again until it is answered."""

    def __init__(self, storm: Storm, jobs: list[str], agents: int) -> None:
        super().__init__(daemon=True)
        self.storm, self.jobs, self.agents = storm, jobs, agents
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for job in self.jobs:
                while not self.approved(job):
                    assert time.monotonic() < self.storm.end, "the deadline has passed"
                    time.sleep(0.1)
        except BaseException as error:
            self.error = error

    def approved(self, job: str) -> bool:
        running = self.storm.running
        try:
            with running.client() as client:
                if len(client.session(job)["agents"]) < self.agents:
                    return False
            running.approve(job)
        except httpx.TransportError:
            return False
        except ApiError as refusal:
            if refusal.status not in (409, 503):
                raise
            return refusal.status == 409  # it was approved, and the answer was lost
        return True


class Storm:
    """One run; all processes are started and tended by the caller's thread."""

    def __init__(
        self,
        running: Federation,
        postgres: EmbeddedPostgres,
        seed: int,
        kills: int,
        say: Callable[[str], None],
    ) -> None:
        self.running, self.postgres, self.seed, self.kills, self.say = (
            running,
            postgres,
            seed,
            kills,
            say,
        )
        self.draw = random.Random(seed)
        self.report = Report()
        self.log = running.settings.state / "faults.log"
        self.starts = 0
        self.rpc: subprocess.Popen[bytes] | None = None
        self.stormy = True
        self._next_kill = 0.0

    def run(self, sessions: int, agents: int, rounds: int, deadline_seconds: float) -> Report:
        began = time.monotonic()
        self.end = began + deadline_seconds
        self.report.agents, self.report.rounds = agents, rounds
        jobs = [
            self.running.submit(agents=agents, rounds=rounds, round_seconds=60.0)
            for _ in range(sessions)
        ]
        self._die_at(API_POINTS)
        self._spawn_rpc()
        groups = {
            job: [
                self.running.agent(
                    token, "--patience", "300", value=n, name=f"{job}-{n}", pause=PAUSE_SECONDS
                )
                for n, token in enumerate(self.running.invite(job, agents), start=1)
            ]
            for job in jobs
        }
        assert self.running.api is not None
        self.running.api.kill()  # the next one has fault points
        self.running.api.wait()
        everybody = [
            agent.process
            for group in groups.values()
            for agent in group
            if agent.process is not None
        ]
        owner = Owner(self, jobs, agents)
        owner.start()
        self._next_kill = time.monotonic() + 1.0
        while owner.is_alive() or any(process.poll() is None for process in everybody):
            assert time.monotonic() < self.end, "the deadline has passed"
            self._tend()
            time.sleep(0.02)
        if owner.error is not None:
            raise AssertionError("the owner gave up") from owner.error
        for group in groups.values():
            outcomes = [agent.outcome() for agent in group]
            assert all(outcome == outcomes[0] for outcome in outcomes), (
                "the agents were told different ends"
            )
            assert all(once_each(agent, rounds) for agent in group), (
                "an agent decided a round twice"
            )
        self.stormy = False
        if self.log.exists():
            self.report.points += Counter(self.log.read_text().split())
        self._verify(set(jobs), agents)
        self.report.seconds = time.monotonic() - began
        return self.report

    def _verify(self, jobs: set[str], agents: int) -> None:
        url = superuser_url(self.postgres, self.running.settings)
        with psycopg.connect(url) as connection:
            known = {
                key: {job}
                for key, job in connection.execute("SELECT key, job_id FROM idempotent_requests")
            }
            charged = dict(
                connection.execute(
                    "SELECT job_id, count(*) FROM ledger_entries WHERE kind = 'commit' GROUP BY "
                    "job_id"
                ).fetchall()
            )
        assert set().union(*known.values()) == jobs
        books = check_books(url, known)
        assert charged == dict.fromkeys(jobs, agents), "not every agent was charged once"
        self.report.outcomes, self.report.entries = books.outcomes, books.entries

    # -- the storm ---------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Start again what has died; kill the rpc process now and then."""
        now = time.monotonic()
        if (
            self._next_kill
            and now > self._next_kill
            and self.kills
            and self.rpc is not None
            and self.rpc.poll() is None
        ):
            self.rpc.kill()
            self.kills -= 1
            self.report.faults["rpc killed"] += 1
            self.say(f"{self.report.faults['rpc killed']:4} rpc killed")
            self._next_kill = now + self.draw.uniform(2.0, 5.0)
        if self.rpc is None or self.rpc.poll() is not None:
            self._spawn_rpc()
        if self.running.api is not None and self.running.api.poll() is not None:
            self._die_at(API_POINTS)
            self.running.spawn_api()

    def _spawn_rpc(self) -> None:
        self._die_at(RPC_POINTS)
        self.rpc = self.running.program("rpc", "--port", str(self.running.rpc_port))
        self.running.rpcs.append(self.rpc)

    def _die_at(self, points: str) -> None:
        self.starts += 1
        self.running.extra = (
            {
                "DISCREET_FAULTS_SWITCH": SWITCH,
                "DISCREET_FAULTS": points,
                "DISCREET_FAULTS_LOG": str(self.log),
                "DISCREET_FAULTS_SEED": f"{self.seed}/{self.starts}",
            }
            if self.stormy
            else {}
        )


def storm(
    state: Path,
    *,
    sessions: int,
    agents: int,
    rounds: int,
    kills: int,
    seed: int,
    deadline_seconds: float,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """One run on an installation of its own in the folder `state`."""
    with ExitStack() as stack:
        postgres = stack.enter_context(EmbeddedPostgres(state / "database"))
        database = Database("discreet", postgres.owner_url, postgres.app_url)
        settings = settings_for(
            database, state, lease_seconds=LEASE_SECONDS, max_attempts=MAX_ATTEMPTS
        )
        migrate(settings)
        running = Federation(settings, alone=True, rpc_port=free_port(), folder=state)
        stack.callback(running.stop)
        running.make_keys()
        running.start_api()
        return Storm(running, postgres, seed, kills, say).run(
            sessions, agents, rounds, deadline_seconds
        )
