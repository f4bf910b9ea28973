"""Files as people have them, from the page of a new dataset to what the reader of the client makes
of the same file.

The page reads them in the owner's browser, in a language of its own: here both must come to the
same content, which a server knows by its keyed fingerprint, and so to the same dataset.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from discreet_client import feature_rules, readers
from discreet_client.tables import TableError
from tests.clients.test_exports_of_meters import export
from tests.clients.test_exports_of_meters import public as told_of_export
from tests.conftest import Installation
from tests.dashboard.chromium import Watched, problems_of, tab
from tests.dashboard.overheard import overheard

EXAMPLES = Path(__file__).parents[2] / "examples"
RIGHT = "every cell is of the right form"


def written(file: Path, header: list[str], rows: Any, separator: str = ",") -> Path:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, delimiter=separator).writerows([header, *rows])
    return file


def second_step(seen: Watched, kind: str, name: str, public: dict[str, Any], file: Path) -> Page:
    """The page of the content with this file chosen. `public` is typed as JSON: what it can say is
    tested elsewhere."""
    page = seen.page
    seen.go(f"/datasets/new?kind={kind}")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_text("As JSON", exact=True).click()
    page.locator("#public").fill(json.dumps(public))
    seen.other_people()
    page.get_by_role("button", name="Next: the content").press("Enter")
    page.get_by_label("Parquet, CSV or JSON").set_input_files(file)
    page.get_by_text("Say which of its columns is which.").wait_for()
    return page


def registered(page: Page) -> str:
    """The dataset that the button makes."""
    page.get_by_role("button", name="Upload and register").press("Enter")
    page.get_by_role("link", name="New job on it").wait_for()
    return page.url.partition("?")[0].rpartition("/")[2]


def of_client(
    service: Installation, key: str, kind: str, reading: readers.Reading, dataset: str
) -> str:
    """The dataset of what the client's reader made; on the same budget where the content is the
    same."""
    with service.client(key) as owner:
        cap = owner.budget(owner.dataset(dataset)["account"])["cap"]
        return str(
            owner.register(kind, reading.public, reading.columns, cap=cap, name="the same")["id"]
        )


# Visits -------------------------------------------------------------------------------------------

RANGES = {
    "unit": "trajectory",
    "horizon": 4,
    "reward_bound": 1,
    "features": 1,
    "ranges": [{"name": "severity", "low": 0, "high": 10}],
}


def test_visits_of_patients_become_a_dataset_on_the_page(
    service: Installation, browser: Browser, axe: str, tmp_path: Path
) -> None:
    """The trial of the README: a raw table of visits, columns of other names, the coin that chose
    the treatment."""
    key = service.owner_of("visits of a trial")
    subprocess.run(
        [sys.executable, str(EXAMPLES / "own_files.py"), "patients"], cwd=tmp_path, check=True
    )
    file = tmp_path / "visits.csv"
    with overheard(service.url) as sent, tab(browser, sent.origin) as seen:
        seen.login(key)
        seen.go("/datasets/new?kind=off_policy_evaluation")
        assert "little will show it" in seen.page.locator("main").inner_text()
        page = seen.page
        page.get_by_label("Name", exact=True).fill("trial")
        # An example's, and no own file's.
        assert page.get_by_label("States", exact=True).input_value() == ""
        assert "topology" not in page.locator("#public").input_value()
        page.get_by_label("Horizon", exact=True).fill("4")
        page.get_by_label("Ranges: how").select_option(index=1)
        page.get_by_label("Ranges: one row per line").fill("name,low,high\nseverity,0,10")
        seen.other_people()
        page.get_by_role("button", name="Next: the content").press("Enter")
        page.get_by_label("Parquet, CSV or JSON").set_input_files(file)
        page.get_by_text("Choose the column that holds reward.").wait_for()
        assert (
            page.get_by_label("patient", exact=True).locator("option:checked").inner_text() == "pid"
        )
        assert (
            page.get_by_label("time", exact=True).locator("option:checked").inner_text() == "date"
        )
        page.get_by_label("reward", exact=True).select_option("well")
        page.get_by_text(
            "what is evaluated is the policy that was followed.", exact=False
        ).first.wait_for()
        page.get_by_label("Treatments and their known").fill("treat 0.5 1")
        page.get_by_text("sum to 1, not 0.5").wait_for()
        page.get_by_label("Treatments and their known").fill("treat 1/2 1\nwait 0,5 0")
        page.get_by_text(f"6,000 rows, and {RIGHT}").wait_for()
        assert (
            "What will be sent is 6,000 rows of trajectory, step, x_0, x_next_0, reward"
            in page.content()
        )
        assert not problems_of(seen, axe)
        dataset = registered(page)
    assert b"trajectory,step,x_0" in sent  # the content went this way
    for kept in (b"pid", b"patient 1", b"2026-03"):
        assert kept not in sent
    reader = {"behaviour": {"treat": 0.5, "wait": 0.5}, "target": {"treat": 1, "wait": 0}}
    columns = {"patient": "pid", "time": "date", "reward": "well"}
    reading = readers.read("off_policy_evaluation", file, {**RANGES, "reader": reader}, columns)
    assert of_client(service, key, "off_policy_evaluation", reading, dataset) == dataset


def clinic(folder: Path) -> Path:
    """Visits by the week as a clinic has them: visits and values that are missing, a name in two
    writings, an end that is said, one policy known of every visit, values beyond the ranges,
    decimal commas."""
    random = np.random.RandomState(11)
    rows = []
    for patient in range(60):
        for visit in range(5):
            if visit and random.rand() < 0.08:
                continue
            name = f"Zoe\u0308 {patient}" if visit % 2 else f" Zo\u00eb {patient} "
            lacks = visit > 0 and random.rand() < 0.1
            pressure = "" if lacks else f"{random.uniform(60, 200):.1f}".replace(".", ",")
            day = f"{1 + 7 * visit:02d}.{1 + 2 * (patient % 2):02d}.2026 09:{patient:02d}"
            action = random.choice(["A", "B 12"])
            ended = visit == 4 and patient % 3 == 0
            target = f"{random.uniform(0, 1):.3f}".replace(".", ",")
            rows.append(
                [
                    name,
                    day,
                    random.randint(20, 90),
                    pressure,
                    action,
                    target,
                    random.randint(2),
                    ["no", "yes"][ended],
                ]
            )
    random.shuffle(rows)
    header = ["Name", "Tag", "age", "pressure", "treatment", "target", "outcome", "ended"]
    return written(folder / "clinic.csv", header, rows, ";")


def test_rules_of_visits_are_those_of_the_client(
    service: Installation, browser: Browser, tmp_path: Path
) -> None:
    """Gaps, values that are missing, ends, names and dates: refusals name the line, and what is
    left out says of how many; in the end both have made the same of the file."""
    key = service.owner_of("visits of a clinic")
    ranges = [{"name": "age", "low": 20, "high": 80}, {"name": "pressure", "low": 80, "high": 180}]
    public = {
        "unit": "trajectory",
        "horizon": 5,
        "reward_bound": 1,
        "features": 2,
        "ranges": ranges,
    }
    reader = {
        "behaviour": {"A": 0.4, "B 12": 0.6},
        "interval": 7,
        "gaps": "end",
        "missing": "carry",
    }
    columns = {
        "patient": "Name",
        "time": "Tag",
        "action": "treatment",
        "reward": "outcome",
        "terminal": "ended",
    }
    file = clinic(tmp_path)
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = second_step(seen, "off_policy_evaluation", "clinic", public, file)
        for name, own in columns.items():
            page.get_by_label(name, exact=False).and_(
                page.locator("select[id^=column-]")
            ).first.select_option(own)
        page.get_by_text("pressure: a cell in line").wait_for()
        page.get_by_label("A missing value").select_option("leave_out")
        page.get_by_text("is a treatment without probabilities").wait_for(state="detached")
        page.get_by_text(
            "The probability of the action under the policy that was followed is needed"
        ).wait_for()
        page.get_by_label("Treatments and their known").fill("A 0.4\nB 12 0.6")
        page.get_by_text("of 60 patients with a value that is missing").wait_for()
        page.get_by_label("Time between visits").fill("7")
        page.get_by_text("is more than an interval after this patient’s visit before").wait_for()
        page.get_by_label("A missing visit").select_option("end")
        page.get_by_text(RIGHT).wait_for()
        said = page.locator("[role=status].notice").inner_text()
        assert "Left out: " in said
        for missing in ("leave_out", "carry"):
            page.get_by_label("A missing value").select_option(missing)
            page.locator("[data-checked=right]").wait_for()
            reading = readers.read(
                "off_policy_evaluation",
                file,
                {**public, "reader": {**reader, "missing": missing}},
                columns,
            )
            page.get_by_text(
                f"What will be sent is {reading.columns['reward'].size} rows of"
            ).wait_for()
        dataset = registered(page)
    assert of_client(service, key, "off_policy_evaluation", reading, dataset) == dataset


def hospital(folder: Path) -> Path:
    """A long table as a hospital has it: features in their units and as words, outcomes as words,
    values that are missing."""
    random = np.random.RandomState(5)
    rows = []
    for patient in range(80):
        for visit in range(3):
            pressure = (
                ""
                if visit and random.rand() < 0.1
                else f"{random.uniform(100, 190):.1f}".replace(".", ",")
            )
            seen = f"{1 + 9 * visit:02d}/03/2026"
            action = random.choice(["drug A", "none"])
            outcome = random.choice(["improved", "worse"])
            sick = random.choice(["yes", "no"])
            rows.append(
                [f"P{patient}", seen, random.randint(30, 95), pressure, sick, action, outcome]
            )
    header = [
        "Patient ID",
        "Visit date",
        "Age",
        "Blood pressure (mmHg)",
        "Diabetes",
        "Treatment",
        "Outcome",
    ]
    return written(folder / "hospital.csv", header, rows, ";")


RULES = [  # of which each is read alike here and there, or refused alike
    'Age >= 65 and "Blood pressure (mmHg)" > 140 -> drug A, else none',
    "not(Age<65 or not Diabetes = yes)and Age!=70→drug A;else none",
    'Age ≥ .5 -> none, Age <= 80.25 -> drug A, (Age = 7 or Diabetes != "no") -> none, else drug A',
    "else drug A",
    'Größe-2 > -1.50 and "and so" = "not improved" -> 7.0, else "a, b"',
    "Age >= 65,5 -> drug A, else none",
    "Age => 65 -> drug A, else none",
    "Age >= old -> drug A, else none",
    "(Age >= 65 -> drug A, else none",
    "Age >= 65 -> drug A",
    "Age >= 65 & Diabetes = yes -> drug A, else none",
    "Age = 1 or Age = old -> drug A, else none",
    f"{'(' * 30}Age = 1{')' * 30} -> drug A, else none",
    f"{'long ' * 50} > 1 -> drug A, else none",
    'Age >= 65 -> "drug\u202e A", else none',
    '"Age\x07" >= 65 -> drug A, else none',
]


def test_a_rule_on_features_is_that_of_the_client(
    service: Installation, browser: Browser, axe: str, tmp_path: Path
) -> None:
    """The policy to be evaluated is typed as a rule, outcomes are words: the same dataset, and
    nothing of the features is sent but what the rule makes of them."""
    key = service.owner_of("visits of a hospital")
    public = {"unit": "trajectory", "horizon": 3, "reward_bound": 1}
    columns = {
        "patient": "Patient ID",
        "time": "Visit date",
        "action": "Treatment",
        "reward": "Outcome",
    }
    reader = {
        "behaviour": {"drug A": 0.25, "none": 0.75},
        "target": RULES[0],
        "rewards": {"improved": 1, "worse": 0.5},
        "dates": "day_first",
        "missing": "carry",
    }
    file = hospital(tmp_path)
    with overheard(service.url) as sent, tab(browser, sent.origin) as seen:
        seen.login(key)
        page = second_step(seen, "off_policy_evaluation", "hospital", public, file)
        page.get_by_label("A row of it is").select_option(label="a visit, and when it was")
        for name, own in columns.items():
            page.get_by_label(name, exact=False).and_(
                page.locator("select[id^=column-]")
            ).first.select_option(own)
        page.get_by_label("In your file 01/02/2026 is").select_option("day_first")
        page.get_by_label("Values of outcomes").fill("improved 1\nworse much")
        page.get_by_text("such as improved 1, not “worse much”").wait_for()
        page.get_by_label("Values of outcomes").fill("improved 1")
        page.get_by_text("is an outcome without a value: list it above").first.wait_for()
        page.get_by_label("Values of outcomes").fill("improved 1\nworse 0,5")
        rule = page.get_by_label("the policy to be evaluated as a rule on features")
        rule.fill("Age >= 65 and pressure > 140 -> drug A, else none")
        page.get_by_text(
            "your file has no column pressure: it has Patient ID, Visit date, Age"
        ).wait_for()
        rule.fill('Outcome = "improved" and Age >= 65')
        page.get_by_text("The rule, at the end: a condition is followed by ->").wait_for()
        rule.fill("Outcome = improved -> drug A, else none")
        page.get_by_text(
            "known before it is decided, and Outcome, which is the reward, is"
        ).wait_for()
        rule.fill("Age >= 65 -> drug B, else none")
        page.get_by_label("Treatments and their known").fill("drug A 0.25\nnone 0.75")
        page.get_by_text("The rule takes “drug B”, which was never done").wait_for()
        rule.fill(RULES[0])
        page.get_by_text("has no Blood pressure (mmHg): choose above").wait_for()
        page.get_by_label("A missing value").select_option("carry")
        page.get_by_text(f"240 rows, and {RIGHT}").wait_for()
        told = page.get_by_text("What will be sent is 240 rows of").inner_text()
        assert (
            "of trajectory, step, state, next_state, reward, terminal, behaviour, target; your own"
            in told
        )
        assert not problems_of(seen, axe)
        # The language itself, in both of its readers.
        read = (
            "async (text) => { const { Rule } = await import('/static/feature_rules.js'); "
            "const "
            "name = (one) => one;"
        )
        read += (
            " try { return new Rule(text, name).text } catch (error) { return `refused, "
            "${error.message}` } }"
        )
        for text in RULES:
            assert plainly(page.evaluate(read, text)) == plainly(of_the_client(text))
        dataset = registered(page)
    reading = readers.read("off_policy_evaluation", file, {**public, "reader": reader}, columns)
    assert (reading.public["target_policy"], reading.public["least_reward"]) == (RULES[0], 0)
    assert 0 < reading.columns["target"].mean() < 1
    assert b"trajectory,step,state" in sent
    for kept in (b"P-00", b"Patient ID", b"Visit date", b"improved"):
        assert kept not in sent
    assert of_client(service, key, "off_policy_evaluation", reading, dataset) == dataset


def of_the_client(text: str) -> str:
    """The rule as the client understands it, or why it is refused."""
    try:
        return str(feature_rules.parse(text, "rule"))
    except TableError as error:
        return f"refused, {error}"


def plainly(said: str) -> str:
    """A rule; of a refusal what is no matter of quotes, nor of the number of a letter."""
    return (
        re.sub(r"^refused, (rule[,:] )?|, letter \d+|[“”\"']", "", said)
        if said.startswith("refused, ")
        else said
    )


def test_patients_who_lack_any_value_are_left_out_alike(
    service: Installation, browser: Browser, tmp_path: Path
) -> None:
    """A reward, a probability, a date: whoever lacks one goes with all visits, here and in the
    client; and the last line of a spreadsheet is no patient."""
    key = service.owner_of("visits with holes")
    public = {"unit": "trajectory", "horizon": 2, "reward_bound": 1, "off_policy": True}
    header = ["pid", "day", "well", "followed", "rule"]
    rows = [
        [f"p{patient}", f"{1 + visit:02d}.03.2026", (patient + visit) % 2, "0,5", "1,0"]
        for patient in range(9)
        for visit in range(2)
    ]
    rows[2][2] = rows[5][1] = rows[9][4] = rows[9][3] = ""
    columns = {
        "patient": "pid",
        "time": "day",
        "reward": "well",
        "probability": "followed",
        "target": "rule",
    }
    with tab(browser, service.url) as seen:
        seen.login(key)
        total = written(tmp_path / "total.csv", header, [*rows, ["Summe", "", 9, "", ""]], ";")
        page = second_step(seen, "off_policy_evaluation", "holes", public, total)
        for name, own in columns.items():
            page.get_by_label(name).and_(page.locator("select[id^=column-]")).first.select_option(
                own
            )
        page.get_by_text("“Summe” in line 20 is named like a total, not like a patient").wait_for()
        file = written(tmp_path / "visits.csv", header, rows, ";")
        page.get_by_label("Parquet, CSV or JSON").set_input_files(file)
        page.get_by_text("like a total").wait_for(
            state="detached"
        )  # of the mended file nothing is to be said again
        page.get_by_label("A missing value").select_option("leave_out")
        page.get_by_text("3 of 9 patients with a value that is missing").wait_for()
        page.get_by_text(f"18 rows, and {RIGHT}").wait_for()
        dataset = registered(page)
    reader = {"missing": "leave_out"}
    reading = readers.read("off_policy_evaluation", file, {**public, "reader": reader}, columns)
    assert reading.columns["reward"].size == 12
    assert of_client(service, key, "off_policy_evaluation", reading, dataset) == dataset
    with pytest.raises(
        readers.TableError, match=r"line 20, column pid \(patient\): this is named like a total"
    ):
        readers.read("off_policy_evaluation", total, {**public, "reader": reader}, columns)


def test_columns_that_no_name_tells_are_asked_for(
    service: Installation, browser: Browser, tmp_path: Path
) -> None:
    """Of a German trial only the arm is guessed: what lacks is said, and the file is not called
    unreadable."""
    key = service.owner_of("a German trial")
    public = {"unit": "trajectory", "horizon": 2, "reward_bound": 1}
    rows = [["P1", "Standard", "01.03.2026", "ja"], ["P1", "Standard", "29.03.2026", "nein"]]
    with tab(browser, service.url) as seen:
        seen.login(key)
        file = written(tmp_path / "studie.csv", ["Kürzel", "Arm", "Stichtag", "genesen"], rows, ";")
        page = second_step(seen, "off_policy_evaluation", "studie", public, file)
        page.get_by_label("A row of it is").select_option(label="a visit, and when it was")
        page.get_by_text("2 rows; the server would refuse this file").wait_for()
        for needed in ("patient", "time", "reward"):
            assert page.get_by_text(f"Choose the column that holds {needed}.").is_visible()


def test_a_german_trial_is_read_as_visits_and_one_visit_each_needs_no_time(
    service: Installation, browser: Browser, tmp_path: Path
) -> None:
    """Probabilities are fractions; a line that is none is said once, and marks no cell."""
    key = service.owner_of("a German trial of fractions")
    public = {"unit": "trajectory", "horizon": 1, "reward_bound": 1, "least_reward": 0}
    rows = [[f"P{one}", one % 3 > 0, 60 + one, "ja" if one % 2 else "nein"] for one in range(12)]
    rows = [[who, "Mittel" if taken else "ohne", *rest] for who, taken, *rest in rows]
    header = ["Patienten-Nr.", "Therapie", "Alter", "Ergebnis"]
    rule = "Alter >= 65 -> Mittel, else ohne"
    with tab(browser, service.url) as seen:
        seen.login(key)
        file = written(tmp_path / "studie.csv", header, rows, ";")
        page = second_step(seen, "off_policy_evaluation", "studie", public, file)
        assert page.locator("#layout option:checked").inner_text() == "a visit, and when it was"
        page.get_by_label("Treatments and their known").fill("Mittel zwei\nohne 1/3")
        page.get_by_text("such as treat 2/3 1, not “Mittel zwei”").wait_for()
        assert page.get_by_text("is a treatment without probabilities").count() == 0
        page.get_by_label("Treatments and their known").fill("Mittel 2/3\nohne 1/3")
        page.get_by_label("the policy to be evaluated as a rule on features").fill(rule)
        page.get_by_text(f"12 rows, and {RIGHT}").wait_for()
        dataset = registered(page)
    behaviour = {"Mittel": "2/3", "ohne": "1/3"}
    columns = dict(zip(("patient", "action", "reward"), (header[0], *header[1::2]), strict=True))
    reading = readers.read(
        "off_policy_evaluation",
        file,
        {**public, "reader": {"behaviour": behaviour, "target": rule}},
        columns,
    )
    assert reading.public["max_ratio"] == 3
    assert of_client(service, key, "off_policy_evaluation", reading, dataset) == dataset


@pytest.mark.parametrize(
    ("encoding", "says"),
    [("cp1252", "written in Windows-1252"), ("utf-16", "written in UTF-16"), ("utf-8-sig", "")],
)
def test_files_of_excel_are_read_however_they_are_written(
    service: Installation, browser: Browser, tmp_path: Path, encoding: str, says: str
) -> None:
    """Umlauts in names of columns and people: the content is that of the same file in UTF-8, and it
    is said."""
    key = service.owner_of(f"visits in {encoding}")
    public = {"unit": "trajectory", "horizon": 2, "reward_bound": 1, "off_policy": True}
    header = ["pid", "day", "Genesen für Wochen", "followed", "rule"]
    rows = [
        [f"Jürgen {patient}", f"{1 + visit:02d}.03.2026", patient % 2, "0,5", "1,0"]
        for patient in range(9)
        for visit in (0, 1)
    ]
    columns = dict(zip(("patient", "time", "reward", "probability", "target"), header, strict=True))
    plain = written(tmp_path / "plain.csv", header, rows, ";")
    file = tmp_path / "visits.csv"
    file.write_bytes(plain.read_text(encoding="utf-8").encode(encoding))
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = second_step(seen, "off_policy_evaluation", "umlauts", public, file)
        for name, own in columns.items():
            page.get_by_label(name).and_(page.locator("select[id^=column-]")).first.select_option(
                own
            )
        page.get_by_text(f"18 rows, and {RIGHT}").wait_for()
        told = page.locator(".written")
        assert (told.count() == 1 and says in told.inner_text()) if says else told.count() == 0
        dataset = registered(page)
    reading = readers.read("off_policy_evaluation", plain, public, columns)
    assert of_client(service, key, "off_policy_evaluation", reading, dataset) == dataset


def test_what_is_no_text_is_said(service: Installation, browser: Browser, tmp_path: Path) -> None:
    key = service.owner_of("a workbook with another ending")
    file = tmp_path / "visits.csv"
    file.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 20)
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = seen.page
        seen.go("/datasets/new?kind=off_policy_evaluation")
        page.get_by_label("Name", exact=True).fill("workbook")
        page.get_by_text("As JSON", exact=True).click()
        page.locator("#public").fill(
            json.dumps({"unit": "trajectory", "horizon": 2, "reward_bound": 1})
        )
        seen.other_people()
        page.get_by_role("button", name="Next: the content").press("Enter")
        page.get_by_label("Parquet, CSV or JSON").set_input_files(file)
        expect(
            page.get_by_text("This file cannot be read as CSV: it is not a text")
        ).to_be_visible()
        expect(page.get_by_text(RIGHT)).to_have_count(0)


# Trips --------------------------------------------------------------------------------------------


def test_trips_of_working_days_are_those_of_the_client(
    service: Installation, browser: Browser, tmp_path: Path
) -> None:
    """Monday to Friday from seven to nine; a line that Excel left below the table is none."""
    key = service.owner_of("mornings of an office")
    public = {"unit": "request", "zones": 2, "periods": 8, "period_minutes": 120}
    rows = [[f"{day:02d}.11.2026 07:30", "A", "B"] for day in range(2, 16)]
    header = ["leaves", "origin", "destination"]
    file = written(tmp_path / "mornings.csv", header, [*rows, ["", "", ""]], ";")
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = second_step(seen, "routing", "mornings", public, file)
        page.get_by_label("period").and_(page.locator("select[id^=column-]")).first.select_option(
            "leaves"
        )
        page.get_by_label("Your zones by name").fill("A\nB")
        page.get_by_label("Period 0 begins").fill("2026-11-03T07:00")
        page.get_by_label("The others begin").select_option("weekday")
        page.get_by_text("is in none of the periods 0 to 7").first.wait_for()
        page.get_by_label("Leave out rows of other zones and other times").press("Space")
        page.locator("[data-checked=right]").wait_for()
        dataset = registered(page)
    rules = {
        "start": "2026-11-03T07:00",
        "every": "weekday",
        "time_zone": "Europe/Berlin",
        "outside": "leave_out",
    }
    asked = {**public, "reader": {**rules, "zones": ["A", "B"]}}
    reading = readers.read("routing", file, asked, {"time": "leaves"})
    assert reading.columns["period"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert of_client(service, key, "routing", reading, dataset) == dataset


def test_a_day_of_a_source_has_german_dates_and_counts_that_are_asked_for(
    service: Installation, browser: Browser, axe: str, tmp_path: Path
) -> None:
    """The block is that of the same records over the API; what may be counts is never taken as one
    trip a row, and records of another day are said once, in the lines of the file."""
    key = service.owner_of("days of a town")
    public = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60}
    header = ["Lfd. Nr.", "Datum", "Startbezirk", "Zielbezirk", "Zahl"]
    rows = [[n, "01.10.2026", 1 + n % 2, 2 - n % 2, 5 + n * n] for n in range(6)]
    body = {"name": "days", "kind": "routing", "by": "day", "public": public}
    with service.client(key) as owner:
        source = owner.sources.create({**body, "cap": {"epsilon": 1, "delta": 0}})["id"]
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = seen.page
        seen.go(f"/sources/{source}")
        page.get_by_label("Day", exact=True).first.fill("2026-10-02")
        file = written(tmp_path / "tag.csv", header, rows, ";")
        page.get_by_label("Parquet, CSV or JSON").set_input_files(file)
        page.get_by_text("Choose the column that holds count.").wait_for()
        page.locator("#column-4").select_option(label="Zahl")
        page.locator("#column-1").select_option("fixed")
        page.get_by_label("period of every row").fill("0")
        page.get_by_text(f"6 rows, and {RIGHT}").wait_for()
        assert not problems_of(seen, axe)
        page.get_by_role("button", name="Upload and register").press("Enter")
        refused = page.locator("[data-upload-text]", has_text="Refused")
        refused.wait_for()
        assert refused.inner_text().count("line 2, column Datum: '2026-10-01' is not of") == 1
        assert "(and 5 more like this, up to line 7, column Datum)" in refused.inner_text()
        page.get_by_label("Day", exact=True).first.fill("2026-10-01")
        page.get_by_role("button", name="Upload and register").press("Enter")
        page.get_by_text("Block 2026-10-01 is registered.").wait_for()
    named = ("origin", "destination", "count")
    records = [dict(zip(named, row[2:], strict=True)) for row in rows]
    with service.client(key) as owner:
        (block,) = owner.sources.get(source)["blocks"] or []
        trips = [{"date": "2026-10-01", "period": 0, **record} for record in records]
        same = owner.sources.add(source, "2026-10-01", {"trips": trips})
    assert (same["dataset"], same["version"]) == (block["dataset"], 1)


# Wide tables of meters ----------------------------------------------------------------------------

HOUSES = ["Haus 1", "Haus 2", "Haus 3"]


def feeder(folder: Path) -> Path:
    """Three meters by the half hour, a column each, beside their sum and the temperature; two cells
    are empty."""
    random = np.random.RandomState(12)
    rows = []
    for period in range(6):
        kw = [f"{one:.2f}".replace(".", ",") for one in random.uniform(0, 6, 3)]
        if period in (2, 4):
            kw[1] = ""
        rows.append([f"15.01.2026 {period // 2:02d}:{30 * (period % 2):02d}", "12,5", *kw, "-3,5"])
    return written(
        folder / "feeder.csv", ["Zeit", "Summe kW", *HOUSES, "Außentemperatur"], rows, ";"
    )


def test_days_and_clocks_in_two_columns(
    service: Installation, browser: Browser, axe: str, tmp_path: Path
) -> None:
    """As loggers and surveys write them: the page proposes the two, whichever the names lead it to,
    and makes of the file what the client makes of `Datum+Uhrzeit`; a row that lacks one of them is
    marked."""
    key = service.owner_of("two columns")
    trips = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 120}
    rows = [
        [f"0{day}.03.2026", f"{hour:02}:{5 * number:02}", 1 + number % 3, 1 + (number + 1) % 3]
        for number, (day, hour) in enumerate([(2, 7), (3, 8), (2, 8), (3, 7), (2, 7)])
    ]
    file = written(tmp_path / "survey.csv", ["date", "time", "origin", "destination"], rows, ";")
    meters = {"unit": "participant", "participants": 2, "states": 2, "edges": [0, 1, 9], "steps": 3}
    meters["meters"] = {"start": "2026-01-15T00:00:00+01:00", "interval_seconds": 3600}
    power = [
        [f"Z{meter}", "15.01.2026", f"{hour}:00:00", f"{0.5 + meter * hour:.1f}".replace(".", ",")]
        for hour in range(3)
        for meter in range(2)
    ]
    header = ["Zähler", "Datum", "Uhrzeit", "Leistung"]
    logger = written(tmp_path / "logger.csv", header, power, ";")
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = second_step(seen, "routing", "survey", trips, file)
        period = page.get_by_label("period", exact=True)
        period.select_option("time")  # which is the clock: the day beside it is found
        clock = page.get_by_label("Its time of day")
        assert period.locator("option:checked").inner_text() == "date"
        assert clock.locator("option:checked").inner_text() == "time"
        page.get_by_label("Period 0 begins").fill("2026-03-02T07:00")
        page.get_by_text(f"5 rows, and {RIGHT}").wait_for()
        assert not problems_of(seen, axe)
        clock.select_option("in the same column")
        page.get_by_text(
            "“02.03.2026” in line 2 is in none of the periods 0 to 1"
        ).wait_for()  # midnight
        clock.select_option("time")
        page.get_by_text(f"5 rows, and {RIGHT}").wait_for()
        dataset = registered(page)
        reader = {"start": "2026-03-02T07:00", "every": "day", "time_zone": "Europe/Berlin"}
        reading = readers.read("routing", file, {**trips, "reader": reader}, {"time": "date+time"})
        assert of_client(service, key, "routing", reading, dataset) == dataset

        page = second_step(seen, "dr_ensemble", "logger", meters, logger)
        for name, own in (("participant", "Zähler"), ("time", "Datum"), ("kw", "Leistung")):
            page.get_by_label(name, exact=True).and_(page.locator("select")).select_option(own)
        assert (
            page.get_by_label("Its time of day").locator("option:checked").inner_text() == "Uhrzeit"
        )
        page.get_by_label("Offset of your clocks from UTC").fill("+01:00")
        page.get_by_text(f"6 rows, and {RIGHT}").wait_for()
        page.get_by_label("Its time of day").select_option("in the same column")
        page.get_by_text("“Datum” says the day and no time: choose the column").wait_for()
        page.get_by_label("Its time of day").select_option("Uhrzeit")
        page.get_by_text(f"6 rows, and {RIGHT}").wait_for()
        assert "stays on this machine" not in page.locator("main").inner_text()
        lacking = written(
            tmp_path / "lacking.csv",
            header,
            [*power[:2], [*power[2][:2], "", "1,0"], *power[3:]],
            ";",
        )
        page.get_by_label("Parquet, CSV or JSON").set_input_files(lacking)
        page.get_by_text("time: a cell in line 4 is empty.").wait_for()
        page.get_by_label("Parquet, CSV or JSON").set_input_files(logger)
        page.get_by_text(f"6 rows, and {RIGHT}").wait_for()
        dataset = registered(page)
    columns = {"participant": "Zähler", "time": "Datum+Uhrzeit", "kw": "Leistung"}
    zoned = {**meters, "reader": {"time_zone": "Etc/GMT-1"}}
    reading = readers.read("dr_ensemble", logger, zoned, columns)
    assert of_client(service, key, "dr_ensemble", reading, dataset) == dataset


def test_a_column_for_each_meter(
    service: Installation, browser: Browser, axe: str, tmp_path: Path
) -> None:
    """A total and the temperature are proposed as no meters; a gap that the server refuses is named
    by the line of the file and the meter's column."""
    key = service.owner_of("a feeder of three")
    meters = {"start": "2026-01-15T00:00:00+01:00", "interval_seconds": 1800}
    public: dict[str, Any] = {
        "unit": "participant",
        "participants": 3,
        "states": 3,
        "edges": [0, 2, 4, 6],
        "steps": 6,
        "meters": meters,
    }
    file = feeder(tmp_path)

    def choose(page: Page) -> None:
        assert (
            page.locator("#layout option:checked").inner_text()
            == "a time, with a column for each meter"
        )
        assert (
            page.get_by_label("Columns that are not meters").input_value()
            == "Summe kW\nAußentemperatur"
        )
        page.get_by_label("Offset of your clocks from UTC").fill("+01:00")
        page.get_by_text("Haus 2: a cell in line 4 is empty; one more is wrong.").wait_for()
        page.get_by_label("Leave out readings without a value").press("Space")
        page.get_by_text("2 of 18 readings are left out by your rules").wait_for()

    with tab(browser, service.url) as seen:
        seen.login(key)
        page = second_step(seen, "dr_ensemble", "feeder", public, file)
        page.get_by_label("A row of it is").select_option("a reading of one meter")
        assert (
            page.get_by_label("kw", exact=True).locator("option:checked").inner_text() == "choose …"
        )
        page.get_by_label("A row of it is").select_option("a time, with a column for each meter")
        choose(page)
        page.get_by_label("Columns that are not meters").fill("Summe kW\nTemperatur")
        page.get_by_text(
            "“Temperatur” is listed as not a meter, but no column is called that."
        ).wait_for()
        page.get_by_label("Columns that are not meters").fill("Summe kW\nAußentemperatur")
        page.get_by_text("2 of 18 readings are left out by your rules").wait_for()
        page.get_by_role("button", name="Upload and register").press("Enter")
        page.get_by_text(
            "line 2, column Haus 2: this participant has no reading in the period"
        ).wait_for()
        carried = {**public, "meters": {**meters, "carry": 1}}
        page = second_step(seen, "dr_ensemble", "feeder", carried, file)
        choose(page)
        assert not problems_of(seen, axe)
        dataset = registered(page)
    reader = {"time_zone": "Europe/Berlin", "participants": HOUSES}
    reading = readers.read("dr_ensemble", file, {**carried, "reader": reader}, {"time": "Zeit"})
    assert of_client(service, key, "dr_ensemble", reading, dataset) == dataset
    everything = {**carried, "reader": {"time_zone": "Europe/Berlin", "participants": "columns"}}
    # Without a page that proposes them columns which are called so are refused, until somebody has
    # decided.
    with pytest.raises(TableError, match=r"^Summe kW, Außentemperatur are named like a total"):
        readers.read("dr_ensemble", file, everything, {"time": "Zeit"})
    everything["reader"]["except"] = ["Summe kW", "Außentemperatur"]
    decided = readers.read("dr_ensemble", file, everything, {"time": "Zeit"})
    assert of_client(service, key, "dr_ensemble", decided, dataset) == dataset


