"""Off-policy evaluation: steps of GPOPE against NumPy, and a large dataset from its file to the
weights.

All step times are CPU seconds of one thread on the same trajectories, with the same clip, noise and
step size. NumPy is timed twice: vectorized, a few fancy-indexed passes over a trajectory's
transitions, and as Algorithm 1 is printed, which forms A_i, b_i and C_i by outer products.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from discreet.reproduce import simulators
from discreet.solvers.evaluation.gradient_temporal_difference import gradient
from discreet.solvers.evaluation.temporal_difference import Transitions, grouped, mspbe
from discreet.solvers.evaluation.value_features import Tabular

Floats = NDArray[np.float64]
TRAJECTORIES = 100_000
STATES, DISCOUNT = 40, 0.99
CLIP, SIGMA, STEP = 1e-3, 1.0799, 0.8
RUNS = 5


def run() -> list[dict[str, Any]]:
    """One row a comparison, in the form of `benchmarks.__main__`."""
    data = transitions_of(simulators.chain(TRAJECTORIES, np.random.default_rng(1)))
    ours = min(per_step(lambda steps: by_numba(data, steps), TRAJECTORIES) for _ in range(RUNS))
    vectorized = min(per_step(lambda steps: by_vectors(data, steps), 5000) for _ in range(3))
    transcribed = min(per_step(lambda steps: as_printed(data, steps), 100) for _ in range(3))
    rows = [
        {
            "benchmark": "off-policy evaluation: one step of GPOPE, 40-state chain",
            "ours": 1e6 * ours,
            "unit": "us",
            "peer": peer,
            "peer_value": 1e6 * theirs,
            "ratio": ours / theirs,
            "note": f"{theirs / ours:,.0f} times faster; mean length {data.lengths.mean():.0f} "
            "transitions",
        }
        for peer, theirs in (
            ("NumPy, vectorized", vectorized),
            ("NumPy, Algorithm 1 forming A_i", transcribed),
        )
    ]
    return [*rows, from_file()]


def main() -> None:
    """Only this benchmark, as a table."""
    table = Table("benchmark", "ours", "peer", "ratio", "note")
    for row in run():
        peer = f"{row['peer_value']:.4g} {row['unit']} ({row['peer']})" if row.get("peer") else ""
        ratio = f"{row['ratio']:.3g}" if row.get("ratio") is not None else ""
        table.add_row(
            row["benchmark"], f"{row['ours']:.4g} {row['unit']}", peer, ratio, row["note"]
        )
    Console(width=180).print(table)


def transitions_of(rows: Any) -> Transitions:
    return grouped(
        rows.trajectory, rows.step, rows.state, rows.next_state, rows.reward, None, rows.terminal
    )


# Steps of GPOPE -----------------------------------------------------------------------------------


def per_step(work: Callable[[int], Floats], steps: int) -> float:
    """CPU seconds of one step, after a first call, which may compile."""
    work(2)
    begun = time.process_time()
    work(steps)
    return (time.process_time() - begun) / steps


def by_numba(data: Transitions, steps: int) -> Floats:
    rng = np.random.default_rng(2)
    return gradient(
        data,
        Tabular(STATES),
        DISCOUNT,
        steps=steps,
        step_sizes=STEP,
        clip=CLIP,
        noise_scale=CLIP * SIGMA,
        generator=rng,
    )


def by_vectors(data: Transitions, steps: int) -> Floats:
    """The same steps, each a handful of NumPy calls over the transitions of its trajectory."""
    rng = np.random.default_rng(2)
    theta, w = np.zeros(STATES), np.zeros(STATES)
    discounts = DISCOUNT * ~data.terminal
    for _ in range(steps):
        i = rng.integers(data.trajectories)
        part = slice(data.trajectory_start[i], data.trajectory_start[i + 1])
        state, ahead, discount = data.state[part], data.next_state[part], discounts[part]
        height = w[state]
        error = theta[state] - discount * theta[ahead] - data.reward[part] + height
        primal = np.bincount(ahead, discount * height, STATES) - np.bincount(state, height, STATES)
        step = np.concatenate([primal, np.bincount(state, error, STATES)]) / state.size
        step /= max(1.0, float(np.linalg.norm(step)) / CLIP)
        step += CLIP * SIGMA * rng.standard_normal(step.size)
        theta -= STEP * step[:STATES]
        w -= STEP * step[STATES:]
    return theta


def as_printed(data: Transitions, steps: int) -> Floats:
    """Algorithm 1 line by line."""
    rng = np.random.default_rng(2)
    theta, w = np.zeros(STATES), np.zeros(STATES)
    phi = np.eye(STATES)
    for _ in range(steps):
        i = rng.integers(data.trajectories)
        A, b, C = np.zeros((STATES, STATES)), np.zeros(STATES), np.zeros((STATES, STATES))
        begin, end = data.trajectory_start[i], data.trajectory_start[i + 1]
        for t in range(begin, end):
            here = phi[data.state[t]]
            ahead = 0.0 * here if data.terminal[t] else phi[data.next_state[t]]
            A += np.outer(here, here - DISCOUNT * ahead)
            b += here * data.reward[t]
            C += np.outer(here, here)
        A, b, C = A / (end - begin), b / (end - begin), C / (end - begin)
        step = np.concatenate([-A.T @ w, A @ theta + C @ w - b])
        step = step / max(1.0, float(np.linalg.norm(step)) / CLIP)
        step = step + CLIP * rng.normal(0.0, SIGMA, step.size)
        theta = theta - STEP * step[:STATES]
        w = w - STEP * step[STATES:]
    return theta


# A large dataset ----------------------------------------------------------------------------------


def from_file(trajectories: int = 500_000) -> dict[str, Any]:
    """A row for Parquet to weights, in a process of its own so that its memory can be told."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "chain.parquet")
        with context.Pool(1) as pool:
            transitions = pool.apply(write, (path, trajectories))
        with context.Pool(1) as pool:
            seconds, memory, error, parts = pool.apply(result_of, (path,))
    return {
        "benchmark": f"off-policy evaluation: {trajectories:,} trajectories, Parquet to result "
        "through the kind",
        "ours": seconds,
        "unit": "s",
        "note": f"{transitions:,} transitions, epsilon 0.1, MSPBE {error:.1e}; {parts}; "
        f"peak memory of the whole process {memory:.0f} MiB",
    }


