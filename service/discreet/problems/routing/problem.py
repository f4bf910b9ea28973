"""Routing: where the users of a network should go, without revealing where any of them went.

Trips by origin and destination are private; network, capacities and latencies are public. Two
methods:

- `counts` releases the number of trips of every ordered pair of distinct zones over all periods
  with discrete noise, zeros included; everything else, from the mean demand of a period to the
  paths of every pair, is post-processing.
- `gradient` is the corrected algorithm of Tsao et al. 2022: one projected
  gradient step on the routing of all pairs for each period, then noise on the routing itself. It is
  far less accurate at the same price and is kept for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.base import ALWAYS, Neighbours, Synthesis
from discreet.problems.contents import Content, Profile, Progress, PublicObject, Released, Sums
from discreet.problems.numbers import Budget
from discreet.problems.parts import SumsOverParts
from discreet.problems.plans import Plan
from discreet.problems.results import LEVEL, Expected, Result
from discreet.problems.road_networks.network import RoadNetwork
from discreet.problems.routing import checks, closures, examples, result
from discreet.problems.routing.around import roads_around
from discreet.problems.routing.assigned import assigned, true_costs
from discreet.problems.routing.counts import clip, demand_of, shorten, sums_by_pair
from discreet.problems.routing.counts_plan import MOST_SUMS, counts_plan, row_seconds
from discreet.problems.routing.dataset import RoutingDataset
from discreet.problems.routing.gradient import PROJECTION_TOLERANCE, gradient_plan, model
from discreet.problems.routing.policies import policy_output
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.request import RoutingRequest
from discreet.problems.routing.result import (
    Each,
    RoutingResult,
    expectations,
    expected_shares,
    headlines,
    model_advice,
    pairs_are_noise,
    told,
    uncertainty_of_routing,
)
from discreet.problems.routing.synthesis import SYNTHESIS
from discreet.problems.routing.user_classes import classes_of
from discreet.solvers.traffic import unit_flow_projection as descent
from discreet.solvers.traffic.traffic_assignment import Network
from discreet.solvers.traffic.unit_flow_projection import UnitFlows

NEEDS_OWN = (
    "A network is needed: zone k of these trips is its node k, and a made-up one has other places. "
    "Store yours on the page of networks or by `discreet network add`, and name it; or give it "
    "whole."
)


class Routing(RoutingRequest, SumsOverParts):
    """Route the mean demand of a period over a network.

    `counts` releases the trips of every ordered pair of zones over all periods. One request moves
    one count by 1; a person with at most k trips in the whole dataset (`max_trips_per_person`;
    further trips are left out) moves them by k in l1 and in l2, since all may be of one pair. With
    `max_norm_per_person` c they move them by c in l2 at most.

    `gradient` (unit request only) releases the unit flows of all pairs after one regularized
    gradient step per period; how far one request moves them is `unit_flow_descent.sensitivity`.
    """

    title: ClassVar[str] = "Routing"
    private: ClassVar[str] = "trips of a network's users"
    published: ClassVar[str] = "a routing policy for every pair of zones, link flows"
    words: ClassVar[Mapping[str, str]] = {"assignment": "Steps of the assignment, at most"}
    Dataset: ClassVar[type[RoutingDataset]] = RoutingDataset
    Fields: ClassVar[Any] = RoutingResult
    headlines: ClassVar[Any] = staticmethod(headlines)
    left_out = closures.LEFT_OUT
    main_fields: ClassVar[tuple[str, ...]] = ("total_travel_time",)
    synthesis: ClassVar[Synthesis | None] = SYNTHESIS
    made_up: ClassVar[str] = "The network is made up: put your own nodes and links in its place."
    shape: ClassVar[tuple[str, ...]] = ("zones",)
    asked_again: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("objective", "latency", "network", "user_classes"), "with the method counts"
        ),
        "relative_gap": ALWAYS,
        "uncertainty": ALWAYS,
        **dict.fromkeys(("closed_links", "select_links", "skims"), "with the method counts"),
    }

    known_to_who_asks: ClassVar[tuple[str, ...]] = ("objective", "latency")
    by_parts: ClassVar[str] = (
        f"the method counts reads it by parts, of up to {MOST_SUMS:,} pairs of zones (by class)"
    )
    objects: ClassVar[Mapping[str, type[PublicObject]]] = {"network": RoadNetwork}

    @classmethod
    def asks(cls, problem: Mapping[str, Any]) -> tuple[str, ...]:
        """Not applicable if the network states a law for every link."""
        stated = isinstance(network := problem.get("network"), Mapping) and result.stated(network)
        return tuple(
            field for field in cls.known_to_who_asks if not (stated and field == "latency")
        )

    @classmethod
    def example(cls) -> dict[str, Any]:
        return examples.example()

    @classmethod
    def example_for(cls, public: RoutingPublic) -> dict[str, Any]:
        return examples.example_for(public)

    @classmethod
    def vary(cls, content: dict[str, Any], number: int) -> None:
        content["trips"][0]["count"] += number

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        return examples.worst_cases(cls)

    @classmethod
    def fits(cls, field: str, sizes: Mapping[str, Any], public: RoutingPublic) -> bool:
        """A network has at least a node for every zone."""
        return int(sizes["nodes"]) >= public.zones

    @classmethod
    def named_for(cls, field: str, public: RoutingPublic) -> str | None:
        zones = (public.reader or {}).get("zones")
        return str(zones["network"]) if isinstance(zones, Mapping) and "network" in zones else None

    @classmethod
    def needs_own(cls, field: str, public: RoutingPublic) -> str:
        """Who reads trips by rules or names of columns of their own has their places: nodes of a
        made-up network are none of them, and the names of these places are not stored. A file that
        has ours, such as the example, needs none."""
        rules = {name for name in public.reader or {} if name != "version"}
        renamed = any(role != name for role, name in (public.columns or {}).items())
        return NEEDS_OWN if rules or renamed else ""

    def free(self, public: RoutingPublic) -> frozenset[str]:
        if self.method == "gradient":
            return super().free(public)
        without = frozenset({"user_classes"} if public.user_classes is None else ())
        return frozenset(self.asked_again) - without

    def alternative_values(self, public: RoutingPublic) -> dict[str, dict[str, Any]]:
        return examples.otherwise(self, public)

    # Planning -------------------------------------------------------------------------------------

    def plan(self, public: RoutingPublic, budget: Budget) -> Plan:
        plan = self.draft(public, budget)
        sentences = [one.sentence for one in self.expected(public, plan, LEVEL)]
        return plan.model_copy(
            update={
                "advice": (
                    *sentences,
                    *plan.advice,
                    *model_advice(self.objective, self.roads, self.latency),
                )
            }
        )

    def draft(self, public: RoutingPublic, budget: Budget) -> Plan:
        if issues := checks.issues(self, public):
            raise InvalidInput(issues)
        if self.method == "gradient":
            network = self.roads.arrays(public.zones)
            terms, said = (
                terms_of(self, public, network),
                model(public, self.roads, self.latency),
            )
            return gradient_plan(public, budget, network, terms, row_seconds(self, public), said)
        return counts_plan(self, public, budget)

    def place_names(self, public: RoutingPublic) -> Sequence[str] | None:
        names = self.roads.node_names
        return None if names is None or len(names) < public.zones else names[: public.zones]

    def means_otherwise(self, first: Routing, public: RoutingPublic) -> list[FieldIssue]:
        """Zone k is node k: in a network that names these nodes otherwise, trips would begin
        elsewhere."""
        here, there = self.roads.node_names, first.roads.node_names
        if here is None or there is None:
            return []
        for zone, (now, was) in enumerate(zip(here, there, strict=False), 1):
            if now != was and zone <= public.zones:
                says = (
                    f"zone {zone} is {now!r} in it, and was {was!r} in the network of the release"
                )
                return [
                    FieldIssue(
                        "/problem/network",
                        f"{says}: store it with the zones first, in the same order and under the "
                        "same names",
                    )
                ]
        return []

    def profile(self, public: RoutingPublic, plan: Plan, released: Released) -> Profile | None:
        """The mean demand of a period; none for unit flows, which contain no trips, or for trips
        that are only noise."""
        if "trips" not in released or pairs_are_noise(public, plan.events[0], released["trips"]):
            return None
        return {"demand": demand_of(public, released["trips"])}

    @classmethod
    def profiles(cls, problem: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
        return bool(parameters["method"] != "gradient")

    def expected(
        self, public: RoutingPublic, plan: Plan, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        (event,) = plan.events
        if plan.parameters["method"] == "gradient":
            return (expected_shares(event, confidence),)
        if around is not None:
            deviation = event.deviation() / public.counts_a_mean_trip
            roads, kept = roads_around(
                self.open_roads,
                self.latency,
                self.objective,
                around,
                deviation,
                classes_of(self, public),
            )
            own = Each(demand=math.sqrt(public.class_count or 1))
            mean = float(around["demand"].sum()) / (public.zones * (public.zones - 1))
            unit = self.roads.time_unit
            return tuple(
                told(
                    public,
                    roads,
                    event,
                    confidence,
                    mean,
                    around=True,
                    kept=kept,
                    times=unit,
                    own=own,
                )
            )
        return tuple(
            expectations(
                public,
                self.open_roads,
                self.latency,
                self.objective,
                event,
                confidence,
                classes_of(self, public),
            )
        )

    # Release --------------------------------------------------------------------------------------

    def release(
        self, public: RoutingPublic, plan: Plan, content: Content, noise: Noise
    ) -> Released:
        """The noisy counts of every ordered pair over all periods, int64[zones, zones],
        `trip_scale` of them for a trip, for each class of users if trips have one int64[classes,
        zones, zones]; by `gradient` the noisy unit flows of every pair, float64[pairs, links].

        Neighbours differ by one trip, or by one person with at most k counted trips. A trip is s
        counts, s the public `trip_scale`: of one pair, or split over several pairs and periods. The
        clip depends only on the person's record and leaves at most k s counts of it, so the counts
        of neighbours differ by at most s, or k s, in l1 and l2; the unit flows by at most the
        plan's sensitivity in l2. With a bound c on the norm, a person's counts by pair become
        integers, none of them larger, whose squares sum to at most (c s)², as a function of these
        counts alone (`shorten`): the sums of neighbours differ by at most c s in l2, and by k s and
        sqrt(pairs) c s in l1, where pairs are those of all classes. This is the event's
        sensitivity. The class of a trip is part of it, so classes only divide these counts.
        """
        if plan.parameters["method"] == "gradient":
            (event,) = plan.events
            return {"unit_flows": noise.add(event, descended(self, public, content))}
        return self.release_sums(public, plan, self.part_sums(public, plan, content), noise)

    def part_sums(self, public: RoutingPublic, plan: Plan, content: Content) -> Sums:
        trips = content["trips"]
        if plan.parameters["max_trips_per_person"] is not None:
            most = plan.parameters["max_trips_per_person"] * public.trip_scale
            trips = clip(trips, content["person_start"], most)
        if (norm := plan.parameters.get("max_norm_per_person")) is not None:
            trips = shorten(trips, content["person_start"], norm * public.trip_scale)
        return {"trips": sums_by_pair(trips, public.zones, public.class_count)}

    def release_sums(self, public: RoutingPublic, plan: Plan, sums: Sums, noise: Noise) -> Released:
        (event,) = plan.events
        noisy = noise.add(event, sums["trips"])
        within = np.eye(public.zones, dtype=bool)
        noisy[..., within] = 0  # intra-zonal trips use no link and are not released
        return {"trips": noisy}

    def diagnose(
        self, public: RoutingPublic, plan: Plan, content: Content, noise: Noise
    ) -> Released:
        """The true trips, without noise."""
        return {"true_trips": sums_by_pair(content["trips"], public.zones, public.class_count)}

    def noised_sums(self, plan: Plan) -> frozenset[str]:
        return frozenset({"unit_flows" if plan.parameters["method"] == "gradient" else "trips"})

    # Finish ---------------------------------------------------------------------------------------

    def finish(
        self, public: RoutingPublic, plan: Plan, released: Released, progress: Progress
    ) -> Result:
        values: dict[str, Any] = {"latency_law": result.sentence(self.roads, self.latency)}
        if plan.parameters["method"] == "gradient":
            (event,) = plan.events
            flows = UnitFlows.of_pairs(self.roads.arrays(public.zones))
            near = flows.project(released["unit_flows"]).flow
            policy = flows.policy(near)
            values["unit_flows"] = near
            if self.uncertainty:
                values["uncertainty"] = uncertainty_of_routing(event, released["unit_flows"], near)
            values |= true_costs(self, public, policy, released)
            progress(1, 1)
        else:
            policy, told = assigned(self, public, plan, released, progress)
            values |= told
        values["policy"] = policy_output(policy)
        return Result.of(self.Fields, values)


# Descended ----------------------------------------------------------------------------------------
# The release of the method `gradient`: unit flows after one step for each period.

STARTING_GAP = 1e-4


def terms_of(problem: RoutingRequest, public: RoutingPublic, network: Network) -> descent.Terms:
    assert problem.regularization is not None
    assert public.max_total is not None
    assert public.max_pair is not None
    return descent.Terms.of(
        network,
        problem.roads.latencies(problem.latency),
        problem.regularization,
        public.max_total,
        public.max_pair,
    )


def descended(
    problem: RoutingRequest, public: RoutingPublic, content: Content
) -> NDArray[np.float64]:
    """Algorithm 1 from a public start: the system optimum of `max_total` trips spread evenly."""
    network = problem.roads.arrays(public.zones)
    flows, terms = UnitFlows.of_pairs(network), terms_of(problem, public, network)
    trips = content["trips"][content["trips"][:, 1] != content["trips"][:, 2]]
    first = np.searchsorted(trips[:, 0], np.arange(public.periods + 1))
    pair = (trips[:, 1] - 1) * (public.zones - 1) + trips[:, 2] - 1 - (trips[:, 2] > trips[:, 1])

    def demand(period: int) -> NDArray[np.float64]:
        part = slice(first[period], first[period + 1])
        return np.bincount(pair[part], weights=trips[part, 3], minlength=flows.pairs).astype(
            np.float64
        )

    evenly = np.full((public.zones, public.zones), terms.max_total / max(1, flows.pairs))
    start = flows.of_policy(problem.routed(network, evenly, STARTING_GAP).paths)
    steps = terms.step_sizes(public.periods)
    try:
        return descent.descend(flows, terms, steps, demand, start, tolerance=PROJECTION_TOLERANCE)
    except ValueError:
        # This has not been observed within MAX_REACH; in any case a release must be total.
        return start
