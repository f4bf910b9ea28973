"""The transparency log: it includes the entries of ledgers and proves that it holds those of a
certificate."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Collection, Mapping
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import NotFound
from discreet.ledger.checkpoints import joined, read_checkpoint, sign_checkpoint
from discreet.ledger.tree import ENTRIES, TILE, Tree, read_tile_path, tiles_of
from discreet.storage import log as leaves
from discreet.storage import log_memory
from discreet.storage.database import SYSTEM, trouble
from discreet.storage.keys.provider import KeysUnavailable
from discreet.usecases import cosigning
from discreet.usecases.services import Services

log = structlog.get_logger()

SALT_BYTES = 16
BATCH = 5000
"""Entries that one transaction takes in: others wait for it only where they ask for a proof of
their own."""
EVERY_SECONDS = 1.0
AFTER_TROUBLE_SECONDS = 10.0


async def integrate(services: Services) -> None:
    """Take in every entry that is pending, and sign what the log is then; an empty log is signed
    once as well."""
    while await _integrate(services):
        pass


async def _integrate(services: Services) -> bool:
    """One batch; whether there may be more."""
    async with services.database.transaction(SYSTEM) as connection:
        count = await leaves.pending(connection, BATCH)
        if not count and await leaves.newest(connection) is not None:
            return False
        # Of a database that forgot what was signed nothing is signed again: that would be another
        # tree.
        await log_memory.require(connection, services.database.log_memory.last)
        size = await leaves.append(connection, [os.urandom(SALT_BYTES) for _ in range(count)])
        root = Tree(size, await leaves.tiles(connection, tiles_of(size), size)).root()
        signed = sign_checkpoint(
            await leaves.origin(connection), size, root, services.secrets.signer
        )
        await leaves.sign(connection, size, root, signed.note)
    return count == BATCH


async def keep(services: Services) -> None:
    """Take in what comes, until cancelled. Every process of the API does so, one at a time."""
    while True:
        pause = EVERY_SECONDS
        try:
            await integrate(services)
            await remember(services)
        except Exception as error:
            found = trouble(error)
            log.warning(
                "the log cannot be extended",
                error=type(error).__name__ if found is None else found.code,
            )
            pause = AFTER_TROUBLE_SECONDS
        await asyncio.sleep(pause)


async def remember(services: Services) -> None:
    """Keep the newest checkpoint in this machine's own memory; a DatabaseTrouble where the database
    lacks one that is there already."""
    async with services.database.transaction(SYSTEM, snapshot=True) as connection:
        await log_memory.require(connection, services.database.log_memory.last)
        newest = await leaves.newest(connection)
    if newest is not None:
        root = read_checkpoint(newest[1]).root
        await asyncio.to_thread(services.database.log_memory.remember, newest[0], root)


async def keep_memory(services: Services) -> None:
    """Remember what is new, until cancelled: for processes that take nothing in themselves."""
    while True:
        try:
            await remember(services)
        except Exception as error:
            found = trouble(error)
            log.warning(
                "nothing is remembered of the log",
                error=type(error).__name__ if found is None else found.code,
            )
        await asyncio.sleep(AFTER_TROUBLE_SECONDS)


async def checkpoint(services: Services) -> str:
    """The newest checkpoint with all that witnesses have signed of it: for everybody. NotFound
    until there is one."""
    async with services.database.transaction(SYSTEM, snapshot=True) as connection:
        found = await leaves.newest(connection)
        if found is None:
            raise NotFound(
                "no checkpoint is signed yet; the first one follows within a second or two of "
                "the first start"
            )
        return await _cosigned(connection, *found)


async def tile(services: Services, path: str) -> bytes:
    """A tile of the log by its path (C2SP tlog-tiles): its hashes one after the other, or of a
    bundle of entries each with its length (2 bytes); an entry is the commitment to one of a ledger.
    For everybody. NotFound where there is no such tile, or not as wide a one yet."""
    asked = read_tile_path(path)
    if asked is None:
        raise NotFound(
            "a tile is `<level>/<number>` or `entries/<number>`, as C2SP tlog-tiles writes numbers"
        )
    level, number, count = asked
    async with services.database.transaction(SYSTEM, snapshot=True) as connection:
        if level == ENTRIES:
            commitments = await leaves.commitments(connection, TILE * number, count)
            found = [len(one).to_bytes(2, "big") + one for one in commitments]
        else:
            found = await leaves.tile(connection, (level, number), count)
    if len(found) < count:
        raise NotFound("the log has no such tile, or none of this width yet")
    return b"".join(found)


async def proofs(
    services: Services, tenant_id: str, certificate: Mapping[str, Any]
) -> dict[str, Any] | None:
    """That the log holds the ledger entries that a certificate of this tenant names: a checkpoint,
    for each entry, in their order, the number and salt of its leaf, and the nodes that lead from
    all of these leaves together to the checkpoint's root. None when the certificate names none, or
    when the database takes no changes and the log does not hold them yet.

    The checkpoint is the smallest that is enough, so that the same proof comes for ever: the
    smallest that witnesses have signed, once there is one.
    """
    named = [(entry["account"], entry["seq"]) for entry in certificate.get("ledger_entry", ())]
    if not named:
        return None
    found = await _leaves(services, tenant_id, named)
    if len(found) < len(named):
        try:
            await integrate(services)
        except Exception as error:
            if trouble(error) is None and not isinstance(error, KeysUnavailable):
                raise
            log.warning("no proofs: the log cannot be extended", error=type(error).__name__)
            return None
        found = await _leaves(services, tenant_id, named)
    if len(found) < len(named):
        return None
    numbers = [found[place].number for place in named]
    async with services.database.transaction(SYSTEM, snapshot=True) as connection:
        least = max(numbers) + 1
        needed = cosigning.needed(services.settings)
        enough = await leaves.checkpoint(connection, least, needed) or await leaves.checkpoint(
            connection, least
        )
        if enough is None:
            return None
        size, note = enough
        tree = Tree(size, await leaves.tiles(connection, tiles_of(size, numbers), size))
        note = await _cosigned(connection, size, note)
    return {
        "checkpoint": note,
        "leaves": [
            {
                "number": found[place].number,
                "salt": base64.b64encode(found[place].salt).decode(),
            }
            for place in named
        ],
        "nodes": joined(tree.inclusion(numbers)),
    }


async def proven(services: Services, tenant_id: str, certificate: dict[str, Any]) -> dict[str, Any]:
    """The certificate with its proofs beside it, where there are any."""
    found = await proofs(services, tenant_id, certificate)
    return certificate if found is None else {**certificate, "proofs": found}


async def _leaves(
    services: Services, tenant_id: str, named: Collection[tuple[str, int]]
) -> dict[tuple[str, int], leaves.Leaf]:
    async with services.database.transaction(tenant_id) as connection:
        found = await leaves.leaves_of(connection, named)
    return {(leaf.account, leaf.seq): leaf for leaf in found}


async def _cosigned(connection: AsyncConnection, size: int, note: str) -> str:
    lines = [line for _, line in await leaves.cosignatures(connection, size)]
    return read_checkpoint(note).cosigned(lines).note
