"""Ids with a prefix: 130 random bits in lower-case base 32, so that ids reveal nothing and
cannot be guessed."""

from __future__ import annotations

import secrets
from typing import Literal

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGITS = _ALPHABET.encode() * 8
"""The letter for the last five bits of each byte."""

Prefix = Literal[
    "job", "dst", "acc", "key", "ses", "evt", "ten", "whk", "ask", "per", "src", "read"
]


def id_of(prefix: str, digest: bytes) -> str:
    """The id of a content by its SHA-256: 130 bits of it, so that nobody finds another content of
    the same id."""
    return f"{prefix}_" + digest[:26].translate(_DIGITS).decode()


def new_id(prefix: Prefix) -> str:
    return f"{prefix}_" + secrets.token_bytes(26).translate(_DIGITS).decode()
