"""The fields of a routing result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.special import ndtri
from typing_extensions import TypedDict

from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.privacy.units import DELTA_UNIT
from discreet.problems import results
from discreet.problems.numbers import Budget
from discreet.problems.results import (
    LEVEL,
    LONGEST,
    NO_INTERVAL,
    NOISE,
    Expected,
    Headline,
    Output,
    SummedFields,
    counted,
    figure,
    headline,
    only_noise,
    shown,
)
from discreet.problems.road_networks.network import AffineLatency, BprLatency, RoadNetwork
from discreet.problems.routing import closures
from discreet.problems.routing.dataset import Ints
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.selections import Noised, Selected, skims_interval
from discreet.solvers.traffic.sensitivity import Derivative, derivative
from discreet.solvers.traffic.traffic_assignment import Assignment, Latency, Network, Objective
from discreet.solvers.traffic.user_classes import UserClasses, derivative_of_classes
from discreet_client import closing
from discreet_client.intervals import percent, plain


class RoutingPath(TypedDict):
    """A path from origin to destination, and the share of the pair's trips that take it."""

    links: Annotated[list[int], shown("Positions of its links in the request, from 0")]
    share: Annotated[float, shown("Shares of a pair sum to 1")]


class RoutingPair(TypedDict):
    """How the trips of one ordered pair of zones are routed."""

    origin: int
    destination: int
    paths: list[RoutingPath]


class RoutingSelected(TypedDict):
    """The trips of one pair over one of the chosen links."""

    link: Annotated[int, shown("Its position in the request, from 0")]
    origin: int
    destination: int
    share: Annotated[float, shown("Of the pair's trips")]
    trips: Annotated[float, shown("Of the released demand", unit="trips a period")]


class RoutingClassPair(RoutingPair):
    """The same of the trips of one class of users."""

    user_class: str


class RoutingClassSelected(RoutingSelected):
    """The same of the trips of one class of users."""

    user_class: str


