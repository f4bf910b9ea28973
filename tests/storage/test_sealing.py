"""Sealed content opens whole and unchanged or not at all."""

from __future__ import annotations

import io
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import Unavailable
from discreet.storage import secrets, tamper_seals
from discreet.storage.keys.provider import LocalMasterKey, SecretsError
from discreet.storage.sealing import (
    CHUNK_BYTES,
    STREAM_CHUNK_BYTES,
    ChunkCipher,
    SealBroken,
    SealedReader,
    SealedWriter,
    new_data_key,
    open_stream,
    seal,
    seal_whole,
    unseal,
    unseal_whole,
    unwrap,
    wrap,
)
from discreet.storage.secrets import Secrets, SecretsFile

KEYS = Secrets(
    {"a": LocalMasterKey(b"1" * 32), "b": LocalMasterKey(b"2" * 32)},
    "a",
    b"3" * 32,
    {"j": b"6" * 32},
    "j",
    b"4" * 32,
    Ed25519PrivateKey.from_private_bytes(b"5" * 32),
)


@given(st.binary(max_size=100))
def test_opens_what_it_sealed(plain: bytes) -> None:
    chunks = list(seal(KEYS, "x", plain))
    assert unseal(KEYS, "a", "x", chunks) == plain
    assert len(plain) < 4 or all(plain not in chunk for chunk in chunks)


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES]
)
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
    assert isinstance(loaded.signer, Ed25519PrivateKey)
    masters = list(loaded.content_keys.values())
    keys = [loaded.digest_key, loaded.pepper, loaded.signer.private_bytes_raw()]
    assert all(isinstance(one, LocalMasterKey) and one.key not in keys for one in masters)
    assert len(set(keys)) == 3
    assert len(masters) == 1
    assert loaded.digest_key.hex() not in repr(loaded)
    assert repr(masters) == "[LocalMasterKey()]"
    with pytest.raises(SecretsError, match="exists"):
        secrets.create(path)
    path.chmod(0o644)
    with pytest.raises(SecretsError, match="600"):
        secrets.load(path)
    with pytest.raises(SecretsError, match="no secrets file"):
        secrets.load(tmp_path / "none")


# Streams under a data key -------------------------------------------------------------------------

KEY = b"k" * 32


def stream(plain: bytes, key: bytes = KEY, pieces: int = 300_001) -> list[bytes]:
    parts: list[bytes] = []
    writer = SealedWriter(ChunkCipher(key, "x"), parts.append)
    for start in range(0, len(plain), pieces):
        writer.write(plain[start : start + pieces])
        assert len(writer._buffer) <= CHUNK_BYTES
    writer.finish()
    assert writer.plain_bytes == len(plain)
    assert writer.sealed_bytes == sum(map(len, parts))
    return parts


