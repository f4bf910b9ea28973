"""Every cause of a failure under its own code, and what was charged: the faults are real, the
ledger is read.

The tables in docs/errors.md name these tests; they are held against them and against the codes at
the end.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import psycopg
import pytest
from fsspec.registry import _registry as drivers
from prometheus_client import REGISTRY
from sqlalchemy.exc import TimeoutError as PoolTimeout

from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation.children import NotStarted, Zygote
from discreet.settings import Settings
from discreet.storage import database as impatience
from discreet.storage import ledger, objects
from discreet.storage.database import SYSTEM, trouble
from discreet.storage.objects import Objects, StorageTrouble
from discreet.storage.schema import revisions
from discreet.storage.tenants import Principal
from discreet.usecases import endings, running
from discreet.usecases import jobs as job_uses
from discreet.usecases.services import Services, open_services
from discreet.web.codes import CODES
from tests import bodies, causes
from tests.causes import CHARGED, FULL, NOTHING, RELEASED, ROOT, Came, ended, inside
from tests.conftest import DEADLINE_SECONDS, settings_for
from tests.postgres_fixture import fresh_database
from tests.templates import templates
from tests.test_backup import register, submit
from tests.test_up import clean_environment

outage = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Connections whose server is gone are collected, not closed: there is nobody to close them
with."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that these tests may stop."""
    with causes.stoppable_server(tmp_path_factory.mktemp("stopped")) as found:
        yield found


@pytest.fixture
def settings(server: EmbeddedPostgres, tmp_path: Path) -> Iterator[Settings]:
    with fresh_database(server) as database:
        yield settings_for(database, tmp_path / "state", max_attempts=1, spool=tmp_path)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    causes.hasten(monkeypatch)


# Children -----------------------------------------------------------------------------------------


def counted(step: str, cause: str) -> float:
    labels = {"kind": "routing", "step": step, "cause": cause}
    return REGISTRY.get_sample_value("discreet_child_failures_total", labels) or 0.0