class RoutingResult(SummedFields, total=False):
    """The post-processing of released trips or, with the method gradient, of the released
    routing."""

    link_flows: Annotated[
        list[float],
        shown(
            "Flow of each link, in the order of the request; of the method counts. Of classes of "
            "users in passenger cars, by their `pce`",
            unit="trips a period",
            table=("link", "flow"),
        ),
    ]
    undetermined_links: Annotated[
        list[int],
        shown(
            "Positions of links whose flow the model does not determine, from 0: they cost the "
            "same at any flow and others are as good, so that optimal assignments differ there. "
            "Such flows have no interval; the total travel time is the same in all",
            title="Links whose flow is not determined",
        ),
    ]
    user_classes: Annotated[
        list[str],
        shown(
            "The classes of users, in the order of what is told by class; where trips have some",
            title="Classes of users",
        ),
    ]
    link_flows_by_class: Annotated[
        list[list[float]],
        shown(
            "Trips of each class over each link, one of several divisions of the same flows where "
            "ways differ by no fixed cost: so it has no interval",
            unit="trips a period",
            title="Link flows by class of users",
            table=("user_class", "link", "flow"),
        ),
    ]
    demand_by_class: Annotated[
        list[list[list[float]]],
        shown(
            "Released mean demand of a period of each class, zones by zones",
            unit="trips a period",
            title="Released demand by class of users",
            table=("user_class", "origin", "destination", "trips"),
        ),
    ]
    demand: Annotated[
        list[list[float]],
        shown(
            "Released mean demand of a period, zones by zones; of the method counts",
            unit="trips a period",
            table=("origin", "destination", "trips"),
        ),
    ]
    unit_flows: Annotated[
        list[list[float]],
        shown(
            "Share of each pair's trips at each link; of the method gradient",
            table=("pair", "link", "share"),
        ),
    ]
    policy: Annotated[
        list[RoutingPair],
        shown(
            "Paths with their shares, for every ordered pair of distinct zones",
            table=("origin", "destination", "share", "links"),
        ),
    ]
    select_link: Annotated[
        list[RoutingSelected],
        shown(
            "Which pairs' trips use the links of `select_links`; intervals: the true trips on this "
            "policy",
            table=("link", "origin", "destination", "share", "trips"),
        ),
    ]
    policy_by_class: Annotated[
        list[RoutingClassPair],
        shown(
            "The same of each class of users for itself, where trips have classes: `policy` is of "
            "the trips of all then",
            title="Paths by class of users",
            table=("user_class", "origin", "destination", "share", "links"),
        ),
    ]
    select_link_by_class: Annotated[
        list[RoutingClassSelected],
        shown(
            "The same of each class of users, in the place of `select_link` where trips have "
            "classes",
            title="Who uses the chosen links, by class of users",
            table=("user_class", "link", "origin", "destination", "share", "trips"),
        ),
    ]
    latency_law: Annotated[
        str,
        shown("The law by which travel times grow with flows, as a sentence", title="Travel times"),
    ]
    closed: Annotated[
        list[str],
        shown(
            "The links of `closed_links`, as people call them: nobody can take these",
            title="Closed roads",
        ),
    ]
    total_travel_time_change: Annotated[
        float,
        shown(
            "What closing adds to the total travel time of the same released demand on all roads; "
            "with closed_links",
            unit="trips a period times the unit of free_flow_time",
            title="Change of the total travel time by closing",
        ),
    ]
    link_flow_changes: Annotated[
        list[float],
        shown(
            "What closing adds to the flow of each link, in the order of the request; with "
            "closed_links",
            unit="trips a period",
            title="Changes of link flows by closing",
            table=("link", "change"),
        ),
    ]
    skims: Annotated[
        list[list[float]],
        shown(
            "Travel time of a trip of each pair, in the mean of its paths at the released flows, "
            "fixed costs among it; intervals: where the true trips follow this policy",
            unit="the unit of free_flow_time",
            table=("origin", "destination", "time"),
        ),
    ]
    skims_by_class: Annotated[
        list[list[list[float]]],
        shown(
            "The same of each class of users, with its own weight of fixed costs, in the place of "
            "`skims` where trips have classes",
            unit="the unit of free_flow_time",
            title="Travel times by class of users",
            table=("user_class", "origin", "destination", "time"),
        ),
    ]
    total_travel_time: Annotated[
        float,
        shown(
            "Of the released demand, fixed costs of links among it, by each class's own weight; "
            "of the method counts",
            unit="trips a period times the unit of free_flow_time",
            title="Total travel time of a period",
        ),
    ]
    relative_gap: Annotated[
        float,
        shown(
            "Upper bound on how far the assignment is above its minimum",
            title="Relative gap of the assignment",
        ),
    ]
    iterations: Annotated[
        int, shown("Steps that the assignment took", title="Iterations of the assignment")
    ]
    status: Annotated[
        Literal["converged", "iteration_limit"],
        shown(
            "Whether the assignment reached the gap that was asked for",
            title="Status of the solver",
        ),
    ]
    true_total_travel_time: Annotated[
        float,
        shown(
            "Cost of the policy for the true mean demand; only for simulations",
            unit="trips a period times the unit of free_flow_time",
            title="Total travel time on the true demand (simulation)",
        ),
    ]
    true_best_total_travel_time: Annotated[
        float,
        shown(
            "Cost of the best policy for the true mean demand; only for simulations",
            unit="trips a period times the unit of free_flow_time",
            title="The best there is on the true demand (simulation)",
        ),
    ]


# Advice -------------------------------------------------------------------------------------------
# Expectations and advice of a plan on trips, from public figures alone.
#
# How far noise will move link flows and total travel time depends on the links that each pair's
# trips take. These are taken from an assumed demand with the public total (or none, if there is no
# public total), in which distant pairs have fewer trips than near ones (a gravity model), assigned
# in rounds of shortest paths at the costs of the previous rounds (Frank and Wolfe 1956). The length
# of trips is not public: the noise is computed for long trips, and so for full roads, and the total
# travel time, to which percentages refer, for shorter trips. So a requested accuracy of either kind
# is kept. This uses SciPy, so that planning alone loads no compiled kernel.

Floats = NDArray[np.float64]

