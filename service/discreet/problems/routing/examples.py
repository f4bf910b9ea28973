"""The example of the kind, which is small and really runs, and further inputs for rehearsals and
attacks."""

from __future__ import annotations

from typing import Any

from discreet.problems.base import Neighbours, Problem
from discreet.problems.numbers import Budget
from discreet.problems.road_networks.network import RoadNetwork
from discreet.problems.routing import closures, result
from discreet.problems.routing.counts_plan import clip_of
from discreet.problems.routing.dataset import RoutingContent, RoutingDataset, Trip
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.request import RoutingRequest
from discreet.problems.routing.synthesis import trips_a_period

TRIPS_A_PERSON = 10
"""The number of counted trips of a person, if no public figure gives one."""


def example() -> dict[str, Any]:
    """Two zones joined by two routes: Pigou's network (1920), with 30 synthetic mornings."""
    links = [(1, 3, 0.0, 1000.0), (1, 2, 10.0, 1e6), (3, 2, 5.0, 100.0), (2, 1, 10.0, 1000.0)]
    return {
        "problem": {
            "kind": "routing",
            "dataset": {
                "name": "synthetic mornings",
                "kind": "routing",
                "public": {"unit": "request", "zones": 2, "periods": 30, "period_minutes": 60},
                "content": {
                    "trips": [
                        {"period": period, "origin": 1, "destination": 2, "count": 90 + period % 7}
                        for period in range(30)
                    ]
                },
                "cap": {"epsilon": 1, "delta": 0},
            },
            "network": {
                "nodes": 3,
                "links": [
                    {"tail": tail, "head": head, "free_flow_time": time, "capacity": capacity}
                    for tail, head, time, capacity in links
                ],
            },
        },
        "privacy": {"epsilon": 0.1},
    }


