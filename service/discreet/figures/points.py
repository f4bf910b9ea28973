"""Pictures of named numbers with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from discreet.errors import InvalidInput
from discreet.figures.style import DOTS_PER_INCH, INK, LINES, QUIET, picture_format, save

WIDTH, HEIGHT, ROW = 8.0, 1.2, 0.5
"""Inches: the width of the picture, the height of its axis and of each row."""


@dataclass(frozen=True)
class Point:
    """A number and the ends of its interval."""

    name: str
    value: float
    lower: float
    upper: float


def draw_points(points: Sequence[Point], path: Path, *, x: str) -> None:
    """Draw one row a number as a picture file: .png, .svg or .pdf. `x`: what the axis shows.

    Raises InvalidInput if there are no points, a number is not finite or the file has another
    format.
    """
    kind = picture_format(path)
    numbers = np.array([[one.value, one.lower, one.upper] for one in points], dtype=np.float64)
    if not numbers.size or not np.isfinite(numbers).all():
        raise InvalidInput("points and their intervals must be finite")
    figure = Figure(
        figsize=(WIDTH, HEIGHT + ROW * len(points)), dpi=DOTS_PER_INCH, facecolor="white"
    )
    figure.set_layout_engine("constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rows = np.arange(len(points))[::-1]
    axes.hlines(rows, numbers[:, 1], numbers[:, 2], color=QUIET, linewidth=2)
    axes.plot(numbers[:, 0], rows, "o", color=LINES[0])
    axes.set_yticks(rows, [one.name for one in points])
    axes.set_ylim(-0.6, len(points) - 0.4)
    axes.set_xlabel(x, color=INK)
    axes.grid(axis="x", alpha=0.3)
    save(figure, path, kind)
