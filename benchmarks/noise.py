"""The noise of Poisson mini-batches beside dp_accounting's least, over a grid of rates, steps,
epsilons and deltas.

At each place dp_accounting's pessimistic delta says what noise it would have been content with. Its
grid errs upward by less than 1e-3 of the noise, so a ratio below `LEAST_RATIO` would mean that our
noise is too little. On request: `make bench ARGS=noise`; `tests/privacy/test_dp_accounting.py`
checks some places of the grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution

from discreet.privacy import calibration
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT

RATES = (1e-4, 1e-3, 1e-2, 0.1, 0.5)
STEPS = (1, 30, 1_000, 30_000)
POINTS = ((0.1, 1e-8), (0.3, 1e-5), (1.0, 1e-5), (3.0, 1e-6), (8.0, 1e-9))
RELATIONS: tuple[Literal["add_remove", "replace"], ...] = ("add_remove", "replace")
LEAST_OF_CLIP = 0.05
"""Sampling alone may meet large deltas; noise below this part of the clip is not looked for."""
LEAST_RATIO, LARGEST_RATIO = 0.999, 1.02
GRID, LEAST_INTERVAL = 0.02, 3e-6
"""Width of dp_accounting's grid beside one step's loss. A coarse grid errs upward, which a ratio
below 1 would show."""


@dataclass(frozen=True)
class Place:
    """One place of the grid."""

    rate: float
    steps: int
    epsilon: float
    delta: float
    relation: Literal["add_remove", "replace"]


@dataclass(frozen=True)
class Found:
    """Our deviation in clips, and by how much it is larger than dp_accounting's."""

    scale: float
    ratio: float


def places() -> Iterator[Place]:
    """The whole grid."""
    for rate, steps, (epsilon, delta), relation in itertools.product(
        RATES, STEPS, POINTS, RELATIONS
    ):
        yield Place(rate, steps, epsilon, delta, relation)


def compare(place: Place) -> Found | None:
    """Ours and dp_accounting's; None where both need less than the least noise that is looked
    for."""
    event = calibration.poisson_subsampled_gaussian(
        1.0,
        int(place.epsilon * EPSILON_UNIT),
        round(place.delta * DELTA_UNIT),
        probability=place.rate,
        steps=place.steps,
        relation=place.relation,
        neighbours="one unit",
    )
    scale = event.scale
    if scale < 2 * LEAST_OF_CLIP:
        return None
    # ln delta is nearly linear in the scale: a secant finds where dp_accounting's pessimistic delta
    # meets the request.
    low = scale / LARGEST_RATIO
    at, below = (math.log(peer_delta(place, one) / place.delta) for one in (scale, low))
    slope = (at - below) / (scale - low)
    return Found(scale, scale / (scale - at / slope))


def peer_delta(place: Place, scale: float) -> float:
    """dp_accounting's delta of the whole composition; its multipliers are relative to one unit's
    clip."""
    replace = place.relation == "replace"
    # The loss of one step spreads by about rate/scale. Its grid is fine beside that, since each
    # step adds to the variance what the grid's width does, and beside epsilon.
    spread = place.rate * (2 if replace else 1) * min(1 / scale, 3.0)
    interval = min(max(spread * GRID, LEAST_INTERVAL), place.epsilon * 1e-3)
    step = privacy_loss_distribution.from_gaussian_mechanism(
        scale,
        value_discretization_interval=interval,
        sampling_prob=place.rate,
        neighboring_relation=(
            NeighboringRelation.REPLACE_ONE if replace else NeighboringRelation.ADD_OR_REMOVE_ONE
        ),
        log_mass_truncation_bound=math.log(place.delta) - math.log(place.steps) - 14,
    )
    return float(
        step.self_compose(place.steps, 1e-5 * place.delta).get_delta_for_epsilon(place.epsilon)
    )


def run() -> list[dict[str, Any]]:
    """One row a relation: the largest and least ratio of our noise to dp_accounting's, and
    where."""
    rows = []
    for relation in RELATIONS:
        found = [
            (place, one)
            for place in places()
            if place.relation == relation and (one := compare(place))
        ]
        worst, most = max(found, key=lambda one: one[1].ratio)
        least = min(one.ratio for _, one in found)
        rows.append(
            {
                "benchmark": f"noise of mini-batches, {relation}, {len(found)} places",
                "ours": most.scale,
                "unit": "clips",
                "peer": "dp_accounting",
                "peer_value": most.scale / most.ratio,
                "ratio": most.ratio,
                "note": f"the worst: {worst}; least ratio {least:.5f}",
            }
        )
    return rows
