"""Places for keys that are refused, wrong, altered or away: what a process says, and what it does
not do."""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pkcs11
import pytest
from pkcs11 import Attribute, KeyType, MechanismFlag, ObjectClass

from discreet.storage import sealing, secrets
from discreet.storage.keys import aws_kms, token_session
from discreet.storage.keys import token as token_keys
from discreet.storage.keys.provider import KeysUnavailable, SecretsError
from discreet.storage.secrets import SecretsFile
from tests.conftest import eventually
from tests.keys.places import PIN, Kms, SoftToken, new_key
from tests.keys.test_providers import keys_of


def a_file(place: Path, uri: str) -> Path:
    """A new secrets file whose keys are in this place."""
    path = place / "secrets.json"
    secrets.create(path, keys_of(uri))
    return path


# A token ------------------------------------------------------------------------------------------


def test_a_token_that_is_taken_away_and_comes_back(token: SoftToken, tmp_path: Path) -> None:
    path = a_file(tmp_path, token.uri())
    file = SecretsFile(path, keys_of(token.uri()))
    found = file.current
    wrapped = sealing.wrap(found, "d", b"k" * 32)
    file.check()
    token.remove()
    for what in (
        lambda: sealing.unwrap(found, found.content_key_id, "d", wrapped),
        lambda: sealing.wrap(found, "d", b"k" * 32),
        lambda: sealing.seal_whole(found, "s", b"plain"),
        lambda: found.signer.sign(b"body"),
        file.check,
        lambda: secrets.rotate(path, "content", file.keys),
    ):
        with pytest.raises(
            KeysUnavailable, match=r"token discreet does not answer \(\w+\); nothing was done"
        ):
            what()
    assert file.current is found  # what every request needs is in memory
    token.put_back()
    assert sealing.unwrap(found, found.content_key_id, "d", wrapped) == b"k" * 32
    found.signer.public_key().verify(found.signer.sign(b"body"), b"body")
    file.check()


def test_a_process_that_starts_without_its_token_waits_for_it(
    token: SoftToken, tmp_path: Path
) -> None:
    path = a_file(tmp_path, token.uri())
    token.remove()
    file = SecretsFile(path, keys_of(token.uri()))
    for what in (lambda: file.current, file.check):
        with pytest.raises(KeysUnavailable, match="does not answer"):
            what()
    token.put_back()
    assert eventually(lambda: _is_open(file), "the keys are open")
    file.check()


def _is_open(file: SecretsFile) -> bool:
    try:
        return bool(file.current.pepper)
    except KeysUnavailable:
        return False


