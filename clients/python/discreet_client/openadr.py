"""OpenADR 3 objects (3.0 and 3.1) as inputs and outputs of a demand response.

    reports of usage or demand, by resource and interval    content of a dataset  `table_of_reports`
    events with prices, or limits on what is imported       fields of a problem   `fields_of_events`
    the load of those who follow a released signal          a report              `report_of`
    the signal itself                                       an event              `event_of`

Objects are given as mappings in their JSON form, lists of these, or files. Intervals follow each
other from the start of `intervalPeriod`, each with its duration, unless an interval has a period of
its own. Anything that cannot be read is refused with a `TableError`, never dropped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet_client.containers import File, file_of
from discreet_client.intervals import numbers
from discreet_client.reading import is_figure, word
from discreet_client.tables import Table, TableError, from_columns

Json = dict[str, Any]

ENERGY = {"WH": 1e-3, "KWH": 1.0, "MWH": 1e3}
POWER = {"W": 1e-3, "KW": 1.0, "MW": 1e3}
USAGE, DEMAND, PRICE, LIMIT = "USAGE", "DEMAND", "PRICE", "IMPORT_CAPACITY_LIMIT"
COST_TO_GO = "COST_TO_GO"
TYPES = {USAGE: ENERGY, DEMAND: POWER}
"""Payloads of reports that are readings of a meter, and their units in kWh and kW."""
AGGREGATED = "AGGREGATED_REPORT"
QUALITY, NO_VALUE = "DATA_QUALITY", ("MISSING", "BAD")
HOUR = timedelta(hours=1)
MOST_PERIODS = 10_000
"""The most periods of a dataset that one interval of a report may span."""
MOST_FILE = 1 << 20
"""Bytes at the beginning of a JSON file by which it is recognized."""

_DURATION = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class Interval(NamedTuple):
    """Values that hold from `start` on for `duration`."""

    start: datetime
    duration: timedelta
    values: Mapping[str, Sequence[Any]]
    """The values by type of payload."""

    @property
    def end(self) -> datetime:
        return self.start + self.duration


def is_openadr(source: Any) -> bool:
    """Whether this is an OpenADR report, or several, as objects or in a JSON file."""
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".json":
        source = file_of(source, None)
    if isinstance(source, File) and source.form == "json":
        with source.open() as file:
            text = file.read(MOST_FILE).decode("utf-8-sig", "replace")
        return '"resourceName"' in text and '"intervals"' in text
    objects = list(source) if isinstance(source, list | tuple) else [source]
    return bool(objects) and all(isinstance(one, Mapping) and "resources" in one for one in objects)


def objects_of(source: Any, kind: str) -> list[Mapping[str, Any]]:
    """The objects of a file, a list, or a single object. TableError if they are not of this
    kind."""
    if isinstance(source, str | Path):
        source = file_of(source, "json")
    if isinstance(source, File):
        try:
            source = json.loads(source.read().decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise TableError(f"{source.name} is not JSON: {error}") from None
    found = list(source) if isinstance(source, list | tuple) else [source]
    for place, one in enumerate(found):
        if not isinstance(one, Mapping):
            raise TableError(f"object {place}: an OpenADR {kind.lower()} is needed")
        said = one.get("objectType")
        if said is not None and kind not in str(said):
            raise TableError(f"object {place} is an OpenADR {str(said)[:40]}, not of type {kind}")
    return found


def table_of_reports(
    source: Any, public: Mapping[str, Any], rules: Mapping[str, Any]
) -> tuple[Table, Json]:
    """A table with the columns participant, time and kw from reports, and the rules that are left.

    rules:
        payload: USAGE or DEMAND; needed where reports hold both
        units: KWH, WH or MWH of usage, KW, W or MW of demand; needed where reports do not state it
        participant: "resource": each resource is a participant, named by its client and itself;
            or "client": the resources of a client are added up, as for one home with several
            meters, and an interval that one of them lacks is a gap of the client

    Usage is divided by the length of its interval to become power. An interval that spans several
    periods of `meters` has that power in each. Readings marked as MISSING or BAD (DATA_QUALITY) are
    gaps.
    """
    rules = dict(rules)
    whose = word(
        {"participant": rules.pop("participant", "resource")}, "participant", ("resource", "client")
    )
    asked, units = rules.pop("payload", None), rules.pop("units", None)
    reports = objects_of(source, "REPORT")
    payload = _payload(reports, asked)
    period = (public.get("meters") or {}).get("interval_seconds")
    name, time, kw = list[str](), list[str](), list[float]()
    found: dict[str, dict[datetime, list[tuple[str, float]]]] = {}
    resources: dict[str, set[str]] = {}
    for place, report in enumerate(reports):
        factor = _factor(report, payload, units, place)
        client = str(report.get("clientName") or "")
        for resource in _list(report, "resources", f"report {place}"):
            own = str(resource.get("resourceName") or "")
            where = f"report {place}, resource {own[:40]}"
            if not own:
                raise TableError(f"report {place}: a resource without a resourceName")
            if own == AGGREGATED:
                raise TableError(f"{where}: a total of several resources instead of one meter")
            if whose == "client" and not client:
                raise TableError(
                    f"report {place}: no clientName, by which resources are to be added up"
                )
            participant = client if whose == "client" else f"{client}/{own}"
            readings = found.setdefault(participant, {})
            resources.setdefault(participant, set()).add(own)
            for start, power in _readings(resource, report, payload, factor, period, where):
                parts = readings.setdefault(start.astimezone(UTC), [])
                if any(other == own for other, _ in parts):
                    raise TableError(f"{where}: a second interval that begins {start.isoformat()}")
                parts.append((own, power))
    for participant, readings in found.items():
        for start, parts in readings.items():
            if len(parts) == len(resources[participant]):
                name.append(participant)
                time.append(start.isoformat())
                kw.append(math.fsum(power for _, power in parts))
    if not name:
        raise TableError(f"the reports hold no interval with {payload}")
    return from_columns(
        {"participant": np.array(name, dtype=object), "time": np.array(time), "kw": np.array(kw)}
    ), rules


def fields_of_events(
    events: Any,
    *,
    start: datetime | str,
    steps: int,
    interval_seconds: int,
    otherwise: float | None = None,
) -> Json:
    """`price`, `event` and `limits` of a problem whose step 0 begins at `start`, from events with
    PRICE and with IMPORT_CAPACITY_LIMIT (kW of all loads, the limit of their feeder).

    A price per kWh becomes one per kW and step, averaged over a step in which it changes. Where
    events overlap, the one with the higher priority holds (a lower number; those without one come
    last), and of equal ones the later in the list. Steps without a priced event have the price
    `otherwise` per kWh; TableError without it. `event` lists the ranges of steps in which some
    event holds, unless one holds in every step.
    """
    begin = _start(start)
    if steps < 2 or interval_seconds < 1:
        raise TableError("at least 2 steps, of at least a second each, are needed")
    step = timedelta(seconds=interval_seconds)
    named = [
        (f"event {str(event.get('eventName') or place)[:40]}", event)
        for place, event in enumerate(objects_of(events, "EVENT"))
    ]
    # Later ones are written over earlier ones.
    order = sorted(named, key=lambda one: -_priority(one[1], one[0]))
    prices, limits = list[tuple[Interval, float]](), list[tuple[Interval, float]]()
    for where, event in order:
        for interval in _intervals(event, event, where):
            for kind, values in interval.values.items():
                if kind not in (PRICE, LIMIT):
                    raise TableError(
                        f"{where}: a payload {kind[:40]}, which is neither {PRICE} nor {LIMIT}"
                    )
                factor = _event_factor(event, kind, where)
                (prices if kind == PRICE else limits).append(
                    (interval, factor * _number(values, where))
                )
    found: Json = {}
    hours, held = step / HOUR, np.zeros(steps, dtype=bool)
    if prices:
        priced, known = _by_step(prices, begin, step, steps)
        held |= known > 0
        if otherwise is None and (known < 1 - 1e-9).any():
            first = int(np.argmax(known < 1 - 1e-9))
            raise TableError(
                f"step {first} ({(begin + first * step).isoformat()}) has no price: give "
                "`otherwise`"
            )
        price = priced + (1 - known) * (otherwise or 0.0)
        found["price"] = (price * hours).tolist()
    if limits:
        least = np.full(steps, np.inf)
        for interval, most in limits:
            low, high = (interval.start - begin) / step, (interval.end - begin) / step
            inside = slice(
                max(0, math.floor(low + 1e-9)), max(0, min(steps, math.ceil(high - 1e-9)))
            )
            least[inside] = most
        held |= np.isfinite(least)
        if np.isfinite(least).any():
            found["limits"] = {
                "of": "all",
                "feeder": [one if np.isfinite(one) else None for one in least.tolist()],
            }
    if not found:
        raise TableError("no event covers any of these steps")
    if held.any() and not held.all():
        edges = np.flatnonzero(np.diff(held.astype(np.int8), prepend=0, append=0))
        found["event"] = edges.reshape(-1, 2).tolist()
    return found


def report_of(
    result: Mapping[str, Any],
    *,
    start: datetime | str,
    interval_seconds: int | None = None,
    client_name: str = "discreet",
    program_id: str | None = None,
    event_id: str | None = None,
    report_name: str | None = None,
) -> Json:
    """A report of what a released signal leads to: the expected DEMAND of all loads, and the
    BASELINE without control, in each interval from `start` on, in kW. If their number is not public
    it is of one load, as `reportName` says.

    readingType is FORECAST, since nothing was measured. `accuracy` is half the width of the widest
    interval for the noise of the release, `confidence` its level. `program_id`: required in
    OpenADR 3.0 reports. ValueError if the result has no load, or if the length of a step is neither
    in it nor given.
    """
    begin = _start(start)
    states = result.get("states", {})
    seconds = interval_seconds or states.get("step_seconds")
    if "expected_power" not in result or "default_power" not in result:
        raise ValueError(
            "a report needs the expected load of a demand response, which this result does not have"
        )
    if seconds is None:
        raise ValueError("interval_seconds is needed: the dataset does not say how long a step is")
    loads = states.get("participants") or 1
    said = result.get("uncertainty") or {}
    kinds = {DEMAND: "expected_power", "BASELINE": "default_power"}
    descriptors = []
    for kind, field in kinds.items():
        # OpenADR 3.1 requires the type of a descriptor, 3.0 allows it.
        one: Json = {"objectType": "REPORT_PAYLOAD_DESCRIPTOR", "payloadType": kind}
        one |= {"readingType": "FORECAST", "units": "KW"}
        if ends := said.get("values", {}).get(field):
            pairs = zip(numbers(ends["lower"]), numbers(ends["upper"]), strict=True)
            widths = [high - low for low, high in pairs if low is not None and high is not None]
            if widths:
                one |= {
                    "accuracy": loads * max(widths) / 2,
                    "confidence": round(100 * said.get("level", 0.9)),
                }
        descriptors.append(one)
    of = f"all {loads} loads" if states.get("participants") else "one load"
    return {
        "objectType": "REPORT",
        **({} if program_id is None else {"programID": program_id}),
        **({} if event_id is None else {"eventID": event_id}),
        "clientName": client_name,
        "reportName": report_name or f"expected load of {of}, by a released signal",
        "payloadDescriptors": descriptors,
        "resources": [
            {
                "resourceName": AGGREGATED,
                "intervalPeriod": {"start": begin.isoformat(), "duration": _duration(int(seconds))},
                "intervals": [
                    {
                        "id": step,
                        "payloads": [
                            {"type": kind, "values": [loads * float(result[field][step])]}
                            for kind, field in kinds.items()
                        ],
                    }
                    for step in range(len(result["expected_power"]))
                ],
            }
        ],
    }


def event_of(
    result: Mapping[str, Any],
    discomfort_weight: float,
    *,
    start: datetime | str,
    interval_seconds: int | None = None,
    program_id: str = "discreet",
    event_name: str = "signal",
) -> Json:
    """An event that gives loads the released signal: an interval for each step, whose payload has a
    number for each state, in the order of `result["states"]`.

    `COST_TO_GO` is a payload of this program's own, as OpenADR 3 has none of the kind: the signal
    over the problem's `discomfort_weight`, so that a load accepts the state a, drawn as it would
    have moved anyway, with probability exp(-values[a]) of the interval that the move leads to.
    ValueError if the result has no signal, or if the length of a step is neither in it nor given.
    """
    if "signal" not in result:
        raise ValueError("an event needs a signal, which this result does not have")
    seconds = interval_seconds or result.get("states", {}).get("step_seconds")
    if seconds is None:
        raise ValueError("interval_seconds is needed: the dataset does not say how long a step is")
    period = {"start": _start(start).isoformat(), "duration": _duration(int(seconds))}
    descriptor = {"objectType": "EVENT_PAYLOAD_DESCRIPTOR", "payloadType": COST_TO_GO}
    intervals = [
        {
            "id": step,
            "payloads": [
                {"type": COST_TO_GO, "values": [float(one) / discomfort_weight for one in values]}
            ],
        }
        for step, values in enumerate(result["signal"])
    ]
    return {
        "objectType": "EVENT",
        "programID": program_id,
        "eventName": event_name,
        "payloadDescriptors": [descriptor],
        "intervalPeriod": period,
        "intervals": intervals,
    }


def _payload(reports: Sequence[Mapping[str, Any]], asked: Any) -> str:
    """The type of the payloads that are read."""
    if asked is not None:
        return word({"payload": asked}, "payload", tuple(TYPES))
    types = {
        str(payload.get("type"))
        for report in reports
        for resource in _list(report, "resources", "report")
        for interval in _list(resource, "intervals", "resource")
        for payload in _list(interval, "payloads", "interval")
    }
    there = [kind for kind in TYPES if kind in types]
    if len(there) == 1:
        return there[0]
    if there:
        raise TableError(
            'the reports hold USAGE and DEMAND: choose one in reader, as in "payload": "USAGE"'
        )
    raise TableError(
        f"the reports hold neither USAGE nor DEMAND, but {', '.join(sorted(types)) or 'nothing'}"
    )


def _factor(report: Mapping[str, Any], payload: str, units: Any, place: int) -> float:
    """The factor that converts a value to kWh or kW."""
    said = set(_units(report, payload, f"report {place}")) or (
        {str(units).upper()} if units is not None else set()
    )
    if len(said) != 1:
        usual = "KWH" if payload == USAGE else "KW"
        raise TableError(
            f"report {place} does not state one unit of {payload}: give it in reader, as in "
            f'"units": "{usual}"'
        )
    (unit,) = said
    if unit not in TYPES[payload]:
        raise TableError(
            f"report {place}: {payload} in {unit[:40]}; {', '.join(TYPES[payload])} are read"
        )
    return TYPES[payload][unit]


def _readings(
    resource: Mapping[str, Any],
    report: Mapping[str, Any],
    payload: str,
    factor: float,
    period: Any,
    where: str,
) -> Iterator[tuple[datetime, float]]:
    """The start and the power in kW of each interval, or of each period of one that spans
    several."""
    for interval in _intervals(resource, report, where):
        if payload not in interval.values or any(
            str(one) in NO_VALUE for one in interval.values.get(QUALITY, ())
        ):
            continue
        value = factor * _number(interval.values[payload], where)
        if payload == USAGE:
            if interval.duration <= timedelta(0):
                raise TableError(
                    f"{where}: usage in an interval without a duration, which has no power"
                )
            value /= interval.duration / HOUR
        parts, rest = 1, timedelta(0)
        if isinstance(period, int) and period > 0 and interval.duration > timedelta(seconds=period):
            parts, rest = divmod(interval.duration, timedelta(seconds=period))
            if rest or parts > MOST_PERIODS:
                length = _duration(int(interval.duration.total_seconds()))
                raise TableError(
                    f"{where}: an interval of {length}, which is not 1 to {MOST_PERIODS:,} times "
                    "meters.interval_seconds"
                )
        for part in range(parts):
            yield interval.start + part * timedelta(seconds=period if parts > 1 else 0), value


def _intervals(
    holder: Mapping[str, Any], above: Mapping[str, Any], where: str
) -> Iterator[Interval]:
    """The intervals of an event or of a resource of a report, in their order, with their times."""
    period = _period(holder, where) or _period(above, where)
    after = None if period is None else _moment(period.get("start"), where)
    usual = timedelta(0) if period is None else _length(period.get("duration"), where)
    for interval in _list(holder, "intervals", where):
        own = _period(interval, where)
        begin = after if own is None else _moment(own.get("start"), where)
        duration = (
            usual if own is None or own.get("duration") is None else _length(own["duration"], where)
        )
        if begin is None:
            raise TableError(f"{where}: an interval without a time, and no intervalPeriod above it")
        if period is not None and own is None and not usual:
            raise TableError(f"{where}: intervals without a duration do not follow each other")
        values: dict[str, Sequence[Any]] = {}
        for payload in _list(interval, "payloads", where):
            kind, said = str(payload.get("type")), payload.get("values")
            if kind in values or not isinstance(said, list):
                raise TableError(
                    f"{where}: a payload {kind[:40]} that occurs twice, or has no list of values"
                )
            values[kind] = said
        try:
            after = begin + duration
        except OverflowError:
            raise TableError(f"{where}: an interval that ends after the year 9999") from None
        yield Interval(begin, duration, values)


def _by_step(
    held: Sequence[tuple[Interval, float]], begin: datetime, step: timedelta, steps: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """float64[steps] each: the integral of the value over each step, in steps, and the fraction of
    each step in which some value holds. Later intervals replace earlier ones."""
    cuts = {0.0, float(steps)}
    for interval, _ in held:
        for moment in (interval.start, interval.end):
            cuts.add(min(max((moment - begin) / step, 0.0), float(steps)))
    edges = np.array(sorted(cuts))
    value, known = np.zeros(edges.size - 1), np.zeros(edges.size - 1, dtype=bool)
    for interval, one in held:
        low, high = (interval.start - begin) / step, (interval.end - begin) / step
        inside = (edges[:-1] >= low - 1e-9) & (edges[1:] <= high + 1e-9)
        value[inside], known[inside] = one, True
    # Each step is cut where a value changes within it.
    whole = np.unique(np.concatenate([edges, np.arange(steps + 1.0)]))
    place = np.searchsorted(edges, (whole[:-1] + whole[1:]) / 2) - 1
    part, of = np.diff(whole), np.minimum(whole[:-1].astype(np.int64), steps - 1)
    weight = part * known[place]
    return np.bincount(of, weight * value[place], steps), np.bincount(of, weight, steps)


def _event_factor(event: Mapping[str, Any], kind: str, where: str) -> float:
    """The factor that converts a price to one per kWh, or a limit to kW. Units are KWH and KW
    unless stated."""
    of = ENERGY if kind == PRICE else POWER
    for unit in _units(event, kind, where):
        if unit not in of:
            raise TableError(f"{where}: {kind} in {unit[:40]}; {', '.join(of)} are read")
        return 1 / of[unit] if kind == PRICE else of[unit]
    return 1.0


def _units(holder: Mapping[str, Any], payload: str, where: str) -> list[str]:
    """The units that descriptors state for a type of payload, in upper case."""
    described = (
        _list(holder, "payloadDescriptors", where) if holder.get("payloadDescriptors") else ()
    )
    return [
        str(one["units"]).upper()
        for one in described
        if one.get("payloadType") == payload and one.get("units") is not None
    ]


def _priority(event: Mapping[str, Any], where: str) -> float:
    given = event.get("priority")
    if given is not None and not is_figure(given):
        raise TableError(f"{where}: priority must be a number, not {str(given)[:40]}")
    return math.inf if given is None else float(given)


def _period(holder: Mapping[str, Any], where: str) -> Mapping[str, Any] | None:
    found = holder.get("intervalPeriod")
    if found is not None and not isinstance(found, Mapping):
        raise TableError(f"{where}: intervalPeriod must be an object")
    return found


def _list(holder: Mapping[str, Any], name: str, where: str) -> list[Mapping[str, Any]]:
    found = holder.get(name)
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise TableError(f"{where}: {name} must be a list of objects")
    return found


def _number(values: Sequence[Any], where: str) -> float:
    if len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int | float):
        raise TableError(f"{where}: a payload must have one number, not {str(values)[:40]}")
    if not math.isfinite(values[0]):
        raise TableError(f"{where}: {values[0]} is no finite number")
    return float(values[0])


def _start(given: datetime | str) -> datetime:
    found = _moment(given, "start") if isinstance(given, str) else given
    if found.tzinfo is None:
        raise TableError("start: the time zone is missing, as in 2026-01-15T00:00:00+01:00")
    return found


def _moment(text: Any, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(str(text))
        if found.tzinfo is not None:
            found.astimezone(UTC)  # not in the years 1 to 9999 there
    except (ValueError, OverflowError):
        raise TableError(f"{where}: {str(text)[:40]} is no date-time of RFC 3339") from None
    # The specification requires an offset, so none is assumed.
    if found.tzinfo is None:
        raise TableError(f"{where}: {str(text)[:40]} has no offset, as in 2026-01-15T00:00:00Z")
    return found.astimezone(UTC) if found.utcoffset() == timedelta(0) else found


def _length(text: Any, where: str) -> timedelta:
    """The length of an ISO 8601 duration in weeks, days and smaller units; months and years have no
    fixed length."""
    if text is None:
        return timedelta(0)
    found = _DURATION.fullmatch(str(text))
    parts = {} if found is None else {unit: one for unit, one in found.groupdict().items() if one}
    try:
        if parts:
            return timedelta(**{unit: float(one) for unit, one in parts.items()})
    except OverflowError:
        pass
    raise TableError(
        f"{where}: a duration {str(text)[:40]}; durations such as PT15M, PT1H and P1D are read"
    )


def _duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    parts = ((hours, "H"), (minutes, "M"), (left, "S"))
    return "PT" + ("".join(f"{count}{unit}" for count, unit in parts if count) or "0S")
