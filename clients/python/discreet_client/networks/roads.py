"""What every format becomes: links by the names of their nodes, and the network that is made of
them; the options of a reader."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from discreet_client.names import name_of
from discreet_client.option_words import PYTHON, Words
from discreet_client.tables import Table, TableError, WrongCell, together

Json = dict[str, Any]
Point = tuple[float, float]


@dataclass(frozen=True, eq=False)
class FileInMemory:
    """A file that lies in no folder, by its name and its bytes; it is read as a Path is."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        return PurePath(self.name).suffix

    @property
    def stem(self) -> str:
        return PurePath(self.name).stem

    def read_bytes(self) -> bytes:
        return self.content

    def read_text(self, encoding: str, errors: str = "strict") -> str:
        return self.content.decode(encoding, errors)


AnyFile = Path | FileInMemory


@dataclass(frozen=True)
class NetworkReading:
    """A network as a problem of kind routing takes it, with a name; and in sentences how it is
    meant, and what of the files was not read, and what of it is doubtful."""

    name: str
    network: Json
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What is read as it stands and can hardly be meant so."""
    zones: int | None = None
    """How many of the first nodes are zones; None where no file says it."""


@dataclass(frozen=True)
class Road:
    """A link by the names of its nodes."""

    tail: str
    head: str
    figures: Json
    name: str | None = None
    shape: tuple[Point, ...] = ()


class Made(NamedTuple):
    """What a format's reader makes of its files."""

    network: Json
    notes: list[str]
    left_out: list[str]
    warnings: list[str]
    zones: int | None = None


@dataclass(frozen=True)
class Options:
    columns: dict[str, str]
    units: str | None
    toll_weight: float | None
    distance_weight: float | None
    through_zones: bool
    both_ways: bool = False
    time_unit: str | None = None
    lane_capacity: float | None = None
    speed: float | None = None
    doubled: str = "refuse"
    decimal: str | None = None
    words: Words = PYTHON
    """How options are named to who reads."""

    def refuse(self, of: str, *names: str) -> None:
        """Options that say nothing of a format are a mistake."""
        for one in names:
            given = getattr(self, one)
            if not (given is None or given is False or given == {}):
                raise TableError(f"{self.words.name(one)} says nothing of {of}", one)


NODE_NAME = "node_name"
"""What people call a node, where links know it by another id."""
LINK = ("tail", "head", "free_flow_time", "capacity")
NODES = LINK[:2]
LENGTH = ("length", "speed")
LINK_OPTIONAL = ("b", "power", "fixed_cost", "toll", "name", "directed", "lanes")
OWN = LINK_OPTIONAL[:3]
"""What a link may have of its own in the network, as it stands in the table."""
NODE = ("node",)
PLACE = ("x", "y")
DOUBLED = ("refuse", "keep-first", "sum")
"""What may be made of a street that stands twice."""
TIME_UNITS = ("seconds", "minutes", "hours")
SHOWN_ZONES, SHOWN_FAULTS, MOST_FAULTS = 6, 5, 20


def encodings(said: str | None) -> list[str | None]:
    """Those that a file is tried in: texts of another encoding are hardly ever UTF-8 too."""
    return (
        [None, said]
        if said is not None and said.lower().startswith(("cp", "windows", "iso", "latin"))
        else [said]
    )


def some_of(found: Sequence[Any], noun: str, verb: str = "", verbs: str = "") -> str:
    """`nodes 3, 7 and 2 more stand`: a list for people, cut where it is long."""
    shown = ", ".join(str(one)[:40] for one in found[:SHOWN_FAULTS])
    rest = f" and {len(found) - SHOWN_FAULTS:,} more" if len(found) > SHOWN_FAULTS else ""
    return (
        f"{noun}{'' if len(found) == 1 else 's'} {shown}{rest} {verb if len(found) == 1 else verbs}"
    ).rstrip()


def finite_point(figures: Sequence[Any]) -> Point:
    x, y = float(figures[0]), float(figures[1])
    if not (math.isfinite(x) and math.isfinite(y)):
        raise ValueError("coordinates are finite")
    return x, y


def text_of(value: Any) -> str:
    """A name as `Table.names` reads it: zone 1.0 is zone 1."""
    is_whole = isinstance(value, float) and value.is_integer()
    return name_of(str(int(value)) if is_whole else str(value))


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def unread_columns(table: Table, read: Iterable[str], file: str) -> list[str]:
    rest = [name for name in table.columns if name not in set(read)]
    return [f"{file}: nothing was asked of {', '.join(rest)}"] if rest else []


def all_at_once(checks: Sequence[Callable[[], Any]]) -> None:
    """What is wrong with a file by any of these checks, as one TableError."""
    for place, one in enumerate(checks):
        try:
            one()
        except WrongCell as error:
            raise together(error.issues, checks[place + 1 :]) from None
