"""Results of routing in the file formats of the field: link flows as CSV, GeoJSON, GMNS's link.csv
or Parquet, demand and skims as OMX, the pairs that use chosen links as CSV; and the busiest links,
for display.

Links keep the order, names and geometry of their network; nodes are given by name. Each flow comes
with flow / capacity and, where the result has one, its interval. Coordinates are written as they
are in the network: GeoJSON defines them as longitude and latitude (RFC 7946), so only those appear
at the right place of a map.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet_client.closing import names_of, node_name
from discreet_client.errors import MissingExtra
from discreet_client.names import spreadsheet_cell

Json = dict[str, Any]

FORMATS = ("csv", "geojson", "gmns", "parquet")
OMX_VERSION = b"0.2"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""By this mark Excel recognizes UTF-8."""


class NotWritten(ValueError):
    """The result has nothing that can be written in this form; the sentence says why."""


def link_flows(
    result: Mapping[str, Any], network: Mapping[str, Any], form: str, *, decimal: str = "."
) -> bytes:
    """The file of a result's link flows. `result`: the member `result` of `GET
    /v1/jobs/{id}/result`; `network`: as in a problem of kind routing; `decimal`: the decimal sign
    of CSV, `,` for spreadsheets that use it, with semicolons between columns. NotWritten if the
    result has no link flows, or the form needs coordinates that the network lacks.
    """
    if form not in FORMATS:
        raise NotWritten(f"link flows are written as {', '.join(FORMATS)}, not as {form}")
    if decimal not in (".", ",") or (decimal == "," and form != "csv"):
        raise NotWritten("decimal is a point or, for csv only, a comma")
    rows = _rows(result, network)
    if form == "geojson":
        return _geojson(rows, network)
    if form == "csv":
        shown = rows_of_links(result, network)
        return BYTE_ORDER_MARK + as_csv(shown, ["link", "from_node", "to_node"], decimal)
    return _gmns(rows, network) if form == "gmns" else as_parquet(rows)


def busiest(result: Mapping[str, Any], network: Mapping[str, Any], most: int) -> list[Json]:
    """The links with the largest flows, at most so many, largest first: name, from_node, to_node,
    flow, flow_over_capacity, determined where some flows are not, flow_lower and flow_upper where
    there are intervals (None where one has none), and noise: whether the flow is mostly noise.
    NotWritten as for `link_flows`."""
    rows = _rows(result, network)
    noise = ((result.get("uncertainty") or {}).get("noise_dominates") or {}).get("link_flows")
    names = names_of(network)
    order = sorted(range(len(rows)), key=lambda place: -rows[place]["flow"])[:most]
    return [
        {
            "name": names[place],
            "from_node": rows[place]["from_node_id"],
            "to_node": rows[place]["to_node_id"],
            **{field: rows[place][field] for field in _FIGURES if field in rows[place]},
            "noise": bool(noise[place]) if isinstance(noise, list) else bool(noise),
        }
        for place in order
    ]


def changes(result: Mapping[str, Any], network: Mapping[str, Any], most: int) -> list[Json]:
    """The open links whose flows change most when others are closed, at most so many, of a result
    with `closed_links`: name, before, after, level, and change_lower and change_upper where there
    are intervals. NotWritten if the result has no changes."""
    moved, names = result.get("link_flow_changes"), names_of(network)
    if moved is None:
        raise NotWritten(
            "this result has no link_flow_changes: no links were closed (closed_links)"
        )
    rows, closed, ends = (
        _rows(result, network),
        set(result.get("closed") or ()),
        _ends(result, "link_flow_changes"),
    )
    level = (result.get("uncertainty") or {}).get("level", 0.9)
    ways = [f"{row['link_id']} ({row['from_node_id']} → {row['to_node_id']})" for row in rows]
    there = [place for place, way in enumerate(ways) if not {way, names[place]} & closed]
    there.sort(key=lambda place: -abs(moved[place]))
    return [
        {
            "name": names[place],
            "before": rows[place]["flow"] - moved[place],
            "after": rows[place]["flow"],
            "level": level,
            **{f"change_{end}": ends[end][place] for end in ends},
        }
        for place in there[:most]
    ]


