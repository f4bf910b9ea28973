"""What a question of a network may leave out, for choices beside an answer: one of its links, or a
street of several, a road that is closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.errors import InvalidInput
from discreet_client import closing

MOST = 300
"""Links of a network of which each is a choice."""


def choices(problem: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of links, and of streets that are several, in their order as words, by the field that
    they are left out of. None of a network that is not there as a whole, and of one with too many
    links to choose from."""
    network = problem.get("network")
    if not isinstance(network, Mapping) or not 1 < len(network["links"]) <= MOST:
        return {}
    names = closing.names_of(network)
    single = {name for name in names if names.count(name) == 1}
    return {"network": sorted(single.union(closing.streets_of(network)), key=str.casefold)}


def without(problem: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The fields of the problem that are others without the link of this name: its closed links.
    InvalidInput for a name of no link, or of several."""
    try:
        found = closing.links_of(problem["network"], [name])
    except closing.UnknownLink as error:
        raise InvalidInput(str(error), pointer="/problem/network") from None
    return {"closed_links": sorted({*(problem.get("closed_links") or ()), *found.links})}
