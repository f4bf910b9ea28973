"""A connection to a PostgreSQL server that others run, on which nothing is waited for without end.

libpq does the protocol and TLS, and never blocks here: this waits for its socket, until the moment
that the caller gives. It connects to an IP address that was checked and asks TLS for the name.
Statements go by the extended protocol, in which a text with more than one statement is an error.
"""

from __future__ import annotations

import os
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Self

import certifi
from psycopg import Error, capabilities, pq
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PollingStatus, TransactionStatus

from discreet.usecases.places.rules import DatabasePlace
from discreet.usecases.uploads import FileClosed

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
