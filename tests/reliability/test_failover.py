"""The primary database is killed while jobs are submitted and run; a synchronous standby takes
over.

All connections have the libpq URL of both hosts (`target_session_attrs=read-write`): API,
listeners, worker, queue.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
import pytest

from discreet.installation import postgres
from discreet.installation.binaries import Binaries
from discreet.installation.database_roles import APP, DATABASE, OWNER, SUPERUSER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.postgres_settings import ENVIRONMENT
from discreet.installation.temporary_folder import PORT
from discreet.private_files import sync_folder
from discreet.storage.migrations import migrate
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually, settings_for
from tests.postgres_fixture import Database
from tests.processes import family
from tests.reliability.books import check_books

CLIENTS = 3
BEFORE, AFTER = 4, 3
"""Jobs that each client submits before the primary is killed, and after."""
REPLICATING = """
listen_addresses = '{address}'
max_wal_senders = 4
synchronous_commit = on
synchronous_standby_names = '{awaited}'
"""
ACCESS = "host all all 127.0.0.0/8 scram-sha-256\nhost replication all 127.0.0.0/8 scram-sha-256\n"


class Server(EmbeddedPostgres):
    """A server that also listens on a loopback address of its own, on the port that all have; with
    `source` it begins as a standby of that one."""

    def __init__(self, state: Path, source: Server | None = None) -> None:
        super().__init__(state, durable=False)  # it loses nothing but with the machine
        numbers = random.SystemRandom()  # other runs of these tests use the same port
        self.address = ".".join(["127", *(str(numbers.randint(2, 250)) for _ in range(3))])
        self._source = source
        self._awaited, self._told = "", ""

    def place(self, role: str, *others: Server) -> str:
        """A URL of this server and these for libpq: of those that take changes the first."""
        hosts = ",".join(f"{one.address}:{PORT}" for one in (self, *others))
        password = quote(self._passwords[role], safe="")
        return f"postgresql://{role}:{password}@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def wait_for(self, standby: str) -> None:
        """From now on no commit is told before this standby has it."""
        self._awaited = standby
        self._write_settings()
        with psycopg.connect(self.superuser_url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
            state = "SELECT sync_state FROM pg_stat_replication"
            eventually(
                lambda: connection.execute(state).fetchall() == [("sync",)],
                "the standby is synchronous",
            )

    def kill(self) -> None:
        """SIGKILL to every process of the server at once, so that none commits anything more."""
        assert self.pid is not None
        for pid in family(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()

    def promote(self) -> None:
        with psycopg.connect(self.superuser_url, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote(true, 60)").fetchone() == (True,)

    def _configure(self) -> None:
        super()._configure()
        self._write_data("pg_hba.conf", postgres.ACCESS + ACCESS)
        self._told = (self.data / "postgresql.conf").read_text()
        self._write_settings()

    def _write_settings(self) -> None:
        more = REPLICATING.format(address=self.address, awaited=self._awaited)
        self._write_data("postgresql.conf", self._told + more)

    def _initialize(self, inherited: int) -> None:
        if self._source is None:
            super()._initialize(inherited)
            return
        new = self._unfinished
        self._make_folder(new)
        password = self._source._passwords[SUPERUSER]
        source = (
            f"host={self._source.address} port={PORT} user={SUPERUSER} password={password} "
            "application_name=standby"
        )
        program = Binaries.find().program("pg_basebackup")
        copied = subprocess.run(
            [
                program,
                f"--pgdata={new}",
                f"--dbname={source}",
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert copied.returncode == 0, copied.stderr
        if self._user is not None:
            for path in new.rglob("*"):
                os.chown(path, self._user.uid, self._user.gid, follow_symlinks=False)
        new.rename(self.data)
        sync_folder(self.state)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Server]]:
    """A primary with a migrated database, and its synchronous standby."""
    with ExitStack() as stack:
        primary = stack.enter_context(Server(tmp_path / "primary"))
        standby = Server(tmp_path / "standby", primary)
        shutil.copy2(tmp_path / "primary" / "postgres.json", tmp_path / "standby" / "postgres.json")
        with monkeypatch.context() as patched:
            patched.setattr(
                postgres, "ensure_roles", lambda *_: None
            )  # a standby has those of its primary
            standby.start()
        stack.callback(standby.stop)
        primary.wait_for("standby")
        yield primary, standby


def submitting(
    running: Installation, dataset: str, killing: threading.Event, accepted: dict[str, set[str]]
) -> None:
    """Submit jobs one after another, each until its id is known, always with its own
    Idempotency-Key; the last of them from the moment on in which the primary is killed."""
    with running.http() as http:
        for number in range(BEFORE + AFTER):
            if number == BEFORE:
                killing.wait()
            key = uuid.uuid4().hex
            for _ in range(10_000):
                try:
                    answer = http.post(
                        "/v1/jobs",
                        json=bodies.job(dataset, 0.01),
                        headers={"Idempotency-Key": key},
                        timeout=30,
                    )
                except httpx.TransportError:
                    continue
                if answer.status_code == 202:
                    accepted.setdefault(key, set()).add(answer.json()["id"])
                    break
                assert answer.status_code in (409, 503), answer.text  # in flight, or no database


def at_once(count: int, work: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for one in threads:
        one.start()
    return threads


def test_a_primary_that_is_killed_loses_and_doubles_nothing(
    pair: tuple[Server, Server], tmp_path: Path
) -> None:
    primary, standby = pair
    urls = [primary.place(role, standby) for role in (OWNER, APP)]
    settings = settings_for(Database(DATABASE, *urls), tmp_path / "state", lease_seconds=3.0)
    migrate(settings)
    running = Installation(settings)
    accepted: dict[str, set[str]] = {}
    killing = threading.Event()
    try:
        running.make_keys()
        running.start_api()
        running.start_worker()
        with running.client() as client:
            dataset = client.register(bodies.dataset(epsilon=100))["id"]
        threads = at_once(CLIENTS, lambda: submitting(running, dataset, killing, accepted))
        eventually(lambda: len(accepted) >= CLIENTS * BEFORE, "jobs are accepted")
        killing.set()
        primary.kill()
        told = set().union(*list(accepted.values()))
        standby.promote()
        for one in threads:
            one.join(DEADLINE_SECONDS)
        assert len(accepted) == CLIENTS * (BEFORE + AFTER)
        eventually(
            lambda: httpx.get(f"{running.url}/readyz", trust_env=False).status_code == 200,
            "the API is ready",
        )

        def ended() -> bool:
            if (
                running.workers[-1].poll() is not None
            ):  # one that cannot listen ends, and its supervisor starts it
                running.start_worker()
            with running.client() as client:
                states = {client.job(job)["state"] for jobs in accepted.values() for job in jobs}
            return states == {"succeeded"}

        eventually(ended, "every job ends, on the standby")
        assert told <= set().union(*accepted.values())
        books = check_books(standby.url(SUPERUSER, DATABASE), accepted)
        assert books.outcomes == {"succeeded, charged": CLIENTS * (BEFORE + AFTER)}
    finally:
        killing.set()
        running.stop()
