"""A reader of the TNTP text format of traffic assignment: networks, trips and coordinates of nodes.

TNTP (Bar-Gera, "Transportation Network Test Problems") is the format of the field's public test
networks: lines `<NAME> value` of metadata, then rows that end with `;`, and comments from `~` to
the end of the line. A network file has a row for each link (tail, head, capacity, length, free flow
time, b, power, speed, toll, type; its cost does not depend on speed and type), a trips file has
sections `Origin n` of entries `destination : trips;`, and a node file has a row for each node
(number, x, y).

The generalized cost of a link is its travel time + toll factor x toll + distance factor x length.
The factors are in `<TOLL FACTOR>` and `<DISTANCE FACTOR>`, or given by the caller. Without either,
length costs nothing, and tolls are refused.

Nodes may have any numbers. Here they are renumbered 1..n in ascending order, so files that use 1..n
keep their numbers.

Only the format is checked here: mistakes are a `TableError` that names the line.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from discreet_client.tables import TableError

_METADATA = re.compile(r"<([^<>]+)>(.*)")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_COLUMNS = (
    "tail",
    "head",
    "capacity",
    "length",
    "free flow time",
    "b",
    "power",
    "speed",
    "toll",
    "type",
)
_NEEDED = 7
_CAPACITY, _LENGTH, _FREE_FLOW_TIME, _B, _POWER, _TOLL = 2, 3, 4, 5, 6, 8
TOTAL_OFF = 1e-3
"""By how much of the total that it states a trips file may differ: totals are rounded."""
MOST_NODES = 1_000_000
"""The most nodes of a job's network."""
MOST_CAPACITY = 1e12
"""The largest capacity of a job's link; a larger or infinite one is expressed by a smaller b."""


@dataclass(frozen=True)
class LinkRow:
    """A directed link; nodes are 1..n. `t(y) = free_flow_time (1 + b (y/capacity)^power)`, without
    the costs of `length` and `toll`. The capacity is positive and finite. `line`: its line in the
    file."""

    tail: int
    head: int
    free_flow_time: float
    capacity: float
    b: float
    power: float
    length: float
    toll: float
    line: int


@dataclass(frozen=True)
class NetworkFile:
    """A network file: zones are the nodes 1..zones, and routes do not pass through nodes below
    `first_through_node`.

    `numbers` are those of the nodes in the file, ascending; the factors are None if the file does
    not state them.
    """

    nodes: int
    zones: int
    first_through_node: int
    links: tuple[LinkRow, ...]
    numbers: Sequence[int]
    toll_factor: float | None
    distance_factor: float | None

    def fixed_costs(
        self, toll_weight: float | None = None, distance_weight: float | None = None
    ) -> list[float]:
        """The cost of each link that does not depend on its flow: toll and length times their
        weights, which take precedence over the file's factors.

        TableError names the first link with a toll if neither gives the weight of tolls.
        """
        toll = self.toll_factor if toll_weight is None else toll_weight
        distance = (self.distance_factor if distance_weight is None else distance_weight) or 0.0
        for link in self.links:
            if toll is None and link.toll:
                raise TableError(
                    f"network file, line {link.line}: a toll of {link.toll:g}, but no factor that "
                    "converts tolls to time: give toll_weight (0 to ignore tolls)"
                )
        return [(toll or 0.0) * link.toll + distance * link.length for link in self.links]


@dataclass(frozen=True)
class TripsRow:
    """The trips of an ordered pair of zones, 1..n, as written: they may be 0, or not an integer."""

    origin: int
    destination: int
    trips: float
    line: int


@dataclass(frozen=True)
class TripsFile:
    """A trips file, with at most one row for each ordered pair of zones."""

    zones: int
    rows: tuple[TripsRow, ...]


