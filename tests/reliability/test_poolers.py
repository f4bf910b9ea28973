"""Through PgBouncer as Debian ships it: in transaction mode a connection is another session each
time."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from discreet.api.app import create_app
from discreet.errors import Unavailable
from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.storage import queue
from discreet.storage.database import Database, WrongPooler
from discreet.storage.migrations import migrate
from discreet.usecases.services import open_services
from discreet.worker import main as worker
from tests import bodies, postgres_fixture
from tests.conftest import DEADLINE_SECONDS, Installation
from tests.reliability.books import check_books
from tests.reliability.chains import superuser_url
from tests.reliability.pgbouncer import POOLER, Pooler, pgbouncer
from tests.transactions import idle_timeout

SUBMITTERS, JOBS = 3, 4
WORKERS, CONNECTIONS = 200, 20
"""Of procrastinate's workers, each with a pool of its own, and of the pooler to the server."""
ENTRIES = 300


@pytest.fixture(scope="module")
def pooler(postgres: EmbeddedPostgres) -> Iterator[Pooler]:
    with pgbouncer(postgres, "transaction", CONNECTIONS) as running:
        yield running


@pytest.fixture
def pooled(settings: Settings, pooler: Pooler) -> Settings:
    """The two URLs as a person sets them."""
    assert settings.database_url is not None
    return settings.model_copy(
        update={
            "database_url": pooler.url(settings.database_url),
            "database_direct_url": settings.database_url,
        }
    )


def submit(running: Installation, dataset: str, accepted: dict[str, set[str]]) -> None:
    """Submit jobs and follow each by its events, which come by NOTIFY, to its end."""
    with running.http() as http, running.client() as client:
        for _ in range(JOBS):
            key = uuid.uuid4().hex
            answer = http.post(
                "/v1/jobs", json=bodies.job(dataset, 0.01), headers={"Idempotency-Key": key}
            )
            assert answer.status_code == 202, answer.text
            job = answer.json()["id"]
            accepted[key] = {job}
            assert client.wait(job)["state"] == "succeeded"
            assert client.result(job)["certificate"]["job"] == job


@pytest.mark.long
def test_real_jobs_in_transaction_mode(
    pooled: Settings, database: postgres_fixture.Database, postgres: EmbeddedPostgres
) -> None:
    """Several submitters and two workers, of which one has the pooler's URL alone: every job
    succeeds, every result is readable, the books are right, and all but who listens shares the
    pooler's connections."""
    running = Installation(pooled)
    accepted: dict[str, set[str]] = {}
    failures: list[BaseException] = []

    def work(dataset: str) -> None:
        try:
            submit(running, dataset, accepted)
        except BaseException as error:
            failures.append(error)

    try:
        running.make_keys()
        running.start_worker()
        running.extra["DISCREET_DATABASE_DIRECT_URL"] = pooled.database_direct_url or ""
        running.start_worker()
        running.start_api()
        with running.client() as client:
            dataset = client.register(bodies.dataset(epsilon=10))["id"]
        threads = [threading.Thread(target=work, args=(dataset,)) for _ in range(SUBMITTERS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not failures, failures
        direct = connected(postgres, database.name, pooled=False)
        assert direct == 3, "one of a worker, two of the API"
    finally:
        running.stop()
    books = check_books(superuser_url(postgres, pooled), accepted)
    assert books.outcomes == Counter({"succeeded, charged": SUBMITTERS * JOBS})


def connected(server: EmbeddedPostgres, name: str, *, pooled: bool) -> int:
    """Connections of the application role that came through the pooler, or past it."""
    with psycopg.connect(server.superuser_url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND usename = 'discreet_app' "
            "AND (application_name = %s) = %s",
            (name, POOLER, pooled),
        ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.long
def test_two_hundred_workers_share_twenty_connections(
    pooled: Settings, database: postgres_fixture.Database, postgres: EmbeddedPostgres
) -> None:
    """Each takes entries of the queue with procrastinate's own statement and does a transaction of
    a tenant for each: all entries once, no tenant sees another's scope. They connect a few at a
    time, as a pool waits for its first connection for so long only, and then take all at once."""
    taken: list[str] = []
    most = 0
    opened = asyncio.Barrier(WORKERS)

    async def take(number: int, database: Database, few: asyncio.Semaphore) -> None:
        entries = queue.connector(database)
        async with few:
            await entries.open_async()
        try:
            await opened.wait()
            while True:
                found = await entries.execute_query_one_async(FETCH)
                if found["id"] is None:
                    return
                async with database.transaction(f"ten_{number}") as connection:
                    asked = text("SELECT current_setting('discreet.tenant'), :entry")
                    scope, entry = (
                        await connection.execute(asked, {"entry": found["queueing_lock"]})
                    ).one()
                assert scope == f"ten_{number}"
                taken.append(entry)
        finally:
            await entries.close_async()

    async def watch() -> None:
        nonlocal most
        while True:
            look = partial(connected, postgres, database.name, pooled=True)
            most = max(most, await asyncio.to_thread(look))
            await asyncio.sleep(0.2)

    async def go() -> None:
        watching = asyncio.create_task(watch())
        shared = Database(pooled.model_copy(update={"pool_size": WORKERS}))
        few = asyncio.Semaphore(CONNECTIONS)
        await asyncio.gather(*(take(number, shared, few) for number in range(WORKERS)))
        await shared.close()
        watching.cancel()

    names = {f"entry {number}" for number in range(ENTRIES)}
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, queueing_lock) "
            "SELECT 'jobs', 'nobody', name FROM unnest(%s::text[]) AS name",
            (sorted(names),),
        )
    asyncio.run(go())
    assert sorted(taken) == sorted(names)
    assert 1 < most <= CONNECTIONS


FETCH = "SELECT * FROM procrastinate_fetch_job_v2(ARRAY['jobs'], NULL)"


def test_the_pooler_breaks_what_is_prepared(pooled: Settings, settings: Settings) -> None:
    """What the other tests of this file show would not hold with statements that are prepared."""

    async def ask(url: str, prepare: int | None) -> None:
        connections = [
            await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=prepare)
            for _ in range(2)
        ]
        try:
            for _ in range(3):
                for connection in connections:
                    await connection.execute("SELECT 1")
        finally:
            for connection in connections:
                await connection.close()

    assert pooled.database_url is not None
    assert settings.database_url is not None
    asyncio.run(ask(settings.database_url, 0))
    asyncio.run(ask(pooled.database_url, None))
    with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
        asyncio.run(ask(pooled.database_url, 0))


