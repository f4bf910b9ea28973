"""Which published results say of themselves that they are mostly noise, for lists and offers of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage import jobs
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.services import Services

MOST_REMEMBERED = 100_000

_is_noise: dict[str, bool] = {}
"""By job with a result: a published result never changes, so it is looked at once."""


async def mostly_noise(services: Services, principal: Principal, job_ids: Sequence[str]) -> frozenset[str]:
    """Those of these jobs of the tenant whose result is mostly noise."""
    require(principal, "owner", "analyst")
    if all(one in _is_noise for one in job_ids):
        return frozenset(one for one in job_ids if _is_noise[one])
    async with services.database.transaction(principal.tenant_id) as connection:
        return await mostly_noise_among(connection, job_ids)


async def mostly_noise_among(connection: AsyncConnection, job_ids: Sequence[str]) -> frozenset[str]:
    """The same, within a transaction of the tenant."""
    if len(_is_noise) > MOST_REMEMBERED:
        _is_noise.clear()
    unread = [one for one in job_ids if one not in _is_noise]
    if unread:
        _is_noise.update(await jobs.mostly_noise(connection, unread))
    return frozenset(one for one in job_ids if _is_noise.get(one))
