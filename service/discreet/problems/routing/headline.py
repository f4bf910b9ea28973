"""What a routing answers: how long all trips take on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from discreet.problems.headlines import Headline, counted, figure, headline, only_noise
from discreet.problems.routing.result import RoutingResult
from discreet_client.intervals import percent

CHOICES = {
    "system_optimum": "where they are sent so that all together lose least (system optimum)",
    "user_equilibrium": "where everybody takes the way that is quickest (user equilibrium)",
}


def time_unit(problem: Mapping[str, Any]) -> str:
    """Of travel times, where the network says it; else, or where the problem names a stored network, empty."""
    network = problem.get("network")
    return str(network.get("time_unit") or "") if isinstance(network, Mapping) else ""


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The total travel time, links that are only noise, and of simulations what the truth costs."""
    if "total_travel_time" not in result:  # the method gradient, which releases no trips
        return [Headline("Every pair of zones has its paths; how many trips there are, and how long, was not released")]
    unit = time_unit(problem)
    told = f" {unit} of travel time" if unit else " of travel time"
    unknown = "" if unit else ", in the unit of the links' times"
    found = [
        headline(
            RoutingResult,
            result,
            "total_travel_time",
            "All trips of a period together take ",
            f"{told}, {CHOICES.get(problem.get('objective', ''), 'as the routing sends them')}{unknown}",
        )
    ]
    if unit:
        found = [replace(one, unit=f"{unit}, of all trips of a period") for one in found]
    noise, links = only_noise(result, "link_flows")
    if noise:
        found.append(Headline("The flows of ", f"{noise:,} of {counted(links, 'link')}", " are only noise"))
    if {"true_total_travel_time", "true_best_total_travel_time"} <= result.keys():
        best = result["true_best_total_travel_time"]
        more = f", {percent(result['true_total_travel_time'] / best - 1)} more than the best there is" if best else ""
        found.append(
            Headline(
                "On the true trips it takes ",
                figure(result, "true_total_travel_time"),
                f"{unit and ' '}{unit}{more} (simulation)",
            )
        )
    return found
