"""Names of people in tables, in a canonical form: a person written in two ways would count as two
people, and two people with the same name as one.

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
_KEPT = 1 << 16


@lru_cache(_KEPT)
def name_of(text: str) -> str:
    """The canonical form of a name; empty for spaces only."""
    name = unicodedata.normalize("NFC", text).strip()
    whole = _WHOLE.fullmatch(name)
    return name if whole is None else whole[1]


def names_of(values: NDArray[Any]) -> NDArray[Any]:
    """`name_of` of each, as objects, since NumPy's fixed-width text drops trailing NUL
    characters."""
    return np.fromiter(
        (name_of(_text(value)) for value in values.tolist()), dtype=object, count=values.size
    )


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
    return np.fromiter(map(_is_blurred, values.tolist()), dtype=np.bool_, count=values.size)


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
