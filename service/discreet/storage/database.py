"""Connections and the unit of work: one request or task, one transaction, one tenant."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Any, Generic, LiteralString, TypeVar
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
    connection.run_async(prepare_nothing_behind)


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
            await asyncio.to_thread(require_sessions, self.url, direct_url)
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


# Group commit -------------------------------------------------------------------------------------
# Sends calls that would only wait for each other to the database together.
#
# Whoever holds a lock keeps it until the commit is on the disk, so callers that need the same lock
# would write to the disk one after the other. Here those that come while a call of their key is
# under way gather, and go together as the next: one statement, one commit, one write. A caller that
# finds no call under way does not wait.

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Answer = TypeVar("Answer")


class GroupCommit(Generic[Key, Value, Answer]):
    """`run` gets up to `most` values of one key and answers each, in order.

    Cancelling a caller stops nothing, since its request may already be under way together with
    others.
    """

    def __init__(
        self, run: Callable[[Key, list[Value]], Awaitable[Sequence[Answer]]], most: int
    ) -> None:
        self._run, self._most = run, most
        self._waiting: dict[Key, deque[tuple[Value, asyncio.Future[Answer]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, key: Key, value: Value) -> Answer:
        """The answer to `value`, or the error that it meets alone."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if key in self._waiting:
            self._waiting[key].append((value, future))
        else:
            self._waiting[key] = deque([(value, future)])
            task = asyncio.create_task(self._work(key))
            self._tasks.add(task)  # the loop itself keeps no more than a weak reference
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _work(self, key: Key) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                await self._settle(
                    key, [waiting.popleft() for _ in range(min(len(waiting), self._most))]
                )
        finally:
            del self._waiting[key]
            for _, future in waiting:  # this task was cancelled
                future.cancel()

    async def _settle(self, key: Key, batch: list[tuple[Value, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._run(key, [value for value, _ in batch])
        except Exception as error:
            if (
                len(batch) > 1
            ):  # all of it was rolled back: whose fault it was shows when each goes alone
                for one in batch:
                    await self._settle(key, [one])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


# Impatience ---------------------------------------------------------------------------------------
# Calls of drivers that may be silent for longer than anybody waits.

MOST_ABANDONED = 16
"""Calls that were given up but still wait for a store that does not answer: with so many, no
further call begins."""


class Silent(Exception):
    """There was no answer in time."""


class Crowded(Silent):
    """So many calls already wait that this one did not begin."""


class Impatience:
    """Threads for blocking calls of one driver, left alone when they take too long."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._abandoned = threading.Semaphore(MOST_ABANDONED)

    def within(self, seconds: float, call: Callable[[], Answer]) -> Answer:
        """What `call` returns or raises; Silent when it takes longer. A driver that waits longer
        than this keeps its thread until it ends by itself."""
        if not self._abandoned.acquire(blocking=False):
            raise Crowded
        answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put((True, call()))
            except BaseException as error:
                answers.put((False, error))
            finally:
                self._abandoned.release()

        threading.Thread(target=work, daemon=True, name=self._name).start()
        try:
            came, answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise Silent from None
        if not came:
            raise answer
        found: Answer = answer
        return found


# Poolers ------------------------------------------------------------------------------------------
# A connection pooler that may stand between the service and PostgreSQL.
#
# PgBouncer in transaction mode gives each transaction any free connection to the server. State that
# outlives a transaction is lost there: prepared statements, LISTEN, session locks. So nothing is
# prepared behind a pooler, every setting is local to its transaction, and what needs a session uses
# `DISCREET_DATABASE_DIRECT_URL`.
#
# A pooler is recognised by the process number that it sends at the start of a connection, for
# cancelling: it differs from what `pg_backend_pid()` returns.

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


# Rows ---------------------------------------------------------------------------------------------
# What all repositories use: a row as a dictionary, and advisory locks of a transaction.

Row = dict[str, Any]

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:key, :seed))")


def one_of(result: Any) -> Row | None:
    """The only row of a result, or None; MultipleResultsFound if there are several."""
    row = result.mappings().one_or_none()
    return None if row is None else dict(row)


async def lock_key(connection: AsyncConnection, key: str, seed: int = 0) -> None:
    """Lock out other transactions that lock this key with this seed, until this one ends."""
    await connection.execute(_LOCK, {"key": key, "seed": seed})
