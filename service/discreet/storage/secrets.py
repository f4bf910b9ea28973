"""The secrets of one installation: a JSON file of mode 0600, one key for each purpose.

Each purpose has a key of its own, so that one can be rotated without the others. Content keys are a list: the first
one seals, all of them open, so that a rotation needs no downtime.
"""

from __future__ import annotations

import base64
import json
import os
import secrets as random
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import DiscreetError

KEY_BYTES = 32


class SecretsError(DiscreetError):
    """The secrets file cannot be used."""

    code = "secrets"


@dataclass(frozen=True, repr=False)
class Secrets:
    """Keys by purpose, 32 bytes each.

    `content_keys` seal datasets and releases (AES-256-GCM), `digest_key` names a dataset by its content, `pepper`
    is under every stored API key, `signing_key` (Ed25519 seed) signs certificates and ledger heads.
    """

    content_keys: dict[str, bytes]
    content_key_id: str
    digest_key: bytes
    pepper: bytes
    signing_key: bytes

    def __repr__(self) -> str:
        return "Secrets(…)"

    @property
    def signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing_key)


def create(path: Path) -> None:
    """Write a new secrets file; refuses to replace one."""

    def key() -> str:
        return base64.urlsafe_b64encode(random.token_bytes(KEY_BYTES)).decode()

    body = {
        "version": 1,
        "content_keys": [{"id": random.token_hex(4), "key": key()}],
        "digest_key": key(),
        "pepper": key(),
        "signing_key": key(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written whole beside its place and linked into it: a crash leaves either no secrets or all of them.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(body, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError as error:
        raise SecretsError(f"{path} exists already") from error
    finally:
        draft.unlink(missing_ok=True)


def load(path: Path) -> Secrets:
    """Read the secrets file; refuses one that others can read."""
    try:
        mode = path.stat().st_mode
        body = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise SecretsError(f"there is no secrets file at {path}; `discreet up` makes one") from error
    except ValueError as error:
        raise SecretsError(f"{path} is not JSON") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SecretsError(f"{path} must be readable by its owner alone (chmod 600)")
    try:
        keys = {entry["id"]: _key(entry["key"]) for entry in body["content_keys"]}
        return Secrets(
            content_keys=keys,
            content_key_id=body["content_keys"][0]["id"],
            digest_key=_key(body["digest_key"]),
            pepper=_key(body["pepper"]),
            signing_key=_key(body["signing_key"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise SecretsError(f"{path} is not a secrets file of this version") from error


def _key(text: str) -> bytes:
    key = base64.urlsafe_b64decode(text)
    if len(key) != KEY_BYTES:
        raise ValueError("wrong length")
    return key
