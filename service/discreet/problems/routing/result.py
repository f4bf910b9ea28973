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


class RoutingSelected(TypedDict):
    """The trips of one pair over one of the chosen links."""

    link: Annotated[int, shown("Its position in the request, from 0")]
    origin: int
    destination: int
    share: Annotated[float, shown("Of the pair's trips")]
    trips: Annotated[float, shown("Of the released demand", unit="trips a period")]


class RoutingClassPair(RoutingPair):
    """The same of the trips of one class of users."""

    user_class: str


class RoutingClassSelected(RoutingSelected):
    """The same of the trips of one class of users."""

    user_class: str


class RoutingResult(SummedFields, total=False):
    """The post-processing of released trips or, with the method gradient, of the released
    routing."""

    link_flows: Annotated[
        list[float],
        shown(
            "Flow of each link, in the order of the request; of the method counts. Of classes of "
            "users in passenger cars, by their `pce`",
            unit="trips a period",
            table=("link", "flow"),
        ),
    ]
    undetermined_links: Annotated[
        list[int],
        shown(
            "Positions of links whose flow the model does not determine, from 0: they cost the "
            "same at any flow and others are as good, so that optimal assignments differ there. "
            "Such flows have no interval; the total travel time is the same in all",
            title="Links whose flow is not determined",
        ),
    ]
    user_classes: Annotated[
        list[str],
        shown(
            "The classes of users, in the order of what is told by class; where trips have some",
            title="Classes of users",
        ),
    ]
    link_flows_by_class: Annotated[
        list[list[float]],
        shown(
            "Trips of each class over each link, one of several divisions of the same flows where "
            "ways differ by no fixed cost: so it has no interval",
            unit="trips a period",
            title="Link flows by class of users",
            table=("user_class", "link", "flow"),
        ),
    ]
    demand_by_class: Annotated[
        list[list[list[float]]],
        shown(
            "Released mean demand of a period of each class, zones by zones",
            unit="trips a period",
            title="Released demand by class of users",
            table=("user_class", "origin", "destination", "trips"),
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
        shown(
            "Share of each pair's trips at each link; of the method gradient",
            table=("pair", "link", "share"),
        ),
    ]
    policy: Annotated[
        list[RoutingPair],
        shown(
            "Paths with their shares, for every ordered pair of distinct zones",
            table=("origin", "destination", "share", "links"),
        ),
    ]
    select_link: Annotated[
        list[RoutingSelected],
        shown(
            "Which pairs' trips use the links of `select_links`; intervals: the true trips on this "
            "policy",
            table=("link", "origin", "destination", "share", "trips"),
        ),
    ]
    policy_by_class: Annotated[
        list[RoutingClassPair],
        shown(
            "The same of each class of users for itself, where trips have classes: `policy` is of "
            "the trips of all then",
            title="Paths by class of users",
            table=("user_class", "origin", "destination", "share", "links"),
        ),
    ]
    select_link_by_class: Annotated[
        list[RoutingClassSelected],
        shown(
            "The same of each class of users, in the place of `select_link` where trips have "
            "classes",
            title="Who uses the chosen links, by class of users",
            table=("user_class", "link", "origin", "destination", "share", "trips"),
        ),
    ]
    latency_law: Annotated[
        str,
        shown("The law by which travel times grow with flows, as a sentence", title="Travel times"),
    ]
    closed: Annotated[
        list[str],
        shown(
            "The links of `closed_links`, as people call them: nobody can take these",
            title="Closed roads",
        ),
    ]
    total_travel_time_change: Annotated[
        float,
        shown(
            "What closing adds to the total travel time of the same released demand on all roads; "
            "with closed_links",
            unit="trips a period times the unit of free_flow_time",
            title="Change of the total travel time by closing",
        ),
    ]
    link_flow_changes: Annotated[
        list[float],
        shown(
            "What closing adds to the flow of each link, in the order of the request; with "
            "closed_links",
            unit="trips a period",
            title="Changes of link flows by closing",
            table=("link", "change"),
        ),
    ]
    skims: Annotated[
        list[list[float]],
        shown(
            "Travel time of a trip of each pair, in the mean of its paths at the released flows, "
            "fixed costs among it; intervals: where the true trips follow this policy",
            unit="the unit of free_flow_time",
            table=("origin", "destination", "time"),
        ),
    ]
    skims_by_class: Annotated[
        list[list[list[float]]],
        shown(
            "The same of each class of users, with its own weight of fixed costs, in the place of "
            "`skims` where trips have classes",
            unit="the unit of free_flow_time",
            title="Travel times by class of users",
            table=("user_class", "origin", "destination", "time"),
        ),
    ]
    total_travel_time: Annotated[
        float,
        shown(
            "Of the released demand, fixed costs of links among it, by each class's own weight; "
            "of the method counts",
            unit="trips a period times the unit of free_flow_time",
            title="Total travel time of a period",
        ),
    ]
    relative_gap: Annotated[
        float,
        shown(
            "Upper bound on how far the assignment is above its minimum",
            title="Relative gap of the assignment",
        ),
    ]
    iterations: Annotated[
        int, shown("Steps that the assignment took", title="Iterations of the assignment")
    ]
    status: Annotated[
        Literal["converged", "iteration_limit"],
        shown(
            "Whether the assignment reached the gap that was asked for",
            title="Status of the solver",
        ),
    ]
    true_total_travel_time: Annotated[
        float,
        shown(
            "Cost of the policy for the true mean demand; only for simulations",
            unit="trips a period times the unit of free_flow_time",
            title="Total travel time on the true demand (simulation)",
        ),
    ]
    true_best_total_travel_time: Annotated[
        float,
        shown(
            "Cost of the best policy for the true mean demand; only for simulations",
            unit="trips a period times the unit of free_flow_time",
            title="The best there is on the true demand (simulation)",
        ),
    ]