_FIGURES = ("flow", "flow_over_capacity", "determined", "flow_lower", "flow_upper")


def demand_matrix(result: Mapping[str, Any]) -> bytes:
    """The released demand as an OMX file (open matrix, HDF5; extra `omx`): matrices float64[zones,
    zones] of mean trips a period, `demand` and, where the result has intervals, their ends
    `demand_lower` and `demand_upper`; likewise `skims`, travel times, where the problem asked for
    them; with user classes also `demand_CLASS` and `skims_CLASS`. The mapping `zones` holds the
    zones' numbers, from 1. NotWritten if the result has no demand.
    """
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        raise MissingExtra("h5py", "omx", "an OMX file") from None
    trips = result.get("demand")
    if trips is None:
        raise NotWritten("this result has no demand: method counts of kind routing releases it")
    matrices: dict[str, Any] = {}
    for field in ("demand", "skims"):
        if result.get(field) is not None:
            ends = _ends(result, field)
            matrices |= {
                field: result[field],
                **{f"{field}_{end}": ends[end] for end in ends if ends[end]},
            }
    for field in ("demand", "skims"):
        of_all = result.get(f"{field}_by_class") or ()
        ends = _ends(result, f"{field}_by_class")
        for place, name in enumerate(result["user_classes"] if of_all else ()):
            matrices[f"{field}_{name}"] = of_all[place]
            matrices |= {f"{field}_{name}_{end}": ends[end][place] for end in ends}
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.attrs["OMX_VERSION"] = OMX_VERSION
        file.attrs["SHAPE"] = np.array([len(trips), len(trips)], dtype=np.int32)
        data = file.create_group("data")
        for name, matrix in matrices.items():
            # null, where there is no interval, becomes NaN.
            values = np.array(matrix, dtype=np.float64)
            data.create_dataset(name, data=values, compression="gzip", compression_opts=1)
        file.create_group("lookup").create_dataset("zones", data=np.arange(1, len(trips) + 1))
    return out.getvalue()


def selected_links(result: Mapping[str, Any], network: Mapping[str, Any]) -> bytes:
    """The trips of each pair over the chosen links (`select_links` of the problem) as CSV:
    user_class where trips have classes, link_id, from_node_id, to_node_id, origin and destination
    by name, share, trips and, where there are intervals, trips_lower and trips_upper. NotWritten if
    the result has none."""
    field = "select_link" if "select_link" in result else "select_link_by_class"
    rows = result.get(field)
    if rows is None:
        raise NotWritten(
            "this result has no select_link: ask again with select_links, the positions of links"
        )
    ends = _ends(result, field)
    links = network["links"]
    if any(row["link"] >= len(links) for row in rows):
        raise NotWritten(
            f"the result has links beyond the {len(links)} of the network: it is of another network"
        )
    found = [
        {
            **({"user_class": row["user_class"]} if "user_class" in row else {}),
            **_link_ids(network, row["link"]),
            "origin": node_name(network, row["origin"]),
            "destination": node_name(network, row["destination"]),
            "share": row["share"],
            "trips": row["trips"],
            **{f"trips_{end}": ends[end][place] for end in ends},
        }
        for place, row in enumerate(rows)
    ]
    return as_csv(found, ["link_id"])


