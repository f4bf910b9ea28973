"""Messages between a process and its child: frames of a JSON header and a payload of bytes. Nothing
is unpickled on either side."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

HEADER = struct.Struct("!IQ")
"""Lengths of the JSON header and of the payload."""

OUT_OF_MEMORY = 12
"""Exit status of a child that met its memory limit. Any other status but 0 is an unexpected
error."""

MAX_HEADER_BYTES = 1 << 28
MAX_PAYLOAD_BYTES = 1 << 34


def frame(header: dict[str, Any], payload: bytes | bytearray = b"") -> bytes:
    text = json.dumps(header).encode()
    return HEADER.pack(len(text), len(payload)) + text + payload


def lengths(prefix: bytes, most: int = MAX_HEADER_BYTES + MAX_PAYLOAD_BYTES) -> tuple[int, int]:
    """The lengths of header and payload from the first `HEADER.size` bytes of a frame. ValueError
    where one is over its limit, or the frame has more than `most` bytes."""
    header, payload = HEADER.unpack(prefix)
    if (
        header > MAX_HEADER_BYTES
        or payload > MAX_PAYLOAD_BYTES
        or HEADER.size + header + payload > most
    ):
        raise ValueError("the frame is larger than its limit")
    return header, payload


def send(
    channel: socket.socket, header: dict[str, Any], payload: bytes | bytearray | memoryview = b""
) -> None:
    """Send a frame without a copy of its payload."""
    text = json.dumps(header).encode()
    channel.sendall(HEADER.pack(len(text), len(payload)) + text)
    channel.sendall(payload)


def receive(channel: socket.socket) -> tuple[dict[str, Any], bytes]:
    """Wait for a frame; EOFError when the other side is gone."""
    header, payload = lengths(_exactly(channel, HEADER.size))
    return json.loads(_exactly(channel, header)), _exactly(channel, payload)


def _exactly(channel: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = channel.recv_into(view)
        if count == 0:
            raise EOFError
        view = view[count:]
    return bytes(buffer)
