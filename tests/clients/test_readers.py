"""Readers of people's own tables: what they make of good ones, against plain code."""

from __future__ import annotations

import re
import warnings
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import minari
import numpy as np
import openmatrix
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from minari.data_collector import EpisodeBuffer

from discreet_client import LeftOut, calls, flows, readers, source_blocks
from discreet_client.episodes import ranges_of
from discreet_client.tables import TableError, read_csv
from discreet_client.trips import in_parts
from tests.growth import LINEAR, growth

VISITS = {
    "unit": "trajectory",
    "ranges": [
        {"name": "age", "low": 20, "high": 100},
        {"name": "pressure", "low": 80, "high": 180},
    ],
    "reward_bound": 5,
    "horizon": 12,
}
TRIPS = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
EVEN = {"treat": 0.5, "wait": 0.5}


def visits(seed: int) -> pd.DataFrame:
    """Patients of one to nine visits, in no order."""
    generator = np.random.default_rng(seed)
    rows = [
        {
            "patient": f"p{patient}",
            "time": time,
            "reward": generator.uniform(-5, 5),
            "action": generator.choice([*EVEN]),
        }
        | {"age": generator.uniform(0, 120), "pressure": generator.uniform(60, 200)}
        for patient in range(20)
        for time in generator.choice(100, generator.integers(1, 10), replace=False).tolist()
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=seed)


def plainly(frame: pd.DataFrame, last_row: str) -> set[tuple[Any, ...]]:
    """(patient's first reward, step, x, next x, reward, terminal) of each transition, visit by
    visit."""
    found = set()
    for _, rows in frame.groupby("patient"):
        own = rows.sort_values("time")
        x = np.clip((own[["age", "pressure"]].to_numpy() - [20, 80]) / [80, 100], 0, 1)
        for step, reward in enumerate(own["reward"]):
            last = step == len(own) - 1
            if not last or last_row == "terminal":
                there = x[step] if last else x[step + 1]
                found.add((own["reward"].iloc[0], step, *x[step], *there, reward, last))
    return found


@pytest.mark.parametrize("last_row", ["terminal", "next_state"])
def test_transitions_are_those_of_each_patient_in_order(last_row: str) -> None:
    frame = visits(3)
    found = readers.read(
        "off_policy_evaluation", frame, {**VISITS, "reader": {"last_row": last_row}}
    )
    columns = found.columns
    assert found.public == {**VISITS, "features": 2}
    first = columns["step"] == 0
    begins = dict(zip(columns["trajectory"][first], columns["reward"][first], strict=True))
    names = ("step", "x_0", "x_1", "x_next_0", "x_next_1", "reward", "terminal")
    rows = zip(columns["trajectory"], *(columns[name] for name in names), strict=True)
    assert {(begins[owner], *row) for owner, *row in rows} == plainly(frame, last_row)
    alone = int((frame.groupby("patient").size() == 1).sum())
    assert alone
    assert (str(alone) in found.notes[0]) if last_row == "next_state" else not found.notes


def test_a_patient_changes_nothing_of_the_others() -> None:
    """Whoever comes or goes: the other patients' transitions are the same, so neighbours stay
    neighbours."""
    rules = {
        "interval": 10,
        "gaps": "end",
        "missing": "carry",
        "behaviour": EVEN,
        "target": {"treat": 1, "wait": 0},
    }
    frame = visits(5)
    missed = (frame["reward"] > 4).groupby(frame["patient"]).cumsum()
    frame["time"] = frame.groupby("patient").cumcount() * 10 + 30 * missed
    frame.loc[frame["time"] % 40 == 20, "age"] = np.nan

    def others(source: pd.DataFrame) -> set[tuple[Any, ...]]:
        columns = readers.read("off_policy_evaluation", source, {**VISITS, "reader": rules}).columns
        return set(
            zip(
                *(columns[name].tolist() for name in sorted(columns) if name != "trajectory"),
                strict=True,
            )
        )

    whole = others(frame)
    for patient in ("p1", "p7", "p11"):
        assert (
            others(frame[frame["patient"] != patient]) | others(frame[frame["patient"] == patient])
            == whole
        )


def test_gaps_missing_values_and_ends() -> None:
    told = "patient,time,age,pressure,reward,terminal\n"
    rows = [
        ("a", 0, 20, 80, 0, 0),
        ("a", 1, "", 130, 1, 0),
        ("a", 3, 100, 180, 2, 1),
        ("b", 5, 60, 80, 3, 1),
    ]
    table = read_text(told, rows)
    rules = {"interval": 1, "gaps": "end", "missing": "carry"}
    found = readers.read("off_policy_evaluation", table, {**VISITS, "reader": rules})
    assert found.columns["trajectory"].tolist() == [0, 1]
    assert found.columns["x_0"].tolist() == [0, 0.5]
    assert found.columns["x_next_0"].tolist() == [0, 0.5]  # carried over; then the gap
    assert found.columns["x_next_1"].tolist() == [0.5, 0]
    assert found.columns["terminal"].tolist() == [False, True]
    assert len(found.notes) == 2


def read_text(header: str, rows: Any) -> Any:
    return read_csv((header + "\n".join(",".join(map(str, row)) for row in rows)).encode())


def test_a_policy_gives_each_action_its_probability() -> None:
    rules = {"behaviour": EVEN, "target": {"treat": 0.9, "wait": 0.1}}
    frame = visits(1)
    found = readers.read("off_policy_evaluation", frame, {**VISITS, "reader": rules}).columns
    treated = frame.set_index("reward")["action"] == "treat"
    assert found["behaviour"].tolist() == [0.5] * len(frame)
    assert found["target"].tolist() == [
        0.9 if treated[reward] else 0.1 for reward in found["reward"]
    ]


def test_every_way_to_give_a_table_is_the_same(tmp_path: Path) -> None:
    frame = visits(2)
    frame.to_csv(tmp_path / "visits.csv", index=False)
    frame.to_csv(tmp_path / "german.csv", index=False, sep=";", decimal=",")
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "visits.parquet")
    whole = readers.read("off_policy_evaluation", frame, VISITS).columns
    mapping = {name: frame[name].to_numpy() for name in frame.columns}
    files = [tmp_path / name for name in ("visits.csv", "german.csv", "visits.parquet")]
    for source in (*files, mapping, pa.Table.from_pandas(frame)):
        found = readers.read("off_policy_evaluation", source, VISITS).columns
        for name, column in whole.items():
            np.testing.assert_array_equal(found[name], column)