def write(path: str, trajectories: int) -> int:
    rows = simulators.chain(trajectories, np.random.default_rng(3))
    names = ("trajectory", "step", "state", "reward", "next_state", "terminal")
    pq.write_table(
        pa.table({name: getattr(rows, name) for name in names}), path, row_group_size=1 << 20
    )
    return int(rows.state.size)


def result_of(path: str) -> tuple[float, float, float, str]:
    """CPU seconds with compiled code from its cache, peak MiB of the process, the population's
    MSPBE, and where.

    What the service does with an upload and a job on it, minus HTTP, sealing and storage.
    """
    # Not at the top: the parent need not read what the kind needs.
    from discreet.privacy.noise import Noise
    from discreet.problems.numbers import Privacy
    from discreet.problems.off_policy_evaluation.dataset import OffPolicyDataset
    from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
    from discreet.problems.off_policy_evaluation.public import OffPolicyPublic

    public = OffPolicyPublic.model_validate(
        {
            "unit": "trajectory",
            "states": STATES,
            "reward_bound": 1,
            "horizon": 1000,
            "topology": simulators.chain_topology().tolist(),
            "rewards": simulators.chain_cell_rewards().tolist(),
        }
    )
    body = {
        "kind": "off_policy_evaluation",
        "dataset": "benchmark",
        "features": {"type": "tabular"},
    }
    job = OffPolicyEvaluation.model_validate({**body, "discount": DISCOUNT})
    budget = Privacy(epsilon=0.1, delta=1e-5).budget
    names = ("trajectory", "step", "state", "reward", "next_state", "terminal")

    def answered(load: Callable[[], pa.Table], noise: Noise) -> tuple[Floats, float, float]:
        # As an upload is read: nothing but `read_table` itself holds the table.
        content = OffPolicyDataset.read_table(public, load())
        read = time.process_time()
        shown = OffPolicyDataset.describe(public, content)
        plan = job.plan(shown, budget)
        released = job.release(shown, plan, content, noise)
        weights = np.array(job.finish(shown, plan, released, lambda *_: None).to_json()["weights"])
        return weights, read, time.process_time()

    small = simulators.chain(2, np.random.default_rng(4))
    columns = {name: getattr(small, name) for name in names}
    answered(lambda: pa.table(columns), Noise.seeded(0))  # compiles, or loads what was compiled
    begun = time.process_time()
    weights, read, ended = answered(lambda: pq.read_table(path), Noise.secure())
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = int(status["VmHWM"].split()[0]) / 1024
    parts = f"{read - begun:.1f} s to canonical content, {ended - read:.1f} s from there"
    return ended - begun, memory, mspbe(weights, *simulators.chain_moments()), parts


if __name__ == "__main__":
    main()
