"""Batteries of CityLearn's buildings, driven by a policy released at epsilon 1.

CityLearn (https://github.com/intelligent-environments-lab/CityLearn) simulates buildings with PV
and batteries, and brings its own controllers and its own evaluation. This script runs in
CityLearn's environment and meets discreet only through files. SCHEMA is `schema.json` of one of its
data sets whose only actions are electrical storage and which has prices, such as
`data/datasets/citylearn_challenge_2022_phase_all`.

    python examples/city_learn.py job SCHEMA > job.json      # 28 days of meters, one job
    discreet solve job.json --out result.json                # epsilon 1 for a building
    python examples/city_learn.py drive SCHEMA result.json   # the seven days after, evaluated

The file is not called `citylearn.py`, since Python would then import it instead of the package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

METERED, DRIVEN = 28 * 24, 7 * 24
"""Hours whose loads are released, and the hours after them, in which storage is driven."""
EDGES = [-20.0, 0.0, 2.0, 20.0]
"""Edges of the states in kW: a building exports, draws little, or draws much."""
POWER = [-1.5, 1.0, 3.0]
"""The power in kW that stands for each state. Both are public: round figures for households with
PV."""
DISCOMFORT = 0.1
"""Cost in dollars of deviating from habit; the smaller it is, the more the batteries are used."""
EPSILON = 1.0
START = datetime(2021, 1, 1, tzinfo=UTC)
"""A made-up date, since CityLearn's files only number the hours."""
MEASURES = ("cost_total", "all_time_peak_average", "daily_peak_average", "ramping_average")

Action = Callable[[Any, int], float]
"""From a building and the hour of the episode to the action of its battery: what it charges, as a
fraction of its nominal power, in [-1, 1]."""


def environment(schema: str, first: int, hours: int) -> Any:
    """An environment of so many hours; its episode ends in the hour after the last action."""
    from citylearn.citylearn import CityLearnEnv  # noqa: PLC0415 - whoever reads the rest needs none

    env = CityLearnEnv(
        schema,
        central_agent=True,
        simulation_start_time_step=first,
        simulation_end_time_step=first + hours,
    )
    if {name for names in env.action_names for name in names} != {"electrical_storage"}:
        raise SystemExit("SCHEMA must have electrical storage, and nothing else, to act on")
    return env


def run(env: Any, agent: Any) -> Any:
    """`env` after an episode that an agent of CityLearn controls."""
    observations, _ = env.reset()
    ended = False
    while not ended:
        observations, _, terminated, truncated, _ = env.step(agent.predict(observations))
        ended = terminated or truncated
    return env


def job(schema: str) -> dict[str, Any]:
    """The body of POST /v1/jobs: meters without control, and the tariff of the driven days."""
    from citylearn.agents.base import BaselineAgent  # noqa: PLC0415

    env = environment(schema, 0, METERED)
    env = run(env, BaselineAgent(env))
    readings = [
        {
            "participant": building.name,
            "time": (START + timedelta(hours=hour)).isoformat(),
            "kw": round(float(kw), 3),
        }
        for building in env.buildings
        for hour, kw in enumerate(building.net_electricity_consumption[:METERED])
    ]
    driven = environment(schema, METERED, DRIVEN)
    price = driven.buildings[0].pricing.electricity_pricing[:DRIVEN].astype(float)
    return {
        "problem": {
            "kind": "dr_ensemble",
            "dataset": {
                "name": "CityLearn's buildings, hourly meters",
                "kind": "dr_ensemble",
                "public": {
                    "unit": "participant",
                    "participants": len(env.buildings),
                    "states": len(POWER),
                    "steps": METERED,
                    "edges": EDGES,
                    "meters": {"start": START.isoformat(), "interval_seconds": 3600},
                },
                "content": {"power": readings},
                "cap": {"epsilon": EPSILON, "delta": 0},
            },
            # A battery returns what it charges, so only the deviation of a price from the mean of
            # all hours is a reason to use it.
            "price": (price - price.mean()).round(6).tolist(),
            "power": POWER,
            "discomfort_weight": DISCOMFORT,
            "initial": "released",
        },
        "privacy": {"epsilon": EPSILON},
    }


