"""Attacks that are run against a real installation, and what each reaches now: `make hostile`.

A module of this package holds the attacks of one surface in `ATTACKS`. An attack measures; it does
not judge by the clock: growth is a ratio of processor time (n against 4n), memory a peak,
everything else a count or a name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.conftest import Installation


@dataclass(frozen=True)
class Reached:
    """What an attack reached, in words with figures, and whether the defence held: None where the
    attack could not be made on this machine."""

    figures: str
    held: bool | None


@dataclass(frozen=True)
class Attack:
    """One line of the table. `allowed` says what the defence promises, in the words of
    `Reached.figures`."""

    section: str
    name: str
    allowed: str
    run: Callable[[Installation], Reached]
