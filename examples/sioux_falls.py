"""Fifty synthetic mornings on the Sioux Falls network: writes `routing-sioux-falls.json`, a body of POST /v1/jobs.

Network and trip table are those of LeBlanc, Morlok and Pierskalla, "An efficient approach to solving the road network
equilibrium traffic assignment problem", Transportation Research 9(5), 1975, in `discreet.reproduce.networks`. The
mornings are SYNTHETIC: of every pair of zones and every morning an independent Poisson number of trips whose mean is
the table's. Nobody's trips are in them.

    python examples/sioux_falls.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from discreet.reproduce.networks import MORNINGS, SEED, poisson_mornings, sioux_falls_figures

HERE = Path(__file__).parent
JOB = HERE / "routing-sioux-falls.json"


def job() -> dict[str, Any]:
    """The body: an hour of each of the mornings, affine latency, system optimum, epsilon 0.1."""
    figures = sioux_falls_figures()
    table = np.array(figures["trips"])
    mornings = poisson_mornings()
    return {
        "problem": {
            "kind": "routing",
            "dataset": {
                "name": f"Sioux Falls, {MORNINGS} synthetic Poisson mornings (seed {SEED})",
                "kind": "routing",
                "public": {"unit": "request", "zones": len(table), "periods": MORNINGS, "period_minutes": 60},
                "content": {
                    "trips": [
                        {
                            "period": period,
                            "origin": origin + 1,
                            "destination": destination + 1,
                            "count": int(mornings[period, origin, destination]),
                        }
                        for period, origin, destination in np.argwhere(mornings).tolist()
                    ]
                },
                "cap": {"epsilon": 1, "delta": 0},
                "mode": "private",
            },
            "network": {
                "nodes": len(figures["nodes"]),
                "first_through_node": 1,
                "links": [
                    {"tail": tail, "head": head, "free_flow_time": time, "capacity": capacity}
                    for tail, head, time, capacity in figures["links"]
                ],
            },
            "latency": {"type": "affine", "factor": 1.0},
            "objective": "system_optimum",
        },
        "privacy": {"epsilon": 0.1, "delta": 0},
    }


def main() -> None:
    """Write the body, compact: it is some 26,000 rows."""
    JOB.write_text(json.dumps(job(), separators=(",", ":")) + "\n")
    print(f"{JOB}: {JOB.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
