"""Road networks from the field's files: TNTP, GMNS, CSV and GeoJSON, as `POST /v1/networks` takes
them.

    reading = read("SiouxFalls_net.tntp", "SiouxFalls_node.tntp")
    client.networks.add(reading)

Every link gets a free-flow time, a capacity, and b and power of its own where the file says them.
Nodes of any names become 1..n, zones first, and keep their names in `node_names`; coordinates and
the lines of links are kept. What is not modelled (turns, links for other uses than cars, tolls
whose weight nobody says) is refused in a sentence, a `TableError`; columns of which nothing was
asked are named in `notes`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

import numpy as np

from discreet_client import tntp
from discreet_client.reading import is_figure
from discreet_client.tables import Floats, Table, TableError, WrongCell, missing, read_csv, together

Json = dict[str, Any]
Point = tuple[float, float]
P = TypeVar("P", Point, Point | None)

LINK = ("tail", "head", "free_flow_time", "capacity")
NODES = LINK[:2]
LENGTH = ("length", "speed")
LANES_UNUSED = (
    "lanes change no capacity: the column capacity is taken for that of all lanes of a link; where "
    "it is of one lane, give each link the product of the two"
)
ABOVE = {"speed": "speed", "lanes": "number of lanes", "capacity": "capacity"}
LINK_OPTIONAL = ("b", "power", "fixed_cost", "toll", "name", "directed", "lanes")
OWN = LINK_OPTIONAL[:3]
"""What a link may have of its own in the network, as it stands in the table."""
SHOWN_ZONES, SHOWN_FAULTS, MOST_FAULTS = 6, 5, 20
NODE = ("node",)
PLACE = ("x", "y")
NODE_NAME = "node_name"
"""What people call a node, where links know it by another id."""
GMNS_LINK = ("link_id", "from_node_id", "to_node_id", "length", "free_speed", "capacity")
GMNS_LINK_OPTIONAL = ("lanes", "directed", "toll", "geometry", "dir_flag", "allowed_uses", "name")
NOT_MODELLED = {
    "movement.csv": "turns and what they cost",
    "link_tod.csv": "links that change over the day",
    "segment.csv": "links whose lanes change along them",
}
"""GMNS tables that change what a link costs."""
MOST_MINUTES = 1e6
"""Of a period."""
KILOMETRES = {
    **dict.fromkeys(("km", "kilometers", "kilometres"), 1.0),
    **dict.fromkeys(("m", "meters", "metres"), 0.001),
    **dict.fromkeys(("mi", "miles"), 1.609344),
    **dict.fromkeys(("ft", "feet"), 0.0003048),
}
SPEEDS = {
    **dict.fromkeys(("kph", "km/h", "kmh"), 1.0),
    "mph": 1.609344,
    **dict.fromkeys(("mps", "m/s"), 3.6),
}
LONGEST_LINK, LONG_LINK, SHORT_LINK = 300.0, 30.0, 0.001
"""Kilometres: no road has a link beyond the first; half of a network's are below the second, and
above the third."""
FASTEST, SLOW = 250.0, 2.0
"""Kilometres an hour: no car is faster than the first; half of a network's links are faster than
the second."""
MEASURED = "free_flow_time is length / speed, in minutes"
BACK = " (back)"
"""After the name of a link that was made of one that is not directed: its other way."""
DOUBLED = ("refuse", "keep-first", "sum")
"""What may be made of a street that stands twice."""
TIME_UNITS = ("seconds", "minutes", "hours")
CARS = re.compile(r"\b(auto|autos|car|cars|sov|hov|vehicle|vehicles|all)\b", re.IGNORECASE)
_LINESTRING = re.compile(r"LINESTRING\s*(?:Z\s*)?\((.*)\)", re.IGNORECASE | re.DOTALL)


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


def read(
    *files: str | AnyFile,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    units: str | None = None,
    period_minutes: float | None = None,
    toll_weight: float | None = None,
    distance_weight: float | None = None,
    through_zones: bool = True,
    both_ways: bool = False,
    time_unit: str | None = None,
    encoding: str | None = None,
    lane_capacity: float | None = None,
    speed: float | None = None,
    doubled: str = "refuse",
) -> NetworkReading:
    """The network of these files, of which the names and first lines tell the format.

    TNTP: `…_net.tntp`, with `…_node.tntp` for coordinates. GMNS: `link.csv` and `node.csv`, with
    `config.csv` for the units, or their folder. CSV: a table of links (tail, head, free_flow_time,
    capacity; instead of the time length and speed, with `units`; b, power, fixed_cost, toll, name,
    directed), with one of nodes (node; x and y, zone where there). GeoJSON: LineStrings with these
    properties of links, Points with node and zone; lines without tail and head join the places
    where they end.

    columns: your name of each of these columns; of GMNS `node_name` alone, the column of node.csv
    that nodes are called by instead of their ids. units: of length (KILOMETRES) and speed (SPEEDS),
    such as `mi,mph`, `km,kph` or `m,kph`. both_ways: every link without an opposite one is two; for
    files that say of no link whether it is `directed`. time_unit: seconds, minutes or hours, of
    free_flow_time where the file has it, for answers to say; where it follows from lengths and
    speeds it is minutes. encoding: what CSV files are written in, where that is not UTF-8, as which
    each file is tried first: Excel's is cp1252. lane_capacity: of one lane, where CSV or GeoJSON
    has no capacity; times a column `lanes`, or 1 where there is none. speed: of all links, where
    CSV or GeoJSON has lengths and no speeds. doubled: what is made of a street that stands twice
    with the same ends, name and figures (DOUBLED): `refuse` names them all; `keep-first` takes one
    line of each; `sum` makes one link with their capacities together. period_minutes: the file's
    capacities are per hour, those of the network are made per period of this length, and the
    network says so: jobs on periods of another length refuse it. Without it GMNS's stay those of an
    hour, and those of other files are taken for those of a period, however long. The weights are
    time, in the unit of the links' times, for a unit of toll and for one of length as the file has
    it (of `units`, where these are said). Without `through_zones` no path leads through another
    zone.
    """
    paths = _listed(files)
    options = _Options(
        *(
            dict(columns or {}),
            units,
            toll_weight,
            distance_weight,
            through_zones,
            both_ways,
            time_unit,
        ),
        *(lane_capacity, speed, doubled),
    )
    if doubled not in DOUBLED:
        raise TableError(f"doubled is {', '.join(DOUBLED)}, not {str(doubled)[:40]}")
    if lane_capacity is not None and not (is_figure(lane_capacity) and lane_capacity > 0):
        raise TableError(
            f"lane_capacity is a number of vehicles above 0, not {str(lane_capacity)[:40]}"
        )
    if speed is not None and not (is_figure(speed) and speed > 0):
        raise TableError(f"speed is a number above 0, not {str(speed)[:40]}")
    if time_unit not in (None, *TIME_UNITS):
        raise TableError(f"time_unit is {', '.join(TIME_UNITS)}, not {str(time_unit)[:40]}")
    kinds = {path: path.suffix.lower() for path in paths}
    gmns = False
    if any(kind == ".tntp" for kind in kinds.values()):
        made = _tntp(paths, options)
    elif any(kind in (".geojson", ".json") for kind in kinds.values()):
        made = _geojson(paths, options)
    elif all(kind == ".csv" for kind in kinds.values()):
        tables = {
            path: read_csv(path.read_bytes(), path.name, *encodings(encoding)) for path in paths
        }
        gmns = any(
            "from_node_id" in table.columns and "free_speed" in table.columns
            for table in tables.values()
        )
        gmns = gmns and options.columns.keys() <= {NODE_NAME}
        made = _gmns(tables, options) if gmns else _csv(tables, options)
    else:
        raise TableError(
            f"{paths[0].name} is not a network file: .tntp, .csv, .geojson or a folder of GMNS is "
            "needed"
        )
    made = _of_a_period(made, gmns, period_minutes)
    if time_unit is not None:
        made = made._replace(network={**made.network, "time_unit": time_unit})
    return NetworkReading(
        name or _name_of(paths),
        made.network,
        made.notes,
        made.left_out,
        made.warnings,
        made.zones,
    )


@dataclass(frozen=True)
class _Options:
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

    def refuse(self, of: str, *names: str) -> None:
        """Options that say nothing of a format are a mistake."""
        for one in names:
            given = getattr(self, one)
            if not (given is None or given is False or given == {}):
                raise TableError(f"{one} says nothing of {of}")


@dataclass(frozen=True)
class _Road:
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


def _of_a_period(made: Made, gmns: bool, minutes: float | None) -> Made:
    """With capacities of a period of so many minutes, where the file's are of an hour."""
    network, notes = made.network, made.notes
    if minutes is None and not gmns:
        says = (
            "capacities are taken as vehicles per period, as they stand in the file; if they are "
            "per hour, give --period-minutes (period_minutes in Python)"
        )
        return made._replace(notes=[*notes, says])
    minutes = 60.0 if minutes is None else minutes
    if not (isinstance(minutes, int | float) and 0 < minutes <= MOST_MINUTES):
        raise TableError(f"period_minutes is a number of minutes above 0, not {str(minutes)[:40]}")
    links = [{**link, "capacity": link["capacity"] * minutes / 60} for link in network["links"]]
    says = f"capacities, per hour in the file, were converted to periods of {minutes:g} minutes"
    return made._replace(
        network={**network, "links": links, "period_minutes": minutes}, notes=[*notes, says]
    )


