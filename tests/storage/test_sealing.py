"""Sealed content opens whole and unchanged or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.storage import secrets
from discreet.storage.sealing import CHUNK_BYTES, SealBroken, seal, seal_whole, unseal, unseal_whole
from discreet.storage.secrets import Secrets, SecretsError

KEYS = Secrets({"a": b"1" * 32, "b": b"2" * 32}, "a", b"3" * 32, b"4" * 32, b"5" * 32)


@given(st.binary(max_size=100))
def test_opens_what_it_sealed(plain: bytes) -> None:
    chunks = list(seal(KEYS, "x", plain))
    assert unseal(KEYS, "a", "x", chunks) == plain
    assert len(plain) < 4 or all(plain not in chunk for chunk in chunks)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_chunks_of_all_sizes(size: int) -> None:
    plain = bytes(i % 251 for i in range(size))
    assert unseal_whole(KEYS, "a", "x", seal_whole(KEYS, "x", plain)) == plain


def test_no_change_goes_unnoticed() -> None:
    chunks = list(seal(KEYS, "x", b"z" * (2 * CHUNK_BYTES)))
    changed = bytearray(chunks[0])
    changed[20] ^= 1
    for broken in (
        [bytes(changed), chunks[1]],
        [chunks[1], chunks[0]],
        [chunks[0]],
        [chunks[0], chunks[0]],
        [*chunks, chunks[1]],
    ):
        with pytest.raises(SealBroken):
            unseal(KEYS, "a", "x", broken)
    with pytest.raises(SealBroken):
        unseal(KEYS, "a", "x", [])
    with pytest.raises(SealBroken):
        unseal(KEYS, "a", "another", chunks)
    with pytest.raises(SealBroken):
        unseal(KEYS, "b", "x", chunks)
    with pytest.raises(SealBroken):
        unseal(KEYS, "gone", "x", chunks)


def test_secrets_file(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    loaded = secrets.load(path)
    keys = [loaded.digest_key, loaded.pepper, loaded.signing_key, *loaded.content_keys.values()]
    assert len(set(keys)) == len(keys) == 4
    assert loaded.digest_key.hex() not in repr(loaded)
    with pytest.raises(SecretsError, match="exists"):
        secrets.create(path)
    path.chmod(0o644)
    with pytest.raises(SecretsError, match="600"):
        secrets.load(path)
    with pytest.raises(SecretsError, match="no secrets file"):
        secrets.load(tmp_path / "none")
