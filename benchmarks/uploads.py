"""Memory and time of large uploads: files of 1 GB through the API process, checked, sealed and
stored.

`python -m benchmarks.uploads [MEGABYTES]` runs it alone; Parquet files have the rows of the CSV
files. The peer reads the same file with pyarrow on one thread and does nothing with the rows. On a
machine that does other work too, processor time says more than the time to the answer.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from discreet.installation.prepared import running
from discreet.settings import Settings

MEGABYTES = 1000
BLOCK_ROWS = 200_000
ZONES, PERIODS = 500, 50
STATES, HORIZON = 50, 20
ROW_BYTES = 30
"""Of a CSV line of a transition, about."""
PERIODS_READ, LOAD_STATES = 168, 20
STATE_BYTES, READING_BYTES = 13, 35
"""Of CSV lines of a state and of a reading, about."""
PIECE = 1 << 20
BOUNDARY = "4f1c9a0be27d4d3c8a5b6e7f80912a3b"
"""As long as those of the clients: it is looked for in every byte."""
REST = "the rest"
PARTS: dict[str, Callable[[bytes], bool]] = {
    "API": lambda command: b"\0api\0" in command,
    "reader": lambda command: b"isolation.reading" in command and b"--template" not in command,
    "PostgreSQL": lambda command: b"postgres" in command.split(b"\0")[0],
}
"""Whose processor time is shown, by their command; children are part of what started them."""


def run(megabytes: int = MEGABYTES) -> list[dict[str, Any]]:
    """Upload tables of so many megabytes as CSV, and as Parquet: the memory of the API, and the
    time that it took."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        settings = Settings(state=Path(folder) / "state", spool=Path(folder) / "spool")
        with running(settings) as ready:
            key = (settings.state / "owner.key").read_text().strip()
            head = {
                "Authorization": f"Bearer {key}",
                "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
            }
            with httpx.Client(
                base_url=ready["api"], headers=head, timeout=3600, trust_env=False
            ) as http:
                for what, write in TABLES.items():
                    rows += _measure(http, ready["pid"], Path(folder), what, write, megabytes)
    return rows


def _measure(
    http: httpx.Client,
    supervisor: int,
    folder: Path,
    what: str,
    write: Callable[[Path, int], dict[str, Any]],
    megabytes: int,
) -> list[dict[str, Any]]:
    small, large, parquet = folder / "small.csv", folder / "large.csv", folder / "large.parquet"
    metadata = write(small, 1)
    http.post(
        "/v1/datasets", content=_body({**metadata, "name": f"few {what}"}, small)
    ).raise_for_status()  # starts the reader
    write(large, megabytes)
    size, found = large.stat().st_size / 1e6, []
    lines = _to_parquet(large, parquet)
    for file, form, alone in ((large, "CSV", _csv_alone), (parquet, "Parquet", _parquet_alone)):
        peer, peer_seconds = _timed(partial(alone, file))
        api = _api_of(supervisor)
        Path(f"/proc/{api}/clear_refs").write_text("5")
        before, spent = _memory(api), _processor_seconds(supervisor)
        body = _body({**metadata, "name": f"many {what} in {form}"}, file)
        started = time.perf_counter()
        http.post("/v1/datasets", content=body).raise_for_status()
        seconds = time.perf_counter() - started
        after, until = _memory(api), _processor_seconds(supervisor)
        shares = {part: until[part] - spent[part] for part in until}
        total = sum(shares.values())
        name = f"{form} upload of {size:.0f} MB of {what}"
        name += "" if form == "CSV" else " as CSV"
        pace = (
            f"{size / seconds:.0f} MB/s; {lines} rows received, sealed twice, read, checked, stored"
        )
        says = f"of all processes; {size / total:.0f} MB a second; " + ", ".join(
            f"{part} {share:.2f} s" for part, share in shares.items()
        )
        found += [
            _against(f"{name}, to the answer", seconds, peer, pace),
            _against(f"{name}, processor time", total, peer_seconds, says),
            _row(
                f"{name}, growth of the API's memory",
                (after["VmHWM"] - before["VmRSS"]) / 1e6,
                "MB",
                f"peak RSS - RSS before; {_words(before)}",
            ),
        ]
    return found


def _against(name: str, ours: float, peer: float, note: str) -> dict[str, Any]:
    return {
        **_row(name, ours, "s", note),
        "peer": "pyarrow alone, one thread",
        "peer_value": peer,
        "ratio": ours / peer,
    }


