"""Rows that a query finds in a PostgreSQL database.

The role in the operator's file decides what may be read, and is refused where it could do more on
the server than read tables (`_FORBIDDEN`). Besides, the query runs in a transaction that reads
only, at one snapshot. It is parsed alone first, as one statement, and then read by a cursor, which
the grammar lets have nothing but a SELECT. What the server says of a query is told to its owner
only while it is parsed, when no rows are read: later its words may hold values, and its code may
depend on them, so that it failed is all that is told.
"""

from __future__ import annotations

import io
import os
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, NamedTuple, NoReturn, Self

import certifi
import numpy as np
import pyarrow as pa
from psycopg import Error, capabilities, errors, pq
from psycopg import pq as libpq
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PollingStatus, TransactionStatus

from discreet.outbound import CONNECT_SECONDS
from discreet.usecases.places.rules import (
    Address,
    DatabasePlace,
    NothingThere,
    PlaceUnavailable,
    QueryRefused,
)
from discreet.usecases.uploads import FileClosed, Upload

# Wire ---------------------------------------------------------------------------------------------
# A connection to a PostgreSQL server that others run, on which nothing is waited for without end.
#
# libpq does the protocol and TLS, and never blocks here: this waits for its socket, until the
# moment that the caller gives. It connects to an IP address that was checked and asks TLS for the
# name. Statements go by the extended protocol, in which a text with more than one statement is an
# error.

BINARY = pq.Format.BINARY
NO_FILE = "/dev/null/none"
"""A file that cannot exist: no credentials are looked up in the home of the service's user."""
_STATE = re.compile(r"[0-9A-Z]{5}")
_LONGEST_MESSAGE = 300
MOST_BYTES = 64 << 20
"""That may come between two results. The rows that are asked for at once have less, but libpq holds
what comes as one, several times, and a server's words may have a gigabyte: an error quotes the
value that it is about."""
_RECEIVED_AT = 128
"""Where `tcpi_bytes_received` is in the kernel's `struct tcp_info` (include/uapi/linux/tcp.h)."""
LOOK_SECONDS, CANCEL_SECONDS = 0.5, 2.0
"""How often it is looked whether anybody still waits, and for how long a server is asked to end
what nobody waits for."""


class Late(Exception):
    """The server has not answered in time."""


class TooLarge(Exception):
    """More came as one than may be held."""


class Broken(Exception):
    """The connection ended, or what came is not what was asked for."""


class NotConnected(Exception):
    """There is no connection; `why` for the owner, without the server's words. `again`: another
    attempt may help."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.why, self.again = why, again


class SqlError(Exception):
    """The server's refusal of a statement."""

    def __init__(self, result: pq.abc.PGresult) -> None:
        def field(name: DiagnosticField) -> str:
            return (result.error_field(name) or b"").decode("utf-8", "replace")

        state, position = field(DiagnosticField.SQLSTATE), field(DiagnosticField.STATEMENT_POSITION)
        self.state = state if _STATE.fullmatch(state) else "XX000"
        text = field(DiagnosticField.MESSAGE_PRIMARY)[:_LONGEST_MESSAGE]
        self.message = "".join(one if one.isprintable() else " " for one in text)
        """In the server's words, which may hold values of rows."""
        self.position = int(position) if position.isdecimal() else None
        """In characters from 1, in the text of the statement."""
        super().__init__(self.state)