def example_for(public: RoutingPublic) -> dict[str, Any]:
    """The zones of this dataset on a ring around a hub, with capacity for about the trips that they
    may have; for two zones the example's own network."""
    body = example()
    problem = body["problem"]
    del problem["dataset"]
    if public.zones > 2:
        hub, room = public.zones + 1, max(1, trips_a_period(public) // public.zones)
        rim = [(zone, zone % public.zones + 1, 5.0) for zone in range(1, hub)]
        roads = [*rim, *((zone, hub, 4.0) for zone in range(1, hub))]
        problem["network"] = {
            "nodes": hub,
            "links": [
                {"tail": tail, "head": head, "free_flow_time": time, "capacity": room}
                for one, other, time in roads
                for tail, head in ((one, other), (other, one))
            ],
        }
    problem["latency"] = dict(result.CHOICES[0]["value"])
    if public.user_classes is not None:
        plain = {"fixed_cost_weight": 1.0, "pce": 1.0}
        problem["user_classes"] = [{"name": name, **plain} for name in public.user_classes]
    if public.unit == "person":
        problem["max_trips_per_person"] = TRIPS_A_PERSON if public.max_person is None else "auto"
    return {**body, "privacy": {**body["privacy"], "delta": "auto"}}


def worst_cases(kind: type[Problem]) -> tuple[Neighbours, ...]:
    """One more trip; and one more person, whose trips are all of one pair and exceed the counted
    number."""
    cases = []
    for unit, most, delta in (
        ("request", None, 0),
        ("person", 5, 0),
        ("request", None, 10**17),
        ("person", 5, 10**17),
    ):
        public = RoutingPublic(unit=unit, zones=2, periods=3, period_minutes=60)
        problem = kind.model_validate(
            {**kind.example()["problem"], "dataset": "example", "max_trips_per_person": most}
        )
        others = [
            Trip(period=0, origin=1, destination=2, count=4),
            Trip(period=1, origin=2, destination=1, count=2),
        ]
        more = Trip(period=2, origin=1, destination=2, count=1 if most is None else 3 * most)
        rows = [others, [*others, more]]
        if unit == "person":
            rows = [
                [{**row, "person": position} for position, row in enumerate(part)] for part in rows
            ]
        left, right = (
            RoutingDataset.read_rows(public, RoutingContent(trips=part)) for part in rows
        )
        plan = problem.plan(public, Budget(epsilon=10**9, delta=delta))
        name = f"routing, counts, unit {unit}" + (", gaussian" if delta else "")
        cases.append(Neighbours(name, problem, public, plan, left, right))
    return (
        *cases,
        _scale_case(kind),
        _norm_case(kind),
        *_class_cases(kind),
        _gradient_case(kind),
    )


def _class_cases(kind: type[Problem]) -> tuple[Neighbours, ...]:
    """One more trip of a class that had none; and one more person, whose trips are all of one pair
    and class. With all optional fields."""
    found = []
    for unit, most, delta in (("request", None, 0), ("person", 5, 10**17)):
        public = RoutingPublic(
            unit=unit, zones=2, periods=3, period_minutes=60, user_classes=("car", "truck")
        )
        asked = {"dataset": "example", "max_trips_per_person": most}
        weighed = [{"name": "truck", "fixed_cost_weight": 0.2}]
        told = {"user_classes": weighed, "select_links": [0], "skims": True}
        problem = kind.model_validate({**kind.example()["problem"], **asked, **told})
        car = Trip(period=0, origin=1, destination=2, count=4, user_class="car")
        count = 1 if most is None else 3 * most
        truck = Trip(period=2, origin=1, destination=2, count=count, user_class="truck")
        if unit == "person":
            car, truck = Trip(**car, person=0), Trip(**truck, person=1)
        left, right = (
            RoutingDataset.read_rows(public, RoutingContent(trips=part))
            for part in ([car], [car, truck])
        )
        plan = problem.plan(public, Budget(epsilon=10**9, delta=delta))
        name = f"routing, counts, classes of users, unit {unit}" + (", gaussian" if delta else "")
        found.append(Neighbours(name, problem, public, plan, left, right))
    return tuple(found)


def _scale_case(kind: type[Problem]) -> Neighbours:
    """One more person, whose trips are in hundredths and of which 5 are counted: 500 counts of one
    pair. With all optional fields."""
    public = RoutingPublic(unit="person", zones=2, periods=3, period_minutes=60, trip_scale=100)
    asked = {"dataset": "example", "max_trips_per_person": 5, "select_links": [0], "skims": True}
    problem = kind.model_validate({**kind.example()["problem"], **asked})
    others = [Trip(period=0, origin=1, destination=2, count=4.25, person=0)]
    more = [
        Trip(period=period, origin=1, destination=2, count=3.37, person=1) for period in range(3)
    ]
    left, right = (
        RoutingDataset.read_rows(public, RoutingContent(trips=part))
        for part in (others, [*others, *more])
    )
    plan = problem.plan(public, Budget(epsilon=10**9, delta=0))
    return Neighbours("routing, counts, fractions of trips", problem, public, plan, left, right)


def _norm_case(kind: type[Problem]) -> Neighbours:
    """One more person, whose trips of nine pairs have twice the allowed norm: two of each four are
    kept."""
    public = RoutingPublic(unit="person", zones=4, periods=3, period_minutes=60)
    problem = kind.model_validate(
        {
            **kind.example()["problem"],
            "dataset": "example",
            "network": {
                "nodes": 4,
                "links": [
                    {"tail": tail, "head": head, "free_flow_time": 1, "capacity": 10}
                    for tail, head in ((1, 2), (2, 3), (3, 4), (4, 1))
                ],
            },
            "max_trips_per_person": 40,
            "max_norm_per_person": 6,
        }
    )
    pairs = [
        (origin, destination)
        for origin in (1, 2, 3)
        for destination in (1, 2, 3, 4)
        if origin != destination
    ]
    others = [Trip(period=0, origin=4, destination=1, count=1, person=0)]
    more = [
        Trip(period=1, origin=origin, destination=to, count=4, person=1) for origin, to in pairs
    ]
    left, right = (
        RoutingDataset.read_rows(public, RoutingContent(trips=part))
        for part in (others, [*others, *more])
    )
    plan = problem.plan(public, Budget(epsilon=2 * 10**9, delta=10**13))
    return Neighbours("routing, counts, norm of a person", problem, public, plan, left, right)


def _gradient_case(kind: type[Problem]) -> Neighbours:
    """One period with one trip or none, on three parallel links of which only one takes time: apart
    from its mean over the links, the trip's contribution to the gradient lies along the unit
    flows."""
    public = RoutingPublic(
        unit="request", zones=2, periods=1, period_minutes=60, max_total=1, max_pair=1
    )
    links = [
        {"tail": tail, "head": head, "free_flow_time": time, "capacity": 1e6}
        for tail, head, time in ((1, 2, 1.0), *[(1, 2, 0.0)] * 2, (2, 1, 0.0))
    ]
    problem = kind.model_validate(
        {
            "kind": "routing",
            "dataset": "example",
            "network": {"nodes": 2, "links": links},
            "method": "gradient",
            "regularization": 10,
        }
    )
    plan = problem.plan(public, Budget(epsilon=6 * 10**9, delta=10**13))
    trip = Trip(period=0, origin=1, destination=2, count=1)
    left, right = (
        RoutingDataset.read_rows(public, RoutingContent(trips=part)) for part in ([], [trip])
    )
    return Neighbours("routing, gradient", problem, public, plan, left, right)


def _closing(roads: RoadNetwork, zones: int) -> dict[str, Any]:
    """A closed link without which the zones stay connected; if there is none, a new one parallel to
    the first."""
    spare = [
        link for link in range(len(roads.links)) if not any(closures.issues(roads, [link], zones))
    ]
    if spare:
        return {"closed_links": spare[:1]}
    network = roads.model_dump(mode="json")
    network["links"].append(network["links"][0])
    return {"closed_links": [len(roads.links)], "network": network}


def otherwise(problem: RoutingRequest, public: RoutingPublic) -> dict[str, dict[str, Any]]:
    """Another value of each field of the request."""
    zones = public.zones
    classes = public.user_classes or ("car",)  # which a dataset without classes refuses
    weighed = [{"name": name, "fixed_cost_weight": 3.0} for name in classes]
    network = problem.roads.model_dump(mode="json")
    network["links"][0]["free_flow_time"] += 1
    network["links"][0]["fixed_cost"] += 1
    return {
        "network": {"network": network},
        "latency": {"latency": {"type": "affine", "factor": 2}},
        "objective": {"objective": "user_equilibrium"},
        "user_classes": {"user_classes": [] if problem.user_classes else weighed},
        "method": {"method": "counts" if problem.method == "gradient" else "gradient"},
        "regularization": {"regularization": 2 * (problem.regularization or 1)},
        "max_trips_per_person": {"max_trips_per_person": 1 + (clip_of(problem, public) or 0)},
        "max_norm_per_person": {"max_norm_per_person": 1 + (problem.max_norm_per_person or 0)},
        "relative_gap": {"relative_gap": 1e-3},
        "closed_links": {"closed_links": []}
        if problem.closed_links
        else _closing(problem.roads, zones),
        "select_links": {"select_links": [] if problem.select_links else [0]},
        "skims": {"skims": not problem.skims},
        "uncertainty": {"uncertainty": not problem.uncertainty},
    }
