"""What the duration of a job tells an analyst who may ask for next to nothing: the attack on time,
over real HTTP.

`make bench ARGS=timing` runs it against a service of its own. The owner registers trajectories
whose number is private. The analyst, at (1e-6, 1e-12) a job and with `finished_at - started_at`
alone, does two things:

- bisects: each of 15 jobs of `minibatch` has as many `steps` as put a boundary of padded durations
  at the middle of what is still possible; what a step takes was measured beforehand, in the same
  program on synthetic data;
- tells 30,000 from 60,000 trajectories, 16 times, by `minibatch` and by `moments` with the Fourier
  order as the lever. Each job is judged by whether it took nearer to what the median of the other
  jobs on 30,000 or on 60,000 took.

At chance the bisection ends at the same figure whatever the secret, and about half of the judgments
are right.
"""

from __future__ import annotations

import io
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.installation.prepared import running
from discreet.privacy.noise import Noise
from discreet.problems import DATASETS, KINDS
from discreet.problems.numbers import Budget
from discreet.settings import Settings
from discreet_client.client import Client

LEAST, MOST = 25_000, 200_000
"""What the analyst knows of the number of trajectories beforehand."""
SECRETS = (52_243, 77_165)
JOBS = 15
PAIR = (30_000, 60_000)
ROUNDS = 8
PRIVACY = {"epsilon": 1e-6, "delta": 1e-12}
BOUNDARY_SECONDS = 1.0
"""A doubling of half a second, to which durations were padded before there were bounds."""
MOST_STEPS = 350
"""On all trajectories each: more could take too long, on the largest content, and such plans are
refused."""
BASE_SECONDS = 0.1
"""Of opening a content and starting its child, about."""

Job = dict[str, Any]


def run() -> list[dict[str, Any]]:
    """Relative errors of the bisected numbers, and how often the pair was told apart."""
    draw = np.random.default_rng(5)
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        settings = Settings(state=Path(folder) / "state")
        with running(settings) as ready:
            key = (settings.state / "owner.key").read_text().strip()
            with Client(ready["api"], key) as client:
                _seconds(
                    client, _registered(client, 1000, draw), _minibatch(10)
                )  # workers are warm
                rows = [_bisect(client, secret, draw) for secret in SECRETS]
                rows += [_tell(client, name, lever, draw) for name, lever in _levers()]
    return rows


def _minibatch(steps: int) -> Job:
    """Steps on all trajectories each."""
    return {"features": {"type": "tabular"}, "method": "minibatch", "steps": steps, "sampling": 1}


def _moments(order: int) -> Job:
    return {
        "features": {"type": "fourier", "order": order, "low": [0, 0], "high": [1, 1]},
        "method": "moments",
    }


def _bisect(client: Client, secret: int, draw: np.random.Generator) -> dict[str, Any]:
    dataset, unit = _registered(client, secret, draw), _step_seconds()
    low, high = math.log(LEAST), math.log(MOST)
    took = []
    for _ in range(JOBS):
        middle = (low + high) / 2
        job = _minibatch(
            min(MOST_STEPS, round((BOUNDARY_SECONDS - BASE_SECONDS) / unit / math.exp(middle)))
        )
        took.append(_seconds(client, dataset, job))
        more = took[-1] > 1.25 * max(BOUNDARY_SECONDS, _quantum(client, dataset, job))
        low, high = (middle, high) if more else (low, middle)
    found = math.exp((low + high) / 2)
    note = f"{secret:,} read as {found:,.0f}; {JOBS} jobs of {min(took):.2f} to {max(took):.2f} s"
    return {
        "benchmark": "bisected number, relative error",
        "ours": abs(found / secret - 1),
        "unit": "",
        "note": note,
    }


def _levers() -> list[tuple[str, Job]]:
    """Of both methods a job whose boundary lies between the pair."""
    middle = math.sqrt(PAIR[0] * PAIR[1])
    unit = _step_seconds()
    aim = BOUNDARY_SECONDS - BASE_SECONDS
    took = {order: _work_seconds(_moments(order), 5000) / 5000 * middle for order in range(3, 9)}
    order = min(took, key=lambda order: abs(math.log(took[order] / aim)))
    steps = round(aim / unit / middle)
    return [
        (f"minibatch, {steps} steps", _minibatch(steps)),
        (f"moments, Fourier order {order}", _moments(order)),
    ]


