"""The answer of a routing: the time that all trips take on it, or what closing roads adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from discreet.problems.headlines import (
    LONGEST_STORED,
    NO_INTERVAL,
    NOISE,
    Headline,
    counted,
    figure,
    headline,
    only_noise,
)
from discreet.problems.routing import closures
from discreet.problems.routing.result import RoutingResult
from discreet_client.intervals import percent

AT = {
    "system_optimum": " at the system optimum",
    "user_equilibrium": " at the user equilibrium",
}
OTHER_LAW = "Another law can be applied to what was released, for free."
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
    costs = " and fixed costs" if _has_fixed_costs(problem) else ""
    with_closed = " with these closed" if result.get("closed") else ""
    total = headline(
        RoutingResult,
        result,
        "total_travel_time",
        f"Total travel time{costs}{AT.get(problem.get('objective', ''), '')}{with_closed}: ",
        kind=NOISE,
        between=f"{unit and ' '}{unit} per period",
    )
    found = [replace(total, unit=told_unit)]
    if "total_travel_time_change" in result:
        found.insert(0, replace(_change(result, unit), unit=told_unit))
    found += [replace(one, good_for=OTHER_LAW) for one in law]
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
    closed if lists of jobs have room for them."""
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
        kind=NOISE,
        between=between,
    )
    for said in (closures.told(closed) if closed else "", counted(len(closed), "link")):
        called = replace(found, before=f"Closing {said} adds ")
        if said and len(called.text) <= LONGEST_STORED:
            found = called
            break
    told = ((result.get("uncertainty") or {}).get("values") or {}).get(name)
    return found if told or not result.get("uncertainty") else replace(found, good_for=NO_INTERVAL)
