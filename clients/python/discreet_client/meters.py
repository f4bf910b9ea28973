"""Meter series as states: the same code for the service and for clients that send states instead of
power.

A reading is a participant, a time and its power in kW. The public part of a dataset says how
readings become states, so no part of the rule depends on the data: `edges` (state s is edges[s] <=
kW < edges[s + 1]), `steps`, and in `meters` its `start`, `interval_seconds`, `gaps`, `carry`,
`outside` and `utc_offset`. The power of a period is the mean of the participant's readings in it. A
participant has one trajectory or none, which depends on that participant's readings alone, so
neighbouring datasets differ by one trajectory, as they do when trajectories are sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from discreet_client.cells import AS_WRITTEN

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NO_METER = (
    *(
        "sum",
        "summe",
        "total",
        "gesamt",
        "all",
        "mean",
        "mittel",
        "average",
        "temp",
        "temperatur",
        "weather",
        "wetter",
    ),
    *("wind", "humidity", "feuchte", "rain", "regen", "price", "preis"),
)
"""Words in the names of columns that hold a total, the weather or a price instead of a meter."""
LONGEST_WHOLE = 4
"""Words up to this length match whole words only, longer ones also parts, as in
`Außentemperatur`."""
MOST_KW = 1e12
SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TIME = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
"""The latest time, in microseconds since 1970 like all times here."""
NEVER = np.iinfo(np.int64).max
NO_ZONE_OF_START = (
    "the time zone is missing: write it after the time, as in 2026-01-13T00:00:00+01:00, or give "
    "it with utc_offset beside it, +01:00"
)
NO_ZONE = (
    "a time without a time zone: write the offset (2026-11-21T15:00:00+01:00), or declare the "
    "public meters.utc_offset that all such times have"
)


class Fault(NamedTuple):
    """A fault of readings, with the rows and the column that have it."""

    rows: NDArray[np.bool_]
    column: str
    detail: str


class States(NamedTuple):
    """Concatenated state sequences; sequence i is states[start[i]:start[i + 1]]."""

    states: Ints
    start: Ints
    row: Ints
    """The row that each state comes from: the first of its period, or for a carried state of the
    last period that has readings."""
    left_out: Ints
    """A row of each participant who has no trajectory."""
    lacks: Ints
    """The first period that each of them lacks; -1 if none is missing but there are too few."""


@dataclass(frozen=True)
class MeterRule:
    """The public rule by which readings become states."""

    edges: Floats
    start: int
    interval: int
    """Microseconds."""
    steps: int | None
    gaps: str
    carry: int
    clamp: bool
    offset: int | None
    """UTC offset of times that state none, in microseconds, positive east of Greenwich."""
    clock: tzinfo | None = None
    """Time zone of `start`, in which errors write times; UTC when None."""

    @classmethod
    def of(cls, public: Mapping[str, Any]) -> MeterRule:
        """The rule in the JSON of a dataset's public part."""
        meters = public["meters"]
        start = meters["start"]
        offset = meters.get("utc_offset")
        start = start_of(start, offset)
        begun = start if isinstance(start, datetime) else datetime.fromisoformat(start)
        if begun.tzinfo is None:
            raise ValueError(f"public.meters.start: {NO_ZONE_OF_START}")
        return cls(
            edges=np.array(public["edges"], dtype=np.float64),
            start=microseconds(begun),
            interval=meters["interval_seconds"] * SECOND,
            steps=public.get("steps"),
            gaps=meters.get("gaps", "refuse"),
            carry=meters.get("carry", 0),
            clamp=meters.get("outside", "clamp") == "clamp",
            offset=None if offset is None else _offset(offset),
            clock=begun.tzinfo,
        )

    def faults(self, owner: NDArray[np.integer[Any]], time: Ints, kw: Floats) -> Iterator[Fault]:
        """Everything except gaps that keeps readings from becoming states."""
        finite = np.isfinite(kw)
        yield Fault(~finite, "kw", "a finite number is needed")
        yield Fault(finite & (np.abs(kw) > MOST_KW), "kw", f"power is at most {MOST_KW:g} kW")
        if not self.clamp:
            low, high = self.edges[[0, -1]]
            says = f"outside the public edges {low:g} to {high:g} kW, which meters.outside refuses"
            yield Fault((kw < low) | (kw >= high), "kw", says)
        yield Fault(
            time < self.start, "time", f"before public.meters.start ({self._written(self.start)})"
        )
        if self.steps is not None:
            end = self.start + self.steps * self.interval
            says = (
                f"at or after {self._written(end)}, where the last of the public.steps periods ends"
            )
            yield Fault(time >= end, "time", says)
        twice = np.zeros(time.size, dtype=bool)
        if (order := _order_of(owner, time)) is None:
            twice[1:] = (owner[1:] == owner[:-1]) & (time[1:] == time[:-1])
        else:
            same = (owner[order[1:]] == owner[order[:-1]]) & (time[order[1:]] == time[order[:-1]])
            twice[order[1:][same]] = True
        yield Fault(twice, "time", "this participant has a reading of this time already")

    def states(self, owner: NDArray[np.integer[Any]], time: Ints, kw: Floats, most: int) -> States:
        """State sequences of readings without faults, in the order of the owners' numbers.

        owner: int[rows]; time: int64[rows], microseconds; kw: float64[rows]. A missing period takes
        the state of the one before, for at most `carry` periods in a row. More are a gap: `gaps`
        `end` keeps the states before the first gap; otherwise a participant with a gap has no
        trajectory. Neither has a participant with fewer than two states. With `steps` a trajectory
        has exactly so many periods, and missing ones at its end are a gap like others.

        Raises OverflowError if there would be more than `most` states. Takes O(n log n) for n rows
        and states.
        """
        if not owner.size:
            return States(*(np.zeros(size, dtype=np.int64) for size in (0, 1, 0, 0, 0)))
        order = _order_of(owner, time)
        if order is not None:
            owner, time, kw = owner[order], time[order], kw[order]
        period = (time - self.start) // self.interval
        new_owner = np.ones(owner.size, dtype=bool)
        np.not_equal(owner[1:], owner[:-1], out=new_owner[1:])
        begins = new_owner.copy()
        begins[1:] |= period[1:] != period[:-1]
        first = np.flatnonzero(begins)
        mean = np.add.reduceat(kw, first) / np.diff(np.append(first, owner.size))
        state = bins_of(mean, self.edges)
        period, row = period[first], first if order is None else order[first]
        begin = np.flatnonzero(new_owner[first])
        person = np.cumsum(new_owner[first]) - 1
        last = np.append(begin[1:], person.size) - 1

        missing = np.zeros(person.size, dtype=np.int64)  # after each period that has readings
        missing[:-1] = np.diff(period) - 1
        missing[last] = 0 if self.steps is None else self.steps - 1 - period[last]
        gap = missing > self.carry
        first_lacking = np.where(gap, period + 1, NEVER)
        if self.steps is not None:
            first_lacking[begin] = np.where(period[begin] > 0, 0, first_lacking[begin])
        lacks = np.minimum.reduceat(first_lacking, begin)
        if self.gaps == "end":
            before: Ints = np.cumsum(gap) - gap  # of all participants, before this period
            repeats = np.where(before == before[begin][person], 1 + np.where(gap, 0, missing), 0)
        else:
            repeats = np.where(lacks[person] == NEVER, 1 + missing, 0)
        size = np.add.reduceat(repeats, begin)
        short = size < 2
        repeats[short[person]] = 0
        total = int(repeats.sum())
        if total > most:
            raise OverflowError(f"{total} states")
        return States(
            states=np.repeat(state, repeats),
            start=np.concatenate([[0], np.cumsum(size[~short])]).astype(np.int64),
            row=np.repeat(row, repeats),
            left_out=row[begin][short],
            lacks=np.where(lacks == NEVER, -1, lacks)[short],
        )

    def gap(self, found: States) -> str:
        """The sentence that says why the first participant without a trajectory has none."""
        if found.lacks[0] < 0:
            return "this participant has fewer than two periods"
        lacks = self._written(self.start + int(found.lacks[0]) * self.interval)
        carried = (
            f", and no value is carried over more than {self.carry} periods"
            if self.carry and found.lacks[0]
            else ""
        )
        return f"this participant has no reading in the period from {lacks} on{carried}"

    def remedies(self, found: States, people: str) -> str:
        """The sentence that says how the public rule could treat such a participant. `people`: the
        plural that participants are called."""
        if found.lacks[0] == 0:
            fill = "nothing is carried to before a first reading"
        elif self.carry:
            fill = "a larger `carry` fills longer ones"
        else:
            fill = "`carry`: 2 fills two with the state before"
        return (
            f"public.meters says what becomes of gaps ({fill}, `gaps`: leave_out leaves such "
            f"{people} out)"
        )

    def _written(self, time: int) -> str:
        try:
            return (EPOCH + timedelta(microseconds=time)).astimezone(self.clock or UTC).isoformat()
        except OverflowError:
            return "the end of the year 9999"


