"""Backup and restore of an embedded installation: what comes back, what is refused, and what
privacy asks of it."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from discreet.errors import DiscreetError
from discreet.installation import backup
from discreet.installation.database_roles import SUPERUSER
from discreet.installation.local import _DATASET, _JOB
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.prepared import embedded
from discreet.installation.state import RESTORING
from discreet.ledger.entries import Broken
from discreet.ledger.verification import Verified
from discreet.settings import Settings
from discreet.storage import secrets
from discreet.storage.database import SYSTEM
from discreet.storage.tenants import Principal
from discreet.usecases import access, datasets, jobs, operations, published, running
from discreet.usecases import ledger as exports
from discreet.usecases.services import Services, open_services
from discreet.web.bodies import validate
from discreet.web.uploads import whole_registration
from tests import bodies
from tests.postgres_fixture import fresh_database
from tests.test_up import clean_environment

RESULT = b'{"answer":42}'


def settings_of(state: Path) -> Settings:
    return Settings(state=state, database_url=None, migration_database_url=None, secrets_file=None)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Services, Principal]]:
    async with open_services(settings) as services:
        yield services, await access.local_owner(services)


async def register(services: Services, owner: Principal, body: dict[str, Any]) -> str:
    row, _ = await datasets.register(
        services, owner, whole_registration(validate(_DATASET, body).root)
    )
    return str(row["id"])


async def submit(services: Services, owner: Principal, dataset: str) -> str:
    request = validate(_JOB, bodies.job(dataset))
    row = await jobs.submit(
        services,
        owner,
        idempotency_key=str(uuid.uuid4()),
        request=uuid.uuid4().bytes,
        problem=request.problem,
        privacy=request.privacy,
        seed=request.seed,
    )
    return str(row["id"])


async def work(services: Services, job: str, *, publish: bool) -> None:
    """A worker's steps up to the stored release, or to the end."""
    held = await running.claim(services, job)
    assert held is not None
    await running.touch(services, held)
    await running.keep_release(services, held, b"released")
    if publish:
        await running.publish(services, held, RESULT, {})


@dataclass
class History:
    """A state folder, two backups of it, and the heads that an auditor kept at both times."""

    state: Path
    running: Path
    stopped: Path
    jobs: dict[str, str] = field(default_factory=dict)
    early: dict[str, Any] = field(default_factory=dict)
    late: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("backup")
    made = History(folder / "a state", folder / "while it ran", folder / "when it was stopped")
    settings = settings_of(made.state)

    async def before(ready: Settings) -> None:
        async with opened(ready) as (services, owner):
            dataset = await register(services, owner, bodies.dataset())
            for name in ("published", "released", "queued"):
                made.jobs[name] = await submit(services, owner, dataset)
            await work(services, made.jobs["published"], publish=True)
            await work(services, made.jobs["released"], publish=False)
            made.early = await exports.head(services, owner)

    async def after(ready: Settings) -> None:
        async with opened(ready) as (services, owner):
            await work(services, made.jobs["queued"], publish=True)  # published after the backup
            made.late = await exports.head(services, owner)

    with embedded(settings) as ready:
        (made.state / "owner.key").write_text("dsc_kept\n")
        asyncio.run(before(ready))
        backup.backup(settings, made.running)
        asyncio.run(after(ready))
    backup.backup(settings, made.stopped)
    return made


async def states(ready: Settings) -> tuple[dict[str, dict[str, Any]], Verified]:
    """Jobs by id, and the verified ledger of the tenant."""
    async with opened(ready) as (services, owner):
        rows = {
            row["id"]: row
            for row in await jobs.page(services, owner, state=None, after=None, size=50)
        }
        (verified,) = await operations.check_ledger(services, [])
        return rows, verified


async def kinds(ready: Settings, job: str) -> list[str]:
    from discreet.storage import ledger

    async with (
        opened(ready) as (services, owner),
        services.database.transaction(owner.tenant_id) as connection,
    ):
        return [entry["kind"] for entry in await ledger.reservation(connection, job)]


async def backups(settings: Settings) -> list[tuple[str, str]]:
    """When each backup was made that the database knows of, and with what."""
    async with (
        open_services(settings) as services,
        services.database.transaction(SYSTEM) as connection,
    ):
        rows = await connection.execute(text("SELECT made_at, made_with FROM backups ORDER BY id"))
        return [
            (at.astimezone(UTC).isoformat().replace("+00:00", "Z"), made_with)
            for at, made_with in rows
        ]


