"""Closed links: the network without them, their names, and the effect of closing them.

A closed link keeps its position and begins at an unreachable node: so it carries nothing, and
positions, flows, policies and intervals refer to the same links with and without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.base import LeftOut
from discreet.problems.road_networks.network import RoadNetwork
from discreet.solvers.traffic.sensitivity import Derivative
from discreet.solvers.traffic.traffic_assignment import Assignment, Latency, Network
from discreet_client import closing

Floats = NDArray[np.float64]

NAMED = 4
"""The most closed links that a sentence names individually."""
LONGEST_NAME = 60
NOWHERE = "(closed)"
"""The node at which closed links begin, to which no path leads."""
MOST_WORK = 2e9
"""The most links times entries of both policies' shares of links: about a second. Changes of more
flows have no interval."""
LINKS_AT_ONCE = 128
MOST_CHOICES = 300
"""The most links of a network that are offered as choices."""


class Reopened(NamedTuple):
    """The same demand on all roads, with which a closure is compared."""

    network: Network
    solution: Assignment

    def roads(self, latency: Latency) -> tuple[Network, Latency, Assignment]:
        """With the latency of all links, which closing does not change."""
        return self.network, latency, self.solution


def without(roads: RoadNetwork, closed: Sequence[int]) -> RoadNetwork:
    """The network in which these links, given by position, cannot be used."""
    if not closed:
        return roads
    links = list(roads.links)
    for place in closed:
        links[place] = replace(links[place], tail=roads.nodes + 1)
    beside: dict[str, Any] = {}
    if roads.node_names is not None:
        beside["node_names"] = (*roads.node_names, NOWHERE)
    if roads.nodes_xy is not None:
        beside["nodes_xy"] = (*roads.nodes_xy, (0.0, 0.0))
    return roads.model_copy(update={"nodes": roads.nodes + 1, "links": tuple(links), **beside})


def issues(roads: RoadNetwork, closed: Sequence[int], zones: int) -> Iterator[FieldIssue]:
    """Errors of closing these links of a valid network: a position without a link, a duplicate, or
    zones that are no longer connected."""
    links = len(roads.links)
    if beyond := [place for place, link in enumerate(closed) if link >= links]:
        says = f"the network has {links} links, counted from 0; found {closed[beyond[0]]}"
        yield FieldIssue(f"/problem/closed_links/{beyond[0]}", says)
    elif len(set(closed)) < len(closed):
        yield FieldIssue("/problem/closed_links", "a link is named twice")
    elif closed:
        for issue in without(roads, closed).issues(zones):
            yield FieldIssue("/problem/closed_links", f"with these closed {issue.detail}")


def names(roads: RoadNetwork, closed: Sequence[int]) -> list[str]:
    """Names of closed links, with the nodes at their ends in their direction; a link without a name
    is described."""
    if roads.link_names is not None:
        return [roads.way(link) for link in sorted(closed)]
    ways = Counter((link.tail, link.head) for link in roads.links)
    return [_unnamed(roads, link, ways) for link in sorted(closed)]


def _unnamed(roads: RoadNetwork, place: int, ways: Mapping[tuple[int, int], int]) -> str:
    """A link without a name, as `the road from 3 to 4`; with its position if others have the same
    ends."""
    link = roads.links[place]
    which = "the road" if ways[link.tail, link.head] == 1 else f"link {place}"
    return f"{which} from {roads.called(link.tail)} to {roads.called(link.head)}"


def closed_in_words(roads: RoadNetwork, closed: Sequence[int]) -> tuple[str, ...]:
    """The sentence of a plan about closed links."""
    return (
        (f"closed, so that nobody can take them: {told(names(roads, closed))}",) if closed else ()
    )


def told(called: Sequence[str]) -> str:
    """Names of closed links for a sentence; a street of several links is named once."""
    streets = [closing.street_of(name) for name in called]
    links = Counter(filter(None, streets))
    whole = {street: f"{street} ({count} links)" for street, count in links.items() if count > 1}
    called = list(
        dict.fromkeys(whole.get(street, name) for street, name in zip(streets, called, strict=True))
    )
    few = [
        name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
        for name in called[:NAMED]
    ]
    if len(called) > NAMED:
        return f"{', '.join(few)} and {len(called) - NAMED:,} more links"
    return few[0] if len(few) == 1 else f"{', '.join(few[:-1])} and {few[-1]}"


def changes(now: Assignment, reopened: Reopened) -> Mapping[str, Any]:
    """Fields of the result: the effect of closing on the same demand."""
    before = reopened.solution
    return {
        "total_travel_time_change": now.total_travel_time - before.total_travel_time,
        "link_flow_changes": now.link_flows - before.link_flows,
    }


def flow_rows(now: Derivative, before: Derivative) -> Iterator[tuple[slice, Floats]]:
    """Rows of the derivative of the changes of link flows in the demand, float64[k, pairs], some
    links at a time; none if that would take too long."""
    size = now.shares.shape[1]
    if size * (now.shares.nnz + before.shares.nnz) > MOST_WORK:
        return
    for first in range(0, size, LINKS_AT_ONCE):
        some = np.arange(first, min(first + LINKS_AT_ONCE, size))
        yield slice(first, first + some.size), now.flow_rows(some) - before.flow_rows(some)


def _choices(problem: Mapping[str, Any]) -> dict[str, list[tuple[str | int, str]]]:
    """For each such field, values and their labels: the links that the problem has closed, then all
    by name, in alphabetical order. None for a network that is not fully available, or that has too
    many links to choose from."""
    network = problem.get("network")
    if not isinstance(network, Mapping) or not 1 < len(network["links"]) <= MOST_CHOICES:
        return {}
    names = closing.names_of(network)
    closed = [(place, names[place]) for place in problem.get("closed_links") or ()]
    single = {name for name in names if names.count(name) == 1}
    streets = sorted(single.union(closing.streets_of(network)), key=str.casefold)
    return {"closed_links": [*closed, *((name, name) for name in streets)]}


def _named(problem: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each such field that the problem has, the links by their names."""
    network = problem.get("network")
    if not isinstance(network, Mapping):
        return {}
    names = closing.names_of(network)
    return {
        field: [names[place] for place in sorted(problem[field])]
        for field in LEFT_OUT.fields
        if problem.get(field)
    }


def _positions(problem: Mapping[str, Any], field: str, values: Sequence[str | int]) -> list[int]:
    """Positions of the links of the problem's network that these values leave out, as in the field.
    InvalidInput for a name of no link, or of several."""
    network, named = problem["network"], [one for one in values if isinstance(one, str)]
    if max(len(named), len(network["links"])) > MOST_CHOICES:
        says = (
            f"at most {MOST_CHOICES} names, of a network of at most {MOST_CHOICES} links; "
            "positions of links have no such bound"
        )
        raise InvalidInput(says, pointer=f"/problem/{field}")
    try:
        found = closing.links_of(network, named)
    except closing.UnknownLink as error:
        raise InvalidInput(str(error), pointer=f"/problem/{field}") from None
    return [
        *found.links,
        *(one for one in values if not isinstance(one, str) and one not in found.links),
    ]


LEFT_OUT = LeftOut(("closed_links",), _choices, _named, _positions)
"""Closed roads, by the names of links and streets."""