def test_types_of_pandas() -> None:
    """Integers that may lack, strings and categories are columns as others."""
    frame = visits(4)
    typed = frame.astype(
        {"time": "Int64", "patient": "string", "action": "category", "age": "Float64"}
    )
    rules = {"behaviour": EVEN, "target": EVEN}
    plain = readers.read("off_policy_evaluation", frame, {**VISITS, "reader": rules}).columns
    for name, column in readers.read(
        "off_policy_evaluation", typed, {**VISITS, "reader": rules}
    ).columns.items():
        np.testing.assert_array_equal(column, plain[name])
    typed.loc[typed.index[3], "age"] = pd.NA
    with pytest.raises(TableError, match="row 3, column age: a value is missing"):
        readers.read("off_policy_evaluation", typed, VISITS)


def test_dates_count_in_days() -> None:
    days = ["2026-03-01", "2026-03-08", "2026-03-15", "2026-04-15"]
    columns = {"patient": [1] * 4, "time": days, "state": [0, 1, 2, 0], "reward": [0.0] * 4}
    public = {"unit": "trajectory", "states": 3, "reward_bound": 1, "horizon": 4}
    for time in (
        days,
        np.array(days, dtype="datetime64[D]"),
        pd.to_datetime(pd.Series(days)).dt.tz_localize("Europe/Berlin"),
    ):
        read = {**columns, "time": time}
        found = readers.read(
            "off_policy_evaluation", read, {**public, "reader": {"interval": 7, "gaps": "end"}}
        )
        assert found.columns["next_state"].tolist() == [1, 2]
        with pytest.raises(
            TableError, match=r"^row 3, column time: more than an interval of 7 days"
        ):
            readers.read("off_policy_evaluation", read, {**public, "reader": {"interval": 7}})


def test_trips_by_the_clock_of_a_place() -> None:
    """Clocks change on 25 October 2026: seven in the morning stays seven in the morning, with and
    without offsets."""
    rules = {
        "start": "2026-10-24T07:00",
        "every": "day",
        "time_zone": "Europe/Berlin",
        "zones": {"A": 1, "B": 2},
    }
    times = [
        "2026-10-24T07:00",
        "2026-10-25T07:59",
        "2026-10-25T06:30:00+00:00",
        "2026-10-24T05:30Z",
        "2026-10-25T08:00",
    ]
    table = {"o": list("ABABA"), "d": list("BABAB"), "when": times}
    names = {"origin": "o", "destination": "d", "time": "when"}
    with pytest.raises(
        TableError, match=r"row 4, column when \(time\): outside the 2 public periods"
    ):
        readers.read("routing", table, {**TRIPS, "reader": rules}, names)
    found = readers.read(
        "routing", table, {**TRIPS, "reader": {**rules, "outside": "leave_out"}}, names
    )
    assert found.columns["period"].tolist() == [0, 1, 1, 0]
    assert found.columns["origin"].tolist() == [1, 2, 1, 2]
    assert found.columns["count"].tolist() == [1, 1, 1, 1]
    assert found.notes[0] == "1 trip outside of the public periods is left out"
    assert (
        "the days from 24 October 2026 to 25 October 2026, 2 of them Saturdays and Sundays"
        in found.notes[1]
    )
    assert found.public == TRIPS


def test_trips_of_one_hour_after_the_other() -> None:
    """Hour by hour the night of 25 October has 25 of them, and its twice-shown hour needs an
    offset."""
    rules = {"start": "2026-10-25T00:00", "time_zone": "Europe/Berlin"}
    public = {**TRIPS, "periods": 25, "reader": rules}

    def period(time: str) -> int:
        found = readers.read("routing", {"origin": [1], "destination": [2], "time": [time]}, public)
        return int(found.columns["period"][0])

    assert period("2026-10-25T23:59") == 24
    assert [period(f"2026-10-25T02:30:00{offset}") for offset in ("+02:00", "+01:00")] == [2, 3]
    with pytest.raises(TableError, match="clocks in Europe/Berlin skip this time or show it twice"):
        period("2026-10-25T02:30")


def test_persons_become_numbers() -> None:
    table = {"from": [1, 1, 2], "to": [2, 2, 3], "traveller": ["zoe", "adam", "zoe"]}
    names = {"origin": "from", "destination": "to", "person": "traveller"}
    found = readers.read("routing", table, {**TRIPS, "unit": "person", "periods": 1}, names).columns
    assert found["person"].tolist() == [1, 0, 1]
    assert found["period"].tolist() == [0, 0, 0]


def test_rounding_says_what_it_changed() -> None:
    table = {
        "origin": [1, 2, 3],
        "destination": [2, 3, 1],
        "count": [0.4, 2.5, 3.7],
        "period": [0, 0, 1],
    }
    found = readers.read("routing", table, {**TRIPS, "reader": {"round_trips": True}})
    assert found.columns["count"].tolist() == [0, 3, 4]
    assert found.notes == ["rounding made 7 trips of 6.60"]
    refused = readers_refusal(table, TRIPS)
    assert "is an integer, or public.trip_scale says in which parts of a trip they are" in refused


def readers_refusal(table: Any, public: dict[str, Any]) -> str:
    with pytest.raises(TableError) as refused:
        readers.read("routing", table, public)
    return str(refused.value)


def test_fractions_of_trips_are_kept_in_public_parts() -> None:
    table = {
        "origin": [1, 2, 3],
        "destination": [2, 3, 1],
        "count": [0.37, 2.5, 3],
        "period": [0, 0, 1],
    }
    found = readers.read("routing", table, {**TRIPS, "trip_scale": 100})
    assert found.columns["count"].tolist() == [0.37, 2.5, 3]
    assert found.public["trip_scale"] == 100
    assert found.notes == []
    assert "has no smaller parts than 1/10 of a trip" in readers_refusal(
        table, {**TRIPS, "trip_scale": 10}
    )
    tenths = readers.read(
        "routing", table, {**TRIPS, "trip_scale": 10, "reader": {"round_trips": True}}
    )
    assert tenths.columns["count"].tolist() == [0.4, 2.5, 3]
    assert tenths.notes == ["rounding made 5.90 trips of 5.87"]
    for scale in (0, 1001, True, 2.5, "100"):
        assert "public.trip_scale is an integer" in readers_refusal(
            table, {**TRIPS, "trip_scale": scale}
        )


@given(st.decimals(0, 9999, places=4), st.integers(1, 1000))
def test_one_trip_more_is_one_trip_more_however_it_is_rounded(trips: Decimal, scale: int) -> None:
    """Rounding to even would make two of one: 0 of 0.5, 2 of 1.5. Nor may doubles: 0.145 is below,
    1.145 above."""
    fewer, more = in_parts(np.array([float(trips), float(trips + 1)]), scale).tolist()
    assert more - fewer == scale
    assert abs(fewer - trips * scale) <= Decimal("0.5")


def test_zones_by_a_table(tmp_path: Path) -> None:
    zones = tmp_path / "zones.csv"
    zones.write_text("id,number\n0815,2\nB,1\n")
    table = read_text("origin,destination\n", [("0815", "B")])
    found = readers.read(
        "routing", table, {**TRIPS, "periods": 1, "reader": {"zones": str(zones)}}
    ).columns
    assert (found["origin"].tolist(), found["destination"].tolist()) == ([2], [1])