TOOK = {
    False: {"total_travel_time": (0.48, 0.93), "link_flows": (0.7, 0.92), "demand": (0.73, 1.12)},
    True: {"total_travel_time": (0.93, 1.06), "link_flows": (0.92, 1.04), "demand": (0.72, 1.05)},
}
"""Values of `Expected.took`: from public figures, and around an earlier release of similar data."""
SMALL_DELTA = DELTA_UNIT // 10**6
"""The delta that may be suggested if a plan has none: 1e-6."""
ROUNDS = 40
SEARCH_STEPS = 30
FAR, LESS_FAR = 0.5, 1.0
"""Trips between two zones decrease as exp(-this * the shortest time / its mean over all pairs)."""
TRIPS = "in trips a period"
NO_TOTAL = "how full the roads are. Declare max_total of the dataset, the most trips of a period"
MOST_WORK = 2_000_000
"""The most zones times nodes of all rounds together, which takes about a second. If one round of a
network is larger, nothing is expected that needs shortest paths."""


class Roads(NamedTuple):
    """Figures of a demand on the network through which noise propagates."""

    norm: float
    most: float
    """The l2 norm and the maximum of all pairs' marginal costs of a trip."""
    total: float
    """Total travel time of a period."""
    pairs: float
    flow: float
    """For the link that most pairs use: their number, and its flow."""


class Kept(NamedTuple):
    """The fraction of the added noise that is left after negative trips are projected out."""

    total: float = 1.0
    flows: float = 1.0


class Each(NamedTuple):
    """Factors by which independent noise for each class of users changes that of a single class."""

    demand: float = 1.0
    flows: float = 1.0
    total: float = 1.0

    @classmethod
    def of(cls, classes: UserClasses) -> Each:
        """For demand the square root of their number. For flows each class counts by its PCE; for
        the total travel time too, but by no less than its own trip."""
        pce = classes.pce
        norms = (np.linalg.norm(one) for one in (np.ones(pce.size), pce, np.maximum(pce, 1.0)))
        return cls(*map(float, norms))


def expectations(
    public: RoutingPublic,
    network: RoadNetwork,
    latency: AffineLatency | BprLatency,
    objective: str,
    event: Event,
    confidence: float,
    classes: UserClasses | None = None,
) -> Iterator[Expected]:
    """The expectations of the method counts: total travel time, demand and link flows, in this
    order.

    The number of trips of each class of users is not public: noise is computed for the most
    expensive trips on the fullest roads, and the total travel time for the cheapest on the
    emptiest.
    """
    bound = public.max_total
    roads = roads_of(network, latency, objective, public.zones, bound or 0)
    own = Each()
    if classes is not None:
        own = Each.of(classes)
        least, most = (
            roads_of(
                _weighed(network, of(classes.weight)),
                latency,
                objective,
                public.zones,
                round(of([1.0, of(classes.pce)]) * (bound or 0)),
            )
            for of in (min, max)
        )
        roads = None if least is None or most is None else most._replace(total=least.total)
    mean = None if bound is None else bound / (public.zones * (public.zones - 1))
    yield from told(public, roads, event, confidence, mean, times=network.time_unit, own=own)


def _weighed(network: RoadNetwork, weight: float) -> RoadNetwork:
    """The network with fixed costs multiplied by this factor."""
    if weight == 1:
        return network
    links = tuple(replace(link, fixed_cost=weight * link.fixed_cost) for link in network.links)
    return network.model_copy(update={"links": links})


