"""Texts that cannot be stored: those with NUL or a lone surrogate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

Path = tuple[str | int, ...]
"""Keys and positions from the whole value to one in it."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""NUL and lone surrogates, which no text of the database can hold."""


def walk(values: Iterable[tuple[Path, Any]]) -> Iterator[tuple[Path, Any]]:
    """All values below these, themselves included, in the order of the text, each with its path."""
    waiting = [iter(values)]
    while waiting:
        for path, value in waiting[-1]:
            yield path, value
            if isinstance(value, dict | list):
                waiting.append(_children(path, value))
                break
        else:
            waiting.pop()


def _children(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return (((*path, key), child) for key, child in items)


def unstorable(values: Iterable[tuple[Path, Any]]) -> Iterator[Path]:
    """Paths of texts that no database can hold; for a key, the path of its object."""
    keys: set[Path] = set()
    for path, value in walk(values):
        if path and isinstance(path[-1], str) and _NO_TEXT.search(path[-1]):
            if path[:-1] not in keys:
                keys = {path[:-1]}
                yield path[:-1]
        elif isinstance(value, str) and _NO_TEXT.search(value):
            yield path
