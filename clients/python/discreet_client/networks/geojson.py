"""GeoJSON: LineStrings are links, Points are nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client.networks.assembly import assembled, each_street_once, with_opposite_links
from discreet_client.networks.links import link_figures, links_of, street_names
from discreet_client.networks.measures import said_in_minutes
from discreet_client.networks.nodes import called_by_zones, zone_count
from discreet_client.networks.roads import (
    MOST_FAULTS,
    AnyFile,
    Json,
    Made,
    Options,
    Point,
    Road,
    finite_point,
    some_of,
    text_of,
)
from discreet_client.tables import Table, TableError


def read_geojson(paths: Sequence[AnyFile], options: Options) -> Made:
    lines: list[Json] = []
    points: list[Json] = []
    for path in paths:
        wrong: dict[str, list[int]] = {}
        for position, feature in enumerate(features_of(path)):
            geometry = feature.get("geometry") if isinstance(feature, dict) else None
            kind = geometry.get("type") if isinstance(geometry, dict) else None
            if (one := _only_line(geometry)) is not None:
                kind, feature = "LineString", {**feature, "geometry": one}  # noqa: PLW2901
            if kind == "MultiLineString":
                says = (
                    "a MultiLineString of several lines: make each a feature of its own (QGIS: "
                    "Multipart to singleparts)"
                )
                wrong.setdefault(says, []).append(position)
            elif kind not in ("LineString", "Point"):
                wrong.setdefault(
                    f"{str(kind)[:40]} is not modelled, LineString and Point are", []
                ).append(position)
            elif not isinstance(feature.get("properties") or {}, dict):
                wrong.setdefault("properties are an object", []).append(position)
            else:
                (lines if kind == "LineString" else points).append(feature)
        if wrong:
            faults = (
                f"{path.name}, {some_of(places, 'feature')}: {says}"
                for says, places in wrong.items()
            )
            raise TableError("\n".join(islice(faults, MOST_FAULTS)))
    if not lines:
        raise TableError("GeoJSON: no LineString, and these are the links")
    drawn = [_coordinates(one["geometry"].get("coordinates")) for one in lines]
    if bent := [position for position, shape in enumerate(drawn) if shape is None]:
        raise TableError(f"{some_of(bent, 'line')}: a LineString has two points [x, y] or more")
    shapes = [shape for shape in drawn if shape is not None]
    source = _properties(lines)
    ends = all(one in options.columns or one in source.columns for one in ("tail", "head"))
    table, notes, left_out, warnings = links_of(source, "properties", "GeoJSON", options, ends=ends)
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
        Road(tail, head, figures, name, shape[1:-1])
        for tail, head, figures, name, shape in zip(
            tails, heads, link_figures(table), street_names(table), shapes, strict=True
        )
    ]
    zones = _zones_of_points(
        points, options, places, {point: node for node, point in places.items()}
    )
    roads, places, zones = called_by_zones(roads, places, zones)
    roads, once = each_street_once(with_opposite_links(roads, table, options), options)
    directed = "directed" in table.columns
    network, told = assembled(roads, places, zones, options, directed=directed)
    told = [*notes, *told, *once]
    return Made(said_in_minutes(network, notes), told, left_out, warnings, zone_count(zones))


def _only_line(geometry: Any) -> Json | None:
    """The one line of a MultiLineString, as QGIS writes every line; None of anything else."""
    if not isinstance(geometry, dict) or geometry.get("type") != "MultiLineString":
        return None
    parts = geometry.get("coordinates")
    if not isinstance(parts, list) or len(parts) != 1:
        return None
    return {"type": "LineString", "coordinates": parts[0]}


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
        points = tuple(finite_point(one) for one in value)
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
    return points if len(points) > 1 else None


def _properties(features: Sequence[Json]) -> Table:
    properties = [feature.get("properties") or {} for feature in features]
    return Table(_Columns(properties), np.arange(len(features)), "feature")


class _Columns(Mapping[str, NDArray[Any]]):
    """Properties by their names, each an array when it is asked for: where every feature has names
    of its own, all of them would be the square of a file."""

    def __init__(self, properties: Sequence[Json]) -> None:
        self._properties = properties
        self._names = dict.fromkeys(name for one in properties for name in one)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        return np.array([one.get(name) for one in self._properties] + [None], dtype=object)[:-1]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _zones_of_points(
    points: Sequence[Json], options: Options, places: dict[str, Point], at: Mapping[Point, str]
) -> dict[str, str] | None:
    """Zones of nodes, of Points with a property `zone`; a Point without `node` is the node at its
    place."""
    zone, node = options.columns.get("zone", "zone"), options.columns.get("node", "node")
    found: dict[str, str] = {}
    for position, one in enumerate(points):
        said = one.get("properties") or {}
        try:
            place = finite_point(one["geometry"].get("coordinates"))
        except (ValueError, TypeError, LookupError, OverflowError):
            raise TableError(f"point {position}: coordinates [x, y] are needed") from None
        name = text_of(said[node]) if said.get(node) is not None else at.get(place)
        if name not in places:
            raise TableError(f"point {position}: no line ends there, so it is no node")
        if said.get(zone) is not None:
            found[name] = text_of(said[zone])
    return found or None
