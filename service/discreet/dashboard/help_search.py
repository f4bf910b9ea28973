"""Search in the documentation: sections that contain all words, best matches first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from discreet.dashboard import handbook

MOST_FOUND, MOST_WORDS, MOST_COUNTED = 20, 8, 10
AROUND = 80
"""Characters before and after the first word found."""

BEGINNING = r"(?<![^\W_])"
"""The beginning of a word: no letter or digit before it, so `policy_value` has two."""


@dataclass(frozen=True)
class Found:
    """A section, and its text around the first word found, in pieces: each with whether it is a
    word that was asked for."""

    address: str
    page: str
    section: str
    excerpt: tuple[tuple[str, bool], ...]


def search(asked: str) -> list[Found]:
    """The sections of all pages that have every word asked for, as a word or as the beginning of
    one."""
    words = [
        re.compile(f"{BEGINNING}{re.escape(word)}", re.IGNORECASE)
        for word in asked.split()[:MOST_WORDS]
    ]
    if not words:
        return []
    marks = re.compile("(" + "|".join(word.pattern for word in words) + ")", re.IGNORECASE)
    found: list[tuple[int, Found]] = []
    for name in handbook.names():
        page = handbook.page(name)
        for section in page.sections:
            if not all(word.search(section.title) or word.search(section.text) for word in words):
                continue
            # A word in a heading outweighs any number of them in the text.
            weight = sum(100 for word in words if word.search(section.title))
            weight += sum(
                1 for word in words for _ in islice(word.finditer(section.text), MOST_COUNTED)
            )
            address = f"{handbook.address(name)}#{section.anchor}"
            found.append(
                (weight, Found(address, page.title, section.title, _excerpt(section.text, marks)))
            )
    found.sort(key=lambda one: -one[0])
    return [one for _, one in found[:MOST_FOUND]]


def _excerpt(text: str, marks: re.Pattern[str]) -> tuple[tuple[str, bool], ...]:
    first = marks.search(text)
    middle = 0 if first is None else first.start()
    start, end = max(0, middle - AROUND), middle + AROUND
    cut = f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
    return tuple((piece, bool(place % 2)) for place, piece in enumerate(marks.split(cut)) if piece)
