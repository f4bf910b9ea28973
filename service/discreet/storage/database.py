"""Connections and the unit of work: one request or task, one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from sqlalchemy import event, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from discreet import faults
from discreet.errors import Unavailable
from discreet.settings import Settings


def engine_url(url: str) -> str:
    """The same URL with the driver that discreet uses."""
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def libpq_url(url: str) -> str:
    """The same URL for libpq and for psycopg without SQLAlchemy."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


class Database:
    """A pool of connections to PostgreSQL, as the application role."""

    def __init__(self, settings: Settings) -> None:
        if settings.database_url is None:
            raise Unavailable("no database: set DISCREET_DATABASE_URL or start `discreet up`")
        self.url = libpq_url(settings.database_url)
        self.engine: AsyncEngine = create_async_engine(
            engine_url(settings.database_url),
            pool_size=settings.pool_size,
            max_overflow=0,
            pool_timeout=30,
            pool_pre_ping=True,
        )
        if faults.planned:
            event.listen(self.engine.sync_engine, "after_cursor_execute", lambda *_: faults.point("statement"))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """One transaction: committed at the end, rolled back on any error."""
        async with self.engine.begin() as connection:
            yield connection

    async def listen(self, channel: str) -> psycopg.AsyncConnection:
        """A connection of its own that listens on `channel`; the caller closes it."""
        connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        await connection.execute(f"LISTEN {channel}".encode())
        return connection

    async def close(self) -> None:
        await self.engine.dispose()


async def raw(connection: AsyncConnection) -> psycopg.AsyncConnection:
    """The driver's connection below, inside the same transaction."""
    pooled = await connection.get_raw_connection()
    driver = pooled.driver_connection
    assert isinstance(driver, psycopg.AsyncConnection)
    return driver
