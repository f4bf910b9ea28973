"""The tests that docs/security.md and docs/security-reference.md name exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = "".join(
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("security", "security-reference")
)


def test_every_attack_has_its_test() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 30
    missing = [
        f"{path}::{function}"
        for path, function in named
        if not (ROOT / path).exists()
        or (function and f"def {function}(" not in (ROOT / path).read_text())
    ]
    assert missing == []


def test_every_row_of_attacks_names_a_test_or_a_page() -> None:
    table = PAGE.split("## Attacks tried")[1].split("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row and ".md)" not in row] == []


def test_pages_it_points_to_exist() -> None:
    for link in re.findall(r"\]\(([\w./-]+\.md)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