def test_restored_state_holds_everything_and_no_job_can_release_twice(
    history: History, tmp_path: Path
) -> None:
    settings = settings_of(tmp_path / "restored")
    manifest = json.loads((history.running / backup.MANIFEST).read_text())
    found = backup.restore(settings, history.running, [history.early])
    assert found["ended_jobs"] == 1
    assert found["heads"] == 1
    assert sum(one["entries"] for one in found["ledgers"]) == history.early["seq"]
    assert (settings.state / "owner.key").read_text() == "dsc_kept\n"
    assert (settings.state / "secrets.json").read_bytes() == (
        history.state / "secrets.json"
    ).read_bytes()
    assert stat.S_IMODE((settings.state / "secrets.json").stat().st_mode) == 0o600
    assert not (settings.state / RESTORING).exists()
    with embedded(settings) as ready:
        rows, verified = asyncio.run(states(ready))
        assert {name: rows[job]["state"] for name, job in history.jobs.items()} == {
            "published": "succeeded",
            "released": "running",  # what was released is finished, without another touch
            "queued": "failed",  # it has run in the life that the backup does not know
        }
        assert rows[history.jobs["queued"]]["error_code"] == "restored"
        assert asyncio.run(kinds(ready, history.jobs["queued"])) == [
            "reserve",
            "data_touched",
            "commit",
        ]
        assert asyncio.run(kinds(ready, history.jobs["released"])) == ["reserve", "data_touched"]
        assert verified.entries == history.early["seq"] + 2
        (known,) = asyncio.run(backups(ready))  # of this one; no later is in it
        assert known == (manifest["created_at"], "discreet")

        async def result() -> bytes:
            async with opened(ready) as (services, owner):
                assert await running.claim(services, history.jobs["queued"]) is None
                return (await published.result(services, owner, history.jobs["published"]))[1]

        assert asyncio.run(result()) == RESULT
        for url in (
            ready.database_url,
            ready.migration_database_url,
        ):  # grants and triggers are back too
            with psycopg.connect(str(url)) as connection:
                connection.execute("SELECT set_config('discreet.tenant', '*', false)")
                with pytest.raises(psycopg.Error, match=r"permission denied|append-only"):
                    connection.execute("DELETE FROM ledger_entries")


@pytest.mark.long
def test_ledger_that_lacks_what_a_kept_head_names_is_refused(
    history: History, tmp_path: Path
) -> None:
    state, kept = tmp_path / "restored", tmp_path / "head.json"
    kept.write_text(json.dumps(history.late))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "discreet",
            "restore",
            str(history.running),
            "--state",
            str(state),
            "--head",
            str(kept),
        ],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"({history.late['seq']} entries there, {history.early['seq']} here)" in done.stderr
    assert "the kept head" in done.stderr or "missing" in done.stderr
    assert not state.exists()
    # The later backup has it all; nothing had to be ended in it, since the job was published in
    # that life.
    found = backup.restore(settings_of(state), history.stopped, [history.early, history.late])
    assert found["ended_jobs"] == 0


@pytest.mark.long
def test_a_restore_without_a_head_may_forget_and_must_be_told_so(
    history: History, tmp_path: Path
) -> None:
    state = tmp_path / "restored"
    command = [
        sys.executable,
        "-m",
        "discreet",
        "restore",
        str(history.running),
        "--state",
        str(state),
    ]
    refused = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "--forget-spending" in refused.stderr
    assert not state.exists()
    command.append("--forget-spending")
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "can be spent again" in done.stderr


