"""What follows from released trips: their assignment to the open roads, and all that is told of
it."""

from __future__ import annotations

from typing import Any

from discreet.problems.contents import Progress, Released
from discreet.problems.plans import Plan
from discreet.problems.routing import closures
from discreet.problems.routing.counts import demand_of
from discreet.problems.routing.intervals import uncertainty_of
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.selections import Selected, skims
from discreet.solvers.traffic.traffic_assignment import Policy


def assigned(
    problem: Any, public: RoutingPublic, plan: Plan, released: Released, progress: Progress
) -> tuple[Policy, dict[str, Any]]:
    """The policy, and the fields of the result beside it: of `problem.Routing` with method
    counts."""
    (event,) = plan.events
    network, latency = (
        problem.open_roads.arrays(public.zones),
        problem.roads.latencies(problem.latency),
    )
    demand = demand_of(public, released["trips"])
    solution = problem.routed(
        network, demand, problem.relative_gap, plan.iterations["assignment"], progress
    )
    values = {
        "link_flows": solution.link_flows,
        "demand": demand,
        "total_travel_time": solution.total_travel_time,
        "relative_gap": solution.relative_gap,
        "iterations": solution.iterations,
        "status": solution.status,
    }
    reopened = None
    if problem.closed_links:
        whole = problem.roads.arrays(public.zones)
        reopened = closures.Reopened(whole, problem.routed(whole, demand, problem.relative_gap))
        values["closed"] = closures.names(problem.roads, problem.closed_links)
        values |= closures.changes(solution, reopened)
    chosen = Selected.of(solution, demand, problem.select_links) if problem.select_links else None
    if chosen is not None:
        values["select_link"] = chosen.field()
    if problem.skims:
        values["skims"] = skims(network, latency, solution)
    if problem.uncertainty:
        asked = (
            solution,
            network,
            latency,
            problem.objective,
            chosen,
            values.get("skims"),
            reopened,
        )
        values["uncertainty"] = uncertainty_of(public, event, released["trips"], demand, *asked)
    return solution.paths, values
