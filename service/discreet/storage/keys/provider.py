"""What a place for keys can do. There is one class for each place; no other code asks which it
is."""

from __future__ import annotations

import base64
import binascii
import os
import secrets as random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.errors import DiscreetError, Unavailable
from discreet.ledger.entries import Signer

if TYPE_CHECKING:
    from discreet.settings import Settings


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


# Opening ------------------------------------------------------------------------------------------
# The providers of an installation, as `DISCREET_KEYS` names them, and the keys that a process has
# opened.

Opened = TypeVar("Opened")


class Keys:
    """Opens the texts of a secrets file, each once in the life of a process; new keys come from the
    first provider."""

    def __init__(self, *providers: KeyProvider) -> None:
        self.providers = providers
        self._opened: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings) -> Keys:
        """As the settings say. SecretsError where they name no such place, or its library is not
        installed. Nothing is asked of any place yet."""
        places = settings.keys.split()
        if not places:
            raise SecretsError("DISCREET_KEYS names no place for keys")
        return cls(*[_provider(uri, settings.keys_pin) for uri in places])

    @property
    def maker(self) -> KeyProvider:
        """Where new keys are made."""
        return self.providers[0]

    @property
    def name(self) -> str:
        """All places, the first of new keys."""
        return ", ".join(dict.fromkeys(one.name for one in self.providers))

    def provider(self, text: str) -> KeyProvider:
        """The provider of this text; SecretsError if it belongs to none that is named."""
        for one in self.providers:
            if one.holds(text):
                return one
        scheme = text.partition(":")[0] if ":" in text else "file"
        raise SecretsError(
            f"the secrets file has a key of a place ({scheme}) that DISCREET_KEYS does not name"
        )

    def secret(self, purpose: Purpose, text: str) -> bytes:
        return self._once(purpose, text, lambda: self.provider(text).unlock(purpose, text))

    def master_key(self, text: str) -> MasterKey:
        return self._once("master key", text, lambda: self.provider(text).master_key(text))

    def signer(self, text: str) -> Signer:
        return self._once("signer", text, lambda: self.provider(text).signer(text))

    def are_open(self, texts: set[str]) -> bool:
        """Whether these keys can be had without asking any place."""
        with self._lock:
            known = {text for _, text in self._opened}
        return all(":" not in text or text in known for text in texts)

    def forget_others(self, texts: set[str]) -> None:
        """Forget all other keys, so that retired ones leave this process's memory too."""
        with self._lock:
            self._opened = {name: key for name, key in self._opened.items() if name[1] in texts}

    def check(self) -> None:
        """DiscreetError where a place cannot be used that is needed while the service runs."""
        for one in self.providers:
            one.check()

    def _once(self, use: str, text: str, opened: Callable[[], Opened]) -> Opened:
        if ":" not in text:  # it is the key
            return opened()
        with self._lock:
            known: Opened | None = self._opened.get((use, text))
        if known is None:
            known = opened()
            with self._lock:
                self._opened[use, text] = known
        return known


IN_FILE = Keys(FileKeys())
"""Where nothing else is set."""


def _provider(uri: str, pin: str | None) -> KeyProvider:
    scheme = uri.partition(":")[0]
    try:
        if scheme == "pkcs11":
            from discreet.storage.keys.token import TokenKeys  # noqa: PLC0415  of an extra

            return TokenKeys.at(uri, pin)
        if scheme == "awskms":
            from discreet.storage.keys.aws_kms import KmsKeys  # noqa: PLC0415  of an extra

            return KmsKeys.at(uri)
    except ImportError as error:
        extra = {"pkcs11": "pkcs11", "awskms": "kms"}[scheme]
        raise SecretsError(
            f"DISCREET_KEYS names {scheme}:, which needs the extra `discreet[{extra}]`"
        ) from error
    if uri != "file":
        raise SecretsError(
            "DISCREET_KEYS: a place that it names is none for keys; choose file, pkcs11:… or "
            "awskms:///…"
        )
    return FileKeys()