def start_of(start: Any, utc_offset: Any) -> Any:
    """A start such as `13.01.2026 00:00` in the form of RFC 3339, with `utc_offset`, if that is
    given, where it names no zone; anything else unchanged."""
    if not isinstance(start, str):
        return start
    text = start.strip()
    found = AS_WRITTEN.moment(text) if "." in text[:3] else None
    text = found.isoformat() if isinstance(found, datetime) else text
    is_local = re.fullmatch(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?", text)
    if not is_local or not isinstance(utc_offset, str):
        return text
    return f"{text if len(text) > len('2026-01-13') else text + 'T00:00:00'}{utc_offset}"


def is_no_meter(name: str) -> bool:
    """Whether a column is named like a total, the weather or a price: one of NO_METER is a word of
    its name or, if longer than LONGEST_WHOLE letters, a part of it. The page for a new dataset
    makes its proposals by the same rule."""
    name = name.lower()
    words = re.split(r"[^a-z0-9]+", name)
    return any(word in (name if len(word) > LONGEST_WHOLE else words) for word in NO_METER)


def is_energy(name: str) -> bool:
    """Whether a column is named like energy: Wh, kWh or MWh is a word of its name."""
    return re.search(r"(^|[^a-z])[km]?wh($|[^a-z])", name.lower()) is not None


def bins_of(kw: Floats, edges: Floats) -> Ints:
    """State s of power edges[s] <= kw < edges[s + 1]; power beyond the edges belongs to the first
    or last state."""
    return np.clip(np.searchsorted(edges, kw, side="right") - 1, 0, edges.size - 2).astype(np.int64)


def _order_of(owner: NDArray[np.integer[Any]], time: Ints) -> Ints | None:
    """An order of the rows by owner and time, in which they stay as they are where both are the
    same; None where they stand in it."""
    later = (owner[1:] > owner[:-1]) | ((owner[1:] == owner[:-1]) & (time[1:] >= time[:-1]))
    return None if later.all() else np.lexsort((time, owner)).astype(np.int64, copy=False)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 of a time with a zone."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def in_zone(times: Sequence[str | datetime], zone: str) -> list[datetime]:
    """Local times of a place, such as Europe/Berlin, with their UTC offset.

    Clocks that are put back show an hour twice. If the times of such an hour are in order and begin
    again once, as a meter writes them, those before are in summer time; either pass may lack some
    times of the other. Raises ValueError for a time that clocks skip, and for times of the repeated
    hour that their order does not resolve.
    """
    place, found = ZoneInfo(zone), list[datetime]()
    local = [one if isinstance(one, datetime) else datetime.fromisoformat(one) for one in times]
    for row, moment in enumerate(local):
        if moment.tzinfo is not None:
            raise ValueError(f"row {row}: {moment.isoformat()} has a time zone")
    for shown_twice, rows in groupby(range(len(local)), lambda row: _twice(local[row], place, row)):
        part = list(rows)
        folds = [0] * len(part)
        if shown_twice:
            half = passes([local[row] for row in part])
            if half is None:
                says = (
                    "clocks show this time twice on that day, and the order of rows does not "
                    "tell which it is"
                )
                raise ValueError(
                    f"row {part[0]}: {local[part[0]].isoformat()}: {says}; write the offset"
                )
            folds[half:] = [1] * (len(part) - half)
        found += [
            local[row].replace(tzinfo=place, fold=fold)
            for row, fold in zip(part, folds, strict=True)
        ]
    return found


def passes(times: Sequence[Any]) -> int | None:
    """How many of these times, all of an hour that clocks show twice, are of its first pass, where
    their order tells: they begin again once, and either pass may lack some times of the other. None
    where it does not."""
    backwards = [n for n in range(1, len(times)) if times[n] <= times[n - 1]]
    half = backwards[0] if len(backwards) == 1 else 0
    first, second = times[:half], times[half:]
    # A time twice in succession may be one reading written twice, so it does not show where the
    # hour begins again.
    again = half and times[half] < times[half - 1]
    if first == second:
        return half
    one_in_other = set(first) <= set(second) or set(second) <= set(first)
    return half if again and one_in_other else None


def _offsets(moment: datetime, place: ZoneInfo) -> tuple[timedelta, timedelta]:
    """UTC offsets of the first and the second time that clocks show this; the second is larger if
    they skip it."""
    early, late = (moment.replace(tzinfo=place, fold=fold).utcoffset() for fold in (0, 1))
    assert early is not None
    assert late is not None
    return early, late


def _twice(moment: datetime, place: ZoneInfo, row: int) -> bool:
    early, late = _offsets(moment, place)
    if early < late:
        raise ValueError(
            f"row {row}: {moment.isoformat()} is a time that clocks in {place.key} skip"
        )
    return early > late


def _offset(text: str) -> int:
    zone = datetime.fromisoformat(f"2000-01-01T00:00:00{text}").utcoffset()
    assert zone is not None
    return zone // timedelta(microseconds=1)
