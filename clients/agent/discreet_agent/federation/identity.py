"""The long-term Ed25519 key of an agent or of an owner, in a file of mode 0600 (PEM, PKCS #8)."""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from discreet_agent.federation.errors import BadIdentity
from discreet_agent.federation.files import write_private
from discreet_agent.federation.signing import fingerprint


class Identity:
    """A private key that signs; `fingerprint` is the name by which others know it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.fingerprint = fingerprint(self.public_key)

    @classmethod
    def generate(cls) -> Identity:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def open(cls, path: Path) -> Identity:
        """The key in this file, generated on first use. BadIdentity if others can read the file, or
        it does not hold an Ed25519 key."""
        try:
            return cls._load(path)
        except FileNotFoundError:
            pass
        made = cls.generate()
        pem = made._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            write_private(path, pem, replace=False)
        except FileExistsError:
            return cls._load(path)
        return made

    @classmethod
    def _load(cls, path: Path) -> Identity:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise BadIdentity(f"{path} must be readable by its owner only (chmod 600)")
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError) as error:
            raise BadIdentity(f"{path} does not hold a readable key") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise BadIdentity(f"{path} does not hold an Ed25519 key")
        return cls(key)

    @property
    def private_key(self) -> Ed25519PrivateKey:
        """The key itself, for protocols in which agents sign messages to each other."""
        return self._key

    def sign(self, statement: bytes) -> bytes:
        return self._key.sign(statement)