@pytest.mark.long
def test_what_ended_a_child(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """On private data one code whatever it was, and the cause for operators; in post-processing
    each its own."""

    async def work(services: Services, owner: Principal) -> None:
        async with causes.faulty_children(monkeypatch) as zygote:
            for fault, limits, cause, code in causes.CHILDREN:
                causes.limited(monkeypatch, limits)
                for step, expected in (("release", "solver_failed"), ("finish", code)):
                    templates().faults.write_text(f"{step} {fault}")
                    before = counted(step, cause)
                    came = await causes.run_job(services, owner, zygote)
                    assert came == Came.told(expected, FULL, CHARGED), (step, fault)
                    assert counted(step, cause) == before + 1

    inside(settings, work)


def test_processor_time_has_a_limit_of_its_own(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the settings alone: wall time is far from over."""
    templates().faults.write_text("finish cpu")

    async def work(services: Services, owner: Principal) -> None:
        async with causes.faulty_children(monkeypatch) as zygote:
            came = await causes.run_job(services, owner, zygote)
            assert came == Came.told("result_cpu_limit", FULL, CHARGED)

    inside(settings.model_copy(update={"job_cpu_seconds": 2}), work)


def test_walls_that_are_less_than_asked_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    causes.no_walls(monkeypatch)

    async def work(services: Services, owner: Principal) -> None:
        job = await causes.new_job(services, owner)
        await causes.attempt(services, job, "full")
        assert await ended(services, owner, job) == Came.told("not_isolated", NOTHING, RELEASED)

    inside(settings, work)


@pytest.mark.parametrize("fault", [causes.no_fork_server, causes.hanging_fork_server])
def test_a_fork_server_that_does_not_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    fault(monkeypatch)

    async def work(services: Services, owner: Principal) -> None:
        job = await causes.new_job(services, owner)
        await causes.attempt(services, job)
        assert await ended(services, owner, job) == Came.told(
            "child_not_started", NOTHING, RELEASED
        )

    inside(settings, work)


def test_a_fork_server_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    causes.hanging_fork_server(monkeypatch)

    async def go() -> None:
        zygote = Zygote()
        with pytest.raises(
            NotStarted, match=r"was not ready within 0\.5 s of its start, and was ended"
        ):
            await zygote.start()
        assert not zygote.alive

    asyncio.run(go())


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (causes.no_fork_server, "reader_not_started"),
        (causes.hanging_fork_server, "reader_not_started"),
        (causes.no_walls, "not_isolated"),
        (causes.crashing_reader, "not_read"),
    ],
)
def test_uploads_that_nobody_reads(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, fault: Any, code: str
) -> None:
    least = "full" if code == "not_isolated" else "none"

    async def go() -> None:
        async with causes.served(settings.model_copy(update={"least_isolation": least})) as client:
            answer = await causes.upload(client, b"period,origin,destination,count\n0,1,2,3\n")
            assert (answer.status_code, answer.json()["code"]) == (503, code)
            assert not (await client.get("/v1/datasets")).json()["datasets"]

    fault(monkeypatch)
    asyncio.run(go())


def test_workers_that_are_lost(settings: Settings) -> None:
    """While a worker has touched data and released nothing, what ended it may depend on them: then
    it has no name."""

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
            causes.as_owner(
                settings,
                "UPDATE jobs SET lease_until = lease_until - interval '1 hour' WHERE id = %s",
                (job,),
            )
            assert await running.claim(services, job) is None
            assert await ended(services, owner, job) == Came.told(code, charge, entries)

    inside(settings, work)


def test_a_master_key_that_is_not_known(settings: Settings) -> None:
    """Of a content nothing was charged, of what was released everything, and the jobs say so."""

    async def work(services: Services, owner: Principal) -> None:
        content, released = await causes.under_an_unknown_key(services, owner)
        assert content == Came.told("master_key_unknown", NOTHING, RELEASED)
        assert released == Came.told("master_key_unknown", FULL, CHARGED)

    inside(settings, work)


def test_what_is_erased_or_does_not_open_any_more(settings: Settings) -> None:
    async def work(services: Services, owner: Principal) -> None:
        job = await causes.handed_back(services, owner)
        shorter = "UPDATE releases SET sealed = substring(sealed FROM 2) WHERE job_id = %s"
        assert causes.as_owner(settings, shorter, (job,)) == 1
        assert await running.claim(services, job) is None
        assert await ended(services, owner, job) == Came.told("release_unreadable", FULL, CHARGED)

        job = await causes.new_job(services, owner)
        erased = (
            "UPDATE datasets SET deleted_at = now(), wrapped_key = NULL"
            " WHERE id = (SELECT dataset_id FROM jobs WHERE id = %s)"
        )
        assert causes.as_owner(settings, erased, (job,)) == 1
        assert await running.claim(services, job) is None
        assert await ended(services, owner, job) == Came.told("data_erased", NOTHING, RELEASED)

    inside(settings, work)


# Object storage -----------------------------------------------------------------------------------


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[causes.ForeignFiles]]:
    with causes.foreign_storage(monkeypatch) as found:
        yield found


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("error", "storage_unavailable"),
        ("silent", "storage_unavailable"),
        ("denied", "storage_denied"),
    ],
)
def test_object_storage_that_is_silent_gone_or_closed(
    settings: Settings,
    foreign: type[causes.ForeignFiles],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    code: str,
) -> None:
    answer, came = causes.storage_that_fails(settings, monkeypatch, foreign, fault)
    assert (answer.status_code, answer.json()["code"]) == (503, code)
    assert "secret" not in answer.text
    assert "Retry-After" in answer.headers
    assert came == Came.told("content_unavailable", NOTHING, RELEASED)


def test_a_silent_s3_is_given_up_by_its_driver_too(
    foreign: type[causes.ForeignFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread stays behind: the driver, which takes its timeouts as s3fs does, ends by itself."""
    ended, given = threading.Event(), {}

    class S3(foreign):  # type: ignore[misc, valid-type]
        protocol = "s3"

        def __init__(self, *, config_kwargs: dict[str, Any], **more: Any) -> None:
            super().__init__(**more)
            given.update(config_kwargs)

        def _open(self, *_: Any, **__: Any) -> None:
            try:
                with socket.create_connection(self.silent, given["connect_timeout"]) as asked:
                    asked.settimeout(given["read_timeout"])
                    asked.recv(1)
            finally:
                ended.set()

    monkeypatch.setitem(drivers, "s3", S3)
    monkeypatch.setitem(
        fsspec.config.conf, "s3", {"config_kwargs": {"s3": {"addressing_style": "path"}}}
    )
    with pytest.raises(StorageTrouble) as found:
        Objects("s3://contents").write("dst_1", [b"sealed"])
    assert found.value.code == "storage_unavailable"
    assert ended.wait(DEADLINE_SECONDS)
    assert given == {
        "connect_timeout": 0.5,
        "read_timeout": 0.5,
        "retries": {"total_max_attempts": 1},
        "s3": {"addressing_style": "path"},
    }


def test_calls_that_wait_for_a_silent_storage_are_bounded(
    foreign: type[causes.ForeignFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(foreign, "fault", "silent")
    store = Objects("foreign://contents")
    for _ in range(impatience.MOST_ABANDONED):
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
    found = causes.on_a_small_disk(tmp_path, "1m", FULL_DISK)
    assert found == [["spool_unavailable", "storage_full"], ["dst_1"], "kept"], (
        "no part of an object stays"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can be mounted by root only")
def test_an_upload_to_a_full_spool_registers_nothing(settings: Settings, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    status, code, detail = causes.upload_to_a_full_spool(settings, spool)
    assert (status, code) == (503, "spool_unavailable")
    assert detail.endswith("; nothing was registered")
    assert causes.as_owner(settings, "SELECT 1 FROM datasets") == 0
    assert causes.as_owner(settings, "SELECT 1 FROM ledger_entries") == 0


# Database -----------------------------------------------------------------------------------------


@outage
def test_database_that_is_gone_read_only_or_held(
    settings: Settings, server: EmbeddedPostgres
) -> None:
    """Each its own code; the same request once more is the same job."""
    asked = causes.database_in_trouble(settings, server)
    codes = {
        what: (answer.status_code, answer.json()["code"]) for what, answer in asked.answers.items()
    }
    assert codes == {
        "read-only": (503, "database_read_only"),
        "held": (503, "database_busy"),
        "gone": (503, "database_unavailable"),
    }
    detail = asked.answers["gone"].json()["detail"]
    assert "not known here" in detail, "who cannot know does not say that nothing happened"
    assert asked.jobs[0] == asked.jobs[1]
    assert asked.ledger == ("open", "reserve")


@pytest.mark.long
@outage
def test_a_worker_waits_for_its_database_and_charges_once(
    settings: Settings, server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL goes away twice: before data are touched, and before what was released is
    stored."""
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
        await causes.attempt(services, job)
        assert waited() >= before + 4
        assert (await job_uses.find(services, owner, job))["state"] == "succeeded"
        async with services.database.transaction(SYSTEM) as connection:
            assert (
                tuple(entry["kind"] for entry in await ledger.reservation(connection, job))
                == CHARGED
            )

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
    if isinstance(
        error, PoolTimeout
    ):  # a request has several transactions: the ones before this may have committed
        assert found is not None
        assert "not known here" in found.detail


def test_a_schema_of_another_version(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 that names both versions; a worker waits; the command line says it in one line."""
    ours = revisions()[-1]

    def change(version: str) -> None:
        causes.rename_in_schema(settings, back=version == ours)
        causes.say_version(settings, version)

    async def go() -> None:
        async with causes.served(settings) as client:
            dataset = (await client.post("/v1/datasets", json=bodies.dataset())).json()
            job = await client.post(
                "/v1/jobs", json=bodies.job(dataset["id"]), headers={"Idempotency-Key": "1"}
            )
            await asyncio.to_thread(change, "0000")
            answer = await client.get("/v1/jobs")
            assert (answer.status_code, answer.json()["code"]) == (503, "wrong_schema")
            assert f"has schema 0000, this version needs {ours}" in answer.json()["detail"]
            async with open_services(settings) as services:
                working = asyncio.create_task(causes.attempt(services, job.json()["id"]))
                name = "discreet_worker_database_waits_total"
                while not REGISTRY.get_sample_value(name, {"code": "wrong_schema"}):
                    assert not working.done()
                    await asyncio.sleep(0.05)
                done = await asyncio.to_thread(
                    subprocess.run,
                    [
                        sys.executable,
                        "-m",
                        "discreet",
                        "bootstrap",
                        "--owner-key",
                        str(settings.state / "again.key"),
                    ],
                    env=clean_environment(
                        DISCREET_DATABASE_URL=str(settings.database_url),
                        DISCREET_STATE=str(settings.state),
                    ),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 1
                assert done.stderr.startswith(
                    f"discreet: the database has schema 0000, this version needs {ours}"
                )
                await asyncio.to_thread(change, ours)
                await working
            assert (await client.get(f"/v1/jobs/{job.json()['id']}")).json()["state"] == "succeeded"

    asyncio.run(go())


def test_what_nobody_foresaw_says_that_it_does_not_know(settings: Settings) -> None:
    """The schema says that it is ours and is not: no code of the database's explains it."""

    async def go() -> None:
        async with causes.served(settings) as client:
            dataset = (await client.post("/v1/datasets", json=bodies.dataset())).json()
            causes.rename_in_schema(settings, back=False, keys=False)
            answer = await causes.ask_for_job(client, dataset["id"])
            assert (answer.status_code, answer.json()["code"]) == (500, "internal")
            assert "whether a change was made is not known here" in answer.json()["detail"]

    asyncio.run(go())


# The table ----------------------------------------------------------------------------------------


def test_the_tables_of_causes_are_whole() -> None:
    """Every code that a job may fail with, and every 503, stands in docs/errors.md with a test that
    exists."""
    text = (ROOT / "docs/errors.md").read_text()
    ends = re.findall(
        r"^\| `([a-z_]+)` \| (.+) \| (nothing|full|if touched) \| `([^`]+)` \|$", text, re.M
    )
    answers = re.findall(r"^\| `([a-z_]+)` \| (nothing|not known) \| `([^`]+)` \|$", text, re.M)
    assert sorted((code, sentence) for code, sentence, *_ in ends) == sorted(
        endings.all_failures().items()
    )
    busy = {code for code, known in CODES.items() if known.status == 503 and code != "unavailable"}
    assert sorted(code for code, *_ in answers) == sorted(busy | {"internal"})
    for *_, test in (*ends, *answers):
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(), test