def _ends(result: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The `lower` and `upper` ends of a field's intervals, if it has any."""
    ends = ((result.get("uncertainty") or {}).get("values") or {}).get(field) or {}
    return {end: ends[end] for end in ("lower", "upper") if ends.get(end) is not None}


def as_csv(rows: list[Json], fields: list[str], decimal: str = ".") -> bytes:
    """Rows as CSV; `fields`: the names of the columns if there are no rows. A text that a
    spreadsheet would take for a formula stays a text."""
    text = io.StringIO(newline="")
    names = list(rows[0]) if rows else fields
    writer = csv.DictWriter(
        text, fieldnames=names, lineterminator="\n", delimiter=";" if decimal == "," else ","
    )
    writer.writeheader()
    for row in rows:
        figures = {
            name: str(one).replace(".", decimal)
            for name, one in row.items()
            if isinstance(one, float)
        }
        writer.writerow({name: spreadsheet_cell(one) for name, one in (row | figures).items()})
    return text.getvalue().encode()


def _rows(result: Mapping[str, Any], network: Mapping[str, Any]) -> list[Json]:
    flows = result.get("link_flows")
    if flows is None:
        raise NotWritten(
            "this result has no link flows: only method counts of kind routing releases demand and "
            "assigns it"
        )
    links = network["links"]
    if len(flows) != len(links):
        raise NotWritten(
            f"the result has {len(flows)} link flows, the network {len(links)} links: it is of "
            "another network"
        )
    ends = _ends(result, "link_flows")
    lower, upper = ends.get("lower"), ends.get("upper")
    left_open = set(result.get("undetermined_links") or ())
    return [
        {
            **_link_ids(network, place),
            "directed": True,
            "free_flow_time": link["free_flow_time"],
            "capacity": link["capacity"],
            "flow": flow,
            "flow_over_capacity": flow / link["capacity"],
            **({"determined": place not in left_open} if left_open else {}),
            **(
                {}
                if lower is None or upper is None
                else {"flow_lower": lower[place], "flow_upper": upper[place]}
            ),
        }
        for place, (link, flow) in enumerate(zip(links, flows, strict=True))
    ]


def _link_ids(network: Mapping[str, Any], place: int) -> Json:
    names, link = network.get("link_names"), network["links"][place]
    return {
        "link_id": str(place) if names is None else names[place],
        "from_node_id": node_name(network, link["tail"]),
        "to_node_id": node_name(network, link["head"]),
    }


def _lines(network: Mapping[str, Any]) -> list[list[list[float]]] | None:
    """The points of every link's line; None if the network has no coordinates."""
    places, shapes = network.get("nodes_xy"), network.get("link_shapes")
    if places is None:
        return None
    return [
        [
            places[link["tail"] - 1],
            *([] if shapes is None else shapes[place]),
            places[link["head"] - 1],
        ]
        for place, link in enumerate(network["links"])
    ]


def _geojson(rows: list[Json], network: Mapping[str, Any]) -> bytes:
    lines = _lines(network)
    if lines is None:
        raise NotWritten("GeoJSON needs coordinates, and this network has none (nodes_xy)")
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "LineString", "coordinates": line},
            "properties": row,
        }
        for row, line in zip(rows, lines, strict=True)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}, allow_nan=False).encode()


def _gmns(rows: list[Json], network: Mapping[str, Any]) -> bytes:
    lines = _lines(network)
    if lines is not None:
        for row, line in zip(rows, lines, strict=True):
            row["geometry"] = f"LINESTRING ({', '.join(f'{x!r} {y!r}' for x, y in line)})"
    # The capacity of all lanes together, as in the network, and per hour if the network names the
    # period of its capacities.
    hours = (network.get("period_minutes") or 60) / 60
    changed = (
        {**row, "directed": 1, "capacity": row["capacity"] / hours, "lanes": 1} for row in rows
    )
    return as_csv(list(changed), ["link_id", "from_node_id", "to_node_id", "directed"])


def rows_of_links(result: Mapping[str, Any], network: Mapping[str, Any]) -> list[Json]:
    """Names and figures of each link for a spreadsheet, without geometry. NotWritten as for
    `link_flows`."""
    rows, names = _rows(result, network), names_of(network)
    return [
        {
            "link": names[place],
            "from_node": row["from_node_id"],
            "to_node": row["to_node_id"],
            **{
                field: row[field]
                for field in ("free_flow_time", "capacity", *_FIGURES)
                if field in row
            },
        }
        for place, row in enumerate(rows)
    ]


def as_parquet(rows: list[Json]) -> bytes:
    """Rows as Parquet (extra `arrow`)."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional
        import pyarrow.parquet as pq  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingExtra("pyarrow", "arrow", "a Parquet file") from None

    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()
