"""How far the noise may have moved a routing result: the exact noise, through the derivative of the
assignment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.privacy.events import Event
from discreet.problems import results
from discreet.problems.accuracy import LEVEL
from discreet.problems.results import Output
from discreet.problems.routing import closures
from discreet.problems.routing.dataset import Ints
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.selections import Noised, Selected, skims_interval
from discreet.solvers.traffic.sensitivity import Derivative, derivative
from discreet.solvers.traffic.traffic_assignment import Assignment, Latency, Network, Objective
from discreet.solvers.traffic.user_classes import UserClasses, derivative_of_classes

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

MAX_LINKS = 3000
"""Flows of more links have no interval: it would take matrices of links by links."""
LARGEST_GAP = 1e-8
"""An assignment with a larger gap does not show which paths are active at the optimum."""
UNUSED = 1e-6
"""A link that receives less of one pair's noise counts as unused: the rest is rounding."""
NOISE_SHARE = 0.7
"""Mean noise of all cells together, relative to their trips, from which on they count as mostly
noise."""


def uncertainty_of(
    public: RoutingPublic,
    event: Event,
    trips: Ints,
    demand: Floats,
    solution: Assignment,
    network: Network,
    latency: Latency,
    objective: Objective,
    chosen: Selected | None = None,
    skims: Floats | None = None,
    reopened: closures.Reopened | None = None,
    classes: UserClasses | None = None,
    open_links: Bools | None = None,
    open_changes: Bools | None = None,
) -> Output:
    """The field `uncertainty` of the method counts, an `accuracy.Uncertainty`.

    A pair's mean trips x are the true t plus the pair's own noise, whose quantile is exact. The
    assignment of the projected demand d is f(d); that of the true demand is f(d) + J (x - d) - J
    noise, as far as f is linear there, with J its derivative. `J noise` sums over many pairs, so it
    is about normal; with few, the 90 % quantile of a sum of Laplace variates is just below the
    normal one. Intervals are cut off at 0, and always contain the result.

    No interval is [0, 0], which would say that there is nothing: a count that noise moved below 0
    is taken for 0, and an interval reaches as far above it as above any other, at least to one
    count. A link that no released trip takes may be taken by those that noise hides: it is
    given what may be hidden of one pair, and so is the change of a link that closing does not
    touch. A link of `open_links`, whose flow the program does not determine, has none, nor has the
    change of one of `open_changes`.

    `mostly_noise`: the noise of all pairs together is at least `NOISE_SHARE` of all trips, and at
    least half of the used links are noise too (or have no interval): flows of links may be known
    well even if no single pair is. Selected additional fields (`selections`) have intervals unless
    these are too many numbers. `reopened`: the same demand on all roads, if some are closed. The
    effect of closing is a function of the same trips, so its derivative is the difference of both
    derivatives, and far less noise goes through it than through either. With `classes` of users
    each pair and class has independent noise, and a pair of all classes together the square root of
    their number times as much.
    """
    apart = ~np.eye(public.zones, dtype=bool)
    raw = trips_between(public, trips) / public.counts_a_mean_trip
    reach, deviation = (
        one / public.counts_a_mean_trip for one in (event.reach(LEVEL), event.deviation())
    )
    spread = max(
        reach, float(ndtri((1 + LEVEL) / 2)) * deviation
    )  # the first is larger if noise is mostly 0
    values: dict[str, tuple[Any, Any]] = {}
    dominates: dict[str, Any] = {}
    noise = pairs_are_noise(public, event, trips)
    number = 1 if classes is None else classes.number
    size = demand.size + (public.zones**2 if number > 1 else 0)
    if 2 * (size + network.tail.size) <= results.MAX_JSON_NUMBERS:
        least = np.where(apart, 1 / public.counts_a_mean_trip, 0.0)
        own = _around(raw, np.where(apart, reach, 0.0), demand, least)
        between = trips_between(public, trips)
        if classes is None:
            values["demand"] = own
        else:
            values["demand_by_class"] = own
            width, together = math.sqrt(number) * spread, (raw.sum(axis=0), demand.sum(axis=0))
            values["demand"] = _around(together[0], np.where(apart, width, 0.0), together[1], least)
            each = public.zones * (public.zones - 1)
            dominates["demand_by_class"] = _is_noise(event, each, between.sum(axis=(1, 2)))
            between = between.sum(axis=0)
        dominates["demand"] = _is_noise(
            event, math.sqrt(number) * (public.zones - 1), between.sum(axis=1)
        )
    if solution.relative_gap <= LARGEST_GAP:
        links = network.tail.size <= MAX_LINKS

        def derived(roads: Network, at: Assignment) -> Derivative:
            if classes is None:
                return derivative(roads, latency, objective, at, links=links)
            asked = (roads, latency, classes, objective, at, demand)
            return derivative_of_classes(*asked, links=links)

        slopes, change = derived(network, solution), (raw - demand)[..., apart].ravel()
        if slopes.total is not None:
            total, width = solution.total_travel_time, spread * float(np.linalg.norm(slopes.total))
            dominates["total_travel_time"] = width >= total
            if width < total:
                values["total_travel_time"] = _around(total + slopes.total @ change, width, total)
        if links:
            flows, widths = solution.link_flows, spread * slopes.flow_norms()
            unused = (widths <= UNUSED * spread) & (flows <= UNUSED * spread)
            ends = _around(
                flows + slopes.flows(change), widths, flows, np.where(unused, spread, 0.0)
            )
            known = np.full(flows.size, True) if open_links is None else ~open_links
            values["link_flows"] = _known(ends, known)
            noisy = (widths >= flows) & known & ~unused
            dominates["link_flows"] = noisy
            noise = noise and bool(
                2 * np.count_nonzero(noisy) >= np.count_nonzero(noisy | (flows > 0))
            )
        if reopened is not None and reopened.solution.relative_gap <= LARGEST_GAP:
            before = derived(reopened.network, reopened.solution)
            changes = _of_closing(
                slopes, before, solution, reopened.solution, change, spread, open_changes
            )
            if "total_travel_time" not in values:  # with noise as large as that, linearity is lost
                changes.pop("total_travel_time_change", None)
            values |= changes
            for name, (low, high) in changes.items():
                dominates[name] = np.asarray(low < 0) & np.asarray(high > 0)  # not of NaN
    room = results.MAX_JSON_NUMBERS - 2 * (
        size + (1 if reopened is None else 2) * network.tail.size
    )
    noised = Noised(raw, demand, reach, spread)
    if chosen is not None and 2 * chosen.trips.size <= room:
        ends = chosen.interval(noised)
        name = "select_link" if classes is None else "select_link_by_class"
        values[name] = _around(*ends, chosen.trips)
        dominates[name] = ends[1] >= chosen.trips
        room -= 2 * chosen.trips.size
    if skims is not None and 2 * skims.size <= room and network.tail.size <= MAX_LINKS:
        told = skims_interval(network, latency, solution, noised, classes)
        if told is not None and classes is not None:
            values["skims_by_class"] = _around(*told, skims)
        elif told is not None:
            values["skims"] = _around(*told, skims)
            dominates["skims"] = ((told[1] >= skims) & apart).any(axis=1)
    return _output(values, dominates, noise)


