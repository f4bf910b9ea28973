"""The TNTP text format of traffic assignment, read into bodies of POST /v1/jobs.

TNTP (Bar-Gera, "Transportation Network Test Problems") is what the field's public test networks are written in: lines
`<NAME> value` of metadata, then rows that end with `;`, and comments from `~` to the end of the line. A network file
has a row a link (tail, head, capacity, length, free flow time, b, power, and columns that nothing here uses), a trips
file a section `Origin n` of entries `destination : trips;`, a node file a row a node (number, x, y).

Only the format is read here. What the figures must be to make a problem (zones that paths join, limits of counts) is
checked where every other body is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from discreet.errors import InvalidInput

_METADATA = re.compile(r"<([^<>]+)>(.*)")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_COLUMNS = ("tail", "head", "capacity", "length", "free flow time", "b", "power")
_FREE_FLOW_TIME, _CAPACITY, _B, _POWER = 4, 2, 5, 6


@dataclass(frozen=True)
class LinkRow:
    """A directed link; nodes are 1..n. `t(y) = free_flow_time (1 + b (y/capacity)^power)`. `line` is where it stood."""

    tail: int
    head: int
    free_flow_time: float
    capacity: float
    b: float
    power: float
    line: int


@dataclass(frozen=True)
class NetworkFile:
    """A network file: zones are the nodes 1..zones, nodes below `first_through_node` are not passed through."""

    nodes: int
    zones: int
    first_through_node: int
    links: tuple[LinkRow, ...]


@dataclass(frozen=True)
class TripsRow:
    """The trips of an ordered pair of zones, 1..n, as written: perhaps 0, perhaps no integer."""

    origin: int
    destination: int
    trips: float
    line: int


@dataclass(frozen=True)
class TripsFile:
    """A trips file: at most one row an ordered pair of zones."""

    zones: int
    rows: tuple[TripsRow, ...]


def read_network(text: str) -> NetworkFile:
    """The network file `text`. InvalidInput names the line that is wrong."""
    file = _File("network file", text)
    nodes, zones = file.count("NUMBER OF NODES"), file.count("NUMBER OF ZONES")
    if zones > nodes:
        raise file.wrong(f"{zones} zones do not fit into {nodes} nodes", file.line_of("NUMBER OF ZONES"))
    first = file.count("FIRST THRU NODE", default=1)
    if first > nodes:
        raise file.wrong(f"the network has {nodes} nodes", file.line_of("FIRST THRU NODE"))
    links = []
    for line, row in file.rows:
        fields = row.split(";")[0].split()
        if len(fields) < len(_COLUMNS):
            raise file.wrong(f"a link needs {', '.join(_COLUMNS[:-1])} and {_COLUMNS[-1]}", line)
        tail, head = (file.index(fields[end], nodes, "node", line) for end in (0, 1))
        if tail == head:
            raise file.wrong(f"a link from node {tail} to itself", line)
        values = {at: file.number(fields[at], _COLUMNS[at], line) for at in (_CAPACITY, _FREE_FLOW_TIME, _B, _POWER)}
        if values[_CAPACITY] == 0:
            raise file.wrong("capacity must be positive", line)
        links.append(LinkRow(tail, head, values[_FREE_FLOW_TIME], values[_CAPACITY], values[_B], values[_POWER], line))
    stated = file.count("NUMBER OF LINKS", default=len(links))
    if stated != len(links):
        raise file.wrong(f"{stated} links are announced, {len(links)} follow", file.line_of("NUMBER OF LINKS"))
    return NetworkFile(nodes, zones, first, tuple(links))


def read_trips(text: str) -> TripsFile:
    """The trips file `text`. InvalidInput names the line that is wrong."""
    file = _File("trips file", text)
    zones = file.count("NUMBER OF ZONES")
    origin = None
    seen: dict[tuple[int, int], int] = {}
    rows = []
    for line, row in file.rows:
        first, *rest = row.split()
        if first.lower() == "origin":
            if len(rest) != 1:
                raise file.wrong("'Origin' needs one zone", line)
            origin = file.index(rest[0], zones, "zone", line)
            continue
        if origin is None:
            raise file.wrong("trips before the first 'Origin'", line)
        for entry in filter(None, (part.strip() for part in row.split(";"))):
            left, colon, right = entry.partition(":")
            if not colon:
                raise file.wrong(f"{entry!r} is not 'destination : trips'", line)
            destination = file.index(left.strip(), zones, "zone", line)
            if (origin, destination) in seen:
                where = seen[origin, destination]
                raise file.wrong(f"trips from {origin} to {destination} stand in line {where} already", line)
            seen[origin, destination] = line
            rows.append(TripsRow(origin, destination, file.number(right.strip(), "trips", line), line))
    return TripsFile(zones, tuple(rows))


def read_nodes(text: str) -> list[tuple[float, float]]:
    """The coordinates (x, y) of the nodes 1..n of the node file `text`. InvalidInput names the line that is wrong."""
    file = _File("node file", text)
    rows = file.rows[1:] if file.rows and file.rows[0][1].split()[0].lower() == "node" else file.rows
    found: dict[int, tuple[float, float]] = {}
    for line, row in rows:
        fields = row.split(";")[0].split()
        if len(fields) < 3:
            raise file.wrong("a node needs number, x and y", line)
        node = file.index(fields[0], len(rows), "node", line)
        if node in found:
            raise file.wrong(f"node {node} stands twice", line)
        found[node] = (
            file.number(fields[1], "x", line, negative=True),
            file.number(fields[2], "y", line, negative=True),
        )
    return [found[node] for node in sorted(found)]


def convert(
    net_text: str,
    trips_text: str,
    *,
    node_text: str | None = None,
    epsilon: str = "0.1",
    cap: tuple[str, str] = ("1", "0"),
    round_trips: bool = False,
    name: str = "trips",
) -> dict[str, Any]:
    """A body of POST /v1/jobs: the trips as one period of an hour of a private dataset, the network, BPR latency.

    `epsilon` is the job's, `cap` the dataset's (epsilon, delta), decimals as text. Trips must be integers, or are
    rounded, half to even, with `round_trips`; pairs without trips are left out. `node_text` is only checked against
    the network: a body has no place for coordinates, and `read_nodes` gives them. InvalidInput names file and line: of
    what cannot be read, and of the first link whose b and power are not those of all, which a job cannot say.
    """
    network, trips = read_network(net_text), read_trips(trips_text)
    if network.zones != trips.zones:
        raise InvalidInput(f"the network file has {network.zones} zones, the trips file {trips.zones}")
    if not network.links:
        raise InvalidInput("network file: no links")
    if node_text is not None and (placed := len(read_nodes(node_text))) != network.nodes:
        raise InvalidInput(f"the network file has {network.nodes} nodes, the node file {placed}")
    common = network.links[0]
    for link in network.links:
        if (link.b, link.power) != (common.b, common.power):
            raise InvalidInput(
                f"network file, line {link.line}: b {link.b:g} and power {link.power:g}, but line {common.line} has"
                f" {common.b:g} and {common.power:g}; one job has one latency for all links"
            )
    return {
        "problem": {
            "kind": "routing",
            "dataset": {
                "name": name,
                "kind": "routing",
                "public": {"unit": "request", "zones": trips.zones, "periods": 1, "period_minutes": 60},
                "content": {
                    "trips": [
                        {"period": 0, "origin": row.origin, "destination": row.destination, "count": count}
                        for row in trips.rows
                        if (count := _count(row, round_trips))
                    ]
                },
                "cap": {"epsilon": _decimal(cap[0], "cap epsilon"), "delta": _decimal(cap[1], "cap delta")},
                "mode": "private",
            },
            "network": {
                "nodes": network.nodes,
                "first_through_node": network.first_through_node,
                "links": [
                    {
                        "tail": link.tail,
                        "head": link.head,
                        "free_flow_time": link.free_flow_time,
                        "capacity": link.capacity,
                    }
                    for link in network.links
                ],
            },
            "latency": {"type": "bpr", "b": common.b, "power": common.power},
            "objective": "system_optimum",
        },
        "privacy": {"epsilon": _decimal(epsilon, "epsilon"), "delta": 0},
    }


def _count(row: TripsRow, round_trips: bool) -> int:
    if not round_trips and not row.trips.is_integer():
        raise InvalidInput(
            f"trips file, line {row.line}: {row.trips:g} trips from {row.origin} to {row.destination} are no integer;"
            " round_trips rounds them"
        )
    return round(row.trips)


def _decimal(text: str, what: str) -> int | float:
    """The number that JSON writes with the value of `text`."""
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise InvalidInput(f"{what}: {text!r} is not a decimal number") from None
    # The exponent is looked at first: 1e999999999 must not become an integer of a billion digits.
    if exact.is_finite() and abs(exact.adjusted()) <= 30:
        number = int(exact) if exact == exact.to_integral_value() else float(exact)
        if Decimal(repr(number)) == exact:
            return number
    raise InvalidInput(f"{what}: {text!r} is not a finite number of at most 15 digits")


class _File:
    """The lines of a file that say something, and how its errors read."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.metadata: dict[str, tuple[str, int]] = {}
        self.rows: list[tuple[int, str]] = []
        for line, said in self._said(text):
            tag = _METADATA.fullmatch(said)
            if tag is None:
                self.rows.append((line, said))
            else:
                self.metadata[tag[1].strip().upper()] = (tag[2].strip(), line)

    @staticmethod
    def _said(text: str) -> Iterator[tuple[int, str]]:
        for line, written in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
            said = written.partition("~")[0].strip()
            if said.strip("; \t"):
                yield line, said

    def wrong(self, why: str, line: int | None = None) -> InvalidInput:
        return InvalidInput(f"{self.name}{'' if line is None else f', line {line}'}: {why}")

    def line_of(self, tag: str) -> int | None:
        return self.metadata[tag][1] if tag in self.metadata else None

    def count(self, tag: str, *, default: int | None = None) -> int:
        if tag not in self.metadata:
            if default is None:
                raise self.wrong(f"<{tag}> is missing")
            return default
        text, line = self.metadata[tag]
        if not _INTEGER.fullmatch(text) or int(text) == 0:
            raise self.wrong(f"<{tag}> is a positive integer, not {text!r}", line)
        return int(text)

    def index(self, text: str, count: int, what: str, line: int) -> int:
        if not _INTEGER.fullmatch(text) or not 1 <= int(text) <= count:
            raise self.wrong(f"{text!r} is not a {what} of 1..{count}", line)
        return int(text)

    def number(self, text: str, what: str, line: int, *, negative: bool = False) -> float:
        if not _NUMBER.fullmatch(text) or abs(value := float(text)) == float("inf"):
            raise self.wrong(f"{what} is a number, not {text!r}", line)
        if value < 0 and not negative:
            raise self.wrong(f"{what} cannot be negative, as {text} is", line)
        return value
