"""Parts of plotly's figures as plain dictionaries: the same JSON that plotly.js reads, without
importing plotly.

Texts of users go through `plain`, since plotly reads a little HTML in its texts. Colours are those
of `style`, which the page replaces by `style.ON_DARK` on a dark ground.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.figures.style import INK, LINES, QUIET, SHADES

Trace = dict[str, Any]
Figure = dict[str, Any]
"""`data`, `layout` and, where a control chooses what is shown, `frames`."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
"""Beside the colours, so that curves can be told apart without them."""
MARKED = 40
"""Curves of at most so many points have markers."""


def plain(text: object) -> str:
    """A text as plotly shows it: without markup of its own."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rounded(values: ArrayLike, digits: int = 6) -> Any:
    """Nested lists of floats with so many significant digits; what is not finite is None. For
    drawing only."""
    array = np.asarray(values, dtype=np.float64)
    size = np.abs(array)
    known = np.isfinite(array) & (size > 0)
    places = digits - 1 - np.floor(np.log10(np.where(known, size, 1.0)))
    scale = 10.0 ** np.clip(places, -300, 300)
    lists = np.where(known, np.rint(np.where(known, array, 0.0) * scale) / scale, 0.0).astype(
        object
    )
    lists[~np.isfinite(array)] = None
    return lists.tolist()


WHISKERS = {"color": QUIET, "thickness": 1.5, "width": 4}
ON_BARS = {**WHISKERS, "color": INK}
"""Whiskers on bars are drawn in ink: half of each lies on its bar, where the quiet colour would be
hard to see."""


def curve(
    name: str,
    x: Sequence[Any],
    y: ArrayLike,
    place: int = 0,
    *,
    steps: bool = False,
    dashed: bool | None = None,
    **more: Any,
) -> Trace:
    """A line; `place` in the list of curves gives colour, dashes and marker. `steps`: constant
    until the next x."""
    symbol = SYMBOLS[place % len(SYMBOLS)]
    marked = len(x) <= MARKED and not steps
    # Once all colours are used, the dashes shift by one, so that no two curves of a chart look the
    # same.
    dash = (
        DASHES[(place + place // len(LINES)) % len(DASHES)]
        if dashed is None
        else ("dash" if dashed else "solid")
    )
    return {
        "type": "scatter",
        "mode": "lines+markers" if marked else "lines",
        "name": plain(name),
        "x": list(x),
        "y": rounded(y),
        "line": {
            "color": LINES[place % len(LINES)],
            "width": 2,
            "dash": dash,
            "shape": "hv" if steps else "linear",
        },
        **({"marker": {"symbol": symbol, "size": 7}} if marked else {}),
        **more,
    }


def bars(
    name: str,
    x: Sequence[Any],
    y: ArrayLike,
    place: int = 0,
    *,
    error: ArrayLike | None = None,
    interval: tuple[ArrayLike, ArrayLike] | None = None,
) -> Trace:
    """Bars with whiskers; `error`: half the length of each, or `interval`: both its ends."""
    trace: Trace = {
        "type": "bar",
        "name": plain(name),
        "x": list(x),
        "y": rounded(y),
        "marker": {"color": LINES[place % len(LINES)]},
    }
    if error is not None:
        trace["error_y"] = {"type": "data", "array": rounded(error), **ON_BARS}
    if interval is not None:
        trace["error_y"] = whiskers(y, interval, ON_BARS)
    return trace


def whiskers(
    y: ArrayLike, interval: tuple[ArrayLike, ArrayLike], style: dict[str, Any] = WHISKERS
) -> dict[str, Any]:
    """Error bars from each y to both ends of its interval; none where an end is not finite."""
    below, above = (np.abs(np.subtract(end, y)) for end in interval)
    return {
        "type": "data",
        "symmetric": False,
        "array": rounded(above),
        "arrayminus": rounded(below),
        **style,
    }


def heat(
    z: ArrayLike,
    *,
    x: Sequence[Any],
    y: Sequence[Any],
    hover: str,
    title: str,
    top: float | None = None,
) -> Trace:
    """A matrix as shades, its first row on top. `hover`: plotly's template with %{x}, %{y} and
    %{z}; `top`: the end of the scale, else the largest entry."""
    array = np.asarray(z, dtype=np.float64)
    end = top if top is not None else float(array.max(initial=0.0))
    return {
        "type": "heatmap",
        "z": rounded(array, 4),
        "x": list(x),
        "y": list(y),
        "zmin": 0.0,
        "zmax": end if end > 0 else 1.0,
        "colorscale": [[place / (len(SHADES) - 1), colour] for place, colour in enumerate(SHADES)],
        "colorbar": {"title": {"text": title, "side": "right"}, "thickness": 14, "outlinewidth": 0},
        "hovertemplate": hover + "<extra></extra>",
    }


def figure(
    data: Iterable[Trace],
    *,
    x: str = "",
    y: str = "",
    height: int = 380,
    hover: Literal["closest", "x unified"] = "closest",
    **layout: Any,
) -> Figure:
    """A figure with titles at its axes; further keywords go into plotly's layout."""
    axes = {
        "xaxis": {"title": {"text": plain(x)}, "automargin": True, **layout.pop("xaxis", {})},
        "yaxis": {"title": {"text": plain(y)}, "automargin": True, **layout.pop("yaxis", {})},
    }
    base = {
        "height": height,
        "hovermode": hover,
        "margin": {"l": 60, "r": 20, "t": 20, "b": 50},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    }
    return {"data": list(data), "layout": {**base, **axes, **layout}}


def counting(count: int) -> dict[str, Any]:
    """The layout of an axis of the numbers 0, 1, …, count - 1: its ticks are whole numbers, 15 at
    most."""
    sizes = (digit * 10**power for power in range(10) for digit in (1, 2, 5))
    return {"tick0": 0, "dtick": next(size for size in sizes if count <= 15 * size)}


def matrix_axes() -> dict[str, Any]:
    """The layout of a matrix whose first row is on top."""
    axis = {"type": "category", "showgrid": False, "zeroline": False, "automargin": True}
    return {"xaxis": axis, "yaxis": {**axis, "autorange": "reversed"}}


def polygons(name: str, arrows: NDArray[np.float64], colour: str, opacity: float = 1.0) -> Trace:
    """Many polygons of one colour: float[k, corners, 2]."""
    gap = np.full((len(arrows), 1, 2), np.nan)
    corners = rounded(np.concatenate([arrows, arrows[:, :1], gap], axis=1).reshape(-1, 2).T, 5)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": corners[0],
        "y": corners[1],
        "fill": "toself",
        "fillcolor": colour,
        "line": {"color": colour, "width": 0.5},
        "opacity": opacity,
        "hoverinfo": "skip",
    }
