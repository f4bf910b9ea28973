"""What a rehearsal has found, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table

from discreet.cli.texts import printable
from discreet_client import intervals


def show_rehearsal(result: Mapping[str, Any], out: Path | None, fields: Mapping[str, Any]) -> None:
    """A table of each method: of each quantity, as people call it, its errors over the ladder of
    epsilons; and which of its rows is farthest off at the largest of them."""
    screen = Console()
    screen.print(f"Rehearsed on data that are {result['data']}; nothing was spent", highlight=False)
    for method in dict.fromkeys(row["method"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["method"] == method]
        table = Table(
            Column("quantity", overflow="fold"),
            title=f"method {method}",
            box=box.SIMPLE,
            padding=(0, 1, 0, 0),
        )
        for column in ("epsilon", "size", "error", "9 of 10", "interval ±", "noise"):
            table.add_column(column, no_wrap=True, justify="right")
        for quantity in dict.fromkeys(row["quantity"] for row in rows):
            for row in (row for row in rows if row["quantity"] == quantity):
                width = "" if row["half_width"] is None else intervals.plain(row["half_width"], 3)
                figures = (
                    intervals.plain(row[name], 3)
                    for name in ("size", "error", "error_of_nine_in_ten")
                )
                noise = intervals.percent(row["mostly_noise"]) + (
                    "*" if row["no_better_than_zero"] else ""
                )
                table.add_row(
                    _quantity(quantity, fields), f"{row['epsilon']:g}", *figures, width, noise
                )
            table.add_section()
        screen.print(table)
        for row in _at_largest(rows):
            off = intervals.plain(row["farthest_error"], 3)
            if unit := fields.get(row["quantity"], {}).get("x-unit"):
                off = f"{off} ({unit})"
            farthest = (
                f"{_quantity(row['quantity'], fields)}: farthest off is "
                f"{printable(str(row['farthest']))}"
            )
            says = f"{farthest}, by {off} at epsilon {row['epsilon']:g}"
            screen.print(says, markup=False, highlight=False)
    if any(row["no_better_than_zero"] for row in result["rows"]):
        screen.print("* no better than an answer of 0")
    refused: dict[tuple[str, str], list[str]] = {}
    for one in result["refused"]:
        ladder = ", ".join(f"{epsilon:g}" for epsilon in one["epsilons"])
        refused.setdefault((ladder, one["why"]), []).append(one["method"])
    for (ladder, why), methods in refused.items():
        said = why.removeprefix("/problem/")
        screen.print(
            f"not with {', '.join(methods)} at epsilon {ladder}: {said}",
            markup=False,
            highlight=False,
        )
    runs = [row["runs"] for row in result["rows"]] or [0]
    each = " to ".join(map(str, sorted({min(runs), max(runs)})))
    screen.print(
        f"error: the median distance to the answer at epsilon {result['reference_epsilon']:g}, "
        "averaged over arrays; 9 of 10: the distance that nine runs in ten stay below; interval "
        "±: half the width of the interval that results gave; noise: the share of runs that were "
        f"mostly noise. {each} runs each",
        highlight=False,
    )
    if out is not None:
        screen.print(f"written to {out}")


def _quantity(name: str, fields: Mapping[str, Any]) -> str:
    """A field of a result as people call it."""
    return str(fields.get(name, {}).get("title") or name.replace("_", " ")).lower()


def _at_largest(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Of each quantity that has several rows the row of the table with the largest epsilon."""
    largest = {row["quantity"]: row for row in sorted(rows, key=lambda row: float(row["epsilon"]))}
    yield from (row for row in largest.values() if row.get("farthest") is not None)
