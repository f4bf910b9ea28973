"""Post-processing of released trips: their assignment to the open roads, and the fields of the
result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.problems.contents import Progress, Released
from discreet.problems.plans import Plan
from discreet.problems.routing import closures
from discreet.problems.routing.counts import demand_of
from discreet.problems.routing.policies import policy_output
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.request import RoutingRequest
from discreet.problems.routing.result import LARGEST_GAP, MAX_LINKS, uncertainty_of
from discreet.problems.routing.selections import Selected, skims
from discreet.problems.routing.user_classes import classes_of, told
from discreet.solvers.traffic.determined import open_links
from discreet.solvers.traffic.traffic_assignment import (
    Assignment,
    Latency,
    Network,
    Policy,
    link_flows_of,
    total_travel_time,
)
from discreet.solvers.traffic.user_classes import (
    UserClasses,
    flows_by_class,
    policies_by_class,
    together,
    total_time,
)


def assigned(
    problem: RoutingRequest,
    public: RoutingPublic,
    plan: Plan,
    released: Released,
    progress: Progress,
) -> tuple[Policy, dict[str, Any]]:
    """The policy, and the other fields of the result, for `problem.Routing` with method counts."""
    (event,) = plan.events
    network, latency = (
        problem.open_roads.arrays(public.zones),
        problem.roads.latencies(problem.latency),
    )
    demand, classes = demand_of(public, released["trips"]), classes_of(problem, public)
    solution = problem.routed(
        network, demand, problem.relative_gap, plan.iterations["assignment"], progress, classes
    )
    values: dict[str, Any] = {
        "link_flows": solution.link_flows,
        "demand": demand,
        "total_travel_time": solution.total_travel_time,
        "relative_gap": solution.relative_gap,
        "iterations": solution.iterations,
        "status": solution.status,
    }
    if classes is not None:
        told(values, public, demand, flows_by_class(solution.paths, demand))
    reopened = None
    if problem.closed_links:
        whole = problem.roads.arrays(public.zones)
        again = problem.routed(whole, demand, problem.relative_gap, classes=classes)
        reopened = closures.Reopened(whole, again)
        values["closed"] = closures.names(problem.roads, problem.closed_links)
        values |= closures.changes(solution, reopened)
    left_open = _open_links(problem, network, latency, solution, demand, classes)
    open_changes = left_open
    if left_open is not None and left_open.any():
        values["undetermined_links"] = np.flatnonzero(left_open).tolist()
    if reopened is not None:
        before = _open_links(problem, *reopened.roads(latency), demand, classes)
        open_changes = None if left_open is None or before is None else left_open | before
    chosen = Selected.of(solution, demand, problem.select_links) if problem.select_links else None
    if chosen is not None:
        name = "select_link" if classes is None else "select_link_by_class"
        values[name] = chosen.field(public.user_classes or ())
    times = skims(network, latency, solution, classes) if problem.skims else None
    if times is not None:
        values["skims" if classes is None else "skims_by_class"] = times
    if problem.uncertainty:
        asked = (
            solution,
            network,
            latency,
            problem.objective,
            chosen,
            times,
            reopened,
            classes,
            left_open,
            open_changes,
        )
        values["uncertainty"] = uncertainty_of(public, event, released["trips"], demand, *asked)
    values |= true_costs(problem, public, solution.paths, released)
    if classes is None:
        return solution.paths, values
    values["policy_by_class"] = policy_output(solution.paths, public.user_classes or ())
    return together(policies_by_class(solution.paths, classes.number), demand), values


def _open_links(
    problem: RoutingRequest,
    network: Network,
    latency: Latency,
    solution: Assignment,
    demand: NDArray[np.float64],
    classes: UserClasses | None,
) -> NDArray[np.bool_] | None:
    """The links whose flow the program does not determine; None where nothing is said of any."""
    if solution.relative_gap > LARGEST_GAP or network.tail.size > MAX_LINKS:
        return None
    return open_links(network, latency, problem.objective, solution, demand, classes)


def true_costs(
    problem: RoutingRequest, public: RoutingPublic, policy: Policy, released: Released
) -> dict[str, Any]:
    """Fields of the result of a simulation: the costs of the policy (for each class of users if
    there are classes) and of the optimal one on the true mean demand."""
    if "true_trips" not in released:
        return {}
    network, demand = (
        problem.open_roads.arrays(public.zones),
        demand_of(public, released["true_trips"]),
    )
    latency, classes = problem.roads.latencies(problem.latency), classes_of(problem, public)
    if classes is None:
        reached = total_travel_time(network, latency, link_flows_of(policy, demand))
    else:
        reached = total_time(network, latency, classes, flows_by_class(policy, demand))
    best = problem.routed(network, demand, problem.relative_gap, classes=classes)
    return {
        "true_total_travel_time": reached,
        "true_best_total_travel_time": best.total_travel_time,
    }
