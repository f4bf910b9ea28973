"""The `price` of a demand response from day-ahead price files, as exchanges publish them.

    MTU (CET/CEST);Day-ahead Price [EUR/MWh]     Datum von;Datum bis;Deutschland/Luxemburg [€/MWh]
    25.10.2026 00:00 - 25.10.2026 01:00;86.37         25.10.2026 00:00;25.10.2026 01:00;86,37

A price holds until the time of the next row, an hour or a quarter of an hour later; the price of a
step is the time-weighted mean of those within it. Times are the local times of a market: an hour
that clocks show twice is resolved by the order of rows. Prices may be negative, as on exchanges.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from discreet_client.cells import DATES, DECIMALS
from discreet_client.containers import table_of
from discreet_client.meters import in_zone
from discreet_client.option_words import EITHER
from discreet_client.reading import counted, joined
from discreet_client.tables import MOST_NAMED, Table, TableError

KW_HOURS = {"kWh": 1.0, "MWh": 1000.0}
"""The units of energy that prices may be per, in kWh."""
MOST_STEPS = 100_000
LONGEST = 3600.0
"""The most seconds for which one price of an exchange holds."""
PRICE = re.compile(r"price|preis|prix|precio|prijs|pris\b", re.IGNORECASE)
UNIT = re.compile(r"/\s*([kM])Wh(?![a-z])", re.IGNORECASE)
TIME = re.compile(
    r"\b(mtu|time|timestamp|date|datum|zeit|hour|stunde|start|from|von|begin)", re.IGNORECASE
)
END = re.compile(r"\b(bis|to|end|ende|until)\b", re.IGNORECASE)
_BETWEEN = re.compile(r"\s+(?:-|–|bis|to)\s+")
_BESIDE = re.compile(r"\s*\([^()]*\)")


class Tariff(NamedTuple):
    """The prices of a problem's steps."""

    price: list[float]
    """The price of a kW in each step, in the currency of the file: the price of a kWh times the
    hours of a step."""
    notes: list[str]
    """Sentences about what was read and what to be aware of."""


class Span(NamedTuple):
    """The time, in seconds since 1970, for which a price per kWh holds."""

    begin: float
    end: float
    price: float


