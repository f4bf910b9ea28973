"""Rows of persons (trajectories, participants) that lie in no order in many files of a bucket, read
as one content: seconds, and the memory of the largest process, by the number of rows.

`python -m benchmarks.persons [MILLIONS] [FILES] [KIND …]` runs it alone, of trips, transitions and
states, or of these kinds: so many million rows in so many files of an S3 server of moto on
loopback. The rows of a unit are in any of the files. The same rows in half as many files, in
another order, must be the same dataset; up to WHOLE millions its digest must be that of all rows
read at once by `Dataset.read_table`.

With `--release` the rows are registered once, and what follows is a job on them, of trips or
transitions: the same with one seed by a worker whose 1, 2 and 4 children read. Its processes, its
queue and the database are those of an installation, with usual limits of memory. Seconds are from
the request until the release is kept; what is released must be the same.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.buckets import BUCKET, Beside, beside_a_bucket
from benchmarks.machines import RELEASED, WARM, _processor_seconds, _until, _worker
from benchmarks.places import asked_of_trips, largest_of
from benchmarks.scale import family_of
from discreet.isolation.processes import end
from discreet.problems import DATASETS
from discreet.problems.contents import canonical_bytes
from discreet.settings import Settings
from discreet.storage import datasets
from discreet.storage.database import SYSTEM
from discreet.storage.datasets import content_digest
from discreet.usecases.services import open_services

MILLIONS, FILES, WHOLE = 10, 16, 10
ROWS_A_UNIT = 20
ZONES, PERIODS, STATES = 300, 50, 50
UPLOAD_BYTES = 64 << 30
PROCESSES = (1, 2, 4)
STRIDES = 387_420_489, 1_162_261_467
"""Powers of 3, with which rows are counted off: no order that a reader could use."""


@dataclass(frozen=True)
class Case:
    """A kind's rows by their numbers, in any order."""

    name: str
    kind: str
    public: dict[str, Any]
    table: Callable[[NDArray[np.int64]], pa.Table]
    asked: dict[str, Any] | None = None
    """Of a job whose release is a sum."""


def run(millions: int = MILLIONS, files: int = FILES) -> list[dict[str, Any]]:
    """Seconds, and the peak memory of the service, to register each content."""
    return list(_measured(millions, files))


