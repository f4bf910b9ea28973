"""A release that several workers read: seconds, and processor time of each, by 1, 2 and 4 of them.

`python -m benchmarks.machines [MILLIONS]` makes trips of persons, so many million rows (those of
`benchmarks.parts`), stores them in PostgreSQL, and runs one job for each number of workers. Workers
are processes as on machines of their own: they share the database and the secrets file, and each
reads with one child. Seconds are from the offer of shares until the worker that has the job has
all; processor time is that of a worker with its children from the start of the job until its
release is kept. The job is cancelled then.

With the extra `cluster` one more job has one worker and a Dask cluster of two nodes of one core
(`DISCREET_CLUSTER`), in the clear on loopback; its helpers start after the offer.

Digests are of what is released with one seed: that they are equal is checked, not only shown.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from benchmarks.parts import Case, _cases, _spooled
from discreet.installation.database_roles import APP, OWNER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation.processes import end
from discreet.privacy.filters import Cap
from discreet.problems import KINDS
from discreet.settings import Settings
from discreet.storage import jobs as stored_releases
from discreet.storage import secrets
from discreet.storage.database import SYSTEM
from discreet.storage.identifiers import new_id
from discreet.storage.migrations import migrate
from discreet.storage.sealing import STREAM_CHUNK_BYTES
from discreet.storage.tenants import Principal
from discreet.usecases import access, datasets, jobs
from discreet.usecases.datasets import Registration, SealedContent
from discreet.usecases.requests import JobRequest
from discreet.usecases.services import Services, open_services
from discreet.usecases.uploads import SealedFile

MILLIONS = 10
WORKERS = (1, 2, 4)
NODES = 2
LOOK_SECONDS = 0.02
LEAST_MILLIONS = 3
"""Of fewer no shares are offered."""
WARM: LiteralString = (
    "SELECT count(*) FROM processes WHERE isolation IS NOT NULL AND queue_worker IS NOT NULL"
)
RELEASED: LiteralString = "SELECT count(*) FROM releases WHERE job_id = %s"


def run(millions: int = MILLIONS) -> list[dict[str, Any]]:
    """Seconds of the sum by the number of workers."""
    rows = max(LEAST_MILLIONS, millions) * 1_000_000
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-bench-")))
        server = stack.enter_context(EmbeddedPostgres(folder / "database"))
        server.create_database("machines")
        state = folder / "state"
        state.mkdir()
        secrets.create(state / "secrets.json")
        settings = Settings(
            state=state,
            database_url=server.url(APP, "machines"),
            migration_database_url=server.url(OWNER, "machines"),
            job_memory_bytes=64 << 30,
            spool=folder,
        )
        migrate(settings)
        case = next(iter(_cases(rows)))
        size, dataset = asyncio.run(_store(settings, case, rows, folder))
        found, digests = [], set()
        setups = [(f"{count} workers", count, 0) for count in WORKERS]
        if find_spec("distributed") is not None:
            setups.append((f"1 worker, a cluster of {NODES} nodes", 1, NODES))
        for words, count, nodes in setups:
            with ExitStack() as running:
                address, cluster = _cluster(settings, folder, nodes, running)
                workers = [_worker(settings, cluster=address) for _ in range(count)]
                for worker in workers:
                    running.callback(end, worker, (signal.SIGTERM, 30.0))
                seconds, elsewhere, times, digest = asyncio.run(
                    _release(settings, case, dataset, workers, cluster)
                )
            digests.add(digest)
            each = ", ".join(f"{one:.1f}" for one in sorted(times, reverse=True))
            note = f"{size / 1e6:.0f} MB; {elsewhere} of 16 shares were read by others; "
            note += f"processor time of each {each} s; digest {digest[:12]}"
            name = f"{case.name}, {rows:,} rows, {words}"
            found.append({"benchmark": name, "ours": seconds, "unit": "s", "note": note})
            print(f"{name}: {seconds:.4g} s ({note})", flush=True)
        if len(digests) > 1:
            raise RuntimeError(f"the releases differ: {digests}")
    return found


async def _store(settings: Settings, case: Case, rows: int, folder: Path) -> tuple[int, str]:
    """Size and id of a dataset of made-up rows, whose content is stored as an upload's is."""
    kind = KINDS[case.kind]
    assert kind.Dataset is not None
    async with open_services(settings) as services:
        owner = await access.local_owner(services)
        with SealedFile(folder) as file:
            name = new_id("dst")
            ((content),) = _spooled(case, rows, file, name).contents
            sealed = SealedContent(
                name,
                bytes.fromhex(content["data_key"]),
                os.urandom(32),
                kind.Dataset.read_public(case.public).model_dump(mode="json"),
                content["sealed_bytes"],
                lambda: file.parts(STREAM_CHUNK_BYTES),
            )
            asked = Registration(
                case.name,
                case.kind,
                kind.Dataset.read_public(case.public),
                "simulation",
                Cap(1, 0),
                None,
                dict,
            )
            store = partial(datasets._store, services, owner, asked, sealed)
            await datasets.keep(services, sealed, store)
    return sealed.sealed_bytes, name


