"""Every cause of a failure under its own code, and what was charged: the faults are real, the ledger is read.

The table in docs/operations.md names these tests; it is held against them and against the codes at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import httpx
import psycopg
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from prometheus_client import REGISTRY
from sqlalchemy.exc import TimeoutError as PoolTimeout

from discreet.api import problem_details
from discreet.api.app import create_app
from discreet.isolation import children
from discreet.isolation.children import Limits, Zygote
from discreet.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.storage import ledger, objects
from discreet.storage.database import SYSTEM, trouble
from discreet.storage.migrations import migrate
from discreet.storage.objects import Objects, StorageTrouble
from discreet.storage.schema import revisions
from discreet.storage.tenants import Principal
from discreet.usecases import access, endings, running
from discreet.usecases import jobs as job_uses
from discreet.usecases.services import Services, open_services
from discreet.worker import runner
from discreet.worker.runner import Runner
from tests import bodies
from tests.conftest import settings_for
from tests.postgres_fixture import fresh_database, make_template
from tests.reliability.test_state_faults import ROOT
from tests.test_backup import register, submit
from tests.test_up import clean_environment

FULL, NOTHING = endings.IN_FULL, endings.NOTHING
outage = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Connections whose server is gone are collected, not closed: there is nobody to close them with."""
GENEROUS = Limits(memory_bytes=2 << 30, cpu_seconds=600, wall_seconds=600.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that these tests may stop."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("stopped"), durable=False) as found:
        make_template(
            found,
            lambda database: migrate(
                Settings(database_url=database.app_url, migration_database_url=database.owner_url)
            ),
        )
        yield found


@pytest.fixture
def settings(server: EmbeddedPostgres, tmp_path: Path) -> Iterator[Settings]:
    with fresh_database(server) as database:
        yield settings_for(database, tmp_path / "state", max_attempts=1, spool=tmp_path)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STORAGE_SECONDS", 0.01)
    monkeypatch.setattr(runner, "DATABASE_SECONDS", 0.05)


def inside(settings: Settings, work: Callable[[Services, Principal], Awaitable[None]]) -> None:
    async def go() -> None:
        async with open_services(settings) as services:
            await work(services, await access.local_owner(services))

    asyncio.run(go())


async def ended(services: Services, owner: Principal, job: str) -> tuple[str, str, list[str]]:
    """Code and detail of a job that failed, and its entries in the ledger."""
    found = job_uses.view(await job_uses.find(services, owner, job))
    assert found["state"] == "failed"
    async with services.database.transaction(SYSTEM) as connection:
        entries = [entry["kind"] for entry in await ledger.reservation(connection, job)]
    return found["error"]["code"], found["error"]["detail"], entries


CHARGED = ["reserve", "data_touched", "commit"]
RELEASED = ["reserve", "release"]


def told(code: str, charge: str) -> tuple[str, str]:
    return code, f"{endings.FAILURES[code]}; {charge}"


# Children -------------------------------------------------------------------------------------------------------------


def counted(step: str, cause: str) -> float:
    labels = {"kind": "routing", "step": step, "cause": cause}
    return REGISTRY.get_sample_value("discreet_child_failures_total", labels) or 0.0


def test_what_ended_a_child(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On private data one code whatever it was, and the cause for operators; in post-processing each its own."""
    place, environment = tmp_path / "faults", children.plain_environment
    found = {"FAULTS": str(place), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    monkeypatch.setattr(children, "ZYGOTE_MODULE", "tests.isolation.faulty")
    monkeypatch.setattr(children, "plain_environment", lambda: {**environment(), **found})
    faults = (
        ("memory", GENEROUS, "memory_limit", "result_memory_limit"),
        ("cpu", Limits(2 << 30, 1, 600.0), "cpu_limit", "result_cpu_limit"),
        ("segv", GENEROUS, "child_crashed", "result_crashed"),
        ("raise", GENEROUS, "child_raised", "result_failed"),
        ("wall", Limits(2 << 30, 600, 1.0), "wall_limit", "result_wall_limit"),
    )

    async def work(services: Services, owner: Principal) -> None:
        zygote = Zygote()
        await zygote.start()
        try:
            for fault, limits, cause, code in faults:
                monkeypatch.setattr(Runner, "_limits", lambda _self, _held, limits=limits: limits)
                for step, expected in (("release", "solver_failed"), ("finish", code)):
                    place.write_text(f"{step} {fault}")
                    dataset = await register(services, owner, bodies.dataset())
                    job = await submit(services, owner, dataset)
                    before = counted(step, cause)
                    await Runner(services, zygote).run(job)
                    assert await ended(services, owner, job) == (*told(expected, FULL), CHARGED), (step, fault)
                    assert counted(step, cause) == before + 1
        finally:
            await zygote.stop()

    inside(settings, work)


def test_walls_that_are_less_than_asked_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = children.plain_environment
    found = {"WALLS": "", "REHEARSE": "0", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    monkeypatch.setattr(children, "ZYGOTE_MODULE", "tests.isolation.zygote")
    monkeypatch.setattr(children, "plain_environment", lambda: {**environment(), **found})

    async def work(services: Services, owner: Principal) -> None:
        job = await submit(services, owner, await register(services, owner, bodies.dataset()))
        await Runner(services, Zygote("full")).run(job)
        assert await ended(services, owner, job) == (*told("not_isolated", NOTHING), RELEASED)

    inside(settings, work)


def test_workers_that_are_lost(settings: Settings) -> None:
    """While a worker has touched data and released nothing, what ended it may depend on them: then it has no name."""

    async def work(services: Services, owner: Principal) -> None:
        dataset = await register(services, owner, bodies.dataset())
        for steps, code, charge, entries in (
            (0, "worker_lost", NOTHING, RELEASED),
            (1, "solver_failed", FULL, CHARGED),
            (2, "worker_lost", FULL, CHARGED),
        ):
            job = await submit(services, owner, dataset)
            held = await running.claim(services, job)
            assert held is not None
            if steps > 0:
                await running.touch(services, held)
            if steps > 1:
                await running.keep_release(services, held, b"released")
            with psycopg.connect(str(settings.migration_database_url), autocommit=True) as connection:
                connection.execute("SELECT set_config('discreet.tenant', '*', false)")
                connection.execute(
                    "UPDATE jobs SET lease_until = lease_until - interval '1 hour' WHERE id = %s", (job,)
                )
            assert await running.claim(services, job) is None
            assert await ended(services, owner, job) == (*told(code, charge), entries)

    inside(settings, work)


def test_a_master_key_that_is_not_known(settings: Settings) -> None:
    """What was released is sealed under a key of another installation: it was charged, and the job says so."""

    async def work(services: Services, owner: Principal) -> None:
        job = await submit(services, owner, await register(services, owner, bodies.dataset()))
        held = await running.claim(services, job)
        assert held is not None
        await running.touch(services, held)
        await running.keep_release(services, held, b"released")
        await running.hand_back(services, held)
        with psycopg.connect(str(settings.migration_database_url), autocommit=True) as connection:
            connection.execute("SELECT set_config('discreet.tenant', '*', false)")
            connection.execute("UPDATE releases SET content_key_id = 'elsewhere' WHERE job_id = %s", (job,))
        await Runner(services, Zygote()).run(job)
        assert await ended(services, owner, job) == (*told("master_key_unknown", FULL), CHARGED)

    inside(settings, work)


def test_what_is_erased_or_does_not_open_any_more(settings: Settings) -> None:
    def change(statement: str, job: str) -> None:
        with psycopg.connect(str(settings.migration_database_url), autocommit=True) as connection:
            connection.execute("SELECT set_config('discreet.tenant', '*', false)")
            assert connection.execute(statement.encode(), (job,)).rowcount == 1

    async def work(services: Services, owner: Principal) -> None:
        job = await submit(services, owner, await register(services, owner, bodies.dataset()))
        held = await running.claim(services, job)
        assert held is not None
        await running.touch(services, held)
        await running.keep_release(services, held, b"released")
        await running.hand_back(services, held)
        change("UPDATE releases SET sealed = substring(sealed FROM 2) WHERE job_id = %s", job)
        assert await running.claim(services, job) is None
        assert await ended(services, owner, job) == (*told("release_unreadable", FULL), CHARGED)

        job = await submit(services, owner, await register(services, owner, bodies.dataset()))
        change(
            "UPDATE datasets SET deleted_at = now(), wrapped_key = NULL"
            " WHERE id = (SELECT dataset_id FROM jobs WHERE id = %s)",
            job,
        )
        assert await running.claim(services, job) is None
        assert await ended(services, owner, job) == (*told("data_erased", NOTHING), RELEASED)

    inside(settings, work)


# Object storage -------------------------------------------------------------------------------------------------------


class EndpointConnectionError(Exception):
    """As botocore's: none of its errors is an OSError."""


class ForeignFiles(MemoryFileSystem):
    """An object store whose driver fails in its own ways: by errors of its own, or by waiting for a silent server."""

    protocol = "foreign"
    store: dict[str, Any] = {}  # noqa: RUF012  fsspec's own form
    pseudo_dirs = [""]  # noqa: RUF012
    fault = ""
    silent: tuple[str, int] = ("", 0)

    def _open(self, *arguments: Any, **named: Any) -> Any:
        if self.fault == "error":
            raise EndpointConnectionError("Could not connect to https://key:secret@storage")
        if self.fault == "denied":
            raise PermissionError("Access Denied")
        if self.fault == "silent":
            with socket.create_connection(self.silent) as asked:
                asked.sendall(b"GET / HTTP/1.1\r\n\r\n")
                asked.recv(1)
        return super()._open(*arguments, **named)


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ForeignFiles]]:
    fsspec.register_implementation("foreign", ForeignFiles, clobber=True)
    monkeypatch.setattr(objects, "SILENT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(ForeignFiles, "silent", silent.getsockname())
        yield ForeignFiles


@contextlib.asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API with the owner's key."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        keys = {role: access.new_key() for role in ("owner", "operator")}
        assert await access.bootstrap(app.state.services, keys)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {keys['owner']}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://here", headers=headers) as client:
            yield client


@pytest.mark.parametrize(
    ("fault", "code"),
    [("error", "storage_unavailable"), ("silent", "storage_unavailable"), ("denied", "storage_denied")],
)
def test_object_storage_that_is_silent_gone_or_closed(
    settings: Settings, foreign: type[ForeignFiles], monkeypatch: pytest.MonkeyPatch, fault: str, code: str
) -> None:
    settings = settings.model_copy(update={"object_url": "foreign://contents", "object_bytes": 0})

    async def go() -> None:
        async with served(settings) as client:
            body = bodies.dataset()
            kept = (await client.post("/v1/datasets", json=body)).json()
            job = await client.post("/v1/jobs", json=bodies.job(kept["id"]), headers={"Idempotency-Key": "1"})
            monkeypatch.setattr(foreign, "fault", fault)
            answer = await client.post("/v1/datasets", json=bodies.dataset())
            assert (answer.status_code, answer.json()["code"]) == (503, code)
            assert "secret" not in answer.text
            assert "Retry-After" in answer.headers
            async with open_services(settings) as services:
                await Runner(services, Zygote()).run(job.json()["id"])
            found = (await client.get(f"/v1/jobs/{job.json()['id']}")).json()
            assert (found["error"]["code"], found["error"]["detail"]) == told("content_unavailable", NOTHING)

    asyncio.run(go())


def test_calls_that_wait_for_a_silent_storage_are_bounded(
    foreign: type[ForeignFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(foreign, "fault", "silent")
    store = Objects("foreign://contents")
    for _ in range(objects.MOST_ABANDONED):
        with pytest.raises(StorageTrouble, match="said nothing"):
            list(store.read("dst_1"))
    with pytest.raises(StorageTrouble, match="enough calls wait"):
        list(store.read("dst_1"))


FULL_DISK = """
import json, sys
from pathlib import Path
from sqlalchemy.exc import TimeoutError as PoolTimeout

from discreet.errors import DiscreetError
from discreet.storage.objects import Objects
from discreet.usecases.uploads import SealedFile
place = Path(sys.argv[1])
codes = []
with SealedFile(place) as file:
    try:
        while True:
            file.append(bytes(1 << 16))
    except DiscreetError as error:
        codes.append(error.code)
store = Objects(f"file://{place}/objects")
store.write("dst_1", [b"kept"])
try:
    store.write("dst_2", (bytes(1 << 16) for _ in range(1000)))
except DiscreetError as error:
    codes.append(error.code)
names = sorted(path.name for path in (place / "objects").iterdir())
print(json.dumps([codes, names, b"".join(store.read("dst_1")).decode()]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can be mounted by root only")
def test_full_disks_of_uploads_and_of_contents(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-ec", script, "sh", str(tmp_path), sys.executable, FULL_DISK],
        env=clean_environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = done.stdout.splitlines()[-1]
    assert found == '[["spool_unavailable", "storage_full"], ["dst_1"], "kept"]', "no part of an object stays"


# Database -------------------------------------------------------------------------------------------------------------


@outage
def test_database_that_is_gone_read_only_or_held(settings: Settings, server: EmbeddedPostgres) -> None:
    """Each its own code; the same request once more is the same job."""
    owner_url = str(settings.migration_database_url)
    with psycopg.connect(owner_url) as connection:
        name = connection.info.dbname

    async def go() -> None:
        async with served(settings) as client:
            dataset = (await client.post("/v1/datasets", json=bodies.dataset())).json()

            async def ask() -> httpx.Response:
                return await client.post(
                    "/v1/jobs", json=bodies.job(dataset["id"]), headers={"Idempotency-Key": "only"}
                )

            def alter(setting: str) -> None:
                with psycopg.connect(server.superuser_url, autocommit=True) as connection:
                    connection.execute(f'ALTER DATABASE "{name}" {setting}'.encode())
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
                    )

            alter("SET default_transaction_read_only = on")
            answer = await ask()
            assert (answer.status_code, answer.json()["code"]) == (503, "database_read_only")
            alter("RESET default_transaction_read_only")
            alter("SET statement_timeout = '300ms'")
            with psycopg.connect(owner_url) as holder:
                holder.execute("SELECT set_config('discreet.tenant', '*', false)")
                holder.execute("SELECT 1 FROM accounts FOR UPDATE")
                answer = await ask()
                assert (answer.status_code, answer.json()["code"]) == (503, "database_busy")
            alter("RESET statement_timeout")
            server.stop()
            try:
                answer = await ask()
                assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
                assert "not known here" in answer.json()["detail"], "who cannot know does not say that nothing happened"
            finally:
                server.start()
            job = (await ask()).json()["id"]
            assert (await ask()).json()["id"] == job
            entries = (await client.get(f"/v1/budgets/{dataset['account']}/entries")).json()
            assert [entry["kind"] for entry in entries["entries"]] == ["open", "reserve"]

    asyncio.run(go())


@outage
def test_a_worker_waits_for_its_database_and_charges_once(
    settings: Settings, server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL goes away twice: before data are touched, and before what was released is stored."""
    waits = {"discreet_worker_database_waits_total": "database_unavailable"}

    def waited() -> float:
        ((name, code),) = waits.items()
        return REGISTRY.get_sample_value(name, {"code": code}) or 0.0

    def gone_before(step: str) -> None:
        real = getattr(running, step)
        tries = 0

        async def run(*arguments: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries == 1:
                server.stop()
            elif tries == 3:
                server.start()  # by the thread with which it shall end: this one
            return await real(*arguments)

        monkeypatch.setattr(running, step, run)

    async def work(services: Services, owner: Principal) -> None:
        job = await submit(services, owner, await register(services, owner, bodies.dataset()))
        before = waited()
        await Runner(services, Zygote()).run(job)
        assert waited() >= before + 4
        assert (await job_uses.find(services, owner, job))["state"] == "succeeded"
        async with services.database.transaction(SYSTEM) as connection:
            assert [entry["kind"] for entry in await ledger.reservation(connection, job)] == CHARGED

    for step in ("touch", "keep_release"):
        gone_before(step)
    try:
        inside(settings, work)
    finally:
        server.start()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (psycopg.errors.DiskFull(), "database_full"),
        (psycopg.errors.TooManyConnections(), "database_busy"),
        (psycopg.errors.AdminShutdown(), "database_unavailable"),
        (PoolTimeout(), "database_busy"),
        (psycopg.errors.UniqueViolation(), None),
        (ValueError(), None),
    ],
)
def test_what_an_error_says_of_the_database(error: Exception, code: str | None) -> None:
    found = trouble(error)
    assert (None if found is None else found.code) == code
    if isinstance(error, PoolTimeout):  # a request has several transactions: the ones before this may have committed
        assert found is not None
        assert "not known here" in found.detail


def test_a_schema_of_another_version(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 that names both versions; a worker waits; the command line says it in one line."""
    url, ours = str(settings.migration_database_url), revisions()[-1]

    def change(column: str, name: str, version: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE jobs RENAME COLUMN {column} TO {name}".encode())
            old, new = ("keys", "other_keys") if version != ours else ("other_keys", "keys")
            connection.execute(f"ALTER TABLE {old} RENAME TO {new}".encode())
            connection.execute("UPDATE alembic_version SET version_num = %s", (version,))

    async def go() -> None:
        async with served(settings) as client:
            dataset = (await client.post("/v1/datasets", json=bodies.dataset())).json()
            job = await client.post("/v1/jobs", json=bodies.job(dataset["id"]), headers={"Idempotency-Key": "1"})
            await asyncio.to_thread(change, "failures", "mistakes", "0001")
            answer = await client.get("/v1/jobs")
            assert (answer.status_code, answer.json()["code"]) == (503, "wrong_schema")
            assert f"has schema 0001, this version needs {ours}" in answer.json()["detail"]
            async with open_services(settings) as services:
                working = asyncio.create_task(Runner(services, Zygote()).run(job.json()["id"]))
                name = "discreet_worker_database_waits_total"
                while not REGISTRY.get_sample_value(name, {"code": "wrong_schema"}):
                    assert not working.done()
                    await asyncio.sleep(0.05)
                done = await asyncio.to_thread(
                    subprocess.run,
                    [sys.executable, "-m", "discreet", "bootstrap", "--owner-key", str(settings.state / "again.key")],
                    env=clean_environment(
                        DISCREET_DATABASE_URL=str(settings.database_url), DISCREET_STATE=str(settings.state)
                    ),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 1
                assert done.stderr.startswith(f"discreet: the database has schema 0001, this version needs {ours}")
                await asyncio.to_thread(change, "mistakes", "failures", ours)
                await working
            assert (await client.get(f"/v1/jobs/{job.json()['id']}")).json()["state"] == "succeeded"

    asyncio.run(go())


# The table ------------------------------------------------------------------------------------------------------------


def test_the_table_of_causes_is_whole() -> None:
    """Every code that a job may fail with, and every 503, stands in docs/operations.md with a test that exists."""
    text = (ROOT / "docs/operations.md").read_text()
    rows = re.findall(
        r"^\| `([a-z_]+)` \| (.+) \| (.+) \| (?:`(tests/[^`]+)`|not injected) \|$",
        text,
        re.M,
    )
    busy = {code for code, known in problem_details.CODES.items() if known.status == 503 and code != "unavailable"}
    titles = {code: problem_details.CODES[code].title for code in busy | {"internal"}}
    words = [(code, sentence) for code, sentence, *_ in rows]
    assert sorted(words) == sorted([*endings.all_failures().items(), *titles.items()])
    for code, _, charged, test in rows:
        assert charged
        if test:
            path, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text(), test
    assert {code for code, _, _, test in rows if not test} == {"session_failed", "internal", "reader_not_started"}