def _measured(
    millions: int = MILLIONS,
    files: int = FILES,
    kinds: Sequence[str] = tuple(DATASETS),
    *,
    release: bool = False,
) -> Iterator[dict[str, Any]]:
    if millions % 3 == 0:
        raise ValueError("rows are counted off by powers of 3, which takes other numbers")
    rows = millions * 1_000_000
    with beside_a_bucket(upload_bytes=UPLOAD_BYTES) as beside:
        for case in (one for one in _cases(rows) if one.kind in kinds):
            found = set()
            ways = list(zip(STRIDES, (files, max(2, files // 2)), strict=True))
            for stride, number in ways[:1] if release else ways:
                size = _put(case, beside.bucket, rows, number, stride)
                with largest_of(beside.pid) as most:
                    began = time.perf_counter()
                    answer = beside.http.post("/v1/datasets", json=_body(case))
                    seconds = time.perf_counter() - began
                if answer.status_code not in (200, 201):
                    raise RuntimeError(answer.text)
                found.add(answer.json()["id"])
                note = (
                    f"{size / 1e6:.0f} MB of Parquet, {size / 1e6 / seconds:.0f} MB/s; the largest "
                    f"process had {max(most.values()) / 1e6:.0f} MB"
                )
                name = f"{millions}e6 {case.name} in {number} files, registered as one content"
                yield {"benchmark": name, "ours": seconds, "unit": "s", "note": note}
            if release and case.asked is not None:
                yield from _released(beside, case, millions, next(iter(found)))
            if len(found) > 1:
                raise RuntimeError(f"{case.name}: the same rows in other files are other data")
            if millions <= WHOLE:
                asyncio.run(_compare(beside.settings, case, rows, found.pop()))


def _released(beside: Beside, case: Case, millions: int, dataset: str) -> Iterator[dict[str, Any]]:
    """A job on the dataset by one worker, by how many of its children read."""
    digests = set()
    for processes in PROCESSES:
        worker = _worker(beside.settings, processes)
        try:
            _until(beside.settings, WARM, (), 1)
            before = _processor_seconds([worker.pid])
            problem = {**(case.asked or {}), "kind": case.kind, "dataset": dataset}
            body = {"problem": problem, "privacy": {"epsilon": 1, "delta": 0}, "seed": 1}
            before_it = set(family_of(worker.pid))
            with largest_of(worker.pid) as most:
                began = time.perf_counter()
                answer = beside.http.post(
                    "/v1/jobs", json=body, headers={"Idempotency-Key": f"{dataset} {processes}"}
                )
                if answer.status_code not in (200, 201, 202):
                    raise RuntimeError(answer.text)
                job = answer.json()["id"]
                _until(beside.settings, RELEASED, (job,), 1)
                seconds = time.perf_counter() - began
                after = set(family_of(worker.pid)) - before_it  # it finishes what was released
            busy = _processor_seconds([worker.pid]) - before
            while (shown := beside.http.get(f"/v1/jobs/{job}").json())["state"] in (
                "queued",
                "running",
            ):
                time.sleep(0.2)
        finally:
            end(worker, (signal.SIGTERM, 30.0))
        if shown["state"] != "succeeded":
            raise RuntimeError(f"{case.name}: {shown}")
        answer = beside.http.get(f"/v1/jobs/{job}/result").raise_for_status().json()
        digests.add(answer["certificate"]["release_digest"])
        note = (
            f"{busy:.1f} s of processor time in all; the largest process of the worker had "
            f"{max(most[one] for one in most if one not in after) / 1e6:.0f} MB until then; "
            f"digest {min(digests)[:12]}"
        )
        name = f"{millions}e6 {case.name}, one content, a job by {processes} that read"
        yield {"benchmark": name, "ours": seconds, "unit": "s", "note": note}
    if len(digests) > 1:
        raise RuntimeError(f"{case.name}: the releases differ: {digests}")


def _put(case: Case, bucket: Any, rows: int, files: int, stride: int) -> int:
    """Write the rows to so many files of the bucket, counted off by `stride`; their bytes."""
    size = 0
    for old in bucket.ls(BUCKET):
        bucket.rm(old, recursive=True)
    for number in range(files):
        places = np.arange(rows * number // files, rows * (number + 1) // files)
        out = io.BytesIO()
        pq.write_table(case.table(places * stride % rows), out)
        size += out.tell()
        bucket.pipe_file(f"{BUCKET}/{case.kind}/{number:03d}.parquet", out.getvalue())
    return size


def _body(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "kind": case.kind,
        "public": case.public,
        "mode": "simulation",
        "cap": {"epsilon": 1000, "delta": 0},
        "content_from": f"s3://{BUCKET}/{case.kind}/*.parquet",
    }


async def _compare(settings: Settings, case: Case, rows: int, dataset: str) -> None:
    """RuntimeError unless the stored digest is that of all rows read at once."""
    kind = DATASETS[case.kind]
    content = kind.read_table(kind.read_public(case.public), case.table(np.arange(rows)))
    async with (
        open_services(settings) as services,
        services.database.transaction(SYSTEM) as connection,
    ):
        row = await datasets.held(connection, dataset)
        assert row is not None
        key = services.secrets.digest_key
        if row["digest"] != content_digest(key, row["tenant_id"], canonical_bytes(content)):
            raise RuntimeError(f"{case.name}: the digest is not that of all rows read at once")


# Rows ---------------------------------------------------------------------------------------------


def _cases(rows: int) -> Iterator[Case]:
    yield Case(
        "trips of persons",
        "routing",
        {
            "unit": "person",
            "zones": ZONES,
            "periods": PERIODS,
            "period_minutes": 60,
            "max_rows": rows,
        },
        _trips,
        {**asked_of_trips(), "max_trips_per_person": 40},
    )
    yield Case(
        "transitions",
        "off_policy_evaluation",
        {
            "unit": "trajectory",
            "states": STATES,
            "reward_bound": 1,
            "horizon": ROWS_A_UNIT,
            "max_rows": rows,
            "max_trajectories": rows,
        },
        _transitions,
        {"discount": 0.9, "method": "moments"},
    )
    yield Case(
        "states of loads",
        "dr_ensemble",
        {"unit": "participant", "states": STATES, "max_rows": rows},
        _states,
    )


def _drawn(row: NDArray[np.int64], salt: int, below: int) -> NDArray[np.int32]:
    """Numbers that look random, each a function of its row alone (SplitMix64's finalizer)."""
    word = row.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((word >> np.uint64(33)) % np.uint64(below)).astype(np.int32)


def _trips(row: NDArray[np.int64]) -> pa.Table:
    return pa.table(
        {
            "person": row // ROWS_A_UNIT,
            "period": _drawn(row, 1, PERIODS),
            "origin": 1 + _drawn(row, 2, ZONES),
            "destination": 1 + _drawn(row, 3, ZONES),
            "count": 1 + _drawn(row, 4, 8),
        }
    )


def _transitions(row: NDArray[np.int64]) -> pa.Table:
    step = row % ROWS_A_UNIT
    return pa.table(
        {
            "trajectory": row // ROWS_A_UNIT,
            "step": step,
            "state": _drawn(row, 1, STATES),
            "next_state": _drawn(row, 2, STATES),
            "reward": _drawn(row, 3, 1000) / 1000,
            "terminal": step == ROWS_A_UNIT - 1,
        }
    )


def _states(row: NDArray[np.int64]) -> pa.Table:
    return pa.table(
        {
            "participant": row // ROWS_A_UNIT,
            "step": row % ROWS_A_UNIT,
            "state": _drawn(row, 1, STATES),
        }
    )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("millions", type=int, nargs="?", default=MILLIONS)
    arguments.add_argument("files", type=int, nargs="?", default=FILES)
    arguments.add_argument("kinds", nargs="*", default=tuple(DATASETS))
    arguments.add_argument("--release", action="store_true")
    chosen = arguments.parse_args()
    for told in _measured(chosen.millions, chosen.files, chosen.kinds, release=chosen.release):
        print(
            f"{told['benchmark']}: {told['ours']:.4g} {told['unit']} ({told['note']})", flush=True
        )
