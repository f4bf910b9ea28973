"""A paper's printed figures next to those of its method when it is run, and next to those of this
service."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Cell = str | float | None
COLUMNS = ("figure", "as printed", "by its formula", "its method", "ours", "")


@dataclass(frozen=True)
class Line:
    """One figure of a paper.

    `paper`: as printed, in the paper's own digits, which `tests/printed.json` quotes. `formula`:
    what a formula of the paper gives that prints no value of it. `honest`: the paper's own method,
    run here with its errors corrected or at its true price. `ours`: the result of this service at
    the same guarantee. `error`, `ours_error`: their Monte Carlo standard errors. None: there is
    none.
    """

    quantity: str
    paper: str | None = None
    honest: Cell = None
    ours: Cell = None
    note: str = ""
    formula: Cell = None
    error: float | None = None
    ours_error: float | None = None

    def cells(self) -> list[str]:
        """As a table shows them, in the order of `COLUMNS`."""
        return [
            self.quantity,
            self.paper or "",
            shown(self.formula),
            shown(self.honest, self.error),
            shown(self.ours, self.ours_error),
            self.note,
        ]

    def to_json(self) -> dict[str, Cell]:
        return {
            "figure": self.quantity,
            "as printed": self.paper,
            "by its formula": self.formula,
            "its method": self.honest,
            "standard error": self.error,
            "ours": self.ours,
            "standard error of ours": self.ours_error,
            "note": self.note,
        }


@dataclass(frozen=True)
class Report:
    """One paper's figures; further tables by name, each a list of rows with the same fields; and
    its pictures.

    `unreproduced`: what could not be reproduced, and why. `draw` writes pictures into a folder and
    names them.
    """

    paper: str
    source: str
    seeds: str
    lines: tuple[Line, ...]
    unreproduced: tuple[tuple[str, str], ...]
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    draw: Callable[[Path], list[Path]] = lambda folder: []

    def write(self, folder: Path) -> list[Path]:
        """The table as `PAPER.csv`, each further one as `PAPER-NAME.csv`, and the pictures; the
        files written."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = [line.to_json() for line in self.lines]
        lines += [
            {"figure": what, "note": f"not reproduced: {why}"} for what, why in self.unreproduced
        ]
        tables = {self.paper: lines} | {
            f"{self.paper}-{name}": rows for name, rows in self.tables.items()
        }
        files = []
        for name, rows in tables.items():
            files.append(folder / f"{name}.csv")
            with files[-1].open("w", newline="") as file:
                writer = csv.DictWriter(
                    file, list(dict.fromkeys(key for row in rows for key in row))
                )
                writer.writeheader()
                writer.writerows(rows)
        return files + self.draw(folder)

    def markdown(self) -> str:
        """A section of `docs/reproduction.md`."""
        rows = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        rows += [f"| {' | '.join(line.cells())} |" for line in self.lines]
        missing = [f"- Not reproduced, **{what}**: {why}." for what, why in self.unreproduced]
        head = [f"## {self.paper}", "", self.source, "", f"Seeds: {self.seeds}.", ""]
        return "\n".join([*head, *rows, "", *missing, ""])

    def to_json(self) -> dict[str, Any]:
        return {
            "paper": self.paper,
            "source": self.source,
            "seeds": self.seeds,
            "lines": [line.to_json() for line in self.lines],
            "unreproduced": [{"figure": what, "reason": why} for what, why in self.unreproduced],
            "tables": self.tables,
        }


def shown(cell: Cell, error: float | None = None) -> str:
    """A number with four digits, or a text unchanged; with its standard error."""
    text = "" if cell is None else str(cell)
    if isinstance(cell, float):
        text = f"{cell:.2e}" if cell and not 1e-3 <= abs(cell) < 1e5 else f"{cell:.4g}"
    return text if error is None else f"{text} ± {error:.1g}"
