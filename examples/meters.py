"""From meter readings to a picture of a controlled evening: prints a body of POST /v1/jobs.

300 SYNTHETIC heat pumps, from a fixed seed, whose meters write kW every half hour in no order; now
and then a reading is missing. Public edges make states of power, public rules say what becomes of
gaps. The dataset is declared a simulation, so that the picture shows the truth (dashed) beside the
release.

    python examples/meters.py --picture load.png  # from readings to loads with and without control
    python examples/meters.py --csv meters.csv    # only the readings, as a meter's file has them
    python examples/meters.py > job.json
    discreet solve job.json --out result.json
"""

from __future__ import annotations

import csv
import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

PUMPS, PERIODS = 300, 48
START = datetime.fromisoformat("2026-01-15T00:00:00+01:00")
EDGES = [0.0, 0.5, 2.0, 4.0, 9.0]
PRICE = [0.2] * 6 + [0.9] * 6 + [0.2] * 4
"""Money a kW and half hour, from 14:00 on: dear from 17:00 to 20:00."""
SEED = 2026


def readings() -> list[dict[str, Any]]:
    """Pumps run at one of four levels and mostly stay there; one reading in 500 is lost."""
    # Of numpy's generators only RandomState gives the same numbers in every version (NEP 19).
    random = np.random.RandomState(SEED)
    level = random.randint(0, 4, PUMPS)
    rows = []
    for period in range(PERIODS):
        time = (START + timedelta(minutes=30 * period)).isoformat()
        for pump in range(PUMPS):
            kw = (0.1, 1.2, 3.0, 5.5)[level[pump]] * random.uniform(0.8, 1.2)
            if random.uniform() > 1 / 500:
                rows.append(
                    {"participant": f"pump {pump}", "time": time, "kw": round(float(kw), 3)}
                )
        level = np.clip(level + random.choice([-1, 0, 0, 1], PUMPS), 0, 3)
    random.shuffle(rows)
    return rows


def job() -> dict[str, Any]:
    """The body: epsilon 2 for one pump of 300. Without `power` a state has that of the middle of
    its bin."""
    rule = {"start": START.isoformat(), "interval_seconds": 1800, "gaps": "leave_out", "carry": 1}
    public = {
        "unit": "participant",
        "participants": PUMPS,
        "states": len(EDGES) - 1,
        "steps": PERIODS,
    }
    return {
        "problem": {
            "kind": "dr_ensemble",
            "dataset": {
                "name": "synthetic heat pumps, half-hourly meters",
                "kind": "dr_ensemble",
                "mode": "simulation",
                "public": {**public, "edges": EDGES, "meters": rule},
                "content": {"power": readings()},
                "cap": {"epsilon": 10, "delta": 1e-5},
            },
            "price": PRICE,
            "discomfort_weight": 2.0,
            "initial": "released",
        },
        "privacy": {"epsilon": 2},
        "seed": 7,
    }


def solved() -> dict[str, Any]:
    """The result of the job, without a server."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415 - whoever prints the body needs no service
    from discreet.problems.dr_ensemble.dataset import DrEnsembleDataset  # noqa: PLC0415
    from discreet.problems.dr_ensemble.problem import DrEnsemble  # noqa: PLC0415
    from discreet.problems.numbers import Privacy  # noqa: PLC0415

    body = job()
    dataset = DrEnsembleDataset.model_validate(body["problem"]["dataset"])
    problem = DrEnsemble.model_validate({**body["problem"], "dataset": "synthetic"})
    plan = problem.plan(dataset.public, Privacy.model_validate(body["privacy"]).budget)
    content = dataset.rows()
    released = problem.release(dataset.public, plan, content, Noise.seeded(body["seed"]))
    released |= problem.diagnose(dataset.public, plan, content, Noise.seeded(body["seed"]))
    return problem.finish(dataset.public, plan, released, lambda step, total: None).to_json()


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--csv", path]:
            with Path(path).open("w", newline="", encoding="utf-8") as file:
                table = csv.DictWriter(file, ["participant", "time", "kw"])
                table.writeheader()
                table.writerows(readings())
        case ["--picture", path]:
            from discreet.problems.dr_ensemble.charts import draw  # noqa: PLC0415

            result = solved()
            draw(job()["problem"], result, Path(path))
            low, high = result["uncertainty"]["values"]["saving"].values()
            print(
                f"saved by a pump that follows the signal: {result['saving']:.2f} (90 % NI: "
                f"{low:.2f} to {high:.2f}); true {result['achieved_saving']:.2f}"
            )
        case _:
            print(json.dumps(job()))


if __name__ == "__main__":
    main(sys.argv[1:])
