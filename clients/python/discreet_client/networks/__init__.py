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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from discreet_client.cells import DECIMALS, Grammar
from discreet_client.networks.csv_tables import read_tables
from discreet_client.networks.geojson import read_geojson
from discreet_client.networks.gmns import read_gmns
from discreet_client.networks.measures import in_a_period
from discreet_client.networks.roads import (
    DOUBLED,
    NODE,
    NODES,
    TIME_UNITS,
    AnyFile,
    FileInMemory,
    NetworkReading,
    Options,
    encodings,
)
from discreet_client.networks.tntp_files import read_tntp
from discreet_client.option_words import PYTHON, Words
from discreet_client.reading import is_figure
from discreet_client.tables import TableError, read_csv

__all__ = ["FileInMemory", "NetworkReading", "read"]

NOT_MODELLED = {
    "movement.csv": "turns and what they cost",
    "link_tod.csv": "links that change over the day",
    "segment.csv": "links whose lanes change along them",
}
"""GMNS tables that change what a link costs."""


GEODATA = (".shp", ".gpkg", ".gdb", ".kml", ".gml", ".fgb", ".zip")
"""Endings of geodata that GDAL reads."""


def _converted(ending: str) -> str:
    """What makes a network file of this one, if it is geodata."""
    if ending not in GEODATA:
        return ""
    return ": `ogr2ogr -t_srs EPSG:4326 roads.geojson FILE` (GDAL) or QGIS writes one from it"


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
    decimal: str | None = None,
    words: Words = PYTHON,
) -> NetworkReading:
    """The network of these files, of which the names and first lines tell the format.

    TNTP: `…_net.tntp`, with `…_node.tntp` for coordinates. GMNS: `link.csv` and `node.csv`, with
    `config.csv` for the units, or their folder. CSV: a table of links (tail, head, free_flow_time,
    capacity; instead of the time length and speed, with `units`; b, power, fixed_cost, toll, name,
    directed), with one of nodes (node; x and y, zone where there). GeoJSON: LineStrings with these
    properties of links, Points with node and zone; lines without tail and head join the places
    where they end.

    columns: your name of each of these columns. A table with the columns of GMNS is GMNS, whatever
    else is called otherwise, unless tail, head or node are chosen; `node_name` is the column of
    node.csv that nodes are called by instead of their ids. decimal: "." or ",", where nothing else
    tells what 1.234 is. units: of length (KILOMETRES) and speed (SPEEDS),
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
    zone. words: how sentences name these options to who reads.
    """
    paths = _listed(files)
    options = Options(
        *(
            dict(columns or {}),
            units,
            toll_weight,
            distance_weight,
            through_zones,
            both_ways,
            time_unit,
        ),
        *(lane_capacity, speed, doubled, decimal, words),
    )
    if decimal not in (None, *DECIMALS):
        raise TableError(
            f"{words.name('decimal')} is {' or '.join(DECIMALS)}, not {str(decimal)[:40]}",
            "decimal",
        )
    if doubled not in DOUBLED:
        raise TableError(
            f"{words.name('doubled')} is {', '.join(DOUBLED)}, not {str(doubled)[:40]}", "doubled"
        )
    if lane_capacity is not None and not (is_figure(lane_capacity) and lane_capacity > 0):
        raise TableError(
            f"{words.name('lane_capacity')} is a number of vehicles above 0, not "
            f"{str(lane_capacity)[:40]}",
            "lane_capacity",
        )
    if speed is not None and not (is_figure(speed) and speed > 0):
        raise TableError(
            f"{words.name('speed')} is a number above 0, not {str(speed)[:40]}", "speed"
        )
    if time_unit not in (None, *TIME_UNITS):
        raise TableError(
            f"{words.name('time_unit')} is {', '.join(TIME_UNITS)}, not {str(time_unit)[:40]}",
            "time_unit",
        )
    kinds = {path: path.suffix.lower() for path in paths}
    of_gmns = False
    if any(kind == ".tntp" for kind in kinds.values()):
        made = read_tntp(paths, options)
    elif any(kind in (".geojson", ".json") for kind in kinds.values()):
        made = read_geojson(paths, options)
    elif all(kind == ".csv" for kind in kinds.values()):
        ways = {
            "decimal": f"say {words.option('decimal', '.')}",
            "units_row": "where this row says the units, delete it",
        }
        grammar = Grammar(decimal=decimal)
        tables = {
            path: replace(
                read_csv(
                    path.read_bytes(),
                    path.name,
                    *encodings(encoding),
                    words=words,
                    grammar=grammar,
                ),
                ways=ways,
            )
            for path in paths
        }
        of_gmns = any(
            "from_node_id" in table.columns and "free_speed" in table.columns
            for table in tables.values()
        )
        of_gmns = of_gmns and not options.columns.keys() & {*NODES, *NODE}
        made = read_gmns(tables, options) if of_gmns else read_tables(tables, options)
    else:
        raise TableError(
            f"{paths[0].name} is not a network file: .tntp, .csv, .geojson or a folder of GMNS is "
            f"needed{_converted(kinds[paths[0]])}"
        )
    made = in_a_period(made, of_gmns, period_minutes, words)
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


def _name_of(paths: Sequence[AnyFile]) -> str:
    first = paths[0]
    stem = first.stem.removesuffix("_net").removesuffix("_node")
    if isinstance(first, Path) and stem in ("link", "node"):
        return first.resolve().parent.name
    return stem