def _body(metadata: dict[str, Any], file: Path) -> Iterator[bytes]:
    yield (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n'
        + json.dumps(metadata)
        + "\r\n"
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="content"; '
        f'filename="{file.name}"\r\n\r\n'
    ).encode()
    with file.open("rb") as content:
        while part := content.read(PIECE):
            yield part
    yield f"\r\n--{BOUNDARY}--\r\n".encode()


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds, and seconds of processor time."""
    started, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - spent


def _csv_alone(file: Path) -> None:
    """Read the file in blocks, as the reader of uploads has it read."""
    options = pa_csv.ReadOptions(block_size=4 << 20, use_threads=False)
    with pa_csv.open_csv(file, read_options=options) as reader:
        if not sum(batch.num_rows for batch in reader):
            raise RuntimeError("the file is empty")


def _parquet_alone(file: Path) -> None:
    if not sum(batch.num_rows for batch in pq.ParquetFile(file).iter_batches(use_threads=False)):
        raise RuntimeError("the file is empty")


def _to_parquet(source: Path, file: Path) -> int:
    """Write the rows of a CSV file; how many there are."""
    with pa_csv.open_csv(source) as reader, pq.ParquetWriter(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return int(pq.read_metadata(file).num_rows)


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
        "kind": "off_policy_evaluation",
        "public": {**public, "max_trajectories": 10**7, "max_rows": 10**8},
        "cap": {"epsilon": 1, "delta": 0},
    }


def _states(file: Path, megabytes: int) -> dict[str, Any]:
    """Write states of loads of so many megabytes; the dataset's metadata."""
    draw = np.random.default_rng(megabytes)
    _of_loads(
        file,
        megabytes * 1_000_000 // STATE_BYTES,
        lambda numbers: {
            "participant": numbers // PERIODS_READ,
            "step": numbers % PERIODS_READ,
            "state": draw.integers(0, LOAD_STATES, numbers.size),
        },
    )
    return _loads({"unit": "participant", "states": LOAD_STATES})


def _meters(file: Path, megabytes: int) -> dict[str, Any]:
    """Write readings of meters of so many megabytes; the dataset's metadata."""
    draw = np.random.default_rng(megabytes)
    _of_loads(
        file,
        megabytes * 1_000_000 // READING_BYTES,
        lambda numbers: {
            "participant": pa.array([f"m{meter:06d}" for meter in (numbers // PERIODS_READ)]),
            "time": np.datetime64("2026-01-01T00:00:00")
            + (numbers % PERIODS_READ).astype("timedelta64[h]"),
            "kw": draw.integers(0, 1000 * LOAD_STATES, numbers.size) / 1000,
        },
    )
    rule = {"start": "2026-01-01T00:00:00Z", "interval_seconds": 3600, "utc_offset": "Z"}
    return _loads(
        {
            "unit": "participant",
            "states": LOAD_STATES,
            "edges": list(range(LOAD_STATES + 1)),
            "meters": {**rule, "gaps": "leave_out"},
        }
    )


def _of_loads(
    file: Path, rows: int, columns: Callable[[np.ndarray[Any, Any]], dict[str, Any]]
) -> None:
    at_once = PERIODS_READ * 1000
    with file.open("wb") as out:
        for first in range(0, rows, at_once):
            table = pa.table(columns(np.arange(first, min(first + at_once, rows))))
            options = pa_csv.WriteOptions(include_header=first == 0, quoting_style="none")
            pa_csv.write_csv(table, out, options)


def _loads(public: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "dr_ensemble",
        "public": {**public, "max_rows": 10**8},
        "cap": {"epsilon": 1, "delta": 0},
    }


TABLES: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "trips": _trips,
    "transitions": _transitions,
    "meters": _meters,
    "states": _states,
}


def _processor_seconds(root: int) -> dict[str, float]:
    """Of each part of an installation, by its words in `PARTS`: processes that have ended
    included, once their parents know."""
    seconds = dict.fromkeys([*PARTS, REST], 0.0)
    waiting = [(root, REST)]
    while waiting:
        pid, part = waiting.pop()
        place = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            command = (place / "cmdline").read_bytes()
            part = next((name for name, is_part in PARTS.items() if is_part(command)), part)
            for thread in (place / "task").iterdir():
                below = (thread / "children").read_text().split()
                waiting += [(child, part) for child in map(int, below)]
                seconds[part] += int((thread / "schedstat").read_text().split()[0]) / 1e9
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            seconds[part] += sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
    return seconds


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
        peer = f"; {row['peer']} {row['peer_value']:.3g}" if "peer" in row else ""
        print(f"{row['benchmark']}: {row['ours']:.4g} {row['unit']} ({row['note']}{peer})")
