"""What it takes to come from the login to an answer on one's own files, with the keyboard alone and
in Python.

Counted, held below what the project promises, and compared with the table of docs/dashboard.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.conftest import Installation
from tests.dashboard.chromium import tab
from tests.dashboard.ways import WAYS, Hands, walked

MOST_FIELDS, MOST_REFUSALS, MOST_LINES = 12, 1, 20
"""What a first answer on own data may take."""
DOCS = (Path(__file__).parents[2] / "docs" / "dashboard.md").read_text()


def told(way: str) -> list[str]:
    """The row of a way in the docs."""
    (row,) = (line for line in DOCS.splitlines() if line.startswith(f"| {way} |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def in_python(way: str) -> str:
    """The same way in Python, as the docs print it."""
    (lines,) = re.findall(rf"<!-- {way} in Python -->\n```python\n(.*?)```", DOCS, re.DOTALL)
    return str(lines)


def counted(way: str, hands: Hands) -> list[str]:
    """The row as it is to stand in the docs."""
    keys = [hands.keys[sort] for sort in ("Tab", "Enter", "Space", "arrows", "letters", "clearing")]
    lines = len([line for line in in_python(way).splitlines() if line.strip()])
    return [way, *map(str, (hands.fields, hands.files, hands.json, hands.refusals, *keys, lines))]


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=() if way == "meters" else pytest.mark.long) for way in WAYS],
)
def test_from_login_to_an_answer_of_ones_own(
    service: Installation,
    browser: Browser,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """On the pages with the keyboard alone, then of the same files in Python, which comes to the
    same dataset."""
    key = service.owner_of(
        f"keyboard of {way}"
    )  # nothing is there yet, as for who comes for the first time
    with tab(browser, service.url) as seen:
        hands = walked(seen, way, key, tmp_path)
    assert hands.fields <= MOST_FIELDS
    assert hands.refusals <= MOST_REFUSALS
    assert hands.json == 0
    row = counted(way, hands)
    assert int(row[-1]) <= MOST_LINES
    assert told(way) == row, f"docs/dashboard.md is to say: | {' | '.join(row)} |"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_URL", service.url)
    monkeypatch.setenv("DISCREET_KEY", key)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(in_python(way), "docs/dashboard.md", "exec"), names)  # noqa: S102 - our own page
    finally:
        names["client"].close()
    assert names["answer"].job["state"] == "succeeded"
    assert names["picture"].data
    with service.client(key) as owner:
        assert [one["id"] for one in owner.datasets()] == [names["dataset"]["id"]]
