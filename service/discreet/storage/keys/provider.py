"""What a place for keys can do. There is one class for each place; no other code asks which it
is."""

from __future__ import annotations

import base64
import binascii
import os
import secrets as random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.errors import DiscreetError, Unavailable
from discreet.ledger.entries import Signer

if TYPE_CHECKING:
    pass


KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
WRAPPED_BYTES = NONCE_BYTES + KEY_BYTES + TAG_BYTES
"""A data key under a master key."""

Purpose = Literal["content", "jobs", "pepper", "digest", "signing"]
"""What a key is for. A wrapped key opens for its own purpose only: none can be put in the place of
another."""


class SecretsError(DiscreetError):
    """The secrets file cannot be used."""

    code = "secrets"


class KeysUnavailable(Unavailable):
    """The place where keys lie does not answer; nothing was done, try again."""

    code = "keys_unavailable"


class MasterKey(Protocol):
    """Wraps data keys (AES-256-GCM). Where it lies is its provider's business.

    `about` is bound to what is wrapped. InvalidTag where something does not open, KeysUnavailable
    where nobody can tell now."""

    @property
    def head_bytes(self) -> int:
        """How much stands before a small content, to open it with."""

    def wrap(self, data_key: bytes, about: bytes) -> bytes:
        """WRAPPED_BYTES: nonce, sealed key, tag."""

    def unwrap(self, wrapped: bytes, about: bytes) -> bytes: ...

    def small_cipher(self, about: bytes) -> tuple[bytes, AESGCM]:
        """The head of a new small content, and the cipher that seals it with random nonces."""

    def open_small(self, head: bytes, about: bytes) -> AESGCM:
        """The cipher of a small content by its head."""


@dataclass(frozen=True)
class LocalMasterKey:
    """A master key in this process's memory."""

    key: bytes = field(repr=False)
    head_bytes: int = field(default=0, init=False, repr=False)

    def wrap(self, data_key: bytes, about: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(self.key).encrypt(nonce, data_key, about)

    def unwrap(self, wrapped: bytes, about: bytes) -> bytes:
        return AESGCM(self.key).decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], about)

    def small_cipher(self, about: bytes) -> tuple[bytes, AESGCM]:
        return b"", AESGCM(self.key)

    def open_small(self, head: bytes, about: bytes) -> AESGCM:
        return AESGCM(self.key)


class KeyProvider(ABC):
    """One place for keys. A place that only wraps says `lock` and `unlock`: its keys are opened
    into memory, and stay there as long as the process lives. One that can use keys where they lie
    says more."""

    name: str
    """Its name for people."""

    @abstractmethod
    def holds(self, text: str) -> bool:
        """Whether this place made the text. KeysUnavailable where that cannot be told now."""

    @abstractmethod
    def lock(self, purpose: Purpose, secret: bytes) -> str:
        """The text of a secret that is known here."""

    @abstractmethod
    def unlock(self, purpose: Purpose, text: str) -> bytes:
        """The secret of a text. SecretsError where it does not open (altered, of another purpose,
        its key gone) or may not be opened, KeysUnavailable where the place does not answer."""

    def is_known(self, text: str) -> bool:
        """Whether `unlock` can tell the secret; not of a key that never leaves its place."""
        return True

    def new_secret(self, purpose: Purpose) -> str:
        return self.lock(purpose, random.token_bytes(KEY_BYTES))

    def new_master_key(self) -> str:
        return self.new_secret("content")

    def new_signing_key(self) -> str:
        return self.new_secret("signing")

    def master_key(self, text: str) -> MasterKey:
        return LocalMasterKey(self.unlock("content", text))

    def signer(self, text: str) -> Signer:
        """An Ed25519 key, and the means to sign with it."""
        return Ed25519PrivateKey.from_private_bytes(self.unlock("signing", text))

    def check(self) -> None:
        """DiscreetError where running processes cannot use what lies here."""
        return  # what is opened once, into memory, needs nothing more


# File ---------------------------------------------------------------------------------------------
# Keys in the secrets file itself, unencrypted: only the file's mode and the disk protect them.


class FileKeys(KeyProvider):
    """Keys whose text in the secrets file is the key itself, in base64."""

    name = "file"

    def holds(self, text: str) -> bool:
        return ":" not in text

    def lock(self, purpose: Purpose, secret: bytes) -> str:
        return base64.urlsafe_b64encode(secret).decode()

    def unlock(self, purpose: Purpose, text: str) -> bytes:
        try:
            key = base64.urlsafe_b64decode(text)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise SecretsError(
                f"a key of the secrets file ({purpose}) is not {KEY_BYTES} bytes in base64"
            )
        return key
