"""The sum as a bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from discreet.figures.charts import Chart, Table, noise_of
from discreet.figures.traces import bars, figure

SHOWN = "the sum"


def charts_of(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    """The sum alone."""
    drawn = figure([bars("total", ["all"], [result["total"]])], x="", y="sum")
    return [
        Chart(
            "total",
            "The sum",
            f"Of all numbers.{noise_of(plan)}",
            drawn,
            Table.of(("sum",), [(result["total"],)]),
        )
    ]


def draw(
    problem: dict[str, Any],
    result: dict[str, Any],
    path: Path,
    *,
    coordinates: ArrayLike | None = None,
) -> None:
    """The sum as a line."""
    from discreet.figures.curves import Curve, draw_curves

    draw_curves([Curve("total", [0, 1], [result["total"]] * 2)], path, x="nothing", y="sum")
