"""Meters that count energy, from a file of (meter, time, kWh) to an answer, with the keyboard alone
and no JSON."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from discreet_client import readers
from tests.conftest import Installation
from tests.dashboard.chromium import problems_of, tab
from tests.dashboard.ways import Hands, register

METERS, PERIODS = 40, 96
KW = (0.4, 1.2, 4.0)
"""What a flat draws at each of its levels; in a quarter of an hour a fourth of that, as kWh."""
LACKING = "lacking"


def energy(folder: Path) -> tuple[Path, Path]:
    """A winter's day of 40 flats by the quarter of an hour, as a German vendor writes it; and the
    same without one of the values."""
    random = np.random.RandomState(8)
    level = random.randint(0, 3, METERS)
    rows = []
    for period in range(PERIODS):
        time = datetime(2026, 2, 10) + timedelta(minutes=15 * period)
        for meter in range(METERS):
            kwh = f"{KW[level[meter]] / 4:.3f}".replace(".", ",")
            rows.append([f"DE00{meter:03}A", f"{time:%d.%m.%Y %H:%M}", kwh])
        level = np.clip(level + random.choice([-1, 0, 0, 1], METERS), 0, 2)
    files = folder / "verbrauch.csv", folder / f"{LACKING}.csv"
    for file in files:
        with file.open("w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, delimiter=";")
            writer.writerow(["Zählpunkt", "Zeitstempel", "Verbrauch (kWh)"])
            writer.writerows(
                [*row[:2], "" if file.stem == LACKING and place == 500 else row[2]]
                for place, row in enumerate(rows)
            )
    return files


@pytest.mark.long
def test_from_energy_to_an_answer(
    service: Installation, browser: Browser, axe: str, tmp_path: Path
) -> None:
    """The page asks whether values are power or energy, shows what is sent of each cell, says
    beforehand that the server would refuse gaps, and comes to the dataset of the client; the load
    that is answered is the truth's."""
    key = service.owner_of("flats in kWh")
    file, lacking = energy(tmp_path)
    with tab(browser, service.url) as seen:
        page, hands = seen.page, Hands(seen.page)
        seen.login(key)
        seen.go("/")
        register(hands, "dr_ensemble", "flats")
        for name, value in (
            ("States", "3"),
            ("Participants", str(METERS)),
            ("Steps", str(PERIODS)),
            ("Edges", "0; 0,8; 1,6; 6,4"),
        ):
            hands.fill(name, value)
        hands.choose("Meters: how", "Given")
        assert "such as 2026-01-15T00:00:00+01:00" in page.locator("main").inner_text()
        hands.fill("Start", "2026-02-10T00:00:00+01:00")
        hands.fill("Interval seconds", "900")
        hands.follow("Next: the content")
        hands.take("CSV, Excel, Parquet", lacking)
        hands.reach("Send it, and see")
        hands.press("Enter")
        page.locator("#outcome").wait_for()
        hands.fill("Time zone of times", "Europe/Berlin")
        hands.choose("Values are", "energy")
        # Not what was said before the time zone was set.
        page.locator("#outcome", has_not_text="without a time zone").wait_for()
        page.locator("#outcome", has_text="to set or to mend").wait_for()
        page.get_by_text("Send another file").press("Enter")
        page.get_by_label("CSV, Excel, Parquet").set_input_files(file)
        page.get_by_role("button", name="Send it, and see").press("Enter")
        # Whose local times these are is asked at once.
        page.locator("#outcome", has_text="a time without a time zone").wait_for()
        page.get_by_label("Time zone of times").fill("Europe/Berlin")
        page.get_by_label("Values are").select_option("energy, in kWh")
        page.locator("#outcome-status", has_text="3,840 rows: all of them can be read.").wait_for()
        assert not problems_of(seen, axe)
        hands.follow("Register")
        dataset = page.url.partition("?")[0].rpartition("/")[2]
        hands.follow("New job on it")
        page.locator("#panel-form .field").first.wait_for()
        hands.pick("An epsilon of my own", "Loose")
        page.locator("#quote-status", has_text="It would cost epsilon 4").wait_for()
        hands.follow("Submit for")
        page.get_by_role("heading", name="Result", exact=True).wait_for()
        assert (hands.json, hands.refusals) == (0, 0)
        job = page.url.rpartition("/")[2]

    public: dict[str, Any] = {"unit": "participant", "participants": METERS, "states": 3}
    public |= {"edges": [0, 0.8, 1.6, 6.4], "steps": PERIODS}
    public["meters"] = {"start": "2026-02-10T00:00", "interval_seconds": 900}
    public["reader"] = {"time_zone": "Europe/Berlin"}
    columns = {"participant": "Zählpunkt", "time": "Zeitstempel", "kwh": "Verbrauch (kWh)"}
    reading = readers.read("dr_ensemble", file, public, columns)
    kw = [
        float(line.rpartition(";")[2].replace(",", ".")) * 4
        for line in file.read_text().splitlines()[1:]
    ]
    assert np.allclose(reading.columns["kw"], kw)
    with service.client(key) as owner:
        cap = owner.budget(owner.dataset(dataset)["account"])["cap"]
        same = owner.register("dr_ensemble", reading.public, reading.columns, cap=cap)
        assert same["id"] == dataset
        answer = owner.answer(job)
    lower, upper = answer.interval("default_power")
    assert (lower <= np.mean(kw)).mean() > 0.9
    assert (upper >= np.mean(kw)).mean() > 0.9
