"""The canonical form of JSON (RFC 8785), so that a digest identifies a value however its text was
written.

Numbers are the doubles that a JSON parser makes of them, written as ECMAScript writes them; an
integer that no double represents exactly becomes the nearest double. Names are sorted by their
UTF-16 code units. Lists of plain numbers, of which results mostly consist, are written by Python's
`json` in C and corrected afterwards where ECMAScript writes them differently.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

# Loaded now: a solver's child, which sorts names by this encoding, can no longer open files.
codecs.lookup("utf-16-be")

EXACT = 2**53 - 1
"""The largest integer up to which every integer is exactly a double."""

_PLAIN = (frozenset((float,)), frozenset((int,)), frozenset((float, int)))


def dumps(value: Any) -> bytes:
    """The canonical JSON of a value, UTF-8. ValueError for what JSON cannot hold: NaN, infinities,
    halves of surrogate pairs; TypeError for other types."""
    return "".join(_parts(value)).encode()


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value, hexadecimal."""
    return hashlib.sha256(dumps(value)).hexdigest()


def _parts(value: Any) -> Iterator[str]:
    if value is None or value is True or value is False:
        yield "null" if value is None else "true" if value else "false"
    elif isinstance(value, str):
        yield json.dumps(value, ensure_ascii=False)
    elif isinstance(value, int | float):
        yield _number(value)
    elif isinstance(value, list | tuple):
        if _are_plain(value):
            yield _mended(json.dumps(value, separators=(",", ":"), allow_nan=False))
            return
        separator = "["
        for one in value:
            yield separator
            yield from _parts(one)
            separator = ","
        yield "]"
    elif isinstance(value, Mapping):
        separator = "{"
        for name in sorted(value, key=_place):
            yield f"{separator}{json.dumps(name, ensure_ascii=False)}:"
            yield from _parts(value[name])
            separator = ","
        yield "}" if separator == "," else "{}"
    else:
        raise TypeError(f"{type(value).__name__} is not a JSON type")


def _are_plain(value: list[Any] | tuple[Any, ...]) -> bool:
    """Whether all are floats, or integers small enough to be exact; true of an empty list."""
    kinds = frozenset(map(type, value))
    if kinds not in _PLAIN:
        return not value
    return int not in kinds or (max(value) <= EXACT and min(value) >= -EXACT)


def _place(name: Any) -> Any:
    if not isinstance(name, str):
        raise TypeError("names in JSON are strings")
    return name.encode("utf-16-be")


def _mended(text: str) -> str:
    """A list of numbers that Python wrote, with what ECMAScript writes differently corrected: `.0`
    at the end, the sign of zero, and exponents."""
    if ".0," in text or text.endswith(".0]"):
        text = (
            text.replace("-0.0,", "0,")
            .replace("-0.0]", "0]")
            .replace(".0,", ",")
            .replace(".0]", "]")
        )
    if "e" not in text:
        return text
    return (
        f"[{','.join(_number(float(one)) if 'e' in one else one for one in text[1:-1].split(','))}]"
    )


def _number(value: float) -> str:
    """ECMAScript's Number::toString: the shortest digits, as in Python, but with its own rule for
    when to use an exponent."""
    if isinstance(value, int):
        if -EXACT <= value <= EXACT:
            return str(int(value))
        value = float(value)
    if not math.isfinite(value):
        raise ValueError("JSON has no NaN and no infinities")
    if value.is_integer() and abs(value) <= EXACT:
        return str(int(value))
    mantissa, _, exponent = float.__repr__(value).partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    power = int(exponent)
    if power >= 21:
        return f"{mantissa}e+{power}"
    if power < -6:
        return f"{mantissa}e{power}"
    sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    digits = digits.replace(".", "")
    if power > 0:
        return sign + digits.ljust(power + 1, "0")
    return f"{sign}0.{'0' * (-power - 1)}{digits}"
