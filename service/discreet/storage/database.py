"""Connections and the unit of work: one request or task, one transaction, one tenant."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Any, LiteralString
from weakref import WeakValueDictionary

import psycopg
import structlog
from psycopg import conninfo, sql
from sqlalchemy import Engine, Executable, RowMapping, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool, QueuePool

from discreet.errors import Unavailable
from discreet.observability import faults
from discreet.settings import CONNECT_SECONDS, Settings
from discreet.storage import poolers
from discreet.storage.log_memory import LogMemory

log = structlog.get_logger()


_ENGINE_URL = "postgresql+psycopg://"
"""Of every engine: `_connects_to` says where, since SQLAlchemy reads no URL of several hosts."""


def sync_engine(url: str) -> Engine:
    """An engine for short programs: no pool, and no values in its errors."""
    engine = create_engine(_ENGINE_URL, poolclass=NullPool, hide_parameters=True)
    _connects_to(engine, url)
    return engine


def _connects_to(engine: Engine, url: str) -> None:
    """Let an engine of ENGINE_URL connect to `url` as libpq reads it: of several hosts the first
    that answers and is what `target_session_attrs` asks for."""

    def place(
        dialect: object, record: object, arguments: list[Any], options: dict[str, Any]
    ) -> None:
        arguments[:] = [connection_string(url)]

    event.listen(engine, "do_connect", place)


def _configure(connection: Any, record: object) -> None:
    """What SQLAlchemy does with each new connection of a pool."""
    connection.run_async(poolers.prepare_nothing_behind)


def user_of(url: str) -> str | None:
    """The role that a URL names."""
    name = url_parameters(url).get("user")
    return None if name is None else str(name)


def url_parameters(url: str) -> dict[str, Any]:
    """What a URL says, as libpq reads it. Unavailable, without its own words, which repeat the
    URL and so the password."""
    try:
        return conninfo.conninfo_to_dict(libpq_url(url))
    except psycopg.Error:
        raise Unavailable(
            "a URL of the database (DISCREET_DATABASE_URL or one beside it) cannot be read by libpq"
        ) from None


def libpq_url(url: str) -> str:
    """The same URL for libpq and for psycopg without SQLAlchemy."""
    # Not through SQLAlchemy's rendering, which writes a space as `+`: libpq reads that as a plus
    # sign.
    return "postgresql://" + url.partition("://")[2]


def connection_string(url: str) -> str:
    """The connection string of the service: the URL, and a timeout of CONNECT_SECONDS per host
    unless the URL (`connect_timeout`) or PGCONNECT_TIMEOUT sets one."""
    found = libpq_url(url)
    if "connect_timeout" in url_parameters(url) or "PGCONNECT_TIMEOUT" in os.environ:
        return found
    return conninfo.make_conninfo(found, connect_timeout=CONNECT_SECONDS)


SYSTEM = "*"
"""The scope that sees all tenants: workers, operators, keys before they are known. Everything else
names its tenant."""

IDLE_IN_TRANSACTION_SECONDS = 60

TELL_SECONDS = 0.02
"""Seconds within which notices are sent together."""

CLOSE_SECONDS = 2.0
"""Seconds that closing waits for the last notices to be sent."""

_TELL = text(
    "SELECT pg_notify(channel, payload) FROM unnest(CAST(:channels AS text[]), CAST(:payloads AS "
    "text[])) AS news(channel, payload)"
)

_SET_TENANT: LiteralString = "SELECT set_config('discreet.tenant', %(tenant)s, true)"
# A process that was frozen inside a transaction must not hold an account's lock for ever. That is
# a setting of the transaction: at the start of a connection a pooler would refuse it.
_SETTINGS: LiteralString = (
    "SELECT set_config('discreet.tenant', {tenant}, true), "
    "set_config('idle_in_transaction_session_timeout', {idle}, true)"
)
_BEGIN = sql.SQL("BEGIN; " + _SETTINGS)
_BEGIN_SNAPSHOT = sql.SQL("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + _SETTINGS)


class DatabaseTrouble(Unavailable):
    """The database does not answer."""

    code = "database_unavailable"


_NOT_DONE = "what this would have changed is as it was"
"""An error of PostgreSQL means that it rolled the transaction back. Without an answer nobody
here knows."""
_UNKNOWN = (
    "whether a change was made is not known here: look at the object, or send the same "
    "Idempotency-Key again"
)
_TROUBLES = {
    "53100": ("database_full", f"the disk of the database is full; {_NOT_DONE}"),
    "25006": (
        "database_read_only",
        f"the database takes no changes now (read-only, as a standby is); {_NOT_DONE}",
    ),
    "DL004": (
        "ledger_rolled_back",
        "the database lacks ledger entries that this installation has signed: it was restored, or "
        "another took over without them; nothing is admitted until an operator has looked, and "
        f"{_NOT_DONE}",
    ),
    **dict.fromkeys(
        ("57014", "55P03", "25P03", "40001", "40P01", "53000", "53200", "53300", "53400"),
        ("database_busy", f"the database is too busy; {_NOT_DONE}; try again"),
    ),
}
_STRANGE_SCHEMA = frozenset(
    {"42P01", "42703", "42883", "42704"}
)  # undefined table, column, function, object


def trouble(error: BaseException) -> DatabaseTrouble | None:
    """The trouble with the whole database that an error of the driver shows, with a stable code;
    None if it shows none (a wrong statement, or any other error)."""
    if isinstance(error, PoolTimeout):
        busy = f"all connections of this process to the database are in use; {_UNKNOWN}"
        return DatabaseTrouble(busy, code="database_busy")
    if isinstance(error, ConnectionError):
        return DatabaseTrouble(f"the database does not answer; {_UNKNOWN}")
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, psycopg.Error):
        return None
    if cause.sqlstate in _TROUBLES:
        code, detail = _TROUBLES[cause.sqlstate]
        return DatabaseTrouble(detail, code=code)
    gone = isinstance(error, DBAPIError) and error.connection_invalidated
    if gone or isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseTrouble(f"the database does not answer; {_UNKNOWN}")
    return None


def may_be_other_schema(error: BaseException) -> bool:
    """Whether a statement names something that the database lacks, as with a schema of another
    version."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, psycopg.Error) and cause.sqlstate in _STRANGE_SCHEMA


