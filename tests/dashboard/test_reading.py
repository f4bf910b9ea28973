"""Files as people have them, on the page of a new dataset: the service reads them, and the page
shows what was understood. Registered is what the reader at home makes of the same file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect

from discreet.dashboard import reading_forms
from discreet.errors import InvalidInput
from discreet.problems import KINDS
from discreet_client import readers
from tests.conftest import Installation
from tests.dashboard.browsing import Browser, Page
from tests.dashboard.chromium import MILLISECONDS, problems_of, tab

SCRIPT = "<img src=x onerror='globalThis.hacked = 1'>"
SURVEY = f"""no;home district;went to;left at;{SCRIPT}
1;Mill ;Inn;02.03.2026 07:10;{SCRIPT}
2;Inn;Harbour;3.3.2026 8:59;
3;Inn;Mill;03.03.2026 09:00;
4;Moon;Mill;03.03.2026 07:30;
5;Harbour;Mill;03.03.2026 07:30;
"""
TRIPS = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 120}
RULES = {
    "zones": ["Harbour", "Inn", "Mill"],
    "start": "2026-03-02T07:00",
    "every": "day",
    "time_zone": "Europe/Berlin",
    "outside": "leave_out",
    "other_zones": "leave_out",
}
COLUMNS = {"origin": "home district", "destination": "went to", "time": "left at"}


def second_step(browser: Browser, kind: str, public: dict[str, Any]) -> Page:
    form = browser.get(f"/datasets/new?kind={kind}")
    said = {"name": "own", "public": json.dumps(public), "epsilon": "1", "account": "new"}
    return browser.submit(form, "/datasets/new", **said, delta="0")


def of_client(
    running: Installation, key: str, kind: str, reading: readers.Reading, dataset: str
) -> str:
    with running.client(key) as owner:
        cap = owner.budget(owner.dataset(dataset)["account"])["cap"]
        same = owner.register(kind, reading.public, reading.columns, cap=cap, name="the same")
        return str(same["id"])


def test_a_file_is_sent_once_looked_at_and_registered(
    service: Installation, browser: Chromium, axe: str, tmp_path: Path
) -> None:
    """All mistakes at once, each with the field that mends it; every change asks again and sends no
    file; names stay text."""
    key = service.owner_of("a survey that is looked at")
    file = tmp_path / "survey.csv"
    file.write_text(SURVEY, encoding="utf-8-sig")
    sent: list[str] = []
    with tab(browser, service.url) as seen:
        page = seen.page
        seen.login(key)
        seen.go("/datasets/new?kind=routing")
        page.get_by_label("Name", exact=True).fill("survey")
        page.get_by_text("As JSON", exact=True).click()
        page.locator("#public").fill(json.dumps(TRIPS))
        seen.other_people()
        page.get_by_role("button", name="Next: the content").press("Enter")
        page.get_by_text("The whole file is sent, sealed, and erased at registration").wait_for()
        page.on(
            "request",
            lambda request: (
                "/static/" in request.url or sent.append(request.url.removeprefix(seen.origin))
            ),
        )
        page.get_by_label("CSV, Excel, Parquet").set_input_files(file)
        assert sent == []
        page.get_by_role("button", name="Send it, and see").press("Enter")
        status = page.locator("#outcome-status")
        status.wait_for()
        expect(status).to_contain_text("to set or to mend", timeout=MILLISECONDS)
        page.get_by_label("origin", exact=True).select_option("home district")
        page.get_by_label("destination", exact=True).select_option("went to")
        page.get_by_label("time (optional)", exact=True).select_option("left at")
        page.get_by_label("Your zones by name").fill("Harbour\nInn\nMill")
        page.get_by_label("Time zone of times").fill("Europe/Berlin")
        page.get_by_label("Period 0 begins").fill("2026-03-02T07:00")
        page.get_by_label("The other periods begin").select_option("each day at this time")
        expect(page.locator("#outcome")).to_contain_text("Moon", timeout=MILLISECONDS)
        expect(page.locator("#outcome")).to_contain_text("09:00", timeout=MILLISECONDS)
        assert not problems_of(seen, axe)
        page.get_by_role("link", name="Set “A trip from or to another zone”").press("Enter")
        assert page.evaluate("document.activeElement.id") == "rule-other_zones"
        page.get_by_label("A trip from or to another zone").select_option("is left out")
        page.get_by_label("A trip at another time").select_option("is left out")
        expect(status).to_have_text("5 rows: all of them can be read.", timeout=MILLISECONDS)
        expect(page.get_by_label("The first rows")).to_contain_text(
            "period 0", timeout=MILLISECONDS
        )
        assert not problems_of(seen, axe)
        assert page.evaluate("() => globalThis.hacked") is None
        assert {one for one in sent if "static" not in one} == {
            next(one for one in sent if one.startswith("/datasets/read?")),
            "/datasets/reading",
        }
        page.get_by_role("button", name="Register", exact=True).first.press("Enter")
        page.get_by_role("link", name="New job on it").wait_for()
        dataset = page.url.partition("?")[0].rpartition("/")[2]
    reading = readers.read("routing", file, {**TRIPS, "reader": RULES}, COLUMNS)
    assert of_client(service, key, "routing", reading, dataset) == dataset


def test_without_scripts_a_refused_file_stays_until_the_public_part_fits(
    api_only: Installation,
) -> None:
    """A registration that is refused keeps the file, also where step one is corrected."""
    with Browser.logged_in(api_only) as browser:
        page = second_step(browser, "routing", {**TRIPS, "zones": 2})
        content = ("t.csv", b"period,origin,destination,count\n0,1,3,4\n1,2,1,5\n")
        looked = browser.submit(page, "/datasets/read", files={"content": content})
        assert "The first rows" in looked.text or "first rows" in looked.text
        refused = browser.submit(looked, "/datasets/reading", register="yes")
        assert refused.status == 422
        back = browser.submit(refused, "/datasets/new")
        assert back.form("/datasets/new")["fields"]["draft"].startswith("read_")
        again = browser.submit(back, "/datasets/new", public=json.dumps(TRIPS))
        assert "2 rows: all of them can be read." in again.text
        done = browser.submit(again, "/datasets/reading", register="yes")
        assert done.status == 200
        assert "/datasets/dst_" in str(done.response.url)
        gone = browser.submit(again, "/datasets/reading")
        assert "send it again" in gone.text
        assert gone.form("/datasets/read")


@pytest.mark.parametrize(
    ("form", "reader"),
    [
        (
            {"rule-behaviour": "drug A: 2/3\nnone 1/3"},
            {"behaviour": {"drug A": "2/3", "none": "1/3"}},
        ),
        ({"rule-behaviour": "treat: 0,5\nwait: 0.5"}, {"behaviour": {"treat": 0.5, "wait": 0.5}}),
        ({"rule-target": "age >= 65 -> a, else b"}, {"target": "age >= 65 -> a, else b"}),
        ({"rule-target": "a 1"}, {"target": {"a": 1}}),
        ({"rule-missing": "2", "rule-interval": "7"}, {"missing": "leave_out", "interval": 7}),
        ({"rule-encoding": "1", "rule-units_row": "1"}, {"encoding": "cp1252", "units_row": True}),
        ({"rule-rewards": '{"x": 1}', "rule-gaps": "0"}, {"rewards": {"x": 1}}),
    ],
)
def test_fields_say_a_description_and_show_it_again(
    form: dict[str, str], reader: dict[str, Any]
) -> None:
    """What the form does not show stays."""
    public = {"unit": "trajectory", "horizon": 2, "reward_bound": 1, "states": 2}
    before = {**public, "reader": {"version": 1, "other": 3}}
    columns = {"column-patient": "pid", "column-time": "day", "clock-time": "hour"}
    said = reading_forms.described({**form, **columns}, "off_policy_evaluation", before)
    assert said["reader"] == {"other": 3, **reader}
    assert said["columns"] == {"patient": "pid", "time": "day+hour"}
    shown = reading_forms.shown("off_policy_evaluation", said, None, {}, None)
    fields = {one["field"]: one["text"] for one in [*shown["rules"], *shown["more"]]}
    again = reading_forms.described(fields, "off_policy_evaluation", public)
    assert again["reader"] == reader


def test_a_line_that_is_no_figure_is_named() -> None:
    public = {"unit": "trajectory", "horizon": 2, "reward_bound": 1, "states": 2}
    form = {"rule-behaviour": "treat", "rule-rewards": "[", "rule-missing": "9"}
    with pytest.raises(InvalidInput) as refused:
        reading_forms.described(form, "off_policy_evaluation", public)
    assert [one.pointer for one in refused.value.issues] == [
        f"/public/reader/{name}" for name in ("behaviour", "rewards", "missing")
    ]


def test_steps_of_trajectories_are_proposed_and_read_as_they_are() -> None:
    """The example of the kind is no table of visits, and its JSON of many rows is read at once."""
    example = KINDS["off_policy_evaluation"].example()["problem"]["dataset"]
    content = json.dumps(example["content"]).encode()

    def opened() -> io.BytesIO:
        return io.BytesIO(content)

    kind, public = "off_policy_evaluation", example["public"]
    found = readers.preview(kind, opened, public, form="json")
    rows = example["content"]["transitions"]
    assert (found["issues"], found["count"]) == ([], len(rows))
    columns = found["proposal"]["columns"]
    assert columns == {name: name for name in rows[0]}
    reading = readers.read(kind, opened, public, columns, form="json")
    assert reading.columns["terminal"].dtype == bool
    assert reading.columns["next_state"].tolist() == [row["next_state"] for row in rows]