def test_a_token_that_fails_in_every_call_has_altered_nothing(
    token: SoftToken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SoftHSM2 says the same of a wrong tag as of itself: of what was altered alone it may be taken
    for that. A job would fail for good."""
    found = SecretsFile(a_file(tmp_path, token.uri()), keys_of(token.uri())).current
    wrapped = sealing.wrap(found, "d", b"k" * 32)

    def broken(*_: object) -> bytes:
        raise pkcs11.GeneralError

    monkeypatch.setattr(token_keys, "gcm", broken)
    with pytest.raises(KeysUnavailable, match="GeneralError"):
        sealing.unwrap(found, found.content_key_id, "d", wrapped)


def test_a_wrong_pin_is_said_once_to_the_token(
    token: SoftToken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_file(tmp_path, token.uri())
    pkcs11.lib(token.module).reinitialize()  # nobody is logged in, as in another process
    logins: list[object] = []
    login = token_session.TokenSession._login

    def counted(self: Any, writes: bool) -> Any:
        logins.append(self)
        return login(self, writes)

    monkeypatch.setattr(token_session.TokenSession, "_login", counted)
    wrong = keys_of(token.uri(), "11111111")
    for _ in range(3):
        with pytest.raises(
            SecretsError, match="the token discreet does not take the PIN"
        ) as refused:
            secrets.load(path, wrong)
        assert "11111111" not in repr(refused.value)
    assert len(logins) == 1
    with pytest.raises(SecretsError, match="does not take the PIN"):
        SecretsFile(path, wrong)  # no process runs on with that
    for flag in (pkcs11.TokenFlag.USER_PIN_FINAL_TRY, pkcs11.TokenFlag.USER_PIN_LOCKED):

        class Warned:
            flags = flag

        library = type("Library", (), {"get_token": lambda *_, **__: Warned})()
        monkeypatch.setattr(token_session, "_library", lambda _, found=library: found)
        with pytest.raises(SecretsError, match="is not made: log in once by hand"):
            secrets.load(path, keys_of(token.uri()))


def session_of(token: SoftToken) -> Any:
    found = pkcs11.lib(token.module).get_token(token_label="discreet")
    try:
        return found.open(rw=True, user_pin=PIN)
    except pkcs11.UserAlreadyLoggedIn:  # as the service in this process is
        return found.open(rw=True)


def test_keys_that_are_missing_or_not_what_they_should_be(token: SoftToken, tmp_path: Path) -> None:
    path = a_file(tmp_path, token.uri())
    good = json.loads(path.read_text())
    file = SecretsFile(path, keys_of(token.uri()))
    found = file.current
    master = good["content_keys"][0]["key"]
    wrong = {
        "aes": os.urandom(16),
        "short": os.urandom(16),
        "open": os.urandom(16),
        "none": os.urandom(16),
    }
    with session_of(token) as session:
        uses = MechanismFlag.ENCRYPT | MechanismFlag.DECRYPT
        kept = {Attribute.SENSITIVE: True, Attribute.EXTRACTABLE: False}
        session.generate_key(
            KeyType.AES, 128, id=wrong["short"], store=True, capabilities=uses, template=kept
        )
        readable = {Attribute.SENSITIVE: False, Attribute.EXTRACTABLE: True}
        session.generate_key(
            KeyType.AES, 256, id=wrong["open"], store=True, capabilities=uses, template=readable
        )
    signing = good["signing_key"]
    of_signing = signing.partition("id=")[2].partition(";")[0]

    def named(text: str, key_id: bytes) -> str:
        begin, _, rest = text.partition("id=")
        return f"{begin}id={''.join(f'%{byte:02X}' for byte in key_id)};{rest.partition(';')[2]}"

    for body, why in (
        (
            {"content_keys": [{"id": "a", "key": named(master, wrong["none"])}]},
            "has no key with the id",
        ),
        (
            {"content_keys": [{"id": "a", "key": named(master, wrong["short"])}]},
            "not an AES key of 256 bits",
        ),
        (
            {"content_keys": [{"id": "a", "key": named(master, wrong["open"])}]},
            "can be read out of it",
        ),
        (
            {"content_keys": [{"id": "a", "key": master.replace(master[16:40], "")}]},
            "without its id|no key|does not name",
        ),
        (
            {
                "content_keys": [
                    {"id": "a", "key": f"pkcs11:token=discreet;id={of_signing};type=secret-key"}
                ]
            },
            "has no key",
        ),
        ({"signing_key": named(signing, wrong["short"])}, "has no key with the id"),
        (
            {"signing_key": signing.replace("token=discreet", "token=another")},
            "that DISCREET_KEYS does not name",
        ),
        ({"pepper": master}, "where only wrapped keys may"),
    ):
        path.write_text(json.dumps({**good, **body}))
        with pytest.raises(SecretsError, match=why):
            secrets.load(path, keys_of(token.uri()))
    path.write_text(json.dumps(good))

    # A key that goes while the service runs: nothing fails for good, for it may come back.
    wrapped = sealing.wrap(found, "d", b"k" * 32)
    with session_of(token) as session:
        for one in session.get_objects(
            {Attribute.CLASS: ObjectClass.SECRET_KEY, Attribute.LABEL: "discreet content"}
        ):
            one.destroy()
    with pytest.raises(KeysUnavailable, match="has no key with the id"):
        sealing.unwrap(found, found.content_key_id, "d", wrapped)
    with pytest.raises(KeysUnavailable, match="has no key with the id"):
        file.check()
    found.signer.sign(b"body")


def test_no_master_key_can_be_read_out_of_the_token(token: SoftToken, tmp_path: Path) -> None:
    a_file(tmp_path, token.uri())
    with session_of(token) as session:
        found = [*session.get_objects({Attribute.CLASS: ObjectClass.SECRET_KEY})]
        found += session.get_objects({Attribute.CLASS: ObjectClass.PRIVATE_KEY})
        assert len(found) == 3  # wraps the file's, content, signing
        for key in found:
            with pytest.raises(pkcs11.PKCS11Error):
                _ = key[Attribute.VALUE]
            assert (key[Attribute.SENSITIVE], key[Attribute.EXTRACTABLE], key[Attribute.LOCAL]) == (
                True,
                False,
                True,
            )


def test_a_call_that_hangs_holds_up_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_session, "CALL_SECONDS", 0.2)
    line, released = token_session.Line(), threading.Event()
    with pytest.raises(KeysUnavailable, match="gives no answer within"):
        line.ask(lambda: released.wait(30))
    monkeypatch.setattr(token_session, "CALL_SECONDS", 30)  # who comes then does not wait at all
    with pytest.raises(KeysUnavailable, match="a call to it hangs"):
        line.ask(lambda: 1)
    released.set()
    assert eventually(lambda: _asked(line) == 1, "the thread goes on")


def _asked(line: token_session.Line) -> int | None:
    try:
        return line.ask(lambda: 1)
    except KeysUnavailable:
        return None


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("", "names no place"),
        ("vault:secret", "none for keys; choose file, pkcs11"),
        ("pkcs11:token=discreet", "module-path"),
        ("pkcs11:object=x?module-path=/x", "token=LABEL"),
        ("pkcs11:token=x?module-path=/x&pin-value=1234", "and nothing else"),
        (
            "pkcs11:token=x?module-path=/x&pin-source=/nowhere",
            "the PIN of the token cannot be read from the file",
        ),
        ("awskms:alias/x", "awskms:///KEY"),
        ("awskms:///", "awskms:///KEY"),
        ("awskms:///alias/x?regoin=eu-west-1", "awskms:///KEY"),
    ],
)
def test_settings_that_are_no_place(uri: str, why: str) -> None:
    with pytest.raises(SecretsError, match=why) as refused:
        keys_of(uri)
    assert "1234" not in refused.value.detail


def test_a_token_needs_its_library_and_a_pin(tmp_path: Path) -> None:
    with pytest.raises(SecretsError, match="DISCREET_KEYS_PIN"):
        keys_of("pkcs11:token=x?module-path=/x", None)
    keys = keys_of("pkcs11:token=x?module-path=/nowhere/lib.so")
    with pytest.raises(
        SecretsError, match=r"library of the token, /nowhere/lib\.so, cannot be loaded"
    ):
        secrets.create(tmp_path / "secrets.json", keys)
    assert not (tmp_path / "secrets.json").exists()


# AWS KMS ------------------------------------------------------------------------------------------


def test_kms_that_is_away_is_waited_for(
    aws: Kms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    file = SecretsFile(path, keys_of(uri))
    before = file.current
    wrapped = sealing.wrap(before, "d", b"k" * 32)
    monkeypatch.setattr(aws_kms, "ATTEMPTS", 1)
    for mode, why in (
        ("gone", r"AWS KMS does not answer \(decrypt: \w+\); nothing was done, try again"),
        ("ThrottlingException", r"gives no key now \(decrypt: ThrottlingException\)"),
        ("KMSInternalException", r"gives no key now \(decrypt: KMSInternalException\)"),
        ("KeyUnavailableException", r"gives no key now \(decrypt: KeyUnavailableException\)"),
    ):
        aws.mode = mode
        # What is open stays open, without any call.
        asked = aws.asked.total()
        assert sealing.unwrap(file.current, before.content_key_id, "d", wrapped) == b"k" * 32
        file.current.signer.sign(b"body")
        file.check()
        assert aws.asked.total() == asked
        late = SecretsFile(path, keys_of(uri))
        for what in (lambda found=late: found.current, late.check):
            with pytest.raises(KeysUnavailable, match=why):
                what()
        with pytest.raises(KeysUnavailable):
            secrets.rotate(path, "content", late.keys)
        aws.mode = "open"
        assert eventually(lambda found=late: _is_open(found), "the keys are open")
        assert late.current.pepper == before.pepper
        late.check()


def test_kms_that_says_nothing_is_given_up(
    aws: Kms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws_kms, "READ_SECONDS", 0.2)
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    aws.mode = "silent"
    aws.asked.clear()
    with pytest.raises(KeysUnavailable, match="ReadTimeoutError"):
        secrets.load(path, keys_of(uri))
    assert aws.asked["Decrypt"] == aws_kms.ATTEMPTS


def test_kms_that_refuses_starts_nothing(aws: Kms, tmp_path: Path) -> None:
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    keys = keys_of(uri)
    for code, why in (
        ("AccessDeniedException", "does not allow this service to use the key"),
        ("DisabledException", "the key is disabled"),
        ("KMSInvalidStateException", r"is it to be deleted\?"),
        ("NotFoundException", "knows no such key"),
    ):
        aws.mode = code
        with pytest.raises(SecretsError, match=why):
            SecretsFile(path, keys)


def test_a_key_of_the_wrong_type_or_of_another_is_refused(aws: Kms, tmp_path: Path) -> None:
    signing = aws.uri(new_key(aws, "ECC_NIST_P256", "SIGN_VERIFY"))
    with pytest.raises(SecretsError, match="AWS KMS"):
        a_file(tmp_path, signing)
    assert not (tmp_path / "secrets.json").exists()
    mine, other = aws.uri(new_key(aws)), aws.uri(new_key(aws))
    path = a_file(tmp_path, mine)
    with pytest.raises(SecretsError, match="does not name"):
        secrets.load(path, keys_of(other))
    # Between two keys of KMS as between two places.
    secrets.wrap(path, keys_of(f"{other} {mine}"))
    assert secrets.load(path, keys_of(other)).pepper


def test_a_rotation_that_this_process_cannot_follow_writes_nothing_under_a_retired_key(
    aws: Kms, tmp_path: Path
) -> None:
    uri = aws.uri(new_key(aws))
    path = a_file(tmp_path, uri)
    file = SecretsFile(path, keys_of(uri))
    old = file.current.content_key_id
    secrets.rotate(path, "content", keys_of(uri))
    aws.mode = "gone"
    assert file.current.content_key_id == old  # still named
    with pytest.raises(KeysUnavailable, match="KMS does not answer"):
        file.check()
    secrets.retire(path, "content", old)
    assert old not in file.current.content_keys
    for what in (
        lambda: sealing.wrap(file.current, "d", b"k" * 32),
        lambda: sealing.seal_whole(file.current, "s", b""),
    ):
        with pytest.raises(KeysUnavailable, match="could not be opened yet"):
            what()
    aws.mode = "open"
    assert eventually(lambda: file.current.content_key_id not in ("", old), "the new key is used")
    assert sealing.wrap(file.current, "d", b"k" * 32)
    file.check()


def test_no_key_is_written_anywhere(
    aws: Kms, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not into logs of debugging, nor into what KMS is told of besides, nor kept after it was
    retired."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("botocore").setLevel(logging.DEBUG)
    uri = aws.uri(new_key(aws))
    keys = keys_of(uri)
    path = a_file(tmp_path, uri)
    file = SecretsFile(path, keys)
    found = file.current
    spellings = [
        spelt
        for key in (found.pepper, found.digest_key, *found.job_keys.values())
        for spelt in (
            key.hex(),
            base64.b64encode(key).decode(),
            base64.urlsafe_b64encode(key).decode(),
            repr(key),
        )
    ]
    said = caplog.text + repr(found) + repr(keys) + repr(file) + path.read_text()
    assert not [one for one in spellings if one in said]
    contexts = [
        json.loads(body)["EncryptionContext"] for body in aws.bodies if b"EncryptionContext" in body
    ]
    assert {tuple(one.values()) for one in contexts} == {
        ("discreet", purpose) for purpose in ("content", "jobs", "pepper", "digest", "signing")
    }
    secrets.rotate(path, "content", keys)
    kept = len(keys._opened)
    secrets.retire(path, "content", found.content_key_id)
    assert len(file.current.content_keys) == 1
    assert len(keys._opened) == kept - 1
