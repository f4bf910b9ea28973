"""State folders that were left half made, filled up, or belong to another version: clear words, and
nothing lost."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from discreet.errors import DiscreetError
from discreet.installation import prepared
from discreet.installation.state import FORMAT, StateLock, claim_format
from discreet.private_files import private_folder
from discreet.settings import Settings
from discreet.storage import secrets
from discreet.storage.schema import revisions
from tests.causes import FULL_DATABASE, on_a_small_disk
from tests.conftest import settings_for
from tests.postgres_fixture import Database
from tests.test_up import clean_environment, refused

KILLED = """
import importlib, os, signal, sys
from pathlib import Path
place, _, name = sys.argv[2].rpartition(":")
owner = importlib.import_module(place)
*path, name = name.split(".")
for part in path:
    owner = getattr(owner, part)
before = getattr(owner, name)
word = sys.argv[3]
def kill(*arguments, **named):
    if word in " ".join(str(one) for one in arguments):
        os.kill(os.getpid(), signal.SIGKILL)
    return before(*arguments, **named)
setattr(owner, name, property(kill, kill) if isinstance(before, property) else kill)
"""
FIRST_START = """
from discreet.installation import prepared
from discreet.settings import Settings
settings = Settings(
    state=Path(sys.argv[1]), database_url=None, migration_database_url=None, secrets_file=None
)
with prepared.embedded(settings):
    pass
"""
FIRST_KEYS = """
from discreet.cli import run
sys.exit(run(["bootstrap", "--owner-key", sys.argv[1] + "/owner.key"]))
"""


def killed(code: str, state: Path, where: str, word: str = "", **environment: str) -> None:
    """Run `code` in a process that dies of SIGKILL when it calls `where` with `word` among its
    arguments."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED + code, str(state), where, word],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, f"{where}: {done.stderr}"


@pytest.mark.long
def test_first_start_killed_at_every_step_goes_on(tmp_path: Path) -> None:
    """One folder that is killed at one step after the other: every start finds what the last one
    left."""
    state = tmp_path / "state"
    for where, word in (
        (
            "discreet.private_files:Path.replace",
            "format.json",
        ),  # the format is written and not in its place
        ("os:link", "secrets.json"),  # the secrets are written and not in their place
        (
            "discreet.private_files:Path.replace",
            "postgres.json",
        ),  # the passwords are not in their place
        (
            "discreet.installation.postgres:check_version",
            "",
        ),  # initdb is done, nothing is configured
        (
            "discreet.installation.database_roles:let_in",
            "",
        ),  # roles and database are made, anybody may connect
        ("discreet.storage.migrations:oldest_code", ""),  # all tables are made and not committed
        (
            "discreet.installation.postgres:EmbeddedPostgres.mark",
            "",
        ),  # it is migrated and does not know it
    ):
        killed(FIRST_START, state, where, word)
    kept = json.loads((state / "postgres.json").read_text())
    settings = Settings(
        state=state, database_url=None, migration_database_url=None, secrets_file=None
    )
    with prepared.embedded(settings) as ready:
        assert secrets.load(settings.secrets_path)
        assert json.loads((state / "postgres.json").read_text()) == kept
        assert json.loads((state / "format.json").read_text())["format"] == FORMAT
        with psycopg.connect(str(ready.database_url)) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (
                revisions()[-1],
            )
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CREATE TABLE mine (x int)")


