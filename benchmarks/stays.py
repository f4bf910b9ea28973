"""What a job pays for a content that stays at its place, beside one that is stored.

`python -m benchmarks.stays [ROWS …]` registers trips of so many rows in Parquet, stored, and left
in a folder or a bucket of an S3 server of moto on loopback, and opens them as a worker does before
a release: decrypted, or fetched, read, digested and compared. It prints seconds, and those to which
they are padded.
"""

from __future__ import annotations

import asyncio
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq

from benchmarks.places import BUCKET, KEY, PERIODS, ZONES, _files, _store, _trips
from discreet.installation.database_roles import APP, OWNER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.prepared import running
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
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-bench-")))
        endpoint = stack.enter_context(_store())
        exports = folder / "exports"
        exports.mkdir()
        bucket = {"url": f"s3://{BUCKET}/", "tenants": ["*"], "endpoint": endpoint}
        bucket |= {"access_key": KEY, "secret_key": KEY, "region": "us-east-1"}
        places = folder / "places.json"
        local = {"url": f"file://{exports}/", "tenants": ["*"]}
        places.write_text(json.dumps({"places": [bucket, local]}))
        places.chmod(0o600)
        server = stack.enter_context(EmbeddedPostgres(folder / "database"))
        server.create_database("stays")
        settings = Settings(
            state=folder / "state",
            workers=0,
            content_places=places,
            database_url=server.url(APP, "stays"),
            migration_database_url=server.url(OWNER, "stays"),
        )
        ready = stack.enter_context(running(settings))
        key = (settings.state / "owner.key").read_text().strip()
        http = stack.enter_context(
            httpx.Client(
                base_url=ready["api"],
                headers={"Authorization": f"Bearer {key}"},
                timeout=3600,
                trust_env=False,
            )
        )
        made = {
            (many, way): _registered(http, many, way, number, exports, endpoint)
            for number, (many, way) in enumerate((many, way) for many in rows for way in WAYS)
        }
        yield from asyncio.run(_opened(settings, made))


def _public(rows: int) -> dict[str, Any]:
    shape = {"unit": "request", "zones": ZONES, "periods": PERIODS, "period_minutes": 60}
    return {**shape, "max_rows": rows}


def _registered(
    http: httpx.Client, rows: int, way: str, number: int, exports: Path, endpoint: str
) -> str:
    out = io.BytesIO()
    pq.write_table(_trips(number, rows), out)
    name = f"{rows}-{way}.parquet"
    if way == "bucket":
        _files(endpoint).pipe_file(f"{BUCKET}/{name}", out.getvalue())
    else:
        (exports / name).write_bytes(out.getvalue())
    body = {
        "name": name,
        "kind": "routing",
        "public": _public(rows),
        "cap": {"epsilon": 1, "delta": 0},
        "content_from": f"s3://{BUCKET}/{name}" if way == "bucket" else f"file://{exports}/{name}",
        "content_stays": way != "stored",
    }
    answer = http.post("/v1/datasets", json=body)
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
