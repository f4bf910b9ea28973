"""Reading people's own tables by their description, beside pyarrow.csv parsing the same file into
columns and no more: processor time, each in a process of its own, with the peak of its memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 1_000_000
ROUNDS = 3
MIB = 1024
"""KiB, in which the system counts."""


def trips() -> tuple[str, dict[str, Any], bytes]:
    """As a German road office has them: day and clock in two columns, decimal commas."""
    draw = np.random.default_rng(1)
    zones, day = draw.integers(1, 41, (ROWS, 2)), draw.integers(1, 29, ROWS)
    second, count = draw.integers(0, 86_400, ROWS), draw.integers(0, 400, ROWS)
    lines = [
        f"Zone {a};Zone {b};{d:02}.11.2026;{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02};"
        f"{c // 100},{c % 100:02}"
        for (a, b), d, s, c in zip(
            zones.tolist(), day.tolist(), second.tolist(), count.tolist(), strict=True
        )
    ]
    text = "\n".join(["Von;Nach;Datum;Zeit;Fahrten", *lines])
    public = {"unit": "request", "zones": 40, "periods": 24, "period_minutes": 60}
    reader: dict[str, Any] = {"time_zone": "Europe/Berlin", "outside": "leave_out"}
    reader["start"] = "2026-11-05T00:00"
    reader |= {"decimal": ",", "zones": [f"Zone {zone}" for zone in range(1, 41)]}
    columns = {"origin": "Von", "destination": "Nach", "time": "Datum+Zeit", "count": "Fahrten"}
    said = {"trip_scale": 100, "reader": reader, "columns": columns}
    return "routing", {**public, **said}, text.encode()


def visits() -> tuple[str, dict[str, Any], bytes]:
    """Four of each patient, with a rule to be evaluated."""
    lines = [
        f"P{patient},{1 + 7 * visit:02}/{1 + patient % 12:02}/2026,"
        f"{'treat' if (patient + visit) % 3 else 'wait'},{(7 * patient + visit) % 100 / 100},"
        f"{20 + patient % 80}"
        for patient in range(ROWS // 4)
        for visit in range(4)
    ]
    text = "\n".join(["pid,date,arm,score,age", *lines])
    reader = {"dates": "day_first", "behaviour": {"treat": 0.5, "wait": 0.5}}
    reader["target"] = "age >= 65 -> treat, else wait"
    columns = {"patient": "pid", "time": "date", "action": "arm", "reward": "score"}
    public = {"unit": "trajectory", "horizon": 12, "reward_bound": 1}
    said = {"ranges": [{"name": "age", "low": 20, "high": 100}], "reader": reader}
    return "off_policy_evaluation", {**public, **said, "columns": columns}, text.encode()


def meters() -> tuple[str, dict[str, Any], bytes]:
    """A column for each of a hundred, in kWh of a quarter of an hour."""
    steps, draw = ROWS // 100, np.random.default_rng(2)
    begun = datetime(2026, 4, 5)
    lines = [
        f"{begun + timedelta(minutes=15 * step):%d.%m.%Y %H:%M};"
        + ";".join(f"{value // 100},{value % 100:02}" for value in row)
        for step, row in enumerate(draw.integers(0, 500, (steps, 100)).tolist())
    ]
    text = "\n".join([f"Zeit;{';'.join(f'Z{meter}' for meter in range(100))}", *lines])
    reader = {"time_zone": "Europe/Berlin", "decimal": ",", "units": "kWh"}
    public = {"unit": "participant", "states": 2, "edges": [0, 1, 20], "steps": steps}
    said = {"meters": {"start": "2026-04-05T00:00", "interval_seconds": 900}}
    said |= {"reader": {**reader, "participants": "columns"}, "columns": {"time": "Zeit"}}
    return "dr_ensemble", {**public, **said}, text.encode()


TABLES: dict[str, Callable[[], tuple[str, dict[str, Any], bytes]]] = {
    "German trips": trips,
    "visits with a rule": visits,
    "kWh, a column for each meter": meters,
}


def run() -> list[dict[str, Any]]:
    """Seconds of a processor, the least of several rounds."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, made in TABLES.items():
            file = Path(folder) / "table.csv"
            kind, public, content = made()
            file.write_bytes(content)
            described = json.dumps([kind, public])
            each = {
                how: [json.loads(_alone(how, file, described)) for _ in range(ROUNDS)]
                for how in ("ours", "peer")
            }
            ours, peer = (min(one["seconds"] for one in each[how]) for how in ("ours", "peer"))
            peak = max(one["peak"] for one in each["ours"])
            found.append(
                {
                    "benchmark": f"own table of {ROWS:,} values: {name}",
                    "ours": ours,
                    "unit": "s",
                    "peer": "pyarrow.csv alone",
                    "peer_value": peer,
                    "note": f"processor time; {peak:.0f} MiB at most beside the process",
                }
            )
    return found


def _alone(how: str, file: Path, described: str) -> str:
    command = [sys.executable, "-m", "benchmarks.own_tables", how, str(file)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, input=described
    ).stdout


def main(how: str, path: str) -> None:
    import pyarrow.compute  # noqa: F401 - is loaded before the clock runs
    from pyarrow import csv

    from discreet_client import readers

    kind, public = json.load(sys.stdin)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of before
    before = _peak()
    begun = time.process_time()
    if how == "ours":
        readers.read(kind, partial(Path(path).open, "rb"), public, form="csv")
    else:
        comma = kind == "off_policy_evaluation"
        csv.read_csv(
            path,
            csv.ReadOptions(use_threads=False),
            csv.ParseOptions(delimiter="," if comma else ";"),
            csv.ConvertOptions(decimal_point="." if comma else ","),
        )
    seconds = time.process_time() - begun
    peak = (_peak() - before) / MIB
    print(json.dumps({"seconds": seconds, "peak": peak}))


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main(*sys.argv[1:])
