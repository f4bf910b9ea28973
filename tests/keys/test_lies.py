"""Places for keys that lie, trickle or take what they never give back, and processes that die in
the middle of a change: no key is lost, and the sentence is true."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet import private_files
from discreet.storage import sealing, secrets
from discreet.storage.keys import aws_kms, token_session
from discreet.storage.keys.opening import Keys
from discreet.storage.keys.provider import (
    FileKeys,
    KeyProvider,
    KeysUnavailable,
    Purpose,
    SecretsError,
)
from discreet.storage.secrets import SecretsFile
from tests.conftest import eventually
from tests.keys.places import Kms, SoftToken, new_key
from tests.keys.test_failures import _is_open, a_file
from tests.keys.test_providers import clear_keys, keys_of


def answer(**members: Any) -> bytes:
    return json.dumps(members).encode()


NO_ANSWERS = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b'"x"',
    b"<html>log in to the proxy first</html>",
    b'{"Plaintext": "\xff\xfe"}',
    answer(Plaintext=7, KeyId="x"),
    answer(Plaintext="abc", KeyId="x"),
    answer(Plaintext=None, KeyId="x"),
    answer(Plaintext=base64.b64encode(b"k" * 32).decode()),
)


def test_an_answer_that_is_none_of_kms_is_no_fault_of_the_file(aws: Kms, tmp_path: Path) -> None:
    """A proxy's page comes and goes: whoever starts then waits for it."""
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    for body in NO_ANSWERS:
        aws.answer = body
        with pytest.raises(KeysUnavailable, match="an answer that is not one of KMS"):
            secrets.load(path, keys_of(uri))
    late = SecretsFile(path, keys_of(uri))
    with pytest.raises(KeysUnavailable, match="not one of KMS"):
        late.check()
    aws.answer = None
    assert eventually(lambda: _is_open(late), "the keys are open")
    for body in NO_ANSWERS:  # nor is anything made with such answers
        aws.answer = body
        with pytest.raises(KeysUnavailable, match="not one of KMS"):
            secrets.create(tmp_path / "other.json", keys_of(uri))
        with pytest.raises(KeysUnavailable, match="not one of KMS"):
            secrets.rotate(path, "content", keys_of(uri))
    assert {one.name for one in tmp_path.iterdir()} == {"secrets.json"}


def test_what_another_key_has_opened_is_not_taken(aws: Kms, tmp_path: Path) -> None:
    mine, other = new_key(aws), new_key(aws)
    path = a_file(tmp_path, aws.uri(mine))
    for key, size in ((other, 32), (mine, 31)):
        aws.answer = answer(KeyId=key, Plaintext=base64.b64encode(b"k" * size).decode())
        with pytest.raises(
            SecretsError,
            match="cannot be decrypted: it was altered",
        ):
            secrets.load(path, keys_of(aws.uri(mine)))