def test_zones_of_a_table_without_ids(tmp_path: Path) -> None:
    """The first column names them, and it is said how they are numbered; trips to elsewhere go
    where that is said."""
    zones = tmp_path / "districts.csv"
    zones.write_text("district;people\nNorth;5\nSouth;7\nAirport;0\n")
    table = {"origin": ["South ", "North", "Moon"], "destination": ["Airport", "Moon", "North"]}
    rules = {"zones": str(zones), "other_zones": "leave_out"}
    reading = readers.read("routing", table, {**TRIPS, "periods": 1, "reader": rules})
    assert [reading.columns[end].tolist() for end in ("origin", "destination")] == [[2], [3]]
    assert reading.notes[0].startswith(
        "zones are those of column district of districts.csv: 1 North, 2 South, 3 Airp"
    )
    assert reading.notes[1:] == ["2 trips from or to other zones are left out"]


@pytest.mark.parametrize(
    ("written", "dates"),
    [
        ("02.11.2026 07:30", None),
        ("2.11.2026 07:30:00", "month_first"),
        ("02/11/2026 7:30", "day_first"),
        ("11/2/2026 7:30 AM", "month_first"),
    ],
)
def test_dates_as_spreadsheets_write_them(written: str, dates: str | None) -> None:
    told = {
        "start": "2026-11-02T06:00",
        "time_zone": "Europe/Berlin",
        **({"dates": dates} if dates else {}),
    }
    table = {"origin": [1], "destination": [2], "time": [written]}
    assert readers.read("routing", table, {**TRIPS, "reader": told}).columns["period"].tolist() == [
        1
    ]
    if "AM" in written:
        with pytest.raises(TableError, match="outside the 2 public periods"):
            readers.read(
                "routing",
                {**table, "time": [written.replace("AM", "PM")]},
                {**TRIPS, "reader": told},
            )


def test_patients_who_lack_a_value_are_left_out_whole() -> None:
    lacking = visits(3)
    someone = lacking["patient"].value_counts().index[0]  # with the most visits
    theirs = (lacking["patient"] == someone).to_numpy()
    lacking.loc[lacking.index[theirs][1], "age"] = np.nan
    public = {**VISITS, "reader": {"behaviour": EVEN, "target": EVEN, "missing": "leave_out"}}
    reading = readers.read("off_policy_evaluation", lacking, public)
    without = readers.read("off_policy_evaluation", lacking[~theirs], public)
    assert reading.notes == ["left out: 1 of 20 patients with a value that is missing"]
    assert without.notes == []
    for name, values in without.columns.items():
        np.testing.assert_array_equal(reading.columns[name], values)


def test_a_reading_without_a_value_is_none() -> None:
    table = {
        "participant": ["m", "m"],
        "time": ["2026-01-02T00:00Z", "2026-01-02T00:30Z"],
        "kw": [1.5, np.nan],
    }
    reading = readers.read("dr_ensemble", table, {})
    assert reading.columns["kw"].tolist() == [1.5]
    assert reading.columns["time"].tolist() == ["2026-01-02T00:00:00+00:00"]
    assert reading.notes == [
        "1 of 2 readings without a value left out, as gaps (public.meters: carry, gaps)"
    ]


WIDE = """time;Home 1;Home 2;outside
21.11.2026 15:00;1,5;;8
21.11.2026 15:15;0,25;-2;7,5
21.11.2026 15:30;NA;3;7
"""


def test_a_table_with_a_column_for_each_meter(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(WIDE)
    reader = {"time_zone": "Europe/Berlin", "participants": ["Home 2", "Home 1"]}
    wide = readers.read("dr_ensemble", path, {"reader": reader})
    long = tmp_path / "long.csv"
    rows = [
        ("Home 2", "15:15", "-2"),
        ("Home 2", "15:30", "3"),
        ("Home 1", "15:00", "1.5"),
        ("Home 1", "15:15", ".25"),
    ]
    long.write_text(
        "participant,time,kw\n" + "".join(f"{who},21.11.2026 {at},{kw}\n" for who, at, kw in rows)
    )
    expected = readers.read("dr_ensemble", long, {"reader": {"time_zone": "Europe/Berlin"}}).columns
    for name, values in expected.items():
        assert wide.columns[name].tolist() == values.tolist(), name
    assert wide.notes[1:] == [
        "2 of 6 readings without a value left out, as gaps (public.meters: carry, gaps)"
    ]
    every = readers.read(
        "dr_ensemble", path, {"reader": {**reader, "participants": "columns"}}
    ).columns
    assert len(set(every["participant"].tolist())) == 3
    frame = pd.DataFrame(
        {"when": pd.to_datetime(["2026-01-01", "2026-01-02"]), "a": [1.0, None], "b": [2.0, 3.0]}
    )
    found = readers.read(
        "dr_ensemble", frame, {"reader": {"participants": "columns"}}, {"time": "when"}
    ).columns
    assert found["kw"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("rules", "columns", "says"),
    [
        ({}, {}, "Where each meter has a column, say"),
        ({"participants": "rows"}, {}, 'is "columns", or a list'),
        ({"participants": []}, {}, 'is "columns", or a list'),
        ({"participants": [1]}, {}, 'is "columns", or a list'),
        ({"participants": ["Home 1", "Home 1"]}, {}, "no column Home 1 of another meter"),
        (
            {"participants": ["Home 3"]},
            {},
            "no column Home 3 of another meter; there are time, Home 1",
        ),
        ({"participants": ["time"]}, {}, "no column time of another meter"),
        (
            {"participants": "columns"},
            {"kw": "Home 1"},
            "only that of the time can be called otherwise",
        ),
        ({"participants": "columns"}, {"time": "when"}, "no column when"),
        ({"participants": "columns", "except": "outside"}, {}, "reader.except is a list"),
        (
            {"participants": "columns", "except": ["Outside"]},
            {},
            "reader.except: no column Outside beside the time",
        ),
        (
            {"participants": "columns", "except": ["time"]},
            {},
            "reader.except: no column time beside the time",
        ),
        (
            {"participants": "columns", "except": ["Home 1", "Home 2", "outside"]},
            {},
            "leaves no column",
        ),
        (
            {"participants": ["Home 1"], "except": ["outside"]},
            {},
            'reader.except goes with "participants": "columns"',
        ),
        ({"except": ["outside"]}, {}, 'reader.except goes with "participants": "columns"'),
    ],
)
def test_what_is_wrong_with_columns_of_meters(
    tmp_path: Path, rules: Any, columns: Any, says: str
) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(WIDE)
    with pytest.raises(TableError, match=re.escape(says)):
        readers.read("dr_ensemble", path, {"reader": rules}, columns)


def test_a_total_and_the_weather_are_no_meters_unless_somebody_says_so(tmp_path: Path) -> None:
    path = tmp_path / "feeder.csv"
    path.write_text(WIDE.replace("outside", "Aussentemperatur").replace("Home 2", "Summe"))
    told = {"time_zone": "Europe/Berlin", "participants": "columns"}
    with pytest.raises(TableError) as refused:
        readers.read("dr_ensemble", path, {"reader": told})
    assert str(refused.value).startswith(
        "Summe, Aussentemperatur are named like a total, the weather or a price"
    )
    assert '"except": ["Summe", "Aussentemperatur"] beside' in str(refused.value)
    left = readers.read(
        "dr_ensemble", path, {"reader": {**told, "except": ["Summe", "Aussentemperatur"]}}
    )
    assert left.columns["kw"].tolist() == [1.5, 0.25]
    assert (
        readers.read("dr_ensemble", path, {"reader": {**told, "participants": ["Home 1"]}})
        .columns["kw"]
        .size
        == 2
    )
    every = readers.read("dr_ensemble", path, {"reader": {**told, "except": ["Aussentemperatur"]}})
    assert every.notes[1] == (
        "Summe is taken as a meter, and is named like a total, the weather or a price: "
        "reader.except does not name them"
    )


RULE: dict[str, Any] = {
    "unit": "participant",
    "states": 2,
    "edges": [0, 1, 4],
    "steps": 3,
    "meters": {"start": "2026-11-21T15:00:00+01:00", "interval_seconds": 900},
    "reader": {"time_zone": "Europe/Berlin", "participants": ["Home 1", "Home 2"]},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {},
            "line 2, meter Home 1: this participant has no reading in the period from "
            "2026-11-21T15:30:00+01:00 on",
        ),
        ({"outside": "refuse"}, "line 3, meter Home 2: outside the public edges 0 to 4 kW"),
        (
            {"start": "2026-11-21T15:05:00+01:00"},
            "line 2, meter Home 1: before public.meters.start",
        ),
    ],
)
def test_what_the_public_rule_refuses_names_the_line_and_the_meter(
    tmp_path: Path, change: Any, says: str
) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(WIDE.replace("1,5;;", "1,5;2;"))
    public = {**RULE, "meters": {**RULE["meters"], **change}}
    with pytest.raises(TableError, match=f"^{re.escape(says)}"):
        readers.read("dr_ensemble", path, public)
    # A public part that is wrong itself is for the service, which says what is wrong with it.
    assert readers.read("dr_ensemble", path, {**public, "edges": [1, 0, 4]}).columns["kw"].size == 5


