"""After a restore: what a backup cannot know, and what follows for privacy.

A job that had not ended in the backup may have ended since: its result may have been published,
under the price that it had reserved. To run it again with fresh noise would be a second release for
one charge. So it ends here, charged in full, and is submitted anew by whoever still wants it. What
was already released when the backup was made is finished.

What was submitted after the backup is not in it at all, with what it spent. Only a head of the
ledger that was kept elsewhere shows this, which is what `check_ledger` is for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.exc import DBAPIError

from discreet.errors import DiscreetError
from discreet.ledger.entries import Broken
from discreet.ledger.heads import Head
from discreet.ledger.verification import Verified, verify
from discreet.storage import jobs, ledger, log_memory, tenants
from discreet.storage.database import SYSTEM, trouble
from discreet.storage.tenants import Principal
from discreet.usecases import endings
from discreet.usecases import ledger as exports
from discreet.usecases.services import Services

ACTOR = "restore"


class Forgotten(DiscreetError):
    """The ledger lacks entries that a kept head names: budget that was spent would be forgotten."""

    code = "ledger_forgotten"


class SpendingUnknown(DiscreetError):
    """Nobody knows what was spent after a backup: it could be spent again."""

    code = "spending_unknown"


def require_heads(spenders: Iterable[str], kept: Sequence[Mapping[str, Any]]) -> None:
    """SpendingUnknown unless every tenant that has spent has a head that was kept elsewhere."""
    unknown = sorted(set(spenders) - {str(head.get("tenant")) for head in kept})
    if unknown:
        raise SpendingUnknown(
            f"no head was given that shows what {', '.join(unknown)} spent after the backup, which "
            "could be spent again: give a head that was kept elsewhere (--head), or "
            "--forget-spending"
        )


async def heads(services: Services) -> list[Head]:
    """The signed head of every tenant."""
    return [await exports.head(services, _auditor(tenant)) for tenant in await _tenants(services)]


async def check_ledger(services: Services, kept: Sequence[Mapping[str, Any]]) -> list[Verified]:
    """Verify every tenant's ledger from its export; it must hold, and contain each head that was
    kept.

    Broken when it does not hold; Forgotten when it does, but lacks what a head names.
    """
    known = await _tenants(services)
    strange = sorted({str(head.get("tenant")) for head in kept} - set(known))
    if strange:
        raise Forgotten(f"the ledger has no account {', '.join(strange)}, which a kept head names")
    found = []
    for tenant in known:
        with tempfile.TemporaryFile() as lines:
            async for part in await exports.export(services, _auditor(tenant)):
                lines.write(part)
            lines.seek(0)
            found.append(verify(lines))
            for head in kept:
                if head["tenant"] == tenant:
                    lines.seek(0)
                    try:
                        verify(lines, head=head)
                    except Broken as broken:
                        raise Forgotten(
                            f"the ledger is not the one whose head was kept ({head.get('seq')} "
                            f"entries there, {found[-1].entries} here): {broken}"
                        ) from broken
    return found


async def require_remembered(services: Services, *, forget: bool) -> None:
    """Forgotten where the database lacks entries whose checkpoint this machine has seen; `forget`:
    an operator has decided that they are gone, and what was seen is put aside."""
    memory = services.database.log_memory
    try:
        async with services.database.transaction(SYSTEM) as connection:
            await log_memory.require(connection, memory.last)
    except DBAPIError as error:
        found = trouble(error)
        if found is None or found.code != "ledger_rolled_back":
            raise
        if not forget:
            raise Forgotten(
                "the ledgers of this database lack entries of which a checkpoint of "
                f"{memory.last.size} was seen here: what they spent could be spent again; restore "
                "a later backup, or --forget-spending"
            ) from error
        memory.forget()


async def end_unfinished(services: Services) -> int:
    """End every job that could still touch data, charged in full; how many there were."""
    async with services.database.transaction(SYSTEM) as connection:
        rows = await jobs.could_touch(connection)
        for job_id, reserved in rows:
            if reserved:
                await ledger.touch(connection, job_id, ACTOR)
            await endings.fail(connection, job_id, "restored", ACTOR)
    return len(rows)


async def _tenants(services: Services) -> list[str]:
    async with services.database.transaction(SYSTEM) as connection:
        return await tenants.all_ids(connection)


def _auditor(tenant: str) -> Principal:
    return Principal(tenant, ACTOR, "auditor", ACTOR)