def test_energy_across_a_change_of_clocks(
    service: Installation, browser: Browser, axe: str, tmp_path: Path
) -> None:
    """An export of quarters of an hour in kWh, over the end of summer time: the same as the client
    reads of it."""
    key = service.owner_of("an export in kWh")
    file = export(tmp_path / "export.csv", between=" ")
    public = {name: value for name, value in told_of_export().items() if name != "reader"}
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = second_step(seen, "dr_ensemble", "export", public, file)
        for column, own in (
            ("participant", "Marktlokation"),
            ("time", "Datum Uhrzeit"),
            ("kw", "Verbrauch [kWh]"),
        ):
            page.get_by_label(column, exact=True).select_option(own)
        clocks, units = (
            page.get_by_label("Offset of your clocks from UTC"),
            page.get_by_label("The values are"),
        )
        clocks.fill("Europe/Berlin")
        page.get_by_text("Say whether the values are power or energy").wait_for()
        assert units.input_value() == ""
        units.select_option("kWh")
        page.get_by_text(RIGHT).wait_for()
        clocks.fill("Europe/Nowhere")
        page.get_by_text("has no time zone", exact=False).first.wait_for()
        clocks.fill("Europe/Berlin")
        page.get_by_text(RIGHT).wait_for()
        assert not problems_of(seen, axe)
        dataset = registered(page)
    columns = {"participant": "Marktlokation", "time": "Datum Uhrzeit", "kwh": "Verbrauch [kWh]"}
    reading = readers.read("dr_ensemble", file, told_of_export(), columns)
    assert of_client(service, key, "dr_ensemble", reading, dataset) == dataset


