"""Texts of others on their way to a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """A text of others for a terminal, which obeys some characters instead of showing them."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
