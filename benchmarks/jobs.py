"""What the service adds to a job: API, queue, child processes and ledger, against the same work in
one process."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.processes import memory_below
from discreet.installation.prepared import running
from discreet.privacy.noise import Noise
from discreet.problems.base import Problem, read_example
from discreet.problems.datasets import Dataset
from discreet.problems.numbers import Budget
from discreet.problems.routing.problem import Routing
from discreet.settings import Settings
from discreet_client.client import Client

JOBS = 20


def run() -> list[dict[str, Any]]:
    """Seconds a job in sequence and jobs a second in parallel, minus nothing; memory of all
    processes."""
    body = Routing.example()
    spec = body["problem"].pop("dataset")
    direct = _direct(*read_example(Routing))
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        settings = Settings(state=Path(folder) / "state")
        started = time.perf_counter()
        with running(settings) as ready:
            start_cold = time.perf_counter() - started
            key = (settings.state / "owner.key").read_text().strip()
            with Client(ready["api"], key) as client:
                registered = client.register({**spec, "cap": {"epsilon": 1000, "delta": 0}})
                body["problem"]["dataset"] = registered["id"]
                body["privacy"] = {"epsilon": 0.1}
                client.wait(client.submit(body)["id"])
                resources = client.plan(body)["plan"]["resources"]
                quantum = resources["release_quantum_seconds"] + resources["opening_seconds"]
                seconds = []
                for _ in range(JOBS):
                    begun = time.perf_counter()
                    client.wait(client.submit(body)["id"])
                    seconds.append(time.perf_counter() - begun)
                begun = time.perf_counter()
                for job in [client.submit(body)["id"] for _ in range(JOBS)]:
                    client.wait(job)
                rate = JOBS / (time.perf_counter() - begun)
            memory = sum(size for _, size in memory_below(ready["pid"]))
        started = time.perf_counter()
        with running(settings):
            start_warm = time.perf_counter() - started
    one = statistics.median(seconds)
    note = (
        f"of which {quantum} s are padding: the time that opening and touching data take, "
        "whatever they are"
    )
    return [
        _row(
            "job, submit to result",
            one,
            "s",
            note,
            ("the same release and finish in one process", direct),
        ),
        _row(
            "job, what the service adds beside the padding",
            one - quantum - direct,
            "s",
            "API, queue, ledger, forks",
        ),
        _row("jobs a second, one worker of two slots", rate, "1/s", ""),
        _row("discreet up, first start", start_cold, "s", "initdb and migrations included"),
        _row("discreet up, warm start", start_warm, "s", ""),
        _row("memory of all processes", memory / 2**20, "MiB", "proportional set size"),
    ]


def _direct(problem: Problem, dataset: Dataset | None, budget: Budget) -> float:
    assert dataset is not None
    content = dataset.read_rows(dataset.public, dataset.content)
    seconds = []
    for _ in range(JOBS):
        begun = time.perf_counter()
        plan = problem.plan(dataset.public, budget)
        released = problem.release(dataset.public, plan, content, Noise.secure())
        problem.finish(dataset.public, plan, released, lambda step, total: None).to_json()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def _row(
    name: str, ours: float, unit: str, note: str, peer: tuple[str, float] | None = None
) -> dict[str, Any]:
    row: dict[str, Any] = {"benchmark": name, "ours": ours, "unit": unit, "note": note}
    if peer is not None:
        row.update(peer=peer[0], peer_value=peer[1], ratio=ours / peer[1])
    return row