def _listed(files: Sequence[str | AnyFile]) -> list[AnyFile]:
    paths = [one if isinstance(one, FileInMemory) else Path(one) for one in files]
    if not paths:
        raise TableError("a file of a network is needed")
    if len(paths) == 1 and isinstance(folder := paths[0], Path) and folder.is_dir():
        for other, what in NOT_MODELLED.items():
            if (folder / other).exists():
                says = (
                    f"{other} stands there: {what} are not modelled; name link.csv and node.csv "
                    "to leave it out"
                )
                raise TableError(says)
        paths = [
            folder / one
            for one in ("link.csv", "node.csv", "config.csv")
            if (folder / one).exists()
        ]
        if not paths:
            raise TableError(f"{folder} has no link.csv")
    for path in paths:
        if isinstance(path, Path) and not path.is_file():
            raise TableError(f"there is no file {path}")
        if path.name.lower() in NOT_MODELLED:
            raise TableError(f"{path.name}: {NOT_MODELLED[path.name.lower()]} are not modelled")
    return paths


def encodings(said: str | None) -> list[str | None]:
    """Those that a file is tried in: texts of another encoding are hardly ever UTF-8 too."""
    return (
        [None, said]
        if said is not None and said.lower().startswith(("cp", "windows", "iso", "latin"))
        else [said]
    )


def _name_of(paths: Sequence[AnyFile]) -> str:
    first = paths[0]
    stem = first.stem.removesuffix("_net").removesuffix("_node")
    if isinstance(first, Path) and stem in ("link", "node"):
        return first.resolve().parent.name
    return stem


# TNTP ---------------------------------------------------------------------------------------------


def _tntp(paths: Sequence[AnyFile], options: _Options) -> Made:
    if options.doubled != "refuse":
        raise TableError(
            "doubled says nothing of TNTP, whose links have numbers: all of them are kept"
        )
    options.refuse("TNTP", "columns", "units", "both_ways", "lane_capacity", "speed")
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in paths}
    nets = [path for path, text in texts.items() if "<NUMBER OF NODES>" in text.upper()]
    others = [path for path in paths if path not in nets]
    if len(nets) != 1 or len(others) > 1 or any(path.suffix.lower() != ".tntp" for path in others):
        raise TableError(
            "TNTP: one file of links (NAME_net.tntp), and one of nodes (NAME_node.tntp) or none"
        )
    file = tntp.read_network(texts[nets[0]])
    costs = file.fixed_costs(options.toll_weight, options.distance_weight)
    network: Json = {
        "nodes": file.nodes,
        "first_through_node": file.first_through_node,
        "links": [
            {
                "tail": link.tail,
                "head": link.head,
                "free_flow_time": link.free_flow_time,
                "capacity": link.capacity,
                "b": link.b,
                "power": link.power,
                **({"fixed_cost": cost} if cost else {}),
            }
            for link, cost in zip(file.links, costs, strict=True)
        ],
    }
    if not isinstance(file.numbers, range):
        network["node_names"] = [str(number) for number in file.numbers]
    if others:
        places = tntp.read_places(texts[others[0]])
        if lacking := [number for number in file.numbers if number not in places]:
            raise TableError(f"{others[0].name}: no coordinates of node {lacking[0]}")
        network["nodes_xy"] = [list(places[number]) for number in file.numbers]
    notes = [
        f"the first {file.zones} nodes are the zones; free_flow_time is in the file's own unit"
    ]
    return Made(network, notes, [], [], file.zones)


