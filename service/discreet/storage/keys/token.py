"""Keys in a PKCS#11 token: an HSM, a smart card, SoftHSM2.

    pkcs11:token=LABEL;object=NAME?module-path=LIBRARY     in DISCREET_KEYS (RFC 7512)
    pkcs11:token=LABEL;id=%AB%CD;type=secret-key           in the secrets file: a master key
    pkcs11:token=LABEL;id=%AB%CD;type=private              a signing key
    pkcs11:token=LABEL;id=%AB%CD;type=secret-key BASE64    a key wrapped by the one with this id

Master keys (AES-256) and signing keys (Ed25519) are made in the token, sensitive and not
extractable, and are used there: CKM_AES_GCM wraps and unwraps data keys, CKM_EDDSA signs. The other
keys, of MACs that every request needs, lie in the secrets file, wrapped by the token's key NAME,
and are opened into memory once."""

from __future__ import annotations

import base64
import binascii
import os
import secrets as random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes, urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pkcs11 import Attribute, Mechanism, ObjectClass

from discreet.ledger.entries import Signer
from discreet.storage.keys.provider import (
    KEY_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    WRAPPED_BYTES,
    KeyProvider,
    KeysUnavailable,
    MasterKey,
    Purpose,
    SecretsError,
)
from discreet.storage.keys.token_objects import (
    MAY_BE_ALTERED,
    checked_key,
    find_key,
    gcm,
    key_object,
    make_aes,
    make_ed25519,
    public_key_of,
)
from discreet.storage.keys.token_session import Session, TokenSession

WRAPPING_LABEL = "discreet"

Answer = TypeVar("Answer")


class TokenKeys(KeyProvider):
    """One token, as one user."""

    name = "pkcs11"

    def __init__(self, session: TokenSession, wrapping_label: str = WRAPPING_LABEL) -> None:
        self._session, self._label = session, wrapping_label
        self._used: dict[bytes, ObjectClass] = {}

    @classmethod
    def at(cls, uri: str, pin: str | None) -> TokenKeys:
        """By its URI; the PIN is the setting's, or stands in the file that `pin-source` names.
        SecretsError where one of them is missing."""
        path, query = _parts(uri)
        strange = (set(path) - {"token", "object"}) | (set(query) - {"module-path", "pin-source"})
        if strange or "token" not in path or "module-path" not in query:
            raise SecretsError(
                "DISCREET_KEYS: pkcs11:token=LABEL?module-path=LIBRARY is needed, with object=…"
                " before and pin-source=FILE behind where wanted, and nothing else"
            )
        if "pin-source" in query:
            source = Path(query["pin-source"].removeprefix("file:"))
            try:
                pin = source.read_text(encoding="utf-8").rstrip("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise SecretsError(
                    "the PIN of the token cannot be read from the file that pin-source names "
                    f"({type(error).__name__})"
                ) from None
        if not pin:
            raise SecretsError(
                "the token needs a PIN: set DISCREET_KEYS_PIN, or pin-source=FILE in DISCREET_KEYS"
            )
        return cls(
            TokenSession(query["module-path"], path["token"], pin),
            path.get("object", WRAPPING_LABEL),
        )

    def holds(self, text: str) -> bool:
        return (
            text.startswith("pkcs11:")
            and _parts(text.partition(" ")[0])[0].get("token") == self._session.label
        )

    def is_known(self, text: str) -> bool:
        return " " in text

    def lock(self, purpose: Purpose, secret: bytes) -> str:
        key_id = self._session.run(self._wrapping_key, writes=True)
        wrapped = _wrap(self._session, key_id, secret, _about(purpose))
        return f"{self._text(key_id, 'secret-key')} {base64.b64encode(wrapped).decode()}"

    def unlock(self, purpose: Purpose, text: str) -> bytes:
        place, _, wrapped = text.partition(" ")
        if not wrapped:
            raise SecretsError(
                f"a key of the secrets file ({purpose}) is in the token, where only wrapped keys "
                "may be named"
            )
        broken = SecretsError(
            f"a key of the secrets file ({purpose}) cannot be decrypted: it was altered, or "
            "belongs to another installation"
        )
        try:
            secret = _unwrap(
                self._session,
                _id_of(place),
                base64.b64decode(wrapped, validate=True),
                _about(purpose),
            )
        except (InvalidTag, binascii.Error) as error:
            raise broken from error
        if len(secret) != KEY_BYTES:
            raise broken
        return secret

    def new_master_key(self) -> str:
        key_id = self._session.run(
            lambda session: make_aes(session, "discreet content"), writes=True
        )
        return self._text(key_id, "secret-key")

    def new_signing_key(self) -> str:
        return self._text(self._session.run(make_ed25519, writes=True), "private")

    def master_key(self, text: str) -> MasterKey:
        if self.is_known(text):
            return super().master_key(text)
        key = TokenMasterKey(self._session, _id_of(text))
        self._session.run(lambda session: key_object(session, key.key_id, ObjectClass.SECRET_KEY))
        self._used[key.key_id] = ObjectClass.SECRET_KEY
        return key

    def signer(self, text: str) -> Signer:
        if self.is_known(text):
            return super().signer(text)
        key_id = _id_of(text)
        public = self._session.run(lambda session: public_key_of(session, key_id))
        self._used[key_id] = ObjectClass.PRIVATE_KEY
        return TokenSigner(self._session, key_id, public)

    def check(self) -> None:
        """The token must answer, and have the keys that are used there."""
        used = list(self._used.items())
        _at_work(
            self._session,
            lambda session: [find_key(session, key_id, kind) for key_id, kind in used],
        )

    def _wrapping_key(self, session: Session) -> bytes:
        """Id of the key that wraps what lies in the file; made where there is none. Whoever calls
        this has the turn."""
        found = list(
            session.raw.get_objects(
                {Attribute.CLASS: ObjectClass.SECRET_KEY, Attribute.LABEL: self._label}
            )
        )
        if len(found) > 1:
            raise SecretsError(
                f"the token has several keys {self._label}; name another (object=…) or remove them"
            )
        if not found:
            return make_aes(session, self._label)
        return bytes(checked_key(found[0], ObjectClass.SECRET_KEY)[Attribute.ID])

    def _text(self, key_id: bytes, kind: str) -> str:
        label, number = (
            quote_from_bytes(self._session.label.encode(), ""),
            "".join(f"%{byte:02X}" for byte in key_id),
        )
        return f"pkcs11:token={label};id={number};type={kind}"


