"""The grammar of cells: what one text of a table means, or why it means nothing.

A text is read by itself and by what the description says (`Grammar`), never by other rows: if
commas elsewhere decided what `1.234` is, one row less would change what all others mean. Names are
in `names`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset(("", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null"))
"""What a file of texts says for a value that is not there; NaN is a wrong number."""
SEPARATORS = ",;\t|"
DATES = ("day_first", "month_first")
"""How 01/02/2026 is meant. With points the day comes first, everywhere."""
DECIMALS = (",", ".")
THOUSANDS = (".", ",", "'", " ")
TRUTHS = {
    **dict.fromkeys(("true", "yes", "ja", "wahr", "oui", "1", "1.0"), 1),
    **dict.fromkeys(("false", "no", "nein", "falsch", "non", "0", "0.0"), 0),
}
"""Words for true and false, in small letters."""

_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)
"""A fraction by a point, or thousands parted by one."""
_GROUPED = re.compile(r"[+-]?\d{1,3}([.,'’ \xa0\u202f])\d{3}(?:\1\d{3})*(?:[.,]\d+)?", re.ASCII)
_NOT_FINITE = ("nan", "inf", "infinity")
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?"
    r" ?(Z|[+-]\d\d(?::?\d\d(?::\d\d)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_WRITTEN = re.compile(
    r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(?:[ T]+(\d{1,2}):(\d\d)(?::(\d\d))?(?: *([ap])m)?)?",
    re.ASCII | re.IGNORECASE,
)


class Refusal(NamedTuple):
    """Why a text means nothing."""

    cause: str
    about: str = ""
    """The rule of the reader that would help, if there is one."""
    expected: str = ""
    """What would be read instead."""


NO_NUMBER = Refusal("a number is needed", "", "12.5")
NOT_FINITE = Refusal("a number is needed", "finite", "12.5")
TOO_LARGE = Refusal("this number is too large")
POINT_OR_THOUSANDS = Refusal("is this a fraction, or are thousands parted by a point?", "decimal")
A_POINT = Refusal("a number with a decimal comma is needed", "decimal")
A_COMMA = Refusal("a number with a decimal point is needed", "decimal")
GROUPED = Refusal("a number without points for thousands is needed", "thousands")
NO_TIME = Refusal(
    "a time such as 2026-11-21, 2026-11-21T15:00 or 21.11.2026 15:00 is needed",
    "",
    "2026-11-21T15:00",
)
WHICH_FIRST = Refusal("is the day first here, or the month?", "dates")
NO_SUCH_DAY = Refusal("a day and a time that exist are needed", "", "2026-11-21T15:00")
SHORT_OFFSET = Refusal(
    "the offset lacks its minutes: write +01:00 instead of +01", "", "2026-11-21T15:00+01:00"
)


@dataclass(frozen=True)
class Grammar:
    """How texts are meant; the same for all of a table."""

    separator: str = ","
    """Between the columns of its file. Where it is a comma, no number has a decimal comma."""
    decimal: str | None = None
    """One of DECIMALS. None where nobody says it: then a point is decimal, and where the separator
    is no comma, a comma is too, and `1.234` is refused."""
    thousands: str | None = None
    """One of THOUSANDS; None where nothing parts thousands."""
    dates: str | None = None
    """One of DATES; None where nobody says it: then dates with slashes are refused."""

    def number(self, text: str) -> float | Refusal:
        """A finite number."""
        plain = text.strip()
        if self.thousands is not None:
            plain = self._without_thousands(plain)
        if self.decimal == ",":
            if "." in plain:
                return GROUPED if _GROUPED.fullmatch(plain) else A_POINT
            plain = plain.replace(",", ".", 1)
        elif self.decimal is None and self.separator != ",":
            if self.thousands != "." and _EITHER.fullmatch(plain):
                return POINT_OR_THOUSANDS
            if "." not in plain:
                plain = plain.replace(",", ".", 1)
        if _PLAIN.fullmatch(plain):
            figure = float(plain)
            return figure if math.isfinite(figure) else TOO_LARGE
        if _PLAIN.fullmatch(plain.replace(",", ".", 1)) and "," in plain:
            return A_COMMA
        if _GROUPED.fullmatch(plain):
            return GROUPED
        return NOT_FINITE if plain.lower().lstrip("+-") in _NOT_FINITE else NO_NUMBER

    def _without_thousands(self, text: str) -> str:
        mark = {"'": "['’]", " ": "[ \xa0\u202f]"}.get(
            self.thousands or "", re.escape(self.thousands or "")
        )
        point = self.decimal or ("," if self.thousands == "." else ".")
        whole = rf"[+-]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{re.escape(point)}\d*)?"
        return re.sub(mark, "", text) if re.fullmatch(whole, text, re.ASCII) else text

    def moment(self, value: Any) -> datetime | Refusal:
        """A date or a time as it is written, with a time zone or without."""
        if isinstance(value, datetime):
            return value
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        text = str(value).strip()
        if found := _DATE.fullmatch(text):
            return _moment(*found.groups())
        return self._written(text)

    def _written(self, text: str) -> datetime | Refusal:
        """`21.11.2026 15:00`, `21/11/2026`, `11/21/2026 3:00 pm`."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            return NO_TIME
        day, mark, month, year, hour, minute, second, half = found.groups()
        if mark == "/":
            if self.dates is None:
                return WHICH_FIRST
            if self.dates == "month_first":
                day, month = month, day
        if half:
            if not 1 <= int(hour) <= 12:
                return NO_SUCH_DAY
            hour = str(int(hour) % 12 + (12 if half in "pP" else 0))
        return _moment(year, month, day, hour, minute, second, None, None)