def opened(parts: list[bytes], key: bytes = KEY, name: str = "x", size: int | None = None) -> bytes:
    return bytes(open_stream(key, name, sum(map(len, parts)) if size is None else size, parts))


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES]
)
def test_streams_of_all_sizes(size: int) -> None:
    plain = random.Random(size).randbytes(size)
    parts = stream(plain)
    assert opened(parts) == plain
    assert all(len(part) == STREAM_CHUNK_BYTES for part in parts[:-1])
    sealed = b"".join(parts)
    ragged = [sealed[start : start + 777_777] for start in range(0, len(sealed), 777_777)]
    assert opened(ragged) == plain
    file = io.BufferedReader(
        SealedReader(
            ChunkCipher(KEY, "x"),
            lambda offset, count: sealed[offset : offset + count],
            len(sealed),
        )
    )
    assert file.read() == plain
    for place in (0, size // 2, max(0, size - 3)):
        file.seek(place)
        assert file.read(100_000) == plain[place : place + 100_000]


def test_no_change_of_a_stream_goes_unnoticed() -> None:
    plain = bytes(3 * CHUNK_BYTES)
    parts = stream(plain)
    longer = stream(bytes(4 * CHUNK_BYTES))
    flipped = bytearray(parts[1])
    flipped[0] ^= 1
    for broken in (
        [parts[0], bytes(flipped), parts[2]],
        [parts[1], parts[0], parts[2]],
        [parts[0], parts[0], parts[2]],
        parts[:2],
        parts[:1],
        [*parts, parts[2]],
        [parts[0], parts[1], parts[2][:-1]],
        [*parts[:2], longer[2]],  # the same place and key, but not the end
        [],
    ):
        with pytest.raises(SealBroken):
            opened(broken)
        with pytest.raises(SealBroken):
            opened(broken, size=sum(map(len, parts)))
    with pytest.raises(SealBroken):
        opened(parts, name="y")
    with pytest.raises(SealBroken):
        opened(parts, key=b"l" * 32)
    cut = b"".join(parts[:2])
    with pytest.raises(SealBroken):
        SealedReader(
            ChunkCipher(KEY, "x"), lambda offset, count: cut[offset : offset + count], len(cut)
        )


def test_a_stream_that_was_not_finished_does_not_open() -> None:
    parts: list[bytes] = []
    SealedWriter(ChunkCipher(KEY, "x"), parts.append).write(bytes(2 * CHUNK_BYTES))
    with pytest.raises(SealBroken):
        opened(parts)


def test_wrapped_keys() -> None:
    data_key = new_data_key()
    wrapped = wrap(KEYS, "x", data_key)
    assert unwrap(KEYS, "a", "x", wrapped) == data_key
    assert data_key not in wrapped
    for key_id, name, sealed in (
        ("b", "x", wrapped),
        ("gone", "x", wrapped),
        ("a", "y", wrapped),
        ("a", "x", wrapped[:-1]),
        (
            "a",
            "x",
            seal_whole(KEYS, "x", data_key),
        ),  # what was sealed for another purpose is no wrapped key
    ):
        with pytest.raises(SealBroken):
            unwrap(KEYS, key_id, name, sealed)


# Rotation of the file -----------------------------------------------------------------------------


def test_rotation_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    file = SecretsFile(path)
    first = file.current
    staged = secrets.stage(path, "content")
    known = file.current
    assert known.content_key_id == first.content_key_id
    assert set(known.content_keys) == {first.content_key_id, staged}
    assert secrets.rotate(path, "content") == staged
    second = file.current
    assert second.content_key_id == staged
    assert second.content_keys[first.content_key_id] == first.content_keys[first.content_key_id]
    third = secrets.rotate(path, "content")
    assert third not in (staged, first.content_key_id)
    with pytest.raises(SecretsError, match="in use"):
        secrets.retire(path, "content", third)
    secrets.retire(path, "content", staged)
    assert set(file.current.content_keys) == {third, first.content_key_id}

    next_pepper = secrets.stage(path, "pepper")
    assert file.current.pepper == first.pepper
    assert len(file.current.peppers) == 2
    assert secrets.rotate(path, "pepper") == next_pepper == file.current.pepper_id
    assert file.current.other_peppers == (first.pepper,)
    secrets.retire(path, "pepper", secrets.pepper_id(first.pepper))
    assert file.current.other_peppers == ()

    secrets.rotate(path, "signing")
    assert file.current.signer.public_key() != first.signer.public_key()
    states = [(row["kind"], row["state"]) for row in secrets.overview(path)]
    assert sorted(states) == [
        ("content", "old"),
        ("content", "used"),
        ("jobs", "used"),
        ("pepper", "used"),
        ("signing", "old"),
        ("signing", "used"),
    ]
    text = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(text)["digest_key"]  # the name of contents never changes
    assert file.current.digest_key == first.digest_key
    with pytest.raises(SecretsError, match="no pepper key"):
        secrets.retire(path, "pepper", "00000000")


JOB = {
    "id": "job_1",
    "tenant_id": "ten_1",
    "dataset_id": None,
    "kind": "routing",
    "problem": {"a": 1.0},
    "plan": {},
    "price": {},
    "seed": None,
}


def test_jobs_are_sealed_by_a_key_that_the_reader_of_uploads_does_not_get(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    new = secrets.load(path)
    seal = tamper_seals.seal_job(new, JOB)
    assert tamper_seals.is_accepted(new, JOB, seal)
    assert not tamper_seals.is_accepted(new, {**JOB, "seed": 1}, seal)
    # What somebody can make who has the reader's key alone.
    mac = tamper_seals.seal_job(replace(new, job_keys={new.job_key_id: new.digest_key}), JOB)
    assert not tamper_seals.is_accepted(new, JOB, mac)
    for forged in (None, "", mac.partition(":")[2], f"{new.job_key_id}:", ":"):
        assert not tamper_seals.is_accepted(new, JOB, forged)
    with pytest.raises(Unavailable, match="not known here"):
        tamper_seals.is_accepted(new, JOB, "ffffffff:" + mac.partition(":")[2])


def test_the_key_of_jobs_is_rotated_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    old = tamper_seals.seal_job(secrets.load(path), JOB)
    staged = secrets.stage(path, "jobs")
    known = secrets.load(path)
    assert tamper_seals.seal_job(known, JOB) == old
    assert secrets.rotate(path, "jobs") == staged
    used = secrets.load(path)
    seal = tamper_seals.seal_job(used, JOB)
    assert seal.startswith(f"{staged}:")
    for machine in (known, used):  # one that has only heard of the key, and one that uses it
        assert tamper_seals.is_accepted(machine, JOB, seal)
        assert tamper_seals.is_accepted(machine, JOB, old)
    secrets.retire(path, "jobs", old.partition(":")[0])
    last = secrets.load(path)
    assert tamper_seals.is_accepted(last, JOB, seal)
    with pytest.raises(Unavailable, match="not known here"):
        tamper_seals.is_accepted(last, JOB, old)
    with pytest.raises(SecretsError, match="in use"):
        secrets.retire(path, "jobs", staged)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_rotates_for_the_service(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    os.chown(path, 65534, 65534)
    secrets.rotate(path, "content")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65534, 65534, 0o600)


def test_a_file_in_the_middle_of_being_replaced_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    file = SecretsFile(path)
    first, text = file.current, path.read_text()
    path.write_text(text[:50])
    assert file.current == first
    path.unlink()
    assert file.current == first
    secrets.create(path)
    assert file.current != first