def read_network(text: str) -> NetworkFile:
    """The network file `text`. TableError names the line that is wrong."""
    file = _File("network file", text)
    nodes, zones = file.count("NUMBER OF NODES"), file.count("NUMBER OF ZONES")
    if nodes > MOST_NODES:
        raise file.wrong(
            f"{nodes:,} nodes, at most {MOST_NODES:,} are read", file.line_of("NUMBER OF NODES")
        )
    if zones > nodes:
        raise file.wrong(
            f"{zones} zones do not fit into {nodes} nodes", file.line_of("NUMBER OF ZONES")
        )
    first = file.count("FIRST THRU NODE", default=1)
    rows = []
    for line, row in file.rows:
        fields = row.split(";")[0].split()
        if len(fields) < _NEEDED:
            raise file.wrong(
                f"a link needs {', '.join(_COLUMNS[: _NEEDED - 1])} and {_COLUMNS[_NEEDED - 1]}",
                line,
            )
        if len(fields) > len(_COLUMNS):
            raise file.wrong(
                f"{len(fields)} figures of a link, of which only {len(_COLUMNS)} are known", line
            )
        rows.append((line, fields, [file.index(fields[end], None, "node", line) for end in (0, 1)]))
    numbers = _numbers(file, nodes, [end for _, _, ends in rows for end in ends])
    if first > numbers[-1]:
        raise file.wrong(f"the network has {nodes} nodes", file.line_of("FIRST THRU NODE"))
    place = {number: node for node, number in enumerate(numbers, start=1)}
    links = [
        _link(file, line, fields, *(place[end] for end in ends)) for line, fields, ends in rows
    ]
    stated = file.count("NUMBER OF LINKS", default=len(links))
    if stated != len(links):
        raise file.wrong(
            f"{stated} links are announced, {len(links)} follow", file.line_of("NUMBER OF LINKS")
        )
    through = 1 + bisect_left(numbers, first)
    factors = (file.factor("TOLL FACTOR"), file.factor("DISTANCE FACTOR"))
    return NetworkFile(nodes, zones, through, tuple(links), numbers, *factors)


def _numbers(file: _File, nodes: int, ends: Sequence[int]) -> Sequence[int]:
    """The numbers of all nodes, ascending: 1..nodes if all ends of links are among these, else the
    numbers of the ends."""
    if max(ends, default=0) <= nodes:
        return range(1, nodes + 1)
    numbers = sorted(set(ends))
    if len(numbers) != nodes:
        stated = file.line_of("NUMBER OF NODES")
        raise file.wrong(
            f"{nodes} nodes are announced, links have {len(numbers)} up to {numbers[-1]}", stated
        )
    return numbers


def _link(file: _File, line: int, fields: list[str], tail: int, head: int) -> LinkRow:
    if tail == head:
        raise file.wrong(f"a link from node {fields[0]} to itself", line)
    time, b, power = (
        file.number(fields[at], _COLUMNS[at], line) for at in (_FREE_FLOW_TIME, _B, _POWER)
    )
    length = file.number(fields[_LENGTH], "length", line)
    toll = file.number(fields[_TOLL], "toll", line) if len(fields) > _TOLL else 0.0
    if 0 < power < 1:
        raise file.wrong(f"power {power:g}: only 0 and powers of at least 1 are modelled", line)
    if fields[_CAPACITY].lower().lstrip("+") in ("inf", "infinity"):
        capacity = math.inf
    else:
        capacity = file.number(fields[_CAPACITY], "capacity", line)
    if capacity == 0 and time and b and power:
        raise file.wrong("capacity must be positive", line)
    if capacity == 0 or (math.isinf(capacity) and power == 0):
        capacity = 1.0  # nothing depends on it
    elif capacity > MOST_CAPACITY:
        b, capacity = b * (MOST_CAPACITY / capacity) ** power, MOST_CAPACITY
    return LinkRow(tail, head, time, capacity, b, power, length, toll, line)


