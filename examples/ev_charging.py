"""Electric vehicles that charge overnight on one feeder: prints a body of POST /v1/jobs, problem
kind `coupled_qp`.

The operator knows the feeder: c is its baseline load, d what that leaves of its limit. Each vehicle
knows when it is plugged in, how fast it charges and what energy it needs; that is what the
encrypted sums keep from everybody else. The vehicles fill the valley of the baseline, `½ w |Σ x_i +
baseline|²` per vehicle, and stay below the limit; missing energy costs `0.5 (Σ_t x_i - need)²` and
wear `0.05 |x_i|²`. All figures are SYNTHETIC, from a fixed seed.

    python examples/ev_charging.py [VEHICLES] > job.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

HOURS = 12
"""From 18:00 to 06:00, one entry an hour."""

BASELINE_KW = (1.9, 2.1, 2.0, 1.8, 1.5, 1.2, 0.9, 0.8, 0.7, 0.7, 0.8, 1.0)
"""Household load for each vehicle on the feeder."""

LIMIT_KW = 2.2
"""What the transformer carries for each vehicle on the feeder."""

VALLEY, NEED, WEAR = 0.1, 0.5, 0.05
SEED = 2019


def job(vehicles: int = 30, iterations: int = 500) -> dict[str, Any]:
    """The body for `vehicles` >= 3. Loads are in kW for each vehicle, so figures hardly depend on
    how many."""
    if vehicles < 3:
        raise ValueError("with fewer than three vehicles a sum shows the other's load")
    # Of numpy's generators only RandomState gives the same numbers in every version (NEP 19).
    random = np.random.RandomState(SEED)
    baseline = np.array(BASELINE_KW)
    share = np.sqrt(VALLEY / vehicles)
    agents = []
    for _ in range(vehicles):
        arrives, leaves = random.randint(0, 4), random.randint(9, HOURS + 1)
        need, rate = random.uniform(4, 9), random.choice([3.7, 7.4])
        hours = np.arange(HOURS)
        agents.append(
            {
                "A_u": (share * np.eye(HOURS)).tolist(),
                "A_g": (np.eye(HOURS) / vehicles).tolist(),
                "A_q": np.vstack([np.full(HOURS, NEED**0.5), WEAR**0.5 * np.eye(HOURS)]).tolist(),
                "a_l": np.full(HOURS, -2 * NEED * need).tolist(),
                "lower": [0.0] * HOURS,
                "upper": np.where((arrives <= hours) & (hours < leaves), rate, 0.0).tolist(),
            }
        )
    return {
        "problem": {
            "kind": "coupled_qp",
            "mode": "simulation",
            "operator": {
                "c": (share * vehicles * baseline).tolist(),
                "d": (baseline - LIMIT_KW).tolist(),
            },
            "agents": agents,
            "steps": {
                "primal": 0.08,
                "dual": 0.05 * vehicles,
                "shrink": 1.0,
                "iterations": iterations,
            },
            "encryption": {
                "scheme": "paillier",
                "key_bits": 2048,
                "fraction_bits": 32,
                "slot_bits": 64,
            },
            "protocol": "job",
        }
    }


if __name__ == "__main__":
    print(json.dumps(job(*map(int, sys.argv[1:2]))))