# GMNS ---------------------------------------------------------------------------------------------


def _gmns(tables: Mapping[AnyFile, Table], options: _Options) -> Made:
    links = nodes = config = None
    for path, table in tables.items():
        if "from_node_id" in table.columns:
            links = table
        elif "node_id" in table.columns:
            nodes = table
        elif path.name.lower() == "config.csv":
            config = table
        else:
            raise TableError(f"{path.name} is no node.csv, link.csv or config.csv of GMNS")
    if links is None or nodes is None:
        raise TableError("GMNS: link.csv and node.csv are needed")
    options.refuse("GMNS", "time_unit", "lane_capacity", "speed")
    length, speed = _units(options.units, config)
    left_out = _unread(links, (*GMNS_LINK, *GMNS_LINK_OPTIONAL), "link.csv")
    table = links.named({}, GMNS_LINK, GMNS_LINK_OPTIONAL)
    _check_gmns(table, nodes, options)
    speeds, lengths = table.numbers("free_speed"), table.numbers("length")
    free = lengths * length / (speeds * speed) * 60
    capacity = _gmns_capacity(table)
    costs = (np.array(_tolls(table, options)) + _distances(table, options)).tolist()
    shapes = _geometries(table)
    figures = zip(free.tolist(), capacity.tolist(), costs, strict=True)
    called = [
        name or link
        for name, link in zip(_names(table), table.names("link_id").tolist(), strict=True)
    ]
    roads = [
        _Road(
            tail,
            head,
            {"free_flow_time": time, "capacity": most, **({"fixed_cost": cost} if cost else {})},
            name,
            line,
        )
        for tail, head, (time, most, cost), name, line in zip(
            table.names("from_node_id").tolist(),
            table.names("to_node_id").tolist(),
            figures,
            called,
            shapes,
            strict=True,
        )
    ]
    names = {"node": "node_id", "x": "x_coord", "y": "y_coord"}
    places = _places(
        nodes, {role: name for role, name in names.items() if role in NODE or name in nodes.columns}
    )
    zones = _zones(nodes, "zone_id", list(places))
    roads, places, zones = _by_their_names(nodes, options.columns, roads, places, zones)
    roads, once = _once(_both_ways(roads, table, options), options.doubled)
    directed = "directed" in table.columns
    network, notes = _assembled(roads, places, zones, options, directed=directed)
    notes.append("free_flow_time is in minutes, capacity in vehicles, of all lanes")
    if not options.columns and "name" in nodes.columns and not missing(nodes.columns["name"]).all():
        notes.append(
            "nodes are called by node_id; --columns node_name=name (columns={'node_name': 'name'} "
            "in Python) calls them by their names, as trips may know them"
        )
    notes.append(
        "links have no b and power of their own: a problem's `latency` says them (BPR: 0.15 and 4)"
    )
    notes += _weighed(options)
    network["time_unit"] = "minutes"
    return Made(
        network,
        [*notes, *once],
        left_out,
        [*_doubts(table, lengths * length, speeds * speed)],
        _count(zones),
    )


def _check_gmns(table: Table, nodes: Table, options: _Options) -> None:
    """TableError of everything that is wrong with the cells of link.csv and with the nodes that it
    names."""

    def uses() -> None:
        if "allowed_uses" in table.columns:
            told = table.columns["allowed_uses"]
            other = [value is not None and not CARS.search(str(value)) for value in told.tolist()]
            says = "a link without cars, which are all that is modelled"
            table.refuse(np.array(other, dtype=bool), "allowed_uses", says, told)

    def speeds() -> None:
        found = table.numbers("free_speed")
        table.refuse(~(found > 0), "free_speed", "a speed above 0 is needed", found)

    def lengths() -> None:
        found = table.numbers("length")
        table.refuse(found < 0, "length", "a number of 0 or more is needed", found)

    def capacities() -> None:
        found = _gmns_capacity(table)
        table.refuse(~(found > 0), "capacity", "a capacity and lanes above 0 are needed", found)

    def ends(column: str) -> None:
        known = set(nodes.names("node_id").tolist())
        names = table.names(column)
        lost = np.array([name not in known for name in names.tolist()], dtype=bool)
        table.refuse(lost, column, "a node that is not in node.csv", names)

    columns = [partial(ends, column) for column in ("from_node_id", "to_node_id")]
    rest: list[Callable[[], Any]] = [partial(_tolls, table, options), partial(_geometries, table)]
    directions = [partial(table.truths, "directed")] if "directed" in table.columns else []
    _all_at_once([*columns, uses, speeds, lengths, capacities, *directions, *rest])


def _gmns_capacity(table: Table) -> Floats:
    """Of all lanes of each link."""
    lanes = table.numbers("lanes") if "lanes" in table.columns else 1.0
    return table.numbers("capacity") * lanes


def _units(said: str | None, config: Table | None) -> tuple[float, float]:
    """Kilometres of a unit of length, kilometres an hour of a unit of speed."""
    if said is not None:
        words = [word.strip().lower() for word in said.split(",")]
    elif config is not None and {"long_length", "speed"} <= config.columns.keys():
        words = [str(config.columns[one][0]).strip().lower() for one in ("long_length", "speed")]
    else:
        words = []
    if len(words) != 2 or words[0] not in KILOMETRES or words[1] not in SPEEDS:
        found = f", not {', '.join(words)}" if words else ""
        known = f"lengths are in {', '.join(KILOMETRES)}; speeds in {', '.join(SPEEDS)}"
        raise TableError(
            f"units of length and speed are needed{found}: --units km,kph, m,kph or mi,mph (units "
            f"in Python), or a config.csv; {known}"
        )
    return KILOMETRES[words[0]], SPEEDS[words[1]]


