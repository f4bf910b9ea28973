"""How the reader of strict JSON builds numbers and objects, and refuses keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from discreet.errors import FieldIssue, InvalidInput, Limit
from discreet.intake.field_issues import place
from discreet.intake.unstorable import Path

MOST_MEMBERS = 10_000
"""The most members of one object. No sensible body has as many."""
WIDEST = 4
"""Bytes of each character of a text that has one beyond the basic multilingual plane."""


class Number(float):
    """A float that keeps the text it was read from."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


class Repeated(dict[str, Any]):
    """An object with a duplicate key."""

    key: str


class TooMany(ValueError):
    """An object with too many members."""


def size_of(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def width_of(part: bytes) -> int:
    """The most bytes that a character of its texts may take."""
    return 1 if part.isascii() and b"\\u" not in part else WIDEST


def is_zero(text: str) -> bool:
    return not text.lower().partition("e")[0].strip("-0.")


def stands_twice(found: Iterable[tuple[Path, str]]) -> InvalidInput:
    says = "this key appears twice"
    return InvalidInput(
        (FieldIssue(*place((*path, key), says)) for path, key in found), code="invalid_json"
    )


def too_many_members() -> InvalidInput:
    limit = Limit("json_members", "members of one object", MOST_MEMBERS)
    return InvalidInput(
        f"an object may have {MOST_MEMBERS} members", code="invalid_json", limit=limit
    )
