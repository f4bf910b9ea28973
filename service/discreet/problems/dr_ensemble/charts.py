"""Charts of a demand response: load, signal, transitions, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.figures.charts import BLOCKS, Blocks, Chart, Table, interval_of, largest, noise_of
from discreet.figures.series import MAX_FRAME_NUMBERS, MAX_POINTS, Floats
from discreet.figures.style import LINES, QUIET
from discreet.figures.traces import (
    Figure,
    bars,
    counting,
    curve,
    figure,
    heat,
    matrix_axes,
    rounded,
)
from discreet.problems.dr_ensemble.clock import across, step_name, windows
from discreet.solvers.saddle.saddle_point import thinned
from discreet_client.day_clock import block_names, clock

SHOWN = (
    "load with and without control, signal, transitions, cost by first state; "
    "simulation: cost of privacy"
)
MAX_STEPS = 200


def charts_of(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    charts = (
        [load_chart(problem, plan, result)]
        if {"default_power", "expected_power"} <= result.keys()
        else []
    )
    if np.any(result.get("signal", ())):
        charts.append(_signal(problem, result))
    if "transitions" in result:
        charts.append(_transitions(plan, result))
    if "block_transitions" in result:
        charts.append(_block_transitions(plan, result))
    if "cost_to_go" in result:
        charts.append(_cost(result))
    if "cost_of_privacy" in result:
        cost = np.array(result["cost_of_privacy"])
        steps = list(range(len(cost)))
        sides = [("mean over states", cost.mean(axis=1)), ("worst state", cost.max(axis=1))]
        charts.append(
            Chart(
                name="privacy",
                title="Cost of privacy (simulation)",
                caption="What following the signal costs the true loads more than the best "
                "control. Only shown because this dataset is declared public.",
                figure=figure(
                    [
                        curve(name, steps, values, place)
                        for place, (name, values) in enumerate(sides)
                    ],
                    x="step",
                    y="extra cost",
                    hover="x unified",
                ),
                table=Table.of(
                    ("step", *(name for name, _ in sides)),
                    list(zip(steps, *(side for _, side in sides), strict=True)),
                ),
            )
        )
    return charts


def row_names(problem: dict[str, Any], result: dict[str, Any], field: str) -> list[str] | None:
    """The names of the rows of a field for people: states by their power, in blocks of the day by
    their hours."""
    names = (
        _state_names(result)
        if field in ("transitions", "block_transitions", "cost_to_go")
        else None
    )
    if names is None:
        return None
    called = [f"state {state} ({name})" for state, name in enumerate(names)]
    if field != "block_transitions":
        return called
    return [f"{block}, {state}" for block in block_names(result["states"]) for state in called]


def _state_names(result: Mapping[str, Any]) -> list[str] | None:
    """The name of each state, by its bin or its power; None where these would be too many, or look
    alike."""
    states = result.get("states", {"power": ()})
    if edges := states.get("edges"):
        names = [f"{low:g}\u2013{high:g} kW" for low, high in pairwise(edges)]
    else:
        names = [f"power {power:g}" for power in states["power"]]
    return names if 0 < len(set(names)) == len(names) <= BLOCKS else None


def _noisy(result: Mapping[str, Any], field: str, rows: int) -> NDArray[np.bool_]:
    """bool[rows]: the rows of a field that are mostly noise."""
    marked = result.get("uncertainty", {}).get("noise_dominates", {}).get(field) or [False] * rows
    return np.array(marked, dtype=bool)


def _cost(result: dict[str, Any]) -> Chart:
    cost = np.array(result["cost_to_go"])
    names, ends = _state_names(result), interval_of(result, "cost_to_go")
    noise = _noisy(result, "cost_to_go", len(cost))
    says = "" if ends is None else " Whiskers: 90 % noise intervals."
    drawn = bars(
        "expected cost", list(range(len(cost))) if names is None else names, cost, interval=ends
    )
    states = np.arange(len(cost)).tolist() if names is None else names
    columns: list[tuple[str, Any]] = [("state", states), ("expected cost", cost)]
    if ends is not None:
        columns += [("lower", ends[0]), ("upper", ends[1])]
    if noise.any():
        drawn["marker"]["color"] = [QUIET if one else drawn["marker"]["color"] for one in noise]
        says += (
            " Grey: how loads leave the state is mostly noise; whiskers hold whatever they may do."
        )
        columns.append(("noise", np.where(noise, "mostly noise", "").tolist()))
    axis = counting(len(cost)) if names is None else {"type": "category", "automargin": True}
    return Chart(
        name="cost",
        title="Expected cost by first state",
        caption="Power and discomfort over all steps of a load that follows the signal, by the "
        f"state that it begins in.{says}",
        figure=figure([drawn], x="state", y="expected cost", height=300, xaxis=axis),
        table=Table.of(
            [name for name, _ in columns],
            list(zip(*(column for _, column in columns), strict=True)),
        ),
    )


def _transitions(plan: dict[str, Any], result: dict[str, Any]) -> Chart:
    matrix = np.array(result["transitions"])
    blocks = Blocks.of(len(matrix), names=_state_names(result))
    noise = _noisy(result, "transitions", len(matrix))
    drawn = heat(
        blocks.moves(matrix),
        x=blocks.labels,
        y=blocks.labels,
        hover="from %{y} to %{x}: %{z}",
        title="probability",
    )
    # A row of noise is covered in grey: it must not look like something that is known.
    veils = [
        {
            **{"type": "rect", "xref": "paper", "x0": 0, "x1": 1},
            **{"yref": "y", "y0": row - 0.5, "y1": row + 0.5},
            **{"fillcolor": QUIET, "opacity": 0.75, "line": {"width": 0}, "layer": "above"},
        }
        for row, (low, high) in enumerate(zip(blocks.edges[:-1], blocks.edges[1:], strict=True))
        if noise[low:high].mean() >= 0.5
    ]
    many = (
        "1 row behind grey is" if noise.sum() == 1 else f"{int(noise.sum())} rows behind grey are"
    )
    says = f" The {many} mostly noise." if veils else ""
    rows = [
        (*cell, "mostly noise" if noise[cell[0]] else "")[: 4 if noise.any() else 3]
        for cell in largest(matrix)
    ]
    return Chart(
        name="transitions",
        title="Transitions without control",
        caption="How likely a load moves from one state (row) to another (column) in a step, as "
        f"released. Faint cells may be noise alone.{says}{noise_of(plan)}{blocks.says}",
        figure=figure(
            [drawn], x="to state", y="from state", height=440, shapes=veils, **matrix_axes()
        ),
        table=Table.of(("from", "to", "probability", "row")[: 4 if noise.any() else 3], rows),
    )


def _block_transitions(plan: dict[str, Any], result: dict[str, Any]) -> Chart:
    """The chart of float64[blocks, n, n], one frame a block."""
    matrices, names = np.array(result["block_transitions"]), block_names(result["states"])
    noise = _noisy(result, "block_transitions", matrices.shape[0] * matrices.shape[1]).reshape(
        matrices.shape[:2]
    )
    drawn, blocks = _frames(
        np.where(noise[..., None], np.nan, matrices), names, _state_names(result)
    )
    says = " Rows that are left blank are mostly noise." if noise.any() else ""
    rows = [
        (names[block], *cell, "mostly noise" if noise[block, cell[0]] else "")
        for block, matrix in enumerate(matrices)
        for cell in largest(matrix)
    ]
    return Chart(
        name="transitions",
        title="Transitions without control, by block of the day",
        caption="How likely a load moves from one state (row) to another (column) in a step that "
        "begins in the chosen hours, as released. Faint cells may be noise "
        f"alone.{says}{noise_of(plan)}{blocks.says}",
        figure=drawn,
        table=Table.of(("block", "from", "to", "probability", "row"), rows),
        control="Hours",
    )


def _frames(matrices: Floats, called: list[str], names: list[str] | None) -> tuple[Figure, Blocks]:
    """The figure with a matrix for each frame, float64[frames, n, n], all in the same shades; NaN
    is left blank. `called`: the names of the frames."""
    most = min(BLOCKS, max(2, int((MAX_FRAME_NUMBERS / len(matrices)) ** 0.5)))
    blocks = Blocks.of(matrices.shape[1], most=most, names=names)
    frames = [blocks.moves(matrix) for matrix in matrices]
    top = max((float(frame[np.isfinite(frame)].max(initial=0.0)) for frame in frames), default=0.0)
    trace = heat(
        frames[0],
        x=blocks.labels,
        y=blocks.labels,
        hover="from %{y} to %{x}: %{z}",
        title="probability",
        top=top,
    )
    drawn = figure([trace], x="to state", y="from state", height=440, **matrix_axes())
    drawn["frames"] = [
        {"name": name, "data": [{"z": rounded(frame, 4)}]}
        for name, frame in zip(called, frames, strict=True)
    ]
    return drawn, blocks


def _signal(problem: Mapping[str, Any], result: Mapping[str, Any]) -> Chart:
    """The chart of float64[T, n]."""
    signal = np.array(result["signal"])
    steps = (
        np.arange(len(signal)) if len(signal) <= MAX_STEPS else thinned(len(signal), MAX_STEPS) - 1
    )
    names = _state_names(result)
    blocks = Blocks.of(signal.shape[1], names=names)
    shown = np.add.reduceat(signal[steps], blocks.edges[:-1], axis=1) / np.diff(blocks.edges)
    drawn = heat(
        shown.T,
        x=steps.tolist(),
        y=blocks.labels,
        hover="step %{x}, %{y}: %{z}",
        title="cost",
    )
    hours = hours_of(problem, result, steps.tolist())
    dearest = signal.argmax(axis=1)
    rows = [
        (
            step,
            int(dearest[step]) if names is None else names[dearest[step]],
            float(signal[step].max()),
        )
        for step in steps.tolist()
    ]
    return Chart(
        name="signal",
        title="Signal",
        caption="What being in a state costs more than being in the cheapest one of the step, from "
        "there on. A load draws its own next state and accepts it with probability "
        "exp(-signal / discomfort weight), the signal that of the state and the next step; else "
        f"it draws again. A step is a {step_name(result)}.{blocks.says}",
        figure=figure([drawn], x=across(result, hours), y="state", height=400, **hours),
        table=Table.of(("step", "costliest state", "cost"), rows),
    )


def draw(
    problem: dict[str, Any],
    result: dict[str, Any],
    path: Path,
    *,
    coordinates: ArrayLike | None = None,
) -> None:
    """Expected power with and without control."""
    from discreet.figures.curves import Curve, draw_curves  # noqa: PLC0415 - matplotlib is not loaded for pages

    curves = []
    for field, name in (
        ("default_power", "without control"),
        ("expected_power", "with control"),
        ("true_default_power", "without control, true"),
        ("achieved_power", "with control, true"),
    ):
        if field in result:
            steps, (low, high) = (
                np.arange(len(result[field])),
                interval_of(result, field) or (None, None),
            )
            curves.append(Curve(name, steps, result[field], low, high, dashed="true" in name))
    if most := result.get("limits", {}).get("feeder"):
        limit = np.array(most, dtype=np.float64)
        curves.append(Curve("limit", np.arange(limit.size), limit, dashed=True, gaps=True))
    axis = hours_of(problem, result, list(range(len(result.get("expected_power", ()))))).get(
        "xaxis", {}
    )
    ticks = dict(zip(axis.get("tickvals", ()), axis.get("ticktext", ()), strict=True))
    draw_curves(
        curves,
        path,
        x=across(result, ticks),
        y=f"expected power of a load{power_text(result)}",
        ticks=ticks,
    )


# Load charts --------------------------------------------------------------------------------------
# Charts of the load of an ensemble.

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
        "name": "90 % noise interval",
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
    says = " Bands: 90 % noise intervals." if bands else ""
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
