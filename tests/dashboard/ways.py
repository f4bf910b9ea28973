"""From the login to an answer on one's own files with the keyboard alone: roads, meters and
patients.

`test_keyboard` counts what that takes, and `make screenshots` takes a picture of every page on the
way.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import FileChooser, Page

from discreet.dashboard import words
from tests.dashboard.chromium import Watched

MOST_TABS = 120
MOST_PRESSES, MILLISECONDS = 40, 500
"""Of the space bar until a dialog is open, and between two of them."""
JSON_FIELDS = ("public", "body", "typed")
"""Ids of the fields of pages that hold JSON."""

NAME = """() => {
  const one = document.activeElement;
  const labels = [...(one.labels ?? [])].map((label) => label.innerText).join(" ");
  const name = one.getAttribute("aria-label") || labels || one.innerText || "";
  return name.replace(/\\s+/g, " ").trim();
}"""


def _unseen(page: Page) -> None:
    """Nobody looks on."""


@dataclass
class Hands:
    """Somebody who has a keyboard and no mouse."""

    page: Page
    look: Callable[[Page], None] = _unseen
    """Called with each page as it is before it is left, and with the last one."""
    keys: Counter[str] = field(default_factory=Counter)
    """How often which sort of key was pressed: Tab, Enter, Space, arrows, letters, clearing (what
    empties a field)."""
    fields: int = 0
    files: int = 0
    json: int = 0
    """How many of the fields hold JSON."""
    refusals: int = 0

    def press(self, key: str, sort: str = "") -> None:
        self.keys[sort or key] += 1
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.keys["letters"] += len(text)
        self.page.keyboard.type(text)

    def reach(self, name: str) -> None:
        """Go on with Tab until what has the focus is called so."""
        seen = []
        for _ in range(MOST_TABS):
            self.press("Tab")
            seen.append(self.page.evaluate(NAME))
            if seen[-1].startswith(name):
                return
        raise AssertionError(
            f"nothing that is called {name!r} among {list(dict.fromkeys(seen))} on {self.page.url}"
        )

    def follow(self, name: str) -> None:
        """A link or a button that leads to another page."""
        self.reach(name)
        self.look(self.page)
        with self.page.expect_navigation():
            self.press("Enter")
        self.refusals += self.page.locator(".notice.refused").count()

    def fill(self, name: str, text: str) -> None:
        """Type into a field in place of what it holds."""
        self.reach(name)
        self.json += self.page.evaluate("() => document.activeElement.id") in JSON_FIELDS
        self.press("Control+a", "clearing")
        self.press("Delete", "clearing")
        self.fields += 1
        self.type(text)

    def choose(self, name: str, option: str) -> None:
        """An option of a list, by its first letters."""
        self.reach(name)
        self.fields += 1
        self.type(option)

    def pick(self, group: str, option: str) -> None:
        """One of several buttons of which one is on, with the arrows."""
        self.reach(group)
        self.fields += 1
        first = None
        while not (seen := self.page.evaluate(NAME)).startswith(option):
            assert seen != first, f"nothing is called {option!r} here"
            first = first or seen
            self.press("ArrowDown", "arrows")

    def take(self, name: str, file: Path) -> None:
        """A file, in the dialog of the system that the space bar opens; in the dialog no page and
        no test has keys."""
        self.reach(name)
        dialogs: list[FileChooser] = []

        def opened(dialog: FileChooser) -> None:
            dialogs.append(dialog)

        self.page.once("filechooser", opened)
        self.press("Space")
        for _ in range(MOST_PRESSES):  # one that comes while the page is drawn opens nothing
            self.page.wait_for_timeout(MILLISECONDS)
            if dialogs:
                break
            self.page.keyboard.press("Space")
        self.files += 1
        dialogs[0].set_files(file)


# Files as three people have them ------------------------------------------------------------------


def written(file: Path, header: list[str], rows: Iterable[Iterable[Any]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, delimiter=";").writerows([header, *rows])
    return file


def trips(folder: Path) -> Path:
    """Ten mornings in a town of four zones."""
    random = np.random.RandomState(3)
    rows = [
        [morning, origin, destination, 40 + random.poisson(30)]
        for morning in range(10)
        for origin in range(1, 5)
        for destination in range(1, 5)
        if origin != destination
    ]
    return written(folder / "fahrten.csv", ["morgen", "von", "nach", "fahrten"], rows)


def roads(folder: Path) -> Path:
    """A ring of four with a bridge across."""
    ends = [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3)]
    rows = [
        [*way, 4 if way in ((1, 3), (3, 1)) else 6, 300] for end in ends for way in (end, end[::-1])
    ]
    return written(folder / "strassen.csv", ["from_node_id", "to_node_id", "fft", "capacity"], rows)


def readings(folder: Path) -> Path:
    """A day of 40 heat pumps by the half hour, with decimal commas."""
    random = np.random.RandomState(4)
    level = random.randint(0, 3, 40)
    rows = []
    for period in range(48):
        time = (datetime(2026, 1, 15, tzinfo=UTC) + timedelta(minutes=30 * period)).isoformat()
        rows += [
            [f"pump {pump}", time, f"{(0.2, 2.0, 5.0)[level[pump]]:.1f}".replace(".", ",")]
            for pump in range(40)
        ]
        level = np.clip(level + random.choice([-1, 0, 0, 1], 40), 0, 2)
    return written(folder / "zaehler.csv", ["zaehler", "zeit", "leistung"], rows)


def visits(folder: Path) -> Path:
    """300 patients who are ill, better or well."""
    random = np.random.RandomState(5)
    rows = []
    for patient in range(300):
        state = 0
        for visit in range(4):
            onward = min(2, state + int(random.rand() < 0.4))
            rows.append([patient, visit, state, int(onward == 2)])
            state = onward
    return written(folder / "besuche.csv", ["patient", "besuch", "zustand", "gesund"], rows)


# Whole ways ---------------------------------------------------------------------------------------


def register(hands: Hands, kind: str, name: str) -> None:
    """From the front page to the public part of a new dataset."""
    hands.follow("Datasets")
    hands.follow("Register a dataset")
    if hands.page.locator("input[name=kind]").first.input_value() != kind:
        hands.follow(words.kind(kind))
    hands.fill("Name", name)


def of_roads(hands: Hands, folder: Path) -> None:
    register(hands, "routing", "town")
    hands.fill("Zones", "4")
    hands.fill("Periods", "10")
    hands.follow("Next: the content")
    hands.take("CSV, Excel, Parquet", trips(folder))
    hands.reach("Send it, and see")
    hands.press("Enter")
    hands.page.locator("#outcome").wait_for()
    for column, own in (
        ("period", "morgen"),
        ("origin", "von"),
        ("destination", "nach"),
        ("count", "fahrten"),
    ):
        hands.choose(column, own)
    hands.page.locator("#outcome-status", has_text="all of them can be read").wait_for()
    hands.follow("Register")
    hands.follow("New job on it")
    hands.page.locator("#panel-form .field").first.wait_for()
    hands.choose("Network: how", "Road network")  # none is made up for one's own trips
    hands.follow("Read it from files")
    hands.take("Files of the network", roads(folder))
    for heading in ("Which column is which?", "How the files were read"):
        hands.reach("Put it into the job")
        hands.press("Enter")
        hands.page.get_by_role("heading", name=heading).wait_for()
        hands.refusals += hands.page.locator(".notice.refused").count()
    hands.page.wait_for_function("document.activeElement.id === 'main'")  # when all is drawn
    hands.pick("An epsilon of my own", "Strict")


def of_meters(hands: Hands, folder: Path) -> None:
    register(hands, "dr_ensemble", "heat pumps")
    hands.fill("States", "3")
    hands.fill("Participants", "40")
    hands.fill("Steps", "48")
    hands.fill("Edges", "0, 1, 3, 6")
    hands.choose("Meters: how", "Given")
    hands.fill("Start", "2026-01-15T00:00:00Z")
    hands.fill("Interval seconds", "1800")
    hands.follow("Next: the content")
    hands.take("CSV, Excel, Parquet", readings(folder))
    hands.reach("Send it, and see")
    hands.press("Enter")
    hands.page.locator("#outcome").wait_for()
    for column, own in (("participant", "zaehler"), ("time", "zeit"), ("kw", "leistung")):
        hands.choose(column, own)
    hands.page.locator("#outcome-status", has_text="all of them can be read").wait_for()
    hands.follow("Register")
    hands.follow("New job on it")


def of_patients(hands: Hands, folder: Path) -> None:
    register(hands, "off_policy_evaluation", "trial")
    hands.fill("States", "3")
    hands.fill("Horizon", "4")
    hands.follow("Next: the content")
    hands.take("CSV, Excel, Parquet", visits(folder))
    hands.reach("Send it, and see")
    hands.press("Enter")
    hands.page.locator("#outcome").wait_for()
    for column, own in (("time", "besuch"), ("state", "zustand"), ("reward", "gesund")):
        hands.choose(column, own)
    hands.page.locator("#outcome-status", has_text="all of them can be read").wait_for()
    hands.follow("Register")
    hands.follow("New job on it")
    hands.page.locator("#panel-form .field").first.wait_for()
    hands.pick("An epsilon of my own", "Usual")


WAYS: dict[str, Callable[[Hands, Path], None]] = {
    "roads": of_roads,
    "meters": of_meters,
    "patients": of_patients,
}


def walked(
    seen: Watched, way: str, key: str, folder: Path, look: Callable[[Page], None] = _unseen
) -> Hands:
    """Go a whole way, in a tab that nobody is logged in to; what it took."""
    hands = Hands(seen.page, look)
    seen.go("/login")
    hands.fill("API key", key)
    hands.follow("Log in")
    WAYS[way](hands, folder)
    hands.page.locator("#quote-status", has_text="It would cost epsilon").wait_for()
    hands.follow("Submit for")
    hands.page.get_by_role("heading", name="Result", exact=True).wait_for()
    look(hands.page)
    return hands
