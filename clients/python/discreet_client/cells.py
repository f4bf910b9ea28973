"""The grammar of cells: what one text of a table means, or why it means nothing.

A text is read by itself and by what the description says (`Grammar`), never by other rows: if
commas elsewhere decided what `1.234` is, one row less would change what all others mean. Names are
in `names`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
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
_EITHER_WHOLE = rf"^{_EITHER.pattern.replace(chr(92) + 'd', '[0-9]')}$"
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


Ints = NDArray[np.int64]
Numbers = NDArray[np.integer[Any]]
NO_OFFSET = int(np.iinfo(np.int64).min)
HOUR = 3_600_000_000
MOST_HOURS = 1_000_000
"""From the first time to the last one, up to which they are counted."""
FEW = 8
"""Rows of each different text, from which texts are held as numbers of these alone."""
MOST_APART = 2_000
"""Different times of which each is read by itself."""
_SINCE = datetime(1970, 1, 1)
_TICK = timedelta(microseconds=1)
_MIDNIGHT = datetime(2000, 1, 1)
_LAST = (datetime(9999, 12, 29) - _SINCE) // _TICK
_YEARS = np.array(["0001-01-01", "9999-12-31"], dtype="datetime64[s]")
"""The first and the last day that there is."""
_FINE = ("ns", "ps", "fs", "as")
"""Units in which 64 bits reach no other year."""
_CLOCK = re.compile(r"[ T](\d\d):(\d\d)(?::(\d\d))?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d|\d\d([./])\d\d\1\d{4}", re.ASCII)
_DAY_LIKE = {"-": "2000-01-01", ".": "01.01.2000", "/": "01/01/2000"}


class Refusal(NamedTuple):
    """Why a text means nothing."""

    cause: str
    about: str = ""
    """The rule of the reader that would help, if there is one."""
    expected: str = ""
    """What would be read instead."""


NO_NUMBER = Refusal("a number is needed", "missing_words", "12.5")
NOT_FINITE = Refusal("a number is needed", "finite", "12.5")
TOO_LARGE = Refusal("this number is too large")
POINT_OR_THOUSANDS = Refusal("is this a fraction, or are thousands parted by a point?", "decimal")
A_POINT = Refusal("a number with a decimal comma is needed", "decimal")
A_COMMA = Refusal("a number with a decimal point is needed", "decimal")
GROUPED = Refusal("a number without points for thousands is needed", "thousands")
NO_TIME = Refusal(
    "a time such as 2026-11-21, 2026-11-21T15:00 or 21.11.2026 15:00 is needed",
    "missing_words",
    "2026-11-21T15:00",
)
WHICH_FIRST = Refusal("is the day first here, or the month?", "dates")
NO_SUCH_DAY = Refusal("a day and a time that exist are needed", "missing_words", "2026-11-21T15:00")
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


class Moments(NamedTuple):
    """Different times, and which of them each row has; in microseconds."""

    clock: Ints
    """Since 1970, as a clock shows it that hangs there."""
    offset: Ints
    """East of Greenwich; NO_OFFSET where none is written."""
    of: Numbers

    @property
    def local(self) -> NDArray[np.bool_]:
        """bool[n]: which of them have no offset."""
        return np.asarray(self.offset == NO_OFFSET, dtype=bool)

    def written(self) -> list[datetime]:
        """Each of them as it is written, with its offset or without a time zone."""
        pairs = zip(self.clock.tolist(), self.offset.tolist(), strict=True)
        return [moment(*pair) for pair in pairs]


def moment(clock: int, offset: int) -> datetime:
    """A time of `Moments`."""
    zone = None if offset == NO_OFFSET else timezone(timedelta(microseconds=offset))
    return (_SINCE + timedelta(microseconds=clock)).replace(tzinfo=zone)


def moments_of(once: NDArray[Any], of: Numbers, grammar: Grammar) -> Moments | list[Refusal | None]:
    """What these times are; or why some are none, one for each of `once`."""
    if once.dtype.kind == "M":
        if np.datetime_data(once.dtype)[0] not in _FINE:
            first, last = _YEARS.astype(once.dtype)
            beyond = (once < first) | (once > last)
            if beyond.any():
                return [NO_SUCH_DAY if one else None for one in beyond.tolist()]
        clock = once.astype("datetime64[us]").astype(np.int64)
        return Moments(clock, np.full(clock.size, NO_OFFSET), of)
    values = once.tolist()
    meant = [grammar.moment(value) for value in values]
    if any(isinstance(one, Refusal) for one in meant):
        return [one if isinstance(one, Refusal) else None for one in meant]
    return Moments(*_figures([one for one in meant if isinstance(one, datetime)]), of)


def are_days(values: Any) -> NDArray[np.bool_]:
    """bool[rows]: which of these times are days alone, without a time of day."""
    if isinstance(values, Texts) and values.raw is not None:
        import pyarrow.compute as pc  # noqa: PLC0415 - it made the column

        found = pc.invert(pc.match_substring(values.raw, ":"))
        return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)
    if values.dtype.kind == "M":
        return np.full(values.size, np.datetime_data(values.dtype)[0] in ("D", "W", "M", "Y"))
    return np.array(
        [
            ":" not in one if isinstance(one, str) else not isinstance(one, datetime)
            for one in values.tolist()
        ],
        dtype=bool,
    )


def _figures(moments: list[datetime]) -> tuple[Ints, Ints]:
    clock = [(one.replace(tzinfo=None) - _SINCE) // _TICK for one in moments]
    offset = [NO_OFFSET if (east := one.utcoffset()) is None else east // _TICK for one in moments]
    return np.array(clock, dtype=np.int64), np.array(offset, dtype=np.int64)


def _apart(days: list[str], clocks: list[str], grammar: Grammar) -> list[Ints] | None:
    """Of days written in ten letters, and of what stands behind them: the days and the times since
    their 0:00, in microseconds, and the offsets; None where one is anything else."""
    like = {_DAY_LIKE[day[2] if day[2:3] in (".", "/") else "-"] for day in days}
    if len(like) != 1 or not all(len(day) == 10 and _DAY.fullmatch(day) for day in days):
        return None
    (such,) = like
    begins = [grammar.moment(day) for day in days]
    passed = [_since_midnight(one) or grammar.moment(f"{such}{one}") for one in clocks]
    if any(isinstance(one, Refusal) for one in (*begins, *passed)):
        return None
    first, _ = _figures([one for one in begins if isinstance(one, datetime)])
    after, offset = _figures([one for one in passed if isinstance(one, datetime)])
    after -= (_MIDNIGHT - _SINCE) // _TICK
    return [first, after, offset] if first.max() <= _LAST else None


def _since_midnight(text: str) -> datetime | None:
    """` 08:30` or `T08:30:15` of a day in 2000; None of any other text."""
    if len(text) in (6, 9) and (found := _CLOCK.fullmatch(text)):
        hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
        if hour < 24 and minute < 60 and second < 60:
            return datetime(2000, 1, 1, hour, minute, second)
    return None


def offsets_in(clock: Ints, zone: tzinfo) -> tuple[Ints, Ints]:
    """Offsets against UTC that clocks of a place have when they show this for the first and for the
    last time, in microseconds: the first is larger where they show it twice, the second where they
    skip it. An hour in which nothing changes is looked at once."""

    def at(moment: int) -> tuple[int, int]:
        local = _SINCE + timedelta(microseconds=moment)
        early, late = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
        assert early is not None
        assert late is not None
        return early // _TICK, late // _TICK

    return _by_hours(clock, at)


def offsets_of(instants: Ints, zone: tzinfo) -> Ints:
    """Offsets against UTC that a place has then; 0 where that is beyond the first or the last
    day."""

    def at(instant: int) -> tuple[int, int]:
        try:
            moment = (_SINCE + timedelta(microseconds=instant)).replace(tzinfo=UTC)
            east = moment.astimezone(zone).utcoffset()
        except OverflowError:
            return 0, 0
        assert east is not None
        return east // _TICK, east // _TICK

    return _by_hours(instants, at)[0]


def _by_hours(times: Ints, at: Callable[[int], tuple[int, int]]) -> tuple[Ints, Ints]:
    if not times.size:
        return times, times
    first = int(times.min()) // HOUR
    if int(times.max()) // HOUR - first < MOST_HOURS:
        of: NDArray[Any] = (times // HOUR - first).astype(np.int32)
        used = np.flatnonzero(np.bincount(of))
    else:
        far, of = np.unique(times // HOUR, return_inverse=True)
        used, of = far - first, far[of.ravel()] - first
    number = np.searchsorted(used, of) if used.size < of.max() + 1 else of
    found = np.empty((2, used.size), dtype=np.int64)
    changes = np.zeros(used.size, dtype=bool)
    for place, hour in enumerate((used + first).tolist()):
        ends = {*at(hour * HOUR), *at(hour * HOUR + HOUR - 1)}
        found[:, place], changes[place] = next(iter(ends)), len(ends) > 1
    early = found[0][number]
    if not changes.any():
        return early, early
    late = early.copy()
    for place in np.flatnonzero(changes[number]).tolist():
        early[place], late[place] = at(int(times[place]))
    return early, late


class Texts:
    """A column of texts of which each different one is looked at once: `once`, and in `of` which of
    them each row has. It indexes and counts like an array of objects; None is a text that is
    missing. Of Arrow's texts both are made when somebody asks."""

    dtype = np.dtype(object)

    def __init__(self, raw: Any = None, coded: tuple[NDArray[Any], Numbers] | None = None) -> None:
        """raw: a string array of Arrow."""
        self.raw, self._coded = raw, coded

    @property
    def coded(self) -> tuple[NDArray[Any], Numbers]:
        if self._coded is None:
            made = self.raw.dictionary_encode("encode")
            once = np.array(made.dictionary.to_pylist() or [None], dtype=object)
            self._coded = once, made.indices.to_numpy(zero_copy_only=False)
            if once.size < self.raw.__len__() // FEW:
                self.raw = None  # which takes more room
        return self._coded

    @property
    def size(self) -> int:
        return len(self.raw) if self.raw is not None else self.coded[1].size

    @property
    def shape(self) -> tuple[int]:
        return (self.size,)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, int | np.integer):
            if self.raw is not None:
                return self.raw[int(rows)].as_py()
            return self.coded[0][self.coded[1][rows]]
        if self._coded is not None:  # names, of which the texts themselves are not needed again
            return Texts(None, (self._coded[0], self._coded[1][rows]))
        if self.raw is not None:
            picked = np.arange(self.size)[rows] if isinstance(rows, slice) else np.asarray(rows)
            picked = np.flatnonzero(picked) if picked.dtype == bool else picked
            return Texts(self.raw.take(_arrow().array(picked)))
        raise AssertionError("texts are there in one of the two ways")

    def tolist(self) -> list[Any]:
        found: list[Any] = self.__array__().tolist()
        return found

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        once, of = self.coded
        values: NDArray[Any] = once[of]
        return values

    def lacks(self) -> NDArray[np.bool_]:
        if self.raw is not None:
            found: NDArray[np.bool_] = self.raw.is_null().to_numpy(zero_copy_only=False)
            return found
        once, of = self.coded
        found = np.array([one is None for one in once.tolist()], dtype=bool)[of]
        return found

    def tiled(self, times: int) -> Texts:
        """The column so many times, one below the other."""
        once, of = self.coded
        return Texts(None, (once, np.tile(of, times)))

    def moments(self, grammar: Grammar) -> Moments | None:
        """The times that all of them are, of which each day and each time of day is read once; None
        where they are looked at one by one."""
        if self.raw is None or self.size <= MOST_APART:
            return None
        import pyarrow.compute as pc  # noqa: PLC0415 - it made the column

        days, clocks = (
            Texts(pc.utf8_slice_codeunits(self.raw, *part)).coded for part in ((0, 10), (10, None))
        )
        found = _apart(days[0].tolist(), clocks[0].tolist(), grammar)
        if found is None:
            return None
        first, after, offset = found
        clock = first[days[1]]
        clock += after[clocks[1]]
        same = offset.size and (offset == offset[0]).all()
        offsets = np.broadcast_to(offset[0], clock.shape) if same else offset[clocks[1]]
        return Moments(clock, offsets, np.arange(self.size, dtype=np.int32))

    def joined(self, other: Texts) -> Texts | None:
        """Texts of both with a space between; None where they are not Arrow's."""
        if self.raw is None or other.raw is None:
            return None
        import pyarrow as pa  # noqa: PLC0415 - it made the column
        import pyarrow.compute as pc  # noqa: PLC0415

        kinds = {self.raw.type, other.raw.type}
        kind = kinds.pop() if len(kinds) == 1 else pa.large_string()  # as pandas and polars write
        parts = (one.raw.cast(kind) for one in (self, other))
        return Texts(pc.binary_join_element_wise(*parts, pa.scalar(" ", kind)))

    def figures(self, grammar: Grammar) -> NDArray[np.float64] | None:
        """The numbers that all of them are, NaN where one is missing, if a kernel is sure of each;
        None where they are looked at one by one."""
        if self.raw is None or grammar.thousands is not None:
            return None
        import pyarrow as pa  # noqa: PLC0415 - it made the column
        import pyarrow.compute as pc  # noqa: PLC0415

        raw = self.raw
        if grammar.decimal == "," or (grammar.decimal is None and grammar.separator != ","):
            points = pc.any(pc.match_substring(raw, ".")).as_py()
            if points and (
                grammar.decimal == ","
                or pc.any(pc.match_substring_regex(raw, _EITHER_WHOLE)).as_py()
            ):
                return None
            raw = pc.replace_substring(raw, ",", ".")
        try:
            found = pc.cast(raw, pa.float64())
        except pa.ArrowInvalid:
            return None
        figures: NDArray[np.float64] = found.to_numpy(zero_copy_only=False)
        sure = np.isfinite(figures) | self.lacks()
        return figures if sure.all() else None