def tariff_of(
    source: Any,
    *,
    start: str | datetime,
    steps: int,
    interval_seconds: int,
    time_zone: str | None = None,
    columns: Mapping[str, str] | None = None,
    per: str | None = None,
    dates: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Tariff:
    """The price of each of so many steps of `interval_seconds` from `start` on, from a table of
    prices.

    source: a path of a .csv or .parquet file, a frame, or columns
    columns: the table's names for `time` and `price`; by default the only columns that are named
        like these
    per: `kWh` or `MWh`; needed if the name of the price's column does not say it, as in `EUR/MWh`
    dates: `day_first` or `month_first`; needed for times such as 01/02/2026
    decimal: `.` or `,`; needed for numbers such as 1.234 where no comma lies between columns

    Raises TableError that names the place of a mistake, or the first step without a price.
    """
    place = _place_of(time_zone)
    if not 0 < steps <= MOST_STEPS or interval_seconds <= 0:
        raise TableError(f"steps are 1 to {MOST_STEPS:,}, of more than 0 seconds each")
    begin = _moment(start, place)
    for name, said, known in (("dates", dates, DATES), ("decimal", decimal, DECIMALS)):
        if said not in (None, *known):
            raise TableError(f"{name} is {' or '.join(known)}, not {said!r}")
    table = table_of(source, encoding)
    names = _named(table, columns or {})
    grammar = replace(table.grammar, dates=dates, decimal=decimal)
    ways = {
        "dates": f"say {EITHER.option('dates', 'day_first')}, or month_first",
        "decimal": f"say {EITHER.option('decimal', '.')}, or a comma",
    }
    told = joined(replace(table, grammar=grammar, ways=ways), names).named(names, ["time", "price"])
    unit = _unit(names.get("price", "price"), per)
    moments = _moments(told, place)
    prices = told.numbers("price")
    spans = _spans(told, moments, (prices / KW_HOURS[unit]).tolist())
    by_step = _by_step(spans, begin, steps, interval_seconds, place)
    hours = interval_seconds / 3600
    price = [float(f"{one * hours:.12g}") for one in by_step]
    first, last = (_said(begin, later, place) for later in (0, steps * interval_seconds))
    notes = [
        f"prices of {names.get('price', 'price')} from {first} to {last}, {steps:,} steps: "
        f"{min(by_step):.6g} to {max(by_step):.6g} per kWh; `price` is per kW and step"
    ]
    if below := sum(one < 0 for one in price):
        notes.append(
            f"in {counted(below, 'step', steps)} the price is below 0: drawing power is paid for "
            "then, and a policy makes loads draw more"
        )
    return Tariff(price, notes)


def steps_of_day(day: str, time_zone: str | None, interval_seconds: int) -> tuple[datetime, int]:
    """When a day begins in a place, and how many steps it has: with steps of a quarter of an hour,
    92 or 100 on days when clocks change."""
    place = _place_of(time_zone)
    if place is None:
        raise TableError(
            "a day begins by the clock of a place: say its time zone, such as Europe/Berlin"
        )
    try:
        first = date.fromisoformat(day)
        begin, end = (
            datetime(one.year, one.month, one.day, tzinfo=place)
            for one in (first, first + timedelta(days=1))
        )
        length = end.astimezone(UTC) - begin.astimezone(UTC)
    except (ValueError, OverflowError):  # overflow: the first or the last day of all
        raise TableError(f"a day such as 2026-10-25 is needed, not {day[:40]!r}") from None
    steps, rest = divmod(length.total_seconds(), interval_seconds)
    if rest:
        raise TableError(f"steps of {interval_seconds} seconds do not divide that day")
    return begin, int(steps)


def _named(table: Table, columns: Mapping[str, str]) -> dict[str, str]:
    """The names of both columns: those given, else the one named like a price, and the first named
    like a time that is not an end."""
    names = dict(columns)
    own = [name for name in table.columns if name not in names.values()]
    if "price" not in names:
        found = [name for name in own if UNIT.search(name)] or [
            name for name in own if PRICE.search(name)
        ]
        if len(found) > 1:
            called = ", ".join(found[:MOST_NAMED])
            raise TableError(
                f"several columns are named like a price, {called}; say which: --columns price=…"
            )
        names |= dict(zip(("price",), found, strict=False))
    if "time" not in names:
        found = [name for name in own if name != names.get("price") and TIME.search(name)]
        begins = [name for name in found if not END.search(name)]
        names |= dict(zip(("time",), begins or found, strict=False))
    return names


def _unit(name: str, per: str | None) -> str:
    if per is not None:
        if per not in KW_HOURS:
            raise TableError(f"a price is per kWh or per MWh, not per {per[:40]}")
        return per
    said = UNIT.search(name)
    if said is None:
        raise TableError(
            f"the name of the prices' column, {name[:40]!r}, does not say whether they are per kWh "
            "or per MWh: say --per MWh"
        )
    return "MWh" if said[1].upper() == "M" else "kWh"


def _moments(table: Table, place: ZoneInfo | None) -> list[datetime]:
    """When each price begins: the first time in `00:00 - 01:00`, without a zone in brackets behind
    it."""
    values = table.values("time")
    if values.dtype.kind == "O":
        texts = [_begin(one) if isinstance(one, str) else one for one in values.tolist()]
        table = replace(table, columns={**table.columns, "time": np.array(texts, dtype=object)})
    found = table.moments("time")
    once = found.written()
    moments = [once[one] for one in found.of.tolist()]
    local = np.array([one.tzinfo is None for one in moments])
    if local.any() and place is None:
        table.refuse(
            local,
            "time",
            "a time without a time zone: say that of the market, such as Europe/Berlin",
        )
    if not local.any():
        return moments
    table.refuse(
        ~local, "time", "a time with a time zone, where others have none", table.columns["time"]
    )
    assert place is not None
    try:
        return in_zone(moments, place.key)
    except ValueError as error:
        raise TableError(f"the times of the file: {error}") from None


def _begin(text: str) -> str:
    """The beginning of a market's interval: `25.10.2026 00:00 - 25.10.2026 01:00`, `25.10.2026 00 -
    01`."""
    first = _BETWEEN.split(_BESIDE.sub("", text).strip())[0].strip()
    return f"{first}:00" if re.fullmatch(r"\S+[ T]\d\d", first) else first


def _spans(table: Table, moments: Sequence[datetime], prices: Sequence[float]) -> list[Span]:
    """The spans in order of time; each lasts until the next one, at most an hour. Where one gap
    between rows is longer than usual, unlike the gaps before and after it, rows are missing: the
    span then lasts as long as usual."""
    seconds = np.array([one.timestamp() for one in moments])
    order = np.argsort(seconds, kind="stable")
    twice = np.zeros(seconds.size, dtype=bool)
    twice[order[1:]] = np.diff(seconds[order]) == 0
    says = "there is a price of this time already: keep one area and one auction in the file"
    table.refuse(twice, "time", says, table.columns["time"])
    if seconds.size < 2:
        raise TableError("at least two prices are needed: each holds until the next one")
    begins = [float(seconds[one]) for one in order]
    gaps = [min(later - earlier, LONGEST) for earlier, later in pairwise(begins)]
    usual = Counter(gaps).most_common(1)[0][0]
    whole = [
        gap if gap in (before, after) else min(gap, usual)
        for before, gap, after in zip([0.0, *gaps[:-1]], gaps, [*gaps[1:], 0.0], strict=True)
    ]
    rows = zip(begins, [*whole, whole[-1]], order.tolist(), strict=True)
    return [Span(begin, begin + lasts, prices[row]) for begin, lasts, row in rows]


def _by_step(
    spans: Sequence[Span], start: datetime, steps: int, seconds: int, place: ZoneInfo | None
) -> list[float]:
    """The mean price of each step. TableError for the first step that prices do not cover."""
    begins, first, found = [one.begin for one in spans], start.timestamp(), list[float]()
    for step in range(steps):
        begin, end = first + step * seconds, first + (step + 1) * seconds
        at = max(bisect_right(begins, begin) - 1, 0)
        parts = []
        while at < len(spans) and spans[at].begin < end:
            inside = min(end, spans[at].end) - max(begin, spans[at].begin)
            if inside > 0:
                parts.append((inside, spans[at].price))
            at += 1
        if (known := math.fsum(inside for inside, _ in parts)) < seconds:
            there = f"{_said(spans[0].begin, 0, place)} to {_said(spans[-1].end, 0, place)}"
            lacks = "no price" if not known else "no price of a part"
            raise TableError(
                f"{lacks} of the step from {_said(begin, 0, place)} on; the file has {there}"
            )
        same = all(price == parts[0][1] for _, price in parts)
        found.append(
            parts[0][1] if same else math.fsum(inside * price for inside, price in parts) / seconds
        )
    return found


def _place_of(time_zone: str | None) -> ZoneInfo | None:
    try:
        return None if time_zone is None else ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TableError(f"there is no time zone {time_zone!r}; one is Europe/Berlin") from None


def _moment(start: str | datetime, place: ZoneInfo | None) -> datetime:
    try:
        found = start if isinstance(start, datetime) else datetime.fromisoformat(start)
    except ValueError:
        raise TableError(
            f"a start such as 2026-10-25T00:00 is needed, not {str(start)[:40]!r}"
        ) from None
    if found.tzinfo is not None:
        return found
    if place is None:
        raise TableError(
            "the start has no time zone: say that of the market, such as Europe/Berlin"
        )
    return found.replace(tzinfo=place)


def _said(moment: datetime | float, later: float, place: ZoneInfo | None) -> str:
    at = moment if isinstance(moment, float) else moment.timestamp()
    return datetime.fromtimestamp(at + later, place or UTC).strftime("%Y-%m-%d %H:%M")
