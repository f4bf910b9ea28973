"""Rows that a query finds in a PostgreSQL database.

The role in the operator's file decides what may be read, and is refused where it could do more on
the server than read tables (`_FORBIDDEN`). Besides, the query runs in a transaction that reads
only, at one snapshot. It is parsed alone first, as one statement, and then read by a cursor, which
the grammar lets have nothing but a SELECT. What the server says of a query is told to its owner
only while it is parsed, when no rows are read: later its words may hold values, and its code may
depend on them, so that it failed is all that is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from psycopg import errors

from discreet.outbound import CONNECT_SECONDS
from discreet.usecases.places.addresses import (
    Address,
    NothingThere,
    PlaceUnavailable,
    QueryRefused,
)
from discreet.usecases.places.rows import Column, Rows, columns_of
from discreet.usecases.places.rules import DatabasePlace
from discreet.usecases.places.wire import Broken, Late, NotConnected, SqlError, TooLarge, Wire
from discreet.usecases.uploads import Upload

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
