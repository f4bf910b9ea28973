"""A token and a key service for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.storage import secrets
from tests.keys.places import CREDENTIALS, Kms, SoftToken, kms, soft_token


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SoftToken]:
    with soft_token(tmp_path / "hsm", monkeypatch) as made:
        yield made


@pytest.fixture(scope="module")
def kms_server() -> Iterator[Kms]:
    with kms() as served:
        yield served


@pytest.fixture
def aws(kms_server: Kms, monkeypatch: pytest.MonkeyPatch) -> Kms:
    """KMS with its door open, and credentials that it takes."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(secrets, "RETRY_SECONDS", 0.05)
    kms_server.mode, kms_server.answer = "open", None
    kms_server.asked.clear()
    kms_server.bodies.clear()
    return kms_server
