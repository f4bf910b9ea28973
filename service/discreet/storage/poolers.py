"""A connection pooler that may stand between the service and PostgreSQL.

PgBouncer in transaction mode gives each transaction any free connection to the server. State that
outlives a transaction is lost there: prepared statements, LISTEN, session locks. So nothing is
prepared behind a pooler, every setting is local to its transaction, and what needs a session uses
`DISCREET_DATABASE_DIRECT_URL`.

A pooler is recognised by the process number that it sends at the start of a connection, for
cancelling: it differs from what `pg_backend_pid()` returns.
"""

from __future__ import annotations

from typing import Any

import psycopg

from discreet.errors import Unavailable

LOOKS = 5
"""How often two connections are compared: in session mode they keep their processes every time,
while in transaction mode one of them soon changes."""

_BACKEND = "SELECT pg_backend_pid()"
_BACKEND_IN_TRANSACTION = f"BEGIN; {_BACKEND}; COMMIT"
_PLACE = """
SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database())
FROM pg_control_system()
"""


class WrongPooler(Unavailable):
    """There is a pooler where a session is needed."""

    code = "wrong_pooler"


async def prepare_nothing_behind(connection: psycopg.AsyncConnection) -> None:
    """Turn off prepared statements on a new connection that goes through a pooler."""
    found = await (await connection.execute(_BACKEND, prepare=False)).fetchone()
    if found != (connection.info.backend_pid,):
        connection.prepare_threshold = None


async def configure(connection: psycopg.AsyncConnection) -> None:
    """`prepare_nothing_behind` for a pool whose connections must be outside any transaction."""
    await prepare_nothing_behind(connection)
    await connection.rollback()


def require_sessions(url: str, direct_url: str | None) -> None:
    """WrongPooler if notifications that are sent on `url` do not arrive on `direct_url` (None: one
    URL serves for both). psycopg.Error if the database does not answer, so that this is unknown."""
    if not keeps_sessions(direct_url or url):
        raise WrongPooler(
            f"{_leads('DISCREET_DATABASE_DIRECT_URL')}: it must lead to the server itself"
            if direct_url
            else f"{_leads('DISCREET_DATABASE_URL')}: set DISCREET_DATABASE_DIRECT_URL to the "
            "server itself beside it"
        )
    if direct_url and _place(direct_url) != _place(url):
        raise WrongPooler(
            "DISCREET_DATABASE_URL and DISCREET_DATABASE_DIRECT_URL lead to different databases"
        )


def require_migration_session(url: str) -> None:
    """WrongPooler if a migration would lose its lock. psycopg.Error as above."""
    if not keeps_sessions(url):
        raise WrongPooler(
            "a migration holds a session lock, but this URL leads through a pooler that may give "
            "each transaction another session: set DISCREET_MIGRATION_DATABASE_URL to the server "
            "itself"
        )


def keeps_sessions(url: str) -> bool:
    """Whether a connection to this URL stays with one process of the server, as LISTEN requires.

    Behind a pooler two connections are watched: if both use the same process, or one uses several,
    the pooler is in transaction mode. An idle pooler gives both the same process; a busy one gives
    each of them different ones.
    """
    with _connected(url) as first:
        own = _backend(first)
        if own == first.info.backend_pid:
            return True
        with _connected(url) as second:
            return all(_backend(second) != own and _backend(first) == own for _ in range(LOOKS))


def _backend(connection: psycopg.Connection[Any]) -> int:
    """The number of the server process that answers a transaction."""
    cursor = connection.execute(_BACKEND_IN_TRANSACTION, prepare=False)
    cursor.nextset()
    found = cursor.fetchone()
    assert found is not None
    return int(found[0])


def _place(url: str) -> object:
    """Which database of which server answers. WrongPooler if the pooler allows no transactions."""
    with _connected(url) as connection:
        try:
            with connection.transaction():
                return connection.execute(_PLACE).fetchone()
        except psycopg.errors.ProtocolViolation as error:
            raise WrongPooler(f"a pooler does not let transactions through: {error}") from error


def _connected(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True, prepare_threshold=None)


def _leads(name: str) -> str:
    return (
        f"{name} leads through a pooler that may give each transaction another connection to the "
        "server, so that LISTEN does not work there"
    )
