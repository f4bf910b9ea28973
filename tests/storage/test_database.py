"""The unit of work."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from procrastinate import App, PsycopgConnector
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from discreet.settings import Settings
from discreet.storage import migrations
from discreet.storage.database import SYSTEM, Database, libpq_url, user_of


def test_a_frozen_process_cannot_hold_a_lock_for_ever(settings: Settings) -> None:
    async def look() -> str:
        database = Database(settings)
        try:
            async with database.transaction(SYSTEM) as connection:
                found = await connection.execute(text("SHOW idle_in_transaction_session_timeout"))
                return str(found.scalar_one())
        finally:
            await database.close()

    assert asyncio.run(look()) == "1min"


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
    urls = {name: several(str(getattr(settings, name))) for name in ("database_url", "migration_database_url")}
    both = settings.model_copy(update=urls)
    assert user_of(urls["database_url"]) == user_of(settings.database_url or "") == "discreet_app"
    assert migrations.migrate(both) == migrations.revisions()[-1]

    async def look() -> None:
        database = Database(both)
        try:
            async with database.transaction(SYSTEM) as connection:
                assert (await connection.execute(text("SELECT current_user"))).scalar_one() == "discreet_app"
            listening = await database.listen("job_events")
            await listening.close()
        finally:
            await database.close()
        async with App(connector=PsycopgConnector(conninfo=database.url)).open_async() as procrastinate:
            assert await procrastinate.check_connection_async()

    asyncio.run(look())


def test_hosts_that_are_not_what_was_asked_for_are_refused(settings: Settings) -> None:
    database = Database(settings.model_copy(update={"database_url": several(settings.database_url or "", "standby")}))

    async def look() -> None:
        try:
            async with database.transaction(SYSTEM):
                pass
        finally:
            await database.close()

    with pytest.raises(OperationalError, match="standby"):
        asyncio.run(look())
