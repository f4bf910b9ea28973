"""What operators see of an installation: the truth of its processes, its queue, its log and its
backups, and of its tenants no more than names and waiting."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from discreet.isolation.sandbox import Isolation
from discreet.settings import Settings
from discreet.storage import log, operations
from discreet.storage.database import SYSTEM, Database
from discreet.storage.schema import revisions
from discreet.storage.tenants import Principal
from discreet.usecases import operations as usecase
from discreet.usecases import processes
from discreet.usecases.services import open_services
from tests import bodies
from tests.cli.test_cli import discreet
from tests.conftest import Installation, eventually

SECRET = "a name that is the tenant's own"


def state(running: Installation) -> dict[str, Any]:
    with running.client(running.operator_key) as operator:
        return dict(operator.operations())


def workers(running: Installation) -> list[dict[str, Any]]:
    return [one for one in state(running)["processes"] if one["part"] == "worker"]


def status(running: Installation, *more: str) -> str:
    server = {"DISCREET_URL": running.url, "DISCREET_KEY": running.operator_key}
    done = discreet("status", *more, **server)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_process_says_what_it_is_and_how_its_children_are_shut_in(
    service: Installation,
) -> None:
    """The walls are those that the worker's own child tried."""
    eventually(
        lambda: [one for one in workers(service) if one["isolation"]],
        "the worker's child has tried its walls",
    )
    (worker,) = workers(service)
    # A test before this one may have opened the same services in a process of its own.
    api = next(one for one in state(service)["processes"] if one["part"] == "api" and one["alive"])
    assert worker["alive"]
    assert (worker["places"], api["places"], api["busy"]) == (
        service.settings.worker_concurrency,
        None,
        None,
    )
    assert 0 <= worker["busy"] <= worker["places"]
    assert worker["schema_version"] == api["schema_version"] == revisions()[-1]
    assert worker["isolation"]["walls"]
    tried = Isolation.of(worker["isolation"]["reached"], worker["isolation"]["walls"])
    assert worker["isolation"]["level"] == tried.level


async def change(settings: Settings, statement: str) -> None:
    """As the owner of the tables."""
    database = Database(
        settings.model_copy(update={"database_url": settings.migration_database_url})
    )
    try:
        async with database.transaction(SYSTEM) as connection:
            await connection.execute(text(statement))
    finally:
        await database.close()


def test_who_ends_says_goodbye_and_who_is_killed_falls_silent(settings: Settings) -> None:
    """A database that did not take it hears it later; who was silent for a day is forgotten when
    another starts."""

    async def look() -> None:
        async with open_services(settings) as services:
            operator = Principal("t", "p", "operator", "key")

            async def told(count: int) -> list[dict[str, Any]]:
                for _ in range(600):
                    found = (await usecase.state(services, operator))["processes"]
                    if len(found) == count:
                        return list(found)
                    await asyncio.sleep(0.1)
                raise AssertionError(f"there are never {count} processes")

            await change(settings, BUSY)
            await change(settings, "ALTER TABLE processes RENAME TO hidden")
            async with processes.present(
                services, "worker", services.children, places=3, queue_worker=lambda: 77
            ):
                await asyncio.sleep(0.5)
                await change(settings, "ALTER TABLE hidden RENAME TO processes")
                services.children.isolation = Isolation.of(["files"], ["seccomp"])
                (found,) = await told(1)
                assert found["isolation"] == {
                    "level": "partial",
                    "reached": ["files"],
                    "walls": ["seccomp"],
                }
                assert (found["alive"], found["busy"], found["places"]) == (True, 1, 3)
            await told(0)
            await change(settings, KILLED)
            (dead,) = await told(1)
            assert (dead["alive"], dead["isolation"], dead["busy"]) == (False, None, 0)
            await change(settings, "UPDATE processes SET seen_at = now() - interval '25 hours'")
            async with processes.present(services, "rpc", services.children):
                for _ in range(600):
                    (found,) = await told(1)
                    if found["part"] == "rpc":
                        break
                    await asyncio.sleep(0.1)
                assert (found["part"], found["busy"]) == ("rpc", None)

    asyncio.run(look())


BUSY = """
    WITH worker AS (
      INSERT INTO procrastinate_workers (id) OVERRIDING SYSTEM VALUE VALUES (77) RETURNING id)
    INSERT INTO procrastinate_jobs (queue_name, task_name, status, worker_id)
    SELECT 'jobs', task, 'doing', id
    FROM worker, unnest(ARRAY['discreet.run_job', 'discreet.tidy']) AS task
    """
KILLED = """
    INSERT INTO processes (id, part, host, version, schema, places, seen_at)
    VALUES ('prc_killed', 'worker', 'h', '1', '0001', 2, now() - interval '61 seconds')
    """


