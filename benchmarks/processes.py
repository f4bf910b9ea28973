"""What an idle `discreet up` holds in memory, process by process.

The figure is the proportional set size: a page that several processes share is divided among them, so the figures add
up to what the machine gives.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discreet.installation.prepared import running
from discreet.settings import Settings

GOAL_MEBIBYTES = 500
NAMES = {
    "isolation.solving": "the fork server of solvers",
    "isolation.reading": "the fork server of uploads",
    "discreet api": "the API",
    "discreet rpc": "gRPC",
    "discreet worker": "the worker",
    "discreet up": "the supervisor",
    "postgres": "PostgreSQL",
}
"""What stands in a command line, and what the process is called; the first that is found."""


def run() -> list[dict[str, Any]]:
    """MiB of each process when all parts are ready and nothing was asked of them; all together against the goal."""
    held: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        settings = Settings(state=Path(folder) / "state")
        with running(settings):  # compiles the kernels, which the next start finds
            pass
        with running(settings) as ready:
            for process, size in memory_below(ready["pid"]):
                name = _name(process)
                held[name] = held.get(name, 0) + size
    rows = [_row(f"memory of {name}, idle", size) for name, size in sorted(held.items())]
    goal = {"peer": "goal", "peer_value": GOAL_MEBIBYTES, "ratio": sum(held.values()) / 2**20 / GOAL_MEBIBYTES}
    return [*rows, {**_row("memory of discreet up, idle", sum(held.values())), **goal}]


def _row(name: str, size: int) -> dict[str, Any]:
    return {"benchmark": name, "ours": size / 2**20, "unit": "MiB", "note": "proportional set size"}


def _name(process: int) -> str:
    command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return next((name for part, name in NAMES.items() if part in command), command)


def memory_below(root: int) -> Iterator[tuple[int, int]]:
    """A process and all below it, each with the bytes that it holds; those that end meanwhile are left out."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    waiting = [root]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        yield process, sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