def test_the_hour_that_is_shown_twice_is_told_by_cells_that_are_empty_too(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    shown = [f"25.10.2026 02:{minute}" for minute in ("00", "30")] * 2
    kw = ["1", "", "2", "3"]
    rows = "".join(f"{time};{one};5\n" for time, one in zip(shown, kw, strict=True))
    path.write_text(f"time;Home 1;Home 2\n{rows}Summe;;\n")
    told = {"time_zone": "Europe/Berlin", "participants": ["Home 1"]}
    with pytest.raises(TableError, match="does not tell which"):
        readers.read("dr_ensemble", path, {"reader": told})  # below the table stands no time
    path.write_text(
        f"time;Home 1;Home 2\n{rows}29.03.2026 02:30;;\n"
    )  # a time that there was not, and no reading
    found = readers.read("dr_ensemble", path, {"reader": told})
    assert found.columns["time"].tolist() == [
        *("2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00")
    ]
    assert found.columns["kw"].tolist() == [1.0, 2.0, 3.0]


def test_how_far_middles_of_bins_are_off_is_said_to_the_owner_alone() -> None:
    start, minutes = datetime(2026, 11, 21, 14, tzinfo=UTC), range(0, 45, 15)
    times = [(start + timedelta(minutes=minute)).isoformat() for minute in minutes] * 2
    table = {
        "participant": ["a"] * 3 + ["b"] * 3,
        "time": times,
        "kw": [0.1, 1.2, 1.3, 0.2, 1.1, 1.4],
    }
    public = {name: value for name, value in RULE.items() if name != "reader"}
    reading = readers.read("dr_ensemble", table, public)
    (note,) = reading.notes
    assert "the power of this file 108 % more than it is" in note
    assert "from 1 to 4 kW, where its mean is 1.25 and the middle 2.5" in note
    assert reading.public == public
    near = readers.read("dr_ensemble", {**table, "kw": [0.5, 2.5, 2.5, 0.5, 2.4, 2.6]}, public)
    assert near.notes == []


def test_what_is_wrong_with_several_columns_is_said_at_once(tmp_path: Path) -> None:
    """A person mends a file once, and not once for each column."""
    file = tmp_path / "visits.csv"
    public = {
        **VISITS,
        "ranges": VISITS["ranges"][:1],
        "reader": {"behaviour": EVEN, "target": EVEN},
    }
    head = "patient,time,age,action,reward\n"
    file.write_text(
        f"{head}a,2026-01-01,50,treat,1\na,32.01.2026,,teat,9\n,2026-01-05,60,wait,many\n"
    )
    with pytest.raises(TableError) as refused:
        readers.read("off_policy_evaluation", file, public)
    said = str(refused.value).split("\n")
    assert [one.split(":")[0] for one in said] == [
        *("line 4, column patient", "line 3, column time", "line 3, column age"),
        *("line 4, column reward", "line 3, column action"),
    ]
    carried = {**public, "reader": {**public["reader"], "missing": "carry"}}
    with pytest.raises(TableError) as refused:
        readers.read("off_policy_evaluation", file, carried)
    assert "column age" not in str(refused.value)  # what is missing is that of the visit before
    file.write_text(f"{head}a,2026-01-01,50,treat,9\n")
    with pytest.raises(TableError) as refused:
        readers.read("off_policy_evaluation", file, {**public, "ranges": [{"name": "age"}]})
    assert str(refused.value).startswith("public.ranges")  # of what all columns need, once

    rules = {"start": "2026-01-01T00:00", "every": "day", "zones": ["A", "B", "C"]}
    file.write_text(
        "origin,destination,time,count\nA,X,2026-01-01 00:10,1\nY,,2026-01-01 "
        "00:10,1\n,B,soon,much\nB,C,once,-1\n"
    )
    with pytest.raises(TableError) as refused:
        readers.read("routing", file, {**TRIPS, "reader": rules})
    said = str(refused.value).split("\n")
    assert [one.split(":")[0] for one in said] == [
        *(
            "line 4, column origin",
            "line 3, column destination",
        ),  # what is missing, and what is wrong in whole rows
        *("line 2, column destination", "line 5, column time"),
        *("line 2, column time", "line 5, column count"),  # the first lacks a time zone
    ]

    file.write_text("participant,time,kw\na,yesterday,1\n,2026-01-01,much\n")
    with pytest.raises(TableError) as refused:
        readers.read("dr_ensemble", file, {"reader": {}})
    said = str(refused.value).split("\n")
    assert [one.split(":")[0] for one in said] == [
        *("line 3, column kw", "line 3, column participant", "line 2, column time")
    ]


def test_a_wrong_cell_of_a_meter_s_column_is_found_there(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(WIDE.replace("-2;", "off;"))
    with pytest.raises(TableError, match="line 3, column Home 2: a number is needed"):
        readers.read("dr_ensemble", path, {"reader": {"participants": "columns"}})


def test_omx_files(tmp_path: Path) -> None:
    """As openmatrix, the field's own library, writes them."""
    path = tmp_path / "demand.omx"
    trips = np.array([[0, 5.0, 0], [1, 0, 2], [0, 3, 0]])
    with openmatrix.open_file(str(path), "w") as file:
        file["am"] = trips
        file.create_mapping("taz", np.array([11, 12, 20]))
    named = {"zones": {"20": 1, "11": 2, "12": 3}}
    with pytest.raises(TableError, match=r"public\.zones is 3, so zones are 1 to 3; found 11"):
        readers.read("routing", path, {**TRIPS, "periods": 1})
    in_order = {"lookup": "none"}
    for rules, place in ((in_order, np.array([9, 0, 1, 2])), (named, np.array([9, 2, 0, 1]))):
        found = readers.read("routing", path, {**TRIPS, "periods": 1, "reader": rules}).columns
        made = np.zeros((3, 3))
        made[place[found["origin"]], place[found["destination"]]] = found["count"]
        np.testing.assert_array_equal(made, trips)


def test_released_demand_goes_out_as_omx_and_comes_back(tmp_path: Path) -> None:
    """Read by openmatrix, copied by it, and read again as content."""
    demand = [[0, 5.25, 0], [1, 0, 2.5], [0, 3, 0]]
    lower, upper = [[0, 4, 0], [0, 0, 2], [0, 2, 0]], [[0, 7, 0], [2, 0, 3], [0, 4, None]]
    said = {"uncertainty": {"values": {"demand": {"lower": lower, "upper": upper}}}}
    path, copy = tmp_path / "out.omx", tmp_path / "copy.omx"
    path.write_bytes(flows.demand_matrix({"demand": demand, **said}))
    with openmatrix.open_file(str(path)) as file, openmatrix.open_file(str(copy), "w") as written:
        assert file.version() == b"0.2"
        assert file.shape() == (3, 3)
        assert sorted(file.list_matrices()) == ["demand", "demand_lower", "demand_upper"]
        assert file.mapping("zones") == {1: 0, 2: 1, 3: 2}
        np.testing.assert_array_equal(np.array(file["demand"]), demand)
        np.testing.assert_array_equal(np.array(file["demand_upper"]), np.array(upper, dtype=float))
        written["am"] = np.array(file["demand"])
    assert "demand_lower" not in flows.demand_matrix({"demand": demand}).decode("latin-1")
    reader = {"round_trips": True}
    found = readers.read("routing", copy, {**TRIPS, "periods": 1, "reader": reader})
    assert list(
        zip(
            *(found.columns[name].tolist() for name in ("origin", "destination", "count")),
            strict=True,
        )
    ) == [
        (1, 2, 5),
        (2, 1, 1),
        (2, 3, 3),
        (3, 2, 3),
    ]
    with pytest.raises(flows.NotWritten, match="has no demand"):
        flows.demand_matrix({"link_flows": [1.0]})


def test_meters_in_local_time() -> None:
    """The hour that is shown twice is told by the order of each meter's rows."""
    shown = ["2026-10-25T02:00", "2026-10-25T02:30", "2026-10-25T02:00", "2026-10-25T02:30"]
    table = {
        "meter": ["b", "a"] * 4,
        "when": [time for time in shown for _ in range(2)],
        "power": range(8),
    }
    names = {"participant": "meter", "time": "when", "kw": "power"}
    found = readers.read("dr_ensemble", table, {"reader": {"time_zone": "Europe/Berlin"}}, names)
    assert found.public == {}
    assert found.columns["participant"].tolist() == [1, 0] * 4
    offsets = [time[-6:] for time in found.columns["time"].tolist()]
    assert offsets == ["+02:00"] * 4 + ["+01:00"] * 4


PERSONS = TRIPS | {"unit": "person"}
LONG = "8949020000123456789"


@pytest.mark.parametrize(
    ("names", "people"),
    [
        ([LONG + "0", LONG + "1"], 2),  # no float tells them apart
        (["a\0", "a"], 2),  # nor does an array of fixed width
        (["007", "7"], 2),
        (["1e5", "100000"], 2),
        ([" ann", "ann "], 1),
        (["7", "7.0"], 1),
        (np.array([7, 7.0, "7"], dtype=object), 1),
        (["\u00e9", "e\u0301"], 1),
        (np.array([2**63, 2**63 + 1], dtype=np.uint64), 2),
    ],
)
def test_nobody_is_two_people_and_no_two_are_one(names: Any, people: int) -> None:
    same = {name: [1] * len(names) for name in ("origin", "destination", "count")} | {
        "period": [0] * len(names)
    }
    found = readers.read("routing", {**same, "person": names}, PERSONS)
    assert len(set(found.columns["person"].tolist())) == people


@pytest.mark.parametrize(
    "names", [[2.0**60, 1.0], np.array([2**24, 1], dtype=np.float32), [float("inf"), 1.0]]
)
def test_floats_that_stand_for_several_people_are_refused(names: Any) -> None:
    same = {name: [1] * 2 for name in ("origin", "destination", "count")} | {"period": [0] * 2}
    with pytest.raises(TableError, match="stands for several"):
        readers.read("routing", {**same, "person": names}, PERSONS)


def trips_with(
    public: dict[str, Any] | None = None, row: str = "2026-11-02T07:30,1,2,1", **rules: Any
) -> Any:
    rules = {"start": "2026-11-02T07:00", "time_zone": "Europe/Berlin"} | rules
    table = read_text("time,origin,destination,count\n", [row.split(",")])
    return lambda: readers.read("routing", table, {**TRIPS, **(public or {}), "reader": rules})


def visits_with(reader: dict[str, Any] | None = None, **public: Any) -> Any:
    frame = {
        "patient": ["a", "a"],
        "time": [0, 1],
        "state": [0, 1],
        "reward": [0, 1],
        "action": ["x", "x"],
        "age": [1, 2],
    }
    told = {"unit": "trajectory", "states": 3, "reward_bound": 5, "horizon": 12, **public}
    return lambda: readers.read(
        "off_policy_evaluation", frame, told | ({"reader": reader} if reader else {})
    )


NAN, INF, HUGE = float("nan"), float("inf"), 10**400
HOSTILE = [
    *(
        trips_with({"period_minutes": wrong})
        for wrong in (0, 1e-12, NAN, INF, None, "60", 1e300, HUGE, True)
    ),
    *(trips_with({"periods": wrong}) for wrong in ("2", 0, -1, 1.5, True, HUGE)),
    *(trips_with({"zones": wrong}) for wrong in ("3", 0, -1, 1.5, HUGE)),
    *(
        trips_with(zones=wrong)
        for wrong in ([1, 1], ["1", 1.0], {"1": 1.9}, {"1": "x"}, {"1": HUGE}, 5)
    ),
    *(trips_with(start=wrong) for wrong in ("2026-10-25T02:30", "2026-03-29T02:30", "", None, 5)),
    *(trips_with(time_zone=wrong) for wrong in ("../../../etc/passwd", "", "No/Where", 5)),
    *(
        trips_with(row=f"{time},1,2,1", every="day")
        for time in ("9999-12-31T23:59-12:00", "0001-01-01T00:00+14:00")
    ),
    *(
        trips_with(row=f"2026-11-02T07:30,1,2,{count}")
        for count in ("nan", "inf", "1e300", "9300000000000000000")
    ),
    *(visits_with(horizon=wrong) for wrong in ("12", 1.5, True, 0, -3, HUGE)),
    *(visits_with(reward_bound=wrong) for wrong in ("5", NAN, 0, -1, HUGE)),
    *(visits_with(states=wrong) for wrong in (True, 0, -1, 1.5, HUGE)),
    *(visits_with({"interval": wrong}) for wrong in (0, -1, NAN, INF, 1e-320, "1", True, HUGE)),
    *(
        visits_with({"behaviour": {"x": wrong}, "target": {"x": 1}})
        for wrong in (NAN, INF, -1, True, "1", HUGE)
    ),
    *(visits_with(ranges=wrong) for wrong in ("x", {"age": 1}, [1], [{"name": "age"}])),
    *(
        visits_with(ranges=[{"name": "age", "low": low, "high": high}])
        for low, high in (
            (-INF, 1),
            (0, INF),
            (NAN, 1),
            (-1e308, 1e308),
            ("0", 1),
            (1, 1),
            (HUGE, 1),
        )
    ),
    lambda: readers.read("routing", {"a": [1]}, {"reader": {"columns": ["a"]}}),
    lambda: readers.read("routing", {"a": [1]}, {"reader": {"columns": {"origin": ["a"]}}}),
    lambda: readers.read("routing", {f"c{number}": [1] for number in range(1000)}, PERSONS),
]


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.filterwarnings("error")
def test_hostile_figures_are_one_sentence(attack: Any) -> None:
    """Nothing overflows, wraps around or ends in a stack trace."""
    with pytest.raises(TableError) as refused:
        attack()
    assert len(str(refused.value)) < 1500


def test_header_lines_cost_in_proportion() -> None:
    def header(columns: int) -> bytes:
        return (",".join(f"c{number}" for number in range(columns)) + ",c0\n1\n").encode()

    def refused(content: bytes) -> None:
        with pytest.raises(TableError, match="stands twice"):
            read_csv(content)

    assert growth(header, refused, 4000) < LINEAR


def test_what_is_left_out_is_a_warning() -> None:
    public = {**VISITS, "reader": {"last_row": "next_state"}}
    given: Any = {"cap": 1, "name": None, "mode": None, "account": None, "local": True}
    with pytest.warns(LeftOut, match="with a single visit"):
        body = calls.dataset_body("off_policy_evaluation", public, visits(3), **given)
    described = {"columns": {}, "reader": {"last_row": "next_state", "version": 1}}
    assert body["public"] == {"features": 2, **VISITS, **described}


def walk(generator: np.random.Generator, *, cut: bool) -> dict[str, Any]:
    """A Gymnasium episode: T + 1 observations of two numbers, T actions and rewards."""
    steps = int(generator.integers(2, 6))
    seen = generator.uniform(-2, 2, (steps + 1, 2))
    ended = np.arange(steps) == steps - 1
    told = {"terminations": ended & (not cut), "truncations": ended & cut}
    return {
        "observations": seen,
        "actions": generator.integers(0, 2, steps),
        "rewards": seen[1:, 0] / 2,
        **told,
    }


WALKS = {"unit": "trajectory", "reward_bound": 1, "horizon": 6}


def minari_dataset(walks: list[dict[str, Any]]) -> Any:
    """Written to disk and read again by Minari itself."""
    space = gymnasium.spaces.Box(-2, 2, (2,), np.float64)
    buffers = [
        EpisodeBuffer(id=number, **{name: list(values) for name, values in walk.items()})
        for number, walk in enumerate(walks)
    ]
    actions = gymnasium.spaces.Discrete(2)
    with (
        warnings.catch_warnings()
    ):  # of an author, a licence and so on that it would like to be told
        warnings.simplefilter("ignore", UserWarning)
        return minari.create_dataset_from_buffers(
            "walks/test-v0", buffers, observation_space=space, action_space=actions
        )


def d3rlpy_dataset(walks: list[dict[str, Any]]) -> Any:
    """Of T steps T observations, actions and rewards of two axes, and one word of the end."""
    found = [
        SimpleNamespace(
            observations=walk["observations"][:-1],
            actions=walk["actions"][:, None],
            rewards=walk["rewards"][:, None],
            terminated=bool(walk["terminations"][-1]),
        )
        for walk in walks
    ]
    return SimpleNamespace(episodes=found)


@pytest.mark.parametrize("form", [list, minari_dataset, d3rlpy_dataset])
def test_episodes(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Step by step what happened; without the observation after a cut the step before it has no
    next state."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    generator = np.random.default_rng(8)
    walks = [walk(generator, cut=number % 2 == 1) for number in range(10)]
    space = SimpleSpace(np.array([-2.0, -1.0]), np.array([2.0, 1.0]))
    policies = {
        "behaviour": lambda seen, actions: np.where(actions == 1, 0.25, 0.75),
        "target": lambda seen, actions: np.where((seen[:, 0] > 0) == (actions == 1), 1.0, 0.0),
    }
    public = {**WALKS, "ranges": ranges_of(space), "reader": policies}
    found = readers.read("off_policy_evaluation", form(walks), public).columns
    place, whole = 0, form is not d3rlpy_dataset
    for number, episode in enumerate(walks):
        scaled = np.clip((episode["observations"] - [-2, -1]) / [4, 2], 0, 1)
        cut = bool(episode["truncations"][-1])
        steps = len(episode["rewards"]) - (cut and not whole)
        here = slice(place, place + steps)
        assert (found["trajectory"][here] == number).all()
        for axis in range(2):
            np.testing.assert_array_equal(found[f"x_{axis}"][here], scaled[:steps, axis])
            onward = steps if cut else steps - 1  # of an end the next state is not looked at
            np.testing.assert_array_equal(
                found[f"x_next_{axis}"][here][:onward], scaled[1 : onward + 1, axis]
            )
        np.testing.assert_array_equal(found["reward"][here], episode["rewards"][:steps])
        assert found["terminal"][here].tolist() == [False] * (steps - 1) + [not cut]
        treated = episode["actions"][:steps] == 1
        np.testing.assert_array_equal(found["behaviour"][here], np.where(treated, 0.25, 0.75))
        follows = (episode["observations"][:steps, 0] > 0) == treated
        np.testing.assert_array_equal(found["target"][here], follows.astype(float))
        place += steps
    assert place == found["step"].size


class SimpleSpace:
    """What `ranges_of` needs of a Box."""

    def __init__(self, low: np.ndarray[Any, Any], high: np.ndarray[Any, Any]) -> None:
        self.low, self.high = low, high


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"actions": [1]},
            "episode 0 has 3 observations, 1 actions and 2 rewards: equally many are needed, or",
        ),
        (
            {"observations": [[1.0], [2.0], [3.0]]},
            "observations of 1 coordinates; public.ranges name 2",
        ),
        (
            {"observations": {"position": [1, 2, 3]}},
            "episode 0: observations have several parts; make them one array",
        ),
        ({"terminations": None}, "episode 0 does not say whether it terminated"),
    ],
)
def test_episodes_that_are_none(change: dict[str, Any], says: str) -> None:
    episode = {
        "observations": np.zeros((3, 2)),
        "actions": [0, 1],
        "rewards": [0, 0],
        "terminations": [False, True],
    }
    episode = {name: value for name, value in {**episode, **change}.items() if value is not None}
    ranges = ranges_of(SimpleSpace(np.zeros(2), np.ones(2)))
    with pytest.raises(TableError, match=says):
        readers.read("off_policy_evaluation", [episode], {**WALKS, "ranges": ranges})


