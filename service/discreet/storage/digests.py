"""The keyed digest of a content: a plain one would confirm a guess of the data."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable


def content_digest(digest_key: bytes, tenant_id: str, canonical: Iterable[bytes]) -> bytes:
    """32 bytes: the same for the same canonical content of the same tenant, however it was sent."""
    mac = hmac.new(digest_key, f"discreet/dataset/v1\0{tenant_id}\0".encode(), hashlib.sha256)
    for part in canonical:
        mac.update(part)
    return mac.digest()
