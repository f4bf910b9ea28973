"""Bring a database to this version's schema, and grant the application role only what it needs.

A new database is made from `migrations/current`; one of an earlier version goes through the
revisions in `migrations/versions`. Old and new versions of the service run side by side while an
installation is upgraded, so a revision only expands the schema (`discreet migrate` runs before the
processes are replaced), and only a later version removes what is no longer used: see `schema`.
There is no way down: code of the version before runs on the newer schema.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from procrastinate.schema import SchemaManager
from psycopg import sql
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, OperationalError

from discreet.errors import Unavailable
from discreet.settings import Settings
from discreet.storage.database import (
    connection_string,
    require_migration_session,
    sync_engine,
    user_of,
)
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

APPLICATION_ROLE = "discreet_app"
"""What the application role is called in `migrations/current`; a database may call it otherwise."""

ABSENT_BEFORE_17 = "MAINTAIN"
"""A right that PostgreSQL has from version 17 on."""

Pause = Callable[[float], None]


def migrate(settings: Settings, *, pause: Pause = time.sleep) -> str:
    """Bring the database to this version's schema as the owner role, all or nothing; returns the
    revision that it has then.

    Safe to start anywhere, several times at once, and beside running processes of this version and
    the one before. Raises `WrongSchema` if the database is newer than this version, and
    `Unavailable` if other transactions use a table for too long; nothing is changed then.
    """
    owner = settings.migration_database_url or settings.database_direct_url or settings.database_url
    if owner is None or settings.database_url is None:
        raise Unavailable(
            "no database: set DISCREET_DATABASE_URL, and DISCREET_MIGRATION_DATABASE_URL for its "
            "owner"
        )
    newest = revisions()[-1]
    try:
        require_migration_session(connection_string(owner))
    except psycopg.OperationalError as error:
        raise Unavailable(f"the database cannot be migrated: {_first_line(error)}") from error
    engine = sync_engine(owner)
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    try:
        with engine.connect() as connection:
            _hold(connection, pause)
            config.attributes["connection"] = connection
            config.attributes["application_role"] = user_of(settings.database_url)
            present = _present(connection)
            if present is not None and present > newest:
                raise WrongSchema(
                    f"the database has schema {present}, this version knows schemas up to "
                    f"{newest}: a newer discreet has migrated it; use that version"
                )
            _retry_while_in_use(connection, config, pause)
    except OperationalError as error:
        raise Unavailable(f"the database cannot be migrated: {_first_line(error.orig)}") from error
    finally:
        engine.dispose()
    return newest


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


def _retry_while_in_use(connection: Connection, config: Config, pause: Pause) -> None:
    """Migrate in one transaction; try again while other transactions use the tables."""
    for left in range(LOCK_TRIES - 1, -1, -1):
        try:
            connection.execute(text(f"SET lock_timeout = '{LOCK_SECONDS}s'"))
            connection.execute(text(f"SET statement_timeout = '{STATEMENT_SECONDS}s'"))
            connection.commit()
            if _present(connection) is None:
                _create(connection, config.attributes["application_role"])
                command.stamp(config, "head")
            else:
                command.upgrade(config, "head")
            connection.exec_driver_sql(f"COMMENT ON TABLE alembic_version IS '{oldest_code()}'")
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


def _create(connection: Connection, application_role: str) -> None:
    """Make all tables of a new database, those of the queue's library first."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    said = current_schema()
    if driver.info.server_version < 170000:
        said = said.replace(f", {ABSENT_BEFORE_17}", "")
    role = sql.Identifier(application_role).as_string(driver)
    # As bytes and without parameters: many statements, in which no sign is a placeholder.
    driver.execute(SchemaManager.get_schema().encode())
    driver.execute(re.sub(rf"\b{APPLICATION_ROLE}\b", lambda _: role, said).encode())
    for (table, column), words in comments_of(said).items():
        name = sql.Identifier(table) if column is None else sql.Identifier(table, column)
        driver.execute(
            sql.SQL("COMMENT ON {} {} IS {}").format(
                sql.SQL("TABLE" if column is None else "COLUMN"), name, sql.Literal(words)
            )
        )


def current_schema() -> str:
    """The whole schema, in the order in which its files can be run."""
    return "\n".join(path.read_text() for path in sorted((scripts() / "current").glob("*.sql")))


def comments_of(schema: str) -> dict[tuple[str, str | None], str]:
    """What the text of the schema says of each table (column None: the lines above it) and of each
    column; the empty text where it says nothing."""
    found: dict[tuple[str, str | None], str] = {}
    above: list[str] = []
    table = None
    for line in schema.splitlines():
        if table is None:
            if begins := re.match(r"CREATE TABLE (\w+) \($", line):
                table = begins[1]
                found[table, None] = " ".join(above)
            above = [*above, line[3:]] if line.startswith("-- ") else []
        elif line == ");":
            table = None
        elif column := re.match(r"  ([a-z]\w*) [^-]*?(?:--  ?(.*))?$", line):
            found[table, column[1]] = column[2] or ""
    return found


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]
