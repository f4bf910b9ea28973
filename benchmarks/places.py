"""Rows in many Parquet files of a bucket, read as the blocks of a source, and the release of a job
over all of them: seconds and memory a part, and those of the processes that sum.

`python -m benchmarks.places [MILLIONS] [PARTS]` runs it alone: so many million trips, then as many
transitions, in so many files of an S3 server of moto on loopback, which is a process of its own
beside the API. Each file is a block with a label. What a worker's release of a job over all blocks
does follows: contents into the spool, then children that sum, 1, 2 and 4 of them. That they release
the same with one seed is checked.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.buckets import BUCKET, Beside, beside_a_bucket
from benchmarks.parts import LIMITS, watched
from benchmarks.scale import family_of
from discreet.isolation.children import Zygote
from discreet.problems import KINDS, read_as_one
from discreet.problems.numbers import Privacy
from discreet.settings import Settings
from discreet.usecases.services import open_services
from discreet.usecases.spooling import spool_large
from discreet.worker.releasing import release_in_children

MILLIONS, PARTS = 10, 64
PROCESSES = (1, 2, 4)
ZONES, PERIODS, HORIZON = 300, 50, 20
BLOCKS_BYTES = 8 << 30
"""Of all blocks together, at most."""
SAMPLE_SECONDS = 0.02


@dataclass(frozen=True)
class Case:
    """A kind's rows: a table of so many for each number of a part, and what is asked of all."""

    name: str
    kind: str
    public: dict[str, Any]
    asked: dict[str, Any]
    table: Callable[[int, int], pa.Table]


def run(millions: int = MILLIONS, parts: int = PARTS) -> list[dict[str, Any]]:
    """Seconds and memory of each part as it is registered, and of a job over all, by how many
    processes read them."""
    return list(_measured(millions, parts))


