"""The fields of a routing result."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from discreet.problems.results import SummedFields, shown


class RoutingPath(TypedDict):
    """A path from origin to destination, and the share of the pair's trips that take it."""

    links: Annotated[list[int], shown("Positions of its links in the request, from 0")]
    share: Annotated[float, shown("Shares of a pair sum to 1")]


class RoutingPair(TypedDict):
    """How the trips of one ordered pair of zones are routed."""

    origin: int
    destination: int
    paths: list[RoutingPath]


class RoutingResult(SummedFields, total=False):
    """What follows from the released trips, or of the method gradient from the released routing."""

    link_flows: Annotated[
        list[float],
        shown(
            "Flow of each link, in the order of the request; of the method counts",
            unit="trips a period",
            table=("link", "flow"),
        ),
    ]
    demand: Annotated[
        list[list[float]],
        shown(
            "Released mean demand of a period, zones by zones; of the method counts",
            unit="trips a period",
            table=("origin", "destination", "trips"),
        ),
    ]
    unit_flows: Annotated[
        list[list[float]],
        shown("Share of each pair's trips at each link; of the method gradient", table=("pair", "link", "share")),
    ]
    policy: Annotated[
        list[RoutingPair],
        shown(
            "Paths with their shares, for every ordered pair of distinct zones",
            table=("origin", "destination", "share", "links"),
        ),
    ]
    total_travel_time: Annotated[
        float,
        shown(
            "Of the released demand, fixed costs of links among it; of the method counts",
            unit="trips a period times the unit of free_flow_time",
            title="Total travel time of a period",
        ),
    ]
    relative_gap: Annotated[
        float, shown("How far the assignment is above its minimum at most", title="Relative gap of the assignment")
    ]
    iterations: Annotated[int, shown("Steps that the assignment took", title="Iterations of the assignment")]
    status: Annotated[
        Literal["converged", "iteration_limit"],
        shown("Whether the assignment reached the gap that was asked for", title="Status of the solver"),
    ]
    true_total_travel_time: Annotated[
        float,
        shown(
            "What the policy costs on the true mean demand; of simulations",
            unit="trips a period times the unit of free_flow_time",
            title="Total travel time on the true demand (simulation)",
        ),
    ]
    true_best_total_travel_time: Annotated[
        float,
        shown(
            "What the best policy costs on the true mean demand; of simulations",
            unit="trips a period times the unit of free_flow_time",
            title="The best there is on the true demand (simulation)",
        ),
    ]
