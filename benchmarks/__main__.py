"""`make bench`: every benchmark, one table. Name some to run only those: `make bench
ARGS=assignment`."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ALL = (
    "assignment",
    "projection",
    "linearly_solvable_mdp",
    "off_policy_evaluation",
    "uncertainty",
    "saddle_point",
    "paillier",
    "processes",
    "jobs",
    "ledger",
    "ledger_growth",
    "log",
    "api",
    "federation",
    "uploads",
    "own_tables",
)
ON_REQUEST = (
    *("scale", "curves", "noise", "timing", "capacity", "blocks", "scheduling", "dropout", "parts"),
    *("places", "stays", "persons", "machines", "shares"),
    *(
        "coverage",
        "inverse",
        "advice",
        "importance_sampling",
        "per_decision",
        "clips",
        "clinics",
        "signals",
        "coupled_qp",
    ),
)
"""Benchmarks that take many minutes: run when they are named."""
COLUMNS = ("benchmark", "ours", "peer", "ours / peer", "note")
RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> None:
    """Run and print; a run of all is kept in `benchmarks/RESULTS.md` with machine and date."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", help=f"of {', '.join((*ALL, *ON_REQUEST))}")
    parser.add_argument(
        "--releases",
        type=int,
        help="of coverage, inverse, advice, clips, clinics and signals: seeded releases a case",
        default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--kinds",
        help="of coverage, inverse and advice: only these, with commas between",
        default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--truths",
        help="of coverage: only data that are told of by one of these words, with semicolons "
        "between",
        default=argparse.SUPPRESS,
    )
    options = vars(parser.parse_args())
    chosen = tuple(options.pop("names")) or ALL
    unknown = set(chosen) - {*ALL, *ON_REQUEST}
    if unknown:
        raise SystemExit(
            f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join((*ALL, *ON_REQUEST))}"
        )
    if "kinds" in options and not set(chosen) <= {"coverage", "inverse", "advice"}:
        raise SystemExit("--kinds is of coverage, inverse and advice alone")
    counted = {"coverage", "inverse", "advice", "clips", "clinics", "signals"}
    if "releases" in options and not set(chosen) <= counted:
        told = "coverage, inverse, advice, clips, clinics and signals"
        raise SystemExit(f"--releases is of {told} alone")
    if "truths" in options and set(chosen) != {"coverage"}:
        raise SystemExit("--truths is of coverage alone")
    rows = [
        _cells(row)
        for name in chosen
        for row in importlib.import_module(f"benchmarks.{name}").run(**options)
    ]
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)
    if chosen == ALL:
        RESULTS.write_text(_markdown(rows))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    peer = f"{row['peer_value']:.4g} {row['unit']} ({row['peer']})" if row.get("peer") else ""
    ratio = f"{row['ratio']:.3g}" if row.get("ratio") is not None else ""
    return row["benchmark"], f"{row['ours']:.4g} {row['unit']}", peer, ratio, row.get("note", "")


def _markdown(rows: list[tuple[str, ...]]) -> str:
    machine = (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}"
    )
    date = datetime.now(UTC).date().isoformat()
    head = f"# The last run of `make bench`\n\n{date}, {machine}. Peers ran in the same run.\n"
    lines = ["| " + " | ".join(row) + " |" for row in (COLUMNS, ("---",) * len(COLUMNS), *rows)]
    return head + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
