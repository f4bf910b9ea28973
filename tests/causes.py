"""Faults that are put into an installation, and what came of them: the code that was answered, and
the ledger.

The faults are real (limits of the kernel, signals, servers that are stopped or say nothing, full
disks). Tests in `reliability/test_causes.py` hold what came of them against the table in
docs/errors.md; `make hostile` prints it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import httpx
import psycopg
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from discreet.api.app import create_app
from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation import children
from discreet.isolation.children import Limits, Zygote
from discreet.isolation.sandbox import Level
from discreet.settings import Settings
from discreet.storage import ledger, objects
from discreet.storage.database import SYSTEM
from discreet.storage.migrations import migrate
from discreet.storage.schema import revisions
from discreet.storage.tenants import Principal
from discreet.usecases import access, endings, running
from discreet.usecases import jobs as job_uses
from discreet.usecases.services import Services, open_services
from discreet.worker import runner
from discreet.worker.runner import Runner
from tests import bodies
from tests.postgres_fixture import in_memory, make_template
from tests.templates import FAULTY, programs_of_children, templates
from tests.test_backup import register, submit
from tests.test_up import clean_environment

ROOT = Path(__file__).parents[1]
FULL, NOTHING = endings.IN_FULL, endings.NOTHING
CHARGED = ("reserve", "data_touched", "commit")
RELEASED = ("reserve", "release")


@dataclass(frozen=True)
class Came:
    """How a job ended: its error, and the kinds of its entries in the ledger."""

    code: str
    detail: str
    ledger: tuple[str, ...]

    @classmethod
    def told(cls, code: str, charge: str, ledger: tuple[str, ...]) -> Came:
        """What the table says: the code's sentence, and what was charged."""
        return cls(code, f"{endings.FAILURES[code]}; {charge}", ledger)


@contextlib.contextmanager
def stoppable_server(folder: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL with a migrated template that nobody else needs."""
    with in_memory(folder) as place, EmbeddedPostgres(place, durable=False) as found:
        make_template(
            found,
            lambda database: migrate(
                Settings(database_url=database.app_url, migration_database_url=database.owner_url)
            ),
        )
        yield found


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Let workers try again at once."""
    patch.setattr(runner, "STORAGE_SECONDS", 0.01)
    patch.setattr(runner, "DATABASE_SECONDS", 0.05)


def inside(settings: Settings, work: Callable[[Services, Principal], Awaitable[None]]) -> None:
    async def go() -> None:
        async with open_services(settings) as services:
            await work(services, await access.local_owner(services))

    asyncio.run(go())


async def ended(services: Services, owner: Principal, job: str) -> Came:
    found = job_uses.view(await job_uses.find(services, owner, job), owner)
    assert found["state"] == "failed"
    async with services.database.transaction(SYSTEM) as connection:
        entries = tuple(entry["kind"] for entry in await ledger.reservation(connection, job))
    return Came(found["error"]["code"], found["error"]["detail"], entries)


async def new_job(services: Services, owner: Principal) -> str:
    return await submit(services, owner, await register(services, owner, bodies.dataset()))


def as_owner(settings: Settings, statement: str, values: tuple[str, ...] = ()) -> int:
    """How many rows of any tenant the database's owner has changed behind the service."""
    with psycopg.connect(str(settings.migration_database_url), autocommit=True) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        return connection.execute(statement.encode(), values).rowcount


@contextlib.asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API with the owner's key."""
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        keys = {role: access.new_key() for role in ("owner", "operator")}
        assert await access.bootstrap(app.state.services, keys)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {keys['owner']}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://here", headers=headers
        ) as client:
            yield client


async def ask_for_job(client: httpx.AsyncClient, dataset: str) -> httpx.Response:
    """The same request whenever it is sent."""
    return await client.post(
        "/v1/jobs", json=bodies.job(dataset), headers={"Idempotency-Key": "only"}
    )


async def upload(client: httpx.AsyncClient, content: bytes) -> httpx.Response:
    metadata = {name: value for name, value in bodies.dataset().items() if name != "content"}
    files = {"content": ("trips.csv", content)}
    return await client.post("/v1/datasets", data={"metadata": json.dumps(metadata)}, files=files)


# Children -----------------------------------------------------------------------------------------

GENEROUS = Limits(memory_bytes=2 << 30, cpu_seconds=600, wall_seconds=600.0)
CHILDREN: tuple[tuple[str, Limits, str, str], ...] = (
    ("memory", GENEROUS, "memory_limit", "result_memory_limit"),
    ("cpu", Limits(2 << 30, 1, 600.0), "cpu_limit", "result_cpu_limit"),
    ("segv", GENEROUS, "child_crashed", "result_crashed"),
    ("raise", GENEROUS, "child_raised", "result_failed"),
    ("wall", Limits(2 << 30, 600, 1.0), "wall_limit", "result_wall_limit"),
)
"""Fault, limits, what operators hear, and what a job says whose result was being made."""


def limited(patch: pytest.MonkeyPatch, limits: Limits) -> None:
    """Every child of a worker has these limits, whatever its plan says."""
    patch.setattr(Runner, "_limits", lambda _self, _held, _seconds=0.0: limits)