def _tolls(table: Table, options: _Options) -> list[float]:
    if "toll" not in table.columns:
        return [0.0] * table.rows
    tolls = table.numbers("toll", may_lack=True)
    tolls[np.isnan(tolls)] = 0.0  # the file says none
    if options.toll_weight is None:
        says = (
            "a toll, and no word of what it weighs: say --toll-weight (toll_weight in Python), how "
            "much time a unit of it is worth; 0 leaves tolls out"
        )
        table.refuse(tolls != 0, "toll", says)
    return [(options.toll_weight or 0.0) * toll for toll in tolls.tolist()]


def _distances(table: Table, options: _Options) -> Floats:
    """What the length of each link costs by its weight."""
    weight = options.distance_weight
    if weight is None:
        return np.zeros(table.rows)
    if not (is_figure(weight) and weight >= 0):
        raise TableError(f"distance_weight is a number of at least 0, not {str(weight)[:40]}")
    costs: Floats = weight * table.numbers("length")
    return costs


def _weighed(options: _Options) -> list[str]:
    if options.distance_weight is None:
        return []
    unit = "the file's length" if options.units is None else options.units.split(",")[0].strip()
    return [f"a link costs {options.distance_weight:g} of time for each unit of {unit} beside it"]


def _geometries(table: Table) -> list[tuple[Point, ...]]:
    if "geometry" not in table.columns:
        return [()] * table.rows
    found = []
    flags = (
        table.numbers("dir_flag", may_lack=True).tolist()
        if "dir_flag" in table.columns
        else [1.0] * table.rows
    )
    given = table.columns["geometry"]
    lines = [() if value is None else _line(str(value)) for value in given.tolist()]
    wrong = np.array([line is None for line in lines], dtype=bool)
    table.refuse(wrong, "geometry", "LINESTRING (x y, x y) is needed", given)
    for line, flag in zip(lines, flags, strict=True):
        points = line or ()
        found.append((points if flag != -1 else points[::-1])[1:-1])
    return found


def _line(text: str) -> tuple[Point, ...] | None:
    matched = _LINESTRING.fullmatch(text.strip())
    try:
        return (
            None if matched is None else tuple(_point(one.split()) for one in matched[1].split(","))
        )
    except (ValueError, TypeError, IndexError):
        return None


def _point(figures: Sequence[Any]) -> Point:
    x, y = float(figures[0]), float(figures[1])
    if not (math.isfinite(x) and math.isfinite(y)):
        raise ValueError("coordinates are finite")
    return x, y


# CSV ----------------------------------------------------------------------------------------------


def _csv(tables: Mapping[AnyFile, Table], options: _Options) -> Made:
    known = (*LINK, *LINK_OPTIONAL, *LENGTH, *NODE, NODE_NAME, *PLACE, "zone")
    if unknown := sorted(set(options.columns) - set(known)):
        raise TableError(
            f"columns: nothing is called {unknown[0]!r} here; there are {', '.join(known)}"
        )
    tail = options.columns.get("tail", "tail")
    links = [path for path, table in tables.items() if tail in table.columns]
    nodes = [path for path in tables if path not in links]
    if len(links) != 1 or len(nodes) > 1:
        listed = next(iter(tables.values())).listed()
        raise TableError(
            f"CSV: one table of links, with a column {tail}, and one of nodes or none; columns "
            f"are: {listed}; say --columns tail=…,head=…, where a link begins and ends, or "
            "columns={'tail': …} in Python; beside them free_flow_time=…, or length=…,speed=… "
            "with --units km,kph; capacity=…, or --lane-capacity N; name=… and directed=… where "
            "there are such"
        )
    table, notes, left_out, warnings = _links(
        tables[links[0]], links[0].name, "CSV", options, ends=True
    )
    roads = [
        _Road(tail, head, figures, name)
        for tail, head, figures, name in zip(
            table.names("tail").tolist(),
            table.names("head").tolist(),
            _figures(table),
            _names(table),
            strict=True,
        )
    ]
    places, zones = None, None
    if nodes:
        chosen = {role: name for role, name in options.columns.items() if role in (*NODE, *PLACE)}
        places = _places(tables[nodes[0]], chosen)
        zones = _zones(tables[nodes[0]], options.columns.get("zone", "zone"), list(places))
        roads, places, zones = _by_their_names(
            tables[nodes[0]], options.columns, roads, places, zones
        )
    roads, once = _once(_both_ways(roads, table, options), options.doubled)
    directed = "directed" in table.columns
    network, told = _assembled(roads, places, zones, options, directed=directed)
    told = [*notes, *told, *once]
    return Made(_in_minutes(network, notes), told, left_out, warnings, _count(zones))


def _in_minutes(network: Json, notes: Sequence[str]) -> Json:
    """The network, which says so where its times follow from lengths and speeds."""
    return {**network, "time_unit": "minutes"} if MEASURED in notes else network


def _lacking(source: Table, options: _Options, *, timed: bool, counted: bool, ends: bool) -> str:
    """What a table of links has no column of, all at once and a line each, with the ways out."""
    chosen, said = options.columns, []
    if ends and (head := chosen.get("head", "head")) not in source.columns:
        said.append(f"no column {head}; say --columns head=…, where a link ends")
    if not timed and chosen.get("free_flow_time") is not None:
        said.append(f"no column {chosen['free_flow_time']}")
    elif not timed:
        there = [one for one in LENGTH if chosen.get(one, one) in source.columns]
        said.append(
            "no column free_flow_time; say --columns free_flow_time=…, or --columns "
            "length=…,speed=… with --units km,kph, from which it follows, in minutes"
            + (
                "; or --speed N, of all links, beside the lengths that are there"
                if there == ["length"]
                else ""
            )
        )
    measured = chosen.get("free_flow_time", "free_flow_time") not in source.columns
    if timed and measured and options.units is None:
        said.append(
            "units of length and speed are needed: --units km,kph, m,kph or mi,mph (units in "
            "Python)"
        )
    if not counted and chosen.get("capacity") is not None:
        said.append(f"no column {chosen['capacity']}")
    elif not counted and options.lane_capacity is None:
        said.append(
            "no column capacity; say --columns capacity=…, or --lane-capacity N, of one lane, "
            "times a column `lanes` or 1"
        )
    return "\n".join(said)


