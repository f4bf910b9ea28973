"""What an idle `discreet up` holds in memory, process by process; how large the installation is,
and what it takes to import.

The figure is the proportional set size: a page that several processes share is divided among them,
so the figures add up to what the machine gives.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from discreet.installation.prepared import running
from discreet.settings import Settings

GOAL_MEBIBYTES = 500
IDLE_SECONDS = 5.0
"""After which the parts have given back what it took to start."""
NAMES = {
    "--template": "the template of fork servers",
    "isolation.solving": "the fork server of solvers",
    "isolation.reading": "the fork server of uploads",
    "installation.template": "the template of parts",
    "discreet api": "the API",
    "discreet rpc": "gRPC",
    "discreet worker": "the worker",
    "discreet up": "the supervisor",
    "postgres": "PostgreSQL",
}
"""What stands in a command line, and what the process is called; the first that is found."""

IMPORTS = {
    "discreet --help": "from discreet.cli import run; run(['--help'])",
    "imports of a worker": "import discreet.cli, discreet.worker.main",
}


def run() -> list[dict[str, Any]]:
    """MiB of each process when all parts are ready and nothing was asked of them; all together
    against the goal."""
    held: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        settings = Settings(state=Path(folder) / "state")
        with running(settings):  # compiles the kernels, which the next start finds
            pass
        with running(settings) as ready:
            time.sleep(IDLE_SECONDS)
            for process, size in memory_below(ready["pid"]):
                name = _name(process)
                held[name] = held.get(name, 0) + size
            anonymous = sum(size for _, size in memory_below(ready["pid"], "Pss_Anon"))
    rows = [_row(f"memory of {name}, idle", size) for name, size in sorted(held.items())]
    goal = {
        "peer": "goal",
        "peer_value": GOAL_MEBIBYTES,
        "ratio": sum(held.values()) / 2**20 / GOAL_MEBIBYTES,
    }
    whole = {**_row("memory of discreet up, idle", sum(held.values())), **goal}
    return [
        *rows,
        whole,
        _row("of that, pages of no file", anonymous),
        _installed(),
        *map(_imported, IMPORTS),
    ]


def _installed() -> dict[str, Any]:
    """Files of the packages that the lock of the runtime names, and of the service itself."""
    lock = Path(__file__).parents[1] / ".ci" / "lock" / "runtime.txt"
    names = set(re.findall(r"^([\w.-]+)==", lock.read_text(), re.MULTILINE))
    size = count = 0
    for name in names:
        with suppress(PackageNotFoundError):  # of another platform or version of Python
            count += 1
            places = [Path(str(file.locate())) for file in distribution(name).files or ()]
            size += sum(place.stat().st_size for place in places if place.is_file())
    note = f"files of {count} packages, as .ci/lock/runtime.txt names them"
    return {
        "benchmark": "installed size of the runtime",
        "ours": size / 1e6,
        "unit": "MB",
        "note": note,
    }


def _imported(name: str) -> dict[str, Any]:
    """The least processor time of a fresh interpreter that does this, of three."""
    taken = []
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", IMPORTS[name]], stdout=subprocess.DEVNULL)
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        taken.append(used.ru_utime + used.ru_stime)
    return {
        "benchmark": name,
        "ours": min(taken),
        "unit": "s",
        "note": "processor time, least of 3",
    }


def _row(name: str, size: int) -> dict[str, Any]:
    return {"benchmark": name, "ours": size / 2**20, "unit": "MiB", "note": "proportional set size"}


def _name(process: int) -> str:
    command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return next((name for part, name in NAMES.items() if part in command), command)


def memory_below(root: int, figure: str = "Pss") -> Iterator[tuple[int, int]]:
    """A process and all below it, each with the bytes that it holds (`figure` as in
    /proc/PID/smaps_rollup); those that end meanwhile are left out."""
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
        yield (
            process,
            sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{figure}:")),
        )
