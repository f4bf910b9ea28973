"""What `finished_at - started_at` tells an analyst of how many trajectories a dataset has, on a
busy machine: of jobs that succeed, and of jobs that are cancelled while their content is opened,
which cost nothing and can be repeated for ever.

    python -m tests.hostile.timing [--rounds 8] [--load 16]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import statistics
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet_client.client import Client
from tests.conftest import Installation, eventually
from tests.hostile import Attack, Reached

BOUND = 500_000
SIZES = (20_000, 100_000, 250_000)
ROUNDS, LOAD = 6, 16
PUBLIC = {
    "unit": "trajectory",
    "features": 2,
    "reward_bound": 1,
    "horizon": 1,
    "max_trajectories": BOUND,
    "max_rows": BOUND,
}
PROBLEM = {
    "kind": "off_policy_evaluation",
    "discount": 0.9,
    "features": {"type": "fourier", "order": 1, "low": [0, 0], "high": [1, 1]},
    "method": "moments",
}
DEVIATIONS = 3.0
"""Of the number of right guesses, above chance."""


@contextlib.contextmanager
def busy(load: int) -> Iterator[None]:
    """So many processes beside the service that compute without end."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
    try:
        yield
    finally:
        for one in burners:
            one.kill()
            one.wait()


def registered(client: Client, trajectories: int) -> str:
    draw = np.random.default_rng(trajectories)
    table = pa.table(
        {
            "trajectory": np.arange(trajectories),
            "step": np.zeros(trajectories, dtype=np.int64),
            **{
                f"{x}_{axis}": draw.random(trajectories) for x in ("x", "x_next") for axis in (0, 1)
            },
            "reward": draw.random(trajectories),
            "terminal": np.zeros(trajectories, dtype=bool),
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    file.seek(0)
    cap = {"epsilon": 1, "delta": 1e-6}
    metadata = {"name": "visits", "kind": PROBLEM["kind"], "public": PUBLIC, "cap": cap}
    return client.upload(metadata, file, "content.parquet")["id"]


def seconds(client: Client, dataset: str, *, cancelled: bool) -> float:
    """What the analyst sees of one job at next to no epsilon."""
    job = client.submit(
        {"problem": {**PROBLEM, "dataset": dataset}, "privacy": {"epsilon": 1e-6, "delta": 1e-12}}
    )["id"]
    if cancelled:
        eventually(lambda: client.job(job)["state"] != "queued", "it begins")
        assert client.cancel(job)["charge"] == "none"
    done = client.wait(job)
    assert done["state"] == ("cancelled" if cancelled else "succeeded"), done
    began, ended = (datetime.fromisoformat(str(done[at])) for at in ("started_at", "finished_at"))
    return (ended - began).total_seconds()


def told_apart(took: dict[int, list[float]]) -> int:
    """How often a job of the fewest and of the most trajectories is told by the medians of the
    other jobs."""
    right = 0
    few, many = took[min(took)], took[max(took)]
    for own, other, sign in ((few, many, 1), (many, few, -1)):
        for place, one in enumerate(own):
            here = statistics.median(own[:place] + own[place + 1 :])
            there = statistics.median(other)
            lower, upper = (here, there) if sign == 1 else (there, here)
            says_many = abs(one - upper) < abs(one - lower)
            right += says_many == (sign == -1)
    return right


def attack(service: Installation, rounds: int, load: int, *, cancelled: bool) -> Reached:
    with service.client() as client, busy(load):
        datasets = {size: registered(client, size) for size in SIZES}
        plan = client.plan(
            {
                "problem": {**PROBLEM, "dataset": datasets[SIZES[0]]},
                "privacy": {"epsilon": 1e-6, "delta": 1e-12},
            }
        )["plan"]["resources"]
        took: dict[int, list[float]] = {size: [] for size in SIZES}
        # In any order: what the machine does beside this has rhythms of its own.
        for size in np.random.default_rng(rounds).permutation(list(SIZES) * rounds).tolist():
            took[size].append(seconds(client, datasets[size], cancelled=cancelled))
    shown = "; ".join(
        f"{size:,}: {statistics.median(one):.3f} s ({min(one):.3f} to {max(one):.3f})"
        for size, one in took.items()
    )
    guesses, right = 2 * rounds, told_apart(took)
    figures = (
        f"{right} of {guesses} guesses right at a load of {load} (planned: opening "
        f"{plan['opening_seconds']} s of {plan['release_quantum_seconds']} s); {shown}"
    )
    return Reached(figures, right <= guesses / 2 + DEVIATIONS * math.sqrt(guesses) / 2)


def of_jobs_that_succeed(service: Installation) -> Reached:
    return attack(service, ROUNDS, LOAD, cancelled=False)


def of_jobs_that_are_cancelled(service: Installation) -> Reached:
    return attack(service, ROUNDS, LOAD, cancelled=True)


_ALLOWED = "as many guesses right as by chance, within 3 standard deviations"
ATTACKS = [
    Attack("time", "how long a job takes on a busy machine", _ALLOWED, of_jobs_that_succeed),
    Attack("time", "jobs that are cancelled while they open", _ALLOWED, of_jobs_that_are_cancelled),
]


def main() -> int:
    from tests.hostile.__main__ import running

    parser = argparse.ArgumentParser(prog="python -m tests.hostile.timing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--load", type=int, default=LOAD)
    asked: Any = parser.parse_args()
    held = True
    with running() as service:
        for cancelled in (False, True):
            reached = attack(service, asked.rounds, asked.load, cancelled=cancelled)
            held = held and reached.held
            print("cancelled" if cancelled else "succeeded", reached.held, reached.figures)
            sys.stdout.flush()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
