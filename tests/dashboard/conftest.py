"""What tests of the pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.dashboard.chromium import chromium, chromium_path, missing


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium_path() is None:
        missing("chromium")
    with chromium() as started:
        yield started
