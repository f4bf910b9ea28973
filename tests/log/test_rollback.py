"""A database that has forgotten what was signed: nothing is admitted, until an operator has
decided."""

from __future__ import annotations

import base64
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from discreet.errors import DiscreetError
from discreet.installation.database_roles import SUPERUSER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.storage.log_memory import LARGEST_BYTES, LogMemory, Seen
from tests import bodies
from tests.conftest import Installation, eventually, installation

ROOT = b"r" * 32


def test_the_last_checkpoint_is_remembered_by_every_process(tmp_path: Path) -> None:
    place = tmp_path / "state" / "log.memory"
    one, other = LogMemory(place), LogMemory(place)
    assert one.last == other.last == Seen()
    one.remember(5, ROOT)
    assert other.last == Seen(5, ROOT)
    other.remember(9, b"s" * 32)
    one.remember(7, ROOT)  # late
    assert one.last == Seen(9, b"s" * 32)
    assert place.stat().st_mode & 0o777 == 0o600
    with place.open("ab") as file:
        file.write(b"12 AAAA")  # a death in the middle of a line
    assert one.last == LogMemory(place).last == Seen(9, b"s" * 32)
    one.remember(15, ROOT)
    assert other.last == Seen(15, ROOT)


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    place = tmp_path / "log.memory"
    line = f"3 {base64.b64encode(ROOT).decode()}\n"
    place.write_text(line * (LARGEST_BYTES // len(line) + 1))
    memory = LogMemory(place)
    memory.remember(8, ROOT)
    assert place.stat().st_size < 100
    assert memory.last == Seen(8, ROOT)


@pytest.mark.parametrize("content", [b"x", b"hello\n", b"5 AAAA\n", b"\0" * 10_000, b"-\n" * 9])
def test_a_memory_that_cannot_be_read_is_not_passed_over(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "log.memory"
    place.write_bytes(content)
    with pytest.raises(DiscreetError, match="holds no checkpoint"):
        _ = LogMemory(place).last


def test_what_is_put_aside_is_kept(tmp_path: Path) -> None:
    memory = LogMemory(tmp_path / "log.memory")
    assert memory.forget() is None
    memory.remember(5, ROOT)
    aside = memory.forget()
    assert aside is not None
    assert aside.read_text().startswith("5 ")
    assert memory.last == Seen()


def seen(running: Installation) -> int:
    return LogMemory(running.settings.log_memory_path).last.size


def entries(running: Installation) -> int:
    with running.client() as client:
        return int(client.ledger_head()["seq"])


def exchange(postgres: EmbeddedPostgres, name: str, other: str) -> None:
    """`other` takes the place of `name` while the service runs, as a standby does that took
    over."""
    with psycopg.connect(postgres.url(SUPERUSER, "postgres"), autocommit=True) as connection:
        for statement in (
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",  # noqa: S608
            f"ALTER DATABASE {name} RENAME TO {name}_lost",
            f"ALTER DATABASE {other} RENAME TO {name}",
        ):
            connection.execute(statement.encode())


@pytest.mark.long
def test_a_standby_that_lost_commits_admits_nothing(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
    """Spending that was lost could be spent again, and a release that was lost could be drawn
    again: API and worker refuse from the first statement on, while the service runs. An operator
    decides, once."""
    with installation(postgres, template, tmp_path / "state", workers=0) as running:
        name = str(conninfo_to_dict(running.settings.database_url or "")["dbname"])
        standby, lost = f"{name}_standby", f"{name}_lost"
        try:
            with running.client() as client:
                registered = client.register(bodies.dataset())
                dataset = registered["id"]
                early = client.submit(bodies.job(dataset, 0.1))["id"]  # nobody runs it yet
                eventually(lambda: seen(running) == entries(running), "all is remembered")
                assert running.api is not None
                running.api.send_signal(signal.SIGTERM)
                running.api.wait()
                postgres.create_database(standby, name)
                running.start_api()
                client.submit(bodies.job(dataset, 0.2))
                eventually(
                    lambda: seen(running) == entries(running),
                    "what the standby lacks is remembered",
                )
                before = seen(running)

                exchange(postgres, name, standby)
                running.start_worker()  # it would run what the standby still has in its queue
                found: list[tuple[int, str]] = []
                threads = [
                    threading.Thread(target=lambda: found.extend(ask(running, dataset)))
                    for _ in range(8)
                ]
                for one in threads:
                    one.start()
                for one in threads:
                    one.join()
                assert set(found) == {(503, "ledger_rolled_back")}, found
                ready = httpx.get(f"{running.url}/readyz", trust_env=False)
                assert ready.status_code == 503
                assert "lacks ledger entries" in ready.json()["checks"]["ledger"], ready.text
                eventually(
                    lambda: tried(running, early), "the worker has looked at the job that is left"
                )
                assert client.job(early)["state"] != "succeeded"
                assert {one["kind"] for one in client.entries(registered["account"])} == {
                    "open",
                    "reserve",
                }
                note = httpx.get(f"{running.url}/v1/log/checkpoint", trust_env=False).text
                assert int(note.split("\n")[1]) < before, "no other tree is signed"

                running.stop_workers()
                assert adopt(running).returncode == 1
                assert "could be spent again" in adopt(running).stderr
                forgotten = adopt(running, "--forget-spending")
                assert forgotten.returncode == 0, forgotten.stderr
                assert client.job(early)["state"] == "failed"
                client.submit(bodies.job(dataset, 0.1))
                eventually(
                    lambda: httpx.get(f"{running.url}/readyz", trust_env=False).status_code == 200,
                    "ready",
                )
                assert len(list(running.settings.state.glob("log.memory.*"))) == 1, (
                    "what was seen is kept"
                )
        finally:
            running.stop()
            for one in (standby, lost):
                postgres.drop_database(one)


def ask(running: Installation, dataset: str) -> list[tuple[int, str]]:
    """Answers to jobs that are submitted one after another; those that the change of databases
    broke are left out."""
    found = []
    with running.http() as http:
        for _ in range(6):
            key = {"Idempotency-Key": str(uuid.uuid4())}
            answer = http.post("/v1/jobs", json=bodies.job(dataset, 0.01), headers=key)
            found.append((answer.status_code, answer.json().get("code", "")))
    return [one for one in found if one != (503, "database_unavailable")]


def tried(running: Installation, job: str) -> bool:
    with running.client() as client:
        return client.job(job)["state"] != "queued"


def adopt(running: Installation, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "discreet", "adopt", *more]
    return subprocess.run(
        command, env=running.environment(), capture_output=True, text=True, check=False
    )
