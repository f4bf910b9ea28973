"""Names that people make.

Those of people in tables are read in a canonical form: a person written in two ways would count as
two people, and two people with the same name as one.

Spaces around a name, the Unicode form of its accents, and the `.0` that spreadsheets append to
whole numbers are ignored. Everything else counts: `007` and `7` are two people.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TOTAL = re.compile(
    r"(sum|summe|total|gesamt|insgesamt|mean|mittel|mittelwert|average|durchschnitt)", re.IGNORECASE
)
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")
_NUMBER = re.compile(r"[+-]?[0-9]*[.,]?[0-9]+([eE][+-]?[0-9]+)?")
_KEPT = 1 << 16
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that are drawn as nothing."""
_JOINERS = "\u200c\u200d"
"""Persian and Indic words need them, and emojis of several parts."""
_FORMULA = "=+-@\t\r\uff1d\uff0b\uff0d\uff20"
"""With these a spreadsheet's formula begins."""


def unseen(name: str) -> str | None:
    """The first character of a name that nobody sees, or that turns about what is seen: a control,
    one of direction, one without width. None if everybody reads the name as it is."""
    if name.isascii() and name.isprintable():
        return None
    for place, letter in enumerate(name):
        if letter in _JOINERS and not name[max(0, place - 1) : place + 2].isascii():
            before, after = name[place - 1 : place], name[place + 1 : place + 2]
            if before > "\x7f" and after > "\x7f" and before not in _JOINERS:
                continue
        is_tag = 0xE0000 <= ord(letter) <= 0xE0FFF
        if unicodedata.category(letter)[0] == "C" or letter in _BLANK or is_tag:
            return letter
        if letter in "\u2028\u2029\u180b\u180c\u180d\u180f":
            return letter
    return None


def spreadsheet_cell(value: Any) -> Any:
    """The value as a cell of a file for spreadsheets: a text that one would take for a formula
    begins with an apostrophe, so that it stays a text. Numbers stay numbers, also in texts."""
    if not isinstance(value, str) or not value.lstrip()[:1] or value.lstrip()[0] not in _FORMULA:
        return value
    return value if _NUMBER.fullmatch(value) else f"'{value}"


@lru_cache(_KEPT)
def name_of(text: str) -> str:
    """The canonical form of a name; empty for spaces only."""
    name = unicodedata.normalize("NFC", text).strip()
    whole = _WHOLE.fullmatch(name)
    return name if whole is None else whole[1]


def names_of(values: NDArray[Any]) -> NDArray[Any]:
    """`name_of` of each, as objects, since NumPy's fixed-width text drops trailing NUL
    characters."""
    return np.fromiter(map(_name, values.tolist()), dtype=object, count=values.size)


def _name(value: Any) -> str:
    if value.__class__ is str and value.isascii() and "." not in value:
        return value.strip()
    return name_of(_text(value))


def totals(names: NDArray[Any]) -> NDArray[np.bool_]:
    """bool[n]: which of these names are those of a total or a mean, as in the last line of a
    spreadsheet, and of nobody."""
    return np.fromiter(
        (_TOTAL.fullmatch(name) is not None for name in names.tolist()), np.bool_, names.size
    )


def blurred(values: NDArray[Any]) -> NDArray[np.bool_]:
    """bool[n]: which of these are floats that may stand for several integers, or for none: two
    people may have become one."""
    if values.dtype.kind == "f":
        beyond: NDArray[np.bool_] = ~(np.abs(values) < _first_blurred(values.dtype))
        return beyond
    if values.dtype.kind != "O":
        return np.zeros(values.size, dtype=np.bool_)
    told = values.tolist()
    if set(map(type, told)) <= {str}:
        return np.zeros(values.size, dtype=np.bool_)
    return np.fromiter(map(_is_blurred, told), dtype=np.bool_, count=values.size)


def _is_blurred(value: Any) -> bool:
    """`blurred` of a Python value or a scalar of NumPy."""
    return isinstance(value, float | np.floating) and not abs(float(value)) < _first_blurred(
        np.dtype(type(value))
    )


def _first_blurred(kind: np.dtype[Any]) -> float:
    """The least magnitude at which two integers become the same float."""
    return float(2.0 ** (np.finfo(kind).nmant + 1))


def _text(value: Any) -> str:
    """A float without a fraction as the integer that it is."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)