def _measured(millions: int = MILLIONS, parts: int = PARTS) -> Iterator[dict[str, Any]]:
    with beside_a_bucket() as beside:
        for case in _cases(millions * 1_000_000 // parts):
            source = _registered(beside.http, case, millions * 1_000_000 // parts, parts)
            yield from _read(beside, case, source, millions, parts)
            shown = beside.http.get(f"/v1/sources/{source}").raise_for_status().json()["blocks"]
            versions = [one["dataset"] for one in sorted(shown, key=lambda one: one["block"])]
            yield from _summed(case, versions, beside.settings, millions)


def _registered(http: httpx.Client, case: Case, rows: int, parts: int) -> str:
    """A source for the parts; its id."""
    source = {
        "name": case.name,
        "kind": case.kind,
        "public": case.public,
        "by": "label",
        "mode": "simulation",
        "cap": {"epsilon": 1000, "delta": 0},
        "block_bytes": BLOCKS_BYTES // parts,
    }
    answer = http.post("/v1/sources", json=source)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _read(
    beside: Beside, case: Case, source: str, millions: int, parts: int
) -> list[dict[str, Any]]:
    rows = millions * 1_000_000 // parts
    seconds, peaks, sizes = [], [], []
    for number in range(parts):
        out = io.BytesIO()
        pq.write_table(case.table(number, rows), out)
        sizes.append(out.tell())
        label = f"part-{number:02d}"
        beside.bucket.pipe_file(f"{BUCKET}/{case.kind}/{label}.parquet", out.getvalue())
        body = {"block": label, "content_from": f"s3://{BUCKET}/{case.kind}/{label}.parquet"}
        with largest_of(beside.pid) as most:
            began = time.perf_counter()
            answer = beside.http.post(f"/v1/sources/{source}/blocks", json=body)
            seconds.append(time.perf_counter() - began)
        assert answer.status_code == 201, answer.text
        peaks.append(max(most.values()))
        # Its room is not needed any more.
        beside.bucket.rm_file(f"{BUCKET}/{case.kind}/{label}.parquet")
    quarter = max(1, parts // 4)
    first, last = (statistics.median(one) for one in (seconds[:quarter], seconds[-quarter:]))
    least, most_ = min(peaks) / 1e6, max(peaks) / 1e6
    note = (
        f"median of the last {quarter} of {parts} parts of {rows:,} rows, "
        f"{statistics.mean(sizes) / 1e6:.0f} MB of Parquet each; "
        f"{statistics.mean(sizes) / 1e6 / statistics.median(seconds):.1f} MB/s, "
        f"{sum(seconds):.0f} s for all; largest process {least:.0f} to {most_:.0f} MB"
    )
    return [
        {
            "benchmark": f"{millions}e6 {case.name} from a bucket: a part read, checked and sealed",
            "ours": last,
            "unit": "s",
            "note": note,
            "peer": f"the first {quarter}",
            "peer_value": first,
            "ratio": last / first,
        }
    ]


def _summed(
    case: Case, versions: Sequence[str], settings: Settings, millions: int
) -> Iterator[dict[str, Any]]:
    """The release of a job over all blocks, as a worker makes it, by how many processes sum."""
    yield from asyncio.run(_released(case, versions, settings, millions))


async def _released(
    case: Case, versions: Sequence[str], settings: Settings, millions: int
) -> list[dict[str, Any]]:
    kind, parts = KINDS[case.kind], len(versions)
    assert kind.Dataset is not None
    public = read_as_one(case.kind, [case.public] * parts)
    problem = kind.model_validate({**case.asked, "kind": case.kind, "dataset": "all blocks"})
    plan = problem.plan(public, problem.budget(Privacy.model_validate({"epsilon": 1, "delta": 0})))
    header = {
        "step": "release",
        "kind": case.kind,
        "problem": problem.model_dump(mode="json"),
        "public": public.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "block": kind.Dataset.read_public(case.public).model_dump(mode="json"),
        "simulation": False,
        "seed": 1,
    }
    name, rows, digests = f"{millions}e6 {case.name} in {parts} parts", [], set()
    zygote = Zygote()
    async with open_services(settings) as services:
        began = time.perf_counter()
        spooled = await spool_large(services, versions)
        seconds = time.perf_counter() - began
    assert spooled is not None, "read as a whole"
    size = spooled.sealed_bytes / 1e6
    note = f"{size:.0f} MB sealed, each chunk opened on the way"
    rows.append(
        {"benchmark": f"{name}: into the spool", "ours": seconds, "unit": "s", "note": note}
    )
    try:
        await zygote.start()
        for processes in PROCESSES:
            release = partial(
                release_in_children, zygote, content=spooled, limits=LIMITS, processes=processes
            )
            with watched(zygote) as (peaks, busy):
                began = time.perf_counter()
                await release(header)
                seconds = time.perf_counter() - began
            seeded = await release({**header, "simulation": True})
            digests.add(hashlib.sha256(seeded.payload).hexdigest())
            note = (
                f"{size / seconds:.0f} MB/s; at most {max(peaks.values()) / 1e6:.0f} MB each; the "
                f"busiest took {max(busy.values()):.1f} s of processor time; "
                f"digest {min(digests)[:12]}"
            )
            rows.append(
                {
                    "benchmark": f"{name}: summed by {processes}",
                    "ours": seconds,
                    "unit": "s",
                    "note": note,
                }
            )
    finally:
        await zygote.stop()
        spooled.close()
    if len(digests) != 1:
        raise RuntimeError(f"{case.name}: the releases differ: {digests}")
    return rows


@contextmanager
def largest_of(pid: int) -> Iterator[dict[int, int]]:
    """The most RSS, in bytes, of a process and of all that it has started, by its process, of what
    ran in the block."""
    peaks, done = dict[int, int](), threading.Event()
    old = set(family_of(pid))  # whose largest may have been long ago

    def look() -> None:
        for one in family_of(pid):
            name = "VmRSS" if one in old else "VmHWM"
            for line in Path(f"/proc/{one}/status").read_text().splitlines():
                if line.startswith(name):
                    peaks[one] = max(peaks.get(one, 0), int(line.split()[1]) * 1024)

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            with suppress(OSError):  # one that has ended meanwhile
                look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


# Rows ---------------------------------------------------------------------------------------------


def asked_of_trips() -> dict[str, Any]:
    """A problem on trips between the zones of a ring of roads."""
    routing = KINDS["routing"].example()["problem"]
    link = routing["network"]["links"][0]
    network = {
        **routing["network"],
        "nodes": ZONES,
        "links": [{**link, "tail": n, "head": n % ZONES + 1} for n in range(1, ZONES + 1)],
    }
    asked = {name: value for name, value in routing.items() if name not in ("dataset", "kind")}
    return {**asked, "network": network}


def _cases(rows: int) -> Iterator[Case]:
    yield Case(
        "trips",
        "routing",
        {
            "unit": "request",
            "zones": ZONES,
            "periods": PERIODS,
            "period_minutes": 60,
            "max_rows": rows,
        },
        asked_of_trips(),
        trips,
    )
    yield Case(
        "transitions",
        "off_policy_evaluation",
        {
            "unit": "trajectory",
            "states": 50,
            "reward_bound": 1,
            "horizon": HORIZON,
            "max_rows": rows,
            "off_policy": False,
        },
        {"discount": 0.9, "method": "moments"},
        _transitions,
    )


def trips(number: int, rows: int) -> pa.Table:
    draw = np.random.default_rng([22, number])
    return pa.table(
        {
            "period": draw.integers(0, PERIODS, rows, np.int32),
            "origin": draw.integers(1, ZONES + 1, rows, np.int32),
            "destination": draw.integers(1, ZONES + 1, rows, np.int32),
            "count": draw.integers(1, 9, rows, np.int32),
        }
    )


def _transitions(number: int, rows: int) -> pa.Table:
    draw = np.random.default_rng([23, number])
    place = np.arange(rows, dtype=np.int32)
    states = draw.integers(0, 50, rows + 1, np.int32)
    last = place % HORIZON == HORIZON - 1
    return pa.table(
        {
            "trajectory": place // HORIZON,
            "step": place % HORIZON,
            "state": states[:-1],
            "next_state": states[1:],
            "reward": draw.integers(0, 1000, rows) / 1000,
            "terminal": last,
        }
    )


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:]]
    for row in _measured(*given):
        told = f"{row['benchmark']}: {row['ours']:.4g} {row['unit']} ({row['note']})"
        print(told, f"{row['ratio']:.3g}" if "ratio" in row else "", flush=True)