class Wire:
    """One connection; a context manager, which ends it, and what runs on it."""

    def __init__(
        self,
        place: DatabasePlace,
        host: str,
        port: int,
        ip: str,
        until: float,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Connect until the monotonic clock reaches `until`. Whatever waits raises FileClosed once
        it is no longer `wanted`. NotConnected, Late."""
        self._wanted, self._before = wanted, 0
        self._connection = pq.PGconn.connect_start(_parameters(place, host, port, ip))
        try:
            self._connect(until)
        except BaseException:
            self.close()
            raise

    def run(self, statement: str, until: float, rows: int = 0) -> Iterator[pq.abc.PGresult]:
        """The results of one statement, values in binary; with `rows` they come in parts of at
        most so many. SqlError, TooLarge, Late, Broken."""
        with _breaking():
            self._connection.send_query_params(statement.encode(), None, result_format=BINARY)
            if rows and capabilities.has_stream_chunked():
                self._connection.set_chunked_rows_mode(rows)
            elif rows:
                self._connection.set_single_row_mode()
        yield from self._results(until)

    def described(self, statement: str, until: float) -> pq.abc.PGresult:
        """The columns of a statement that is parsed but not run, with their types. Errors as of
        `run`."""
        with _breaking():
            self._connection.send_prepare(b"", statement.encode())
        list(self._results(until))
        with _breaking():
            self._connection.send_describe_prepared(b"")
        found = list(self._results(until))
        if len(found) != 1:
            raise Broken
        return found[0]

    def close(self) -> None:
        """Also what the server runs ends: its own look at a connection that is gone may have been
        turned off by the query, and without that it would run for ever."""
        if self._connection.transaction_status == TransactionStatus.ACTIVE:
            with suppress(Error, Late, OSError):
                self._cancel(time.monotonic() + CANCEL_SECONDS)
        self._connection.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------------

    def _connect(self, until: float) -> None:
        stage = self._connection.status
        while stage != ConnStatus.BAD:
            stage = self._connection.status
            match self._connection.connect_poll():
                case PollingStatus.OK:
                    self._connection.nonblocking = 1
                    return
                case PollingStatus.READING:
                    self._wait(select.POLLIN, until)
                case PollingStatus.WRITING:
                    self._wait(select.POLLOUT, until)
                case _:
                    break
        raise _not_connected(stage, self._connection.get_error_message())

    def _cancel(self, until: float) -> None:
        """Ask the server to end the statement, as secured as the connection is."""
        if not capabilities.has_cancel_safe():
            return  # older ones block without end, and send the key to this statement in the clear
        asking = self._connection.cancel_conn()
        try:
            asking.start()
            while (state := asking.poll()) in (PollingStatus.READING, PollingStatus.WRITING):
                events = select.POLLIN if state == PollingStatus.READING else select.POLLOUT
                _ready(asking.socket, events, until - time.monotonic())
        finally:
            asking.finish()

    def _results(self, until: float) -> Iterator[pq.abc.PGresult]:
        with _breaking():
            while self._connection.flush():
                self._wait(select.POLLIN | select.POLLOUT, until)
                self._consume()
        while (result := self._next(until)) is not None:
            match ExecStatus(result.status):
                case ExecStatus.COMMAND_OK | ExecStatus.TUPLES_OK:
                    yield result
                case ExecStatus.SINGLE_TUPLE | ExecStatus.TUPLES_CHUNK:
                    yield result
                case ExecStatus.FATAL_ERROR if result.error_field(DiagnosticField.SQLSTATE):
                    raise SqlError(result)
                case _:  # also COPY, which was not asked for
                    raise Broken

    def _next(self, until: float) -> pq.abc.PGresult | None:
        with _breaking():
            while self._connection.is_busy():
                self._wait(select.POLLIN, until)
                self._consume()
            self._before = self._received()
            return self._connection.get_result()

    def _received(self) -> int:
        """The bytes that have come on this connection; always 0 where the kernel does not count."""
        with socket.socket(fileno=os.dup(self._connection.socket)) as one:
            known = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + 8)
        if len(known) < _RECEIVED_AT + 8:
            return 0
        received: int = struct.unpack_from("=Q", known, _RECEIVED_AT)[0]
        return received

    def _consume(self) -> None:
        if self._received() - self._before > MOST_BYTES:
            raise TooLarge
        self._connection.consume_input()

    def _wait(self, events: int, until: float) -> None:
        while self._wanted():
            left = until - time.monotonic()
            try:
                return _ready(self._connection.socket, events, min(left, LOOK_SECONDS))
            except Late:
                if left <= LOOK_SECONDS:
                    raise
        raise FileClosed


def _ready(number: int, events: int, seconds: float) -> None:
    """Wait for a socket. Late."""
    ready = select.poll()
    ready.register(number, events)
    if seconds <= 0 or not ready.poll(1000 * seconds):
        raise Late


@contextmanager
def _breaking() -> Iterator[None]:
    """What libpq says of a connection that ended is Broken."""
    try:
        yield
    except Error as error:
        raise Broken from error


def _parameters(place: DatabasePlace, host: str, port: int, ip: str) -> bytes:
    """Of a connection: all that the environment or a file of the service's user could set otherwise
    is set."""
    secured = place.authority is not None or not ip_address(ip).is_loopback
    password = "" if place.password is None else place.password.get_secret_value()
    own = place.certificate is not None
    return make_conninfo(
        host=host,
        hostaddr=ip,
        port=port,
        dbname=place.address.segments[0],
        user=place.user,
        password=password,
        passfile=NO_FILE,
        sslmode="verify-full" if secured else "prefer",
        sslrootcert=str(place.authority or certifi.where()) if secured else NO_FILE,
        sslcertmode="allow" if own else "disable",
        sslcert=str(place.certificate) if own else NO_FILE,
        sslkey=str(place.key) if own else NO_FILE,
        require_auth="!gss,!sspi" if secured else "!gss,!sspi,!password",
        gssencmode="disable",
        target_session_attrs="any",
        application_name="discreet",
        client_encoding="UTF8",
        options="",
    ).encode()


def _not_connected(stage: int, message: str) -> NotConnected:
    if stage == ConnStatus.SSL_STARTUP:
        if "certificate" in message or "SSL error" in message:
            return NotConnected(
                "the server's certificate is not valid for this name, or no known authority has "
                "signed it",
                again=False,
            )
        return NotConnected("the server offers no TLS", again=False)
    if stage in (ConnStatus.BAD, ConnStatus.STARTED, ConnStatus.NEEDED):
        return NotConnected("the server cannot be reached", again=True)
    return NotConnected(
        "the database does not let this service in, or is not there (only its keeper sees why)",
        again=False,
    )


# Databases ----------------------------------------------------------------------------------------

ATTEMPTS = 4
LONGEST_PAUSE_SECONDS = 10.0
GRACE_SECONDS = 10.0
"""For which the server's own limit of time is waited for, before the connection is cut."""
VALUES_A_FETCH, VALUES_A_PART = 100_000, 10_000
"""The most values that are asked for at once, and that are in memory at once."""

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SETTINGS = """
SELECT pg_catalog.set_config(known.name, wanted.setting, true)
FROM (VALUES ('statement_timeout', '{milliseconds}'), ('lock_timeout', '10s'),
  ('idle_in_transaction_session_timeout', '60s'), ('client_connection_check_interval', '10s'),
  ('cursor_tuple_fraction', '1'), ('TimeZone', 'UTC'), ('DateStyle', 'ISO, YMD')
) AS wanted (name, setting) JOIN pg_catalog.pg_settings AS known USING (name)
"""
"""Each that this server knows. It also takes the snapshot, after which no transaction that reads
only can become another."""
_FORBIDDEN = """
SELECT pg_catalog.count(*) FROM pg_catalog.pg_roles AS other
WHERE (other.rolsuper OR other.rolreplication OR other.rolname IN
  ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program',
   'pg_signal_backend'))
  AND (pg_catalog.pg_has_role(session_user, other.oid, 'MEMBER')
    OR pg_catalog.pg_has_role(current_user, other.oid, 'MEMBER'))
"""
"""Roles that the place's user has or could take, with which a query reads files, runs programs,
ends others' sessions, reads what others write (by a replication slot, which also stays) or gets
around every right."""
_TYPES = """
SELECT oid::pg_catalog.int8, pg_catalog.format_type(oid, NULL), typtype = 'e'
FROM pg_catalog.pg_type WHERE oid IN ({numbers})
"""
_CURSOR = "DECLARE discreet NO SCROLL CURSOR FOR SELECT {values} FROM (\n{query}\n) AS q ({names})"
_FETCH = "FETCH FORWARD {rows} FROM discreet"
_PASSING = ("08", "25P", "40", "53", "55", "57", "58", "72", "XX")
"""How codes of errors begin that come from the server's state: connection, a transaction that idled
too long, conflict with recovery, resources, locks, an operator who ends it, the system, snapshots
that are gone, its own faults."""
_CANCELLED, _SYNTAX = "57014", "42601"
_NOTHING = ("42P01", "3F000", "42501")
"""No such table, no such schema, no right to read it."""


def copy(
    place: DatabasePlace,
    address: Address,
    hosts: Sequence[str],
    upload: Upload,
    room: Callable[[int], None],
    until: float,
) -> None:
    """Write the rows of the address's query to the upload, as Parquet, until the monotonic clock
    reaches `until`. `hosts`: the server's IP addresses. `room` is called with the bytes that will
    come, and raises if they are too many.

    Raises PlaceRefused, QueryRefused or PlaceUnavailable; FileClosed soon after the upload is
    closed, and then the query has ended too.
    """
    query = place.query_of(address)

    def wanted() -> bool:
        return upload.file.descriptor >= 0

    with _connected(place, address, hosts, until, wanted) as wire:
        _Query(wire, place, query, until).copy(upload, room)


@contextmanager
def _connected(
    place: DatabasePlace,
    address: Address,
    hosts: Sequence[str],
    until: float,
    wanted: Callable[[], bool],
) -> Iterator[Wire]:
    for attempt in range(1, ATTEMPTS + 1):
        host = hosts[(attempt - 1) % len(hosts)]  # a dead server costs only one attempt
        end = min(until, time.monotonic() + CONNECT_SECONDS)
        try:
            wire = Wire(place, address.hostname, address.port, host, end, wanted)
            break
        except NotConnected as error:
            if not error.again or attempt == ATTEMPTS:
                raise PlaceUnavailable(error.why) from None
        except Late:
            if attempt == ATTEMPTS:
                raise PlaceUnavailable("the database does not answer in time") from None
        time.sleep(min(2.0 ** (attempt - 2), LONGEST_PAUSE_SECONDS))
    with wire:
        try:
            yield wire
        except Late:
            raise PlaceUnavailable("the database does not answer in time") from None
        except TooLarge:
            says = "the database answers with a value or an error that is too large to be held"
            raise QueryRefused(says) from None
        except Broken as error:
            says = "the database ended the connection before all rows came"
            raise PlaceUnavailable(says) from error


class _Query:
    """One query on one connection."""

    def __init__(self, wire: Wire, place: DatabasePlace, query: str, until: float) -> None:
        self._wire, self._until = wire, until
        self._seconds = place.seconds
        self._query = query.rstrip().removesuffix(";")

    def copy(self, upload: Upload, room: Callable[[int], None]) -> None:
        try:
            self._begin()
            columns = self._columns()
            values = ", ".join(
                one.kind.sql.format(f"q.c{place}") for place, one in enumerate(columns)
            )
            names = ", ".join(f"c{place}" for place in range(len(columns)))
            self._declare(_CURSOR.format(values=values, query=self._query, names=names))
            self._fetch(columns, Rows(columns, upload, room))
        except SqlError as error:
            self._refuse(error)

    def _begin(self) -> None:
        self._run(_BEGIN)
        self._run(_SETTINGS.format(milliseconds=int(1000 * self._seconds)), 1)
        if self._run(_FORBIDDEN, 1) != [(bytes(8),)]:
            raise PlaceUnavailable(
                "the operator's file must name a user that may only read: this one is, or may "
                "become, a superuser, or a role that replicates, reads files, runs programs or "
                "ends the sessions of others"
            )

    def _columns(self) -> list[Column]:
        try:
            described = self._wire.described(self._query, self._end())
        except SqlError as error:
            self._refuse(error, parsing=True)
        return columns_of(described, self._types)

    def _types(self, numbers: Sequence[int]) -> dict[int, tuple[str, bool]]:
        if not numbers:
            return {}
        rows = self._run(_TYPES.format(numbers=", ".join(map(str, numbers))), 3)
        return {
            int.from_bytes(number or b"", "big"): (
                (name or b"").decode("utf-8", "replace"),
                is_enumeration == b"\1",
            )
            for number, name, is_enumeration in rows
        }

    def _declare(self, statement: str) -> None:
        """Open the cursor. QueryRefused for what is a statement, but no SELECT by grammar."""
        try:
            self._run(statement)
        except SqlError as error:
            if error.state != _SYNTAX:
                raise
            raise QueryRefused(
                "one SELECT, or VALUES, TABLE or WITH … SELECT, is read, and nothing behind its "
                f"semicolon (SQLSTATE {_SYNTAX})"
            ) from None

    def _fetch(self, columns: Sequence[Column], rows: Rows) -> None:
        most = max(1, VALUES_A_FETCH // len(columns))
        statement = _FETCH.format(rows=most)
        come = most
        while come == most:
            come = 0
            part = max(1, VALUES_A_PART // len(columns))
            for result in self._wire.run(statement, self._end(), part):
                come += result.ntuples
                rows.add(result)
        rows.finish()

    def _run(self, statement: str, columns: int = 0) -> list[tuple[bytes | None, ...]]:
        """The rows of a statement with so many columns."""
        rows = []
        for result in self._wire.run(statement, self._end()):
            if result.nfields != columns:
                raise Broken
            for row in range(result.ntuples):
                rows.append(tuple(result.get_value(row, place) for place in range(columns)))
        return rows

    def _end(self) -> float:
        """Until when the next statement is waited for."""
        return min(self._until, time.monotonic() + self._seconds + GRACE_SECONDS)

    def _refuse(self, error: SqlError, *, parsing: bool = False) -> NoReturn:
        """What the owner of the query is told of an error. Once rows are read that is one sentence
        for all errors of the query: which of them it is, the owner could make depend on a row."""
        code = f"SQLSTATE {error.state}"
        if error.state == _CANCELLED:
            says = f"the database ended the query, which may take {self._seconds:g} s"
            raise PlaceUnavailable(says) from None
        if error.state.startswith(_PASSING):
            raise PlaceUnavailable("the database cannot run the query now") from None
        if parsing and error.state.startswith("42"):
            at = "" if error.position is None else f", at character {error.position}"
            says = f"the database refuses the query: {error.message}{at} ({code})"
            raise (NothingThere if error.state in _NOTHING else QueryRefused)(says) from None
        if parsing:
            says = f"the database refuses the query: {_condition(error.state)} ({code})"
            raise QueryRefused(says) from None
        raise QueryRefused(
            "the query fails while it runs, or the place's user may not read all that it names; "
            "run it yourself to see why"
        ) from None


def _condition(state: str) -> str:
    """The name that PostgreSQL gives to an error."""
    try:
        name = errors.lookup(state).__name__
    except KeyError:
        return "an error of its own"
    return "".join(f" {one.lower()}" if one.isupper() else one for one in name).strip()


# Rows ---------------------------------------------------------------------------------------------
# Rows of a query as a Parquet file, written as they come.
#
# Each column becomes one of six types on the server, whose binary form has a known length, or is a
# text that is cut there: neither a value nor a row can be large.

MOST_COLUMNS = 1000
LONGEST_TEXT = 1000
"""In characters."""
GROUP_BYTES = 32 << 20
"""Of a row group, in memory."""
PARTS_TOGETHER = 64
"""So many parts become one: an array takes some hundred bytes, however few its values."""
CELL_BYTES = 4
"""Counted for each value beside its own bytes, as on the wire: NULLs without end have an end too.
"""


class Kind(NamedTuple):
    """A type of columns: what is asked of the server, and what its values are."""

    sql: str
    form: str
    """NumPy's type of the values as they come; empty for texts."""
    arrow: pa.DataType


INTEGER = Kind("{}::pg_catalog.int8", ">i8", pa.int64())
REAL = Kind("{}::pg_catalog.float8", ">f8", pa.float64())
TRUTH = Kind("{}::pg_catalog.bool", "?", pa.bool_())
_CUT = (
    "CASE pg_catalog.getdatabaseencoding() WHEN 'SQL_ASCII' "
    f"THEN {4 * LONGEST_TEXT + 4} ELSE {LONGEST_TEXT + 1} END"
)
"""Where texts are cut: a database that knows no encoding counts bytes, of which UTF-8 has up to
four a character."""
TEXT = Kind(f'pg_catalog."left"({{}}::pg_catalog.text, {_CUT})', "", pa.string())
DATE = Kind("({} - pg_catalog.date '1970-01-01')::pg_catalog.int4", ">i4", pa.date32())
_MICROSECONDS = "(EXTRACT(epoch FROM {}) * 1000000)::pg_catalog.int8"
MOMENT = Kind(_MICROSECONDS, ">i8", pa.timestamp("us"))
ZONED = Kind(_MICROSECONDS, ">i8", pa.timestamp("us", "UTC"))
_NUMERIC = 1700
_KINDS = {
    **dict.fromkeys((20, 21, 23), INTEGER),  # int8, int2, int4
    **dict.fromkeys((700, 701, _NUMERIC), REAL),  # float4, float8, numeric
    16: TRUTH,
    **dict.fromkeys(
        (18, 19, 25, 1042, 1043, 2950), TEXT
    ),  # "char", name, text, char, varchar, uuid
    1082: DATE,
    1114: MOMENT,
    1184: ZONED,
}
"""By the numbers of PostgreSQL's own types, which are the same everywhere."""
_WHOLE_DIGITS = 18
"""Of a numeric without decimals: as many are always an int8."""


@dataclass(frozen=True)
class Column:
    """A column of a query's rows."""

    name: str
    kind: Kind


def columns_of(
    described: libpq.abc.PGresult, types: Callable[[Sequence[int]], dict[int, tuple[str, bool]]]
) -> list[Column]:
    """The columns of a statement. `types` returns the names of other types, and whether each is an
    enumeration. QueryRefused, with its name, for a column that cannot be read."""
    if described.nparams:
        raise QueryRefused("the query has parameters ($1), and nothing gives them values")
    if not described.nfields:
        raise QueryRefused("a SELECT with columns is needed")
    if described.nfields > MOST_COLUMNS:
        says = f"the query has {described.nfields} columns, at most {MOST_COLUMNS} are read"
        raise QueryRefused(says)
    names = [
        (described.fname(place) or b"").decode("utf-8", "replace")
        for place in range(described.nfields)
    ]
    numbers = [described.ftype(place) for place in range(described.nfields)]
    others = types([number for number in numbers if number not in _KINDS])
    columns: list[Column] = []
    for place, (name, number) in enumerate(zip(names, numbers, strict=True)):
        if name in names[:place]:
            raise QueryRefused(f"the query has two columns {name!r:.80}: name each with AS")
        kind = _KINDS.get(number)
        if number == _NUMERIC and _is_whole(described.fmod(place)):
            kind = INTEGER
        if kind is None:
            type_name, is_enumeration = others.get(number, ("unknown", False))
            if not is_enumeration:
                raise QueryRefused(
                    f"column {name!r:.80} is of type {type_name:.80}, which is not read: cast it "
                    "to int8, float8, bool, text, date or timestamp"
                )
            kind = TEXT
        columns.append(Column(name, kind))
    return columns


def _is_whole(modifier: int) -> bool:
    """Whether a numeric with this type modifier has no decimals, and few enough digits."""
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    return modifier >= 4 and scale == 0 and precision <= _WHOLE_DIGITS


@dataclass
class Rows:
    """Writes rows to an upload. `room` is called with bytes that will come, and raises if they are
    too many."""

    columns: Sequence[Column]
    upload: Upload
    room: Callable[[int], None]
    _parts: list[pa.RecordBatch] = field(default_factory=list)
    _received: int = 0
    _waiting: int = 0

    def __post_init__(self) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - most processes never fetch rows

        self._schema = pa.schema([(one.name, one.kind.arrow) for one in self.columns])
        self._sink = _Sink(self.upload)
        # Plain, so that what comes fits into an upload exactly if it does on the wire.
        self._writer = pq.ParquetWriter(
            self._sink, self._schema, compression="none", use_dictionary=False
        )

    def add(self, result: libpq.abc.PGresult) -> None:
        """Some rows. QueryRefused for a text that is too long or no UTF-8; Broken if these are not
        rows of these columns."""
        if result.nfields != len(self.columns):
            raise Broken
        rows = range(result.ntuples)
        arrays = []
        for place, column in enumerate(self.columns):
            values = [result.get_value(row, place) for row in rows]
            self._received += sum(map(len, filter(None, values))) + CELL_BYTES * len(values)
            arrays.append(
                _texts(column, values) if not column.kind.form else _numbers(column, values)
            )
        self.room(max(0, self._received - self.upload.plain_bytes))
        part = pa.record_batch(arrays, schema=self._schema)
        self._parts.append(part)
        self._waiting += part.nbytes
        if len(self._parts) >= PARTS_TOGETHER:
            self._parts = pa.Table.from_batches(self._parts).combine_chunks().to_batches()
        if self._waiting >= GROUP_BYTES:
            self._write()

    def finish(self) -> None:
        """Nothing more comes."""
        self._write()
        self._writer.close()
        self.upload.end_part()

    def _write(self) -> None:
        if self._parts:
            self._writer.write_table(pa.Table.from_batches(self._parts))
        self._parts, self._waiting = [], 0


def _numbers(column: Column, values: Sequence[bytes | None]) -> pa.Array:
    form = np.dtype(column.kind.form)
    nothing = bytes(form.itemsize)
    joined = b"".join(nothing if one is None else one for one in values)
    if len(joined) != form.itemsize * len(values):
        raise Broken
    numbers = np.frombuffer(joined, form).astype(form.newbyteorder("="))
    missing = np.fromiter((one is None for one in values), bool, len(values))
    return pa.array(numbers, mask=missing).cast(column.kind.arrow)


def _texts(column: Column, values: Sequence[bytes | None]) -> pa.Array:
    try:
        texts = pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise QueryRefused(f"column {column.name!r:.80} holds text that is not UTF-8") from None
    if any(one is not None and len(one) > LONGEST_TEXT for one in values) and any(
        one is not None and len(one) > LONGEST_TEXT for one in texts.to_pylist()
    ):
        says = f"column {column.name!r:.80} holds a text of more than {LONGEST_TEXT} characters"
        raise QueryRefused(says)
    return texts


class _Sink(io.RawIOBase):
    """What is written goes into the upload."""

    def __init__(self, upload: Upload) -> None:
        super().__init__()
        self._upload = upload

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._upload.write(bytes(part))
        return len(part)

    def tell(self) -> int:
        return self._upload.plain_bytes
