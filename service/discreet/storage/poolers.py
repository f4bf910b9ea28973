"""A pooler that may stand between the service and PostgreSQL.

PgBouncer in transaction mode gives each transaction whichever of its connections to the server is
free. What outlives a transaction is lost there: prepared statements, LISTEN, locks of a session. So
nothing is prepared behind a pooler, every setting is one of its transaction, and what needs a
session goes by `DISCREET_DATABASE_DIRECT_URL`.

A pooler gives itself away by the number of the process that it names when a connection begins, for
cancelling: it is not the number that the server says of itself.
"""

from __future__ import annotations

from typing import Any

import psycopg

from discreet.errors import Unavailable

LOOKS = 5
"""A pooler of sessions keeps its word every time; one of transactions breaks it sooner."""

_BACKEND = "SELECT pg_backend_pid()"
_BACKEND_IN_TRANSACTION = f"BEGIN; {_BACKEND}; COMMIT"
_PLACE = """
SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database())
FROM pg_control_system()
"""


class WrongPooler(Unavailable):
    """A pooler stands where a session is needed."""

    code = "wrong_pooler"


async def prepare_nothing_behind(connection: psycopg.AsyncConnection) -> None:
    """For a new connection: no statement is prepared where a pooler stands before the server."""
    found = await (await connection.execute(_BACKEND, prepare=False)).fetchone()
    if found != (connection.info.backend_pid,):
        connection.prepare_threshold = None


async def configure(connection: psycopg.AsyncConnection) -> None:
    """The same for a pool that wants its connections outside of any transaction."""
    await prepare_nothing_behind(connection)
    await connection.rollback()


def require_sessions(url: str, direct_url: str | None) -> None:
    """WrongPooler where news that are told on the one URL are not heard on the other (None: there
    is one URL for both). psycopg.Error where the database does not answer: then nobody knows."""
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
    """WrongPooler where a migration would lose its lock. psycopg.Error as above."""
    if not keeps_sessions(url):
        raise WrongPooler(
            "a migration holds a lock of its session, and is led through a pooler that gives each "
            "transaction another one: set DISCREET_MIGRATION_DATABASE_URL to the server itself"
        )


def keeps_sessions(url: str) -> bool:
    """Whether a connection to this URL stays with one process of the server, as LISTEN asks for.

    Behind a pooler two connections are watched: where both have one process, or one has several,
    transactions share them. A quiet pooler of transactions gives both the same; a busy one gives
    each of them others.
    """
    with _connected(url) as first:
        own = _backend(first)
        if own == first.info.backend_pid:
            return True
        with _connected(url) as second:
            return all(_backend(second) != own and _backend(first) == own for _ in range(LOOKS))


def _backend(connection: psycopg.Connection[Any]) -> int:
    """The number of the process that answers a transaction."""
    cursor = connection.execute(_BACKEND_IN_TRANSACTION, prepare=False)
    cursor.nextset()
    found = cursor.fetchone()
    assert found is not None
    return int(found[0])


def _place(url: str) -> object:
    """Which database of which server answers. WrongPooler where no transaction passes."""
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
        f"{name} leads through a pooler that gives each transaction another connection to the "
        "server, so that nobody hears news there"
    )
