"""Charts of each class of users: the cost of a trip, its links, its demand and its travel times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter

from discreet.figures.charts import BLOCKS, Blocks, Chart, Table, largest, noise_of
from discreet.figures.series import MAX_FRAME_NUMBERS
from discreet.figures.traces import Trace, bars, figure, heat, matrix_axes, plain, rounded
from discreet.problems.road_networks.network import AffineLatency, BprLatency, RoadNetwork
from discreet.problems.routing.request import UserClass

Floats = NDArray[np.float64]

SHOWN_LINKS = 60
PATTERNS = ("", "/", ".", "x", "-", "|", "+", "\\")
"""Patterns of stacked bars, which are distinguishable without colours."""
CONTROL = "Class of users"
_LATENCY: TypeAdapter[AffineLatency | BprLatency] = TypeAdapter(
    Annotated[AffineLatency | BprLatency, Field(discriminator="type")]
)


def class_charts(
    problem: Mapping[str, Any],
    plan: dict[str, Any],
    result: Mapping[str, Any],
    names: Sequence[str] | None,
) -> list[Chart]:
    """Charts of the fields `demand_by_class`, `link_flows_by_class` and `skims_by_class`, if the
    result has them. `names`: those of zones that have some."""
    if "link_flows_by_class" not in result:
        return []
    roads = RoadNetwork.model_validate(problem["network"])
    classes, flows = list(result["user_classes"]), np.array(result["link_flows_by_class"])
    charts = [_flows(roads, classes, flows)]
    if "demand_by_class" in result:
        demand = np.array(result["demand_by_class"])
        charts.insert(0, _costs(problem, roads, classes, flows, demand, result))
        charts.append(_demand(classes, demand, plan, names))
    if "skims_by_class" in result:
        charts.append(_times(roads, classes, np.array(result["skims_by_class"]), names))
    return charts


def _stacked(name: str, x: Sequence[Any], y: Floats, place: int, unit: str) -> Trace:
    trace = bars(name, x, y, place)
    trace["marker"]["pattern"] = {"shape": PATTERNS[place % len(PATTERNS)], "fillmode": "overlay"}
    return trace | {"hovertemplate": f"{plain(name)}: %{{y}} {unit}<extra></extra>"}


def _costs(
    problem: Mapping[str, Any],
    roads: RoadNetwork,
    classes: list[str],
    flows: Floats,
    demand: Floats,
    result: Mapping[str, Any],
) -> Chart:
    """The mean cost of a trip of each class: time, and fixed costs by the class's weight."""
    told = {one["name"]: UserClass(**one) for one in problem.get("user_classes") or ()}
    weights = [(told.get(name) or UserClass(name=name)).fixed_cost_weight for name in classes]
    network = roads.arrays(demand.shape[1])
    latency = roads.latencies(
        _LATENCY.validate_python(problem.get("latency") or {"type": "affine"})
    )
    times = replace(latency, fixed_cost=0.0).times(network, np.array(result["link_flows"]))
    trips = demand.sum(axis=(1, 2))
    each = np.where(trips > 0, trips, np.nan)
    parts = np.stack([flows @ times, np.array(weights) * (flows @ latency.fixed_cost)]) / each
    unit = roads.time_unit or "the unit of the links' times"
    labels = ["time on the road"] + (["fixed costs by its weight"] if parts[1].any() else [])
    shown = [plain(name) for name in classes]
    data = [
        _stacked(label, shown, np.nan_to_num(part), place, unit)
        for place, (label, part) in enumerate(zip(labels, parts, strict=False))
    ]
    together = [*parts, parts.sum(axis=0)]
    rows = [
        (
            name,
            float(trips[c]),
            *(float(one[c]) if trips[c] > 0 else "no trips" for one in together),
        )
        for c, name in enumerate(classes)
    ]
    return Chart(
        name="class-costs",
        title="What a trip costs each class of users",
        caption=f"Mean of the trips of a class at the released flows, in {unit}: the time that its "
        "ways take, and fixed costs such as tolls by the class's own weight. Two classes meet the "
        "same times; they differ by where their trips go and which fixed costs they avoid. It "
        "follows from the released demand and policy.",
        figure=figure(data, x="class of users", y=f"a trip, in {unit}", barmode="stack"),
        table=Table.of(("class", "trips a period", "time", "fixed costs", "together"), rows),
    )


