"""Charts of the load of an ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet.figures.charts import Chart, Table, interval_of, noise_of
from discreet.figures.series import MAX_POINTS, Floats
from discreet.figures.style import LINES, QUIET
from discreet.figures.traces import curve, figure, rounded
from discreet.problems.dr_ensemble.clock import across, windows
from discreet.solvers.saddle.saddle_iteration import thinned
from discreet_client.day_clock import clock

MOST_TICKS = 12
ALONE = 0.2
"""Half the width of a band of one step, whose neighbours have none."""


def hours_of(
    problem: Mapping[str, Any], result: Mapping[str, Any], steps: list[int]
) -> dict[str, Any]:
    """The layout of an axis of these steps, by the clock where it is known."""
    states, first = result.get("states", {}), problem.get("first_step", 0)
    shown = steps[:: max(1, -(-len(steps) // MOST_TICKS))]
    clocks = [clock(states, first + step) for step in shown]
    return {} if None in clocks else {"xaxis": {"tickvals": shown, "ticktext": clocks}}


def _of_all(result: Mapping[str, Any]) -> str:
    """A sentence for a caption: how many loads there are, where that is public."""
    people = result.get("states", {}).get("participants")
    return (
        ""
        if people is None
        else f" All {people:,} participants together take {people:,} times that."
    )


def power_text(result: Mapping[str, Any]) -> str:
    """The unit of power, for an axis, where it is known."""
    return ", kW" if "edges" in result.get("states", {}) else ""


def _band(x: list[int], ends: tuple[Floats, Floats], place: int) -> dict[str, Any]:
    """The area between both ends of a curve's interval: a polygon of each run of steps in which it
    is known, as one across a gap would be drawn beside its curve."""
    low, high = ends
    gaps = np.flatnonzero(~np.isfinite(low + high))
    xs: list[float | None] = []
    ys: list[float | None] = []
    for run in np.split(np.arange(len(x)), np.unique([gaps, gaps + 1])):
        if run.size == 0 or np.isin(run[0], gaps):
            continue
        along, lower, upper = np.array(x, dtype=np.float64)[run], low[run], high[run]
        if run.size == 1:
            along, lower, upper = along + np.array([-ALONE, ALONE]), lower[[0, 0]], upper[[0, 0]]
        between = [] if not xs else [None]
        xs += [*between, *along.tolist(), *along[::-1].tolist()]
        ys += [*between, *rounded(np.concatenate([upper, lower[::-1]]))]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": xs,
        "y": ys,
        "fill": "toself",
        "fillcolor": LINES[place % len(LINES)],
        "opacity": 0.2,
        "line": {"width": 0},
        "name": "90 % interval",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _shaded(event: Sequence[int]) -> list[dict[str, Any]]:
    """The steps of the event as shapes behind the curves."""
    return [
        {
            **{"type": "rect", "xref": "x", "x0": first, "x1": end},
            **{"yref": "paper", "y0": 0, "y1": 1},
            **{"fillcolor": QUIET, "opacity": 0.12, "line": {"width": 0}, "layer": "below"},
        }
        for first, end in windows(event)
    ]


def load_chart(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> Chart:
    names = {
        "default_power": "without control",
        "expected_power": "with control",
        "true_default_power": "without control, true (simulation)",
        "achieved_power": "with control, true (simulation)",
    }
    horizon = len(result["expected_power"])
    steps = (
        list(range(horizon))
        if horizon <= MAX_POINTS
        else [0, *(thinned(horizon - 1, MAX_POINTS)).tolist()]
    )
    shown = {
        name: np.array(result[field])[steps] for field, name in names.items() if field in result
    }
    traces = [
        curve(name, steps, values, place) for place, (name, values) in enumerate(shown.items())
    ]
    bands = [
        _band(steps, (ends[0][steps], ends[1][steps]), place)
        for place, field in enumerate(field for field in names if field in result)
        if (ends := interval_of(result, field)) is not None
    ]
    bands = [band for band in bands if band["x"]]
    traces = [*bands, *traces]
    says = " Bands: how far noise may have moved each, 90 %." if bands else ""
    if any(
        not np.isfinite(ends[0][steps]).all()
        for field in names
        if field in result and (ends := interval_of(result, field)) is not None
    ):
        says += " Where one has no band, noise leaves open all that a load can be."
    more: dict[str, Any] = {}
    columns, extra = ["step", *shown], []
    if problem.get("price") is not None:
        tariff = np.array(problem["price"])[steps]
        price = curve(
            "price (right)", steps, tariff, 5, steps=True, dashed=False, yaxis="y2", opacity=0.35
        )
        traces.insert(0, {**price, "fill": "tozeroy", "fillcolor": "rgba(123, 135, 148, 0.16)"})
        right = {
            "side": "right",
            "title": {"text": "price"},
            "showgrid": False,
            "tickmode": "auto",
            "nticks": 5,
        }
        more["yaxis2"] = {**right, "overlaying": "y", "rangemode": "tozero"}
        more["margin"] = {"l": 60, "r": 60, "t": 20, "b": 50}
        columns, extra = [*columns, "price"], [tariff]
    limits = result.get("limits", {})
    if limits.get("feeder"):
        most = np.array(limits["feeder"], dtype=np.float64)[steps]
        traces.append(curve("limit", steps, most, 3, steps=True, dashed=True))
        columns, extra = [*columns, "limit"], [*extra, most]
    if limits:
        says += f" {limits['says']}."
    if result.get("event"):
        more["shapes"] = _shaded(result["event"])
        says += " Shaded: the event."
    hours = hours_of(problem, result, steps)
    of_day = (
        "Each block of the day has its own transitions."
        if "block_transitions" in result
        else "These transitions are those of all hours together and know no time of day: without "
        "control a load goes to its mean, and stays there (a public `day`, chosen when data are "
        "registered, gives blocks of hours their own)."
    )
    return Chart(
        name="load",
        title="Load with and without control",
        caption="Expected power of one load in each step, if it follows the signal and without "
        "control. Both curves follow from the same released transitions: what noise moves, it "
        f"moves in both.{_of_all(result)} "
        f"{of_day}{says}{noise_of(plan)}",
        figure=figure(
            traces,
            x=across(result, hours),
            y=f"expected power of a load{power_text(result)}",
            hover="x unified",
            **more,
            **hours,
        ),
        table=Table.of(columns, list(zip(steps, *shown.values(), *extra, strict=True))),
    )
