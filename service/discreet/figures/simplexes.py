"""Points of a simplex of three probabilities, as a triangle; and a matrix in shades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.figures.style import DOTS_PER_INCH, INK, LINES, QUIET, picture_format, save

PANEL = (3.6, 3.5)
"""Width and height of a panel in inches."""
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])


@dataclass(frozen=True)
class Triangle:
    """One panel: points float[count, 3], >= 0, by name; each point is scaled to sum to 1."""

    title: str
    points: Mapping[str, ArrayLike]
    large: bool = False
    """Whether the points are few and drawn larger."""


def draw_simplexes(
    panels: Sequence[Triangle], path: Path, *, corners: Sequence[str], columns: int = 2
) -> None:
    """Draw triangles side by side as a picture file: .png, .svg or .pdf. `corners`: the names of
    the three corners.

    Raises InvalidInput if a point has a number that is negative or not finite, or three zeros, or
    if the file has another format.
    """
    kind = picture_format(path)
    rows = -(-len(panels) // columns)
    inches = (PANEL[0] * min(columns, len(panels)), PANEL[1] * rows)
    figure = Figure(figsize=inches, dpi=DOTS_PER_INCH, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.fill(*CORNERS.T, color=QUIET, alpha=0.12, linewidth=0)
        axes.plot(*CORNERS[[0, 1, 2, 0]].T, color=QUIET, linewidth=0.8)
        for (name, given), colour in zip(panel.points.items(), LINES, strict=False):
            shares = np.asarray(given, dtype=np.float64)
            if (
                shares.ndim != 2
                or shares.shape[1] != 3
                or not (np.isfinite(shares) & (shares >= 0)).all()
            ):
                raise InvalidInput(f"{name}: points of a simplex are three numbers >= 0 each")
            total = shares.sum(axis=1, keepdims=True)
            if not total.all():
                raise InvalidInput(f"{name}: the three numbers of a point must not all be 0")
            across, up = (shares / total @ CORNERS).T
            size, alpha = (60, 0.9) if panel.large else (4, 0.35)
            axes.scatter(across, up, s=size, alpha=alpha, color=colour, linewidths=0, label=name)
        for (x, y), name, below in zip(CORNERS, corners, (True, True, False), strict=True):
            axes.annotate(
                name,
                (x, y),
                xytext=(0, -6 if below else 4),
                textcoords="offset points",
                ha="center",
                va="top" if below else "bottom",
                color=INK,
                fontsize=8,
            )
        axes.set_title(panel.title, color=INK, fontsize=9, pad=4)
        axes.set_ylim(
            axes.get_ylim()[0], axes.get_ylim()[1] * 1.12
        )  # the layout cuts a padded title
        axes.set_aspect("equal")
        axes.axis("off")
        if place == 0 and len(panel.points) > 1:
            figure.legend(
                frameon=False, labelcolor=INK, loc="outside lower center", ncols=2, markerscale=2
            )
    save(figure, path, kind)


def draw_matrix(matrix: ArrayLike, path: Path, *, x: str, y: str, title: str, label: str) -> None:
    """Draw a matrix of numbers >= 0 in shades as a picture file, its first row on top.

    Raises InvalidInput if a number is not finite or the file has another format.
    """
    kind = picture_format(path)
    shades = np.asarray(matrix, dtype=np.float64)
    if shades.ndim != 2 or not np.isfinite(shades).all():
        raise InvalidInput("a matrix of finite numbers is needed")
    figure = Figure(figsize=(5.2, 4.4), dpi=DOTS_PER_INCH, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rows, columns = shades.shape
    drawn = axes.imshow(
        shades, cmap="Blues", vmin=0.0, extent=(0.5, columns + 0.5, rows + 0.5, 0.5)
    )
    figure.colorbar(drawn, ax=axes, label=label, shrink=0.8)
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.set_title(title, color=INK, fontsize=11, loc="left")
    save(figure, path, kind)
