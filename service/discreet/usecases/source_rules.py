"""Rules of sources: who may spend which share of each block. An owner sets the rule when the source
is made, or later; the newest rule counts for every later decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.errors import Conflict, NotFound
from discreet.problems.sources import WHOLE, SourceRule
from discreet.storage import audit_log, sources, waits
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.services import Services

READERS = ("owner", "analyst", "auditor")


async def change(
    services: Services, principal: Principal, source_id: str, rule: SourceRule
) -> dict[str, Any]:
    """Set the rule of a source; returns it as it is published. The same rule again changes nothing.

    Jobs that wait are decided again under the new rule. What was granted stays granted.
    """
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        if await sources.find(connection, principal.tenant_id, source_id) is None:
            raise NotFound("there is no such source")
        await waits.lock(connection, source_id)
        known = await waits.rule(connection, source_id)
        if known is not None and _same(known, rule):
            return view(known)
        return view(await add(connection, principal, source_id, rule, known))


async def add(
    connection: Any,
    principal: Principal,
    source_id: str,
    rule: SourceRule,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Add a rule; `before` is the newest one so far."""
    row = await waits.add_rule(
        connection,
        source_id=source_id,
        version=1 if before is None else before["version"] + 1,
        tenant_id=principal.tenant_id,
        shares=rule.millionths,
        lent_days=rule.lent_days,
        created_by=principal.name,
    )
    await audit_log.note(
        connection,
        principal,
        "source.rule",
        source_id,
        shares=rule.millionths,
        lent_days=rule.lent_days,
    )
    return row


async def require_same(connection: Any, source: Mapping[str, Any], rule: SourceRule) -> None:
    """Conflict if an existing source has another rule."""
    known = await waits.rule(connection, source["id"])
    if known is None or not _same(known, rule):
        raise Conflict(
            f"there is a source {source['name']} already ({source['id']}), with another rule: PUT "
            f"/v1/sources/{source['id']}/rule changes it",
            code="name_taken",
        )


async def newest(services: Services, principal: Principal, source_id: str) -> dict[str, Any] | None:
    """The rule of a source as it is published; None if it has none."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await waits.rule(connection, source_id)
    return None if row is None else view(row)


async def waiting(services: Services, principal: Principal, source_id: str) -> list[dict[str, Any]]:
    """The jobs that wait on a source, in order: id, principal, `next_try` and `until`."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        rows = await waits.waiting(connection, source_id)
    return [
        {name: row[name] for name in ("job_id", "principal", "next_try", "until")} for row in rows
    ]


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A rule as it is published."""
    return {
        "shares": {name: int(share) / WHOLE for name, share in sorted(row["shares"].items())},
        "lent_days": row["lent_days"],
        "version": row["version"],
        "created_by": row["created_by"],
        "created_at": row["created_at"],
    }


def _same(row: Mapping[str, Any], rule: SourceRule) -> bool:
    return bool(row["lent_days"] == rule.lent_days and row["shares"] == rule.millionths)