POOL_SECONDS = 30
"""How long a transaction waits for a connection before the database counts as too busy."""

_acting: ContextVar[str | None] = ContextVar("acting", default=None)
_in_turn: ContextVar[bool] = ContextVar("in_turn", default=False)


def act_for(key_id: str) -> None:
    """Transactions of this task are for this key, or person, from now on."""
    _acting.set(key_id)


class _Turns:
    """Of the connections of a process, a tenant has at most three in five and one key of it two in
    five, first come first served. Others wait only for as many, however large a crowd is."""

    def __init__(self, pool_size: int) -> None:
        self._of_tenant = max(1, pool_size * 3 // 5)
        self._of_key = max(1, pool_size * 2 // 5)
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def taken(self, tenant: str) -> AsyncIterator[None]:
        """A turn of the tenant and of the key that this task acts for. A transaction within another
        has the turn of that one, and so has the system's own work, which no crowd can multiply."""
        if tenant == SYSTEM or _in_turn.get():
            yield
            return
        key = _acting.get()
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(POOL_SECONDS):
                    if key is not None:
                        await held.enter_async_context(self._turn(f"key {key}", self._of_key))
                    await held.enter_async_context(self._turn(f"tenant {tenant}", self._of_tenant))
            except TimeoutError:
                raise DatabaseTrouble(
                    "this tenant's other requests have all connections that it may have; "
                    f"{_NOT_DONE}; try again",
                    code="database_busy",
                ) from None
            _in_turn.set(True)
            try:
                yield
            finally:
                _in_turn.set(False)

    def _turn(self, name: str, most: int) -> asyncio.Semaphore:
        return self._turns.setdefault(name, asyncio.Semaphore(most))


class Database:
    """A pool of connections to PostgreSQL, as the application role.

    The driver is in autocommit mode, so that this unit of work says itself when a transaction
    begins: BEGIN and the tenant go in one message, which also finds out whether the pooled
    connection still lives.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.database_url is None:
            raise Unavailable("no database: set DISCREET_DATABASE_URL or start `discreet up`")
        self.url = connection_string(settings.database_url)
        self.direct_url = connection_string(settings.database_direct_url or settings.database_url)
        self._sessions_kept = False
        self.log_memory = LogMemory(settings.log_memory_path)
        self._pool_size = settings.pool_size
        self._turns = _Turns(settings.pool_size)
        self.engine: AsyncEngine = create_async_engine(
            _ENGINE_URL,
            pool_size=settings.pool_size,
            max_overflow=0,
            pool_timeout=POOL_SECONDS,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,  # an error's text goes to logs, and values may be private
        )
        _connects_to(self.engine.sync_engine, settings.database_url)
        event.listen(self.engine.sync_engine, "connect", _configure)
        self._news: dict[str, str] = {}
        self._teller: asyncio.Task[None] | None = None
        if faults.planned:
            event.listen(
                self.engine.sync_engine,
                "after_cursor_execute",
                lambda *_: faults.point("statement"),
            )

    @asynccontextmanager
    async def transaction(
        self, tenant: str, *, snapshot: bool = False
    ) -> AsyncIterator[AsyncConnection]:
        """One transaction that sees the rows of `tenant`: committed at the end, rolled back on any
        error.

        With `snapshot` every statement sees the same state, that of the first one, and none can
        write.
        """
        begin = (_BEGIN_SNAPSHOT if snapshot else _BEGIN).format(
            tenant=sql.Literal(tenant), idle=sql.Literal(f"{IDLE_IN_TRANSACTION_SECONDS}s")
        )
        async with self._turns.taken(tenant):
            connection = await self._begun(begin)
            try:
                async with connection.begin():
                    yield connection
            finally:
                await connection.close()

    async def ask(self, statement: Executable, values: Mapping[str, Any]) -> Sequence[RowMapping]:
        """The rows of one statement, a transaction of its own, in one round trip.

        It must set its tenant itself, and running twice must be the same as once: where the
        connection breaks, it is sent again.
        """
        try:
            return await self._ask(statement, values)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            return await self._ask(statement, values)

    async def _ask(self, statement: Executable, values: Mapping[str, Any]) -> Sequence[RowMapping]:
        async with self.engine.connect() as connection:
            return (await connection.execute(statement, values)).mappings().all()

    async def change(self, tenant: str, statement: LiteralString, values: Mapping[str, Any]) -> int:
        """How many rows one statement changed that sees the rows of `tenant`: a transaction of its
        own, in one round trip of 0.4 ms of processor time where `transaction` takes 2.

        `statement` is SQL for the driver, with `%(name)s` for values. Running it twice must be the
        same as once: where the connection breaks, it is sent again.
        """
        # Two commands in one message are one transaction, and the second is planned and run after
        # the first; a common table expression that sets the tenant may be read after the rows that
        # it should show. Only a cursor that writes the values into the text sends two commands at
        # once.
        both = f"{_SET_TENANT}; {statement}"
        for spare in range(self._pool_size, -1, -1):
            async with self.engine.connect() as connection:
                driver = await raw(connection)
                try:
                    cursor = await psycopg.AsyncClientCursor(driver).execute(
                        both, {**values, "tenant": tenant}, prepare=False
                    )
                except psycopg.OperationalError as error:
                    if not driver.closed or not spare:
                        raise
                    await connection.invalidate(error)
                    continue
                cursor.nextset()
                faults.point("statement")
                return cursor.rowcount
        raise AssertionError("the last attempt returns or raises")

    async def vacuum(self, *tables: str) -> None:
        """Clear away dead rows of these tables, outside of any transaction, as VACUUM asks for."""
        async with self.engine.connect() as connection:
            await connection.execute(text(f"VACUUM {', '.join(tables)}"))

    async def _begun(self, begin: sql.Composed) -> AsyncConnection:
        """A connection on which a transaction was begun; connections that the server has closed
        are skipped."""
        for spare in range(self._pool_size, -1, -1):
            connection = await self.engine.connect()
            try:
                # Never prepared: a prepared statement cannot hold two commands.
                await (await raw(connection)).execute(begin, prepare=False)
            except psycopg.OperationalError as error:
                await connection.invalidate(error)
                await connection.close()
                if not spare:
                    raise
            except BaseException:
                await connection.close()
                raise
            else:
                return connection
        raise AssertionError("the last attempt returns or raises")

    def tell(self, news: Mapping[str, str]) -> None:
        """NOTIFY by channel, soon and in a transaction of its own; only the last of several
        payloads on one channel is sent. Inside the transaction of the change it would hold a
        lock of the whole database until the commit is on disk, so that no two could be written
        together. A notice may be lost with this process, so listeners must find changes without
        it.
        """
        self._news.update(news)
        if self._teller is None or self._teller.done():
            self._teller = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        while self._news:
            news, self._news = self._news, {}
            try:
                await self.ask(_TELL, {"channels": list(news), "payloads": list(news.values())})
            except Exception as error:
                log.warning("notice not sent", error=type(error).__name__)
            await asyncio.sleep(TELL_SECONDS)

    async def listen(self, channel: str) -> psycopg.AsyncConnection:
        """A connection of its own that listens on `channel`; the caller closes it."""
        await self.require_sessions()
        connection = await psycopg.AsyncConnection.connect(self.direct_url, autocommit=True)
        try:
            await connection.execute(f"LISTEN {channel}".encode())
        except BaseException:
            await connection.close()
            raise
        return connection

    async def require_sessions(self) -> None:
        """WrongPooler where who listens would hear nothing; DatabaseTrouble where nobody can know
        yet. Once it was well, it stays so."""
        if self._sessions_kept:
            return
        direct_url = None if self.direct_url == self.url else self.direct_url
        try:
            await asyncio.to_thread(poolers.require_sessions, self.url, direct_url)
        except psycopg.Error as error:
            raise trouble(error) or DatabaseTrouble() from error
        self._sessions_kept = True

    @property
    def connections(self) -> dict[str, int]:
        """Pooled connections of this process by state, and their limit."""
        pool = self.engine.pool
        assert isinstance(pool, QueuePool)
        return {"in_use": pool.checkedout(), "idle": pool.checkedin(), "most": self._pool_size}

    async def close(self) -> None:
        if self._teller is not None:
            await asyncio.wait([self._teller], timeout=CLOSE_SECONDS)
            self._teller.cancel()
        await self.engine.dispose()


async def raw(connection: AsyncConnection) -> psycopg.AsyncConnection:
    """The driver's connection below, inside the same transaction."""
    pooled = await connection.get_raw_connection()
    driver = pooled.driver_connection
    assert isinstance(driver, psycopg.AsyncConnection)
    return driver
