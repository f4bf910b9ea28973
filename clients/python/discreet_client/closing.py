"""Closed roads: the links of a network that people name, or the network without them.

    closed = links_of(network, ["Hauptstr."])
    client.ask_again(answer, closed_links=closed.links)

A link is named by its entry of `link_names`, or by the nodes at its ends: `Mill → Inn`, or
`Mill->Inn`, which is easier to type. Case, blanks, dots and hyphens are ignored where no two names
differ by them alone. A street whose opposite direction has the same name with `(back)` behind it is
closed in both directions by its name, and in one by its ends. A street of several links, `Main
(Mill → Inn)` and so on, is closed as a whole by its name before the brackets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from discreet_client.networks.assembly import BACK

Json = dict[str, Any]

ARROW = " → "
ALL = "*"
"""At the end of a name: all links whose names begin like this."""
MOST_NAMED = 10
"""How many names an error lists."""
MOST_ALIKE, ALIKE = 3, 0.75
"""How many names are suggested for a misspelt one, and their least similarity, of 1."""


class UnknownLink(ValueError):
    """No link has the given name, or several have it; the sentence lists those that may be
    meant."""


class Closing(NamedTuple):
    """Links that are closed."""

    links: list[int]
    """Their positions in the network, from 0."""
    names: list[str]
    """Their names."""
    open_ways: list[str]
    """Links in the opposite direction, which stay open."""


class Closed(NamedTuple):
    """A network without its closed links."""

    network: Json
    kept: list[int]
    """The position that each of its links had before, from 0."""
    names: list[str]
    """The names of the closed links."""
    open_ways: list[str]
    """Links in the opposite direction of closed ones, which stay open."""


def names_of(network: Mapping[str, Any]) -> list[str]:
    """The name of each link: its entry of `link_names`, or the nodes at its ends."""
    named = network.get("link_names")
    return _ends(network) if named is None else [str(name) for name in named]


def streets_of(network: Mapping[str, Any]) -> list[str]:
    """The names of streets of several links, whose labels are the street with the ends of the link
    in brackets."""
    labels = names_of(network)
    counts = Counter(street for label in labels if (street := street_of(label)))
    return [street for street, count in counts.items() if count > 1 and street not in labels]


def links_of(network: Mapping[str, Any], names: Sequence[str]) -> Closing:
    """The links of these names, for a problem's `closed_links`. The name of a street stands for
    both directions and all of its links, and a name that ends with `*` for all that begin like it.
    Raises UnknownLink when no link has a name, or several have it."""
    labels, ends = names_of(network), _ends(network)
    gone: set[int] = set()
    for name in names:
        found = _found(name, labels, ends)
        gone.update(found)
        if labels != ends and not _is_an_end(name, ends):
            gone.update(_ways_back(found, labels, network["links"]))
    links = network["links"]
    if len(gone) == len(links):
        raise UnknownLink("no link would be left")
    ways = {(links[place]["head"], links[place]["tail"]) for place in gone}
    twins = [
        labels[place]
        for place, link in enumerate(links)
        if place not in gone and (link["tail"], link["head"]) in ways
    ]
    return Closing(sorted(gone), [labels[place] for place in sorted(gone)], twins)


def without(network: Mapping[str, Any], names: Sequence[str]) -> Closed:
    """The network without the links of these names, as `links_of` finds them: another network, in
    which links have other positions."""
    closing = links_of(network, names)
    gone = set(closing.links)
    kept = [place for place in range(len(network["links"])) if place not in gone]
    changed = {**network, "links": [network["links"][place] for place in kept]}
    for field in ("link_names", "link_shapes"):
        if network.get(field) is not None:
            changed[field] = [network[field][place] for place in kept]
    return Closed(changed, kept, closing.names, closing.open_ways)


def moved(closed: Closed, links: Sequence[int], before: int) -> list[int] | None:
    """Positions of links in the network as it was, with `before` links, as positions in what is
    left of it; None where one of them is closed. Anything that is not the position of a link stays
    as it is."""
    place_of = {was: now for now, was in enumerate(closed.kept)}
    if any(isinstance(link, int) and 0 <= link < before and link not in place_of for link in links):
        return None
    return [place_of.get(link, link) if isinstance(link, int) else link for link in links]


def node_name(network: Mapping[str, Any], number: int) -> str:
    """The name of a node, or else its number, from 1."""
    names = network.get("node_names")
    return str(number) if names is None else str(names[number - 1])


def _ends(network: Mapping[str, Any]) -> list[str]:
    return [
        ARROW.join(node_name(network, link[end]) for end in ("tail", "head"))
        for link in network["links"]
    ]


def street_of(label: str) -> str:
    """The street in a label that also names the link's ends, `Main` in `Main (Mill → Inn)`; empty
    in any other label."""
    before, arrow, _ = label.partition(ARROW)
    return before.rpartition(" (")[0].strip() if arrow else ""


def _whole_street(wanted: str, labels: Sequence[str]) -> list[int]:
    """All links of the street of this name: exactly, else in any case, else by `_plain`. None of
    them if several streets match."""
    streets = [street_of(label) for label in labels]
    for form in (str, str.casefold, _plain):
        same = [
            place for place, street in enumerate(streets) if street and form(street) == form(wanted)
        ]
        if same and form(wanted):
            return same if len({streets[place] for place in same}) == 1 else []
    return []


def _is_an_end(name: str, ends: Sequence[str]) -> bool:
    """Whether the name is of a link by the nodes at its ends, and so of one direction of a
    street."""
    wanted = ARROW.join(part.strip() for part in re.split("->|→", name.strip())).casefold()
    return any(wanted == end.casefold() for end in ends)


def _ways_back(
    places: Iterable[int], labels: Sequence[str], links: Sequence[Mapping[str, Any]]
) -> list[int]:
    """The links in the opposite direction of these whose names are the same with `(back)`."""
    wanted = {
        (links[place]["head"], links[place]["tail"], (labels[place] + BACK).casefold())
        for place in places
    }
    return [
        place
        for place, link in enumerate(links)
        if (link["tail"], link["head"], labels[place].casefold()) in wanted
    ]


def _plain(name: str) -> str:
    """A name without what people leave out or write differently: case, blanks, dots, hyphens, and
    `straße` for `str`."""
    return re.sub(r"[\W_]+", "", name.casefold()).replace("strasse", "str")


def _found(name: str, labels: Sequence[str], ends: Sequence[str]) -> list[int]:
    """The positions of the links that a name stands for: one, those of a street, or with `*`
    some."""
    wanted = name.strip()
    if "->" in wanted and wanted not in labels:
        wanted = ARROW.join(part.strip() for part in wanted.split("->"))
    if wanted.endswith(ALL) and wanted not in labels:
        begin = wanted.removesuffix(ALL).casefold()
        if begin and (
            some := [
                place for place, label in enumerate(labels) if label.casefold().startswith(begin)
            ]
        ):
            return some
    for called in (labels, ends):
        for form in (str, str.casefold):  # exactly, else in any case
            matching = [place for place, label in enumerate(called) if form(label) == form(wanted)]
            if len(matching) == 1:
                return matching
            if matching:
                raise UnknownLink(
                    f"{len(matching)} links are called {name!r}: {_listed(matching, labels, ends)}"
                )
    if labels != ends and (street := _whole_street(wanted, labels)):
        return street
    part, plain = wanted.removesuffix(ALL).casefold(), _plain(wanted)
    if (
        plain
        and labels != ends
        and len(same := [at for at, label in enumerate(labels) if _plain(label) == plain]) == 1
    ):
        return same
    near = [
        place
        for place, label in enumerate(labels)
        if part and (part in label.casefold() or (plain and plain in _plain(label)))
    ]
    if not near:
        streets = list(dict.fromkeys(_called(labels)))
        if alike := _alike(wanted, streets):
            raise UnknownLink(
                f"no link is called {name!r}; did you mean {' or '.join(map(_quoted, alike))}?"
            )
        if len(streets) < len(labels) > MOST_NAMED:
            more = f" and {len(streets) - MOST_NAMED:,} more" if len(streets) > MOST_NAMED else ""
            first = ", ".join(map(_quoted, streets[:MOST_NAMED])) + more
            raise UnknownLink(
                f"no link is called {name!r}; streets are: {first}; a single link is called by its "
                "street and its ends in brackets"
            )
        first = _listed(range(len(labels)), labels, ends)
        raise UnknownLink(f"no link is called {name!r}; links are: {first}")
    says = f"no link is called {name!r}, but {len(near)} similarly: {_listed(near, labels, ends)}"
    if len(near) > 1 and all(labels[place].casefold().startswith(part) for place in near):
        says += f'; "{wanted.removesuffix(ALL)}{ALL}" stands for all that begin like this'
    raise UnknownLink(says)


def _called(labels: Sequence[str]) -> list[str]:
    """The name of each link, or of its street where the street has several links."""
    counts = Counter(map(street_of, labels))
    return [
        street if street and counts[street] > 1 else label
        for label in labels
        for street in (street_of(label),)
    ]


def _alike(wanted: str, names: Sequence[str]) -> list[str]:
    """Names that a misspelt one may have meant."""
    plain = {_plain(name): name for name in reversed(names)}
    return [plain[one] for one in get_close_matches(_plain(wanted), plain, MOST_ALIKE, ALIKE)]


def _quoted(name: str) -> str:
    return f'"{name[:80]}"'


def _listed(places: Iterable[int], labels: Sequence[str], ends: Sequence[str]) -> str:
    chosen = list(places)
    told = [
        f'"{labels[place][:80]}"'
        + ("" if labels[place] == ends[place] else f" ({ends[place][:80]})")
        for place in chosen[:MOST_NAMED]
    ]
    more = f" and {len(chosen) - MOST_NAMED:,} more" if len(chosen) > MOST_NAMED else ""
    return ", ".join(told) + more
