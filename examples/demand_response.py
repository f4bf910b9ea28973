"""A demand response whose answer marks the rows that are mostly noise: prints a body of POST
/v1/jobs.

120 SYNTHETIC buildings, from a fixed seed, whose hourly power is one of eight states. Hardly any is
ever in the two highest, so the transitions that are released from these are noise, and the answer
marks their rows. The dataset is declared a simulation, so that results show the truth beside the
release.

    python examples/demand_response.py > job.json
    discreet plan job.json                      # what to expect, from public figures
    discreet solve job.json --out result.json   # `uncertainty`: intervals, and rows of noise
    python examples/demand_response.py --table [PNG]   # all of these, beside the truth
    python examples/demand_response.py --picture load.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

BUILDINGS, HOURS, STATES = 120, 49, 8
KW = [40.0, 80.0, 120.0, 160.0, 200.0, 240.0, 280.0, 320.0]
PRICE = [0.2] * 10 + [0.8] * 5 + [0.2] * 5
"""Dollars per kWh in each hour from midnight on."""
SEED = 2020


def trajectories() -> list[list[int]]:
    """The states of buildings that mostly stay or move by one state; with probability 1/2000 a
    building spends an hour in one of the two highest."""
    # Of numpy's generators only RandomState gives the same numbers in every version (NEP 19).
    random = np.random.RandomState(SEED)
    state = random.randint(0, STATES - 2, BUILDINGS)
    rows = [state]
    for _ in range(HOURS - 1):
        moved = np.clip(state + random.choice([-1, 0, 0, 0, 1], BUILDINGS), 0, STATES - 3)
        high = random.randint(STATES - 2, STATES, BUILDINGS)
        state = np.where(random.uniform(size=BUILDINGS) < 1 / 2000, high, moved)
        rows.append(state)
    found: list[list[int]] = np.array(rows).T.tolist()
    return found


def job() -> dict[str, Any]:
    """The body: epsilon 2 for one building of 120."""
    return {
        "problem": {
            "kind": "dr_ensemble",
            "dataset": {
                "name": "synthetic buildings, two states hardly ever seen",
                "kind": "dr_ensemble",
                "mode": "simulation",
                "public": {
                    "unit": "participant",
                    "states": STATES,
                    "participants": BUILDINGS,
                    "steps": HOURS,
                },
                "content": {"trajectories": trajectories()},
                "cap": {"epsilon": 10, "delta": 1e-5},
            },
            "power": KW,
            "price": PRICE,
            "discomfort_weight": 60.0,
            "initial": "released",
        },
        "privacy": {"epsilon": 2},
        "seed": 7,
    }


def solved() -> dict[str, Any]:
    """The result of the job, without a server."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415 - whoever prints the body needs no service
    from discreet.problems.dr_ensemble import estimates  # noqa: PLC0415
    from discreet.problems.dr_ensemble.dataset import DrEnsembleDataset  # noqa: PLC0415
    from discreet.problems.dr_ensemble.problem import DrEnsemble  # noqa: PLC0415
    from discreet.problems.numbers import Privacy  # noqa: PLC0415

    body = job()
    dataset = DrEnsembleDataset.model_validate(body["problem"]["dataset"])
    problem = DrEnsemble.model_validate({**body["problem"], "dataset": "synthetic"})
    plan = problem.plan(dataset.public, Privacy.model_validate(body["privacy"]).budget)
    content, noise = dataset.rows(), Noise.seeded(body["seed"])
    released = problem.release(dataset.public, plan, content, noise)
    released |= problem.diagnose(dataset.public, plan, content, Noise.seeded(body["seed"]))
    result = problem.finish(dataset.public, plan, released, lambda step, total: None).to_json()
    true = estimates.unnoised(dataset.public, plan, released).transitions.tolist()
    return {**result, "advice": list(plan.advice), "true_transitions": true}


def table(found: dict[str, Any]) -> None:
    """Print the plan's advice, the result, and the truth."""
    told = found["uncertainty"]
    for sentence in found["advice"]:
        print(f"the plan said: {sentence}")
    low, high = told["values"]["saving"].values()
    print(
        f"saving of a building: {found['saving']:.1f} (90 % NI: {low:.1f} to {high:.1f}); true "
        f"{found['achieved_saving']:.1f}"
    )
    true_of = {"default_power": "true_default_power", "expected_power": "achieved_power"}
    for name, hour in (("default_power", 12), ("expected_power", 12)):
        low, high = (told["values"][name][end][hour] for end in ("lower", "upper"))
        true = found[true_of[name]][hour]
        # Null where noise leaves open all that is possible.
        within = "not known" if low is None else f"{low:.0f} to {high:.0f}, 90 %"
        print(f"{name} at noon: {found[name][hour]:.0f} kW ({within}); true {true:.0f}")
    rows = zip(
        KW,
        told["noise_dominates"]["transitions"],
        found["transitions"],
        found["true_transitions"],
        strict=True,
    )
    for power, noise, row, true in rows:
        said = "noise" if noise else "     "
        print(f"from {power:3.0f} kW {said} {_row(row)}\n        true       {_row(true)}")


def _row(shares: list[float]) -> str:
    return " ".join(f"{share:4.2f}" for share in shares)


def main(picture: Path | None) -> None:
    if picture is None:
        print(json.dumps(job()))
        return
    from discreet.problems.dr_ensemble.charts import draw  # noqa: PLC0415

    draw(job()["problem"], solved(), picture)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        table(solved())
        if sys.argv[2:]:
            main(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[2]) if sys.argv[1:2] == ["--picture"] else None)
