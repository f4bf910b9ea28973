"""Memory and time of large uploads: files of 1 GB through the API process, checked, sealed and
stored.

`python -m benchmarks.uploads [MEGABYTES]` runs it alone. The peer reads the same file with
pyarrow's CSV reader on one thread, which is what the reader's child has, and does nothing with the
rows.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from discreet.installation.prepared import running
from discreet.settings import Settings

MEGABYTES = 1000
BLOCK_ROWS = 200_000
ZONES, PERIODS = 500, 50
STATES, HORIZON = 50, 20
ROW_BYTES = 30
"""Of a CSV line of a transition, about."""
PIECE = 1 << 20


def run(megabytes: int = MEGABYTES) -> list[dict[str, Any]]:
    """Upload trips and transitions of so many megabytes as CSV: the memory of the API, and the time
    that it took."""
    return [
        *_measure("trips", _trips, megabytes),
        *_measure("transitions", _transitions, megabytes),
    ]


def _measure(
    what: str, write: Callable[[Path, int], dict[str, Any]], megabytes: int
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        small, large = Path(folder) / "small.csv", Path(folder) / "large.csv"
        write(small, 1)
        metadata = write(large, megabytes)
        settings = Settings(state=Path(folder) / "state", spool=Path(folder) / "spool")
        with running(settings) as ready:
            key = (settings.state / "owner.key").read_text().strip()
            head = {
                "Authorization": f"Bearer {key}",
                "Content-Type": "multipart/form-data; boundary=b",
            }
            with httpx.Client(
                base_url=ready["api"], headers=head, timeout=3600, trust_env=False
            ) as http:
                http.post(
                    "/v1/datasets", content=_body(metadata, small)
                ).raise_for_status()  # starts the reader
                api = _api_of(ready["pid"])
                Path(f"/proc/{api}/clear_refs").write_text("5")
                before = _memory(api)
                started = time.perf_counter()
                http.post("/v1/datasets", content=_body(metadata, large)).raise_for_status()
                seconds = time.perf_counter() - started
                after = _memory(api)
        alone = _alone(large)
        size = large.stat().st_size / 1e6
    name = f"CSV upload of {size:.0f} MB of {what}"
    pace = f"{size / seconds:.0f} MB/s to the answer: received, sealed twice, read, checked, stored"
    return [
        _row(
            f"{name}, growth of the API's memory",
            (after["VmHWM"] - before["VmRSS"]) / 1e6,
            "MB",
            "peak RSS - RSS before",
        ),
        _row(f"{name}, peak RSS of the API", after["VmHWM"] / 1e6, "MB", _words(before)),
        {
            **_row(
                f"{name}, to the answer", seconds, "s", f"{pace}; the peer {size / alone:.0f} MB/s"
            ),
            "peer": "pyarrow alone, one thread",
            "peer_value": alone,
            "ratio": seconds / alone,
        },
    ]


def _body(metadata: dict[str, Any], file: Path) -> Iterator[bytes]:
    yield (
        '--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n'
        + json.dumps(metadata)
        + "\r\n"
        '--b\r\nContent-Disposition: form-data; name="content"; filename="x.csv"\r\n\r\n'
    ).encode()
    with file.open("rb") as content:
        while part := content.read(PIECE):
            yield part
    yield b"\r\n--b--\r\n"


def _alone(file: Path) -> float:
    """Seconds in which pyarrow reads the file in blocks, as the reader of uploads has it read."""
    options = pa_csv.ReadOptions(block_size=4 << 20, use_threads=False)
    started = time.perf_counter()
    with pa_csv.open_csv(file, read_options=options) as reader:
        rows = sum(batch.num_rows for batch in reader)
    if not rows:
        raise RuntimeError("the file is empty")
    return time.perf_counter() - started


def _trips(file: Path, megabytes: int) -> dict[str, Any]:
    """Write trips of so many megabytes; the dataset's metadata."""
    draw = np.random.default_rng(megabytes)
    columns = {
        "period": draw.integers(0, PERIODS, BLOCK_ROWS),
        "origin": draw.integers(1, ZONES + 1, BLOCK_ROWS),
        "destination": draw.integers(1, ZONES + 1, BLOCK_ROWS),
        "count": draw.integers(1, 1000, BLOCK_ROWS),
    }
    sink = io.BytesIO()
    pa_csv.write_csv(pa.table(columns), sink, pa_csv.WriteOptions(include_header=False))
    with file.open("wb") as out:
        out.write(b"period,origin,destination,count\n")
        for _ in range(max(1, megabytes * 1_000_000 // sink.tell())):
            out.write(sink.getbuffer())
    public = {"unit": "request", "zones": ZONES, "periods": PERIODS, "period_minutes": 60}
    return {
        "name": f"many trips {megabytes}",
        "kind": "routing",
        "public": {**public, "max_rows": PERIODS * ZONES**2},
        "cap": {"epsilon": 1, "delta": 0},
    }


def _transitions(file: Path, megabytes: int) -> dict[str, Any]:
    """Write trajectories of so many megabytes; the dataset's metadata."""
    draw = np.random.default_rng(megabytes)
    rows = megabytes * 1_000_000 // ROW_BYTES // HORIZON * HORIZON
    with file.open("wb") as out:
        for first in range(0, rows, BLOCK_ROWS):
            numbers = np.arange(first, min(first + BLOCK_ROWS, rows))
            step = numbers % HORIZON
            columns = {
                "trajectory": numbers // HORIZON,
                "step": step,
                "state": draw.integers(0, STATES, numbers.size),
                "reward": draw.integers(0, 1000, numbers.size) / 1000,
                "next_state": draw.integers(0, STATES, numbers.size),
                "terminal": step == HORIZON - 1,
            }
            pa_csv.write_csv(pa.table(columns), out, pa_csv.WriteOptions(include_header=first == 0))
    public = {"unit": "trajectory", "states": STATES, "reward_bound": 1, "horizon": HORIZON}
    return {
        "name": f"many transitions {megabytes}",
        "kind": "off_policy_evaluation",
        "public": {**public, "max_trajectories": 10**7, "max_rows": 10**8},
        "cap": {"epsilon": 1, "delta": 0},
    }


def _words(before: dict[str, int]) -> str:
    return (
        f"{before['VmRSS'] / 1e6:.0f} MB before, of which {before['RssFile'] / 1e6:.0f} MB are "
        "files of libraries, shared by all processes"
    )


def _memory(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = (
        line.split() for line in lines if line.startswith(("VmHWM", "VmRSS", "RssAnon", "RssFile"))
    )
    return {pair[0].rstrip(":"): int(pair[1]) * 1024 for pair in pairs}


def _api_of(supervisor: int) -> int:
    """The API's process among the supervisor's children."""
    for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
        if b"\0api\0" in Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    raise RuntimeError("the API is not running")


def _row(name: str, value: float, unit: str, note: str) -> dict[str, Any]:
    return {"benchmark": name, "ours": value, "unit": unit, "note": note}


if __name__ == "__main__":
    for row in run(int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES):
        print(f"{row['benchmark']}: {row['ours']:.4g} {row['unit']} ({row['note']})")
