"""Bring a database to this version's schema, and grant the application role only what it needs.

Old and new versions of the service run side by side while an installation is upgraded, so a
migration only expands the schema (`discreet migrate` runs before the processes are replaced), and
only a later version removes what is no longer used: see `schema`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, OperationalError

from discreet.errors import Unavailable
from discreet.settings import Settings
from discreet.storage.database import connection_string, sync_engine, user_of
from discreet.storage.poolers import require_migration_session
from discreet.storage.schema import WrongSchema, oldest_code, revisions, scripts

# One migration at a time on one database, whoever starts it.
_MIGRATION_LOCK = 7_365_208_514

WAIT_SECONDS = 60.0
"""How long to wait for another process that is migrating."""

LOCK_SECONDS, LOCK_TRIES = 3, 10
"""How long a change of a table waits for transactions that use it, and how often it is tried. The
wait is short because new transactions queue behind it."""

_IN_USE = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
"""Errors of PostgreSQL for a migration that other transactions block."""

STATEMENT_SECONDS = 900

Pause = Callable[[float], None]


def migrate(
    settings: Settings, revision: str = "head", *, down: bool = False, pause: Pause = time.sleep
) -> str:
    """Bring the database to `revision` as the owner role, all or nothing; returns the revision that
    it has then.

    Safe to start anywhere, several times at once, and beside running processes of this version and
    the one before. Goes to an older revision only with `down`, which loses the data in newer
    columns. Raises `WrongSchema` if the database is newer than this version, and `Unavailable` if
    other transactions use a table for too long; nothing is changed then.
    """
    owner = settings.migration_database_url or settings.database_direct_url or settings.database_url
    if owner is None or settings.database_url is None:
        raise Unavailable(
            "no database: set DISCREET_DATABASE_URL, and DISCREET_MIGRATION_DATABASE_URL for its "
            "owner"
        )
    wanted = revisions()[-1] if revision == "head" else revision
    if wanted not in revisions():
        raise WrongSchema(
            f"there is no schema {wanted}; this version knows {', '.join(revisions())}"
        )
    try:
        require_migration_session(connection_string(owner))
    except psycopg.OperationalError as error:
        raise Unavailable(f"the database cannot be migrated: {_first_line(error)}") from error
    application_role = user_of(settings.database_url)
    engine = sync_engine(owner)
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    try:
        with engine.connect() as connection:
            _hold(connection, pause)
            config.attributes["connection"] = connection
            current = connection.execute(text("SELECT current_user")).scalar_one()
            config.attributes["application_role"] = (
                None if application_role == current else application_role
            )
            _check_direction(_present(connection), wanted, down)
            _stubbornly(connection, config, wanted, down, pause)
    except OperationalError as error:
        raise Unavailable(f"the database cannot be migrated: {_first_line(error.orig)}") from error
    finally:
        engine.dispose()
    return wanted


def _hold(connection: Connection, pause: Pause) -> None:
    """Take the lock of migrations, which ends with the connection."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not connection.execute(
        text("SELECT pg_try_advisory_lock(:key)"), {"key": _MIGRATION_LOCK}
    ).scalar_one():
        connection.rollback()
        if time.monotonic() > deadline:
            raise Unavailable(
                "another process has been migrating this database for more than "
                f"{WAIT_SECONDS:.0f} s"
            )
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
            f"the database has schema {present}, this version knows schemas up to {newest}: a "
            "newer discreet has migrated it; use that version"
        )
    if present is not None and wanted < present and not down:
        raise WrongSchema(
            f"the database has schema {present}; going back to {wanted} needs --down and loses data"
        )


def _stubbornly(
    connection: Connection, config: Config, wanted: str, down: bool, pause: Pause
) -> None:
    """Migrate in one transaction; try again while other transactions use the tables."""
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
            connection.exec_driver_sql(
                f"COMMENT ON TABLE alembic_version IS '{oldest_code(wanted)}'"
            )
            connection.commit()
        except (DBAPIError, *_IN_USE) as error:
            connection.rollback()
            cause: Any = error.orig if isinstance(error, DBAPIError) else error
            if not isinstance(cause, _IN_USE):
                raise
            if not left:
                raise Unavailable(
                    "the tables are in use by long transactions; nothing was changed, try again "
                    "later"
                ) from error
            pause(1.0)
        else:
            return


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]
