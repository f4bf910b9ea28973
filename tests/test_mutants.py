"""The table of mutants fits the code, and planting one is seen. `make mutants` plants them all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import PAGE, ROOT, Misfit, Mutant, page, patched, read

CAUGHT = """
[[mutant]]
file = "privacy/units.py"
says = "Prices are rounded down."
tests = ["privacy/test_units.py::test_prices_round_up_and_caps_down"]
old = 'math.ceil(scaled) if rounding == "up" else math.floor(scaled)'
new = "math.floor(scaled)"
"""
HARMLESS = """
[[mutant]]
file = "privacy/units.py"
says = "A message reads otherwise."
tests = ["privacy/test_units.py::test_float_below_is_the_nearest_double_not_above"]
old = 'raise ValueError(f"negative: {value}")'
new = 'raise ValueError(f"below zero: {value}")'
"""


def test_every_patch_fits_and_its_tests_are_there() -> None:
    mutants = read()
    assert len(mutants) >= 60
    assert {mutant.file.split("/")[0] for mutant in mutants} == {
        "isolation",
        "observability",
        "privacy",
        "problems",
        "solvers",
        "worker",
    }
    assert len({(mutant.file, mutant.says) for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        assert patched(mutant) != (ROOT / "service/discreet" / mutant.file).read_text()
        assert mutant.tests
        for test in mutant.tests:
            file, _, name = test.partition("@")[0].partition("::")
            text = (ROOT / "tests" / file).read_text()
            assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), test


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == page(read())


def test_a_patch_that_does_not_fit_is_no_mutant() -> None:
    for old, new in (
        ("no such text", "x"),
        ("import math", "import math  # as it was"),
        ("import math", "import ("),
    ):
        with pytest.raises(Misfit):
            patched(Mutant("privacy/units.py", "Nothing.", ("privacy/test_units.py",), old, new))


@pytest.mark.long
def test_what_is_caught_and_what_survives_is_told(tmp_path: Path) -> None:
    table = tmp_path / "table.toml"
    table.write_text(CAUGHT + HARMLESS)
    command = [sys.executable, "-m", "tests.mutants", "--jobs", "1", "--table", str(table)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    verdicts = [line.split()[0] for line in ran.stdout.splitlines() if " s  " in line]
    assert verdicts == ["passes", "caught", "SURVIVED"], ran.stdout
    assert ran.stdout.splitlines()[-1].endswith("1 wrong")
