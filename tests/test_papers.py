"""What docs say of the five papers: every numbered statement has its row, every figure that is
called printed has the paper's words."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.reproduce import xie
from discreet.reproduce.report import Line

ROOT = Path(__file__).parents[1]
PRINTED: dict[str, Any] = json.loads((ROOT / "tests" / "printed.json").read_text())
SECTIONS = {
    "tsao": "Routing",
    "hassan": "Demand response",
    "xie": "Off-policy evaluation",
    "hale": "Multi-agent",
    "huo": "Encrypted coupled QP",
}
NUMBERED = r"^(Theorem|Lemma|Corollary|Proposition|Algorithm|Paradigm) (\d+)\b"
CAPTIONS = r"(Figure|Table|TABLE) ([IV]+|\d+):"


def rows(page: str, section: str) -> list[list[str]]:
    """The cells of all rows of tables below the heading that begins so."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    (part,) = [each for each in text.split("\n## ") if each.startswith(section)]
    found = re.findall(r"^\| (.*) \|$", part, re.MULTILINE)
    return [[cell.strip() for cell in row.split(" | ")] for row in found]


@pytest.mark.parametrize("paper", SECTIONS)
def test_every_statement_table_and_figure_has_its_row(paper: str) -> None:
    listed = [row for row in rows("papers", SECTIONS[paper]) if len(row) == 3]
    assert listed.pop(0) == ["item", "what it says", "here"]
    assert [row[0] for row in listed] == sorted(
        PRINTED[paper]["items"], key=[row[0] for row in listed].index
    )
    figures = [row[0] for row in rows("reproduction", paper)]
    for item, _, here in listed:
        assert here.startswith(("served: ", "reproduced: ", "not: ")), item
        for name in re.findall(r"reproduced: `([^`]+)`", here):
            assert any(figure.startswith(name) for figure in figures), (item, name)


def plain(text: str) -> str:
    """Powers of ten as in our tables, no spaces after commas, Greek spelt out."""
    text = re.sub(r"\\times 10\^\{(-?\d+)\}", r"e\1", text)
    return re.sub(r"10\^\{(-\d+)\}", r"10^\1", text).replace(", ", ",").replace("β", " beta")


@pytest.mark.parametrize("paper", SECTIONS)
def test_what_is_called_printed_has_the_papers_words(paper: str) -> None:
    head, *lines = [row for row in rows("reproduction", paper) if len(row) >= 5]
    assert head[:5] == ["figure", "as printed", "by its formula", "its method", "ours"]
    used = set()
    for figure, printed, *_ in lines:
        if printed:
            cell = plain(printed).strip("()").replace("C = beta", "C= beta")
            words = [
                place
                for place, (name, _, quote) in enumerate(PRINTED[paper]["quotes"])
                if figure.startswith(name) and cell in plain(quote)
            ]
            assert words, (figure, printed)
            used |= set(words)
    assert used == set(range(len(PRINTED[paper]["quotes"])))


@pytest.mark.parametrize("paper", SECTIONS)
def test_the_words_are_the_papers(paper: str) -> None:
    """With DISCREET_PAPERS, a folder of the papers' texts, PAPER*.txt, which are not of this
    repository."""
    folder = os.environ.get("DISCREET_PAPERS")
    if folder is None:
        pytest.skip("DISCREET_PAPERS names no folder of the papers' texts")
    (file,) = Path(folder).glob(f"{paper}*.txt")
    text = file.read_text()
    for _, _, quote in PRINTED[paper]["quotes"]:
        assert quote in text
    numbered = re.findall(NUMBERED, text, re.MULTILINE) + re.findall(CAPTIONS, text)
    assert {f"{kind.title()} {number}" for kind, number in numbered} == set(PRINTED[paper]["items"])


def same(fresh: Line, written: list[str]) -> bool:
    """Whether a row of docs says what a line does, to a hundredth; errors of rounding count as
    equal."""
    if len(fresh.cells()) != len(written):
        return False
    for now, then in zip(fresh.cells(), written, strict=True):
        try:
            if max(map(abs, (float(now), float(then)))) > 1e-8:
                assert float(now) == pytest.approx(float(then), rel=1e-2)
        except ValueError:
            assert now.strip() == then
    return True


# Claims about a paper, without any of our code ----------------------------------------------------


def test_a_step_without_noise_moves_away_from_the_solution_of_xie() -> None:
    """Lemma 2 and Theorems 2 and 3 with A = b = C = 1 and G = c = 0: one state, one step of reward
    1."""
    Q = np.array([[0.0, -1.0], [1.0, 1.0]])
    at, solution = np.zeros(2), np.linalg.solve(Q, [0.0, 1.0])
    for beta in (1e-3, 0.1, 0.5, 1.0):
        after = at - beta * (Q @ at - [0.0, 1.0])
        growth = np.sum((after - solution) ** 2) / np.sum((at - solution) ** 2)
        assert growth == pytest.approx(1 + beta**2)
    for name, true, claimed in (
        (line.quantity, line.honest, line.formula) for line in xie.utility_lines()
    ):
        holds = float(str(true)) <= float(str(claimed).removeprefix("at most "))
        assert holds == (name == "Theorem 3: squared distance after 100 steps, eta = 2, one state")