def told(
    public: RoutingPublic,
    roads: Roads | None,
    event: Event,
    confidence: float,
    mean: float | None,
    around: bool = False,
    kept: Kept = Kept(),  # noqa: B008  a tuple
    times: str | None = None,
    own: Each = Each(),  # noqa: B008  a tuple
) -> Iterator[Expected]:
    """The same for a known network; mean: that of the trips of a pair, or an upper bound. `around`:
    as an earlier job released them; times: the unit of times, if the network states it; own: the
    factors of classes of users."""
    in_time = f"in {times or 'the time unit of free_flow_time'}, summed over the trips of a period"
    reach = event.reach(confidence) / public.counts_a_mean_trip
    spread = float(ndtri((1 + confidence) / 2)) * event.deviation() / public.counts_a_mean_trip
    sure, took = percent(confidence), TOOK[around]
    if roads is not None:
        width = own.total * max(kept.total * spread * roads.norm, reach * roads.most)
        where = "for max_total trips, fewer of them to far zones"
        if around:
            where = "for trips as they were released"
        says = (
            f"total travel time: {'' if around else 'about '}±{plain(width)} ({sure}; {in_time}), "
        )
        if mean is None:
            says += (
                "on empty roads, more in congestion; declare `max_total` of the dataset to know "
                "how much"
            )
        elif width < roads.total:
            part = width / roads.total
            about = "less than 0.001" if part < 1e-5 else f"about {plain(100 * part)}"
            says += f"{about} % of the {plain(roads.total, 3)} expected {where}"
        else:
            says += f"more than the {plain(roads.total, 3)} expected {where}: mostly noise"
        size = roads.total if mean else None
        within = width if size is not None and width < size else math.inf
        lacks = "" if mean is not None else NO_TOTAL
        yield Expected(
            "total_travel_time", within, in_time, says, size, lacks, took=took["total_travel_time"]
        )
    # The projection keeps the sum of all pairs, which moves each a little off the integer grid of
    # the noise.
    near = own.demand * max(reach, spread if own.demand > 1 else 0.0)
    near += 0.5 / public.counts_a_mean_trip
    says = f"trips between each pair of zones: ±{plain(near)} per period ({sure})"
    if mean is not None:
        says += f"; a pair has {'' if around else 'at most '}{plain(mean, 3)} on average"
    says += f"; pairs below {plain(2 * near)} trips per period are indistinguishable from 0"
    yield Expected("demand", near, TRIPS, says, mean, took=took["demand"])
    if roads is not None:
        width = own.flows * max(kept.flows * spread * math.sqrt(roads.pairs), reach)
        says = (
            f"flow of the link that most pairs of zones use: ±{plain(width)} trips per period "
            f"({sure}); other links are more accurate"
        )
        yield Expected(
            "link_flows", width, TRIPS, says, roads.flow if mean else None, took=took["link_flows"]
        )


def expected_shares(event: Event, confidence: float) -> Expected:
    """The expectations of the method gradient."""
    reach = event.reach(confidence)
    says = f"share of a pair's trips that take a link: ±{plain(reach)} ({percent(confidence)})"
    if reach >= 0.5:
        says += ", and shares lie between 0 and 1: mostly noise"
    return Expected(
        "unit_flows", reach if reach < 0.5 else math.inf, "as a share of a pair's trips", says, 1.0
    )


