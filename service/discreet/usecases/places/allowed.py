"""The places that a principal may have contents read from, for whoever asks before giving an
address."""

from __future__ import annotations

import anyio.to_thread

from discreet.storage import tenants
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.places.rules import read_places
from discreet.usecases.services import Services


async def addresses(services: Services, principal: Principal) -> list[str]:
    """What addresses that this owner may give begin with, in the order of the operator's file.
    PlacesUnreadable if that cannot be read."""
    require(principal, "owner")
    places = await anyio.to_thread.run_sync(read_places, services.settings)
    if not places:
        return []
    async with services.database.transaction(principal.tenant_id) as connection:
        name = await tenants.name_of(connection, principal.tenant_id)
    whose = (principal.tenant_id, *(() if name is None else (name,)))
    return [place.url for place in places if place.lets(whose, principal.name)]
