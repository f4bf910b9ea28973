"""The answer of a routing: the time that all trips take on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from discreet.problems.headlines import Headline, counted, figure, headline, only_noise
from discreet.problems.routing import closures
from discreet.problems.routing.result import RoutingResult
from discreet_client.intervals import percent

CHOICES = {
    "system_optimum": "where they are sent so that all together lose least (system optimum)",
    "user_equilibrium": "where everybody takes the way that is quickest (user equilibrium)",
}


OTHER_LAW = "Another law can be applied to what was released, for free."
UNKNOWN_UNIT = "trips a period times the unit of the links' times"
NO_INTERVAL = (
    "It has no interval: one takes an assignment to a gap below 1e-8, of a user "
    "equilibrium on at most 3,000 links."
)


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
    """The total travel time and on which roads, the effect of closing some, the law of travel
    times, links that are only noise, and for simulations the cost on the true demand."""
    law = [Headline(str(result["latency_law"]))] if "latency_law" in result else []
    if "total_travel_time" not in result:  # the method gradient, which releases no trips
        says = (
            "Every pair of zones has its paths; how many trips there are, and how long, was not "
            "released"
        )
        return [Headline(says), *law]
    unit = time_unit(problem)
    told = f" {unit} of travel time" if unit else " of travel time"
    if _has_fixed_costs(problem):
        told += ", including fixed costs such as tolls"
    unknown = "" if unit else ", in the unit of the links' times"
    closed = (
        f"With {closures.told(result['closed'])} closed, all" if result.get("closed") else "All"
    )
    found = [
        headline(
            RoutingResult,
            result,
            "total_travel_time",
            f"{closed} trips of a period together take ",
            f"{told}, "
            f"{CHOICES.get(problem.get('objective', ''), 'as the routing sends them')}{unknown}",
        )
    ]
    told_unit = f"{unit}, of all trips of a period" if unit else UNKNOWN_UNIT
    found = [replace(one, unit=told_unit) for one in found]
    if "total_travel_time_change" in result:
        found.append(_change(result, unit))
    found += [replace(one, good_for=OTHER_LAW) for one in law]
    noise, links = only_noise(result, "link_flows")
    if noise:
        found.append(
            Headline("The flows of ", f"{noise:,} of {counted(links, 'link')}", " are only noise")
        )
    if {"true_total_travel_time", "true_best_total_travel_time"} <= result.keys():
        best = result["true_best_total_travel_time"]
        more = (
            f", {percent(result['true_total_travel_time'] / best - 1)} more than the best there is"
            if best
            else ""
        )
        found.append(
            Headline(
                "On the true trips it takes ",
                figure(result, "true_total_travel_time"),
                f"{unit and ' '}{unit}{more} (simulation)",
            )
        )
    return found


def _change(result: Mapping[str, Any], unit: str) -> Headline:
    """The effect of closing on the total travel time of the same trips."""
    name = "total_travel_time_change"
    change, now = result[name], result["total_travel_time"]
    before = now - change
    part = (
        f", {percent(abs(change) / before)} {'more' if change >= 0 else 'less'}"
        if before > 0
        else ""
    )
    after = f"{unit and ' '}{unit} to what the same trips take on all roads{part}"
    found = headline(RoutingResult, result, name, "Closing adds ", after)
    told = ((result.get("uncertainty") or {}).get("values") or {}).get(name)
    return found if told or not result.get("uncertainty") else replace(found, good_for=NO_INTERVAL)
