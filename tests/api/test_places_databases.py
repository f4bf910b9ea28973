"""Contents that are rows of a PostgreSQL database: what a query brings, what no query can do, and
servers that do not give it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from discreet import outbound
from discreet.errors import DiscreetError, InvalidInput, PayloadTooLarge
from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation.reading import UPLOAD
from discreet.privacy.filters import Cap
from discreet.problems import DATASETS, KINDS
from discreet.problems.numbers import Privacy
from discreet.settings import Settings
from discreet.storage import audit_log
from discreet.storage.sealing import open_stream
from discreet.storage.tenants import Principal
from discreet.usecases import access, datasets, endings, jobs
from discreet.usecases.places import databases, web
from discreet.usecases.places.reading import TooManyFailedReads
from discreet.usecases.places.rules import (
    Located,
    NothingThere,
    PlaceRefused,
    PlaceUnavailable,
    QueryRefused,
)
from discreet.usecases.places.staying import PlaceFails
from discreet.usecases.rpc_tls import self_signed
from discreet.usecases.services import Services, open_services
from tests import bodies
from tests.conftest import eventually, settings_for
from tests.databases import PASSWORD, SECRET, Front, Meters, meters_of
from tests.places import allowing
from tests.postgres_fixture import fresh_database


@dataclass
class Site:
    """An owner of a service, and the database that its operator allows."""

    folder: Path
    services: Services
    owner: Principal
    meters: Meters
    front: Front
    portal: BlockingPortal

    def url(self, port: int | None = None, host: str = "127.0.0.1") -> str:
        return f"postgresql://{host}:{port or self.front.port}/{self.meters.name}"

    def fetched(self, address: str, url: str | None = None, **values: Any) -> pa.Table:
        """The rows that an address brings, through a place of this URL with these values."""
        return self.portal.call(self._fetched, self.allowed(url, **values), address)

    def allowed(self, url: str | None = None, **values: Any) -> Services:
        """The services, whose operator allows this place."""
        limit = values.pop("upload_bytes", self.services.settings.upload_bytes)
        place = {"url": url or self.url(), "user": self.meters.user, "password": PASSWORD}
        path = allowing(self.folder, {**place, "private": True, **values})
        changes = {"content_places": path, "upload_bytes": limit}
        settings = self.services.settings.model_copy(update=changes)
        return replace(self.services, settings=settings)

    async def _fetched(self, services: Services, address: str) -> pa.Table:
        upload = await web.fetch(services, self.owner, address)
        with contextlib.closing(upload):
            sealed = os.pread(upload.file.descriptor, upload.sealed_bytes, 0)
            content = open_stream(upload.key, UPLOAD, upload.sealed_bytes, [sealed])
            assert (upload.format, upload.parts) == ("parquet", [len(content)])
            return pq.read_table(io.BytesIO(content))

    def rows(
        self, query: str, port: int | None = None, host: str = "127.0.0.1", **values: Any
    ) -> pa.Table:
        """The rows of a query."""
        url = self.url(port, host)
        return self.fetched(f"{url}?query={quote(query)}", url, **values)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Services, Principal]]:
    async with open_services(settings) as services:
        yield services, await access.local_owner(services)


@pytest.fixture(scope="module")
def site(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres, template))
        meters = stack.enter_context(meters_of(postgres))
        front = stack.enter_context(Front(meters.sockets))
        portal = stack.enter_context(start_blocking_portal())
        settings = settings_for(database, folder / "state")
        services, owner = stack.enter_context(portal.wrap_async_context_manager(opened(settings)))
        yield Site(folder, services, owner, meters, front, portal)


def test_what_a_query_finds(site: Site) -> None:
    """Values of all types that are read, the same for each digit; columns are what they are called,
    and no row is missing or twice, however many come at once."""
    table = site.rows("SELECT * FROM trips WHERE period < 4 -- as yesterday")
    assert table.schema.names == ["period", "origin", "destination", "count"]
    assert set(table.schema.types) == {pa.int64()}
    assert sorted(table["count"].to_pylist()) == [n + 1 for n in range(30) if n % 10 < 4]
    first, second = site.rows(
        'SELECT word, code, letter AS "a letter", id, state, truth, whole, part, small, day, '
        "moment, zoned, nothing FROM kinds ORDER BY part DESC",
    ).to_pylist()
    assert first == {
        **{"word": "é'x", "code": 'a,"b', "a letter": "c", "state": "busy", "truth": True},
        **{"id": "00000000-0000-0000-0000-00000000000a", "whole": 999999999999999999},
        **{"part": 0.1, "small": 0.5, "day": date(1969, 12, 31), "nothing": None},
        "moment": datetime(2026, 10, 1, 6, 15, 0, 1),
        "zoned": datetime(2026, 10, 1, 4, 15, tzinfo=UTC),
    }
    assert {value for name, value in second.items() if name != "part"} == {None}
    assert second["part"] == -3
    assert site.rows("SELECT * FROM trips WHERE false").num_rows == 0
    many = site.rows("WITH n AS (SELECT * FROM generate_series(1, 300001) AS x) TABLE n;")
    assert many["x"].to_pylist() == list(range(1, 300002))
    assert site.rows("VALUES ('100%', 1), ('{}', 2)").num_rows == 2
    day = site.rows("SELECT now()::date::text AS day, current_setting('TimeZone') AS zone")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day["day"][0].as_py())
    assert day["zone"][0].as_py() == "UTC"


def test_rows_are_written_in_groups(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, so that no more than a group is in memory, nor many small arrays."""
    monkeypatch.setattr(databases, "GROUP_BYTES", 200_000)
    monkeypatch.setattr(databases, "PARTS_TOGETHER", 2)
    add, parts = databases.Rows.add, list[int]()

    def counted(self: databases.Rows, result: Any) -> None:
        add(self, result)
        parts.append(len(self._parts))

    monkeypatch.setattr(databases.Rows, "add", counted)
    query = "SELECT x, NULLIF(x % 7, 3) AS y FROM generate_series(1, 60000) AS x"
    table = site.rows(query)
    assert table["y"].to_pylist() == [None if n % 7 == 3 else n % 7 for n in range(1, 60001)]
    assert set(parts) == {0, 1}


