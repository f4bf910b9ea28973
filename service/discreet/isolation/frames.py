"""What worker and child say to each other: frames of a JSON header and bytes. Nothing is unpickled on either side."""

from __future__ import annotations

import json
import struct
from typing import Any

HEADER = struct.Struct("!IQ")
"""Lengths of the JSON header and of the payload."""

OUT_OF_MEMORY = 12
"""Exit status of a child that met its memory limit. Any other but 0 is an error that nobody foresaw."""

MAX_HEADER_BYTES = 1 << 28
MAX_PAYLOAD_BYTES = 1 << 34


def frame(header: dict[str, Any], payload: bytes | bytearray = b"") -> bytes:
    text = json.dumps(header).encode()
    return HEADER.pack(len(text), len(payload)) + text + payload


def lengths(prefix: bytes) -> tuple[int, int]:
    """ValueError for lengths that no honest child sends."""
    header, payload = HEADER.unpack(prefix)
    if header > MAX_HEADER_BYTES or payload > MAX_PAYLOAD_BYTES:
        raise ValueError("a frame over its limit")
    return header, payload
