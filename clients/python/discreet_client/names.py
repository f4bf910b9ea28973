"""What people are called in tables: whoever is written in two ways would count as two, and whoever
share a name as one.

Spaces around a name, the form in which accents are stored, and the `.0` that spreadsheets put
behind whole numbers are no part of it. Everything else is: `007` and `7` are two.
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
    """The one writing of a name; empty where nothing stands but spaces."""
    name = unicodedata.normalize("NFC", text).strip()
    whole = _WHOLE.fullmatch(name)
    return name if whole is None else whole[1]


def names_of(values: NDArray[Any]) -> NDArray[Any]:
    """`name_of` of each, as objects: an array of fixed-width text drops zero characters."""
    return np.fromiter(
        (name_of(_text(value)) for value in values.tolist()), dtype=object, count=values.size
    )


def totals(names: NDArray[Any]) -> NDArray[np.bool_]:
    """bool[n]: which of these are named like the last line of a spreadsheet, a total or a mean,
    and nobody is."""
    return np.fromiter(
        (_TOTAL.fullmatch(name) is not None for name in names.tolist()), np.bool_, names.size
    )


def blurred(values: NDArray[Any]) -> NDArray[np.bool_]:
    """bool[n]: which of these are floats that may stand for several whole numbers, or for none: two
    people might have become one."""
    if values.dtype.kind == "f":
        beyond: NDArray[np.bool_] = ~(np.abs(values) < _first_blurred(values.dtype))
        return beyond
    if values.dtype.kind != "O":
        return np.zeros(values.size, dtype=np.bool_)
    return np.fromiter(map(_is_blurred, values.tolist()), dtype=np.bool_, count=values.size)


def _is_blurred(value: Any) -> bool:
    """Of a Python number, or a scalar of NumPy."""
    return isinstance(value, float | np.floating) and not abs(float(value)) < _first_blurred(
        np.dtype(type(value))
    )


def _first_blurred(kind: np.dtype[Any]) -> float:
    return float(2.0 ** (np.finfo(kind).nmant + 1))


def _text(value: Any) -> str:
    """A float without a fraction as the integer that it is."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)
