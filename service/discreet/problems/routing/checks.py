"""Errors that prevent the planning of a routing request, apart from those of single fields."""

from __future__ import annotations

from discreet.errors import FieldIssue
from discreet.problems.road_networks.network import affine
from discreet.problems.routing import closures, user_classes
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.request import RoutingRequest

MAX_UNIT_FLOWS = 2 * 10**7
"""The most numbers, pairs times links, in the routing that `gradient` releases."""


def issues(asked: RoutingRequest, public: RoutingPublic) -> list[FieldIssue]:
    """The errors of `problem.Routing` on a dataset with this public part."""
    found = asked.roads.issues(public.zones, public.period_minutes)
    issues = [FieldIssue("/problem/network" + issue.pointer, issue.detail) for issue in found]
    if public.zones < 2:
        issues.append(
            FieldIssue(
                "/problem/dataset", "trips within a single zone use no link: two zones are needed"
            )
        )
    issues += _of_persons(asked, public)
    issues += user_classes.issues(asked, public)
    if not found:
        issues += closures.issues(asked.roads, asked.closed_links, public.zones)
    links = len(asked.roads.links)
    if beyond := [link for link in asked.select_links if link >= links]:
        says = f"the network has {links} links, counted from 0; found {beyond[0]}"
        issues.append(
            FieldIssue(f"/problem/select_links/{asked.select_links.index(beyond[0])}", says)
        )
    if asked.method != "gradient":
        if asked.regularization is not None:
            issues.append(FieldIssue("/problem/regularization", "only the method gradient has one"))
        return issues
    size = public.zones * (public.zones - 1) * (links + asked.roads.nodes)
    for wrong, field, detail in (
        (
            public.trip_scale > 1,
            "method",
            "gradient takes whole trips; counts takes the dataset's trip_scale",
        ),
        (
            public.unit == "person",
            "method",
            "gradient protects one request; counts protects a person",
        ),
        (
            public.max_total is None or public.max_pair is None,
            "method",
            "gradient needs the dataset's public bounds max_total and max_pair",
        ),
        (
            size > MAX_UNIT_FLOWS,
            "method",
            f"gradient takes pairs times links and nodes up to {MAX_UNIT_FLOWS:,}",
        ),
        (asked.regularization is None, "regularization", "needed by the method gradient"),
        (
            not affine(asked.roads, asked.latency),
            "latency",
            "the method gradient needs affine latencies",
        ),
        (
            asked.objective != "system_optimum",
            "objective",
            "the method gradient finds the system optimum only",
        ),
        (
            bool(asked.select_links),
            "select_links",
            "gradient releases no trips; unit_flows shows who uses a link",
        ),
        (
            bool(asked.closed_links),
            "closed_links",
            "gradient releases no trips to send on other links",
        ),
        (asked.skims, "skims", "gradient releases no flows, so no travel times"),
    ):
        if wrong:
            issues.append(FieldIssue(f"/problem/{field}", detail))
    return issues


def _of_persons(asked: RoutingRequest, public: RoutingPublic) -> list[FieldIssue]:
    issues = []
    if (
        public.unit == "person"
        and asked.max_trips_per_person is None
        and asked.method != "gradient"
    ):
        issues.append(
            FieldIssue("/problem/max_trips_per_person", "needed: the dataset's unit is a person")
        )
    if public.unit == "request" and asked.max_trips_per_person is not None:
        issues.append(
            FieldIssue(
                "/problem/max_trips_per_person", "the dataset's unit is a request, not a person"
            )
        )
    elif asked.max_trips_per_person == "auto" and public.max_person is None:
        says = (
            "auto needs the dataset's public max_person, the most trips that any person has; "
            "else say a number"
        )
        issues.append(FieldIssue("/problem/max_trips_per_person", says))
    if asked.max_norm_per_person is not None and asked.max_trips_per_person is None:
        issues.append(
            FieldIssue("/problem/max_norm_per_person", "only beside max_trips_per_person")
        )
    return issues
