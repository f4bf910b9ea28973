"""Classes of users, such as cars and trucks: their weights and equivalents, and the fields of a
result for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import FieldIssue
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.request import RoutingRequest, UserClass
from discreet.solvers.traffic.user_classes import UserClasses

Floats = NDArray[np.float64]


def classes_of(asked: RoutingRequest, public: RoutingPublic) -> UserClasses | None:
    """The classes of `problem.Routing` on this dataset, in the order of its public names; None if
    its trips have no classes."""
    if public.user_classes is None:
        return None
    told = {one.name: one for one in asked.user_classes}
    found = [told.get(name) or UserClass(name=name) for name in public.user_classes]
    weights, pce = ([getattr(one, of) for one in found] for of in ("fixed_cost_weight", "pce"))
    return UserClasses(np.array(weights, dtype=np.float64), np.array(pce, dtype=np.float64))


def issues(asked: RoutingRequest, public: RoutingPublic) -> Iterator[FieldIssue]:
    """The errors in the classes of `problem.Routing` on this dataset."""
    names = [one.name for one in asked.user_classes]
    known = public.user_classes or ()
    if names and not known:
        says = "the dataset's trips have no classes (public.user_classes)"
        yield FieldIssue("/problem/user_classes", says)
        return
    for place, name in enumerate(names):
        if name not in known:
            says = f"the dataset's classes are {', '.join(known)}"
            yield FieldIssue(f"/problem/user_classes/{place}/name", says)
        elif name in names[:place]:
            yield FieldIssue(f"/problem/user_classes/{place}/name", f"{name} appears twice")
    if known and asked.method == "gradient":
        says = "gradient takes trips of one class; counts takes the dataset's user_classes"
        yield FieldIssue("/problem/method", says)
    classes = classes_of(asked, public)
    if classes is not None and asked.objective == "system_optimum" and np.ptp(classes.pce) > 0:
        says = (
            "with different pce the time of all trips is not convex in the flows, so nobody can "
            "say where it is least: objective user_equilibrium takes them, or one pce for all"
        )
        yield FieldIssue("/problem/user_classes", says)


def model(asked: RoutingRequest, public: RoutingPublic) -> Iterator[str]:
    """The sentences of a plan about classes."""
    classes = classes_of(asked, public)
    if classes is None or public.user_classes is None:
        return
    each = ", ".join(
        f"{name} (fixed costs times {weight:g}, passenger cars per trip {pce:g})"
        for name, weight, pce in zip(
            public.user_classes, classes.weight.tolist(), classes.pce.tolist(), strict=True
        )
    )
    yield (
        f"all classes of users have the same travel times: {each}; capacities are in passenger cars"
    )
    yield "the class of each trip is recorded correctly"


def advice(public: RoutingPublic) -> tuple[str, ...]:
    """The effect of classes: not on the price, but on accuracy."""
    if public.user_classes is None:
        return ()
    number = len(public.user_classes)
    return (
        f"the class of a trip is as private as the trip, and the price is the same as without "
        f"classes; but each of the {number} classes has its own noise, so the noise on all classes "
        f"together is {number**0.5:.3g} times as large",
    )


def told(values: dict[str, Any], public: RoutingPublic, demand: Floats, flows: Floats) -> None:
    """Add the fields of each class to those of a result, whose demand then is that of all
    classes."""
    values |= {
        "user_classes": list(public.user_classes or ()),
        "demand": demand.sum(axis=0),
        "demand_by_class": demand,
        "link_flows_by_class": flows,
    }
