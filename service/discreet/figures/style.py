"""What all pictures share: colours, resolution, file formats."""

from __future__ import annotations

from pathlib import Path

from discreet.errors import InvalidInput

FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 160
INK, QUIET = "#1f2933", "#7b8794"
LINES = ("#2f6f9f", "#d62a4a", "#6a5a9e", "#3d8f5f", "#b7791f", "#7b8794")
"""Colours of curves, in their order."""


def picture_format(path: Path) -> str:
    """The format that a file's name asks for. InvalidInput for one that we do not draw."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidInput(f"{path.name}: a picture is one of {', '.join(FORMATS)}")
    return path.suffix[1:].lower()