def test_a_space_without_bounds_has_no_ranges() -> None:
    with pytest.raises(TableError, match="the observation space has no bounds"):
        ranges_of(SimpleSpace(np.array([-np.inf]), np.array([1.0])))


def test_periods_of_working_days_alone() -> None:
    """Ten mornings from Monday 2 November 2026 to Friday of the week after: no Saturday, no Sunday,
    by the clock."""
    public = {"unit": "request", "zones": 2, "periods": 10, "period_minutes": 120}
    rules = {
        "start": "2026-11-02T07:00",
        "every": "weekday",
        "time_zone": "Europe/Berlin",
        "outside": "leave_out",
    }
    days = [2, 3, 4, 5, 6, 9, 10, 11, 12, 13]
    times = [f"{day:02d}.11.2026 07:{day:02d}" for day in days]
    others = [
        "07.11.2026 07:30",
        "08.11.2026 08:00",
        "16.11.2026 07:30",
        "30.10.2026 07:30",
        "02.11.2026 09:00",
    ]
    table = {"origin": [1] * 15, "destination": [2] * 15, "time": times + others}
    reading = readers.read("routing", table, {**public, "reader": rules}, {"time": "time"})
    assert reading.columns["period"].tolist() == list(range(10))
    assert reading.notes == ["5 trips outside of the public periods are left out"]
    daily = readers.read(
        "routing", table, {**public, "reader": {**rules, "every": "day"}}, {"time": "time"}
    )
    assert daily.columns["period"].tolist() == [0, 1, 2, 3, 4, 7, 8, 9, 5, 6]
    (said,) = [note for note in daily.notes if "Saturdays" in note]
    assert said.startswith(
        "the 10 periods are the days from 02 November 2026 to 11 November 2026, 2 of them Saturdays"
    )
    for start, every in (("2026-11-04T07:00", range(9)), ("2026-11-06T07:00", range(7))):
        reading = readers.read(
            "routing", table, {**public, "reader": {**rules, "start": start}}, {"time": "time"}
        )
        assert sorted(reading.columns["period"].tolist()) == [*every]
    with pytest.raises(TableError, match=r"reader\.start is a Saturday, and every is weekday"):
        readers.read(
            "routing",
            table,
            {**public, "reader": {**rules, "start": "2026-11-07T07:00"}},
            {"time": "time"},
        )


