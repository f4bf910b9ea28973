"""What all repositories use: a row as a dictionary, and advisory locks of a transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

Row = dict[str, Any]

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:key, :seed))")


def one_of(result: Any) -> Row | None:
    """The only row of a result, or None; MultipleResultsFound if there are several."""
    row = result.mappings().one_or_none()
    return None if row is None else dict(row)


async def lock_key(connection: AsyncConnection, key: str, seed: int = 0) -> None:
    """Lock out other transactions that lock this key with this seed, until this one ends."""
    await connection.execute(_LOCK, {"key": key, "seed": seed})
