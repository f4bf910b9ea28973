"""The unit of work."""

from __future__ import annotations

import asyncio

from sqlalchemy import text

from discreet.settings import Settings
from discreet.storage.database import SYSTEM, Database, libpq_url


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
