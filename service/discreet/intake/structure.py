"""The structure of JSON text without its values: brackets and commas, found in a pass over the
bytes."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"[{")], _STEP[list(b"]}")] = 1, -1
_QUOTE = ord(b'"')


class Structure:
    """Finds the bytes outside of strings in a JSON text that arrives in parts, and their nesting
    levels."""

    def __init__(self) -> None:
        self._inside = self._escaped = False
        self._level = 0

    def take(self, part: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """The bytes of the next part, those in strings set to 0, and the nesting level after each
        byte."""
        plain = b"_" + part[1:] if self._escaped and part else part
        if b"\\" in plain:
            plain = _ESCAPE.sub(b"__", plain)
        if part:
            self._escaped = plain.endswith(b"\\")
        codes = np.frombuffer(plain, dtype=np.uint8).copy()
        # True from an opening quote on, up to the byte before the closing one.
        inside = np.logical_xor.accumulate(codes == _QUOTE) ^ self._inside
        codes[inside] = 0
        levels = np.cumsum(_STEP[codes], dtype=np.int32) + self._level
        if part:
            self._inside, self._level = bool(inside[-1]), int(levels[-1])
        return codes, levels


def brackets_of(codes: NDArray[np.uint8]) -> bytes:
    return bytes(codes[_STEP[codes] != 0])


def unbalanced(brackets: bytes) -> tuple[int, bytes]:
    """The number of closing brackets whose opening brackets came before, and the opening brackets
    that are left open."""
    size = -1
    while size != len(brackets):
        size = len(brackets)
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    opened = brackets.lstrip(b"]}")
    return size - len(opened), bytes(one for one in opened if one in b"[{")