@pytest.mark.long
def test_first_keys_are_not_lost_between_database_and_disk(
    database: Database, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    settings = settings_for(database, state)
    environment = {
        "DISCREET_STATE": str(state),
        "DISCREET_DATABASE_URL": database.app_url,
        "DISCREET_SECRETS_FILE": str(settings.secrets_path),
    }
    for where, word in (
        ("discreet.usecases.access:bootstrap", ""),  # drafted, not in the database
        ("discreet.private_files:Path.replace", "operator.key"),  # in the database, in no file
        ("discreet.private_files:Path.replace", "owner.key"),
    ):
        killed(FIRST_KEYS, state, where, word, **environment)
        assert not (state / "owner.key").exists()
    code = "import sys\n" + FIRST_KEYS
    for _ in range(2):  # the second time finds that all is done
        subprocess.run(
            [sys.executable, "-c", code, str(state)],
            env=clean_environment(**environment),
            check=True,
        )
        assert not (state / "keys.draft").exists() or (state / "owner.key").exists()
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        found = dict(connection.execute("SELECT role, lookup FROM keys").fetchall())
    for role in ("owner", "operator"):
        assert found[role] in (state / f"{role}.key").read_text()
    assert len(found) == 2


def test_state_of_another_version(tmp_path: Path) -> None:
    state = private_folder(tmp_path / "state")
    with StateLock(state):
        claim_format(state)
        claim_format(state)
    place = state / "format.json"
    assert json.loads(place.read_text())["format"] == FORMAT
    place.write_text(json.dumps({"format": 7, "discreet": "9.1.0"}))
    line = refused(state)
    assert f"{state} has format 7 of discreet 9.1.0; this is discreet" in line
    assert "use that version, or another folder" in line
    assert sorted(path.name for path in state.iterdir()) == [
        "format.json",
        "lock",
    ]  # nothing was touched
    for damaged in ("", "[]", '{"format": "x", "discreet": 1}', "{"):
        place.write_text(damaged)
        with pytest.raises(DiscreetError, match=r"format\.json cannot be read"):
            claim_format(state)


def test_ports_that_are_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(tmp_path / "state", "--rpc-port", str(port))
        words = f"port {port} of 127.0.0.1 is taken by another program; --rpc-port chooses another"
        assert words in line
        assert not (tmp_path / "state" / "postgres").exists()
        done = subprocess.run(
            [sys.executable, "-m", "discreet", "worker", "--metrics-port", str(port)],
            env=clean_environment(DISCREET_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert (
            done.stderr
            == f"discreet: port {port} of 127.0.0.1 is taken by another program; --metrics-port "
            "chooses another\n"
        )


# A full disk --------------------------------------------------------------------------------------


def fill_up(settings: Settings, server: object) -> dict[str, object]:
    """Register and submit until the disk is full and a while longer, free it, go on; what came of
    it."""
    import asyncio

    from sqlalchemy import text
    from sqlalchemy.exc import DBAPIError

    from discreet.installation.postgres import EmbeddedPostgres
    from discreet.observability.monitoring import run_checks
    from discreet.storage.database import trouble
    from discreet.usecases import access
    from discreet.usecases import operations as restoring
    from discreet.usecases.metrics import checks
    from discreet.usecases.services import open_services
    from tests import bodies
    from tests.test_backup import register, submit

    assert isinstance(server, EmbeddedPostgres)
    filler = settings.state / "filler"

    async def go() -> dict[str, object]:
        async with open_services(settings) as services:
            owner = await access.local_owner(services)
            dataset = await register(services, owner, bodies.dataset(epsilon=1000))
            accepted, errors = [await submit(services, owner, dataset)], []
            with filler.open("wb", buffering=0) as out:
                try:
                    while True:
                        out.write(bytes(1 << 16))
                except OSError as error:
                    assert error.errno == 28  # noqa: PT017  ENOSPC is what fills the disk
            for _ in range(400):
                try:
                    accepted.append(await submit(services, owner, dataset))
                except DBAPIError as error:
                    found = trouble(error)
                    errors.append("" if found is None else found.code)
                    if len(errors) == 3:
                        break
            ready = await run_checks(checks(services))
            filler.unlink()
            server.start()  # does nothing while it runs
            for _ in range(50):
                try:
                    accepted.append(await submit(services, owner, dataset))
                    break
                except DBAPIError:
                    await asyncio.sleep(0.2)
            (verified,) = await restoring.check_ledger(services, [])
            async with services.database.transaction("*") as connection:
                jobs = [
                    row[0]
                    for row in await connection.execute(text("SELECT id FROM jobs ORDER BY id"))
                ]
        return {
            "errors": errors,
            "ready": ready["database"],
            "again": (await run_checks(checks(services)))["database"],
            "accepted": sorted(accepted),
            "jobs": jobs,
            "entries": verified.entries,
        }

    return asyncio.run(go())


@pytest.mark.long
def test_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not Path("/usr/bin/unshare").exists():
        pytest.skip("a small file system can be mounted by root only (unshare --mount)")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    first, then = on_a_small_disk(state, "40m", FULL_DATABASE)
    assert re.search(
        "No space left on device|could not extend file", first
    )  # as PostgreSQL meets it
    assert then["errors"], "the disk was never full"
    assert then["ready"] != "ok"  # readiness tries a write
    assert then["again"] == "ok"
    # Each that was accepted is there, none that was refused.
    assert then["jobs"] == then["accepted"]
    assert then["entries"] == 1 + len(then["jobs"])  # and each is reserved once
