"""An installation with object storage and a receiver's permission, for the tests of contents and
webhooks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from discreet.installation.postgres import EmbeddedPostgres
from tests.conftest import Installation
from tests.postgres_fixture import Database
from tests.stored import stored_installation


@pytest.fixture(scope="session")
def both(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Installation, Database]]:
    with stored_installation(postgres, template, tmp_path_factory.mktemp("stored")) as running:
        yield running


@pytest.fixture
def stored(both: tuple[Installation, Database]) -> Installation:
    return both[0]
