"""The page beside others: what it says of this service a test shows, what it says of others has a
source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "comparison.md").read_text()
OTHERS = ("Lomas", "Snowflake", "Janus", "Flower")
NOTHING = "–"
FEWEST_ROWS = 25


def rows(page: str) -> list[list[str]]:
    """Cells of the table of what is asked, below its head."""
    table = page[page.index("| | ours |") :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[2:]]


def names_in(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    found = ast.walk(ast.parse(file.read_text()))
    return {one.name for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def unshown(page: str) -> list[str]:
    """What the page claims of this service without a test that is there. Who has nothing says `no`,
    and why."""
    wrong = []
    for asked, ours, shown, *_ in rows(page):
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown)
        if ours.startswith("no:"):
            wrong += [asked] if shown != "–" else []
        elif not named or re.sub(r"`[^`]*`|[, ]", "", shown):
            wrong.append(asked)
        wrong += [f"{file}::{name}" for file, name in named if name not in names_in(ROOT / file)]
    return wrong


def unsourced(page: str) -> list[str]:
    """What the page says of others without a source that is in its list, and sources that nothing
    names."""
    sources = page.partition("## Sources")[2]
    listed = set(re.findall(r"\| ([LSJF]\d+)\b", sources))
    wrong, named = [], set()
    for asked, _, _, *cells in rows(page):
        for other, cell in zip(OTHERS, cells, strict=True):
            found = set(re.findall(r"\[([LSJF]\d+)\]", cell))
            named |= found
            own = {one for one in found if one[0] == other[0]} & listed
            if (cell != NOTHING and not own) or found - own:
                wrong.append(f"{asked}: {other}")
    return wrong + sorted(listed - named)


def test_every_claim_of_ours_is_shown_by_a_test() -> None:
    assert len(rows(PAGE)) >= FEWEST_ROWS
    assert unshown(PAGE) == []


def test_every_claim_of_others_has_its_source() -> None:
    assert unsourced(PAGE) == []
    assert re.search(r"Read on \d{4}-\d\d-\d\d", PAGE)
    commits = re.findall(r"repository `[\w-]+/[\w-]+` at `[0-9a-f]{8,}`, \d{4}-\d\d-\d\d", PAGE)
    assert len(commits) == len(OTHERS) - 1  # the fourth is a site
    assert (
        PAGE.count("**better:**") >= 10
    )  # a table in which one's own column wins everywhere is not believed


@pytest.mark.parametrize(
    ("was", "becomes", "wrong"),
    [
        ("::test_expiry`", "::test_expiries`", "tests/api/test_keys.py::test_expiries"),
        (
            "tests/log/test_rollback.py",
            "tests/a.py",
            "tests/a.py::test_a_standby_that_lost_commits_admits_nothing",
        ),
        (
            "| no: only you | – |",
            "| you, of course | – |",
            "somebody else who runs it, or is liable for it",
        ),
        ("| Python and TypeScript | ", "| Python and TypeScript | by hand, and ", "languages"),
    ],
)
def test_a_claim_without_its_test_is_found(was: str, becomes: str, wrong: str) -> None:
    assert was in PAGE
    assert wrong in unshown(PAGE.replace(was, becomes))


@pytest.mark.parametrize(
    ("was", "becomes", "wrong"),
    [
        ("SecAgg, SecAgg+ [F5]", "SecAgg, SecAgg+", "no server sees what parties send: Flower"),
        (
            "SecAgg, SecAgg+ [F5]",
            "SecAgg, SecAgg+ [J1]",
            "no server sees what parties send: Flower",
        ),
        (
            "SecAgg, SecAgg+ [F5]",
            "SecAgg, SecAgg+ [F99]",
            "no server sees what parties send: Flower",
        ),
        ("SecAgg, SecAgg+ [F5]", NOTHING, "F5"),
    ],
)
def test_a_claim_without_its_source_is_found(was: str, becomes: str, wrong: str) -> None:
    assert was in PAGE
    assert wrong in unsourced(PAGE.replace(was, becomes))
