"""Bring a database to this version's schema, and give the application role what it needs and no more.

Old and new versions of the service run side by side while an installation is upgraded, so a migration first expands
(`discreet migrate`, then the processes are replaced), and only a later version contracts. Revisions are numbered; one
after which older code cannot run any more says so by `OLDEST = "<number>"`, the oldest schema whose code still may. The
database keeps the highest such number as the comment of its version table, where running processes find it.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from discreet.errors import DiscreetError, Unavailable
from discreet.settings import Settings
from discreet.storage.database import SYSTEM, Database, engine_url

# One migration at a time on one database, whoever starts it.
_MIGRATION_LOCK = 7_365_208_514

WAIT_SECONDS = 60.0
"""How long to wait for another process that migrates."""

LOCK_SECONDS, LOCK_TRIES = 3, 10
"""A change of a table waits so long for those who use it, and is tried so often: others wait behind it meanwhile."""

STATEMENT_SECONDS = 900

Pause = Callable[[float], None]


class WrongSchema(DiscreetError):
    """The database has the schema of another version."""

    code = "wrong_schema"


def scripts() -> Path:
    """The folder of the migrations: inside the wheel, or at the top of a source tree."""
    shipped = Path(str(resources.files("discreet"))) / "_migrations"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "migrations"


def revisions() -> tuple[str, ...]:
    """The numbers of the revisions that this version knows, oldest first."""
    return tuple(sorted(path.name.partition("_")[0] for path in (scripts() / "versions").glob("[0-9]*.py")))


def oldest_code(applied: str) -> str:
    """The oldest schema whose code may run on a database where everything up to `applied` was applied."""
    found = revisions()[0]
    for path in sorted((scripts() / "versions").glob("[0-9]*.py")):
        if path.name.partition("_")[0] <= applied:
            spec = importlib.util.spec_from_file_location(f"_revision_{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            found = max(found, str(getattr(module, "OLDEST", found)))
    return found


def migrate(settings: Settings, revision: str = "head", *, down: bool = False, pause: Pause = time.sleep) -> str:
    """Bring the database to `revision` with the owner role, all or nothing; returns the number that it has then.

    Safe to start anywhere, any number of times at once, beside running processes of this version and the one before.
    Goes to an older revision only with `down`, which loses what newer columns hold. Raises `WrongSchema` when the
    database is newer than this version, and `Unavailable` when somebody holds a table for too long: nothing is changed
    then.
    """
    owner = settings.migration_database_url or settings.database_url
    if owner is None or settings.database_url is None:
        raise Unavailable("no database: set DISCREET_DATABASE_URL, and DISCREET_MIGRATION_DATABASE_URL for its owner")
    wanted = revisions()[-1] if revision == "head" else revision
    if wanted not in revisions():
        raise WrongSchema(f"there is no schema {wanted}; this version knows {', '.join(revisions())}")
    application_role = make_url(settings.database_url).username
    engine = create_engine(engine_url(owner), poolclass=NullPool, hide_parameters=True)
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    try:
        with engine.connect() as connection:
            _hold(connection, pause)
            config.attributes["connection"] = connection
            current = connection.execute(text("SELECT current_user")).scalar_one()
            config.attributes["application_role"] = None if application_role == current else application_role
            _check_direction(_present(connection), wanted, down)
            _stubbornly(connection, config, wanted, down, pause)
    except OperationalError as error:
        raise Unavailable(f"the database cannot be migrated: {_first_line(error)}") from error
    finally:
        engine.dispose()
    return wanted


async def check_schema(database: Database) -> None:
    """`WrongSchema` unless this process may work on the database as it is."""
    async with database.transaction(SYSTEM) as connection:
        there = (await connection.execute(text("SELECT to_regclass('alembic_version') IS NOT NULL"))).scalar_one()
        if not there:
            raise WrongSchema("the database has no tables of discreet: run `discreet migrate`")
        row = (await connection.execute(_STATUS)).one_or_none()
    judge(revisions()[-1], None if row is None else row[0], None if row is None else row[1])


def judge(ours: str, present: str | None, oldest: str | None) -> None:
    """`WrongSchema` unless code of schema `ours` may run on a database of schema `present` that needs `oldest`."""
    if present is None or present < ours:
        raise WrongSchema(
            f"the database has schema {present or 'none'}, this version needs {ours}: run `discreet migrate`"
        )
    if oldest is not None and ours < oldest:
        raise WrongSchema(
            f"the database has schema {present} of a newer version, which older ones than {oldest} cannot use;"
            f" this process has {ours}: start the newer version instead"
        )


def _hold(connection: Connection, pause: Pause) -> None:
    """Take the lock of migrations, which falls with the connection."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _MIGRATION_LOCK}).scalar_one():
        connection.rollback()
        if time.monotonic() > deadline:
            raise Unavailable(f"another process has been migrating this database for more than {WAIT_SECONDS:.0f} s")
        pause(0.2)
    connection.commit()


def _present(connection: Connection) -> str | None:
    present = MigrationContext.configure(connection).get_current_revision()
    connection.rollback()
    return present


def _check_direction(present: str | None, wanted: str, down: bool) -> None:
    newest = revisions()[-1]
    if present is not None and present > newest:
        raise WrongSchema(
            f"the database has schema {present}, this version knows up to {newest}: a newer discreet has been here;"
            " use that version"
        )
    if present is not None and wanted < present and not down:
        raise WrongSchema(f"the database has schema {present}; going back to {wanted} needs --down and loses data")


def _stubbornly(connection: Connection, config: Config, wanted: str, down: bool, pause: Pause) -> None:
    """Migrate in one transaction, again while others hold the tables."""
    for left in range(LOCK_TRIES - 1, -1, -1):
        try:
            connection.execute(text(f"SET lock_timeout = '{LOCK_SECONDS}s'"))
            connection.execute(text(f"SET statement_timeout = '{STATEMENT_SECONDS}s'"))
            connection.commit()
            present = _present(connection)
            if present is not None and wanted < present and down:
                command.downgrade(config, wanted)
            else:
                command.upgrade(config, wanted)
            connection.exec_driver_sql(f"COMMENT ON TABLE alembic_version IS '{oldest_code(wanted)}'")
            connection.commit()
        except (DBAPIError, psycopg.errors.LockNotAvailable) as error:
            connection.rollback()
            cause: Any = error.orig if isinstance(error, DBAPIError) else error
            if not isinstance(cause, psycopg.errors.LockNotAvailable):
                raise
            if not left:
                raise Unavailable(
                    "the tables are in use by long transactions; nothing was changed, try again later"
                ) from error
            pause(1.0)
        else:
            return


def _first_line(error: OperationalError) -> str:
    return str(error.orig).strip().partition("\n")[0]


_STATUS = text("SELECT version_num, obj_description('alembic_version'::regclass) FROM alembic_version")