def _of_closing(
    slopes: Derivative,
    before: Derivative,
    now: Assignment,
    then: Assignment,
    change: Floats,
    spread: float,
    open_changes: Bools | None,
) -> dict[str, tuple[Any, Any]]:
    """Intervals of the effect of closing, as far as it is linear in the trips; both signs are
    possible."""
    values: dict[str, tuple[Any, Any]] = {}
    if slopes.total is not None and before.total is not None:
        row, value = slopes.total - before.total, now.total_travel_time - then.total_travel_time
        middle, width = value + row @ change, spread * float(np.linalg.norm(row))
        values["total_travel_time_change"] = min(middle - width, value), max(middle + width, value)
    if slopes.moves is not None and before.moves is not None:
        moved = now.link_flows - then.link_flows
        lower, upper, seen = moved.copy(), moved.copy(), False
        for some, rows in closures.flow_rows(slopes, before):
            middles, widths = moved[some] + rows @ change, spread * np.linalg.norm(rows, axis=1)
            lower[some] = np.minimum(middles - widths, moved[some])
            upper[some] = np.maximum(middles + widths, moved[some])
            seen = True
        if seen:
            untouched = np.maximum(np.abs(lower), np.abs(upper)) <= UNUSED * spread
            lower, upper = lower - spread * untouched, upper + spread * untouched
            known = np.full(moved.size, True) if open_changes is None else ~open_changes
            values["link_flow_changes"] = _known((lower, upper), known)
    return values


