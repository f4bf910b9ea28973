"""What a job pays for a content that stays at its place, beside one that is stored.

`python -m benchmarks.stays [ROWS …]` registers trips of so many rows in Parquet, stored, and left
in a folder or a bucket of an S3 server of moto on loopback, and opens them as a worker does before
a release: decrypted, or fetched, read, digested and compared. It prints seconds, and those to which
they are padded.
"""

from __future__ import annotations

import asyncio
import io
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from benchmarks.buckets import BUCKET, Beside, beside_a_bucket
from benchmarks.places import PERIODS, ZONES, trips
from discreet.problems import KINDS
from discreet.problems.numbers import Privacy
from discreet.settings import Settings
from discreet.usecases import datasets, spooling
from discreet.usecases.places.staying import planned_seconds
from discreet.usecases.services import Services, open_services

ROWS = (10_000, 1_000_000)
TIMES = 5
WAYS = ("stored", "folder", "bucket")


def run(rows: tuple[int, ...] = ROWS) -> list[dict[str, Any]]:
    """Seconds to open a content, by its size and by where it lies."""
    return list(_measured(rows))


def _measured(rows: tuple[int, ...] = ROWS) -> Iterator[dict[str, Any]]:
    with beside_a_bucket() as beside:
        made = {
            (many, way): _registered(beside, many, way, number)
            for number, (many, way) in enumerate((many, way) for many in rows for way in WAYS)
        }
        yield from asyncio.run(_opened(beside.settings, made))


def _public(rows: int) -> dict[str, Any]:
    shape = {"unit": "request", "zones": ZONES, "periods": PERIODS, "period_minutes": 60}
    return {**shape, "max_rows": rows}


def _registered(beside: Beside, rows: int, way: str, number: int) -> str:
    out = io.BytesIO()
    pq.write_table(trips(number, rows), out)
    name = f"{rows}-{way}.parquet"
    if way == "bucket":
        beside.bucket.pipe_file(f"{BUCKET}/{name}", out.getvalue())
    else:
        (beside.exports / name).write_bytes(out.getvalue())
    body = {
        "name": name,
        "kind": "routing",
        "public": _public(rows),
        "cap": {"epsilon": 1, "delta": 0},
        "content_from": f"s3://{BUCKET}/{name}"
        if way == "bucket"
        else f"file://{beside.exports}/{name}",
        "content_stays": way != "stored",
    }
    answer = beside.http.post("/v1/datasets", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def _opened(settings: Settings, made: dict[tuple[int, str], str]) -> list[dict[str, Any]]:
    found = []
    async with open_services(settings) as services:
        await services.children.start()  # as in a worker that has had such a job
        stored: dict[int, float] = {}
        for (rows, way), dataset in made.items():
            seconds = await _median(partial(_open, services, dataset))
            stored.setdefault(rows, seconds)
            padded = _opening_seconds(rows)
            if way != "stored":
                padded = planned_seconds(padded, 1)
            found.append(
                {
                    "benchmark": f"{rows:,} trips, {way}: opened for a job",
                    "ours": seconds,
                    "unit": "s",
                    "note": f"padded to {padded:.3g} s",
                    "peer": "stored",
                    "peer_value": stored[rows],
                    "ratio": seconds / stored[rows],
                }
            )
    return found


async def _open(services: Services, dataset: str) -> None:
    spooled = await spooling.spool_large(services, [dataset])
    if spooled is None:
        await datasets.open_content(services, dataset)
    else:
        spooled.close()


async def _median(step: Callable[[], Awaitable[None]]) -> float:
    seconds = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await step()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _opening_seconds(rows: int) -> float:
    """Of a plan on so many rows."""
    kind = KINDS["routing"]
    asked = kind.example()["problem"]
    link = asked["network"]["links"][0]
    links = [{**link, "tail": n, "head": n % ZONES + 1} for n in range(1, ZONES + 1)]
    network = {**asked["network"], "nodes": ZONES, "links": links}
    problem = kind.model_validate({**asked, "dataset": "dst", "network": network})
    assert kind.Dataset is not None
    public = kind.Dataset.read_public(_public(rows))
    budget = problem.budget(Privacy.model_validate({"epsilon": 1, "delta": 0}))
    return float(problem.plan(public, budget).resources.opening_seconds)


if __name__ == "__main__":
    given = tuple(int(one) for one in sys.argv[1:]) or ROWS
    for row in _measured(given):
        told = f"{row['benchmark']}: {row['ours']:.4g} {row['unit']} ({row['note']})"
        print(told, f"{row['ratio']:.3g} of stored", flush=True)
