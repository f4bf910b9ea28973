"""Reading the audit log: every change to a tenant, and who made it. The ledger says what was
spent; this log says who registered and erased data, set caps, made and revoked keys and
tenants, signed rosters, logged in, and removed people."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from discreet.storage import audit_log
from discreet.storage.database import SYSTEM
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.services import Services

READERS = ("operator", "owner", "auditor")


async def page(
    services: Services,
    principal: Principal,
    *,
    before: int | None = None,
    action: str | None = None,
    by: str | None = None,
    since: datetime | None = None,
    size: int,
) -> list[dict[str, Any]]:
    """Entries, newest first: those of the principal's tenant, or of all tenants for an operator."""
    require(principal, *READERS)
    tenant_id = None if principal.role == "operator" else principal.tenant_id
    async with services.database.transaction(tenant_id or SYSTEM) as connection:
        return await audit_log.page(
            connection,
            tenant_id,
            before=before,
            action=action,
            principal=by,
            since=since,
            size=size,
        )