def test_what_the_order_of_rows_does_not_tell_of_a_change_of_clocks(
    service: Installation, browser: Browser, tmp_path: Path
) -> None:
    """The page refuses what the client refuses: an hour that is shown twice and stands once in the
    file, and periods of another length than the readings."""
    key = service.owner_of("clocks that are put back")
    hours = ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00", "2026-10-25T03:00"]
    file = written(
        tmp_path / "once.csv",
        ["meter", "time", "kw"],
        [[one, hour, 1] for one in "AB" for hour in hours],
    )
    public = {**told_of_export(4, 3600), "participants": 2}
    with pytest.raises(TableError, match="clocks show this time twice on that day"):
        readers.read("dr_ensemble", file, public, {"participant": "meter"})
    spring = written(
        tmp_path / "spring.csv",
        ["meter", "time", "kw"],
        [[one, "2026-03-29T02:30", 1] for one in "AB"],
    )
    del public["reader"]
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = second_step(seen, "dr_ensemble", "once", public, file)
        page.get_by_label("Offset of your clocks from UTC").fill("Europe/Berlin")
        page.get_by_text("Line 4: clocks in Europe/Berlin show this hour twice").wait_for()
        page.get_by_label("The values are").select_option("kWh")
        page.get_by_text("seconds apart").wait_for(state="detached")
        page.get_by_label("Parquet, CSV or JSON").set_input_files(spring)
        page.get_by_text("is a time that clocks in Europe/Berlin skip").first.wait_for()
        halves = {**public, "meters": {**public["meters"], "interval_seconds": 1800}}
        page = second_step(seen, "dr_ensemble", "halves", halves, file)
        page.get_by_label("Offset of your clocks from UTC").fill("+01:00")
        page.get_by_label("The values are").select_option("kWh")
        page.get_by_text(
            "Most readings are 3,600 seconds apart, and a period of the public part has 1,800"
        ).wait_for()


