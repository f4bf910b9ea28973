"""Having the transparency log witnessed: each witness is asked to sign the newest checkpoint, with
the proof that the log has only grown since it last did (C2SP tlog-witness)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from discreet import outbound
from discreet.errors import DiscreetError
from discreet.ledger.checkpoints import BadNote, Checkpoint, Verifier, read_checkpoint
from discreet.ledger.tree import Tree, tiles_of
from discreet.ledger.witnessing import SIZE_TYPE, request_text
from discreet.settings import Settings
from discreet.storage import log as leaves
from discreet.storage.database import SYSTEM
from discreet.usecases.services import Services

log = structlog.get_logger()

EVERY_SECONDS = 2.0
AFTER_TROUBLE_SECONDS = 15.0
SECONDS = 10.0
LONGEST_ANSWER = 10_000
"""Bytes that are read of a witness's answer."""


@dataclass(frozen=True)
class Address:
    """A witness, and where it is asked."""

    verifier: Verifier
    url: str


def addresses(settings: Settings) -> list[Address]:
    """The witnesses that the installation names. DiscreetError if the setting is not a list of
    witnesses."""
    found = []
    for one in filter(None, (part.strip() for part in settings.witnesses.split(","))):
        key, _, url = one.partition(" ")
        try:
            verifier = Verifier.read(key)
        except BadNote as error:
            raise DiscreetError(f"DISCREET_WITNESSES: {error}") from None
        if not verifier.witness or not url.strip().startswith(("http://", "https://")):
            raise DiscreetError(
                "DISCREET_WITNESSES: each is a witness's key, a blank and the URL of that witness"
            )
        found.append(Address(verifier, url.strip().rstrip("/")))
    if len({one.verifier.name for one in found}) < len(found):
        raise DiscreetError("DISCREET_WITNESSES names a witness twice")
    return found


def needed(settings: Settings) -> int:
    """How many cosignatures make a checkpoint that proofs prefer."""
    named = len(addresses(settings))
    return named if settings.witnesses_needed is None else min(settings.witnesses_needed, named)


async def keep(services: Services) -> None:
    """Have new checkpoints witnessed until cancelled; return at once if no witness is named."""
    asked = addresses(services.settings)
    while asked:
        try:
            all_signed = await collect(services, asked)
        except Exception as error:  # of the database
            log.warning("nobody is asked to witness", error=type(error).__name__)
            all_signed = False
        await asyncio.sleep(EVERY_SECONDS if all_signed else AFTER_TROUBLE_SECONDS)


async def collect(services: Services, asked: Sequence[Address]) -> bool:
    """Ask each of these witnesses that has not signed the newest checkpoint; whether all have. A
    failure of one does not affect the others."""
    return all(await asyncio.gather(*(_ask(services, one) for one in asked)))


async def _ask(services: Services, witness: Address) -> bool:
    """Whether the witness has signed the newest checkpoint, now or before."""
    name = witness.verifier.name
    async with services.database.transaction(SYSTEM, snapshot=True) as connection:
        newest = await leaves.newest(connection)
        old = await leaves.last_cosigned(connection, name)
    if newest is None or newest[0] in {0, old}:  # of an empty log there is nothing to sign
        return True
    checkpoint = read_checkpoint(newest[1])
    try:
        status, kind, text = await _post(services, witness, old, checkpoint)
        if status == 409 and kind.startswith(SIZE_TYPE) and text.strip().isdecimal():
            known = int(text)  # it has signed more than was heard of here
            if known > checkpoint.size:
                log.error(
                    "a witness has seen a larger log",
                    witness=name,
                    seen=known,
                    size=checkpoint.size,
                )
                return False
            status, _, text = await _post(services, witness, known, checkpoint)
        if status != 200:
            log.warning("a witness does not sign", witness=name, status=status, detail=text[:200])
            return False
        lines = text.splitlines()
        if not checkpoint.cosigned(lines).signed_by(witness.verifier):
            raise BadNote("no signature of its own")
    except (outbound.OutboundError, BadNote, UnicodeDecodeError) as error:
        log.warning("a witness does not sign", witness=name, error=type(error).__name__)
        return False
    line = next(line for line in lines if checkpoint.cosigned([line]).signed_by(witness.verifier))
    async with services.database.transaction(SYSTEM) as connection:
        await leaves.add_cosignature(connection, checkpoint.size, name, line)
    return True


async def _post(
    services: Services, witness: Address, old: int, checkpoint: Checkpoint
) -> tuple[int, str, str]:
    """Status, media type and text of the answer of a witness that has signed the first `old`
    leaves."""
    places = tiles_of(checkpoint.size, [max(old - 1, 0), old])
    async with services.database.transaction(SYSTEM, snapshot=True) as connection:
        path = Tree(
            checkpoint.size, await leaves.tiles(connection, places, checkpoint.size)
        ).consistency(old)
    content = request_text(old, path, checkpoint)
    asks = outbound.Asks(
        "POST", f"{witness.url}/add-checkpoint", content=content.encode(), silent_seconds=SECONDS
    )
    answer = await outbound.fetch(asks, outbound.Reach("any", http=True), LONGEST_ANSWER, SECONDS)
    return answer.status, answer.headers.get("content-type", ""), answer.body.decode()
