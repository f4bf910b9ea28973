"""Synthetic trips of a public shape: zones of unequal weight, so that few pairs have most trips;
Poisson counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.problems.base import MOST_ROWS, Synthesis
from discreet.problems.contents import Profile
from discreet.problems.routing.canonical import Ints
from discreet.problems.routing.public import RoutingPublic

TRIPS_A_PAIR = 20
"""Mean number of trips in a period, if no public figure gives one."""
KEPT = 0.75
"""Mean fraction of `max_total` or `max_pair` that is used."""
TRIPS_A_PERSON = 3


def rows(public: RoutingPublic, units: int | None) -> int:
    """The most cells with trips, or trips of persons."""
    if public.unit == "person":
        return trips_a_period(public, units) * public.periods
    return public.periods * public.cells


def columns(
    public: RoutingPublic,
    generator: np.random.Generator,
    units: int | None,
    around: Profile | None = None,
) -> dict[str, Any]:
    """Columns of an upload; `units` trips, or trips of this many persons, in total. Around a
    release each period has the released demand, scaled down if `units` are fewer, in whole trips
    (with unit request in multiples of 1/`trip_scale`)."""
    if public.user_classes is not None:
        return _of_classes(public, generator, units, around)
    scale = 1
    if around is None:
        weight = generator.lognormal(0.0, 1.0, public.zones)
        pairs = np.outer(weight, weight)
        np.fill_diagonal(pairs, 0.0)
        mean = trips_a_period(public, units) * pairs / max(pairs.sum(), 1e-300)
        counts = generator.poisson(mean, (public.periods, *mean.shape))
    else:
        mean, most = (
            around["demand"],
            MOST_ROWS / public.periods if public.unit == "person" else math.inf,
        )
        total = max(float(mean.sum()), 1e-300)
        mean = mean * min(
            1.0 if units is None else trips_a_period(public, units) / total, most / total
        )
        scale = public.trip_scale if public.unit == "request" else 1
        counts = (mean * scale + generator.random((public.periods, *mean.shape))).astype(np.int64)
    if public.max_pair is not None:
        counts = np.minimum(counts, public.max_pair * scale)
    if public.max_total is not None:  # integer counts, so that none is above the bound
        totals, most = counts.sum(axis=(1, 2), keepdims=True), public.max_total * scale
        counts = np.where(totals > most, counts * most // np.maximum(totals, 1), counts)
    period, origin, destination = np.nonzero(counts)
    count = counts[period, origin, destination]
    columns = {
        "period": period,
        "origin": origin + 1,
        "destination": destination + 1,
        "count": count,
    }
    if public.unit == "request":
        return columns if scale == 1 else {**columns, "count": count / scale}
    each = {name: np.repeat(column, count) for name, column in columns.items()}
    persons = max(1, each["count"].size // TRIPS_A_PERSON) if units is None else units
    person = generator.integers(0, persons, each["count"].size)
    if public.max_person is not None:
        person += persons * (_places(person) // public.max_person)  # beyond that, another person's
    return {**each, "count": np.ones_like(each["count"]), "person": person}


def _places(person: Ints) -> Ints:
    """The number of each trip among those of its person, from 0."""
    order = np.argsort(person, kind="stable")
    first = np.searchsorted(person[order], person[order])
    places = np.empty_like(person)
    places[order] = np.arange(person.size) - first
    return places


def _of_classes(
    public: RoutingPublic,
    generator: np.random.Generator,
    units: int | None,
    around: Profile | None,
) -> dict[str, Any]:
    """The trips of all classes of users; each has a random class, around a release in proportion to
    the released trips of its pair."""
    names = np.array(public.user_classes, dtype=object)
    plain = public.model_copy(update={"user_classes": None})
    demand = None if around is None else around["demand"]
    together = None if demand is None else {"demand": demand.sum(axis=0)}
    found = columns(plain, generator, units, together)
    origin, destination = found["origin"] - 1, found["destination"] - 1
    shares = np.full((len(names), origin.size), 1 / len(names))
    if demand is not None:
        all_trips = demand.sum(axis=0)[origin, destination]
        own = demand[:, origin, destination]
        shares = np.where(all_trips > 0, own / np.maximum(all_trips, 1e-300), shares)
    scale = public.trip_scale if public.unit == "request" else 1
    parts = np.rint(found["count"] * scale).astype(np.int64)
    drawn = generator.multinomial(parts, (shares / shares.sum(axis=0)).T)
    row, number = np.nonzero(drawn)
    each = {name: column[row] for name, column in found.items() if name != "count"}
    count = drawn[row, number]
    return {**each, "count": count if scale == 1 else count / scale, "user_class": names[number]}


def trips_a_period(public: RoutingPublic, units: int | None = None) -> int:
    """Mean trips of one period."""
    if units is None or (
        public.max_total is not None and units >= public.max_total * public.periods
    ):
        units = TRIPS_A_PAIR * public.zones * (public.zones - 1) * public.periods
        if public.max_total is not None:
            units = int(KEPT * public.max_total * public.periods)
    elif public.unit == "person":
        units *= TRIPS_A_PERSON
    return max(1, units // public.periods)


SYNTHESIS = Synthesis(rows, columns)
