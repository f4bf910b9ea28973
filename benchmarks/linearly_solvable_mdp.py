"""Linearly-solvable decision processes against plain loops, and how they scale.

Times are CPU seconds of one thread: ours the best of several runs; a loop's from some of its steps,
all of which cost the same, in the same run. Both find ln z, from the same matrix, utility and
gamma; that they agree is checked.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.control.linearly_solvable_mdp import solve, solve_many

Floats = NDArray[np.float64]
GAMMA = 15.0
RUNS = 9


def run() -> list[dict[str, Any]]:
    """One row a comparison, in the form of `benchmarks.__main__`, from a process of one thread."""
    single = {
        f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")
    }  # read when NumPy is imported
    with patch.dict(os.environ, single), multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured)


def measured() -> list[dict[str, Any]]:
    """The rows, timed in this process."""
    solve(*dense(20, 3), GAMMA)  # compiles, or loads what was compiled
    rows = [against_loops(1000, 96)]
    rows.append(against_loops(1000, 96, with_policy=True))
    for states in (100, 300, 2000):
        rows.append(alone(f"LS-MDP, {states:,} states x 96 steps, dense", *dense(states, 96)))
    rows.append(alone("LS-MDP, 1,000 states x 1,000 steps, dense", *dense(1000, 1000)))
    rows.append(
        alone("LS-MDP, 1,000 states x 1,000 steps, 3 transitions a state", *walk(1000, 1000))
    )
    P, U = dense(100, 96)
    utilities = U + np.random.default_rng(1).normal(0, 1, (100, *U.shape))
    ours, one = (
        seconds(lambda: solve_many(P, utilities, GAMMA)),
        seconds(lambda: [solve(P, each, GAMMA) for each in utilities]),
    )
    rows.append(
        {
            "benchmark": "LS-MDP, 100 utilities, 100 states x 96 steps",
            "ours": ours,
            "unit": "s",
            "peer": "one after the other",
            "peer_value": one,
            "ratio": ours / one,
            "note": "",
        }
    )
    return rows


def against_loops(states: int, steps: int, with_policy: bool = False) -> dict[str, Any]:
    """The plain double loop over steps and states: with the sum over successors in Python, too, or
    in NumPy."""
    P, U = dense(states, steps)
    found = solve(P, U, GAMMA)

    def ours() -> None:
        policy = solve(P, U, GAMMA)
        for step in range(policy.steps if with_policy else 0):
            policy.at(step)

    log_z = found.log_desirability[1]
    sample = 40
    began = time.process_time()
    by_python = python_rows(P, U[0], log_z, range(sample), with_policy)
    python = (time.process_time() - began) * states / sample * (steps - 1)
    began = time.process_time()
    for _ in range(4):
        by_numpy = numpy_rows(P, U[0], log_z, with_policy)
    numpy = (time.process_time() - began) / 4 * (steps - 1)
    np.testing.assert_allclose(by_python, found.log_desirability[0, :sample], rtol=1e-12)
    np.testing.assert_allclose(by_numpy, found.log_desirability[0], rtol=1e-12)
    took = seconds(ours)
    return {
        "benchmark": f"LS-MDP, {states:,} states x {steps} steps, dense"
        + (", with all policies" if with_policy else ""),
        "ours": took,
        "unit": "s",
        "peer": "plain double loop",
        "peer_value": python,
        "ratio": took / python,
        "note": f"{python / took:.0f} times as fast (pure Python, {sample} rows extrapolated); "
        f"{numpy / took:.0f} times with NumPy inside ({numpy:.3g} s, 4 steps extrapolated)",
    }


def alone(name: str, P: Floats, U: Floats) -> dict[str, Any]:
    took = seconds(lambda: solve(P, U, GAMMA), 3)
    return {"benchmark": name, "ours": took, "unit": "s", "peer": None, "note": "without peer"}


def dense(states: int, steps: int) -> tuple[Floats, Floats]:
    """Dirichlet rows and a tariff with an event in the middle; 300 kW at most."""
    rng = np.random.default_rng(states)
    price = 0.05 + 0.25 * (np.abs(np.linspace(-1, 1, steps)) < 0.2)
    return rng.dirichlet(np.ones(states), states), -np.outer(price, np.linspace(0, 300, states))


def walk(states: int, steps: int) -> tuple[Floats, Floats]:
    P = 0.5 * np.eye(states) + 0.25 * np.eye(states, k=1) + 0.25 * np.eye(states, k=-1)
    return P / P.sum(axis=1, keepdims=True), dense(states, steps)[1]


def seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    best = math.inf
    for _ in range(runs):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


# The loops ----------------------------------------------------------------------------------------


def python_rows(
    P: Floats, utility: Floats, log_z: Floats, rows: range, with_policy: bool
) -> list[float]:
    """One step of the recursion for some states: nothing but Python."""
    after = log_z.tolist()
    found = []
    for b in rows:
        terms = [math.log(p) + z for p, z in zip(P[b].tolist(), after, strict=True)]
        largest = max(terms)
        weights = [math.exp(term - largest) for term in terms]
        total = sum(weights)
        found.append(utility[b] / GAMMA + largest + math.log(total))
        if with_policy:
            [weight / total for weight in weights]
    return found


def numpy_rows(P: Floats, utility: Floats, log_z: Floats, with_policy: bool) -> list[float]:
    """One step of the recursion: Python over states, NumPy over successors."""
    found = []
    for b in range(len(P)):
        terms = np.log(P[b]) + log_z
        largest = terms.max()
        weights = np.exp(terms - largest)
        total = weights.sum()
        found.append(utility[b] / GAMMA + largest + np.log(total))
        if with_policy:
            weights /= total
    return found


if __name__ == "__main__":
    for row in run():
        print(row)