AS_WRITTEN = Grammar()
"""Where nothing is said."""


def _moment(
    year: str,
    month: str,
    day: str,
    hour: str | None,
    minute: str | None,
    second: str | None,
    fraction: str | None,
    offset: str | None,
) -> datetime | Refusal:
    """24:00 is the next day's 0:00."""
    if offset and len(offset) == len("+01"):
        return SHORT_OFFSET
    begun = int(hour or 0), int(minute or 0), int(second or 0)
    parts = int((fraction or "").ljust(6, "0")[:6])
    ends = begun == (24, 0, 0) and not parts
    try:
        zone = None if not offset else _zone(offset)
        found = datetime(int(year), int(month), int(day), *((0, 0, 0) if ends else begun), parts)
        return (found + timedelta(days=1) if ends else found).replace(tzinfo=zone)
    except (ValueError, OverflowError):
        return NO_SUCH_DAY


def _zone(offset: str) -> timezone:
    if offset in "Zz":
        return UTC
    hours, minutes, *seconds = re.findall(r"\d\d", offset)
    size = timedelta(hours=int(hours), minutes=int(minutes), seconds=int((seconds or ["0"])[0]))
    if int(minutes) > 59:
        raise ValueError(offset)
    return timezone(size if offset[0] == "+" else -size)


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Each different value once, and which of them each row has: a text is looked at once."""
    if values.dtype.kind != "O":
        once, places = np.unique(values, return_inverse=True)
        return once, places.ravel().astype(np.int64)
    told: list[Any] = values.tolist()
    if not set(map(type, told)) <= {str}:
        # 1, 1.0 and True are equal, and so are two times of which one is the later fold.
        told = [one if one.__class__ is str else (one.__class__, repr(one)) for one in told]
    number = {key: place for place, key in enumerate(dict.fromkeys(told))}
    places = np.fromiter(map(number.__getitem__, told), np.int64, values.size)
    rows = np.empty(len(number), dtype=np.int64)
    rows[places[::-1]] = np.arange(values.size)[::-1]  # the first row of each
    return values[rows], places
