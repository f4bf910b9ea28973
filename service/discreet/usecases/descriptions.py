"""What a registration by a description of its table needs, beside the description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.to_thread

from discreet.errors import Forbidden, InvalidInput
from discreet.problems.descriptions import is_described
from discreet.problems.road_networks.network import RoadNetwork
from discreet.settings import Settings
from discreet.storage import objects
from discreet.storage.database import Database
from discreet.usecases.naming import require_unaltered


class ReadsNoNames(Forbidden):
    """A file that would be read by a description, where DISCREET_READS_NAMES is no."""

    code = "reads_no_names"

    def __init__(self) -> None:
        super().__init__(
            "this installation reads no files with names and columns of their own "
            "(DISCREET_READS_NAMES): read it at home, with --local or local=True, and send its "
            "arrays"
        )


def require_reads_names(settings: Settings, public: Any, *, already_read: bool = False) -> None:
    """ReadsNoNames where a file that is read by a description would come, and none may."""
    if not settings.reads_names and not already_read and is_described(public):
        raise ReadsNoNames


def called(public: Any) -> dict[str, str]:
    """What columns of a table are called by the public part that describes it, by what they are
    called here: features have the names of their ranges."""
    if not is_described(public):
        return {}
    features = {one.name: one.name for one in getattr(public, "ranges", None) or ()}
    return features | (public.columns or {})


async def zone_names(database: Database, tenant_id: str, public: Any) -> list[str] | None:
    """The names of the zones that `reader.zones` takes of a stored network: those of its first
    `public.zones` nodes. None where it names no network. InvalidInput where there is none such."""
    rules = public.get("reader") if isinstance(public, Mapping) else getattr(public, "reader", None)
    zones = rules.get("zones") if isinstance(rules, Mapping) else None
    if not isinstance(zones, Mapping) or set(zones) != {"network"}:
        return None
    pointer, network_id = "/public/reader/zones/network", str(zones["network"])
    async with database.transaction(tenant_id) as connection:
        found = await objects.contents(connection, tenant_id, [network_id])
    if network_id not in found or found[network_id][0] != RoadNetwork.type:
        raise InvalidInput(f"there is no stored network {network_id[:64]}", pointer=pointer)
    content = found[network_id][1]

    def names() -> list[str]:
        require_unaltered(network_id, RoadNetwork, content)
        network = RoadNetwork.of_content(content)
        return list(network.node_names or map(str, range(1, network.nodes + 1)))

    said = await anyio.to_thread.run_sync(names)
    count = public.get("zones") if isinstance(public, Mapping) else public.zones
    if not isinstance(count, int) or not 0 < count <= len(said):
        says = f"its zones are the first {str(count)[:20]} nodes of a network that has {len(said)}"
        raise InvalidInput(says, pointer=pointer)
    return said[:count]