def _tell(client: Client, name: str, job: Job, draw: np.random.Generator) -> dict[str, Any]:
    datasets = [_registered(client, trajectories, draw, job) for trajectories in PAIR]
    which = draw.permutation(np.repeat([0, 1], ROUNDS))
    took = np.array([_seconds(client, datasets[one], job) for one in which])
    right = 0
    for place, one in enumerate(which):
        others = np.arange(which.size) != place
        few, many = (float(np.median(took[others & (which == group)])) for group in (0, 1))
        right += int((abs(took[place] - many) < abs(took[place] - few)) == bool(one))
    medians = [statistics.median(took[which == group]) for group in (0, 1)]
    note = (
        f"{name}: {medians[0]:.3f} s and {medians[1]:.3f} s at the median; chance is "
        f"{which.size / 2:g}"
    )
    return {
        "benchmark": "30,000 told from 60,000",
        "ours": right,
        "unit": f"of {which.size}",
        "note": note,
    }


def _columns(trajectories: int, draw: np.random.Generator, job: Job) -> tuple[Job, pa.Table]:
    """Public part and content: trajectories of one transition each."""
    columns: dict[str, Any] = {
        "trajectory": np.arange(trajectories),
        "step": np.zeros(trajectories, dtype=np.int64),
        "reward": draw.random(trajectories),
        "terminal": np.zeros(trajectories, dtype=bool),
    }
    public: Job = {"unit": "trajectory", "reward_bound": 1, "horizon": 1}
    if job["features"]["type"] == "tabular":
        columns |= {name: draw.integers(0, 20, trajectories) for name in ("state", "next_state")}
        return {**public, "states": 20}, pa.table(columns)
    columns |= {
        f"{name}_{axis}": draw.random(trajectories) for name in ("x", "x_next") for axis in range(2)
    }
    return {**public, "features": 2}, pa.table(columns)


def _registered(
    client: Client, trajectories: int, draw: np.random.Generator, job: Job | None = None
) -> str:
    public, table = _columns(trajectories, draw, _minibatch(1) if job is None else job)
    file = io.BytesIO()
    pq.write_table(table, file)
    file.seek(0)
    metadata = {
        "name": "trajectories",
        "kind": "off_policy_evaluation",
        "public": public,
        "cap": {"epsilon": 1, "delta": 1e-6},
    }
    return client.upload(metadata, file, "content.parquet")["id"]


def _body(dataset: str, job: Job) -> Job:
    problem = {"kind": "off_policy_evaluation", "dataset": dataset, "discount": 0.9, **job}
    return {"problem": problem, "privacy": PRIVACY}


def _seconds(client: Client, dataset: str, job: Job) -> float:
    """What the analyst sees of a job."""
    done = client.wait(client.submit(_body(dataset, job))["id"])
    assert done["state"] == "succeeded", done
    started, finished = (
        datetime.fromisoformat(str(done[name])) for name in ("started_at", "finished_at")
    )
    return (finished - started).total_seconds()


def _step_seconds() -> float:
    """What one trajectory takes in one step of `minibatch`."""
    return (
        statistics.median(_work_seconds(_minibatch(200), 60_000) for _ in range(3)) / 200 / 60_000
    )


def _quantum(client: Client, dataset: str, job: Job) -> float:
    return float(client.plan(_body(dataset, job))["plan"]["resources"]["release_quantum_seconds"])


def _work_seconds(job: Job, trajectories: int) -> float:
    """Of a release on so many synthetic trajectories, in this process."""
    kind = "off_policy_evaluation"
    given, table = _columns(trajectories, np.random.default_rng(1), job)
    public = DATASETS[kind].read_public(given)
    content = DATASETS[kind].read_table(public, table)
    public = DATASETS[kind].describe(public, content)
    problem = KINDS[kind].model_validate(_body("dst_0", job)["problem"])
    plan = problem.plan(public, Budget(epsilon=1000, delta=10**6))
    release: Callable[[], Any] = lambda: problem.release(public, plan, content, Noise.secure())  # noqa: E731
    release()  # compiled
    begun = time.perf_counter()
    release()
    return time.perf_counter() - begun
