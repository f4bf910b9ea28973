"""`make bench`: every benchmark, one table. Name some to run only those: `make bench ARGS=assignment`."""

from __future__ import annotations

import importlib
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

ALL = ("assignment", "jobs", "ledger")
RESULTS = Path(__file__).parent / "results.json"


def main() -> None:
    """Run and print; a run of all is kept in `benchmarks/results.json` with machine and date."""
    chosen = sys.argv[1:] or ALL
    unknown = set(chosen) - set(ALL)
    if unknown:
        raise SystemExit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    rows = []
    for name in chosen:
        rows += importlib.import_module(f"benchmarks.{name}").run()
    table = Table("benchmark", "ours", "peer", "ratio", "note")
    for row in rows:
        peer = f"{row['peer_value']:.4g} {row['unit']} ({row['peer']})" if row.get("peer") else ""
        ratio = f"{row['ratio']:.3g}" if row.get("ratio") is not None else ""
        table.add_row(row["benchmark"], f"{row['ours']:.4g} {row['unit']}", peer, ratio, row.get("note", ""))
    Console(width=160).print(table)
    if tuple(chosen) == ALL:
        machine = {"machine": platform.platform(), "python": platform.python_version()}
        RESULTS.write_text(
            json.dumps({"date": datetime.now(UTC).date().isoformat(), **machine, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
