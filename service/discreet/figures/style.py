"""What all pictures share: colours, resolution, file formats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 160
INK, QUIET = "#1f2933", "#7b8794"
PAPER = "paper-colour"
"""What takes the colour of the ground: charts.js and `Chart.standalone` put it in; no word of
plotly, as `paper` is."""
LINES = ("#2f6f9f", "#d62a4a", "#43307a", "#3d8f5f", "#b7791f", "#7b8794")
"""Colours of curves, in their order; told apart with the common colour blindnesses too."""


def picture_format(path: Path) -> str:
    """The format that a file's name asks for. InvalidInput for one that we do not draw."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidInput(f"{path.name}: a picture is one of {', '.join(FORMATS)}")
    return path.suffix[1:].lower()


_STAMP: ContextVar[str] = ContextVar("stamp", default="")


@contextmanager
def stamped(text: str) -> Iterator[None]:
    """Pictures saved inside the block carry this stamp: a picture that is passed on alone must
    itself say how good it is."""
    token = _STAMP.set(text)
    try:
        yield
    finally:
        _STAMP.reset(token)


def save(figure: Figure, path: Path, kind: str) -> None:
    """Write a picture, with the stamp that it is to have."""
    if text := _STAMP.get():
        figure.text(
            0.5,
            0.55,
            text,
            color=LINES[1],
            alpha=0.4,
            fontsize=26,
            rotation=18,
            ha="center",
            va="center",
        )
    figure.savefig(path, format=kind)


LOADS = ("#b8d8e6", "#8db4da", "#728dca", "#7f5fc7", "#8c3993", "#7d1762", "#4c062f")
"""From an empty link to the fullest one: each is darker than the one before, so that no eye needs
their hue."""
LOAD_STEP = 0.25
"""Of capacity, from one of them to the next: the same in all maps, so that two of them side by side
compare. The last stands for all from 150 % on."""
SHADES = ("#f4f7fa", "#c9dcea", "#8fb6d4", "#4a88b7", "#1f5a8a", "#0b2f52")
"""From nothing to much of one quantity: lightness alone tells them apart."""

ON_DARK = {
    INK: "#e6edf3",
    **dict(
        zip(LINES, ("#6fb1e6", "#ff6f88", "#e6deff", "#2f9460", "#f2c14e", "#aab4bf"), strict=True)
    ),
    **dict(
        zip(
            LOADS,
            ("#35506a", "#41659b", "#7084a4", "#a08fe5", "#cfa3de", "#f0bcd6", "#ffe9dc"),
            strict=True,
        )
    ),
    **dict(
        zip(SHADES, ("#17202b", "#1d3a55", "#26598a", "#4389c4", "#8fbfe6", "#e6f2fb"), strict=True)
    ),
}
"""What takes the place of these colours on a dark page."""
