"""Charts of an off-policy evaluation: values of states, weights of features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.figures.charts import Chart, Table, interval_of, noise_of
from discreet.figures.series import Floats, field
from discreet.figures.style import QUIET
from discreet.figures.traces import bars, counting, curve, figure, heat, rounded, whiskers
from discreet.problems.off_policy_evaluation.result import without_clips
from discreet.solvers.evaluation.value_features import Fourier

SHOWN = (
    "both policies' values; or the value of each state, or the value function of Fourier features "
    "in one or two coordinates; weights"
)
GRID = 41


def charts_of(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    charts = []
    features = problem.get("features") or {"type": "tabular"}
    told = (
        f"Expected discounted return (discount {problem['discount']:g}) under the evaluated "
        "policy, from noised statistics alone. Noise moves neighbouring values together, most "
        f"where people rarely came.{noise_of(plan)}"
    )
    if "behaviour_value" in result:
        return [_policies(result, noise_of(plan))]
    if "values" in result:
        values = np.array(result["values"])
        charts.append(_values(result, values, told))
        return charts
    if "weights" not in result:
        return charts
    weights = np.array(result["weights"])
    if features["type"] == "fourier" and len(features["low"]) <= 2:
        charts.append(_surface(features, weights, told))
    numbers = list(range(len(weights)))
    charts.append(
        Chart(
            name="weights",
            title="Weights of the features",
            caption="The released weights of the linear value function, one a feature.",
            figure=figure(
                [bars("weight", numbers, weights)],
                x="feature",
                y="weight",
                height=300,
                xaxis=counting(len(weights)),
            ),
            table=Table.of(("feature", "weight"), list(zip(numbers, weights, strict=True))),
        )
    )
    return charts


def _values(result: dict[str, Any], values: Floats, told: str) -> Chart:
    """The value of each state, with its interval; grey where it is mostly noise."""
    states, ends = np.arange(len(values)), interval_of(result, "values")
    noise = np.array(
        result.get("uncertainty", {}).get("noise_dominates", {}).get("values", []), dtype=bool
    )
    noise = noise if noise.size else np.zeros(len(values), dtype=bool)
    known = curve("value", states.tolist(), np.where(noise, np.nan, values))
    columns: list[tuple[str, Any]] = [("state", states.tolist()), ("value", values)]
    if ends is not None:
        known["error_y"] = whiskers(values, ends)
        told += " Whiskers: how far noise may have moved a value, 90 %."
        columns += [("lower", ends[0]), ("upper", ends[1])]
    traces = [known]
    if noise.any():
        drowned = curve("mostly noise", states[noise].tolist(), values[noise])
        traces.append(
            {**drowned, "mode": "markers", "marker": {"symbol": "x", "size": 7, "color": QUIET}}
        )
        told += (
            " The "
            f"{'grey state is' if noise.sum() == 1 else f'{int(noise.sum())} grey states are'} "
            "mostly noise."
        )
        columns.append(("noise", np.where(noise, "mostly noise", "").tolist()))
    table = Table.of(
        [name for name, _ in columns], list(zip(*(column for _, column in columns), strict=True))
    )
    drawn = figure(traces, x="state", y="value", xaxis=counting(len(values)))
    return Chart("values", "Value of each state", told, drawn, table)


RETURN = "rewards of one person, added up"
POLICIES = {
    "behaviour_value": "as treated",
    "policy_value": "target policy",
    "difference": "difference",
    "clipped_value": "target policy, clipped weights",
}


def _policies(result: dict[str, Any], noise: str) -> Chart:
    """The values of both policies and their difference, with intervals."""
    rows = [(POLICIES[name], *three) for name, three in _three(result).items()]
    names = [name for name, *_ in rows]
    value, lower, upper = (
        np.array(column, dtype=np.float64) for column in list(zip(*rows, strict=True))[1:]
    )
    drawn = curve("value, 90 %", names, value)
    drawn |= {"mode": "markers", "error_y": whiskers(value, (lower, upper))}
    told = f"{result['covers']}{noise}"
    table = Table.of(
        ("policy", "value", "lower", "upper"), list(zip(names, value, lower, upper, strict=True))
    )
    return Chart(
        "policies", "What each policy is worth", told, figure([drawn], x="", y=RETURN), table
    )


def _three(result: dict[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Each value with the ends of its interval, by field; without intervals all three are the
    value."""
    told = without_clips(result)
    said = told.get("uncertainty", {}).get("values", {})
    found = {}
    for name in ("behaviour_value", "policy_value", "difference"):
        ends = said.get(name, {"lower": result[name], "upper": result[name]})
        found[name] = (result[name], ends["lower"], ends["upper"])
    if (clipped := told.get("clipped_value")) is not None:
        found["clipped_value"] = (result["policy_value"], clipped["lower"], clipped["upper"])
    return found


def _surface(features: dict[str, Any], weights: Floats, told: str) -> Chart:
    """The value over the public box of states, of one or two coordinates."""
    low, high = tuple(features["low"]), tuple(features["high"])
    basis = Fourier(features["order"], low, high)
    if len(low) == 1:
        points = np.linspace(low[0], high[0], 4 * GRID + 1)
        values = basis(points[:, None]) @ weights
        drawn = figure([curve("value", rounded(points), values)], x="x", y="value")
        table = Table.of(("x", "value"), list(zip(points, values, strict=True)))
        return Chart("values", "Value function", told, drawn, table)
    axes = [np.linspace(bottom, top, GRID) for bottom, top in zip(low, high, strict=True)]
    x, y = np.meshgrid(*axes, indexing="xy")
    values = (basis(np.stack([x.ravel(), y.ravel()], axis=1)) @ weights).reshape(x.shape)
    trace = heat(
        values, x=rounded(axes[0]), y=rounded(axes[1]), hover="x %{x}, y %{y}: %{z}", title="value"
    )
    trace |= {"zmin": float(values.min()), "zmax": float(values.max())}
    every = slice(None, None, 10)
    table = Table.of(
        ("x", "y", "value"),
        list(
            zip(
                x[every, every].ravel(),
                y[every, every].ravel(),
                values[every, every].ravel(),
                strict=True,
            )
        ),
    )
    return Chart("values", "Value function", told, figure([trace], x="x", y="y", height=440), table)


def draw(
    problem: dict[str, Any],
    result: dict[str, Any],
    path: Path,
    *,
    coordinates: ArrayLike | None = None,
) -> None:
    """The value of each state, or the weight of each feature; or both policies' values, with
    intervals."""
    if "behaviour_value" in result:
        _draw_policies(result, path)
        return
    from discreet.figures.curves import Curve, draw_curves  # noqa: PLC0415 - matplotlib is not loaded for pages

    name = "values" if "values" in result else "weights"
    numbers = field(result, name)
    axis = "state" if name == "values" else "feature"
    found, low, high = np.arange(len(numbers)), None, None
    if (ends := interval_of(result, name)) is not None:
        # Where no interval is known the band is as wide as anywhere in the picture.
        low, high = (
            np.where(np.isfinite(end), end, most(np.where(np.isfinite(end), end, numbers)))
            for end, most in zip(ends, (np.min, np.max), strict=True)
        )
    draw_curves([Curve(name, found, numbers, low, high)], path, x=axis, y=name.removesuffix("s"))


def _draw_policies(result: dict[str, Any], path: Path) -> None:
    from discreet.figures.points import Point, draw_points  # noqa: PLC0415 - matplotlib is not loaded for pages

    draw_points(
        [Point(POLICIES[name], *three) for name, three in _three(result).items()], path, x="value"
    )
