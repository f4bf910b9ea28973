"""Curves over one axis: load over a day, error over sample sizes, convergence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.figures.style import DOTS_PER_INCH, INK, LINES, QUIET, picture_format, save

INCHES = (8.0, 4.2)


@dataclass(frozen=True)
class Curve:
    """One line: x and y of equal length; `low` and `high` make a band around it."""

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    dashed: bool = False
    gaps: bool = False
    """Whether y may be NaN, where there is no line."""


def draw_curves(
    curves: Sequence[Curve],
    path: Path,
    *,
    x: str,
    y: str,
    title: str | None = None,
    shade: tuple[float, float] | None = None,
    shaded: str = "",
    scale: Literal["linear", "log", "loglog"] = "linear",
    ticks: Mapping[float, str] | None = None,
) -> None:
    """Draw curves as a picture file: .png, .svg or .pdf. `x`, `y`: what the axes show, with units.

    `shade`: an interval of the x axis to be shaded, which the legend calls `shaded`. `ticks`:
    labels of the x axis by position. Raises InvalidInput if x and y of a curve differ in length, a
    value is not finite or the file has another format.
    """
    kind = picture_format(path)
    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if shade is not None:
        axes.axvspan(*shade, color=QUIET, alpha=0.15, linewidth=0, label=shaded or None)
    for curve, colour in zip(curves, LINES * (1 + len(curves) // len(LINES)), strict=False):
        across, up = np.asarray(curve.x, dtype=np.float64), np.asarray(curve.y, dtype=np.float64)
        known = np.isfinite(across) & (np.isfinite(up) | (curve.gaps & np.isnan(up)))
        if across.shape != up.shape or across.ndim != 1 or not known.all():
            raise InvalidInput(f"{curve.name}: x and y must be finite and of one length")
        if curve.low is not None and curve.high is not None:
            axes.fill_between(across, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(
            across, up, "--" if curve.dashed else "-", color=colour, linewidth=1.8, label=curve.name
        )
    if scale != "linear":
        axes.set_yscale("log")
    if scale == "loglog":
        axes.set_xscale("log")
    if ticks:
        axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.grid(color=QUIET, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(color=QUIET, labelcolor=INK)
    if title:
        axes.set_title(title, color=INK, fontsize=12, loc="left")
    if len(curves) > 1 or shaded:
        if len(curves) > 3:  # so many names would lie over the curves
            figure.legend(frameon=False, labelcolor=INK, loc="outside lower center", ncols=2)
        else:
            axes.legend(frameon=False, labelcolor=INK)
    save(figure, path, kind)
