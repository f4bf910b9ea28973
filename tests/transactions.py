"""What tests ask a transaction of the service about itself."""

from __future__ import annotations

from sqlalchemy import text

from discreet.settings import Settings
from discreet.storage.database import SYSTEM, Database


async def idle_timeout(settings: Settings) -> str:
    """How long a transaction may stand still before PostgreSQL ends it."""
    database = Database(settings)
    try:
        async with database.transaction(SYSTEM) as connection:
            found = await connection.execute(text("SHOW idle_in_transaction_session_timeout"))
            return str(found.scalar_one())
    finally:
        await database.close()
