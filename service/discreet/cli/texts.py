"""Texts of others, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with each control character replaced by `?`: a terminal would obey it."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
