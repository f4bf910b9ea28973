"""The example that drives CityLearn's buildings. Nothing here imports discreet, since CityLearn
needs an older numpy: in an environment of CityLearn and pytest,

    CITYLEARN_SCHEMA=…/schema.json pytest --noconftest -c /dev/null tests/test_city_learn.py
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "examples/city_learn.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("city_learn", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CITY = {
    "signal": [[0.0, 0.0, 0.0]] + [[1.0, 0.1 * math.log(9), 0.0]] * 23,
    "transitions": [[0.0, 0.75, 0.25]] * 3,
    "expected_power": [2.0] * 12 + [0.0] * 12,
    "default_power": [1.0] * 24,
}
"""A day: 12 kWh charged and 12 discharged, where a load that follows draws 1 kW more than habit."""


@pytest.mark.parametrize(("fitted", "taken"), [(False, 1 / 5), (True, 6.4 / 12 / 5)])
def test_a_released_policy_becomes_set_points(
    script: ModuleType, fitted: bool, taken: float
) -> None:
    """Of a battery of 6.4 kWh and 5 kW, after an hour at 1 kW."""
    battery = SimpleNamespace(capacity=6.4, nominal_power=5.0)
    building = SimpleNamespace(electrical_storage=battery, net_electricity_consumption=[1.0])
    action = script.set_points(CITY, fitted=fitted)
    assert action(building, 0) == 0
    assert action(building, 1) == pytest.approx(taken)
    building.net_electricity_consumption = [99.0]
    assert action(building, 1) == pytest.approx(taken)


def test_citylearn_is_driven(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where CityLearn is importable and CITYLEARN_SCHEMA names a data set of its repository."""
    pytest.importorskip(
        "citylearn", reason="NO CITYLEARN: `pip install citylearn` in an environment for this test"
    )
    schema = os.environ.get("CITYLEARN_SCHEMA")
    if schema is None:
        pytest.skip("NO DATA OF CITYLEARN: set CITYLEARN_SCHEMA to a schema.json of its repository")
    monkeypatch.setattr(script, "METERED", 48)
    monkeypatch.setattr(script, "DRIVEN", 48)
    (tmp_path / "job.json").write_text(json.dumps(script.job(schema)))
    body = json.loads((tmp_path / "job.json").read_text())
    public = body["problem"]["dataset"]["public"]
    assert len(body["problem"]["dataset"]["content"]["power"]) == 48 * public["participants"]
    assert len(body["problem"]["price"]) == 48
    hours = np.array(body["problem"]["price"]) < 0
    load = np.where(hours, 1.0, -1.0)
    result = {
        **CITY,
        "signal": [[0.0] * 3]
        + [[0.2, 0.2, 0.0] if cheap else [0.0, 0.2, 0.2] for cheap in hours[1:]],
        "transitions": [[0.25, 0.5, 0.25]] * 3,
        "expected_power": load.tolist(),
        "default_power": [0.0] * 48,
    }
    found = script.compared(schema, [result])
    assert found["no control"]["cost_total"] == pytest.approx(1)
    assert found["release 1, fitted"]["cost_total"] < found["release 1, as it is"]["cost_total"]