def test_lines_without_any_value_are_none_and_points_for_thousands_are_named(
    tmp_path: Path,
) -> None:
    file = tmp_path / "trips.csv"
    file.write_text("origin;destination;count\n1;2;3\n;;\n2;1;4\n; ;\n")
    public = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60}
    reading = readers.read("routing", file, public, {})
    assert reading.columns["count"].tolist() == [3, 4]
    file.write_text("origin;destination;count\n1;2;3\n2;1;4.100,00\n")
    with pytest.raises(
        TableError, match="line 3, column count: a number without points for thousands is needed"
    ):
        readers.read("routing", file, public, {})
    file.write_text("origin;destination;count\n1;2;3\n2;1;many\n")
    with pytest.raises(TableError, match="line 3, column count: a number is needed"):
        readers.read("routing", file, public, {})


def test_times_outside_are_told_beside_those_that_are_none() -> None:
    table = {
        "origin": ["1", "1", "1", "1"],
        "destination": ["2", "2", "2", "2"],
        "time": ["02.11.2026 07:10", "31.11.2026 07:10", "02.11.2026 11:30", ""],
    }
    rules = {"start": "2026-11-02T07:00", "every": "day", "time_zone": "Europe/Berlin"}
    public = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 120}
    with pytest.raises(TableError) as refused:
        readers.read("routing", table, {**public, "reader": rules})
    assert sorted((one.row, one.about) for one in refused.value.issues) == [
        (1, "missing_words"),
        (2, "outside"),
        (3, "missing"),
    ]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_words_of_a_form_stand_for_a_missing_value(form: str, tmp_path: Path) -> None:
    """Those that are listed, whole and without spaces around them, and numbers among them also in
    columns of numbers; each row by what it says itself."""
    table = pd.DataFrame(
        {
            "origin": [1, -99, 2, 2],
            "destination": [2, 3, 3, 1],
            "time": [
                "02.11.2026 07:10",
                "02.11.2026 07:10",
                "30.02.2026 07:10",
                "02.11.2026 07:10",
            ],
            "count": ["3", "1", "2", " unknown "],
        }
    )
    file = tmp_path / f"trips.{form}"
    table.to_csv(file, index=False) if form == "csv" else table.to_parquet(file)
    rules = {"start": "2026-11-02T07:00", "time_zone": "Europe/Berlin", "missing": "leave_out"}
    public = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
    words = ["30.02.2026 07:10", "unknown", "-99"]
    read = readers.read("routing", file, {**public, "reader": {**rules, "missing_words": words}})
    assert {name: one.tolist() for name, one in read.columns.items()} == {
        "period": [0],
        "origin": [1],
        "destination": [2],
        "count": [3],
    }
    assert read.left_out == (("a value is missing", 3),)
    for wrong in ("unknown", [1], [""], ["x"] * 101):
        with pytest.raises(TableError, match=r"reader\.missing_words: a list of texts is needed"):
            readers.read("routing", file, {**public, "reader": {**rules, "missing_words": wrong}})


