"""One contract for every place where keys may lie, and what each does when it is altered, refused
or away."""

from __future__ import annotations

import base64
import json
import os
import stat
import threading
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature

from discreet.settings import Settings
from discreet.storage import sealing, secrets, tamper_seals
from discreet.storage.keys.opening import Keys
from discreet.storage.keys.provider import SecretsError
from discreet.storage.secrets import SecretsFile
from tests.keys.places import PIN, new_key
from tests.storage.test_sealing import JOB

PLACES = ("file", "pkcs11", "awskms")


def keys_of(uri: str, pin: str | None = PIN) -> Keys:
    return Keys.of(Settings(keys=uri, keys_pin=pin))


@pytest.fixture(params=PLACES)
def uri(request: pytest.FixtureRequest) -> str:
    """Each place in turn, as DISCREET_KEYS names it."""
    if request.param == "pkcs11":
        found: str = request.getfixturevalue("token").uri()
        return found
    if request.param == "awskms":
        place = request.getfixturevalue("aws")
        return str(place.uri(new_key(place)))
    return "file"


def clear_keys(path: Path) -> list[str]:
    """Members of a secrets file that hold a key as it is."""
    body = json.loads(path.read_text())
    texts = {purpose: entry[member] for purpose, entry, member in secrets._places(body)}
    return [purpose for purpose, text in texts.items() if ":" not in text]


def test_every_place_keeps_the_same_promises(uri: str, tmp_path: Path) -> None:
    path, keys = tmp_path / "secrets.json", keys_of(uri)
    secrets.create(path, keys)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (clear_keys(path) == []) == (uri != "file")
    first = secrets.load(path, keys_of(uri))  # as another process opens it
    data_key = sealing.new_data_key()
    wrapped = sealing.wrap(first, "dst_1", data_key, b"terms")
    assert len(wrapped) == 60  # whatever made it: rows look alike
    assert sealing.unwrap(first, first.content_key_id, "dst_1", wrapped, b"terms") == data_key
    large = os.urandom(sealing.CHUNK_BYTES + 5)
    for plain in (b"", b"secret", large):
        assert (
            sealing.unseal_whole(
                first, first.content_key_id, "s", sealing.seal_whole(first, "s", plain)
            )
            == plain
        )
    chunks = list(sealing.seal(first, "s", large))
    assert sealing.unseal(first, first.content_key_id, "s", chunks) == large
    seal, signature = tamper_seals.seal_job(first, JOB), first.signer.sign(b"body")
    first.signer.public_key().verify(signature, b"body")
    with pytest.raises(InvalidSignature):
        first.signer.public_key().verify(signature, b"another")

    # Rotation: old keys open, new ones wrap; what is retired is gone.
    for kind in ("content", "jobs", "pepper", "signing"):
        secrets.rotate(path, kind, keys)  # type: ignore[arg-type]
    staged = secrets.stage(path, "content", keys)
    second = secrets.load(path, keys)
    assert second.content_key_id not in (first.content_key_id, staged)
    assert sealing.unwrap(second, first.content_key_id, "dst_1", wrapped, b"terms") == data_key
    assert tamper_seals.is_accepted(second, JOB, seal)
    assert second.other_peppers == (first.pepper,)
    assert second.pepper != first.pepper
    assert second.digest_key == first.digest_key
    public = base64.b64encode(first.signer.public_key().public_bytes_raw()).decode()
    assert second.other_signing_keys == (public,)
    with pytest.raises(sealing.SealBroken):
        sealing.unwrap(second, second.content_key_id, "dst_1", wrapped, b"terms")
    secrets.retire(path, "content", first.content_key_id)
    with pytest.raises(sealing.SealBroken):
        sealing.unwrap(secrets.load(path, keys), first.content_key_id, "dst_1", wrapped, b"terms")
    assert {row["place"] for row in secrets.overview(path, keys)} == {keys.name, ""}
    keys.check()