def pairs_are_noise(public: RoutingPublic, event: Event, trips: Ints) -> bool:
    """Whether the noise of all pairs together is at least `NOISE_SHARE` of all trips."""
    return bool(_is_noise(event, public.cells, trips_between(public, trips).sum()))


def trips_between(public: RoutingPublic, trips: Ints) -> Ints:
    """The trips without those within a zone, which use no link."""
    return np.where(np.eye(public.zones, dtype=bool), 0, trips)


def _is_noise(event: Event, cells: float, counted: Any) -> Any:
    each = event.deviation() / math.sqrt(2)  # mean of the absolute value of a Laplace variate
    return each * cells > NOISE_SHARE * counted


def uncertainty_of_routing(event: Event, released: Floats, result: Floats) -> Output:
    """The field `uncertainty` of the method gradient: each share with its own noise, cut off at 0
    and 1.

    Projecting on valid routings removes some of the noise; by how much is not computed here. All
    shares have the same noise, and it dominates if an interval in the middle would span the whole
    range.
    """
    reach = event.reach(LEVEL)
    lower, upper = _around(released, reach, result)
    noise = bool(reach >= 0.5)
    values = {"unit_flows": (lower, np.maximum(np.minimum(upper, 1.0), result))}
    return _output(
        values if 2 * result.size <= results.MAX_JSON_NUMBERS else {}, {"unit_flows": noise}, noise
    )


def _around(middle: Any, width: Any, result: Any, least: Any = 0.0) -> tuple[Any, Any]:
    """Lower and upper ends, nonnegative, with the result between them, the upper at least `least`.

    What is estimated is not negative. So a middle below 0 is taken for 0: an interval that ended
    where noise had moved it would be empty, or [0, 0]. Of Laplace noise nothing is lost by that:
    the likelihoods of all numbers from 0 on have the same ratios whatever the middle is below 0.
    """
    upper = np.maximum(np.maximum(middle, 0.0) + width, result)
    return np.minimum(np.maximum(middle - width, 0.0), result), np.maximum(upper, least)


def _known(ends: tuple[Any, Any], known: Bools) -> tuple[Any, Any]:
    """The ends, NaN where nothing can be said."""
    lower, upper = (np.where(known, one, np.nan) for one in ends)
    return lower, upper


def _listed(ends: Any) -> Any:
    """For JSON: null where nothing can be said."""
    found = np.asarray(ends, dtype=np.float64)
    if not (missing := np.isnan(found)).any():
        return found.tolist()
    listed = found.astype(object)
    listed[missing] = None
    return listed.tolist()


def _output(
    values: dict[str, tuple[Any, Any]], dominates: dict[str, Any], mostly_noise: bool
) -> Output:
    return Output(
        lambda: {
            "level": LEVEL,
            "values": {
                name: {"lower": _listed(lower), "upper": _listed(upper)}
                for name, (lower, upper) in values.items()
            },
            "noise_dominates": {name: np.asarray(one).tolist() for name, one in dominates.items()},
            "mostly_noise": mostly_noise,
        },
        numbers=sum(np.size(end) for ends in values.values() for end in ends),
    )