def test_damaged_and_foreign_backups_are_refused(history: History, tmp_path: Path) -> None:
    settings, place = settings_of(tmp_path / "restored"), tmp_path / "backup"
    subprocess.run(["/bin/cp", "-a", str(history.running), str(place)], check=True)
    dump = place / backup.DUMP
    whole = dump.read_bytes()
    for damaged in (whole[:-1], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        dump.write_bytes(damaged)
        with pytest.raises(backup.BadBackup, match="damaged"):
            backup.restore(settings, place, forget_spending=True)
    dump.write_bytes(whole)
    manifest = json.loads((place / backup.MANIFEST).read_text())
    (place / backup.MANIFEST).write_text(json.dumps(manifest | {"schema": "9999"}))
    with pytest.raises(backup.BadBackup, match="newer version"):
        backup.restore(settings, place, forget_spending=True)
    (place / backup.MANIFEST).unlink()
    with pytest.raises(backup.BadBackup, match="not a backup"):
        backup.restore(settings, place, forget_spending=True)
    assert not settings.state.exists()
    with pytest.raises(DiscreetError, match="is not empty"):
        backup.restore(settings_of(history.state), history.running)
    with pytest.raises(DiscreetError, match="exists already"):
        backup.backup(settings_of(history.state), history.running)
    with pytest.raises(DiscreetError, match="holds no database"):
        backup.backup(settings, tmp_path / "another")
    other = Settings(
        state=history.state, database_url="postgresql://discreet_app@127.0.0.1/discreet"
    )
    with pytest.raises(DiscreetError, match="a PostgreSQL of your own"):
        backup.backup(other, tmp_path / "another")


def test_rewritten_dump_does_not_pass(
    history: History, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    """Whoever changes the dump, and its digest in the manifest, cannot change the ledger in it."""
    place = tmp_path / "backup"
    subprocess.run(["/bin/cp", "-a", str(history.running), str(place)], check=True)
    with fresh_database(postgres, None) as forged:
        superuser = postgres.url(SUPERUSER, forged.name)
        dump = str(place / backup.DUMP)
        backup._program("pg_restore", superuser, "--exit-on-error", dump, database=forged.name)
        with psycopg.connect(superuser, autocommit=True) as connection:
            connection.execute("ALTER TABLE ledger_entries DISABLE TRIGGER USER")
            connection.execute(
                "UPDATE ledger_entries SET body = replace(body, '\"data_touched\"', '\"release\"')"
            )
            connection.execute("ALTER TABLE ledger_entries ENABLE TRIGGER USER")
        (place / backup.DUMP).unlink()
        backup._program(
            "pg_dump", superuser, "--format=custom", f"--file={dump}", database=forged.name
        )
    manifest = json.loads((place / backup.MANIFEST).read_text())
    manifest["files"][backup.DUMP] = backup._described(place / backup.DUMP)
    (place / backup.MANIFEST).write_text(json.dumps(manifest))
    settings = settings_of(tmp_path / "restored")
    with pytest.raises(Broken, match="its hash is not that of its content"):
        backup.restore(settings, place, forget_spending=True)
    assert not settings.state.exists()


@pytest.mark.long
def test_database_of_ones_own_is_adopted_once_it_holds(
    history: History, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    kept = tmp_path / "head.json"
    with fresh_database(postgres, None) as database:
        superuser = postgres.url(SUPERUSER, database.name)
        backup._program(
            "pg_restore",
            superuser,
            "--exit-on-error",
            str(history.running / backup.DUMP),
            database=database.name,
        )
        more = {
            "DISCREET_DATABASE_URL": database.app_url,
            "DISCREET_SECRETS_FILE": str(history.running / "state" / "secrets.json"),
        }

        def adopt(head: dict[str, Any] | None) -> subprocess.CompletedProcess[str]:
            kept.write_text(json.dumps(head))
            return subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "discreet",
                    "adopt",
                    *([] if head is None else ["--head", str(kept)]),
                ],
                env=clean_environment(**more),
                capture_output=True,
                text=True,
                check=False,
            )

        unknown = adopt(None)
        assert unknown.returncode == 1
        assert "could be spent again" in unknown.stderr
        refused = adopt(history.late)
        assert refused.returncode == 1
        assert "whose head was kept" in refused.stderr
        done = adopt(history.early)
        assert done.stdout == (
            f"{history.early['seq']} ledger entries verified; 1 jobs that had not ended were "
            "ended, and charged\n"
        )


def test_backup_is_private_and_whole(history: History) -> None:
    """Also where the umask is open, as in `history`."""
    for path in (history.running, *history.running.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    names = {
        str(path.relative_to(history.running))
        for path in history.running.rglob("*")
        if path.is_file()
    }
    assert names == {backup.DUMP, backup.MANIFEST, "state/owner.key", "state/secrets.json"}
    assert [
        path.name for path in history.running.parent.iterdir() if path.name.startswith(".")
    ] == []
    passwords = json.loads((history.state / "postgres.json").read_text()).values()
    for path in history.running.rglob("*"):
        if path.is_file():
            assert not [word for word in passwords if word.encode() in path.read_bytes()]


def test_state_whose_restore_was_killed_is_refused(history: History, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "restored")
    code = (
        "import os, signal, sys; from pathlib import Path; from discreet.installation import "
        "backup\n"
        "from tests.test_backup import settings_of\n"
        "backup.EmbeddedPostgres = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "backup.restore(settings_of(Path(sys.argv[1])), Path(sys.argv[2]), forget_spending=True)"
    )
    root = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", code, str(settings.state), str(history.running)]
    killed = subprocess.run(command, env=clean_environment(), cwd=root, check=False)
    assert killed.returncode == -9
    with (
        pytest.raises(DiscreetError, match=r"a restore into .* did not finish"),
        embedded(settings),
    ):
        pass


def test_keys_and_objects_that_go_while_a_backup_is_made(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is copied first. A dataset deleted after that takes its object along, and the
    backup goes on; a master key retired after that would leave contents that nobody can open, and
    the backup says so."""
    settings = settings_of(history.state)
    place, kept = history.state / "secrets.json", (history.state / "secrets.json").read_bytes()
    objects = history.state / "objects"
    objects.mkdir()
    for number in range(2):
        (objects / f"dst_{number}").write_bytes(b"sealed")
    program, copy = backup._program, backup.shutil.copy2

    def while_it_is_copied(source: Any, target: Any) -> Any:
        if Path(source).parent == objects:
            Path(source).unlink()
        return copy(source, target)

    def dumped(*arguments: Any) -> None:
        program(*arguments)
        old = secrets.load(place).content_key_id
        secrets.rotate(place, "content")
        secrets.retire(place, "content", old)

    monkeypatch.setattr(backup.shutil, "copy2", while_it_is_copied)
    try:
        backup.backup(settings, tmp_path / "first")
        assert sorted((tmp_path / "first/state/objects").iterdir()) == []
        monkeypatch.setattr(backup, "_program", dumped)
        with pytest.raises(DiscreetError, match="a master key that the copied database needs"):
            backup.backup(settings, tmp_path / "second")
        assert not (tmp_path / "second").exists()
    finally:
        place.write_bytes(kept)
        objects.rmdir()
