"""The keyed name of a content: a plain digest would tell whoever holds a guess of the data whether
it is right."""

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
