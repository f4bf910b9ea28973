"""Memory and time of a large upload: one file of 1 GB through the API process.

`python -m benchmarks.uploads [MEGABYTES]` runs it alone.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator
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


def run(megabytes: int = MEGABYTES) -> list[dict[str, Any]]:
    """Upload CSV trips of so many megabytes; the API's memory before, at its highest, and the time it took."""
    draw = np.random.default_rng(1)
    block = _block(draw)
    blocks = megabytes * 1_000_000 // len(block)
    metadata = {
        "name": "many trips",
        "kind": "routing",
        "public": {
            "unit": "request",
            "zones": ZONES,
            "periods": PERIODS,
            "period_minutes": 60,
            "max_rows": PERIODS * ZONES**2,
        },
        "cap": {"epsilon": 1, "delta": 0},
    }

    def body(count: int) -> Iterator[bytes]:
        yield (
            '--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n' + json.dumps(metadata) + "\r\n"
            '--b\r\nContent-Disposition: form-data; name="content"; filename="x.csv"\r\n\r\n'
            "period,origin,destination,count\n"
        ).encode()
        for _ in range(count):
            yield block
        yield b"\r\n--b--\r\n"

    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        settings = Settings(state=Path(folder) / "state", spool=Path(folder) / "spool")
        with running(settings) as ready:
            key = (settings.state / "owner.key").read_text().strip()
            head = {"Authorization": f"Bearer {key}", "Content-Type": "multipart/form-data; boundary=b"}
            with httpx.Client(base_url=ready["api"], headers=head, timeout=3600, trust_env=False) as http:
                http.post("/v1/datasets", content=body(1)).raise_for_status()  # starts the reader
                api = _api_of(ready["pid"])
                Path(f"/proc/{api}/clear_refs").write_text("5")
                before = _memory(api)
                started = time.perf_counter()
                http.post("/v1/datasets", content=body(blocks)).raise_for_status()
                seconds = time.perf_counter() - started
                after = _memory(api)
    size = blocks * len(block) / 1e6
    what = f"CSV upload of {size:.0f} MB"
    return [
        _row(
            f"{what}, growth of the API's memory",
            (after["VmHWM"] - before["VmRSS"]) / 1e6,
            "MB",
            "peak RSS - RSS before",
        ),
        _row(f"{what}, peak RSS of the API", after["VmHWM"] / 1e6, "MB", _words(before)),
        _row(f"{what}, to the answer", seconds, "s", f"{size / seconds:.0f} MB/s, sealed twice, read, summed, stored"),
    ]


def _block(draw: np.random.Generator) -> bytes:
    columns = {
        "period": draw.integers(0, PERIODS, BLOCK_ROWS),
        "origin": draw.integers(1, ZONES + 1, BLOCK_ROWS),
        "destination": draw.integers(1, ZONES + 1, BLOCK_ROWS),
        "count": draw.integers(1, 1000, BLOCK_ROWS),
    }
    sink = io.BytesIO()
    pa_csv.write_csv(pa.table(columns), sink, pa_csv.WriteOptions(include_header=False))
    return sink.getvalue()


def _words(before: dict[str, int]) -> str:
    return (
        f"{before['VmRSS'] / 1e6:.0f} MB before, of which {before['RssFile'] / 1e6:.0f} MB are files of libraries, "
        "shared by all processes"
    )


def _memory(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = (line.split() for line in lines if line.startswith(("VmHWM", "VmRSS", "RssAnon", "RssFile")))
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
