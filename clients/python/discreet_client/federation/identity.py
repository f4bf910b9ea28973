"""The long-term Ed25519 key of an agent or of an owner, in a file of mode 0600 (PEM, PKCS #8)."""

from __future__ import annotations

import os
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

from discreet_client.federation.errors import BadIdentity
from discreet_client.federation.files import sync_folder
from discreet_client.federation.signing import fingerprint


class Identity:
    """Signs; `fingerprint` is what others know it by."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.fingerprint = fingerprint(self.public_key)

    @classmethod
    def generate(cls) -> Identity:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def open(cls, path: Path) -> Identity:
        """The key in this file, made on first use. BadIdentity when others can read it, or it is of
        another kind."""
        try:
            return cls._load(path)
        except FileNotFoundError:
            pass
        made = cls.generate()
        pem = made._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(file, "wb") as stream:
                stream.write(pem)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(draft, path)  # never replaces a key: of two that start at once, one wins
            sync_folder(path.parent)
        except FileExistsError:
            return cls._load(path)
        finally:
            draft.unlink(missing_ok=True)
        return made

    @classmethod
    def _load(cls, path: Path) -> Identity:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise BadIdentity(f"{path} must be readable by its owner alone (chmod 600)")
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except (ValueError, TypeError) as error:
            raise BadIdentity(f"{path} holds no key that can be read") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise BadIdentity(f"{path} holds no Ed25519 key")
        return cls(key)

    @property
    def private_key(self) -> Ed25519PrivateKey:
        """For protocols in which agents sign for each other."""
        return self._key

    def sign(self, statement: bytes) -> bytes:
        return self._key.sign(statement)
