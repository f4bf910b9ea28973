"""Expectations and advice of a plan on trips, from public figures alone.

How far noise will move link flows and total travel time depends on the links that each pair's trips
take. These are taken from an assumed demand with the public total (or none, if there is no public
total), in which distant pairs have fewer trips than near ones (a gravity model), assigned in rounds
of shortest paths at the costs of the previous rounds (Frank and Wolfe 1956). The length of trips is
not public: the noise is computed for long trips, and so for full roads, and the total travel time,
to which percentages refer, for shorter trips. So a requested accuracy of either kind is kept. This
uses SciPy, so that planning alone loads no compiled kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.special import ndtri

from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.privacy.units import DELTA_UNIT
from discreet.problems.accuracy import Expected
from discreet.problems.numbers import Budget
from discreet.problems.road_networks.network import AffineLatency, BprLatency, RoadNetwork
from discreet.problems.routing.public import RoutingPublic
from discreet.solvers.traffic.traffic_assignment import Latency, Network
from discreet_client.intervals import percent, plain

if TYPE_CHECKING:
    from discreet.solvers.traffic.user_classes import UserClasses

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
NO_TOTAL = (
    "how full the roads are; a public max_total of the dataset, the most trips of a period, "
    "would tell"
)
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
    sure, took = f"with {percent(confidence)} confidence", TOOK[around]
    if roads is not None:
        width = own.total * max(kept.total * spread * roads.norm, reach * roads.most)
        where = "for max_total trips, fewer of them to far zones"
        if around:
            where = "for trips as they were released"
        says = (
            f"total travel time within {'' if around else 'about '}± {plain(width)} {sure} "
            f"({in_time}), "
        )
        if mean is None:
            says += (
                "on empty roads, and less accurate on full ones: how full they are is only known "
                "from a public max_total of the dataset"
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
    says = f"the trips between each pair of zones within ± {plain(near)} a period {sure}"
    if mean is not None:
        says += f"; a pair has {'' if around else 'at most '}{plain(mean, 3)} on average"
    says += (
        f"; a pair with fewer than {plain(2 * near)} trips a period cannot be told from one "
        "without any"
    )
    yield Expected("demand", near, TRIPS, says, mean, took=took["demand"])
    if roads is not None:
        width = own.flows * max(kept.flows * spread * math.sqrt(roads.pairs), reach)
        says = (
            f"the flow of the link that most pairs of zones use within ± {plain(width)} "
            f"trips a period {sure}, those of other links more accurately"
        )
        yield Expected(
            "link_flows", width, TRIPS, says, roads.flow if mean else None, took=took["link_flows"]
        )


def expected_shares(event: Event, confidence: float) -> Expected:
    """The expectations of the method gradient."""
    reach = event.reach(confidence)
    says = (
        f"the share of a pair's trips that take a link within ± {plain(reach)} with "
        f"{percent(confidence)}"
    )
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
        f"{' and '.join(other)}, also afterwards, for free. Intervals cover the noise only",
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