def test_words_for_a_missing_value_are_those_of_one_column_or_of_two_that_are_joined(
    tmp_path: Path,
) -> None:
    file = tmp_path / "trips.csv"
    file.write_text("origin,destination,day,clock\n1,2,2.11.2026,07:10\n1,2,31.02.2026,07:10\n")
    rules = {"start": "2026-11-02T07:00", "time_zone": "Europe/Berlin", "missing": "leave_out"}
    public = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60}
    for words in (["31.02.2026"], ["31.02.2026 07:10"]):
        described = {**public, "reader": {**rules, "missing_words": words}}
        read = readers.read("routing", file, described, {"time": "day+clock"})
        assert read.columns["period"].tolist() == [0]


@pytest.mark.parametrize("form", ["csv", "parquet", "columns"])
def test_a_day_alone_is_no_time_where_periods_are_shorter(form: str, tmp_path: Path) -> None:
    """Each trip of a column of dates was at midnight, without a word."""
    table = pd.DataFrame(
        {
            "origin": [1, 2],
            "destination": [2, 1],
            "time": [date(2026, 11, 2), date(2026, 11, 3)],
            "clock": ["07:10", "08:10"],
        }
    )
    source: Any = {name: list(values) for name, values in table.items()}
    if form == "csv":
        source = tmp_path / "trips.csv"
        table.to_csv(source, index=False)
    elif form == "parquet":
        source = tmp_path / "trips.parquet"
        table.to_parquet(source)
    rules = {"start": "2026-11-02T00:00", "time_zone": "Europe/Berlin"}
    public = {"unit": "request", "zones": 2, "periods": 48, "period_minutes": 60, "reader": rules}
    with pytest.raises(TableError, match="a time of day is needed, as periods are shorter") as no:
        readers.read("routing", source, public)
    assert "2026-11-02" in str(no.value)
    assert no.value.issues[0].count == 2
    whole = {**public, "periods": 2, "period_minutes": 1440}
    assert readers.read("routing", source, whole).columns["period"].tolist() == [0, 1]
    if form != "columns":
        read = readers.read("routing", source, public, {"time": "time+clock"})
        assert read.columns["period"].tolist() == [7, 32]


