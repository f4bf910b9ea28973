"""A rehearsal's charts: the error of each quantity against epsilon, methods side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from discreet.figures.charts import Chart, Table
from discreet.figures.style import QUIET
from discreet.figures.traces import curve, figure
from discreet.problems.rehearsals import naming
from discreet_client.intervals import percent

SHOWN = "the error of each number against epsilon"
CAPTION = (
    "Lines: the error of the middle run, on synthetic data; dashed, in the same colour: half the "
    "width of the interval that results give; dotted: the error of answering 0, {size:.4g}, above "
    "which an answer tells nothing. Both axes are logarithmic. Errors of a field of several "
    "numbers are means.{alone}"
)
COLUMNS = (
    "method",
    "epsilon",
    "delta",
    "error",
    "of nine in ten",
    "interval ±",
    "mostly noise",
    "runs",
)
COLOURS = (0, 1, 3, 4, 2)
"""Places of methods among the colours of curves, the most distinct first."""


ROUNDING = 1e-12
"""What is smaller than this part of the size is 0 but for rounding errors, and has no place on a
logarithmic axis."""


def charts_of(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    """One chart a quantity."""
    charts = []
    for number, (quantity, rows) in enumerate(_quantities(result)):
        lines, methods = [], list(dict.fromkeys(row["method"] for row in rows))
        size, ladder, alone = rows[0]["size"], sorted({row["epsilon"] for row in rows}), ""
        for place, method in enumerate(methods):
            mine = [row for row in rows if row["method"] == method]
            called = naming.method(method)
            for name, field, dashed in (
                (called, "error", False),
                (f"{called}, interval ±", "half_width", True),
            ):
                points = [
                    (row["epsilon"], row[field])
                    for row in mine
                    if (row[field] or 0) > ROUNDING * size
                ]
                if points:
                    x, y = zip(*points, strict=True)
                    lines.append(curve(name, x, y, COLOURS[place % len(COLOURS)], dashed=dashed))
                if dashed and len(points) == 1 < len(mine):
                    alone += (
                        f" One mark alone: {called} gave intervals at epsilon "
                        f"{points[0][0]:g} and at no other."
                    )
        if size:
            ends = [ladder[0] / 1.2, ladder[-1] * 1.2]
            zero = {
                "line": {"color": QUIET, "width": 1.5, "dash": "dot"},
                "mode": "lines",
                "hoverinfo": "skip",
            }
            lines.append({**curve("answering 0", ends, [size, size]), **zero})
        drawn = figure(lines, x="epsilon", y="error", xaxis={"type": "log"}, yaxis={"type": "log"})
        table = Table.of(COLUMNS, [_cells(row) for row in rows])
        title = f"Error of {naming.quantity(problem, quantity)}"
        caption = CAPTION.format(size=size, alone=alone)
        charts.append(Chart(f"error-{number}", title, caption, drawn, table))
    return charts


def draw(
    problem: dict[str, Any],
    result: dict[str, Any],
    path: Path,
    *,
    coordinates: ArrayLike | None = None,
) -> None:
    """The relative error of every quantity by the first method as one picture."""
    from discreet.figures.curves import Curve, draw_curves  # noqa: PLC0415 - matplotlib is not loaded for pages

    curves = []
    for quantity, rows in _quantities(result):
        mine = [
            row
            for row in rows
            if row["method"] == rows[0]["method"] and row["error"] and row["size"]
        ]
        if mine:
            x, y = [row["epsilon"] for row in mine], [row["error"] / row["size"] for row in mine]
            curves.append(Curve(naming.quantity(problem, quantity), x, y))
    draw_curves(curves, path, x="epsilon", y="error / size", scale="loglog")


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    width = "none" if row["half_width"] is None else row["half_width"]
    shares = f"{percent(row['mostly_noise'])} of runs"
    shares += "; no better than 0" if row.get("no_better_than_zero") else ""
    return (
        naming.method(row["method"]),
        row["epsilon"],
        row["delta"],
        row["error"],
        row["error_of_nine_in_ten"],
        width,
        shares,
        row["runs"],
    )


def _quantities(result: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for quantity in dict.fromkeys(row["quantity"] for row in result["rows"]):
        yield quantity, [row for row in result["rows"] if row["quantity"] == quantity]
