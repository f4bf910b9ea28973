"""What a plan of trips expects and advises, from public figures alone.

How far noise will move link flows and total travel time follows from which links a pair's trips
take. That is taken from a demand of the public total where there is one and else of nobody, of
which far pairs have fewer trips than near ones (a gravity model): rounds of shortest paths at the
costs of the rounds before (Frank and Wolfe 1956). How far trips go is not public: the noise is told
of trips that go far, so of full roads, and the total travel time, of which per cent are taken, of
trips that go less far. Then an accuracy of either kind is kept. By SciPy, so that who only plans
loads no compiled kernel.
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
from discreet.problems.road_network import AffineLatency, BprLatency, RoadNetwork
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
"""`Expected.took`: from public figures, and around an earlier release of like data."""
SMALL_DELTA = DELTA_UNIT // 10**6
"""One that may be given where a plan has none: 1e-6."""
ROUNDS = 40
SEARCH_STEPS = 30
FAR, LESS_FAR = 0.5, 1.0
"""Trips between two zones fall as exp(-this * the shortest time / its mean over all pairs)."""
TRIPS = "in trips a period"
NO_TOTAL = (
    "how full the roads are; a public max_total of the dataset, the most trips of a period, "
    "would tell"
)
MOST_WORK = 2_000_000
"""Zones times nodes of all rounds together, for which a second is enough; of a larger network of
one round nothing is said of what takes shortest paths."""


class Roads(NamedTuple):
    """A demand on the network, in figures that noise goes through."""

    norm: float
    most: float
    """The l2 norm and the largest of all pairs' costs of one more trip."""
    total: float
    """Total travel time of a period."""
    pairs: float
    flow: float
    """Of the link that most pairs lead over: how many, and its flow."""


class Kept(NamedTuple):
    """Of the noise that is added, the part that is left where no trips are negative."""

    total: float = 1.0
    flows: float = 1.0


class Each(NamedTuple):
    """What noise of each class of users for itself makes of that of one."""

    demand: float = 1.0
    flows: float = 1.0
    total: float = 1.0

    @classmethod
    def of(cls, classes: UserClasses) -> Each:
        """Of demand the root of their number. Of flows each counts by its PCE; of the total travel
        time too, but no less than its own trip."""
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
    """Of the method counts: total travel time, demand and link flows, in this order.

    Which class of users has how many trips is not public: their noise is told of the dearest trips
    on the fullest roads, and the size of the total travel time of the cheapest on the emptiest.
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
    """The network on which fixed costs are so many times as large."""
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
    """The same of roads that are known; mean: of the trips of a pair, or at most so many. `around`:
    as an earlier job released them; times: their unit, where the network says it; own: of classes
    of users."""
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
    # All pairs together keep their sum, which moves each a little off the whole numbers that noise
    # is of.
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
    """Of the method gradient."""
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
    """What `total` trips a period do; None where the network is too large to look."""
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
        """Flows float64[links] of trips that fall so with distance, and how many pairs lead over
        each link."""
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
    """How far to go along a step of all pairs to shorter paths: until they no longer are
    shorter."""
    low, high = 0.0, 1.0
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if costs(start + middle * step) @ step < 0 else (low, middle)
    return low


def _costs(network: Network, latency: Latency, flow: Floats) -> tuple[Floats, Floats]:
    """Travel times, and what one more trip costs all."""
    time = latency.times(network, flow)
    raised = latency.coefficient * (flow / network.capacity) ** latency.power
    return time, time + network.free_flow_time * latency.power * raised


def _loaded(network: Network, cost: Floats, demands: Floats) -> tuple[Floats, Floats]:
    """The cost of each pair's shortest path, float64[zones, zones], and the flows float64[k, links]
    of demands float64[k, zones, zones] on these.

    A centroid is two nodes, one that is entered and one that is left, as in `unreachable_pairs`. Of
    parallel links the cheapest counts. A sparse matrix has no edge of cost 0, so all cost a trifle
    more.
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
    # From the farthest node on, what arrives at a node came through the one before it.
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
    """Why `max_trips_per_person: "auto"` is what it is, and what the next best would do."""
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
    """What is assumed of drivers and roads where that is not how people drive on roads by
    themselves: of that the interval says nothing, and noise is the smaller part of what an answer
    may be off."""
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
    """Whether a bound on the norm of a person's trips suits, beside that on their number. One is
    advised only where it can leave a person all trips, of a pair each; with a smaller one it is
    better to count fewer trips."""
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
    except ValueError:  # of more noise than can be drawn
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
