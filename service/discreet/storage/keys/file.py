"""Keys in the secrets file itself, unencrypted: only the file's mode and the disk protect them."""

from __future__ import annotations

import base64
import binascii

from discreet.storage.keys.provider import KEY_BYTES, KeyProvider, Purpose, SecretsError


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