def test_a_column_a_meter_says_that_it_is_taken_as_power() -> None:
    table = {"time": ["2026-01-15T00:00+01:00", "2026-01-15T00:30+01:00"], "A": [0.2, 0.3]}
    public = {
        "states": 2,
        "edges": [0, 1, 2],
        "meters": {"start": "2026-01-15T00:00+01:00", "interval_seconds": 1800},
    }
    rules = {"participants": "columns"}
    said = [
        readers.read("dr_ensemble", table, {**public, "reader": {**rules, **more}}).notes
        for more in ({}, {"units": "kW"}, {"units": "kWh"})
    ]
    assert ["reader.units=kWh" in "".join(notes) for notes in said] == [True, False, False]


@pytest.mark.parametrize(
    ("cases", "says"),
    [
        ("age >= 65 -> 0.7, else 0.4", ""),
        ("age >= 65 -> high, else 0.4", "each case gives a probability"),
        ("age = old -> 0.7, else 0.4", "a column probability"),
        ("age >= 65 -> 1.7, else 0.4", "no probabilities of all actions that sum to 1"),
        ("0.4+0.3*(age>=65)", "cases as age >= 65 -> 0.7, else 0.4"),
    ],
)
def test_known_probabilities_by_cases(cases: str, says: str) -> None:
    table = {
        "patient": ["a", "a", "b"],
        "time": [1, 2, 1],
        "reward": [1, 0, 1],
        "action": ["t", "w", "t"],
        "age": [65, 70, 40],
    }
    rules = {"behaviour": {"t": cases, "w": "rest"}, "target": {"t": 1, "w": 0}}
    public = {"unit": "trajectory", "horizon": 2, "reward_bound": 1, "reader": rules}
    if says:
        with pytest.raises(TableError, match=says):
            readers.read("off_policy_evaluation", table, public)
        return
    reading = readers.read("off_policy_evaluation", table, public)
    assert reading.columns["behaviour"].tolist() == pytest.approx([0.7, 0.3, 0.4])
    assert reading.columns["target"].tolist() == [1, 0, 1]


def test_a_file_of_zones_is_named_where_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "zonen.csv"
    file.write_bytes("Name\nKöln\n".encode("cp1252"))
    with pytest.raises(TableError, match=r"reader\.zones: line 2 is not UTF-8: save zonen\.csv"):
        readers.read(
            "routing",
            {"origin": ["Köln"], "destination": ["Köln"]},
            {"zones": 1, "periods": 1, "reader": {"zones": str(file)}},
        )


def test_outcomes_that_are_texts_are_told_beside_those_that_are_missing() -> None:
    table = {"patient": ["a", "b"], "time": [1, 1], "reward": ["", "well"]}
    public = {"unit": "trajectory", "horizon": 1, "reward_bound": 1}
    with pytest.raises(TableError) as refused:
        readers.read("off_policy_evaluation", table, public)
    assert [(one.row, one.found) for one in refused.value.issues] == [(0, None), (1, "well")]


def test_local_times_of_meters_need_a_place() -> None:
    table = {
        "participant": ["a", "a"],
        "time": ["2026-01-15 00:00", "2026-01-15 00:30"],
        "kw": [1, 1],
    }
    meters = {"start": "2026-01-15T00:00+01:00", "interval_seconds": 1800}
    public = {"states": 2, "edges": [0, 1, 2], "meters": meters}
    with pytest.raises(TableError, match=r"Set reader\.time_zone") as refused:
        readers.read("dr_ensemble", table, public)
    assert [one.about for one in refused.value.issues] == ["time_zone"]


def test_a_block_with_other_columns_names_a_way_that_there_is() -> None:
    table = {"origin": [1], "destination": [2], "Zeit": ["2026-12-01 07:10"]}
    rules = {"start": "07:00", "time_zone": "Europe/Berlin"}
    for block, way in (("time", "rename them in this file"), ("date", "reader.block=time")):
        public = {**TRIPS, "reader": {**rules, "block": block}, "columns": {"time": "Abfahrt"}}
        with pytest.raises(TableError, match=way) as refused:
            source_blocks.read("routing", table, public, by="month", name="2026-12")
        assert "--columns" not in str(refused.value)
