"""The unit of work."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest
from procrastinate import App, PsycopgConnector
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from discreet.isolation.children import Zygote
from discreet.settings import CONNECT_SECONDS, Settings
from discreet.storage import migrations
from discreet.storage.database import (
    SYSTEM,
    Database,
    act_for,
    connection_string,
    libpq_url,
    raw,
    sync_engine,
    trouble,
    user_of,
)
from discreet.usecases.services import open_services
from discreet.worker.main import alongside, queue_app
from discreet.worker.runner import Runner
from tests.transactions import idle_timeout


def test_a_frozen_process_cannot_hold_a_lock_for_ever(settings: Settings) -> None:
    assert asyncio.run(idle_timeout(settings)) == "1min"


def test_urls_keep_their_spaces_for_libpq() -> None:
    url = "postgresql+psycopg://u:p%40@/d?host=%2Ftmp%2Fa%20b"
    assert libpq_url(url) == "postgresql://u:p%40@/d?host=%2Ftmp%2Fa%20b"


def several(url: str, attributes: str = "read-write") -> str:
    """The same database behind an address where nobody listens."""
    parts = urlsplit(url)
    user = parts.netloc.partition("@")[0]
    place = parse_qs(parts.query)
    host = f"{quote(place['host'][0], safe='')}:{place['port'][0]}"
    return f"postgresql://{user}@127.0.0.1:1,{host}{parts.path}?target_session_attrs={attributes}"


def test_of_several_hosts_the_one_that_answers_is_taken(settings: Settings) -> None:
    """Pool, listening connection and migrations; the first of two addresses is dead."""
    urls = {
        name: several(str(getattr(settings, name)))
        for name in ("database_url", "migration_database_url")
    }
    both = settings.model_copy(update=urls)
    assert user_of(urls["database_url"]) == user_of(settings.database_url or "") == "discreet_app"
    assert migrations.migrate(both) == migrations.revisions()[-1]

    async def look() -> None:
        database = Database(both)
        try:
            async with database.transaction(SYSTEM) as connection:
                assert (
                    await connection.execute(text("SELECT current_user"))
                ).scalar_one() == "discreet_app"
            listening = await database.listen("job_events")
            await listening.close()
        finally:
            await database.close()
        async with App(
            connector=PsycopgConnector(conninfo=database.url)
        ).open_async() as procrastinate:
            assert await procrastinate.check_connection_async()

    asyncio.run(look())


def test_no_connection_waits_long_for_a_host_that_does_not_answer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pool, listening connection, migrations and the queue's own pool; what the URL or the
    environment says counts."""
    waits: list[str | None] = []

    def note(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        waits.append(connection.info.get_parameters().get("connect_timeout"))

    async def look(url: str) -> list[str | None]:
        waits.clear()
        found = settings.model_copy(update={"database_url": url})
        async with open_services(found) as services:
            async with services.database.transaction(SYSTEM) as connection:
                note(await raw(connection))
            listening = await services.database.listen("job_events")
            note(listening)
            await listening.close()
            async with (
                queue_app(services, Runner(services, Zygote())).open_async() as queue,
                queue.connector.pool.connection() as driver,  # type: ignore[attr-defined]
            ):
                note(driver)
        with sync_engine(url).connect() as migrating:
            assert isinstance(migrating.connection.driver_connection, psycopg.Connection)
            note(migrating.connection.driver_connection)
        return waits

    url = settings.database_url or ""
    assert asyncio.run(look(url)) == [str(CONNECT_SECONDS)] * 4
    assert asyncio.run(look(f"{url}&connect_timeout=77")) == ["77"] * 4
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "88")
    assert connection_string(url) == url


def test_a_database_that_accepts_and_says_nothing_is_given_up(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"postgresql://discreet_app@127.0.0.1:{port}/discreet?connect_timeout=2"

        async def look() -> None:
            database = Database(settings.model_copy(update={"database_url": url}))
            try:
                async with database.transaction(SYSTEM):
                    pass
            finally:
                await database.close()

        with pytest.raises(OperationalError, match="timeout") as raised:
            asyncio.run(look())
    found = trouble(raised.value)
    assert found is not None
    assert found.code == "database_unavailable"


def test_hosts_that_are_not_what_was_asked_for_are_refused(settings: Settings) -> None:
    database = Database(
        settings.model_copy(
            update={"database_url": several(settings.database_url or "", "standby")}
        )
    )

    async def look() -> None:
        try:
            async with database.transaction(SYSTEM):
                pass
        finally:
            await database.close()

    with pytest.raises(OperationalError, match="standby"):
        asyncio.run(look())


def test_a_crowd_of_one_key_or_tenant_leaves_connections_to_others(settings: Settings) -> None:
    """Of ten connections a key has four and a tenant six, however many ask; a transaction within
    another waits for nobody."""

    async def go() -> tuple[list[int], list[str]]:
        database = Database(settings.model_copy(update={"pool_size": 10}))
        inside, leave = 0, asyncio.Event()
        counts: list[int] = []
        passed: list[str] = []

        async def stay(key: str, tenant: str) -> None:
            nonlocal inside
            act_for(key)
            async with database.transaction(tenant):
                inside += 1
                await leave.wait()
                inside -= 1

        async def settle() -> None:
            for _ in range(20):
                await asyncio.sleep(0.02)
            counts.append(inside)

        async def pass_by(tenant: str) -> None:
            async with database.transaction(tenant):
                passed.append(tenant)

        try:
            crowd = [asyncio.create_task(stay("one", "a")) for _ in range(30)]
            await settle()
            crowd += [asyncio.create_task(stay("two", "a")) for _ in range(30)]
            await settle()
            async with asyncio.timeout(10):
                await asyncio.gather(pass_by("b"), pass_by(SYSTEM))
            leave.set()
            await asyncio.gather(*crowd)
            act_for("one")
            async with AsyncExitStack() as nested:
                for _ in range(7):
                    await nested.enter_async_context(database.transaction("a"))
        finally:
            await database.close()
        return counts, passed

    counts, passed = asyncio.run(go())
    assert counts == [4, 6]
    assert sorted(passed) == ["*", "b"]


def test_a_worker_ends_when_a_part_of_it_ends() -> None:
    """What repairs jobs died once of a full disk below its log, and the worker went on without."""

    async def fails() -> None:
        await asyncio.sleep(0)
        raise OSError("no room")

    async def stays() -> None:
        await asyncio.Event().wait()

    async def go(*helpers: Any) -> None:
        async with alongside(helpers):
            await asyncio.sleep(0.2 if len(helpers) == 1 else 60)

    asyncio.run(go(stays()))  # a block that ends ends its helpers
    with pytest.raises(OSError, match="no room"):
        asyncio.run(go(stays(), fails()))