def test_a_server_without_encoding(site: Site) -> None:
    """Counts bytes where it cuts texts: none comes shorter than it is."""
    name = f"{site.meters.name}_bytes"
    site.meters.run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    url = f"{site.url()}_bytes"
    try:
        query = "SELECT 'a' || repeat('é', {}) AS word"
        asked = [f"{url}?query={quote(query.format(count))}" for count in (999, 1000)]
        assert site.fetched(asked[0], url)["word"].to_pylist() == ["a" + 999 * "é"]
        with pytest.raises(QueryRefused, match="more than 1000 characters"):
            site.fetched(asked[1], url)
    finally:
        site.meters.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_words_of_a_server_that_are_long(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error quotes the value that it is about, which may have a gigabyte: it is not held."""
    monkeypatch.setattr(databases, "MOST_BYTES", 4 << 20)
    with pytest.raises(QueryRefused, match="too large to be held"):
        site.rows("SELECT repeat('a', 90000000)::int AS a")
    many = site.rows("SELECT repeat('a', 99) AS a FROM generate_series(1, 20000)")
    assert many.num_rows == 20000


def test_what_nobody_waits_for_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is cancelled, or a time that is over, ends the query on the server too, though it
    has turned off all of the server's own limits."""
    monkeypatch.setattr(databases, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(databases, "VALUES_A_FETCH", 10)
    unlimited = (
        "SELECT CASE x WHEN 1 THEN set_config('statement_timeout', '0', false) || "
        "set_config('client_connection_check_interval', '0', false) "
        "WHEN 11 THEN pg_sleep(3600)::text END AS a FROM generate_series(1, 11) AS x"
    )
    going_on = "SELECT pid FROM pg_stat_activity WHERE usename = 'USER'"
    going_on = going_on.replace("USER", site.meters.user)
    with pytest.raises(PlaceUnavailable, match="does not answer in time"):
        site.rows(unlimited, seconds=1)
    eventually(lambda: site.meters.run(going_on) == [], "the query ended with its time")

    async def given_up(services: Services, address: str) -> None:
        fetch = asyncio.create_task(web.fetch(services, site.owner, address))
        sleeping = f"{going_on} AND wait_event = 'PgSleep'"
        await asyncio.to_thread(eventually, lambda: site.meters.run(sleeping), "the query runs")
        fetch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetch

    address = f"{site.url()}?query={quote(unlimited)}"
    site.portal.call(given_up, site.allowed(seconds=3600), address)
    eventually(lambda: site.meters.run(going_on) == [], "the query ended as nobody waits")


FAILS = "the query fails while it runs"


@pytest.mark.parametrize(
    ("query", "error", "why"),
    [
        ("SELECT 1 AS a; SELECT 2 AS b", QueryRefused, "multiple commands"),
        ("SELECT 1 AS a; -- all of them", QueryRefused, "nothing behind its semicolon"),
        ("SELECT 1 AS a; DROP TABLE trips", QueryRefused, "multiple commands"),
        ("SELECT 1 AS a) AS q; COMMIT; DROP TABLE trips; --", QueryRefused, "syntax error"),
        ("SELECT 1) TO PROGRAM 'true' --", QueryRefused, "syntax error"),
        ("COPY (SELECT 1) TO PROGRAM 'true'", QueryRefused, "SELECT with columns"),
        ("COPY trips TO STDOUT", QueryRefused, "SELECT with columns"),
        ("COMMIT", QueryRefused, "SELECT with columns"),
        ("DO $$ BEGIN PERFORM 1; END $$", QueryRefused, "SELECT with columns"),
        ("-- nothing", QueryRefused, "SELECT with columns"),
        ("SELECT FROM trips", QueryRefused, "SELECT with columns"),
        ("SHOW search_path", QueryRefused, r"\(SQLSTATE 42601\)"),
        ("EXPLAIN SELECT 1", QueryRefused, r"\(SQLSTATE 42601\)"),
        ("INSERT INTO trips VALUES (1, 1, 1, 1) RETURNING *", QueryRefused, "SQLSTATE 42601"),
        (
            "WITH w AS (DELETE FROM trips RETURNING *) SELECT * FROM w",
            QueryRefused,
            "the query fails while it runs",
        ),
        ("SELECT 1 AS a INTO stolen", QueryRefused, "SELECT with columns"),
        ("SELECT * FROM trips FOR UPDATE", QueryRefused, FAILS),
        ("SELECT nextval('numbers')", QueryRefused, FAILS),
        ("SELECT $1::int AS a", QueryRefused, "parameters"),
        ("SELECT pg_read_file('/etc/passwd') AS a", QueryRefused, FAILS),
        ("SELECT pg_ls_dir('/') AS a", QueryRefused, FAILS),
        (
            "SELECT lo_import('/etc/passwd')::int8 AS a",
            QueryRefused,
            "the query fails while it runs",
        ),
        ("SELECT word FROM hidden", QueryRefused, FAILS),
        ("SELECT word FROM absent", NothingThere, 'relation "absent" does not exist'),
        ("SELECT wort FROM secrets", QueryRefused, 'column "wort" does not exist, at character 8'),
        ("SELECT word::int AS a FROM secrets", QueryRefused, FAILS),
        (
            "SELECT 1 / (length(word) - length(word)) AS a FROM secrets",
            QueryRefused,
            "the query fails while it runs",
        ),
        ("SELECT tell() AS a", QueryRefused, FAILS),
        (
            "SELECT set_config('transaction_read_only', 'off', false) AS a",
            QueryRefused,
            "the query fails while it runs",
        ),
        (
            "SELECT set_config('role', 'postgres', false) AS a",
            QueryRefused,
            "the query fails while it runs",
        ),
        ("SELECT inner_table FROM kinds", QueryRefused, "'inner_table' is of type json, which is"),
        ("SELECT ARRAY[1] AS a", QueryRefused, r"'a' is of type integer\[\], which is not read"),
        ("SELECT 1 AS a, 2 AS a", QueryRefused, "two columns 'a'"),
        ("SELECT 'infinity'::timestamp AS a", QueryRefused, FAILS),
        ("SELECT repeat('x', 1001) AS a", QueryRefused, "more than 1000 characters"),
        ("SELECT " + 71 * "k.*, " + "k.* FROM kinds AS k", QueryRefused, "1008 columns, at"),
        ("SELECT 'é' AS \"ü\" FROM nowhere.at_all", NothingThere, "does not exist"),
    ],
)
def test_what_no_query_can_do(site: Site, query: str, error: type[Exception], why: str) -> None:
    """More than read what the role may read; and no error of one tells what rows hold."""
    with pytest.raises(error, match=why) as refused:
        site.rows(query)
    assert isinstance(refused.value, InvalidInput)
    issue = refused.value.issues[0]
    assert (issue.pointer, SECRET in str(refused.value)) == ("/content_from", False)


AS_COUNT = "SELECT period, origin, destination, {} AS count FROM trips CROSS JOIN secrets"
ONE_BIT = "CASE WHEN count = {} AND left(word, 1) = 'a' THEN {} ELSE 1 END"


def registered(
    site: Site, address: str, url: str | None = None, *, stays: bool = False, **changes: Any
) -> Any:
    body = bodies.dataset()
    request = datasets.Registration(
        name="guesses",
        kind="routing",
        public=DATASETS["routing"].read_public(body["public"]),
        mode="private",
        cap=Cap(10**9, 0),
        account=None,
        source=Located(address, stays),
    )
    services = site.allowed(url)
    services = replace(services, settings=services.settings.model_copy(update=changes))
    return site.portal.call(datasets.register, services, site.owner, request)


def refused(site: Site, address: str, url: str | None = None) -> str:
    with pytest.raises(DiscreetError) as error:
        registered(site, address, url)
    issues = error.value.issues if isinstance(error.value, InvalidInput) else ()
    assert {issue.pointer for issue in issues} <= {"/content_from"}
    return f"{error.value.code} {error.value.detail} {issues} {error.value.limit}"


def query(site: Site, values: str) -> str:
    return f"{site.url()}?query={quote(AS_COUNT.format(values))}"


def test_nothing_that_comes_from_a_place_is_repeated(
    site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """An owner read 40 characters of any cell a request: `pw AS count` said `integers are needed;
    found 'hunter2'`; and in which row something fails is a bit of that row. Neither the answer, nor
    the log, nor the audit log holds more than the column and the kind of rule."""
    caplog.set_level(logging.DEBUG)
    told = [refused(site, query(site, "word"))]
    assert "column 'count': a value is not of the type that is needed" in told[0]
    for wrong in ("1000000000000000", "NULL", "1.5", "-7", "1 / (count - count)"):
        first, last = (refused(site, query(site, ONE_BIT.format(row, wrong))) for row in (1, 29))
        assert first == last
        told.append(first)
    assert "fails while it runs" in told[-1]
    assert not any(digit in "".join(told[1:]) for digit in ("29", "1000000000000000", "-7", "1.5"))
    files = {
        "a.csv": f"period,origin,destination,count\n0,1,2,{SECRET}\n",
        "b.csv": f"{SECRET},origin,destination,count\n0,1,2,3\n",
        "c.json": f'{{"trips": [{{"{SECRET}": 1}}]}}',
        "d.json": f'{{"{SECRET}": [], "trips": []}}',
        "e.json": f'{{"trips": [{{"period": "{SECRET}"}}]}}',
        "f.json": f'["{SECRET}',
        "g.parquet": SECRET,
        "h.csv": f'"{SECRET}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        told.append(refused(site, f"file://{tmp_path}/{name}", f"file://{tmp_path}/"))
    audited = site.portal.call(_audited, site)
    assert len(audited) == len(told) + 5
    assert {entry["action"] for entry in audited} == {"place.fail"}
    assert all("AS%20count" in entry["details"]["address"] for entry in audited[-11:])
    out, err = capfd.readouterr()
    assert SECRET not in "\n".join([*told, str(audited), out, err, caplog.text])


async def _audited(site: Site) -> list[dict[str, Any]]:
    async with site.services.database.transaction(site.owner.tenant_id) as connection:
        return await audit_log.page(connection, site.owner.tenant_id, action="place.fail", size=100)


def test_failed_reads_have_a_number_a_day(site: Site) -> None:
    """For guesses are paid for by nothing else."""
    row, new = registered(site, query(site, "count"))
    assert (row["kind"], new) == ("routing", True)
    most = len(site.portal.call(_audited, site)) + 1
    with pytest.raises(QueryRefused):
        registered(site, query(site, "1 / 0"), place_failures=most)
    for values in ("1 / 0", "count"):
        with pytest.raises(TooManyFailedReads) as refused:
            registered(site, query(site, values), place_failures=most)
        assert 0 < refused.value.seconds_left <= 86400
    assert len(site.portal.call(_audited, site)) == most
    with pytest.raises(PlaceRefused):  # what is no address tells nothing, and counts for nothing
        registered(site, "nowhere", place_failures=most)


def test_jobs_that_cannot_read_rows_again_count_as_well(site: Site) -> None:
    """A query that was well when it was registered fails later as a row is: for each job told a
    bit for nothing. Jobs that failed so count with the reads that did; neither a registration nor
    a job reads rows then, and what is told then counts for nothing."""
    row, _ = registered(site, query(site, "count + 1"), stays=True)
    before = len(site.portal.call(_audited, site))

    def read(most: int) -> None:
        services = site.allowed()
        settings = services.settings.model_copy(update={"place_failures": most})
        site.portal.call(datasets.open_content, replace(services, settings=settings), row["id"])

    read(before + 2)
    codes = ("content_differs", "data_erased", "too_many_failed_reads", "place_unreadable")
    for number, code in enumerate(codes):
        if number < 3:
            read(before + 2)
        site.portal.call(_failed, site, row["id"], code)
    with pytest.raises(PlaceFails) as failed:
        read(before + 2)
    assert (failed.value.code, failed.value.passing) == ("too_many_failed_reads", False)
    with pytest.raises(TooManyFailedReads) as refused:
        registered(site, query(site, "count"), place_failures=before + 2)
    assert 86000 < refused.value.seconds_left <= 86400
    read(before + 3)
    assert len(site.portal.call(_audited, site)) == before


async def _failed(site: Site, dataset: str, code: str) -> None:
    """A job on this dataset ends with this code."""
    asked = bodies.job(dataset)
    job = await jobs.submit(
        site.services,
        site.owner,
        idempotency_key=f"{dataset} {code}",
        request=code.encode(),
        problem=KINDS["routing"].model_validate(asked["problem"]),
        privacy=Privacy.model_validate(asked["privacy"]),
        seed=None,
    )
    async with site.services.database.transaction(site.owner.tenant_id) as connection:
        await endings.fail(connection, job["id"], code, "worker")


def test_nothing_was_changed(site: Site) -> None:
    assert site.meters.run("SELECT count(*), sum(count) FROM trips") == [(30, 465)]
    assert site.meters.run("SELECT count(*) FROM pg_class WHERE relname = 'stolen'") == [(0,)]


def test_queries_that_do_not_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """By time, wherever the query spends it, and by size: rows without end, also of nothing."""
    monkeypatch.setattr(databases, "GRACE_SECONDS", 0.5)
    for query in (
        "SELECT pg_sleep(600)::text AS a",
        "SELECT count(*) AS a FROM (SELECT generate_series(1, 1000000000000)) AS q",
        "SELECT set_config('statement_timeout', '0', false), pg_sleep(600)::text AS a",
    ):
        with pytest.raises(PlaceUnavailable, match=r"ended the query|does not answer in time"):
            site.rows(query, seconds=1)
    for query in (
        "SELECT generate_series(1, 1000000000000) AS a",
        "SELECT NULL::int AS a FROM (SELECT generate_series(1, 1000000000000)) AS q",
    ):
        with pytest.raises(PayloadTooLarge, match="bytes"):
            site.rows(query, upload_bytes=1 << 20)


def test_queries_that_the_operator_wrote(site: Site) -> None:
    """Are then the only ones."""
    queries, base = {"some trips": "SELECT * FROM trips WHERE period = 0"}, site.url()
    found = site.fetched(f"{base}?named=some%20trips", queries=queries)
    assert found.num_rows == 3
    with pytest.raises(NothingThere, match="no query of this name"):
        site.fetched(f"{base}?named=others", queries=queries)
    with pytest.raises(PlaceRefused, match="only queries that the operator wrote"):
        site.fetched(f"{base}?query=SELECT%201", queries=queries)
    with pytest.raises(NothingThere, match="no query of this name"):
        site.fetched(f"{base}?named=some%20trips")
    for other in (f"{base}2", base.replace("127.0.0.1", "localhost")):
        with pytest.raises(PlaceRefused, match="no content is read from this address"):
            site.fetched(f"{other}?named=some%20trips", queries=queries)


@pytest.mark.parametrize(
    ("right", "undo"),
    [
        ("ALTER ROLE {} SUPERUSER", "ALTER ROLE {} NOSUPERUSER"),
        ("ALTER ROLE {} REPLICATION", "ALTER ROLE {} NOREPLICATION"),
        ("GRANT pg_signal_backend TO {}", "REVOKE pg_signal_backend FROM {}"),
        ("GRANT pg_execute_server_program TO {}", "REVOKE pg_execute_server_program FROM {}"),
    ],
)
def test_users_that_may_do_more_than_read(site: Site, right: str, undo: str) -> None:
    """Are the operator's mistake, and nothing is asked with their rights."""
    site.meters.run(right.format(site.meters.user))
    try:
        with pytest.raises(PlaceUnavailable, match="a user that may only read"):
            site.rows("SELECT 1 AS a")
    finally:
        site.meters.run(undo.format(site.meters.user))


# Servers ------------------------------------------------------------------------------------------


def test_servers_that_do_not_give_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence each, and no thread waits for them."""
    monkeypatch.setattr(databases, "LONGEST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(databases, "GRACE_SECONDS", 0.5)
    query = "SELECT * FROM trips"
    with pytest.raises(PlaceUnavailable, match="does not let this service in"):
        site.rows(query, password="wrong")
    with pytest.raises(PlaceUnavailable, match="does not let this service in"):
        site.rows(query, password=None)
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patched:
        closed = silent.getsockname()[1]
        patched.setattr(databases, "CONNECT_SECONDS", 0.1)
        with pytest.raises(PlaceUnavailable, match="does not answer in time"):
            site.rows(query, port=closed)
    with pytest.raises(PlaceUnavailable, match="cannot be reached"):
        site.rows(query, port=closed)
    length = (1 << 30).to_bytes(4, "big")
    strange = (b"HTTP/1.1 200 OK\r\n\r\n", b"NR\0\0\0\x08\0\0\0\0", b"NT" + length, bytes(99))
    for says in strange:
        with Front(site.meters.sockets, says=says) as stranger, monkeypatch.context() as patched:
            patched.setattr(databases, "CONNECT_SECONDS", 0.1)
            with pytest.raises(PlaceUnavailable):
                site.rows(query, port=stranger.port)
    many = "SELECT x AS a FROM generate_series(1, 99999) AS x"
    for badly, why in (
        ({"drips": 2000}, "does not answer in time"),
        ({"breaks": 100_000}, "before all rows came"),
    ):
        with (
            Front(site.meters.sockets, **badly) as front,
            pytest.raises(PlaceUnavailable, match=why),
        ):
            site.rows(many, port=front.port, seconds=1)
    with pytest.raises(PlaceUnavailable, match="name of the server is not known"):
        site.rows(query, host="nobody.invalid")


def test_certificates_and_networks(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off loopback there is TLS with a certificate of the name, or no word of the password; and
    the address that is connected to is one that was checked."""
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    for path, text in zip((certificate, key), self_signed(("localhost",)), strict=True):
        path.write_bytes(text)
    query = "SELECT count(*) AS n FROM trips"
    with Front(site.meters.sockets, certificate, key) as secured:
        good = {"port": secured.port, "authority": str(certificate)}
        assert site.rows(query, host="localhost", **good)["n"].to_pylist() == [30]
        with pytest.raises(PlaceUnavailable, match="certificate is not valid for this name"):
            site.rows(query, **good)
        # Nobody known has signed it; without TLS or authority only loopback is trusted.
        monkeypatch.setattr("discreet.usecases.places.databases.ip_address", lambda _: NOT_LOOPBACK)
        with pytest.raises(PlaceUnavailable, match="certificate is not valid for this name"):
            site.rows(query, host="localhost", port=secured.port)
    with Front(site.meters.sockets) as plain:
        with pytest.raises(PlaceUnavailable, match="offers no TLS"):
            site.rows(query, host="localhost", port=plain.port)
        asked = len(plain.asked)
        with pytest.raises(PlaceRefused, match="leads into a network"):
            site.rows(query, host="localhost", port=plain.port, private=False)
        monkeypatch.setattr(outbound, "is_never", lambda _: True)
        with pytest.raises(PlaceRefused, match="link-local"):
            site.rows(query, host="localhost", port=plain.port)
        assert len(plain.asked) == asked


@dataclass(frozen=True)
class _Elsewhere:
    is_loopback: bool = False


NOT_LOOPBACK = _Elsewhere()


def test_no_error_and_no_log_tells_what_is_private(
    site: Site,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither the operator's credentials nor the owner's query, and nothing of rows."""
    caplog.set_level(logging.DEBUG)
    told = []
    for query, password in (
        ("SELECT word FROM secrets", PASSWORD),
        ("SELECT tell() AS a", PASSWORD),
        ("SELECT word::date AS a FROM secrets", PASSWORD),
        ("SELECT word FROM secrets", "wr0ng-w0rd"),
    ):
        with contextlib.suppress(QueryRefused, PlaceUnavailable):
            assert site.rows(query, password=password).num_rows == 1
            continue
        told.append(query)
    assert len(told) == 3
    out, err = capfd.readouterr()
    everything = "\n".join([out, err, caplog.text])
    assert "content fetched" in everything
    for secret in (SECRET, PASSWORD, "wr0ng-w0rd", "secrets", site.meters.user, "127.0.0.1"):
        assert secret not in everything
