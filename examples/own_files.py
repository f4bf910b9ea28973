"""SYNTHETIC files of the kinds that people have, from a fixed seed, each with a job about it
(README: three ways in).

    python examples/own_files.py trips     # trips.csv, a trip a row with ids of zones and local
                                           # times; and the roads
    python examples/own_files.py meters    # meters.csv, kW of 300 heat pumps with ; and decimal
                                           # commas
    python examples/own_files.py patients  # visits.csv, a trial of 1,500 patients

They are written to the current folder, with a job each, such as trips-job.json. The jobs refer to
their datasets by the names that README gives them.
"""

from __future__ import annotations

import csv
import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

SEED = 2026
MORNINGS, PATIENTS = 5, 1500
FIRST = datetime(2026, 11, 2, 7)  # a Monday; local time
DEMAND = 0.01
"""The fraction of Sioux Falls' trips and capacities that is used."""


def trips() -> tuple[list[str], list[list[Any]]]:
    """Poisson numbers of trips around a hundredth of the Sioux Falls table, from seven to nine of
    five mornings."""
    from discreet.reproduce.networks import sioux_falls_figures  # noqa: PLC0415 - the others need no service

    random = np.random.RandomState(SEED)
    table = DEMAND * np.array(sioux_falls_figures()["trips"])
    rows = []
    for morning in range(MORNINGS):
        for origin, destination in np.argwhere(table).tolist():
            for _ in range(random.poisson(table[origin, destination])):
                time = FIRST + timedelta(days=morning, minutes=random.randint(120))
                rows.append(
                    [f"Z{origin + 1}", f"Z{destination + 1}", time.isoformat(timespec="minutes")]
                )
    random.shuffle(rows)
    return ["from_zone", "to_zone", "start"], rows


def trips_job() -> dict[str, Any]:
    """A week's mean morning on the network of Sioux Falls."""
    from discreet.reproduce.networks import sioux_falls_figures  # noqa: PLC0415

    figures = sioux_falls_figures()
    links = [
        {"tail": tail, "head": head, "free_flow_time": time, "capacity": DEMAND * capacity}
        for tail, head, time, capacity in figures["links"]
    ]
    network = {"nodes": len(figures["nodes"]), "links": links}
    return {"kind": "routing", "dataset": "trips", "network": network, "latency": {"type": "bpr"}}


def meters() -> tuple[list[str], list[list[Any]]]:
    """Half-hourly kW of heat pumps that run at one of four levels and mostly stay there."""
    random = np.random.RandomState(SEED)
    level = random.randint(0, 4, 300)
    rows = []
    for period in range(48):
        time = (datetime(2026, 1, 15) + timedelta(minutes=30 * period)).isoformat(
            timespec="minutes"
        )
        for pump in range(300):
            kw = (0.1, 1.2, 3.0, 5.5)[level[pump]] * random.uniform(0.8, 1.2)
            rows.append([f"pump {pump}", time, f"{kw:.3f}".replace(".", ",")])
        level = np.clip(level + random.choice([-1, 0, 0, 1], 300), 0, 3)
    return ["meter", "when", "power"], rows


def meters_job() -> dict[str, Any]:
    """Eight hours from 14:00 on, dear from 17:00 to 20:00."""
    price = [0.2] * 6 + [0.9] * 6 + [0.2] * 4
    return {
        "kind": "dr_ensemble",
        "dataset": "meters",
        "price": price,
        "discomfort_weight": 2,
        "initial": "released",
    }


def patients() -> tuple[list[str], list[list[Any]]]:
    """Four weekly visits of each patient. The toss of a coin decides on treatment, after which
    severity tends to fall, and without which it tends to rise; `well` is 1 for a patient who is
    well in the end."""
    random = np.random.RandomState(SEED)
    rows = []
    for patient in range(PATIENTS):
        severity = random.uniform(2, 8)
        for visit in range(4):
            action = random.choice(["treat", "wait"])
            day = (datetime(2026, 3, 2) + timedelta(days=7 * visit + patient % 5)).date()
            onward = severity + random.normal(-0.7 if action == "treat" else 0.5, 0.8)
            well = int(visit == 3 and onward < 4)
            rows.append([f"patient {patient}", day.isoformat(), round(severity, 2), action, well])
            severity = min(10.0, max(0.0, onward))
    random.shuffle(rows)
    return ["pid", "date", "severity", "action", "well"], rows


def patients_job() -> dict[str, Any]:
    """The share of patients who would be well if everybody were treated, and the share who are."""
    return {
        "kind": "off_policy_evaluation",
        "dataset": "patients",
        "discount": 1,
        "return_bounds": [0, 1],
    }


WAYS = {
    "trips": ("trips.csv", trips, trips_job, 0.5),
    "meters": ("meters.csv", meters, meters_job, 2),
    "patients": ("visits.csv", patients, patients_job, 1),
}


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0] not in WAYS:
        sys.exit(str(__doc__))
    name, table, job, epsilon = WAYS[arguments[0]]
    header, rows = table()
    _write(name, header, rows, ";" if arguments[0] == "meters" else ",")
    if arguments[0] == "trips":
        from discreet.reproduce.networks import sioux_falls_figures  # noqa: PLC0415

        nodes, links = sioux_falls_figures()["nodes"], trips_job()["network"]["links"]
        Path("zones.csv").write_text(
            "id,number\n" + "".join(f"Z{zone},{zone}\n" for zone in range(1, len(nodes) + 1))
        )
        Path("nodes.json").write_text(json.dumps(nodes))
        _write(
            "nodes.csv",
            ["node", "x", "y"],
            [[number, *point] for number, point in enumerate(nodes, 1)],
        )
        _write("links.csv", list(links[0]), [list(link.values()) for link in links])
    Path(f"{arguments[0]}-job.json").write_text(
        json.dumps({"problem": job(), "privacy": {"epsilon": epsilon}})
    )


def _write(name: str, header: list[str], rows: list[list[Any]], separator: str = ",") -> None:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows([header, *rows])


if __name__ == "__main__":
    main(sys.argv[1:])
