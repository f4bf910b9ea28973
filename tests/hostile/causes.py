"""Faults that are put into an installation: the code that is answered, and what the ledger has.

Held: both are what the table of docs/errors.md says, a job's sentence included.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.storage.schema import revisions
from discreet.storage.tenants import Principal
from discreet.usecases.services import Services
from tests import bodies, causes
from tests.causes import CHARGED, FULL, NOTHING, RELEASED, Came
from tests.conftest import Installation, settings_for
from tests.hostile import Attack, Reached
from tests.postgres_fixture import fresh_database
from tests.templates import templates


@cache
def _server() -> EmbeddedPostgres:
    """A PostgreSQL that these attacks may stop, until the program ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-hostile-"))
    return stack.enter_context(causes.stoppable_server(Path(folder) / "postgres"))


@contextmanager
def _place() -> Iterator[tuple[Settings, Path, pytest.MonkeyPatch]]:
    """An installation without processes, a folder, and what is changed for one attack."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="discreet-hostile-") as folder,
        fresh_database(_server()) as database,
    ):
        causes.hasten(patch)
        yield (
            settings_for(database, Path(folder) / "state", max_attempts=1, spool=Path(folder)),
            Path(folder),
            patch,
        )


def _jobs(*pairs: tuple[Came, Came]) -> Reached:
    """What came of jobs, beside what the table says."""
    figures = "; ".join(f"{came.code}, ledger {' '.join(came.ledger)}" for came, _ in pairs)
    return Reached(figures, all(came == told for came, told in pairs))


def _allowed(*jobs: tuple[str, tuple[str, ...]]) -> str:
    return "; ".join(f"{code}, ledger {' '.join(ledger)}" for code, ledger in jobs)


def _child(fault: str) -> Attack:
    limits, code = next(
        (limits, code) for name, limits, _, code in causes.CHILDREN if name == fault
    )

    def run(_service: Installation) -> Reached:
        found: list[tuple[Came, Came]] = []
        with _place() as (settings, _, patch):
            causes.limited(patch, limits)

            async def work(services: Services, owner: Principal) -> None:
                async with causes.faulty_children(patch) as zygote:
                    for step, expected in (("release", "solver_failed"), ("finish", code)):
                        templates().faults.write_text(f"{step} {fault}")
                        came = await causes.run_job(services, owner, zygote)
                        found.append((came, Came.told(expected, FULL, CHARGED)))

            causes.inside(settings, work)
        return _jobs(*found)

    names = {"segv": "a child that crashes", "raise": "a child whose program fails"}
    name = names.get(fault, f"a child over its limit of {fault}")
    allowed = _allowed(("solver_failed", CHARGED), (code, CHARGED))
    return Attack("3 causes", f"{name}, on data and on what was released", allowed, run)


def _without_children(fault: Callable[[pytest.MonkeyPatch], None], code: str, name: str) -> Attack:
    def run(_service: Installation) -> Reached:
        found: list[Came] = []
        with _place() as (settings, _, patch):
            fault(patch)

            async def work(services: Services, owner: Principal) -> None:
                job = await causes.new_job(services, owner)
                await causes.attempt(services, job, "full")
                found.append(await causes.ended(services, owner, job))

            causes.inside(settings, work)
        return _jobs((found[0], Came.told(code, NOTHING, RELEASED)))

    return Attack("3 causes", name, _allowed((code, RELEASED)), run)


def _unknown_key(_service: Installation) -> Reached:
    found: list[Came] = []

    async def work(services: Services, owner: Principal) -> None:
        found.extend(await causes.under_an_unknown_key(services, owner))

    with _place() as (settings, _, _):
        causes.inside(settings, work)
    code = "master_key_unknown"
    return _jobs(
        (found[0], Came.told(code, NOTHING, RELEASED)), (found[1], Came.told(code, FULL, CHARGED))
    )


def _storage(fault: str, code: str, name: str) -> Attack:
    def run(_service: Installation) -> Reached:
        with _place() as (settings, _, patch), causes.foreign_storage(patch) as foreign:
            answer, came = causes.storage_that_fails(settings, patch, foreign, fault)
        job = _jobs((came, Came.told("content_unavailable", NOTHING, RELEASED)))
        answered = (answer.status_code, answer.json()["code"])
        return Reached(
            f"{answered[0]} {answered[1]}; job: {job.figures}", job.held and answered == (503, code)
        )

    return Attack(
        "3 causes", name, f"503 {code}; job: {_allowed(('content_unavailable', RELEASED))}", run
    )


def _database(_service: Installation) -> Reached:
    with _place() as (settings, _, _):
        asked = causes.database_in_trouble(settings, _server())
    codes = {
        what: f"{answer.status_code} {answer.json()['code']}"
        for what, answer in asked.answers.items()
    }
    same = len(set(asked.jobs))
    figures = ", ".join(f"{what}: {code}" for what, code in codes.items())
    held = codes == DATABASE and same == 1 and asked.ledger == ("open", "reserve")
    return Reached(f"{figures}; then {same} job, ledger {' '.join(asked.ledger)}", held)


DATABASE = {
    "read-only": "503 database_read_only",
    "held": "503 database_busy",
    "gone": "503 database_unavailable",
}


def _full_database(_service: Installation) -> Reached:
    if os.geteuid() != 0:
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="discreet-hostile-") as folder:
        _, then = causes.on_a_small_disk(Path(folder), "40m", causes.FULL_DATABASE)
    lost = len(set(then["accepted"]) ^ set(then["jobs"]))
    unpaid = then["entries"] - 1 - len(then["jobs"])
    codes = ", ".join(sorted(set(then["errors"])))
    return Reached(
        f"503 {codes}; {lost} jobs lost, {unpaid} reserved for nothing",
        codes == FULL_DISK and not lost + abs(unpaid),
    )


FULL_DISK = "database_full"


def _full_spool(_service: Installation) -> Reached:
    if os.geteuid() != 0:
        return SKIPPED
    with _place() as (settings, folder, _):
        (folder / "spool").mkdir()
        status, code, _ = causes.upload_to_a_full_spool(settings, folder / "spool")
        entries = causes.as_owner(settings, "SELECT 1 FROM ledger_entries")
    return Reached(
        f"{status} {code}; {entries} entries",
        (status, code, entries) == (503, "spool_unavailable", 0),
    )


SKIPPED = Reached("a small file system can be mounted by root only", held=None)


def _schema(_service: Installation) -> Reached:
    async def go(settings: Settings) -> Reached:
        async with causes.served(settings) as client:
            dataset = (await client.post("/v1/datasets", json=bodies.dataset())).json()
            causes.rename_in_schema(settings, back=False)
            causes.say_version(settings, "0000")
            answer = await causes.ask_for_job(client, dataset["id"])
            causes.rename_in_schema(settings, back=True)
            causes.say_version(settings, revisions()[-1])
            entries = (await client.get(f"/v1/budgets/{dataset['account']}/entries")).json()[
                "entries"
            ]
        code, kinds = answer.json()["code"], [entry["kind"] for entry in entries]
        held = (answer.status_code, code, kinds) == (503, "wrong_schema", ["open"])
        return Reached(f"{answer.status_code} {code}; ledger {' '.join(kinds)}", held)

    with _place() as (settings, _, _):
        return asyncio.run(go(settings))


ATTACKS = [
    *(_child(fault) for fault, *_ in causes.CHILDREN),
    _without_children(
        causes.no_fork_server, "child_not_started", "a fork server that does not start"
    ),
    _without_children(
        causes.hanging_fork_server, "child_not_started", "a fork server that hangs in its warm-up"
    ),
    _without_children(
        causes.no_walls, "not_isolated", "a machine without walls where they are asked for"
    ),
    Attack(
        "3 causes",
        "a master key that is not known, of a content and of what was released",
        _allowed(("master_key_unknown", RELEASED), ("master_key_unknown", CHARGED)),
        _unknown_key,
    ),
    _storage("silent", "storage_unavailable", "object storage that accepts and says nothing"),
    _storage("error", "storage_unavailable", "object storage whose errors are no OSError"),
    _storage("denied", "storage_denied", "object storage that lets nobody in"),
    Attack(
        "3 causes",
        "a database read-only, held, gone; the same request again",
        f"{', '.join(f'{what}: {code}' for what, code in DATABASE.items())}; then 1 job, ledger "
        "open reserve",
        _database,
    ),
    Attack(
        "3 causes",
        "a full disk of the database",
        f"503 {FULL_DISK}; 0 jobs lost, 0 reserved for nothing",
        _full_database,
    ),
    Attack("3 causes", "a full disk of uploads", "503 spool_unavailable; 0 entries", _full_spool),
    Attack("3 causes", "a schema of another version", "503 wrong_schema; ledger open", _schema),
]
