"""The state of the whole installation, for operators: about tenants it shows only names and how
long their jobs wait."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from sqlalchemy.exc import DBAPIError

from discreet.errors import DiscreetError
from discreet.ledger.entries import Broken, Head
from discreet.ledger.verification import Verified, verify
from discreet.observability.monitoring import run_checks
from discreet.storage import jobs, ledger, log, log_memory, operations, tenants
from discreet.storage.database import SYSTEM, trouble
from discreet.storage.schema import revisions
from discreet.storage.tenants import Principal
from discreet.usecases import cosigning, endings, metrics
from discreet.usecases import ledger as exports
from discreet.usecases.access import require
from discreet.usecases.services import Services

SILENT_SECONDS = 60.0
"""A process that has not said anything for so long is taken for dead; it should every ten
seconds."""
MOST_PENDING = 10_000
"""Entries that the log does not hold yet are counted up to here."""


async def state(services: Services, principal: Principal) -> dict[str, Any]:
    """Queue, processes with their walls, log and witnesses, last backup, versions, and whose jobs
    wait."""
    require(principal, "operator")
    checks = await run_checks(metrics.checks(services))
    witnesses = [one.verifier.name for one in cosigning.addresses(services.settings)]
    async with services.database.transaction(SYSTEM, snapshot=True) as connection:
        processes = await operations.processes(connection)
        queue, tenants = await operations.queue(connection)
        found = {
            "queue": queue,
            "tenants": tenants,
            "log": {
                "checkpoint": await operations.checkpoint(connection),
                "pending": await log.pending(connection, MOST_PENDING),
                "witnesses_needed": cosigning.needed(services.settings),
                "witnesses": [
                    _witness(one) for one in await operations.witnesses(connection, witnesses)
                ],
            },
            "backup": {
                "last": await operations.last_backup(connection),
                "archive": await operations.archive(connection),
            },
            "versions": {
                "service": version("discreet"),
                "schema_version": revisions()[-1],
                **await operations.versions(connection),
            },
        }
    return {
        "at": datetime.now(UTC),
        "checks": checks,
        **found,
        "keys": services.secrets_file.keys.name,
        "processes": [_process(one) for one in processes],
    }


def _process(row: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(row)
    walls = {
        "level": told.pop("isolation"),
        "reached": told.pop("reached"),
        "walls": told.pop("walls"),
    }
    return {
        **told,
        "alive": row["silent_seconds"] < SILENT_SECONDS,
        "isolation": None if walls["level"] is None else walls,
    }


def _witness(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "signed_newest": row["size"] is not None and row["behind_seconds"] == 0}


async def note_backup(
    services: Services, made_at: datetime, made_with: operations.MadeWith
) -> None:
    """Keep that a backup with the state of `made_at` was made, for operators to see."""
    async with services.database.transaction(SYSTEM) as connection:
        present = await operations.versions(connection)
        await operations.add_backup(
            connection, made_at, made_with, present["database_schema_version"]
        )


# Restoring ----------------------------------------------------------------------------------------
# After a restore: what a backup cannot know, and what follows for privacy.
#
# A job that had not ended in the backup may have ended since: its result may have been published,
# under the price that it had reserved. To run it again with fresh noise would be a second release
# for one charge. So it ends here, charged in full, and is submitted anew by whoever still wants it.
# What was already released when the backup was made is finished.
#
# What was submitted after the backup is not in it at all, with what it spent. Only a head of the
# ledger that was kept elsewhere shows this, which is what `check_ledger` is for.

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