def set_points(result: dict[str, Any], *, fitted: bool) -> Action:
    """In each hour a battery charges the power that its building would draw by the released signal
    beyond the released habit, given the state of the building's meter an hour ago.

    The signal does not know the battery and asks for more than it holds. `fitted` scales charging
    and discharging so that the expected change of the load fills and empties a battery once a day,
    which takes only the result and the battery's public capacity.
    """
    habit, signal = np.array(result["transitions"]), np.array(result["signal"])
    followed = habit * np.exp(-signal[1:, None, :] / DISCOMFORT)
    shift = (followed / followed.sum(axis=2, keepdims=True) - habit) @ np.array(POWER)
    change = np.array(result["expected_power"]) - np.array(result["default_power"])
    days = len(change) / 24
    charged, discharged = (change.clip(min=0).sum() / days, -change.clip(max=0).sum() / days)

    def action(building: Any, hour: int) -> float:
        if hour == 0:
            return 0.0
        battery = building.electrical_storage
        kw = building.net_electricity_consumption[hour - 1]
        state = int(np.clip(np.searchsorted(EDGES, kw, "right") - 1, 0, len(POWER) - 1))
        taken = float(shift[hour - 1, state])
        daily = charged if taken > 0 else discharged
        if fitted and daily > 0:
            taken *= battery.capacity / daily
        return float(np.clip(taken / battery.nominal_power, -1, 1))

    return action


def timer(building: Any, hour: int) -> float:
    """A controller that uses the tariff alone, without anybody's data: it charges once a day,
    evenly over the hours that are cheaper than the mean, and discharges evenly over the others."""
    price = building.pricing.electricity_pricing[:DRIVEN]
    cheap = price <= price.mean()
    battery = building.electrical_storage
    daily = (cheap if cheap[hour] else ~cheap).sum() * 24 / len(price)
    return float((1 if cheap[hour] else -1) * battery.capacity / daily / battery.nominal_power)


def driven(schema: str, action: Action) -> Any:
    """The environment after the driven days, in which each battery follows `action`."""
    env = environment(schema, METERED, DRIVEN)
    env.reset()
    ended = False
    while not ended:
        chosen = [action(building, env.time_step) for building in env.buildings]
        _, _, terminated, truncated, _ = env.step([chosen])
        ended = terminated or truncated
    return env


def measured(env: Any) -> dict[str, float]:
    """CityLearn's own evaluation of the district: its measures as multiples of no control."""
    table = env.evaluate()
    table = table[table["level"] == "district"].set_index("cost_function")["value"]
    return {name: float(table[name]) for name in MEASURES}


def compared(schema: str, results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The measures of each controller over the same days."""
    from citylearn.agents.base import BaselineAgent  # noqa: PLC0415
    from citylearn.agents.rbc import BasicBatteryRBC, BasicRBC  # noqa: PLC0415

    found = {}
    for name, agent in (
        ("no control", BaselineAgent),
        ("BasicRBC", BasicRBC),
        ("BasicBatteryRBC", BasicBatteryRBC),
    ):
        env = environment(schema, METERED, DRIVEN)
        found[name] = measured(run(env, agent(env)))
    found["tariff's timer"] = measured(driven(schema, timer))
    for number, result in enumerate(results):
        for manner, fitted in (("as it is", False), ("fitted", True)):
            name = f"release {number + 1}, {manner}"
            found[name] = measured(driven(schema, set_points(result, fitted=fitted)))
    return found


def main(arguments: list[str]) -> None:
    match arguments:
        case ["job", schema]:
            print(json.dumps(job(schema)))
        case ["drive", schema, *files] if files:
            results = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
            found = compared(schema, [result.get("result", result) for result in results])
            print(f"{'':20}" + " ".join(f"{name:>22}" for name in MEASURES))
            for name, values in found.items():
                print(f"{name:20}" + " ".join(f"{values[key]:22.3f}" for key in MEASURES))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
