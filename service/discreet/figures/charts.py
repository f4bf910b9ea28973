"""A chart with its texts: what a page shows of a result, drawn if scripts run and otherwise as a
table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.figures.style import ON_DARK, PAPER, SHADES
from discreet.figures.traces import Figure, plain

TABLE_ROWS = 200
"""A chart's table has at most so many rows; the export has all."""
BLOCKS = 60
"""A matrix of more rows is drawn in so many blocks at most."""


WHITE = "#ffffff"
ABOVE, BELOW = 60, 60
"""Pixels more for a title and for a slider, where no page has them."""
TITLE, LEGEND = 12, 40
"""Pixels from the top to where these begin."""


@dataclass(frozen=True)
class Table:
    """The numbers of a chart as text. `left_out`: how many rows more there are."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0

    @classmethod
    def of(
        cls, columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int = TABLE_ROWS
    ) -> Table:
        """Numbers with six significant digits."""
        read = [tuple(map(_text, row)) for row in rows]
        return cls(tuple(columns), tuple(read[:most]), max(0, len(read) - most))


@dataclass(frozen=True)
class Chart:
    """One picture. `name`: in addresses, lower case; `caption`: what one sees and what noise does
    to it."""

    name: str
    title: str
    caption: str
    figure: Figure
    table: Table
    control: str = ""
    """What a slider chooses, where the figure has frames."""

    def to_json(self) -> dict[str, Any]:
        """What the page's script reads; `dark` says which colours to replace on a dark ground."""
        return {
            "name": self.name,
            "title": self.title,
            "control": self.control,
            "dark": ON_DARK,
            **self.figure,
        }

    def standalone(self) -> Figure:
        """The figure as plotly draws it without a page around it: on white, with its title, and
        with a slider where it has frames. On a page these are the page's."""
        drawn: Figure = _on_white(self.figure)
        layout = drawn["layout"]
        layout |= {
            "paper_bgcolor": WHITE,
            "plot_bgcolor": WHITE,
            "height": layout["height"] + ABOVE,
        }
        # From above, so that a legend of several lines grows away from the title.
        below_top = {"yref": "container", "yanchor": "top"}
        title = {"text": plain(self.title), "x": 0.02, "xanchor": "left"}
        layout["title"] = {**title, **below_top, "y": 1 - TITLE / layout["height"]}
        layout["legend"] = {**layout["legend"], **below_top, "y": 1 - LEGEND / layout["height"]}
        layout["margin"] = {**layout["margin"], "t": layout["margin"]["t"] + ABOVE}
        for axis in (one for name, one in layout.items() if name.startswith(("xaxis", "yaxis"))):
            axis.setdefault("gridcolor", SHADES[0])
        if frames := drawn.get("frames"):
            for frame in (
                frames
            ):  # which say what changes alone; of the library in Python each trace names its type
                frame["data"] = [
                    {"type": whole["type"], **changed}
                    for whole, changed in zip(drawn["data"], frame["data"], strict=False)
                ]
            at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}
            steps = [
                {
                    "label": plain(frame["name"]),
                    "method": "animate",
                    "args": [[frame["name"]], at_once],
                }
                for frame in frames
            ]
            layout["sliders"] = [
                {"steps": steps, "currentvalue": {"prefix": f"{plain(self.control)} "}}
            ]
            layout["height"] += BELOW
            layout["margin"]["b"] += BELOW
        return drawn


def _on_white(value: Any) -> Any:
    """A copy, with white where a page has the colour of its paper."""
    if isinstance(value, dict):
        return {name: _on_white(one) for name, one in value.items()}
    if isinstance(value, list):  # numbers are most of a figure, and no colours
        return (
            value
            if value and isinstance(value[0], int | float)
            else [_on_white(one) for one in value]
        )
    return WHITE if value == PAPER else value


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def distribution(name: str) -> str:
    """The name of a distribution or mechanism in words."""
    text = name.removesuffix("_on_grid").replace("_", " ")
    for person in ("laplace", "gaussian", "dirichlet", "poisson"):
        text = text.replace(person, person.capitalize())
    return text


def noise_of(plan: dict[str, Any]) -> str:
    """The plan's noise in a sentence; empty where there is none."""
    for one in plan.get("noise", ()):  # the first says enough: others differ in scale alone
        kind = distribution(one["distribution"])
        deviation = f"{one['standard_deviation']:.3g}"
        return f" Noise standard deviation {deviation} ({kind}) on {one['quantity']}."
    return ""


def interval_of(
    result: Mapping[str, Any], field: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Lower and upper ends of a field's interval, NaN where one number has none; None where the
    field has none."""
    ends = result.get("uncertainty", {}).get("values", {}).get(field)
    if ends is None:
        return None
    return np.array(ends["lower"], dtype=np.float64), np.array(ends["upper"], dtype=np.float64)


@dataclass(frozen=True)
class Blocks:
    """A square matrix, drawn in blocks of neighbours where it is large."""

    labels: tuple[str, ...]
    edges: NDArray[np.int64]

    @classmethod
    def of(
        cls, size: int, first: int = 0, most: int = BLOCKS, names: Sequence[str] | None = None
    ) -> Blocks:
        """`first`: the number of the first row in labels; `names`: what rows are called instead."""
        called = [str(first + row) for row in range(size)] if names is None else list(names)
        edges = np.unique(np.linspace(0, size, min(size, most) + 1).astype(np.int64))
        labels = [
            called[low] if high == low + 1 else f"{called[low]}\u2013{called[high - 1]}"
            for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]
        return cls(tuple(labels), edges)

    @property
    def merged(self) -> bool:
        return bool(self.edges.size - 1 < self.edges[-1])

    def sums(self, matrix: ArrayLike) -> NDArray[np.float64]:
        """Sums of the blocks' entries."""
        rows = np.add.reduceat(np.asarray(matrix, dtype=np.float64), self.edges[:-1], axis=0)
        return np.asarray(np.add.reduceat(rows, self.edges[:-1], axis=1), dtype=np.float64)

    def moves(self, matrix: ArrayLike) -> NDArray[np.float64]:
        """Of probabilities of moves: to a block, in the mean over the block that is left."""
        mean: NDArray[np.float64] = self.sums(matrix) / np.diff(self.edges)[:, None]
        return mean

    @property
    def says(self) -> str:
        return f" Drawn in {len(self.labels)} blocks of neighbouring states." if self.merged else ""


def largest(matrix: ArrayLike, first: int = 0) -> list[tuple[int, int, float]]:
    """(row, column, entry) of the largest positive entries, largest first; as many as a table may
    have, and one."""
    array = np.asarray(matrix, dtype=np.float64)
    order = np.argsort(-array, axis=None, kind="stable")
    rows, columns = np.unravel_index(order[array.ravel()[order] > 0], array.shape)
    return [
        (row + first, column + first, float(array[row, column]))
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