@dataclass(frozen=True)
class TokenMasterKey:
    """A master key that never leaves its token. Each small content gets a data key of its own,
    which is wrapped there: no content goes through the token."""

    session: TokenSession
    key_id: bytes
    head_bytes: int = WRAPPED_BYTES

    def wrap(self, data_key: bytes, about: bytes) -> bytes:
        return _wrap(self.session, self.key_id, data_key, about)

    def unwrap(self, wrapped: bytes, about: bytes) -> bytes:
        return _unwrap(self.session, self.key_id, wrapped, about)

    def small_cipher(self, about: bytes) -> tuple[bytes, AESGCM]:
        data_key = random.token_bytes(KEY_BYTES)
        return self.wrap(data_key, _small(about)), AESGCM(data_key)

    def open_small(self, head: bytes, about: bytes) -> AESGCM:
        return AESGCM(self.unwrap(head, _small(about)))


@dataclass(frozen=True)
class TokenSigner:
    """An Ed25519 key that never leaves its token (RFC 8032; CKM_EDDSA of PKCS#11 3.0)."""

    session: TokenSession
    key_id: bytes
    _public_key: Ed25519PublicKey

    def sign(self, data: bytes, /) -> bytes:
        def sign(session: Session) -> bytes:
            found = key_object(session, self.key_id, ObjectClass.PRIVATE_KEY)
            return bytes(found.sign(data, mechanism=Mechanism.EDDSA))

        return _at_work(self.session, sign)

    def public_key(self) -> Ed25519PublicKey:
        return self._public_key


def _at_work(session: TokenSession, call: Callable[[Session], Answer]) -> Answer:
    """What it gives. A key that existed when the process began and does not now counts as
    temporarily away: it may come back, and no job fails because of it."""
    try:
        return session.run(call)
    except SecretsError as error:
        raise KeysUnavailable(f"{error.detail}; nothing was done, try again") from error


def _wrap(session: TokenSession, key_id: bytes, secret: bytes, about: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)

    def encrypt(opened: Session) -> bytes:
        return bytes(
            gcm(key_object(opened, key_id, ObjectClass.SECRET_KEY).encrypt, secret, nonce, about)
        )

    return nonce + _at_work(session, encrypt)


def _unwrap(session: TokenSession, key_id: bytes, wrapped: bytes, about: bytes) -> bytes:
    """InvalidTag where it does not open. Tokens say that in many ways, SoftHSM2 as a general error:
    whether the token or what is wrapped is broken is found by wrapping and unwrapping zeros."""
    if len(wrapped) < NONCE_BYTES + TAG_BYTES:
        raise InvalidTag

    def decrypt(opened: Session) -> bytes | None:
        found = key_object(opened, key_id, ObjectClass.SECRET_KEY)
        try:
            return bytes(gcm(found.decrypt, wrapped[NONCE_BYTES:], wrapped[:NONCE_BYTES], about))
        except MAY_BE_ALTERED:
            nonce = os.urandom(NONCE_BYTES)
            probe = gcm(found.encrypt, bytes(KEY_BYTES), nonce, about)
            if bytes(gcm(found.decrypt, bytes(probe), nonce, about)) != bytes(KEY_BYTES):
                raise
            return None

    plain = _at_work(session, decrypt)
    if plain is None:
        raise InvalidTag
    return plain


def _parts(uri: str) -> tuple[dict[str, str], dict[str, str]]:
    """Attributes of the path and of the query (RFC 7512, section 2.3)."""
    parts = urlsplit(uri)
    path, query = (
        {
            name: unquote(value)
            for name, _, value in (item.partition("=") for item in text.split(mark) if item)
        }
        for text, mark in ((parts.path, ";"), (parts.query, "&"))
    )
    return path, query


def _id_of(text: str) -> bytes:
    ids = [item[3:] for item in urlsplit(text).path.split(";") if item.startswith("id=")]
    if len(ids) != 1:
        raise SecretsError("the secrets file names a key of the token without its id")
    return unquote_to_bytes(ids[0])


def _about(purpose: Purpose) -> bytes:
    return b"discreet/key/v1\0" + purpose.encode()


def _small(about: bytes) -> bytes:
    """What a small content's own key is bound to: no data key of a stream can stand for it."""
    return about + b"\0small"