def test_what_is_wrapped_opens_for_its_place_alone(uri: str, tmp_path: Path) -> None:
    path, keys = tmp_path / "secrets.json", keys_of(uri)
    secrets.create(path, keys)
    found = secrets.load(path, keys)
    wrapped = sealing.wrap(found, "dst_1", b"k" * 32, b"terms")
    sealed = sealing.seal_whole(found, "s", b"plain")
    for index in range(len(wrapped)):
        altered = bytearray(wrapped)
        altered[index] ^= 1
        with pytest.raises(sealing.SealBroken):
            sealing.unwrap(found, found.content_key_id, "dst_1", bytes(altered), b"terms")
    for name, terms, cut in (
        ("dst_2", b"terms", wrapped),
        ("dst_1", b"", wrapped),
        ("dst_1", b"terms", wrapped[:20]),
    ):
        with pytest.raises(sealing.SealBroken):
            sealing.unwrap(found, found.content_key_id, name, cut, terms)
    with pytest.raises(sealing.SealBroken):
        sealing.unwrap(found, found.content_key_id, "dst_1", b"", b"terms")
    for index in range(0, len(sealed), 7):
        altered = bytearray(sealed)
        altered[index] ^= 128
        with pytest.raises(sealing.SealBroken):
            sealing.unseal_whole(found, found.content_key_id, "s", bytes(altered))
    with pytest.raises(sealing.SealBroken):
        sealing.unseal_whole(found, found.content_key_id, "t", sealed)
    keys.check()  # whoever brought all that has not taken the place away


@pytest.mark.parametrize("uri", PLACES[1:], indirect=True)
def test_a_file_that_was_altered_opens_nothing(uri: str, tmp_path: Path) -> None:
    """A wrapped key that is not as it was, or stands in for one of another purpose, starts no
    process."""
    path, keys = tmp_path / "secrets.json", keys_of(uri)
    secrets.create(path, keys)
    keys.forget_others(set())
    good = json.loads(path.read_text())
    place, wrapped = good["pepper"].split(" ")
    raw = bytearray(base64.b64decode(wrapped))
    raw[-1] ^= 1
    for pepper in (
        f"{place} {base64.b64encode(raw).decode()}",
        f"{place} {base64.b64encode(raw[:9]).decode()}",
        f"{place} ",
        place,
        f"{place} !",
        good["digest_key"],  # known to the reader of uploads
    ):
        path.write_text(json.dumps({**good, "pepper": pepper}))
        with pytest.raises(SecretsError, match=r"\(pepper\)"):
            secrets.load(path, keys)
    path.write_text(json.dumps({**good, "pepper": base64.urlsafe_b64encode(bytes(32)).decode()}))
    with pytest.raises(SecretsError, match="does not name"):  # one that the writer knows
        secrets.load(path, keys)
    path.write_text(json.dumps(good))
    assert secrets.load(path, keys).pepper


def test_moving_from_the_file_and_back_loses_nothing(uri: str, tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    secrets.create(path)
    file = SecretsFile(
        path, keys_of(f"file {uri}" if uri != "file" else "file")
    )  # a process that runs meanwhile
    before = file.current
    wrapped, seal = sealing.wrap(before, "d", b"k" * 32), tamper_seals.seal_job(before, JOB)
    both = keys_of(f"{uri} file" if uri != "file" else "file")
    moved = secrets.wrap(path, both)
    assert sorted(moved) == (
        [] if uri == "file" else ["content", "digest", "jobs", "pepper", "signing"]
    )
    assert secrets.wrap(path, both) == []
    if uri != "file":
        assert clear_keys(path) == []
        with pytest.raises(SecretsError, match="does not name"):
            secrets.load(path)
    secrets.rotate(path, "content", both)
    secrets.rotate(path, "signing", both)
    after = secrets.load(path, keys_of(uri))
    for now in (after, file.current):
        assert sealing.unwrap(now, before.content_key_id, "d", wrapped) == b"k" * 32
        assert tamper_seals.is_accepted(now, JOB, seal)
        assert (now.pepper, now.digest_key) == (before.pepper, before.digest_key)
        assert now.signer.public_key() == after.signer.public_key() != before.signer.public_key()
    # Back: what is known comes along; what a token made stays there, and is rotated.
    back = keys_of(f"file {uri}" if uri != "file" else "file")
    secrets.wrap(path, back)
    secrets.rotate(path, "content", back)
    secrets.rotate(path, "signing", back)
    new = secrets.load(path, back)
    assert (new.pepper, new.digest_key, new.job_keys) == (
        before.pepper,
        before.digest_key,
        before.job_keys,
    )


def test_two_that_begin_at_once_make_one_set_of_keys(uri: str, tmp_path: Path) -> None:
    path, said, start = tmp_path / "secrets.json", [], threading.Barrier(4)

    def begin() -> None:
        keys = keys_of(uri)
        start.wait()
        try:
            secrets.create(path, keys)
            said.append("made")
        except SecretsError as error:
            said.append(error.detail)

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(said) == [f"{path} exists already"] * 3 + ["made"]
    assert secrets.load(path, keys_of(uri)).pepper
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".secrets")]
