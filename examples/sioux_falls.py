"""Fifty synthetic mornings on the Sioux Falls network: writes `routing-sioux-falls.json`, a body of
POST /v1/jobs.

Network and trip table are those of LeBlanc, Morlok and Pierskalla, "An efficient approach to
solving the road network equilibrium traffic assignment problem", Transportation Research 9(5),
1975, in `discreet.reproduce.networks`. The mornings are SYNTHETIC: an independent Poisson number of
trips for every pair of zones and every morning, with the table's mean. Nobody's trips are in them.

    python examples/sioux_falls.py
    python examples/sioux_falls.py --twice            # one release, two objectives, and the truth
    python examples/sioux_falls.py --twice roads.png  # and link flows of the second

With a service the second question is `discreet ask JOB --set objective=user_equilibrium`, at price
0.
"""

from __future__ import annotations

import json
import sys
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
                "public": {
                    "unit": "request",
                    "zones": len(table),
                    "periods": MORNINGS,
                    "period_minutes": 60,
                },
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


def twice(picture: Path | None = None) -> None:
    """Print both answers from one release, with the plan's advice, and the answers from the exact
    means."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415 - whoever writes the body needs no service
    from discreet.problems.numbers import Privacy  # noqa: PLC0415
    from discreet.problems.reuse import differences  # noqa: PLC0415
    from discreet.problems.routing.charts import draw  # noqa: PLC0415
    from discreet.problems.routing.dataset import RoutingDataset  # noqa: PLC0415
    from discreet.problems.routing.problem import Routing  # noqa: PLC0415

    body = job()
    dataset = RoutingDataset.model_validate(body["problem"]["dataset"])
    first = Routing.model_validate(
        {**body["problem"], "dataset": "synthetic", "relative_gap": 1e-10}
    )
    plan = first.plan(dataset.public, Privacy.model_validate(body["privacy"]).budget)
    for sentence in plan.advice:
        print(f"the plan said: {sentence}")
    content = dataset.rows()
    released = first.release(dataset.public, plan, content, Noise.seeded(SEED))
    exact = {
        "trips": first.diagnose(dataset.public, plan, content, Noise.seeded(SEED))["true_trips"]
    }
    for released_before, objective in enumerate(("system_optimum", "user_equilibrium")):
        asked = first.model_copy(update={"objective": objective})
        # The second question changes nothing that the release fixed.
        assert not differences(first, asked, dataset.public, "the first job")
        price = 0 if released_before else body["privacy"]["epsilon"]
        alone = asked.model_copy(update={"uncertainty": False})
        result, true = (
            each.finish(dataset.public, plan, sums, lambda step, total: None).to_json()
            for each, sums in ((asked, released), (alone, exact))
        )
        low, high = result["uncertainty"]["values"]["total_travel_time"].values()
        print(
            f"{objective}, price {price}: total travel time {result['total_travel_time']:,.0f} "
            f"(90 % NI: {low:,.0f}–{high:,.0f}); without noise {true['total_travel_time']:,.0f}"
        )
    if picture is not None:
        draw(
            asked.model_dump(mode="json"),
            result,
            picture,
            coordinates=sioux_falls_figures()["nodes"],
        )


def main() -> None:
    """Write the body, which has some 26,000 rows, as compact JSON."""
    JOB.write_text(json.dumps(job(), separators=(",", ":")) + "\n")
    print(f"{JOB}: {JOB.stat().st_size:,} bytes")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--twice"]:
        twice(*map(Path, sys.argv[2:3]))
    else:
        main()