def _environment(settings: Settings, processes: int = 1) -> dict[str, str]:
    return {
        **os.environ,
        "DISCREET_DATABASE_URL": settings.database_url or "",
        "DISCREET_STATE": str(settings.state),
        "DISCREET_SPOOL": str(settings.spool_folder),
        "DISCREET_JOB_MEMORY_BYTES": str(settings.job_memory_bytes),
        "DISCREET_SHARE_PROCESSES": str(processes),
    }


def _worker(
    settings: Settings, processes: int = 1, cluster: str | None = None
) -> subprocess.Popen[bytes]:
    environment = _environment(settings, processes) | (
        {} if cluster is None else {"DISCREET_CLUSTER": cluster}
    )
    command = [sys.executable, "-m", "discreet", "worker"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def _cluster(
    settings: Settings, folder: Path, nodes: int, running: ExitStack
) -> tuple[str | None, list[subprocess.Popen[bytes]]]:
    """Address of a scheduler of Dask with so many nodes, and the nodes; None without any."""
    if not nodes:
        return None, []
    place = folder / "scheduler"

    def start(part: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{part}", "--no-dashboard"]
        command += ["--scheduler-file", str(place), *arguments]
        started = subprocess.Popen(
            command, env=_environment(settings), cwd=folder, stderr=subprocess.DEVNULL
        )
        running.callback(end, started, (signal.SIGTERM, 30.0))
        return started

    start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show")
    while not place.exists():
        time.sleep(10 * LOOK_SECONDS)
    each = ("--no-nanny", "--nthreads", "1", "--local-directory", str(folder))
    cluster = [start("worker", *each) for _ in range(nodes)]
    return json.loads(place.read_text())["address"], cluster


async def _release(
    settings: Settings,
    case: Case,
    dataset: str,
    workers: list[subprocess.Popen[bytes]],
    cluster: list[subprocess.Popen[bytes]],
) -> tuple[float, int, list[float], str]:
    """Seconds of the sum, how many shares others than the job's worker have read, processor seconds
    of each worker and node, and the digest of what was released."""
    async with open_services(settings) as services:
        owner = await access.local_owner(services)
        await asyncio.to_thread(_until, settings, WARM, (), len(workers))
        working = [*workers, *cluster]
        before = [_processor_seconds([one.pid]) for one in working]
        job = await _submit(services, owner, case, dataset)
        seconds, elsewhere = await asyncio.to_thread(_watch, settings, job)
        await asyncio.to_thread(_until, settings, RELEASED, (job,), 1)
        after = [_processor_seconds([one.pid]) for one in working]
        async with services.database.transaction(SYSTEM) as connection:
            release = await stored_releases.find_release(connection, job)
        assert release is not None
        await jobs.cancel(services, owner, job)
    times = [late - early for early, late in zip(before, after, strict=True)]
    return seconds, elsewhere, times, bytes(release["digest"]).hex()


def _until(settings: Settings, query: LiteralString, values: tuple[Any, ...], count: int) -> None:
    with psycopg.connect(settings.migration_database_url or "", autocommit=True) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        while connection.execute(query, values).fetchone() != (count,):
            time.sleep(10 * LOOK_SECONDS)


async def _submit(services: Services, owner: Principal, case: Case, dataset: str) -> str:
    asked = {**case.asked, "kind": case.kind, "dataset": dataset}
    privacy = {"epsilon": 1, "delta": 0}
    request = JobRequest.model_validate({"problem": asked, "privacy": privacy, "seed": 1})
    row = await jobs.submit(
        services,
        owner,
        idempotency_key=str(uuid.uuid4()),
        request=uuid.uuid4().bytes,
        problem=request.problem,
        privacy=request.privacy,
        seed=request.seed,
    )
    return str(row["id"])


def _watch(settings: Settings, job: str) -> tuple[float, int]:
    """From the offer of shares until all are read, by the database's rows, and how many others have
    taken."""
    query = "SELECT taken_by, wrapped_key IS NULL FROM job_shares WHERE job_id = %s"
    began, taken = 0.0, 0
    with psycopg.connect(settings.migration_database_url or "", autocommit=True) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        while True:
            rows = connection.execute(query, (job,)).fetchall()
            if rows and not began:
                began = time.perf_counter()
            taken = sum(bool(worker) for worker, _ in rows) or taken
            if began and (not rows or rows[0][1]):
                return time.perf_counter() - began, taken
            time.sleep(LOOK_SECONDS)


def _processor_seconds(pids: Iterable[int]) -> float:
    """Of processes and all that they have started, ended ones included."""
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += _processor_seconds(map(int, (task / "children").read_text().split()))
    return total


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else MILLIONS)
