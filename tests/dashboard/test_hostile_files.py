"""Files that somebody else made, looked at on the page of a new dataset: refused in a sentence, run
by nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from tests.conftest import Installation
from tests.dashboard.chromium import problems_of, tab
from tests.dashboard.test_own_files import RANGES, RIGHT, second_step, written

SCRIPT = "</script><img src=x onerror='globalThis.hacked = 1'>"
FEEDER: dict[str, Any] = {
    "unit": "participant",
    "states": 2,
    "edges": [0, 2, 4],
    "steps": 2,
    "meters": {"start": "2026-01-15T00:00:00Z", "interval_seconds": 1800},
}


def test_names_of_columns_and_cells_are_names_and_no_more(
    service: Installation, browser: Browser, axe: str, tmp_path: Path
) -> None:
    """Meters called as parts of every object of JavaScript, as elements, formulas, and with a zero
    byte."""
    names = ["__proto__", "constructor", SCRIPT, "=HYPERLINK(1)", "a\0b", "toString", '"; DROP']
    times = ["2026-01-15T00:00:00Z", "2026-01-15T00:30:00Z"]
    file = written(
        tmp_path / "feeder.csv", ["time", *names], [[time, *range(len(names))] for time in times]
    )
    with tab(browser, service.url) as seen:
        seen.login(service.owner_of("meters of odd names"))
        page = second_step(seen, "dr_ensemble", "odd", {**FEEDER, "participants": len(names)}, file)
        page.get_by_text(f"2 rows, and {RIGHT}").wait_for()
        for name in (SCRIPT, "__proto__", "=HYPERLINK(1)"):
            assert (
                page.get_by_label("Rows of your file")
                .get_by_role("columnheader", name=name)
                .count()
                == 1
            )
        assert not problems_of(seen, axe)
        page.get_by_role("button", name="Upload and register").press("Enter")
        page.get_by_role("link", name="New job on it").wait_for()
        assert page.evaluate("() => globalThis.hacked") is None


def test_files_that_would_hold_the_browser_up(
    service: Installation, browser: Browser, tmp_path: Path
) -> None:
    """Each is told of at once: a first line of 100,000 columns was "no rows", digits were read in
    time as their square, and a number that none holds was taken for a severity of 10."""
    visits = [["p", "2026-01-01", "2", "0"], ["p", "2026-01-02", "3", "1"]]
    head = ["patient", "time", "severity", "reward"]

    def changed(column: int, text: str) -> list[list[str]]:
        return [visits[0], [*visits[1][:column], text, *visits[1][column + 1 :]]]

    many = ",".join(f"meter{column}" for column in range(100_000))
    files = {
        "many.csv": (f"time,{many}\n", "its first line is longer than 262,144 bytes"),
        "open.csv": ('"' + "a,b\n" * 100_000, "or a quotation mark in it is never closed"),
        "line.csv": (
            f"{','.join(head)}\n{'x' * 3_000_000}",
            "one of its lines is longer than 1,048,576 characters",
        ),
    }
    rows = {  # none says what the one before it said: that would still be there
        "digits.csv": (changed(2, "1" * 600_000 + "x"), "in line 3 is not a number"),
        "zones.csv": (changed(1, "T00:00" * 150_000 + "x"), "in line 3 is not a date"),
        "never.csv": (
            [["p", "1", "2", "0"], ["p", "1e999", "3", "1"]],
            "in line 3 is not a number",
        ),
        "large.csv": (changed(2, "1e999"), "severity: “1e999” in line 3 is not a number"),
    }
    with tab(browser, service.url) as seen:
        seen.login(service.owner_of("files of hours"))
        right = written(tmp_path / "right.csv", head, visits)
        page = second_step(seen, "off_policy_evaluation", "visits", RANGES, right)
        page.get_by_text(f"2 rows, and {RIGHT}").wait_for()
        for name, (found, says) in rows.items():
            page.get_by_label("Parquet, CSV or JSON").set_input_files(
                written(tmp_path / name, head, found)
            )
            expect(page.get_by_text(says).first).to_be_visible()
            expect(page.get_by_text(RIGHT)).to_have_count(0)
        for name, (text, says) in files.items():
            (tmp_path / name).write_text(text)
            page.get_by_label("Parquet, CSV or JSON").set_input_files(tmp_path / name)
            expect(page.get_by_text(says).first).to_be_visible()
            expect(page.get_by_text(RIGHT)).to_have_count(0)
