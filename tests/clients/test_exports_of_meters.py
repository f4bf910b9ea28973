"""Exports as operators of meters write them: kWh, date and clock apart, a total below, a change of
the clocks."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from discreet_client.readers import read
from discreet_client.tables import TableError

BERLIN = ZoneInfo("Europe/Berlin")
COLUMNS = {"participant": "Marktlokation", "time": "Datum+Uhrzeit", "kwh": "Verbrauch [kWh]"}


def export(path: Path, homes: int = 3, days: int = 3, below: str = "", between: str = ";") -> Path:
    """Quarters of an hour from 24 October 2026 on; on the 25th clocks are put back. Home h takes h
    + 1 kW, always."""
    begin = datetime(2026, 10, 24, tzinfo=BERLIN).timestamp()
    end = datetime(2026, 10, 24 + days, tzinfo=BERLIN).timestamp()
    lines = [f"Marktlokation;Zählernummer;Datum{between}Uhrzeit;Verbrauch [kWh];Status"]
    for home in range(homes):
        for moment in np.arange(begin, end, 900):
            local = datetime.fromtimestamp(moment, BERLIN)
            energy = f"{(home + 1) / 4:.3f}".replace(".", ",")
            lines.append(f"DE{home};1EMH{home};{local:%d.%m.%Y}{between}{local:%H:%M};{energy};W")
    path.write_text("\n".join([*lines, *([below] if below else [])]), encoding="cp1252")
    return path


def public(steps: int = 3 * 96 + 4, seconds: int = 900, **more: Any) -> dict[str, Any]:
    return {
        "unit": "participant",
        "participants": 3,
        "states": 3,
        "edges": [0.5, 1.5, 2.5, 3.5],
        "steps": steps,
        "meters": {"start": "2026-10-24T00:00:00+02:00", "interval_seconds": seconds},
        "reader": {"time_zone": "Europe/Berlin", "encoding": "cp1252", **more},
    }


def test_energy_becomes_power_by_the_length_of_a_period(tmp_path: Path) -> None:
    found = read("dr_ensemble", export(tmp_path / "export.csv"), public(), COLUMNS)
    assert [
        sorted(set(found.columns["kw"][found.columns["participant"] == home])) for home in range(3)
    ] == [
        [1.0],
        [2.0],
        [3.0],
    ]
    # The hour that clocks show twice is two hours.
    assert len(set(found.columns["time"].tolist())) == 3 * 96 + 4
    assert found.notes == []


def test_energy_is_not_taken_for_power_without_a_word(tmp_path: Path) -> None:
    path = export(tmp_path / "export.csv")
    as_power = {
        **{role: name for role, name in COLUMNS.items() if role != "kwh"},
        "kw": "Verbrauch [kWh]",
    }
    with pytest.raises(
        TableError, match=r"column Verbrauch \[kWh\] is named like energy.*--columns kwh="
    ):
        read("dr_ensemble", path, public(), as_power)
    said = read("dr_ensemble", path, public(units="kWh"), as_power)
    assert said.columns["kw"].max() == 3.0
    assert read("dr_ensemble", path, public(units="kW"), as_power).columns["kw"].max() == 0.75
    with pytest.raises(TableError, match=r"reader\.units is kW or kWh, not 'MW'"):
        read("dr_ensemble", path, public(units="MW"), as_power)


def test_energy_of_another_time_than_a_period_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"most readings are 900 seconds apart, and .* is 1800"):
        read("dr_ensemble", export(tmp_path / "export.csv"), public(3 * 48 + 2, 1800), COLUMNS)


def test_columns_of_meters_in_kwh(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    rows = [f"24.10.2026;{hour:02d}:00;0,5;1,5" for hour in range(24)]
    path.write_text("\n".join(["Tag;Zeit;A [kWh];B [kWh]", *rows]), encoding="cp1252")
    rules = {"participants": "columns"}
    told = {**public(24, 3600, **rules), "participants": 2}
    with pytest.raises(
        TableError, match=r"column A \[kWh\] is named like energy.*\"units\": \"kWh\""
    ):
        read("dr_ensemble", path, told, {"time": "Tag+Zeit"})
    found = read(
        "dr_ensemble",
        path,
        {**told, "reader": {**told["reader"], "units": "kWh"}},
        {"time": "Tag+Zeit"},
    )
    assert sorted(set(found.columns["kw"])) == [0.5, 1.5]
    assert len(found.columns["kw"]) == 48


def test_a_total_below_the_meters_is_told_as_one(tmp_path: Path) -> None:
    path = export(tmp_path / "export.csv", below="Summe;;;;9.618,946;")
    with pytest.raises(
        TableError, match=r"line 878, .*named like a total.*leave its line out; found 'Summe'"
    ):
        read("dr_ensemble", path, public(), COLUMNS)


def test_who_forgot_the_hour_that_is_shown_twice_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(
        TableError, match=r"put back by then: with those 4 periods public\.steps is 292"
    ):
        read("dr_ensemble", export(tmp_path / "export.csv"), public(3 * 96), COLUMNS)
    late = {
        **public(3 * 96),
        "meters": {"start": "2026-10-23T00:00:00+02:00", "interval_seconds": 900},
    }
    with pytest.raises(TableError, match=r"where the last of the public\.steps periods ends, not"):
        read("dr_ensemble", export(tmp_path / "export.csv"), late, COLUMNS)


def test_blocks_of_a_day_that_leave_the_clock_are_told(tmp_path: Path) -> None:
    path, day = export(tmp_path / "export.csv"), {"steps": 96, "blocks": [0, 48]}
    notes = read("dr_ensemble", path, {**public(), "day": day}, COLUMNS).notes
    assert [note.split(",")[0] for note in notes] == [
        "clocks in Europe/Berlin change between the first and the last period"
    ]
    whole = export(tmp_path / "before.csv", days=1)
    assert read("dr_ensemble", whole, {**public(96), "day": day}, COLUMNS).notes == []


def test_columns_that_belong_together_are_one_where_none_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    day = datetime(2026, 3, 2)
    rows = [
        f"N,{home},{day + timedelta(days=visit):%Y-%m-%d},1"
        for home in range(2)
        for visit in range(2)
    ]
    path.write_text(
        "\n".join(["ward,number,day,well", *rows, "S,0,2026-03-02,1", "S,0,2026-03-03,0"])
    )
    told = {"unit": "trajectory", "reward_bound": 1, "least_reward": 0, "horizon": 2}
    columns = {"patient": "ward + number", "time": "day", "reward": "well"}
    found = read("off_policy_evaluation", path, told, columns)
    assert len(set(found.columns["trajectory"])) == 3
    with pytest.raises(TableError, match=r"no column ward \+ bed"):
        read("off_policy_evaluation", path, told, {**columns, "patient": "ward + bed"})


@pytest.mark.parametrize(("least", "refused"), [(0, False), (-0.5, False), (0.5, True)])
def test_the_least_reward_may_be_any_number(tmp_path: Path, least: float, refused: bool) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("patient,time,reward\nA,1,0\nA,2,1\n")
    told = {"unit": "trajectory", "reward_bound": 1, "least_reward": least, "horizon": 2}
    if refused:
        with pytest.raises(TableError, match=r"line 2.*the public least_reward is 0\.5; found 0"):
            read("off_policy_evaluation", path, told)
        return
    assert read("off_policy_evaluation", path, told).public["least_reward"] == least


def test_a_least_reward_that_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("patient,time,reward\nA,1,0\nA,2,1\n")
    with pytest.raises(TableError, match=r"public\.least_reward is a finite number, not none"):
        read(
            "off_policy_evaluation", path, {"reward_bound": 1, "least_reward": "none", "horizon": 2}
        )


def test_an_action_that_is_named_and_not_used_is_told(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("patient,time,reward,given\nA,1,0,B\nA,2,1,C\n")
    told = {"unit": "trajectory", "reward_bound": 1, "horizon": 2}
    notes = read("off_policy_evaluation", path, told, {"action": "given"}).notes
    assert len(notes) == 1
    assert notes[0].startswith("column given is not used, and nothing is said of another policy")