async def prepares(settings: Settings) -> bool:
    database = Database(settings)
    try:
        async with database.engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            return driver.prepare_threshold is not None
    finally:
        await database.close()


def test_statements_are_prepared_where_no_pooler_stands(
    pooled: Settings, settings: Settings
) -> None:
    assert asyncio.run(prepares(settings))
    assert not asyncio.run(prepares(pooled))


async def sessions(settings: Settings) -> None:
    database = Database(settings)
    try:
        await database.require_sessions()
    finally:
        await database.close()


def test_urls_that_are_used_wrongly(
    pooled: Settings,
    settings: Settings,
    pooler: Pooler,
    postgres: EmbeddedPostgres,
    template: str,
) -> None:
    """Each mistake is said in a sentence that names the setting."""
    asyncio.run(sessions(settings))
    asyncio.run(sessions(pooled))
    one = pooled.model_copy(update={"database_direct_url": None})
    with pytest.raises(WrongPooler, match=r"^DISCREET_DATABASE_URL leads through a pooler"):
        asyncio.run(sessions(one))
    both = pooled.model_copy(update={"database_direct_url": pooled.database_url})
    with pytest.raises(WrongPooler, match=r"^DISCREET_DATABASE_URL leads through a pooler"):
        asyncio.run(sessions(both))
    with postgres_fixture.fresh_database(postgres, template) as other:
        elsewhere = pooled.model_copy(update={"database_direct_url": other.app_url})
        with pytest.raises(WrongPooler, match="lead to different databases"):
            asyncio.run(sessions(elsewhere))
    through = pooler.url(settings.migration_database_url or "")
    with pytest.raises(WrongPooler, match="set DISCREET_MIGRATION_DATABASE_URL"):
        migrate(pooled.model_copy(update={"migration_database_url": through}))
    with pytest.raises(Unavailable, match="does not answer"):
        asyncio.run(
            sessions(settings.model_copy(update={"database_url": "postgresql://a@127.0.0.1:1/b"}))
        )


@pytest.mark.parametrize("mode", ["session", "statement"])
def test_other_modes(mode: str, settings: Settings, postgres: EmbeddedPostgres) -> None:
    """In session mode one URL is enough; in statement mode nothing can be done, whatever beside
    it."""
    assert settings.database_url is not None
    with pgbouncer(postgres, mode) as pooler:
        urls = {"database_url": pooler.url(settings.database_url)}
        through = settings.model_copy(update=urls)
        beside = settings.model_copy(update={**urls, "database_direct_url": settings.database_url})
        if mode == "session":
            asyncio.run(sessions(through))
            asyncio.run(sessions(beside))
        else:
            with pytest.raises(WrongPooler, match="DISCREET_DATABASE_DIRECT_URL"):
                asyncio.run(sessions(through))
            with pytest.raises(WrongPooler, match="does not let transactions through"):
                asyncio.run(sessions(beside))


def test_one_url_through_a_pooler(pooled: Settings, pooler: Pooler, settings: Settings) -> None:
    """The API refuses to start and says what to set; a worker looks for jobs instead, unless what
    it was given to listen at is of no use."""
    one = pooled.model_copy(update={"database_direct_url": None})

    async def start() -> None:
        app = create_app(one)
        async with app.router.lifespan_context(app):
            raise AssertionError("it started")

    with pytest.raises(WrongPooler, match="set DISCREET_DATABASE_DIRECT_URL to the server itself"):
        asyncio.run(start())

    async def listens(given: Settings) -> bool:
        async with open_services(given) as services:
            return await worker.listens(services)

    assert asyncio.run(listens(pooled))
    assert not asyncio.run(listens(one))
    assert settings.database_url is not None
    again = pooler.url(settings.database_url) + "?application_name=again"
    with pytest.raises(WrongPooler, match="must lead to the server itself"):
        asyncio.run(listens(pooled.model_copy(update={"database_direct_url": again})))


def test_news_of_a_connection_are_heard_past_the_pooler(pooled: Settings) -> None:
    """Told through the pooler, heard at the direct URL."""

    async def hear() -> str:
        database = Database(pooled)
        try:
            async with await database.listen("job_events") as listening:
                database.tell({"job_events": "job_1"})
                async for news in listening.notifies(timeout=DEADLINE_SECONDS, stop_after=1):
                    return news.payload
            raise AssertionError("nothing came")
        finally:
            await database.close()

    assert asyncio.run(hear()) == "job_1"


def test_a_frozen_transaction_ends_by_itself_behind_the_pooler(pooled: Settings) -> None:
    assert asyncio.run(idle_timeout(pooled)) == "1min"
