"""The transparency log, as the application sees it: functions of the database alone write leaves
and checkpoints.

What is read of other tenants here, in the scope SYSTEM, are hashes that reveal nothing without
their salts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, func, select, text, tuple_
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.ledger.tree import TILE, Tile, leaf_hash, width
from discreet.storage.log_tables import (
    LogCheckpoint,
    LogCosignature,
    LogLeaf,
    LogNode,
    LogOrigin,
    LogPending,
)

_APPEND = text("SELECT log_append(:salts)").bindparams(bindparam("salts", type_=ARRAY(BYTEA)))
_SIGN = text("SELECT log_sign(:size, :root, :note)")


@dataclass(frozen=True)
class Leaf:
    """Where the log holds a ledger entry, and the salt that shows it."""

    account: str
    seq: int
    number: int
    salt: bytes


async def origin(connection: AsyncConnection) -> str:
    """What the log is called."""
    return str((await connection.execute(select(LogOrigin.origin))).scalar_one())


async def pending(connection: AsyncConnection, most: int) -> int:
    """How many entries the log does not hold yet, `most` when there are more."""
    some = select(LogPending.id).limit(most).subquery()
    return int((await connection.execute(select(func.count()).select_from(some))).scalar_one())


async def append(connection: AsyncConnection, salts: Sequence[bytes]) -> int:
    """Append as many pending entries as there are salts; returns the new size of the log. No
    other transaction appends until this one ends."""
    return int((await connection.execute(_APPEND, {"salts": list(salts)})).scalar_one())


async def sign(connection: AsyncConnection, size: int, root: bytes, note: str) -> None:
    """Keep the checkpoint of the log as it is now; the first of a size stays."""
    await connection.execute(_SIGN, {"size": size, "root": root, "note": note})


async def newest(connection: AsyncConnection) -> tuple[int, str] | None:
    """Size and note of the newest checkpoint."""
    query = (
        select(LogCheckpoint.size, LogCheckpoint.note).order_by(LogCheckpoint.size.desc()).limit(1)
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else (row.size, row.note)


async def checkpoint(
    connection: AsyncConnection, least: int, cosigned: int = 0
) -> tuple[int, str] | None:
    """Size and note of the smallest checkpoint of at least so many leaves that so many witnesses
    have signed."""
    counted = (
        select(func.count())
        .where(LogCosignature.size == LogCheckpoint.size)
        .correlate(LogCheckpoint)
        .scalar_subquery()
    )
    query = select(LogCheckpoint.size, LogCheckpoint.note).where(
        LogCheckpoint.size >= least, counted >= cosigned
    )
    row = (await connection.execute(query.order_by(LogCheckpoint.size).limit(1))).one_or_none()
    return None if row is None else (row.size, row.note)


async def cosignatures(connection: AsyncConnection, size: int) -> list[tuple[str, str]]:
    """Witness and signature line of each cosignature of the checkpoint of this size, by name."""
    query = select(LogCosignature.witness, LogCosignature.line).where(LogCosignature.size == size)
    rows = await connection.execute(query.order_by(LogCosignature.witness))
    return [(row.witness, row.line) for row in rows]


async def last_cosigned(connection: AsyncConnection, witness: str) -> int:
    """Size of the largest checkpoint that this witness has signed, 0 for none."""
    query = select(func.coalesce(func.max(LogCosignature.size), 0)).where(
        LogCosignature.witness == witness
    )
    return int((await connection.execute(query)).scalar_one())


async def add_cosignature(connection: AsyncConnection, size: int, witness: str, line: str) -> None:
    """Keep a witness's signature line of the checkpoint of this size; the first stays."""
    values = {"size": size, "witness": witness, "line": line}
    await connection.execute(insert(LogCosignature).values(values).on_conflict_do_nothing())


async def leaves_of(connection: AsyncConnection, entries: Iterable[tuple[str, int]]) -> list[Leaf]:
    """Those of these entries, by account and number, that the log holds."""
    columns = LogLeaf.account_id, LogLeaf.seq, LogLeaf.number, LogLeaf.salt
    query = select(*columns).where(tuple_(LogLeaf.account_id, LogLeaf.seq).in_(list(entries)))
    rows = await connection.execute(query.order_by(LogLeaf.account_id, LogLeaf.seq))
    return [Leaf(row.account_id, row.seq, row.number, bytes(row.salt)) for row in rows]


async def commitments(connection: AsyncConnection, first: int, most: int) -> list[bytes]:
    """What the log shows of up to `most` entries from number `first`; in the scope of the whole
    installation."""
    query = select(LogLeaf.commitment).where(LogLeaf.number.between(first, first + most - 1))
    return [
        bytes(one) for one in (await connection.execute(query.order_by(LogLeaf.number))).scalars()
    ]


async def tile(connection: AsyncConnection, place: Tile, most: int = TILE) -> list[bytes]:
    """Up to `most` hashes of a tile, as many as there are; in the scope of the whole
    installation."""
    level, number = place
    if level == 0:
        return [leaf_hash(one) for one in await commitments(connection, TILE * number, most)]
    query = select(LogNode.hash).where(
        LogNode.level == level, LogNode.number.between(TILE * number, TILE * number + most - 1)
    )
    return [
        bytes(one) for one in (await connection.execute(query.order_by(LogNode.number))).scalars()
    ]


async def tiles(
    connection: AsyncConnection, places: Collection[Tile], size: int
) -> dict[Tile, list[bytes]]:
    """These tiles of the log as it was with `size` leaves."""
    return {place: await tile(connection, place, width(place, size)) for place in sorted(places)}
