"""One provider and one API that trusts it, for all tests of this folder that only use them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from discreet.installation.postgres import EmbeddedPostgres
from tests.conftest import Installation
from tests.oidc.running import RunningProvider, provider, trusting


@pytest.fixture(scope="session")
def op() -> Iterator[RunningProvider]:
    with provider() as running:
        yield running


@pytest.fixture(scope="session")
def trusted(
    postgres: EmbeddedPostgres,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    op: RunningProvider,
) -> Iterator[Installation]:
    with trusting(postgres, template, tmp_path_factory.mktemp("trusting"), op) as running:
        yield running
