"""The state of the whole installation, for operators: about tenants it shows only names and how
long their jobs wait."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from discreet.observability.monitoring import run_checks
from discreet.storage import log, operations
from discreet.storage.database import SYSTEM
from discreet.storage.schema import revisions
from discreet.storage.tenants import Principal
from discreet.usecases import cosigning, metrics
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