def _check_cells(table: Table) -> None:
    """TableError of all columns of links in which something wrong stands."""

    def check(column: str) -> None:
        if column in NODES:
            table.names(column)
        elif column == "directed":
            table.truths(column)
        elif column != "name":
            found = table.numbers(column, may_lack=column in (*OWN, "toll"))
            if column in ABOVE:
                table.refuse(~(found > 0), column, f"a {ABOVE[column]} above 0 is needed", found)
            table.refuse(found < 0, column, "a number of 0 or more is needed", found)

    _all_at_once([partial(check, column) for column in table.columns])


def _all_at_once(checks: Sequence[Callable[[], Any]]) -> None:
    """What is wrong with a file by any of these checks, as one TableError."""
    for place, one in enumerate(checks):
        try:
            one()
        except WrongCell as error:
            raise together(error, checks[place + 1 :]) from None


def _few(found: Sequence[Any], noun: str, verb: str = "", verbs: str = "") -> str:
    """`nodes 3, 7 and 2 more stand`: a list for people, cut where it is long."""
    shown = ", ".join(str(one)[:40] for one in found[:SHOWN_FAULTS])
    rest = f" and {len(found) - SHOWN_FAULTS:,} more" if len(found) > SHOWN_FAULTS else ""
    return (
        f"{noun}{'' if len(found) == 1 else 's'} {shown}{rest} {verb if len(found) == 1 else verbs}"
    ).rstrip()


class _Links(NamedTuple):
    """A table of links by the names of LINK and LINK_OPTIONAL, and what is to be said of it."""

    table: Table
    notes: list[str]
    left_out: list[str]
    warnings: list[str]


def _links(source: Table, file: str, of: str, options: _Options, *, ends: bool) -> _Links:
    """With the times that the table has, or those that follow from length and speed. `ends`: it
    names tail and head."""
    timed = options.columns.get("free_flow_time", "free_flow_time") in source.columns
    if options.speed is not None:
        if timed or options.columns.get("speed", "speed") in source.columns:
            options.refuse(f"{of} with a column {'free_flow_time' if timed else 'speed'}", "speed")
        every = np.full(source.rows, options.speed)
        source = replace(
            source, columns={**source.columns, options.columns.get("speed", "speed"): every}
        )
    measured = not timed and all(options.columns.get(one, one) in source.columns for one in LENGTH)
    chosen = {
        role: name
        for role, name in options.columns.items()
        if role in (*LINK, *LINK_OPTIONAL, *LENGTH)
    }
    counted = options.columns.get("capacity", "capacity") in source.columns
    if lacking := _lacking(source, options, timed=timed or measured, counted=counted, ends=ends):
        raise TableError(f"{lacking}\ncolumns are: {source.listed()}")
    if timed:
        options.refuse(f"{of} with a column free_flow_time", "units")
    if counted:
        options.refuse(f"{of} with a column capacity", "lane_capacity")
    derived = [
        *(["free_flow_time"] if measured else []),
        *(["capacity"] if options.lane_capacity else []),
    ]
    needed = [one for one in LINK[0 if ends else 2 :] if one not in derived]
    weighed = options.distance_weight is not None
    if weighed and options.columns.get("length", "length") not in source.columns:
        options.refuse(f"{of} without a column length", "distance_weight")
    lengths_of = LENGTH if measured else LENGTH[:1] if weighed else ()
    needed += lengths_of if weighed and not measured else ()
    roles = (*needed, *LINK_OPTIONAL, *lengths_of)
    table = source.named({role: chosen[role] for role in chosen if role in roles}, needed, roles)
    _check_cells(table)
    if "toll" not in table.columns:
        options.refuse(f"{of} without a column toll", "toll_weight")
    if weighed or "toll" in table.columns:
        table = _with_costs(table, options)
    left_out = _unread(source, [chosen.get(role, role) for role in roles], file)
    notes = (
        []
        if options.speed is None
        else [f"the speed of every link is taken to be {options.speed:g}"]
    )
    if options.lane_capacity is not None:
        table, says = _of_lanes(table, options.lane_capacity)
        notes.append(says)
    elif "lanes" in table.columns and not np.all(table.numbers("lanes") == 1):
        notes.append(LANES_UNUSED)
    notes += _weighed(options)
    if not measured:
        return _Links(table, notes, left_out, [])
    options.refuse("links of lengths and speeds, which make minutes", "time_unit")
    length, speed = _units(options.units, None)
    speeds, lengths = table.numbers("speed"), table.numbers("length")
    time = lengths * length / (speeds * speed) * 60
    warnings = _doubts(table, lengths * length, speeds * speed)
    table = replace(table, columns={**table.columns, "free_flow_time": time})
    return _Links(table, [MEASURED, *notes], left_out, warnings)


def _with_costs(table: Table, options: _Options) -> Table:
    """The toll and the length of each link in its fixed cost, by the weights that are given."""
    cost = np.array(_tolls(table, options)) + _distances(table, options)
    if "fixed_cost" in table.columns:
        fixed = table.numbers("fixed_cost", may_lack=True)
        cost = np.where(np.isnan(fixed), cost, fixed + cost)
    cost[cost == 0] = np.nan  # none of its own
    return replace(table, columns={**table.columns, "fixed_cost": cost})


def _of_lanes(table: Table, capacity: float) -> tuple[Table, str]:
    """The capacity of each link by its lanes, which is an assumption and said to be one."""
    lanes = table.numbers("lanes") if "lanes" in table.columns else np.ones(table.rows)
    told = "its lanes" if "lanes" in table.columns else "one lane"
    says = f"the capacity of a link is taken to be {capacity:g} for each of {told}"
    return replace(table, columns={**table.columns, "capacity": lanes * capacity}), says


