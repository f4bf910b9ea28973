"""Day-ahead price files, as exchanges publish them, as the price of a demand response."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from discreet import cli
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet_client.tables import TableError
from discreet_client.tariffs import steps_of_day, tariff_of

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)
TWO_AREAS = "Deutschland/Luxemburg [€/MWh]", "Belgien [€/MWh]"


def hours(begin: datetime, count: int, each: timedelta = HOUR) -> list[tuple[datetime, datetime]]:
    """The local times at which as many intervals begin and end."""
    first = begin.astimezone(UTC)
    return [
        ((first + k * each).astimezone(BERLIN), (first + (k + 1) * each).astimezone(BERLIN))
        for k in range(count)
    ]


def transparency(prices: list[float], begin: datetime) -> str:
    """With commas, an interval in a cell and the currency beside the price."""
    rows = [
        f'"{start:%d.%m.%Y %H:%M} - {end:%d.%m.%Y %H:%M}","{price}","EUR",""'
        for (start, end), price in zip(hours(begin, len(prices)), prices, strict=True)
    ]
    return '"MTU (CET/CEST)","Day-ahead Price [EUR/MWh]","Currency","BZN|DE-LU"\n' + "\n".join(rows)


def market_data(prices: list[float], begin: datetime) -> str:
    """With semicolons and decimal commas, begin and end in two columns, and the price of another
    area beside."""
    rows = [
        f"{start:%d.%m.%Y %H:%M};{end:%d.%m.%Y %H:%M};{f'{price}'.replace('.', ',')};0,5"
        for (start, end), price in zip(hours(begin, len(prices)), prices, strict=True)
    ]
    return f"Datum von;Datum bis;{';'.join(TWO_AREAS)}\n" + "\n".join(rows)


def by_quarters(prices: list[float], begin: datetime) -> str:
    """A row each quarter of an hour, in UTC."""
    rows = [
        f"{start.astimezone(UTC) + k * timedelta(minutes=15):%Y-%m-%dT%H:%MZ},{price}"
        for (start, _), price in zip(hours(begin, len(prices)), prices, strict=True)
        for k in range(4)
    ]
    return "timestamp,price EUR/MWh\n" + "\n".join(rows)


def in_two_columns(prices: list[float], begin: datetime) -> str:
    """A day and the hour of it, with the zone in brackets where clocks show an hour twice; by the
    kWh."""
    rows = [
        f"{start:%d.%m.%Y};{start:%H} - {end:%H} ({start:%Z});{price / 1000:.6f}".replace(
            ".", ","
        ).replace(",", ".", 2)
        for (start, end), price in zip(hours(begin, len(prices)), prices, strict=True)
    ]
    return "Tag;Stunde;Preis €/kWh\n" + "\n".join(rows)


FILES = [
    (transparency, {}),
    (market_data, {"columns": {"price": TWO_AREAS[0]}}),
    (by_quarters, {}),
    (in_two_columns, {"columns": {"time": "Tag+Stunde"}}),
]


def days(day: str) -> tuple[list[float], datetime]:
    """Prices of that day and the one before and after, some of them below 0."""
    begin = datetime.fromisoformat(day).replace(tzinfo=BERLIN) - timedelta(days=1)
    end = datetime.fromisoformat(day).replace(tzinfo=BERLIN) + timedelta(days=2)
    count = round((end.astimezone(UTC) - begin.astimezone(UTC)) / HOUR)
    return [round(90 - 120 * (k % 24 == 13) + k / 8, 2) for k in range(count)], begin


@pytest.mark.parametrize("day", ["2026-06-10", "2026-03-29", "2026-10-25"])
@pytest.mark.parametrize(("written", "said"), FILES)
def test_prices_of_a_day_are_those_of_its_hours(
    day: str, written: Any, said: Any, tmp_path: Path
) -> None:
    """Whatever the file looks like, and whether the day has 23, 24 or 25 hours."""
    prices, begin = days(day)
    file = tmp_path / "prices.csv"
    file.write_text(written(prices, begin), encoding="utf-8-sig")
    start, steps = steps_of_day(day, "Europe/Berlin", 900)
    found = tariff_of(
        file, start=start, steps=steps, interval_seconds=900, time_zone="Europe/Berlin", **said
    )
    before = round((start.astimezone(UTC) - begin.astimezone(UTC)) / HOUR)
    assert steps == {"2026-06-10": 96, "2026-03-29": 92, "2026-10-25": 100}[day]
    wanted = np.repeat(prices[before : before + steps // 4], 4) / 1000 / 4
    np.testing.assert_allclose(found.price, wanted, rtol=1e-12)
    assert any("in 4 of" in note and "below 0" in note for note in found.notes)


@pytest.mark.parametrize(
    ("day", "seconds", "says"),
    [
        ("9999-12-31", 900, "a day such as 2026-10-25 is needed, not '9999-12-31'"),
        ("0001-01-01", 900, "a day such as 2026-10-25 is needed, not '0001-01-01'"),
        ("2026-10-25", 7000, "steps of 7000 seconds do not divide that day"),
    ],
)
def test_days_that_cannot_be_divided_are_refused(day: str, seconds: int, says: str) -> None:
    with pytest.raises(TableError, match=says):
        steps_of_day(day, "Europe/Berlin", seconds)


def test_a_longer_step_has_the_mean_by_time() -> None:
    """Of hours and, from noon on, quarters of hours, in steps of 90 minutes."""
    first = datetime(2026, 6, 1, 10, tzinfo=UTC)
    times = [first, first + HOUR, *(first + 2 * HOUR + k * timedelta(minutes=15) for k in range(8))]
    prices = np.array([10.0, 20, 1, 2, 3, 4, 5, 6, 7, 8])
    table = {"time": times, "price": prices}
    found = tariff_of(table, start=first, steps=2, interval_seconds=5400, per="kWh")
    np.testing.assert_allclose(
        found.price, [1.5 * (10 + 20 / 2) / 1.5, 1.5 * (20 / 2 + (1 + 2 + 3 + 4) / 4) / 1.5]
    )


def test_a_price_below_0_is_one_that_a_problem_takes() -> None:
    """A load is paid for what it draws then, and draws more."""
    example = DrEnsemble.example()["problem"]
    low = [-one for one in example["price"]]
    assert DrEnsemble.model_validate({**example, "dataset": "dst_x", "price": low}).price == tuple(
        low
    )


TABLE = {
    "Zeit": ["2026-06-01 00:00", "2026-06-01 01:00", "2026-06-01 02:00"],
    "Preis [EUR/MWh]": [1.0, 2.0, 3.0],
}
ASKED = {
    "start": "2026-06-01T00:00",
    "steps": 3,
    "interval_seconds": 3600,
    "time_zone": "Europe/Berlin",
}


@pytest.mark.parametrize(
    ("changes", "asked", "says"),
    [
        (
            {},
            {"steps": 4},
            "no price of the step from 2026-06-01 03:00 on; the file has 2026-06-01 00:00 to",
        ),
        (
            {},
            {"start": "2026-05-31T23:30", "steps": 2},
            "no price of a part of the step from 2026-05-31 23:30 on",
        ),
        ({}, {"time_zone": None}, "the start has no time zone: say that of the market"),
        ({}, {"time_zone": "Berlin"}, "there is no time zone 'Berlin'; one is Europe/Berlin"),
        ({}, {"per": "GWh"}, "a price is per kWh or per MWh, not per GWh"),
        (
            {"Preis [EUR/MWh]": None, "Preis": [1.0, 2.0, 3.0]},
            {},
            "'Preis', does not say whether they are per kWh or",
        ),
        (
            {"Preis B [EUR/MWh]": [1.0, 2.0, 3.0]},
            {},
            "several columns are named like a price, Preis [EUR/MWh], Pre",
        ),
        (
            {"Preis [EUR/MWh]": None},
            {"per": "MWh"},
            "no column price; columns are: Zeit; say --columns price=",
        ),
        (
            {"Preis [EUR/MWh]": [1.0, np.nan, 3.0]},
            {},
            "row 1, column Preis [EUR/MWh] (price): a value is missing",
        ),
        (
            {"Zeit": ["2026-06-01 00:00"] * 3},
            {},
            "row 1, column Zeit (time): there is a price of this time already",
        ),
        (
            {"Zeit": ["2026-06-01 00:00", "2026-06-01 03:00", "2026-06-01 04:00"]},
            {},
            "no price of the step from 2026-",
        ),
        (
            {"Zeit": ["01/06/2026", "02/06/2026", "03/06/2026"]},
            {},
            "is the day first here, or the month?",
        ),
        ({"Zeit": ["1", "2", "3"]}, {}, "a time such as 2026-11-21"),
    ],
)
def test_what_is_no_tariff_is_refused_in_a_sentence(changes: Any, asked: Any, says: str) -> None:
    table = {name: values for name, values in {**TABLE, **changes}.items() if values is not None}
    with pytest.raises(TableError) as refused:
        tariff_of(table, **{**ASKED, **asked})
    assert says in str(refused.value)


def test_a_job_gets_its_prices_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into the TOML of `init`, with its comments, or into JSON; the note on negative prices goes to
    stderr."""
    file, job = tmp_path / "prices.csv", tmp_path / "job.toml"
    prices, begin = days("2026-10-25")
    file.write_text(transparency(prices, begin))
    job.write_text(
        'name = "n"\n[problem]\nkind = "dr_ensemble"\ndataset = "meters"\ndiscomfort_weight = 0.3\n'
    )
    command = [
        "convert",
        "prices",
        str(file),
        "--interval-seconds",
        "3600",
        "--time-zone",
        "Europe/Berlin",
    ]
    day = ["--day", "2026-10-25", "--job", str(job)]
    assert cli.run([*command, *day, "--out", str(tmp_path / "priced.toml")]) == 0
    said = capsys.readouterr().err
    assert (
        "prices.csv: prices of Day-ahead Price [EUR/MWh] from 2026-10-25 00:00 to 2026-10-26 "
        "00:00, 25 steps" in said
    )
    assert "in 1 of 25 steps the price is below 0" in said
    made = (tmp_path / "priced.toml").read_text()
    assert "made up" not in made
    assert "# limits: " in made
    assert cli.run([*command, *day]) == 0
    priced = json.loads(capsys.readouterr().out)
    assert tomllib.loads(made)["problem"]["price"] == priced["problem"]["price"]
    assert len(priced["problem"]["price"]) == 25
    assert priced["problem"]["discomfort_weight"] == 0.3
    assert cli.run(command) == 2
    assert cli.run([*command, "--day", "2027-01-01"]) == 1
    assert "no price of the step from 2027-01-01 00:00 on" in capsys.readouterr().err


def test_a_quarter_that_is_missing_is_not_made_up() -> None:
    first = datetime(2026, 6, 1, tzinfo=UTC)
    times = [first + k * timedelta(minutes=15) for k in range(12) if k != 5]
    with pytest.raises(TableError, match="no price of the step from 2026-06-01 01:15 on"):
        tariff_of(
            {"time": times, "price": [1.0] * 11},
            start=first,
            steps=12,
            interval_seconds=900,
            per="kWh",
        )
