"""The plan of the method gradient: one projected gradient step per period, then noise on the
routing of all pairs."""

from __future__ import annotations

import math

from discreet.errors import InvalidInput
from discreet.privacy import calibration
from discreet.problems.numbers import Budget
from discreet.problems.plans import LONGEST_SECONDS, NoiseSummary, Plan, Resources, sized
from discreet.problems.road_networks.network import AffineLatency, BprLatency, RoadNetwork
from discreet.problems.routing import result
from discreet.problems.routing.public import RoutingPublic
from discreet.solvers.traffic import unit_flow_projection as descent
from discreet.solvers.traffic.traffic_assignment import Network
from discreet.solvers.traffic.unit_flow_projection import UnitFlows

PROJECTION_TOLERANCE = 1e-11
MAX_REACH = 1e6
"""Largest number that may have to be projected: routings are between 0 and 1, and projections of
far larger numbers could fail, which would reveal something about the trips."""


def gradient_plan(
    public: RoutingPublic,
    budget: Budget,
    network: Network,
    terms: descent.Terms,
    row_seconds: float,
    said: tuple[str, ...],
) -> Plan:
    """The plan; InvalidInput with pointers if the regularization, the time or the budget is
    unsuitable.

    row_seconds: time for reading one cell with trips. said: the model of both methods.
    """
    flows = UnitFlows.of_pairs(network)
    steps = terms.step_sizes(public.periods)
    reach = terms.reach(steps)
    if not reach <= MAX_REACH:
        says = (
            f"a step may be {reach:.3g} times as long as any routing: a larger regularization "
            "is needed"
        )
        raise InvalidInput(says, pointer="/problem/regularization")
    error = flows.error_bound(PROJECTION_TOLERANCE)
    error += descent.rounding_bound(terms, steps, flows.pairs, network.tail.size)
    sensitivity = descent.sensitivity(terms, steps, error)
    neighbours = "one trip added or removed"
    numbers = flows.pairs * network.tail.size
    try:
        event = calibration.gaussian(
            sensitivity, budget.epsilon, budget.delta, neighbours=neighbours, dimension=numbers
        )
    except ValueError as error:
        pointer = "/privacy/delta" if budget.delta == 0 else "/privacy/epsilon"
        more = "" if budget.delta == 0 else "; gradient needs a larger epsilon or delta"
        raise InvalidInput(f"{error}{more}", pointer=pointer) from None
    advice = ["method counts routes the same trips at the same price, and loses far less"]
    if event.scale * math.sqrt(network.tail.size) > 1:
        advice.append(
            "the noise is larger than the shares of trips: the policy will be mostly noise"
        )
    # Ten times the measured time of a step of all pairs, about 5 ns for each number of the
    # factorization.
    seconds = 5e-8 * public.periods * flows.pairs * (flows.work + 1) + 1e-5 * numbers
    if seconds > LONGEST_SECONDS:
        says = (
            f"{public.periods} periods of {flows.pairs} pairs could take {seconds:.3g} s, at "
            f"most {LONGEST_SECONDS}"
        )
        raise InvalidInput(
            f"{says}; the method counts takes no time to speak of", pointer="/problem/method"
        )
    return Plan.priced(
        [event],
        noise=(
            NoiseSummary.of(
                event, f"share of each of {flows.pairs} pairs' trips at each of the network's links"
            ),
        ),
        iterations={"gradient": public.periods},
        resources=Resources.padded(
            0.25 * (1 + math.ceil(seconds)),
            work=public.most_rows * row_seconds,
            content_bytes=float(public.row_bytes * public.most_rows),
            memory_bytes=(1 << 28) + 8 * 8 * flows.pairs * (network.tail.size + network.nodes),
            steps=1,
        ),
        unit=public.unit,
        neighbours=neighbours,
        assumptions=(
            published(public),
            sized(f"{public.most_rows} cells with trips"),
            f"no period has more than {public.max_total:g} trips, no pair more than "
            f"{public.max_pair:g} in one",
        ),
        model=said,
        advice=tuple(advice),
        parameters={
            "method": "gradient",
            "smoothness": terms.smoothness,
            "gradient_change": terms.gradient_change,
            "sensitivity": sensitivity,
        },
    )


def published(public: RoutingPublic) -> str:
    """The assumption of both methods."""
    periods = "one period" if public.periods == 1 else f"{public.periods} periods"
    return f"the {periods}, the {public.zones} zones and the network are public"


def model(
    public: RoutingPublic, roads: RoadNetwork, latency: AffineLatency | BprLatency
) -> tuple[str, ...]:
    """What both methods take roads for."""
    return roads.of_periods(public.period_minutes), result.sentence(roads, latency)