@lru_cache(maxsize=8)
def roads_of(
    roads: RoadNetwork, latency: AffineLatency | BprLatency, objective: str, zones: int, total: int
) -> Roads | None:
    """The assumed effect of `total` trips per period; None if the network is too large."""
    network, form = roads.arrays(zones), roads.latencies(latency)
    empty = form.times(network, np.zeros(network.tail.size))
    work = zones * (network.nodes + network.first_through_node)
    if work > MOST_WORK:
        return None
    of = int(objective == "system_optimum")
    pairs = 1.0 - np.eye(zones)
    shortest, start = _loaded(network, empty, pairs[None])
    known = shortest[(pairs > 0) & np.isfinite(shortest)]
    unit = float(known.mean()) if known.any() else 1.0

    def filled(fall: float) -> tuple[Floats, Floats]:
        """Flows float64[links] of trips that decrease with distance in this way, and the number of
        pairs that use each link."""
        weight = pairs * np.exp(-fall * shortest / unit)
        demands = np.stack([weight * (total / weight.sum()), pairs])
        moved = _loaded(network, empty, demands)[1]
        for _ in range(min(ROUNDS, MOST_WORK // (2 * work))):
            other = _loaded(network, _costs(network, form, moved[0])[of], demands)[1]
            step = other - moved
            moved = (
                moved
                + _length(lambda flow: _costs(network, form, flow)[of], moved[0], step[0]) * step
            )
        return moved[0], moved[1]

    flow, count = filled(FAR) if total else (np.zeros(start.shape[1]), start[0])
    less = filled(LESS_FAR)[0] if total else flow
    trip, _ = _loaded(network, _costs(network, form, flow)[1], pairs[None])
    busy = int(np.argmax(count))
    return Roads(
        norm=float(np.linalg.norm(trip)),
        most=float(trip.max()),
        total=float(_costs(network, form, less)[0] @ less),
        pairs=float(count[busy]),
        flow=float(flow[busy]),
    )


def _length(costs: Callable[[Floats], Floats], start: Floats, step: Floats) -> float:
    """The step length of all pairs towards shorter paths: until these are no longer shorter."""
    low, high = 0.0, 1.0
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if costs(start + middle * step) @ step < 0 else (low, middle)
    return low


def _costs(network: Network, latency: Latency, flow: Floats) -> tuple[Floats, Floats]:
    """Travel times, and the marginal cost of one more trip to all."""
    time = latency.times(network, flow)
    raised = latency.coefficient * (flow / network.capacity) ** latency.power
    return time, time + network.free_flow_time * latency.power * raised


def _loaded(network: Network, cost: Floats, demands: Floats) -> tuple[Floats, Floats]:
    """The cost of each pair's shortest path, float64[zones, zones], and the flows float64[k, links]
    of demands float64[k, zones, zones] on these paths.

    A centroid is represented by two nodes, one for arrivals and one for departures, as in
    `unreachable_pairs`. Only the cheapest of parallel links counts. A sparse matrix has no edge of
    cost 0, so all costs are increased by a tiny amount.
    """
    nodes, zones = network.nodes, network.zones
    size = nodes + network.first_through_node
    leaves = np.where(network.tail < network.first_through_node, network.tail + nodes, network.tail)
    keys = leaves * size + network.head
    order = np.lexsort((cost, keys))
    keys, first = np.unique(keys[order], return_index=True)
    links = order[first]
    trifle = 1e-9 * (float(cost.max(initial=0.0)) or 1.0)
    graph = csr_array((cost[links] + trifle, np.divmod(keys, size)), shape=(size, size))
    starts = np.arange(zones)
    starts = np.where(starts < network.first_through_node, starts + nodes, starts)
    distance, before = dijkstra(graph, indices=starts, return_predecessors=True)
    trips = np.zeros((len(demands), zones, size))
    trips[:, :, :zones] = demands
    rows = np.arange(zones)
    # From the farthest node on, the flow that arrives at a node came through its predecessor.
    farthest = np.argsort(np.where(np.isfinite(distance), -distance, 0.0), axis=1, kind="stable")
    for node in farthest.T:
        ahead = before[rows, node]
        known = ahead >= 0
        trips[:, rows[known], ahead[known]] += trips[:, rows[known], node[known]]
    row, node = np.nonzero(before >= 0)
    taken = links[np.searchsorted(keys, before[row, node].astype(np.int64) * size + node)]
    carried = [
        np.bincount(taken, weights=each[row, node], minlength=network.tail.size) for each in trips
    ]
    return np.where(np.eye(zones, dtype=bool), 0.0, distance[:, :zones]), np.array(
        carried, dtype=np.float64
    )


def clip_advice(trips: int) -> tuple[str, ...]:
    """Why `max_trips_per_person: "auto"` has its value, and the effect of the next best."""
    says = (
        f"max_trips_per_person (auto) is {trips}, the dataset's public max_person, so no trip "
        "is left out"
    )
    if trips > 1:
        says += (
            f"; {trips // 2} would halve the noise, and leave out further trips of whoever has more"
        )
    return (says,)


def model_advice(
    objective: str, roads: RoadNetwork, latency: AffineLatency | BprLatency
) -> tuple[str, ...]:
    """The assumptions about drivers and roads, if these are not how people choose roads by
    themselves: the interval does not cover them, and noise is the smaller part of an answer's
    error."""
    said, other = [], []
    if objective == "system_optimum":
        said.append("trips are sent so that all together lose least (system optimum)")
        other.append("objective=user_equilibrium")
    if isinstance(latency, AffineLatency) and any(link.power is None for link in roads.links):
        said.append("travel times grow in proportion to flows")
        other.append("latency.type=bpr")
    if not said:
        return ()
    return (
        f"{', and '.join(said)}; to see how people choose their own routes, ask with "
        f"{' and '.join(other)}, also afterwards, for free",
    )


def norm_advice(
    trips: int, norm: int | None, scale: int, event: Event, budget: Budget
) -> tuple[str, ...]:
    """Whether a bound on the norm of a person's trips helps, in addition to that on their number.
    It is advised only if it can leave a person all trips, each of another pair; with a smaller one
    it is better to count fewer trips."""
    if trips == 1 or (
        norm is not None and (event.norm == "l2" or event.sensitivity < trips * scale)
    ):
        return ()
    try:
        delta = budget.delta or SMALL_DELTA
        one = (
            calibration.discrete_gaussian(1000, budget.epsilon, delta, neighbours="x").deviation()
            / 1000
        )
    except ValueError:  # with more noise than can be drawn
        return ()
    most = min(trips - 1, int(event.deviation() / (one * scale)))
    suits = (
        f"there is less noise with a max_norm_per_person of at most {most}"
        if most**2 >= trips
        else ""
    )
    if suits and not budget.delta:
        suits = f"with a delta, {SMALL_DELTA / DELTA_UNIT:g} for instance, {suits}"
    if norm is not None:
        why = "with this epsilon and delta" if budget.delta else "with delta 0"
        return (
            f"max_norm_per_person {norm} does no more than cut trips {why}{suits and '; '}{suits}",
        )
    return (
        (f"{suits}: {trips} trips spread evenly over p pairs have the norm {trips}/sqrt(p)",)
        if suits
        else ()
    )


# Headline -----------------------------------------------------------------------------------------
# The answer of a routing: the time that all trips take on it, or what closing roads adds.

AT = {
    "system_optimum": " at the system optimum",
    "user_equilibrium": " at the user equilibrium",
}
UNKNOWN_UNIT = "trips a period times the unit of the links' times"


def time_unit(problem: Mapping[str, Any]) -> str:
    """The unit of travel times if the network states it; empty if not, or if the problem names a
    stored network."""
    network = problem.get("network")
    return str(network.get("time_unit") or "") if isinstance(network, Mapping) else ""


def _has_fixed_costs(problem: Mapping[str, Any]) -> bool:
    """Whether the total has more in it than time: tolls and lengths by their weights."""
    network = problem.get("network")
    links = network.get("links") or () if isinstance(network, Mapping) else ()
    return any(link.get("fixed_cost") for link in links)


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """What closing roads adds, the total travel time, the law of travel times, links whose flows
    are only noise or not determined, and for simulations the cost on the true demand."""
    law = [Headline(str(result["latency_law"]))] if "latency_law" in result else []
    if "total_travel_time" not in result:  # the method gradient, which releases no trips
        return [Headline("Routes were released; trip counts and times were not"), *law]
    unit = time_unit(problem)
    told_unit = f"{unit}, of all trips of a period" if unit else UNKNOWN_UNIT
    what = "generalized cost" if _has_fixed_costs(problem) else "travel time"
    after = " after closing" if result.get("closed") else ""
    total = headline(
        RoutingResult,
        result,
        "total_travel_time",
        f"Total {what}{AT.get(problem.get('objective', ''), '')}{after}: ",
        between=f"{unit and ' '}{unit} per period",
    )
    found = [replace(total, unit=told_unit)]
    if "total_travel_time_change" in result:
        found.insert(0, replace(_change(result, unit), unit=told_unit))
    found += law
    noise, links = only_noise(result, "link_flows")
    if noise:
        found.append(
            Headline("Flows of ", f"{noise:,} of {counted(links, 'link')}", " are mostly noise")
        )
    if left_open := result.get("undetermined_links"):
        links = len(result.get("link_flows") or left_open)
        found.append(
            Headline(
                "Flows of ",
                f"{len(left_open):,} of {counted(links, 'link')}",
                " are not determined: other assignments are as good, so they have no interval",
            )
        )
    if {"true_total_travel_time", "true_best_total_travel_time"} <= result.keys():
        best = result["true_best_total_travel_time"]
        more = (
            f", {percent(result['true_total_travel_time'] / best - 1)} above the optimum"
            if best
            else ""
        )
        found.append(
            Headline(
                "Simulation: on the true trips these routes take ",
                figure(result, "true_total_travel_time"),
                f"{unit and ' '}{unit}{more}",
            )
        )
    return found


def _change(result: Mapping[str, Any], unit: str) -> Headline:
    """The effect of closing on the total travel time of the same trips, with the names of what is
    closed if there is room for them."""
    name = "total_travel_time_change"
    change, now = result[name], result["total_travel_time"]
    before = now - change
    part = f" ({percent(change / before)})" if before > 0 else ""
    between = f"{unit and ' '}{unit}{part} to total travel time"
    closed = result.get("closed") or ()
    found = headline(
        RoutingResult,
        result,
        name,
        "Closing adds ",
        between=between,
    )
    streets = list(dict.fromkeys(closing.street_of(name) or name for name in closed))
    named = [closures.told(closed), closures.told(streets)] if closed else []
    for said in (*named, counted(len(closed), "link")):
        called = replace(found, before=f"Closing {said} adds ")
        if len(called.text) <= LONGEST:
            found = called
            break
    told = ((result.get("uncertainty") or {}).get("values") or {}).get(name)
    return found if told or not result.get("uncertainty") else replace(found, good_for=NO_INTERVAL)


# Intervals ----------------------------------------------------------------------------------------
# How far the noise may have moved a routing result: the exact noise, through the derivative of the
# assignment.

Bools = NDArray[np.bool_]

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
            "kinds": dict.fromkeys(values, NOISE),
            "noise_dominates": {name: np.asarray(one).tolist() for name, one in dominates.items()},
            "mostly_noise": mostly_noise,
        },
        numbers=sum(np.size(end) for ends in values.values() for end in ends),
    )


