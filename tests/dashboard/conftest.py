"""What tests of the pages share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.dashboard.chromium import chromium, chromium_path, missing

AXE = Path(__file__).parent / "axe"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium_path() is None:
        missing("chromium")
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core by its hash in the lock beside it, installed by npm into a folder that is not
    committed."""
    script = AXE / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            missing("npm")
        found = subprocess.run(
            [npm, "ci", "--silent"], cwd=AXE, capture_output=True, text=True, check=False
        )
        if found.returncode != 0:
            missing(f"axe-core (npm says: {found.stderr[-300:]})")
    return script.read_text()