def test_an_answer_that_trickles_is_given_up(
    aws: Kms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    monkeypatch.setattr(aws_kms, "CALL_SECONDS", 0.3)
    aws.mode = "trickling"
    with pytest.raises(KeysUnavailable, match=r"gives no answer within 0\.3 s \(decrypt\)"):
        secrets.load(path, keys_of(uri))


def test_requests_do_not_wait_for_a_place_that_is_silent(
    aws: Kms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine has rotated, and KMS says nothing: `current` is asked for on event loops."""
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    file = SecretsFile(path, keys_of(uri))
    before = file.current
    secrets.rotate(path, "jobs", keys_of(uri))
    monkeypatch.setattr(secrets, "LATE_SECONDS", 0.1)
    aws.mode = "silent"
    assert file.current is before
    with pytest.raises(KeysUnavailable, match="do not open yet"):
        file.check()
    aws.mode = "open"
    aws.released.set()
    try:
        eventually(lambda: file.current.job_key_id != before.job_key_id, "the new key is used")
    finally:
        aws.released.clear()
    file.check()


def test_a_key_that_was_retired_while_its_place_was_away_leaves_the_memory(
    aws: Kms, tmp_path: Path
) -> None:
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    file = SecretsFile(path, keys_of(uri))
    old = file.current.content_key_id
    secrets.rotate(path, "content", keys_of(uri))
    secrets.retire(path, "content", old)
    aws.mode = "gone"
    with pytest.raises(KeysUnavailable):
        file.check()
    aws.mode = "open"
    eventually(lambda: old != file.current.content_key_id, "the new key is used")
    assert {text for _, text in file.keys._opened} <= secrets.texts(path)


class Box(KeyProvider):
    """A place that wraps under a key in this process, and may lose what it is given."""

    name = "box"

    def __init__(self, keep: Callable[[bytes], bytes] = lambda secret: secret) -> None:
        self._cipher, self._keep = AESGCM(bytes(32)), keep

    def holds(self, text: str) -> bool:
        return text.startswith("box:")

    def lock(self, purpose: Purpose, secret: bytes) -> str:
        nonce = os.urandom(12)
        wrapped = nonce + self._cipher.encrypt(nonce, self._keep(secret), purpose.encode())
        return f"box:{base64.b64encode(wrapped).decode()}"

    def unlock(self, purpose: Purpose, text: str) -> bytes:
        wrapped = base64.b64decode(text.removeprefix("box:"))
        return self._cipher.decrypt(wrapped[:12], wrapped[12:], purpose.encode())


def test_keys_move_only_into_a_place_that_gives_them_back(tmp_path: Path) -> None:
    """Who may encrypt and not decrypt, or a service that loses what it takes: the file would have
    been the last to know the keys."""
    path = tmp_path / "secrets.json"
    secrets.create(path)
    before = path.read_bytes()
    with pytest.raises(SecretsError, match=r"box gives back another key \(digest\)"):
        secrets.wrap(path, Keys(Box(lambda secret: secret[::-1]), FileKeys()))
    assert path.read_bytes() == before


def test_a_key_that_does_not_open_is_never_used(aws: Kms, tmp_path: Path) -> None:
    """KMS takes a new key and gives back what is none."""
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    body = path.read_bytes()
    keys = keys_of(uri)
    asked = keys.maker._client.encrypt  # type: ignore[attr-defined]

    def garbled(**arguments: Any) -> Any:
        return {**asked(**arguments), "CiphertextBlob": os.urandom(120)}

    keys.maker._client.encrypt = garbled  # type: ignore[attr-defined]
    for kind in ("content", "jobs", "pepper", "signing"):
        with pytest.raises((SecretsError, KeysUnavailable)):
            secrets.rotate(path, kind, keys)  # type: ignore[arg-type]
    with pytest.raises((SecretsError, KeysUnavailable)):
        secrets.create(tmp_path / "other.json", keys)
    assert path.read_bytes() == body
    assert not (tmp_path / "other.json").exists()


CHANGES: dict[str, Callable[[Path, Keys], object]] = {
    "wrap": secrets.wrap,
    "content": lambda path, keys: secrets.rotate(path, "content", keys),
    "create": secrets.create,
}
WATCHED = {module.__file__ for module in (secrets, secrets, private_files) if module.__file__}
READS = ("read_document", "_opened", "_places")
"""What changes nothing: no death in it is tried."""


def dies_at(line: int, change: Callable[[], object]) -> bool:
    """Whether a process that is to be killed at this line of the change, counted as it runs, was;
    False where it had ended before."""
    pid = os.fork()
    if pid != 0:
        status = os.waitpid(pid, 0)[1]
        assert status in (0, signal.SIGKILL), "the change itself failed"
        return status != 0
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in WATCHED or frame.f_code.co_name in READS:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    try:
        sys.settrace(trace)
        change()
        os._exit(0)
    except BaseException:
        os._exit(1)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.long
def test_a_death_at_any_line_of_a_change_leaves_all_keys(name: str, tmp_path: Path) -> None:
    """And whoever comes next finishes it, and leaves no key in the clear beside the file."""
    path, box = tmp_path / "secrets.json", Box()
    both = Keys(box, FileKeys())
    if name != "create":
        secrets.create(path)
        before = secrets.load(path)
        wrapped = sealing.wrap(before, "d", b"k" * 32)
        first = path.read_bytes()
    line = 0
    while True:
        line += 1
        if name == "create":
            path.unlink(missing_ok=True)
        else:
            secrets.write_private(path, first.decode())
        died = dies_at(line, lambda: CHANGES[name](path, both))
        if name == "create":
            if not path.exists():
                secrets.create(path, both)
            assert secrets.load(path, both).pepper
        else:
            found = secrets.load(path, both)
            assert sealing.unwrap(found, before.content_key_id, "d", wrapped) == b"k" * 32
            assert before.pepper in found.peppers
            assert before.digest_key == found.digest_key
        secrets.wrap(path, both)
        assert clear_keys(path) == []
        secrets.rotate(path, "jobs", both)  # takes away what the dead one has left
        assert {one.name for one in tmp_path.iterdir()} == {"secrets.json"}
        if not died:
            break
    assert line > 20, "it was killed at many lines"


ROTATES = """
import sys
from pathlib import Path
from tests.keys.test_providers import keys_of
from discreet.storage import secrets
path, uri = Path(sys.argv[1]), sys.argv[2]
for kind in ("content", "jobs", "pepper", "signing"):
    secrets.rotate(path, kind, keys_of(uri))
"""


def test_processes_that_rotate_at_once_in_a_token(token: SoftToken, tmp_path: Path) -> None:
    """While a third one works with its keys, which hears of each."""
    path = a_file(tmp_path, token.uri())
    file = SecretsFile(path, keys_of(token.uri()))
    first = file.current
    wrapped = sealing.wrap(first, "d", b"k" * 32)
    command = [sys.executable, "-c", ROTATES, str(path), token.uri()]
    rotating = [subprocess.Popen(command) for _ in range(2)]
    try:
        while any(one.poll() is None for one in rotating):
            found = file.current
            again = sealing.wrap(found, "d", b"z" * 32)
            assert sealing.unwrap(found, found.content_key_id, "d", again) == b"z" * 32
            found.signer.public_key().verify(found.signer.sign(b"body"), b"body")
            file.check()
    finally:
        for one in rotating:
            one.wait(60)
    assert [one.returncode for one in rotating] == [0, 0]
    last = file.current
    assert sealing.unwrap(last, first.content_key_id, "d", wrapped) == b"k" * 32
    kept = (last.content_keys, last.job_keys, last.peppers, [*last.other_signing_keys, last.signer])
    assert [len(one) for one in kept] == [3, 3, 3, 3]  # type: ignore[arg-type]
    assert first.pepper in last.peppers


def test_a_fork_of_a_process_with_a_token_has_none(
    token: SoftToken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PKCS#11 sessions are no fork's to use. It is told so, and takes nothing from its parent."""
    file = SecretsFile(a_file(tmp_path, token.uri()), keys_of(token.uri()))
    signer = file.current.signer
    signer.sign(b"body")
    with monkeypatch.context() as patched:
        patched.setattr(token_session, "CALL_SECONDS", 0.2)
        pid = os.fork()
        if pid == 0:
            try:
                signer.sign(b"body")
                os._exit(1)
            except KeysUnavailable:
                os._exit(0)
            except BaseException:
                os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
    signer.public_key().verify(signer.sign(b"body"), b"body")