def _flows(roads: RoadNetwork, classes: list[str], flows: Floats) -> Chart:
    total = flows.sum(axis=0)
    order = np.argsort(-total, kind="stable")
    most = order[:SHOWN_LINKS]
    x = list(range(1, most.size + 1))
    ways = [plain(roads.way(k)) for k in most.tolist()]
    data = []
    for place, name in enumerate(classes):
        trace = _stacked(name, x, flows[place][most], place, "trips")
        trace |= {"text": ways, "textposition": "none"}
        trace["hovertemplate"] = f"%{{text}}, {plain(name)}: %{{y}} trips<extra></extra>"
        data.append(trace)
    shown = (
        f"the {most.size} links with the most trips of {total.size}"
        if most.size < total.size
        else "all links"
    )
    rows = ((roads.way(k), *flows[:, k].tolist(), float(total[k])) for k in order.tolist())
    return Chart(
        name="class-flows",
        title="Flows by class of users",
        caption=f"Trips a period of each class over {shown}, not counted in passenger cars. Where "
        "ways differ by no fixed cost, who takes which is one of several divisions of the same "
        "flows.",
        figure=figure(
            data, x=f"{shown}, most trips first", y="trips a period", height=340, barmode="stack"
        ),
        table=Table.of(("link", *classes, "together"), rows),
    )


def _matrices(
    merged: Floats, classes: list[str], labels: Sequence[str], *, hover: str, title: str
) -> dict[str, Any]:
    """A matrix for each class with a common colour scale, one of which is selected. merged:
    float64[class, block, block]; labels: those of the blocks."""
    shown = [plain(one) for one in labels]
    top = float(merged.max(initial=0.0))
    trace = heat(merged[0], x=shown, y=shown, hover=hover, title=title, top=top)
    drawn = figure([trace], x="destination", y="origin", height=460, **matrix_axes())
    drawn["frames"] = [
        {"name": name, "data": [{"z": rounded(matrix, 4)}]}
        for name, matrix in zip(classes, merged, strict=True)
    ]
    return drawn


def _blocks(matrices: Floats, names: Sequence[str] | None) -> Blocks:
    most = min(BLOCKS, max(2, int((MAX_FRAME_NUMBERS / len(matrices)) ** 0.5)))
    size = matrices.shape[1]
    return Blocks.of(size, first=1, most=most) if names is None else Blocks.of(size, 0, most, names)


def _demand(
    classes: list[str], demand: Floats, plan: dict[str, Any], names: Sequence[str] | None
) -> Chart:
    blocks = _blocks(demand, names)
    merged = np.array([blocks.sums(one) for one in demand])
    called = names or [str(zone) for zone in range(1, demand.shape[1] + 1)]
    rows = (
        (name, called[origin], called[to], trips)
        for name, own in zip(classes, demand, strict=True)
        for origin, to, trips in largest(own)
    )
    return Chart(
        name="class-demand",
        title="Released demand by class of users",
        caption="Mean trips of a period of the chosen class from each zone (row) to each other "
        "(column), as the mechanism released them; the same shades for all classes. Each has "
        f"noise of its own.{noise_of(plan)}{blocks.says}",
        figure=_matrices(
            merged,
            classes,
            blocks.labels,
            hover="from %{y} to %{x}: %{z} trips",
            title="trips a period",
        ),
        table=Table.of(("class", "origin", "destination", "trips a period"), rows),
        control=CONTROL,
    )


def _times(
    roads: RoadNetwork, classes: list[str], times: Floats, names: Sequence[str] | None
) -> Chart:
    blocks = _blocks(times, names)
    pairs = np.maximum(blocks.sums(~np.eye(times.shape[1], dtype=bool)), 1.0)
    merged = np.array([blocks.sums(one) / pairs for one in times])
    rows = (
        (name, roads.called(origin), roads.called(to), time)
        for name, own in zip(classes, times, strict=True)
        for origin, to, time in largest(own, first=1)
    )
    return Chart(
        name="class-skims",
        title="Travel times by class of users",
        caption="What a trip of the chosen class from each zone (row) to each other (column) takes "
        "in the mean of its paths at the released flows, fixed costs by its weight among it, in "
        f"{roads.time_unit or 'the unit of free_flow_time'}.{blocks.says}",
        figure=_matrices(
            merged, classes, blocks.labels, hover="from %{y} to %{x}: %{z}", title="travel time"
        ),
        table=Table.of(("class", "from zone", "to zone", "time"), rows),
        control=CONTROL,
    )