def _doubts(table: Table, lengths: Floats, speeds: Floats) -> list[str]:
    """What cannot be meant of links so long, in km, and so fast, in km/h: metres taken for
    kilometres most of all."""
    found = []
    longest, fastest = int(np.argmax(lengths)), int(np.argmax(speeds))
    middle, usual = float(np.median(lengths)), float(np.median(speeds))
    where = f"the link of {table.unit} {table.places[longest]} is {lengths[longest]:,.0f} km long"
    takes = f"and takes {lengths[longest] / speeds[longest] * 60:,.0f} minutes"
    if lengths[longest] > LONGEST_LINK or middle > LONG_LINK:
        says = f"{where} {takes}, half of all links are longer than {middle:.3g} km"
        found.append(f"{says}: are lengths in metres? Then say units m,kph, or m,mph")
    elif middle < SHORT_LINK:
        says = f"half of all links are shorter than {middle * 1000:.2g} m"
        found.append(f"{says}: are lengths in another unit than units says?")
    if speeds[fastest] > FASTEST:
        where = (
            f"on the link of {table.unit} {table.places[fastest]} cars drive "
            f"{speeds[fastest]:,.0f} km/h"
        )
        found.append(f"{where}: are speeds in another unit than units says?")
    elif usual < SLOW:
        says = f"on half of all links cars drive less than {usual:.2g} km/h"
        found.append(f"{says}: are speeds in another unit than units says?")
    return found


def _names(table: Table) -> list[str | None]:
    """What each link is called; None of those that have no name."""
    found: list[str | None] = [None] * table.rows
    if "name" in table.columns:
        there = np.flatnonzero(~missing(table.columns["name"]))
        for row, name in zip(
            there.tolist(), table.ordered(there).names("name").tolist(), strict=True
        ):
            found[row] = name
    return found


def _figures(table: Table) -> list[Json]:
    """What each link costs; a value of b, power or fixed_cost that is missing is none of its
    own."""
    names = [one for one in (*LINK[2:], *OWN) if one in table.columns]
    columns = [table.numbers(one, may_lack=one in OWN).tolist() for one in names]
    return [
        {name: value for name, value in zip(names, values, strict=True) if not math.isnan(value)}
        for values in zip(*columns, strict=True)
    ]


# GeoJSON ------------------------------------------------------------------------------------------


def _geojson(paths: Sequence[AnyFile], options: _Options) -> Made:
    lines: list[Json] = []
    points: list[Json] = []
    for path in paths:
        wrong: dict[str, list[int]] = {}
        for position, feature in enumerate(features_of(path)):
            geometry = feature.get("geometry") if isinstance(feature, dict) else None
            kind = geometry.get("type") if isinstance(geometry, dict) else None
            if kind not in ("LineString", "Point"):
                wrong.setdefault(
                    f"{str(kind)[:40]} is not modelled, LineString and Point are", []
                ).append(position)
            elif not isinstance(feature.get("properties") or {}, dict):
                wrong.setdefault("properties are an object", []).append(position)
            else:
                (lines if kind == "LineString" else points).append(feature)
        if wrong:
            faults = (
                f"{path.name}, {_few(places, 'feature')}: {says}" for says, places in wrong.items()
            )
            raise TableError("\n".join(islice(faults, MOST_FAULTS)))
    if not lines:
        raise TableError("GeoJSON: no LineString, and these are the links")
    drawn = [_coordinates(one["geometry"].get("coordinates")) for one in lines]
    if bent := [position for position, shape in enumerate(drawn) if shape is None]:
        raise TableError(f"{_few(bent, 'line')}: a LineString has two points [x, y] or more")
    shapes = [shape for shape in drawn if shape is not None]
    source = _properties(lines)
    ends = all(one in options.columns or one in source.columns for one in ("tail", "head"))
    table, notes, left_out, warnings = _links(source, "properties", "GeoJSON", options, ends=ends)
    places: dict[str, Point] = {}
    if ends:
        tails, heads = table.names("tail").tolist(), table.names("head").tolist()
    else:  # nodes are the places where lines end, numbered as they come
        at = {point: "" for shape in shapes for point in (shape[0], shape[-1])}
        at = {point: str(number) for number, point in enumerate(at, start=1)}
        tails, heads = [at[shape[0]] for shape in shapes], [at[shape[-1]] for shape in shapes]
    for tail, head, shape in zip(tails, heads, shapes, strict=True):
        for node, point in ((tail, shape[0]), (head, shape[-1])):
            if places.setdefault(node, point) != point:
                raise TableError(
                    f"lines end at node {node} in two places, {places[node]} and {point}"
                )
    roads = [
        _Road(tail, head, figures, name, shape[1:-1])
        for tail, head, figures, name, shape in zip(
            tails, heads, _figures(table), _names(table), shapes, strict=True
        )
    ]
    zones = _zones_of_points(
        points, options, places, {point: node for node, point in places.items()}
    )
    roads, places, zones = _by_their_zones(roads, places, zones)
    roads, once = _once(_both_ways(roads, table, options), options.doubled)
    directed = "directed" in table.columns
    network, told = _assembled(roads, places, zones, options, directed=directed)
    told = [*notes, *told, *once]
    return Made(_in_minutes(network, notes), told, left_out, warnings, _count(zones))


