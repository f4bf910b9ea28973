"""The primary database is killed while jobs are submitted and run; a synchronous standby takes
over.

All connections have the libpq URL of both hosts (`target_session_attrs=read-write`): API,
listeners, worker, queue.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from discreet.installation import postgres
from discreet.installation.database_roles import APP, DATABASE, OWNER, SUPERUSER
from discreet.storage.migrations import migrate
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually, settings_for
from tests.postgres_fixture import Database
from tests.reliability.books import check_books
from tests.reliability.servers import Server

CLIENTS = 3
BEFORE, AFTER = 4, 3
"""Jobs that each client submits before the primary is killed, and after."""


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


@pytest.mark.long
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