def test_a_column_that_may_mean_the_treatment_is_asked_about(
    service: Installation, browser: Browser, tmp_path: Path
) -> None:
    """`Arm` is an arm of a study, or German for poor."""
    key = service.owner_of("an arm")
    rows = [[f"P{one}", day, one % 2, "yes"] for one in range(3) for day in range(2)]
    file = written(tmp_path / "arm.csv", ["patient", "day", "reward", "Arm"], rows)
    public = {"unit": "trajectory", "reward_bound": 1, "horizon": 2}
    with tab(browser, service.url) as seen:
        seen.login(key)
        page = second_step(seen, "off_policy_evaluation", "arm", public, file)
        page.get_by_text(
            "Say whether “Arm” is the column that holds action, or that it is not"
        ).wait_for()
        action = page.get_by_label("action (optional)", exact=True)
        assert action.input_value() == ""
        action.select_option("not in my file")
        page.get_by_text(RIGHT).wait_for()
        registered(page)


@pytest.mark.parametrize(
    ("kind", "public", "row", "twice"),
    [
        (
            "routing",
            {"unit": "person", "zones": 2, "periods": 1, "period_minutes": 60, "max_person": 2},
            {"person": 1, "origin": 2, "destination": 1, "period": 0},
            "origin",
        ),
        (
            "off_policy_evaluation",
            {"unit": "trajectory", "reward_bound": 1, "horizon": 2},
            {"patient": 1, "time": 0, "reward": 1},
            "time",
        ),
    ],
)
def test_a_column_that_says_whose_a_row_is_says_nothing_else(
    service: Installation,
    browser: Browser,
    tmp_path: Path,
    kind: str,
    public: dict[str, Any],
    row: dict[str, int],
    twice: str,
) -> None:
    """In the client's sentence; such a file is not sent, and with the other column chosen again it
    is."""
    owner = next(iter(row))
    file = written(tmp_path / "rows.csv", list(row), [list(row.values())])
    with pytest.raises(TableError) as refused:
        readers.read(kind, file, public, {**dict(zip(row, row, strict=True)), twice: owner})
    with tab(browser, service.url) as seen:
        seen.login(service.owner_of(f"columns of a {owner}"))
        page = second_step(seen, kind, f"whose {owner}", public, file)
        page.locator("[data-checked=right]").wait_for()
        column = page.get_by_label(twice, exact=True).and_(page.locator("select[id^=column-]"))
        column.select_option(owner)
        page.locator("[data-checked=wrong]").wait_for()
        (fault,) = page.locator("ul.faults li").all_inner_texts()
        assert fault == f"T{str(refused.value)[1:]}."
        page.get_by_text("1 row; it cannot be sent so. Nothing has been sent.").wait_for()
        page.get_by_role("button", name="Upload and register").press("Enter")
        column.select_option(twice)
        page.locator("[data-checked=right]").wait_for()
        registered(page)
