"""Charts of selected additional fields: who uses selected links, and the travel times of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.figures.charts import Blocks, Chart, Table, interval_of, largest
from discreet.figures.traces import bars, figure, heat, matrix_axes, plain
from discreet.problems.headlines import counted
from discreet.problems.road_networks.network import RoadNetwork

SHOWN_PAIRS = 40
SHOWN_LINKS = 30
NO_CHANGE = 1e-9
"""Changes below this fraction of the largest flow are left over by the assignment's gap."""
ON_THIS_POLICY = " Intervals hold what the true trips do on this policy, with 90 %."


def selection_charts(
    roads: RoadNetwork, result: Mapping[str, Any], names: Sequence[str] | None = None
) -> list[Chart]:
    """Charts of the fields `link_flow_changes`, `select_link` and `skims`, if the result has them.
    `names`: those of zones that have some."""
    charts = []
    if result.get("link_flow_changes"):
        charts.append(_changes(roads, result))
    charts += [
        _users(roads, result, field)
        for field in ("select_link", "select_link_by_class")
        if result.get(field)
    ]
    if "skims" in result:
        charts.append(_times(roads, np.array(result["skims"]), result, names))
    return charts


def _users(roads: RoadNetwork, result: Mapping[str, Any], field: str) -> Chart:
    rows, ends = result[field], interval_of(result, field)
    own = field == "select_link_by_class"
    trips = np.array([row["trips"] for row in rows])
    order = np.argsort(-trips, kind="stable")
    most = order[:SHOWN_PAIRS]
    ways = [
        f"{roads.called(row['origin'])} \u2192 {roads.called(row['destination'])} over link "
        f"{roads.way(row['link'])}{', ' + row['user_class'] if own else ''}"
        for row in (rows[k] for k in most.tolist())
    ]
    interval = None if ends is None else (ends[0][most], ends[1][most])
    trace = bars("trips a period", list(range(1, len(most) + 1)), trips[most], interval=interval)
    texts = [
        f"{plain(way)}: {trips[k]:.6g} trips" for way, k in zip(ways, most.tolist(), strict=True)
    ]
    trace |= {"text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    links = len({row["link"] for row in rows})
    shown = f"the {len(most)} largest of {len(rows)}" if len(most) < len(rows) else "all"
    columns = (
        *(("class",) if own else ()),
        "link",
        "from zone",
        "to zone",
        "share of the pair",
        "trips a period",
        *(() if ends is None else ("from", "to")),
    )
    table = (
        (
            *((rows[k]["user_class"],) if own else ()),
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
        caption=f"Trips a period of each pair of zones over {counted(links, 'chosen link')}: "
        f"{shown}. They follow from the released demand and "
        "policy." + ("" if ends is None else ON_THIS_POLICY),
        figure=figure([trace], x="pairs, most trips first", y="trips a period", height=320),
        table=Table.of(columns, table),
    )


def _changes(roads: RoadNetwork, result: Mapping[str, Any]) -> Chart:
    moved, ends = np.array(result["link_flow_changes"]), interval_of(result, "link_flow_changes")
    flows = np.array(result["link_flows"])
    order = np.argsort(-np.abs(moved), kind="stable")
    most = order[
        : min(
            SHOWN_LINKS,
            int(np.count_nonzero(np.abs(moved) > NO_CHANGE * np.abs(flows).max(initial=1.0))),
        )
    ]
    interval = None if ends is None else (ends[0][most], ends[1][most])
    trace = bars("change", list(range(1, len(most) + 1)), moved[most], interval=interval)
    texts = [f"{plain(roads.way(k))}: {moved[k]:+,.6g} trips" for k in most.tolist()]
    trace |= {"text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    rows = (
        (
            *(roads.way(k), float(flows[k] - moved[k]), float(flows[k]), float(moved[k])),
            *(() if ends is None else (float(ends[0][k]), float(ends[1][k]))),
        )
        for k in order.tolist()
    )
    columns = ("link", "all roads open", "now", "change", *(() if ends is None else ("from", "to")))
    told = (
        ""
        if ends is None
        else " Whiskers: what the noise leaves open of the change itself, with 90 %."
    )
    return Chart(
        name="closing",
        title="What closing changes",
        caption=f"Trips a period that {counted(len(most), 'link')} carry more or less than with "
        f"all roads open, of the same released trips, the largest changes first.{told}",
        figure=figure(
            [trace], x="links, largest change first", y="trips a period, change", height=320
        ),
        table=Table.of(columns, rows),
    )


def _times(
    roads: RoadNetwork,
    times: NDArray[np.float64],
    result: Mapping[str, Any],
    names: Sequence[str] | None,
) -> Chart:
    ends = interval_of(result, "skims")
    blocks = Blocks.of(len(times), names=names) if names else Blocks.of(len(times), first=1)
    pairs = blocks.sums(~np.eye(len(times), dtype=bool))
    trace = heat(
        blocks.sums(times) / np.maximum(pairs, 1.0),
        x=[plain(one) for one in blocks.labels],
        y=[plain(one) for one in blocks.labels],
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
        caption="Time that a trip from each zone (row) to each other (column) takes in the mean "
        f"on its paths at the released flows, in {roads.time_unit or 'the unit of free_flow_time'}."
        f"{'' if ends is None else ON_THIS_POLICY}{blocks.says}",
        figure=figure([trace], x="destination", y="origin", height=460, **matrix_axes()),
        table=Table.of(
            ("from zone", "to zone", "time", *(() if ends is None else ("from", "to"))), rows
        ),
    )