def features_of(path: AnyFile) -> list[Any]:
    """The features of a GeoJSON file. TableError where it is none."""
    try:
        features = json.loads(path.read_text(encoding="utf-8-sig"))["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        features = None
    if not isinstance(features, list):
        raise TableError(f"{path.name} is no GeoJSON FeatureCollection")
    return features


def _coordinates(value: Any) -> tuple[Point, ...] | None:
    """None of what is no line."""
    try:
        points = tuple(_point(one) for one in value)
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
    return points if len(points) > 1 else None


def _properties(features: Sequence[Json]) -> Table:
    properties = [feature.get("properties") or {} for feature in features]
    names = dict.fromkeys(name for one in properties for name in one)
    columns = {
        name: np.array([one.get(name) for one in properties] + [None], dtype=object)[:-1]
        for name in names
    }
    return Table(columns, np.arange(len(features)), "feature")


def _zones_of_points(
    points: Sequence[Json], options: _Options, places: dict[str, Point], at: Mapping[Point, str]
) -> dict[str, str] | None:
    """Zones of nodes, of Points with a property `zone`; a Point without `node` is the node at its
    place."""
    zone, node = options.columns.get("zone", "zone"), options.columns.get("node", "node")
    found: dict[str, str] = {}
    for position, one in enumerate(points):
        said = one.get("properties") or {}
        try:
            place = _point(one["geometry"].get("coordinates"))
        except (ValueError, TypeError, LookupError, OverflowError):
            raise TableError(f"point {position}: coordinates [x, y] are needed") from None
        name = _text(said[node]) if said.get(node) is not None else at.get(place)
        if name not in places:
            raise TableError(f"point {position}: no line ends there, so it is no node")
        if said.get(zone) is not None:
            found[name] = _text(said[zone])
    return found or None


# Of all -------------------------------------------------------------------------------------------


def _places(source: Table, columns: Mapping[str, str]) -> dict[str, Point | None]:
    """The nodes of a table in its order, with their coordinates where it has both columns of
    them."""
    there = [one for one in PLACE if columns.get(one, one) in source.columns]
    lacking = [one for one in PLACE if one not in there and (there or one in columns)]
    if lacking:
        raise TableError(
            f"no column {columns.get(lacking[0], lacking[0])}; columns are: {source.listed()}"
        )
    table = source.named(
        {role: name for role, name in columns.items() if role in (*NODE, *there)}, NODE, there
    )
    names = table.names("node").tolist()
    if len(counts := Counter(names)) < len(names):
        twice = [name for name, count in counts.items() if count > 1]
        raise TableError(
            f"{_few(twice, 'node', 'stands', 'stand')} more than once in the table of nodes"
        )
    if not there or all(missing(table.columns[one]).all() for one in PLACE):
        return dict.fromkeys(names)
    x, y = table.numbers("x").tolist(), table.numbers("y").tolist()
    return dict(zip(names, zip(x, y, strict=True), strict=True))


def _called(source: Table, columns: Mapping[str, str], nodes: Sequence[str]) -> dict[str, str]:
    """What each node is called, by its id; empty where the table does not say."""
    column = columns.get(NODE_NAME, NODE_NAME)
    if column not in source.columns:
        if NODE_NAME in columns:
            raise TableError(f"no column {column}; columns are: {source.listed()}")
        return {}
    names = source.names(column)
    first = np.isin(np.arange(names.size), np.unique(names, return_index=True)[1])
    source.refuse(~first, column, "two nodes are called so", names)
    return dict(zip(nodes, names.tolist(), strict=True))


def _by_their_names(
    source: Table,
    columns: Mapping[str, str],
    roads: list[_Road],
    places: dict[str, Point | None],
    zones: dict[str, str] | None,
) -> tuple[list[_Road], dict[str, Point | None], dict[str, str] | None]:
    """The same roads, places and zones with nodes called by their names, where the table of nodes
    tells them."""
    called = _called(source, columns, list(places))
    if not called:
        return _by_their_zones(roads, places, zones)
    _known_ends(roads, called)
    return (
        [replace(road, tail=called[road.tail], head=called[road.head]) for road in roads],
        {called[node]: place for node, place in places.items()},
        zones and {called[node]: zone for node, zone in zones.items()},
    )


def _by_their_zones(
    roads: list[_Road], places: dict[str, P], zones: dict[str, str] | None
) -> tuple[list[_Road], dict[str, P], dict[str, str] | None]:
    """The same with the node of each zone called by its zone, where zones have names: trips know
    these, and often nobody knows the ids that a GIS gave the nodes. Numbers of zones name none."""
    ends = {node for road in roads for node in (road.tail, road.head)}
    called = dict(zones or {})
    others = (ends | places.keys()) - called.keys()
    named = not all(_is_number(zone) for zone in called.values())
    if not named or len(set(called.values())) < len(called) or others & set(called.values()):
        return roads, places, zones
    return (
        [
            replace(
                road, tail=called.get(road.tail, road.tail), head=called.get(road.head, road.head)
            )
            for road in roads
        ],
        {called.get(node, node): place for node, place in places.items()},
        {zone: zone for zone in called.values()},
    )


def _zones(table: Table, column: str, nodes: Sequence[str]) -> dict[str, str] | None:
    """The zone of each node that is one; None where the table does not tell."""
    if column not in table.columns:
        return None
    values = table.columns[column]
    there = (~missing(values)).tolist()
    return {
        node: _text(value)
        for node, value, is_zone in zip(nodes, values.tolist(), there, strict=True)
        if is_zone
    }


def _count(zones: Mapping[str, str] | None) -> int | None:
    return None if not zones else len(zones)


def _both_ways(roads: Sequence[_Road], table: Table, options: _Options) -> list[_Road]:
    """Links that are not directed as two; with the option all that have no opposite one."""
    if "directed" in table.columns:
        options.refuse("links of which a column `directed` says it", "both_ways")
        single = (~table.truths("directed")).tolist()
    elif options.both_ways:
        there = {(road.tail, road.head) for road in roads}
        single = [(road.head, road.tail) not in there for road in roads]
    else:
        return list(roads)
    found = []
    for road, twice in zip(roads, single, strict=True):
        found.append(road)
        if twice:
            name = None if road.name is None else f"{road.name}{BACK}"
            found.append(_Road(road.head, road.tail, road.figures, name, road.shape[::-1]))
    return found


def _one_way(roads: Sequence[_Road], *, said: bool) -> list[str]:
    """How many links lack an opposite link, in a sentence. `said`: a column says which have one."""
    there = {(road.tail, road.head) for road in roads}
    alone = [road for road in roads if (road.head, road.tail) not in there]
    if not alone:
        return []
    few, them = ("it is", "it") if len(alone) == 1 else ("they are", "each of them")
    lacks = "lacks" if len(alone) == 1 else "lack"
    such = f"{alone[0].tail} to {alone[0].head}"
    one_way = (
        f"{len(alone):,} of {len(roads):,} links {lacks} an opposite link, such as {such}: "
        f"{few} one-way"
    )
    if said:
        return [one_way]
    return [
        f"{one_way}; if {few} not, --both-ways (both_ways=True in Python) or a column "
        f"`directed` makes two links of {them}"
    ]


def _once(roads: Sequence[_Road], doubled: str) -> tuple[list[_Road], list[str]]:
    """Each street once, as `doubled` says, and in a sentence what that changed. Doubled is what is
    the same in ends, name and figures; links side by side that differ are kept."""
    alike: dict[tuple[Any, ...], list[_Road]] = {}
    for road in roads:
        alike.setdefault(
            (road.tail, road.head, road.name, *sorted(road.figures.items())), []
        ).append(road)
    more = [same for same in alike.values() if len(same) > 1]
    if not more:
        return list(roads), []
    streets = [
        f"{same[0].tail} to {same[0].head}{f', {same[0].name}' if same[0].name else ''}"
        for same in more
    ]
    rest = len(more) - MOST_FAULTS
    listed = "; ".join(streets[:MOST_FAULTS]) + (f"; and {rest:,} more" if rest > 0 else "")
    link = "1 link stands" if len(more) == 1 else f"{len(more):,} links stand"
    if doubled == "refuse":
        raise TableError(
            f"{link} more than once with the same ends, name and figures: {listed}. So they would "
            "carry twice as much. --doubled keep-first takes each once, --doubled sum makes one "
            "link of them with their capacities together (doubled= in Python)"
        )
    if doubled == "keep-first":
        return [same[0] for same in alike.values()], [
            f"{link} more than once, taken once each: {listed}"
        ]
    summed = [
        replace(
            same[0],
            figures={**same[0].figures, "capacity": same[0].figures["capacity"] * len(same)},
        )
        for same in alike.values()
    ]
    return summed, [
        f"{link} more than once, made one link each with their capacities together: {listed}"
    ]


def _link_names(roads: Sequence[_Road]) -> list[str] | None:
    """A name for each link, all different: a street that is several links is told apart by their
    ends. None where no link has one."""
    if all(road.name is None for road in roads):
        return None
    often = Counter(road.name for road in roads)
    found = [
        f"{(road.name or '').removesuffix(BACK)} ({road.tail} → {road.head})".strip()
        if road.name is None or often[road.name] > 1
        else road.name
        for road in roads
    ]
    seen: dict[str, int] = {}
    for place, name in enumerate(found):
        label = name
        while label in seen:  # links side by side
            seen[name] += 1
            label = f"{name} {seen[name]}"
        seen[label] = 1
        found[place] = label
    return found


def _assembled(
    roads: Sequence[_Road],
    places: Mapping[str, Point | None] | None,
    zones: Mapping[str, str] | None,
    options: _Options,
    *,
    directed: bool = False,
) -> tuple[Json, list[str]]:
    """Nodes as 1..n: zones first, in the order of their names; numbers in their order, other names
    as they came."""
    ends = dict.fromkeys(node for road in roads for node in (road.tail, road.head))
    if places is not None:
        _known_ends(roads, places)
    nodes = list(ends if places is None else places)
    if all(_is_number(node) for node in nodes):
        nodes.sort(key=int)
    notes = _one_way(roads, said=directed)
    if zones:
        by_zone: dict[str, str] = {}
        for node, zone in zones.items():
            if zone in by_zone:
                says = (
                    f"zone {zone} has the nodes {by_zone[zone]} and {node}; here a zone is one "
                    "node:"
                )
                raise TableError(f"{says} a centroid, which connectors join to the others")
            by_zone[zone] = node
        order = sorted(
            by_zone,
            key=lambda zone: (not _is_number(zone), int(zone) if _is_number(zone) else 0, zone),
        )
        first = [by_zone[zone] for zone in order]
        nodes = first + [node for node in nodes if node not in zones]
        more = ", …" if len(first) > SHOWN_ZONES else ""
        notes.append(
            f"the first {len(first)} nodes are the zones, in the order of the zones' names: from "
            f"zone 1 on {', '.join(first[:SHOWN_ZONES])}{more}"
        )
    else:
        more = ", …" if len(nodes) > SHOWN_ZONES else ""
        notes.append(
            "no file says which nodes are zones: those of a dataset are the first nodes, from "
            f"zone 1 on {', '.join(nodes[:SHOWN_ZONES])}{more}"
        )
        if not options.through_zones:
            raise TableError("through_zones: the file does not tell which nodes are zones")
    number = {node: place for place, node in enumerate(nodes, start=1)}
    if loops := list(dict.fromkeys(road.tail for road in roads if road.tail == road.head)):
        raise TableError(f"links lead from a node to itself, at {_few(loops, 'node')}")
    network: Json = {
        "nodes": len(nodes),
        "links": [
            {"tail": number[road.tail], "head": number[road.head], **road.figures} for road in roads
        ],
    }
    if zones and not options.through_zones:
        network["first_through_node"] = len(zones) + 1
    if nodes != [str(place) for place in number.values()]:
        network["node_names"] = nodes
    known = [point for node in nodes if (point := (places or {}).get(node)) is not None]
    if known:  # of all nodes or of none
        network["nodes_xy"] = [list(point) for point in known]
    if names := _link_names(roads):
        network["link_names"] = names
        if few := sum(name != road.name for name, road in zip(names, roads, strict=True)):
            notes.append(
                f"{few:,} of {len(roads):,} links have no name, or share one: the nodes at their "
                "ends are added to it"
            )
    if any(road.shape for road in roads) and not known:
        notes.append(
            "nodes have no coordinates, so there is no map and the lines of links are left out"
        )
    elif any(road.shape for road in roads):
        network["link_shapes"] = [[list(point) for point in road.shape] for road in roads]
    return network, notes


def _known_ends(roads: Sequence[_Road], nodes: Collection[str]) -> None:
    ends = dict.fromkeys(node for road in roads for node in (road.tail, road.head))
    if lost := [node for node in ends if node not in nodes]:
        raise TableError(f"links end at {_few(lost, 'node')}, missing from the table of nodes")


def _unread(table: Table, read: Iterable[str], file: str) -> list[str]:
    rest = [name for name in table.columns if name not in set(read)]
    return [f"{file}: nothing was asked of {', '.join(rest)}"] if rest else []


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _text(value: Any) -> str:
    return (
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    )