# Laws ---------------------------------------------------------------------------------------------
# The law by which travel times grow with flows: as a sentence in the terms of the field, and as
# choices of forms.
#
# Intervals cover only the noise, and the choice of the law moves answers more than noise does: the
# trips of a town took a quarter longer with one than with the other. So plans, answers and forms
# all name it.

CHOICES: list[Any] = [
    {
        "says": "BPR: 0.15, power 4 of flow over capacity",
        "value": {"type": "bpr", "b": 0.15, "power": 4},
    },
    {
        "says": "travel time grows in proportion to the flow (a road at its capacity takes twice "
        "as long as empty)",
        "value": {"type": "affine", "factor": 1},
    },
]
"""The choices that forms offer, first the one that traffic engineers expect if capacities are
known; the contract's default, which applies to bodies without a law, remains the other."""


def stated(network: Mapping[str, Any]) -> bool:
    """Whether a network in JSON states the law of each of its links itself."""
    links = network.get("links") or ()
    return bool(links) and all(
        link.get("b") is not None and link.get("power") is not None for link in links
    )


def sentence(roads: RoadNetwork, latency: AffineLatency | BprLatency) -> str:
    """The law of all links as a formula in a sentence, without the full stop."""
    own = [
        (link.b, link.power)
        for link in roads.links
        if link.b is not None and link.power is not None
    ]
    partly = sum((link.b is None) != (link.power is None) for link in roads.links)
    if len(own) == len(roads.links) and own:
        if len(set(own)) == 1 and (figures := own[0])[0] is not None:
            return f"{_bpr(*figures)}, from the network"
        return f"{_LINK_TIME.format('BPR', 'b (flow/capacity)^power')}, b and power by link"
    says = _common(latency)
    if own or partly:
        links = len(own) + partly
        says += f"; own figures for {links:,} of {counted(len(roads.links), 'link')}"
    return says


def _common(latency: AffineLatency | BprLatency) -> str:
    if isinstance(latency, BprLatency):
        return _bpr(latency.b, latency.power)
    factor = "" if latency.factor == 1 else f"{latency.factor:g} "
    return _LINK_TIME.format("affine", f"{factor}flow/capacity")


def _bpr(b: float | None, power: float | None) -> str:
    return _LINK_TIME.format("BPR", f"{b:g} (flow/capacity){_raised(power)}")


def _raised(power: float | None) -> str:
    """`⁴` of 4, `^2.5` of 2.5."""
    text = f"{power:g}"
    return text.translate(_SUPERSCRIPTS) if text.isdecimal() else f"^{text}"


_LINK_TIME = "Link time ({}): free-flow time × (1 + {})"
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