def test_waiting_is_told_by_tenant_and_nothing_else_of_them(api_only: Installation) -> None:
    owners = {
        name: api_only.owner_of(name) for name in (f"slow {uuid.uuid4()}", f"quick {uuid.uuid4()}")
    }
    slow, quick = owners
    for name, count in ((slow, 3), (quick, 1)):
        with api_only.client(owners[name]) as owner:
            dataset = owner.register(bodies.dataset(name=SECRET))
            for _ in range(count):
                owner.submit(bodies.job(dataset["id"], 0.01) | {"name": SECRET})
    found = state(api_only)
    told = {one["tenant"]: one for one in found["tenants"]}
    assert told[slow]["queued"] == 3
    assert told[quick]["queued"] == 1
    assert told[slow]["share"] > told[quick]["share"] > 0
    assert told[slow]["oldest_wait_seconds"] >= told[quick]["oldest_wait_seconds"]
    assert sum(one["share"] for one in found["tenants"]) == pytest.approx(1)
    assert found["queue"]["queued"] == sum(one["queued"] for one in found["tenants"])
    assert found["queue"]["oldest_wait_seconds"] >= told[slow]["oldest_wait_seconds"]
    written = json.dumps(found) + status(api_only)
    for private in (SECRET, "dst_", "job_", "acc_", "key_", "ten_"):
        assert private not in written, private
    assert "none is running" in status(api_only)


def test_only_operators_are_told(api_only: Installation) -> None:
    for role in ("owner", "analyst", "auditor"):
        with api_only.http(api_only.key_of(role)) as http:
            answer = http.get("/v1/operations")
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert httpx.get(f"{api_only.url}/v1/operations", trust_env=False).status_code == 401


def test_backups_are_known_when_somebody_says_so(api_only: Installation) -> None:
    assert state(api_only)["backup"] == {"last": None, "archive": None}
    assert "backup     none known" in status(api_only)
    assert "\ndiscreet_backup_age_seconds " not in api_only.metrics()

    def note(*more: str) -> subprocess.CompletedProcess[str]:
        ours = {
            name: value
            for name, value in api_only.environment().items()
            if name.startswith("DISCREET_")
        }
        return discreet("note-backup", *more, **ours)

    for wrong in (
        "yesterday",
        "2026-01-01T00:00:00",
        (datetime.now(UTC) + timedelta(days=1)).isoformat(),
    ):
        refused = note("--at", wrong)
        assert refused.returncode == 1
        assert "--at" in refused.stderr
    assert state(api_only)["backup"]["last"] is None
    assert note("--at", "2026-01-02T03:04:05+01:00").returncode == 0
    assert note("--at", "2025-01-02T03:04:05Z").returncode == 0, "told late: it is not the last"
    last = {
        "made_at": "2026-01-02T02:04:05Z",
        "made_with": "other",
        "schema_version": revisions()[-1],
    }
    assert state(api_only)["backup"]["last"] == last
    eventually(lambda: "\ndiscreet_backup_age_seconds " in api_only.metrics(), "it is measured")


def test_witnesses_are_behind_from_the_first_checkpoint_that_they_lack(settings: Settings) -> None:
    """One has signed all, one has stopped, one has never signed; the empty log's checkpoint needs
    none."""

    async def look() -> list[dict[str, Any]]:
        database = Database(
            settings.model_copy(update={"database_url": settings.migration_database_url})
        )
        try:
            async with database.transaction(SYSTEM) as connection:
                for size, age in ((0, 900), (5, 600), (9, 300), (12, 100)):
                    await connection.execute(
                        text(
                            "INSERT INTO log_checkpoints VALUES (:size, '', '', now() - "
                            "make_interval(secs => :age))"
                        ),
                        {"size": size, "age": age},
                    )
                for name, size in (("all", 5), ("all", 12), ("stopped", 5)):
                    await log.add_cosignature(connection, size, name, "line")
            async with database.transaction(SYSTEM) as connection:
                return await operations.witnesses(connection, ["stopped", "never", "all"])
        finally:
            await database.close()

    stopped, never, signed = asyncio.run(look())
    assert [one["name"] for one in (stopped, never, signed)] == ["stopped", "never", "all"]
    assert (stopped["size"], never["size"], signed["size"]) == (5, None, 12)
    assert signed["behind_seconds"] == 0
    assert 300 <= stopped["behind_seconds"] < 600 <= never["behind_seconds"] < 900


def test_the_command_says_the_same_as_the_api(api_only: Installation) -> None:
    told = json.loads(status(api_only, "--json"))
    assert told.keys() == state(api_only).keys()
    assert told["versions"] == state(api_only)["versions"]
    shown = status(api_only)
    assert f"schema {revisions()[-1]} (database {revisions()[-1]})" in shown
    assert "queue      " in shown
    assert Path(api_only.settings.state).name not in shown
