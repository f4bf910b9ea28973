"""The plan of the method `counts`: its clip, its sensitivity and its resources."""

from __future__ import annotations

import math

from discreet.privacy import calibration
from discreet.problems.numbers import Budget
from discreet.problems.plans import NoiseSummary, Plan, Resources, sized
from discreet.problems.routing import closures, user_classes
from discreet.problems.routing.gradient import model, published
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.request import MAX_ITERATIONS, RoutingRequest
from discreet.problems.routing.result import MAX_LINKS, clip_advice, norm_advice

INTERVAL_BYTES = 32
"""Bytes per entry of links by links: the memory for intervals of their flows."""
MOST_SUMS = 1 << 24
"""Counts that several children may make of a part each: the sums of all are in memory at once, and
whether they fit must not depend on how large the content is."""
LONG_INTEGERS = 10_000
"""The smallest clip for which the sums of one person's trips could need integers beyond 64 bits."""


def clip_of(problem: RoutingRequest, public: RoutingPublic) -> int | None:
    return (
        public.max_person
        if problem.max_trips_per_person == "auto"
        else problem.max_trips_per_person
    )


def counts_plan(problem: RoutingRequest, public: RoutingPublic, budget: Budget) -> Plan:
    trips, scale = clip_of(problem, public) or 1, public.trip_scale
    norm = min(trips, problem.max_norm_per_person or trips)
    pairs, cells = public.zones * (public.zones - 1), public.cells
    of = f"each of {pairs} ordered pairs of zones"
    if public.user_classes is not None:
        of += f" and each of the classes {', '.join(public.user_classes)}"
    over = "the period" if public.periods == 1 else f"{public.periods} periods"
    neighbours = (
        "one trip added or removed"
        if public.unit == "request"
        else f"one person with all trips added or removed, of which at most {trips} count"
    )
    if norm < trips:
        neighbours += f", with an l2 norm by pair of at most {norm}"
    if scale > 1:
        neighbours += f"; a trip, in one piece or in parts, is {scale} counts"
    event = calibration.least_variance(
        # |v|_1 <= sqrt(cells) |v|_2.
        sensitivity_l1=min(trips * scale, math.isqrt(cells * (norm * scale) ** 2)),
        sensitivity_l2=norm * scale,
        epsilon=budget.epsilon,
        delta=budget.delta,
        neighbours=neighbours,
        rho=budget.rho,
    )
    return Plan.priced(
        [event],
        noise=(
            NoiseSummary.of(
                event,
                f"trips of {of}, summed over {over}",
                scale,
            ),
        ),
        iterations={"assignment": MAX_ITERATIONS},
        resources=Resources.padded(
            # A fork, and at least 600,000 draws per second of the sampler.
            0.25 * (1 + cells // 100_000),
            work=public.most_rows * row_seconds(problem, public),
            content_bytes=float(public.row_bytes * public.most_rows),
            memory_bytes=(1 << 28)
            + 64 * cells * 16
            + 200 * len(problem.roads.links)
            + INTERVAL_BYTES
            * min(len(problem.roads.links), MAX_LINKS) ** 2
            * (2 if problem.closed_links else 1),
            steps=MAX_ITERATIONS,
        ),
        unit=public.unit,
        parts_by=public.unit if cells <= MOST_SUMS else None,
        neighbours=neighbours,
        assumptions=(
            published(public),
            sized(f"{public.most_rows} cells with trips"),
            *(["each trip is recorded under its own person"] if public.unit == "person" else []),
        ),
        model=(
            *model(public, problem.roads, problem.latency),
            *closures.closed_in_words(problem.roads, problem.closed_links),
            *user_classes.model(problem, public),
        ),
        advice=(
            *(clip_advice(trips) if problem.max_trips_per_person == "auto" else ()),
            *user_classes.advice(public),
            *norm_advice(trips, problem.max_norm_per_person, scale, event, budget),
        ),
        parameters={
            "method": "counts",
            "max_trips_per_person": clip_of(problem, public),
            **({} if problem.max_norm_per_person is None else {"max_norm_per_person": norm}),
        },
    )


def row_seconds(problem: RoutingRequest, public: RoutingPublic) -> float:
    """Seconds for summing a cell and, if persons are clipped, for that; large clips may need long
    integers."""
    if public.unit == "request":
        return 100e-9
    clipping = (
        4e-6 if (clip_of(problem, public) or 0) * public.trip_scale >= LONG_INTEGERS else 200e-9
    )
    return clipping + (2e-6 if problem.max_norm_per_person is not None else 0.0)