def _fork_server(patch: pytest.MonkeyPatch, module: str, **environment: str) -> None:
    real = children.plain_environment
    path = os.pathsep.join(path for path in sys.path if path)
    patch.setattr(children, "template", None)
    patch.setattr(children, "ZYGOTE_MODULE", module)
    patch.setattr(
        children, "plain_environment", lambda: {**real(), "PYTHONPATH": path, **environment}
    )


def no_fork_server(patch: pytest.MonkeyPatch) -> None:
    """The program that starts children is not there."""
    patch.setattr(children, "template", None)
    patch.setattr(children, "ZYGOTE_MODULE", "tests.isolation.nowhere")


def hanging_fork_server(patch: pytest.MonkeyPatch) -> None:
    """The program that starts children never becomes ready."""
    _fork_server(patch, "tests.isolation.zygote", HANG="1")
    patch.setattr(children, "START_SECONDS", 0.5)


def no_walls(patch: pytest.MonkeyPatch) -> None:
    """The kernel has no walls to build."""
    _fork_server(patch, "tests.isolation.zygote", WALLS="", REHEARSE="0")


def crashing_reader(patch: pytest.MonkeyPatch) -> None:
    """A signal of the processor ends every child that reads an upload."""
    templates().faults.write_text("reading segv")
    programs_of_children(patch, FAULTY)


@contextlib.asynccontextmanager
async def faulty_children(patch: pytest.MonkeyPatch) -> AsyncIterator[Zygote]:
    """A zygote whose children meet the fault that `templates().faults` names."""
    programs_of_children(patch, FAULTY)
    async with stopped_at_the_end(Zygote()) as zygote:
        await zygote.start()
        yield zygote


@contextlib.asynccontextmanager
async def stopped_at_the_end(zygote: Zygote) -> AsyncIterator[Zygote]:
    try:
        yield zygote
    finally:
        await zygote.stop()


async def attempt(services: Services, job: str, least: Level = "none") -> None:
    """What a worker does with that job."""
    async with stopped_at_the_end(Zygote(least)) as zygote:
        await Runner(services, zygote).run(job)


async def run_job(services: Services, owner: Principal, zygote: Zygote) -> Came:
    """How a new job ends."""
    job = await new_job(services, owner)
    await Runner(services, zygote).run(job)
    return await ended(services, owner, job)


async def handed_back(services: Services, owner: Principal) -> str:
    """A job that has released something, of a worker that stopped then."""
    job = await new_job(services, owner)
    held = await running.claim(services, job)
    assert held is not None
    await running.touch(services, held)
    await running.keep_release(services, held, b"released")
    await running.hand_back(services, held)
    return job


async def under_an_unknown_key(services: Services, owner: Principal) -> tuple[Came, Came]:
    """Of a job whose content is sealed under a key of another installation, and of one whose
    release is."""
    job = await new_job(services, owner)
    as_owner(
        services.settings,
        "UPDATE datasets SET content_key_id = 'elsewhere' WHERE id = (SELECT dataset_id FROM jobs "
        "WHERE id = %s)",
        (job,),
    )
    released = await handed_back(services, owner)
    as_owner(
        services.settings,
        "UPDATE releases SET content_key_id = 'elsewhere' WHERE job_id = %s",
        (released,),
    )
    for each in (job, released):
        await attempt(services, each)
    return await ended(services, owner, job), await ended(services, owner, released)


# Object storage -----------------------------------------------------------------------------------


class EndpointConnectionError(Exception):
    """As botocore's: none of its errors is an OSError."""


class ForeignFiles(MemoryFileSystem):
    """An object store whose driver fails in its own ways: by errors of its own, or by waiting for a
    silent server."""

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