def read_trips(text: str, numbers: Sequence[int] | None = None) -> TripsFile:
    """The trips file `text`. `numbers`: those of the network's nodes, ascending, by default 1..n;
    zones are the first of them. TableError names the line that is wrong."""
    file = _File("trips file", text)
    zones = file.count("NUMBER OF ZONES")
    names = None if numbers is None or isinstance(numbers, range) else list(numbers[:zones])
    origin = None
    seen: dict[tuple[int, int], int] = {}
    rows = []
    for line, row in file.rows:
        first, *rest = row.split()
        if first.lower() == "origin":
            if len(rest) != 1:
                raise file.wrong("'Origin' needs one zone", line)
            origin = file.index(rest[0], zones, "zone", line, names)
            continue
        if origin is None:
            raise file.wrong("trips before the first 'Origin'", line)
        for entry in filter(None, (part.strip() for part in row.split(";"))):
            left, colon, right = entry.partition(":")
            if not colon:
                raise file.wrong(f"{entry!r} is not 'destination : trips'", line)
            destination = file.index(left.strip(), zones, "zone", line, names)
            if (origin, destination) in seen:
                where = seen[origin, destination]
                raise file.wrong(
                    f"trips from {origin} to {destination} stand in line {where} already", line
                )
            seen[origin, destination] = line
            rows.append(
                TripsRow(origin, destination, file.number(right.strip(), "trips", line), line)
            )
    said = file.metadata.get("TOTAL OD FLOW", ("", 0))[0]
    total = float(said) if _NUMBER.fullmatch(said) else math.nan
    found = math.fsum(row.trips for row in rows)
    if abs(found - total) > 1 + TOTAL_OFF * total:
        why = (
            f"<TOTAL OD FLOW> is {total:g}, and the trips below sum to {found:g}: is the file "
            "whole? Where it is, correct that line or leave it out"
        )
        raise file.wrong(why, file.line_of("TOTAL OD FLOW"))
    return TripsFile(zones, tuple(rows))


def read_places(text: str) -> dict[int, tuple[float, float]]:
    """The coordinates (x, y) in the node file `text`, by the number of the node. TableError names
    the line that is wrong."""
    file = _File("node file", text)
    rows = (
        file.rows[1:] if file.rows and file.rows[0][1].split()[0].lower() == "node" else file.rows
    )
    found: dict[int, tuple[float, float]] = {}
    for line, row in rows:
        fields = row.split(";")[0].split()
        if len(fields) < 3:
            raise file.wrong("a node needs number, x and y", line)
        node = file.index(fields[0], None, "node", line)
        if node in found:
            raise file.wrong(f"node {node} stands twice", line)
        found[node] = (
            file.number(fields[1], "x", line, negative=True),
            file.number(fields[2], "y", line, negative=True),
        )
    return found


class _File:
    """The metadata and the rows of a file, without comments and empty lines; it words errors."""

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

    def wrong(self, why: str, line: int | None = None) -> TableError:
        return TableError(f"{self.name}{'' if line is None else f', line {line}'}: {why}")

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

    def factor(self, tag: str) -> float | None:
        if tag not in self.metadata:
            return None
        text, line = self.metadata[tag]
        return self.number(text, f"<{tag}>", line)

    def index(
        self, text: str, count: int | None, what: str, line: int, names: list[int] | None = None
    ) -> int:
        """A number in 1..count, or of any size if `count` is None; with `names`, which ascend, its
        position among these, from 1."""
        if not _INTEGER.fullmatch(text) or int(text) < 1:
            raise self.wrong(
                f"{text!r} is not a {what}{'' if count is None else f' of 1..{count}'}", line
            )
        number = int(text)
        if names is not None:
            place = bisect_left(names, number)
            if place == len(names) or names[place] != number:
                raise self.wrong(
                    f"{number} is not a {what}: those are the first {len(names)} nodes", line
                )
            return place + 1
        if count is not None and number > count:
            raise self.wrong(f"{text!r} is not a {what} of 1..{count}", line)
        return number

    def number(self, text: str, what: str, line: int, *, negative: bool = False) -> float:
        if not _NUMBER.fullmatch(text) or abs(value := float(text)) == float("inf"):
            raise self.wrong(f"{what} is a number, not {text!r}", line)
        if value < 0 and not negative:
            raise self.wrong(f"{what} cannot be negative, as {text} is", line)
        return value
