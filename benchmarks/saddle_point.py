"""Primal-dual steps of the example of Hale & Egerstedt against a NumPy transcription of their
Algorithm 1.

Times are CPU seconds of one thread. Both sides add the same noise to the same outputs and keep the
same averages; the peer runs a part of the steps, its time is scaled to all of them, and its states
are checked against ours first.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from discreet.reproduce import hale
from discreet.solvers.saddle.saddle_point import Outputs, Schedule, noise_width
from discreet.solvers.saddle.saddle_point import run as iterate

Floats = NDArray[np.float64]

STEPS = 500_000
PEER_STEPS = 20_000
RUNS = 5


def run() -> list[dict[str, Any]]:
    """One row a calibration of the noise, in the form of `benchmarks.__main__`."""
    rows = []
    variants = {variant.name: variant for variant in hale.variants()}
    for name in ("as printed", "the same, implied box"):
        variant = variants[name]
        _check(variant)
        ours = min(_ours(variant) for _ in range(RUNS))
        peers = min(_peer_seconds(variant) for _ in range(RUNS)) * STEPS / PEER_STEPS
        rows.append(
            {
                "benchmark": f"saddle point, {STEPS:,} steps, 7 agents, 4 constraints, noise "
                f"{name}",
                "ours": ours,
                "unit": "s",
                "peer": "NumPy transcription",
                "peer_value": peers,
                "ratio": ours / peers,
                "note": f"{peers / ours:.0f} times faster; {noise_width(variant.outputs)} noises a "
                f"step; peer scaled from {PEER_STEPS:,} steps",
            }
        )
    return rows


def main() -> None:
    """Only this benchmark, as a table."""
    table = Table("benchmark", "ours", "peer", "ratio", "note")
    for row in run():
        peer = f"{row['peer_value']:.4g} {row['unit']} ({row['peer']})"
        table.add_row(
            row["benchmark"],
            f"{row['ours']:.4g} {row['unit']}",
            peer,
            f"{row['ratio']:.3g}",
            row["note"],
        )
    Console(width=160).print(table)


def _ours(variant: Any) -> float:
    start = time.process_time()
    iterate(
        variant.problem,
        variant.outputs,
        variant.schedule,
        STEPS,
        generator=np.random.default_rng(0),
        states=np.zeros(7),
        points=1,
    )
    return time.process_time() - start


def _peer_seconds(variant: Any) -> float:
    start = time.process_time()
    numpy_steps(
        variant.outputs,
        variant.schedule,
        PEER_STEPS,
        np.random.default_rng(0),
        variant.problem.lower,
        variant.problem.upper,
    )
    return time.process_time() - start


def _check(variant: Any) -> None:
    """Both go the same way with the same noise; they add up in another order, so not to the last
    bit."""
    steps = 500
    path = iterate(
        variant.problem,
        variant.outputs,
        variant.schedule,
        steps,
        noise=lambda count, width: np.random.default_rng(7).standard_normal((count, width)),
        states=np.zeros(7),
        points=1,
    )
    states, multipliers, _ = numpy_steps(
        variant.outputs,
        variant.schedule,
        steps,
        np.random.default_rng(7),
        variant.problem.lower,
        variant.problem.upper,
    )
    np.testing.assert_allclose(path.states[-1], states, atol=1e-7)
    np.testing.assert_allclose(path.multipliers[-1], multipliers, atol=1e-7)


def numpy_steps(
    outputs: Outputs,
    schedule: Schedule,
    steps: int,
    generator: np.random.Generator,
    lower: Floats,
    upper: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Algorithm 1 of the paper on its example, in NumPy by hand; returns states, multipliers and
    averaged states."""
    scale_g, scale_j = np.zeros(4), np.zeros((7, 4))
    scale_g[:] = outputs.scale[:4]
    scale_j[outputs.agent[4:], outputs.constraint[4:]] = outputs.scale[4:]
    noised = scale_j > 0
    scale_j = scale_j[noised]
    x, mu, total = np.zeros(7), np.zeros(4), np.zeros(7)
    gradient = np.zeros((7, 4))
    gradient[[0, 1, 2], 0] = 1.0
    gradient[[3, 5], 2] = 1.0
    for k in range(1, steps + 1):
        gamma, alpha = schedule.gamma * k**-schedule.c1, schedule.alpha * k**-schedule.c2
        x1, x2, x3, x4, x5, x6, x7 = x
        g = np.array(
            [
                x1 + x2 + x3 - 3,
                x5**2 + x6**4 / 12 + x7**4 / 12 - 20,
                x3**2 + x4 + x6 - 1,
                x6**2 + x7**2 - 5,
            ]
        )
        gradient[2, 2] = 2 * x3
        gradient[4, 1] = 2 * x5
        gradient[5, 1], gradient[5, 3] = x6**3 / 3, 2 * x6
        gradient[6, 1], gradient[6, 3] = x7**3 / 3, 2 * x7
        slope = np.array(
            [
                2 * (x1 - 9) + 1,
                4 * (x2 + 4) ** 3,
                8 * (x3 - 1) ** 7,
                2 * x4 + 1,
                6 * (x5 + 3) ** 5,
                2 * (x6 - 7),
                2 * (x7 - 5),
            ]
        )
        noisy_g = (
            g + scale_g * generator.standard_normal(4)
            if scale_g.all()
            else _some(g, scale_g, generator)
        )
        noisy_gradient = gradient.copy()
        noisy_gradient[noised] += scale_j * generator.standard_normal(scale_j.size)
        x, mu = (
            np.clip(x - gamma * (slope + noisy_gradient @ mu + alpha * x), lower, upper),
            np.maximum(mu + gamma * (noisy_g - alpha * mu), 0.0),
        )
        if k > steps // 2:
            total += x
    return x, mu, total / (steps - steps // 2)


def _some(g: Floats, scale: Floats, generator: np.random.Generator) -> Floats:
    """`g` with noise where it has a scale."""
    noisy = g.copy()
    noisy[scale > 0] += scale[scale > 0] * generator.standard_normal(np.count_nonzero(scale))
    return noisy


if __name__ == "__main__":
    main()
