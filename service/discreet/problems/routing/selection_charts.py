"""Charts of what was chosen beside the flows: who uses chosen links, and the travel times of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.figures.charts import Blocks, Chart, Table, interval_of, largest
from discreet.figures.traces import bars, figure, heat, matrix_axes, plain
from discreet.problems.headlines import counted
from discreet.problems.road_network import RoadNetwork

SHOWN_PAIRS = 40
ON_THIS_POLICY = " Intervals hold what the true trips do on this policy, with 90 %."


def selection_charts(roads: RoadNetwork, result: Mapping[str, Any]) -> list[Chart]:
    """Of the fields `select_link` and `skims`, where the result has them in itself."""
    charts = []
    if result.get("select_link"):
        charts.append(_users(roads, result))
    if "skims" in result:
        charts.append(_times(roads, np.array(result["skims"]), result))
    return charts


def _users(roads: RoadNetwork, result: Mapping[str, Any]) -> Chart:
    rows, ends = result["select_link"], interval_of(result, "select_link")
    trips = np.array([row["trips"] for row in rows])
    order = np.argsort(-trips, kind="stable")
    most = order[:SHOWN_PAIRS]
    ways = [
        f"{roads.called(row['origin'])} \u2192 {roads.called(row['destination'])} over link {roads.way(row['link'])}"
        for row in (rows[k] for k in most.tolist())
    ]
    interval = None if ends is None else (ends[0][most], ends[1][most])
    trace = bars("trips a period", list(range(1, len(most) + 1)), trips[most], interval=interval)
    texts = [f"{plain(way)}: {trips[k]:.6g} trips" for way, k in zip(ways, most.tolist(), strict=True)]
    trace |= {"text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    links = len({row["link"] for row in rows})
    shown = f"the {len(most)} largest of {len(rows)}" if len(most) < len(rows) else "all"
    columns = (
        "link",
        "from zone",
        "to zone",
        "share of the pair",
        "trips a period",
        *(() if ends is None else ("from", "to")),
    )
    table = (
        (
            roads.way(rows[k]["link"]),
            roads.called(rows[k]["origin"]),
            roads.called(rows[k]["destination"]),
            rows[k]["share"],
            rows[k]["trips"],
            *(() if ends is None else (float(ends[0][k]), float(ends[1][k]))),
        )
        for k in order.tolist()
    )
    return Chart(
        name="select-link",
        title="Who uses the chosen links",
        caption=f"Trips a period of each pair of zones over {counted(links, 'chosen link')}: {shown}. They follow from "
        "the released demand and policy." + ("" if ends is None else ON_THIS_POLICY),
        figure=figure([trace], x="pairs, most trips first", y="trips a period", height=320),
        table=Table.of(columns, table),
    )


def _times(roads: RoadNetwork, times: NDArray[np.float64], result: Mapping[str, Any]) -> Chart:
    ends = interval_of(result, "skims")
    blocks = Blocks.of(len(times), first=1)
    pairs = blocks.sums(~np.eye(len(times), dtype=bool))
    trace = heat(
        blocks.sums(times) / np.maximum(pairs, 1.0),
        x=blocks.labels,
        y=blocks.labels,
        hover="from %{y} to %{x}: %{z}",
        title="travel time",
    )
    rows = [
        (
            roads.called(origin),
            roads.called(to),
            time,
            *(() if ends is None else (float(end[origin - 1, to - 1]) for end in ends)),
        )
        for origin, to, time in largest(times, first=1)
    ]
    return Chart(
        name="skims",
        title="Travel times",
        caption="Time that a trip from each zone (row) to each other (column) takes in the mean on its paths at the "
        f"released flows, in {roads.time_unit or 'the unit of free_flow_time'}."
        f"{'' if ends is None else ON_THIS_POLICY}{blocks.says}",
        figure=figure([trace], x="destination", y="origin", height=460, **matrix_axes()),
        table=Table.of(("from zone", "to zone", "time", *(() if ends is None else ("from", "to"))), rows),
    )