@contextlib.contextmanager
def foreign_storage(patch: pytest.MonkeyPatch) -> Iterator[type[ForeignFiles]]:
    """Object storage `foreign://`, and a server that accepts connections and says nothing."""
    fsspec.register_implementation("foreign", ForeignFiles, clobber=True)
    patch.setattr(objects, "SILENT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        patch.setattr(ForeignFiles, "silent", silent.getsockname())
        yield ForeignFiles


def storage_that_fails(
    settings: Settings, patch: pytest.MonkeyPatch, foreign: type[ForeignFiles], fault: str
) -> tuple[httpx.Response, Came]:
    """The answer to a registration, and how a job ends whose content was registered before."""
    settings = settings.model_copy(update={"object_url": "foreign://contents", "object_bytes": 0})

    async def go() -> tuple[httpx.Response, Came]:
        async with served(settings) as client:
            kept = (await client.post("/v1/datasets", json=bodies.dataset())).json()
            job = (await ask_for_job(client, kept["id"])).json()["id"]
            patch.setattr(foreign, "fault", fault)
            answer = await client.post("/v1/datasets", json=bodies.dataset())
            async with open_services(settings) as services:
                await attempt(services, job)
                return answer, await ended(services, await access.local_owner(services), job)

    return asyncio.run(go())


# Full disks ---------------------------------------------------------------------------------------


def on_a_small_disk(place: Path, size: str, program: str, *arguments: str) -> Any:
    """What a program prints last, as JSON, that finds `place` (its first argument) to be a file
    system of this size. Root only: the file system is mounted where nobody else sees it."""
    script = f'mount -t tmpfs -o mode=0700,size={size} tmpfs "$1" && shift && exec "$@"'
    command = [
        "/bin/sh",
        "-ec",
        script,
        "sh",
        str(place),
        sys.executable,
        "-c",
        program,
        str(place),
        *arguments,
    ]
    done = subprocess.run(
        ["/usr/bin/unshare", "--mount", *command],
        env=clean_environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FULL_DATABASE = """
import json, subprocess, sys
from pathlib import Path
from discreet.errors import DiscreetError
from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.storage import secrets
from discreet.storage.migrations import migrate
from tests.reliability.test_state_faults import fill_up
state = Path(sys.argv[1])
said = []
try:
    EmbeddedPostgres(state, durable=False).start()
except DiscreetError as error:
    said.append(str(error))
subprocess.run(["/bin/mount", "-o", "remount,size=300m", str(state)], check=True)
with EmbeddedPostgres(state, durable=False) as server:
    settings = Settings(
        state=state, database_url=server.app_url, migration_database_url=server.owner_url
    )
    secrets.create(settings.secrets_path)
    migrate(settings)
    said.append(fill_up(settings, server))
print(json.dumps(said))
"""
"""Fills the disk of an embedded PostgreSQL, frees it and goes on; what was said and what was
kept."""

UPLOAD = """
import asyncio, json, sys
from pathlib import Path
from discreet.settings import Settings
from tests.causes import served, upload
async def go():
    settings = Settings(**json.loads(sys.argv[2]), spool=Path(sys.argv[1]))
    async with served(settings) as client:
        rows = b"0,1,2,3\\n" * 300_000
        answer = await upload(client, b"period,origin,destination,count\\n" + rows)
        print(json.dumps([answer.status_code, answer.json()["code"], answer.json()["detail"]]))
asyncio.run(go())
"""


def upload_to_a_full_spool(settings: Settings, place: Path) -> tuple[int, str, str]:
    """Status, code and detail of an upload that is larger than its spool folder."""
    names = ("state", "database_url", "migration_database_url")
    given = json.dumps({name: str(getattr(settings, name)) for name in names})
    status, code, detail = on_a_small_disk(place, "1m", UPLOAD, given)
    return status, code, detail


# Database -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A request for a job that the database did not take, by what was the matter; the ids of the
    job when the same request was sent twice afterwards, and the kinds of all entries of the
    account."""

    answers: dict[str, httpx.Response]
    jobs: tuple[str, str]
    ledger: tuple[str, ...]


def database_in_trouble(settings: Settings, server: EmbeddedPostgres) -> Asked:
    """Read-only, held by another, and stopped; then well again."""
    owner_url = str(settings.migration_database_url)
    with psycopg.connect(owner_url) as connection:
        name = connection.info.dbname

    def alter(setting: str) -> None:
        with psycopg.connect(server.superuser_url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" {setting}'.encode())
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )

    async def go() -> Asked:
        answers: dict[str, httpx.Response] = {}
        async with served(settings) as client:
            dataset = (await client.post("/v1/datasets", json=bodies.dataset())).json()
            alter("SET default_transaction_read_only = on")
            answers["read-only"] = await ask_for_job(client, dataset["id"])
            alter("RESET default_transaction_read_only")
            alter("SET statement_timeout = '300ms'")
            with psycopg.connect(owner_url) as holder:
                holder.execute("SELECT set_config('discreet.tenant', '*', false)")
                holder.execute("SELECT 1 FROM accounts FOR UPDATE")
                answers["held"] = await ask_for_job(client, dataset["id"])
            alter("RESET statement_timeout")
            server.stop()
            try:
                answers["gone"] = await ask_for_job(client, dataset["id"])
            finally:
                server.start()
            first, second = [
                (await ask_for_job(client, dataset["id"])).json()["id"] for _ in range(2)
            ]
            entries = (await client.get(f"/v1/budgets/{dataset['account']}/entries")).json()[
                "entries"
            ]
            return Asked(answers, (first, second), tuple(entry["kind"] for entry in entries))

    return asyncio.run(go())


def rename_in_schema(settings: Settings, *, back: bool, keys: bool = True) -> None:
    """What workers count in, what jobs are accepted with, and the table of keys get names that this
    version does not know, or their own again."""
    names = [("ALTER TABLE jobs RENAME COLUMN {} TO {}", "failures", "mistakes")]
    names += [("ALTER TABLE jobs RENAME COLUMN {} TO {}", "plan", "scheme")]
    names += [("ALTER TABLE {} RENAME TO {}", "keys", "other_keys")] if keys else []
    for statement, known, strange in names:
        as_owner(settings, statement.format(*((strange, known) if back else (known, strange))))


def say_version(settings: Settings, version: str = revisions()[-1]) -> None:
    as_owner(settings, "UPDATE alembic_version SET version_num = %s", (version,))