def _arrow() -> Any:
    import pyarrow  # noqa: PLC0415 - optional

    return pyarrow


def distinct(values: NDArray[Any] | Texts) -> tuple[NDArray[Any], Numbers]:
    """Each different value once, and which of them each row has: a text is looked at once."""
    if isinstance(values, Texts):
        once, of = values.coded
        used = np.flatnonzero(np.bincount(of, minlength=once.size))
        if used.size == once.size:
            return once, of
        number = np.zeros(once.size, dtype=np.int64)
        number[used] = np.arange(used.size)
        return once[used], number[of]
    if values.dtype.kind != "O":
        once, places = np.unique(values, return_inverse=True)
        return once, places.ravel().astype(np.int64)
    told: list[Any] = values.tolist()
    if not set(map(type, told)) <= {str}:
        # 1, 1.0 and True are equal, and so are two times of which one is the later fold.
        told = [one if one.__class__ is str else (one.__class__, repr(one)) for one in told]
    number_of = {key: place for place, key in enumerate(dict.fromkeys(told))}
    places = np.fromiter(map(number_of.__getitem__, told), np.int64, values.size)
    rows = np.empty(len(number_of), dtype=np.int64)
    rows[places[::-1]] = np.arange(values.size)[::-1]  # the first row of each
    return values[rows], places
