"""What a question about a network may leave out, as choices next to an answer: closed roads, each a
link or a street of several links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.errors import InvalidInput
from discreet_client import closing

FIELDS = ("closed_links",)
"""Fields of a problem that hold it."""
MOST = 300
"""The most links of a network that are offered as choices."""

Value = str | int
"""A value that a question leaves out: the name of a link or of a street, or the position of a link
that the job has closed."""


def choices(problem: Mapping[str, Any]) -> dict[str, list[tuple[Value, str]]]:
    """For each such field, values and their labels: the links that the problem has closed, then all
    by name, in alphabetical order. None for a network that is not fully available, or that has too
    many links to choose from."""
    network = problem.get("network")
    if not isinstance(network, Mapping) or not 1 < len(network["links"]) <= MOST:
        return {}
    names = closing.names_of(network)
    closed = [(place, names[place]) for place in problem.get("closed_links") or ()]
    single = {name for name in names if names.count(name) == 1}
    streets = sorted(single.union(closing.streets_of(network)), key=str.casefold)
    return {"closed_links": [*closed, *((name, name) for name in streets)]}


def named(problem: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each such field that the problem has, the links by their names."""
    network = problem.get("network")
    if not isinstance(network, Mapping):
        return {}
    names = closing.names_of(network)
    return {
        field: [names[place] for place in sorted(problem[field])]
        for field in FIELDS
        if problem.get(field)
    }


def positions(problem: Mapping[str, Any], field: str, values: Sequence[Value]) -> list[int]:
    """Positions of the links of the problem's network that these values leave out, as in the field.
    InvalidInput for a name of no link, or of several."""
    network, named = problem["network"], [one for one in values if isinstance(one, str)]
    if max(len(named), len(network["links"])) > MOST:
        says = (
            f"at most {MOST} names, of a network of at most {MOST} links; positions of links "
            "have no such bound"
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
