"""Algorithm 1 of Tsao et al.: its constants hold for all allowed data, and the sensitivity covers
one trip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.solvers.traffic import unit_flow_projection as descent
from discreet.solvers.traffic.traffic_assignment import Latency, Network
from discreet.solvers.traffic.unit_flow_projection import UnitFlows

PERIODS, MAX_TOTAL, MAX_PAIR = 4, 40, 8


def small(seed: int) -> tuple[Network, UnitFlows, np.random.Generator]:
    """Four zones on a ring in both directions with two chords."""
    rng = np.random.default_rng(seed)
    links = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 0), (2, 1), (3, 2), (0, 3), (0, 2), (2, 0)]
    tail, head = np.array(links).T
    network = Network(4, 4, 0, tail, head, rng.uniform(0, 3, 10), rng.uniform(5, 50, 10))
    return network, UnitFlows.of_pairs(network), rng


def demands(rng: np.random.Generator, pairs: int) -> Any:
    """Trips within the bounds, with room for one more."""
    trips = rng.integers(0, MAX_PAIR, (PERIODS, pairs))
    for period in trips:
        while period.sum() >= MAX_TOTAL:
            period[rng.integers(pairs)] = 0
    return trips.astype(float)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 5.0, 200.0]))
def test_constants_cover_all_allowed_data(seed: int, regularization: float) -> None:
    network, flows, rng = small(seed)
    terms = descent.Terms.of(network, Latency(1.0, 1.0), regularization, MAX_TOTAL, MAX_PAIR)
    trips = demands(rng, flows.pairs)[0]
    x, other = (flows.project(rng.normal(size=(flows.pairs, 10))).flow for _ in range(2))
    more = trips.copy()
    more[rng.integers(flows.pairs)] += 1
    change = terms.gradient(x, more) - terms.gradient(x, trips)
    assert np.linalg.norm(change) <= terms.gradient_change
    slope = np.linalg.norm(terms.gradient(x, trips) - terms.gradient(other, trips))
    assert slope <= terms.smoothness * np.linalg.norm(x - other) * (1 + 1e-12)
    assert slope >= regularization * np.linalg.norm(x - other) * (1 - 1e-12)


def test_the_gradient_is_that_of_the_objective() -> None:
    network, flows, rng = small(1)
    terms = descent.Terms.of(network, Latency(0.7, 1.0), 2.0, MAX_TOTAL, MAX_PAIR)
    trips = demands(rng, flows.pairs)[0]

    def objective(x: Any) -> float:
        y = trips @ x
        travel = np.sum(y * network.free_flow_time * (1 + 0.7 * y / network.capacity))
        return float(travel + np.sum(x**2))

    x, way = rng.random((flows.pairs, 10)), rng.normal(size=(flows.pairs, 10))
    numeric = (objective(x + 1e-6 * way) - objective(x - 1e-6 * way)) / 2e-6
    assert np.sum(terms.gradient(x, trips) * way) == pytest.approx(numeric, rel=1e-7)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 20.0, 500.0]), st.integers(0, PERIODS - 1))
def test_one_trip_moves_the_routing_by_no_more_than_the_sensitivity(
    seed: int, regularization: float, period: int
) -> None:
    network, flows, rng = small(seed)
    terms = descent.Terms.of(network, Latency(1.0, 1.0), regularization, MAX_TOTAL, MAX_PAIR)
    trips = demands(rng, flows.pairs)
    more = trips.copy()
    more[period, rng.integers(flows.pairs)] += 1
    steps, start = terms.step_sizes(PERIODS), flows.cheapest(network.free_flow_time)
    one, two = (
        descent.descend(flows, terms, steps, data.__getitem__, start) for data in (trips, more)
    )
    assert np.linalg.norm(one - two) <= descent.sensitivity(terms, steps, flows.error_bound())


def test_the_sensitivity_is_the_exact_product() -> None:
    network, _, _ = small(2)
    terms = descent.Terms.of(network, Latency(1.0, 1.0), 3.0, MAX_TOTAL, MAX_PAIR)
    steps = terms.step_sizes(6)
    each = [steps[t] * np.prod([1 - eta * 3.0 for eta in steps[t + 1 :]]) for t in range(6)]
    assert descent.sensitivity(terms, steps, 0.0) == pytest.approx(
        terms.gradient_change * max(each), rel=1e-8
    )
    later = sum(np.prod([1 - eta * 3.0 for eta in steps[t + 1 :]]) for t in range(6))
    added = descent.sensitivity(terms, steps, 1e-3) - descent.sensitivity(terms, steps, 0.0)
    assert added == pytest.approx(2e-3 * later, rel=1e-6)


def test_some_allowed_data_are_as_steep_as_steps_take_them_for() -> None:
    """As many pairs as there may be with all their trips, on the link whose time grows fastest."""
    network, flows, _ = small(2)
    pairs = min(3, flows.pairs)
    terms = descent.Terms.of(network, Latency(1.0, 1.0), 3.0, pairs * MAX_PAIR, MAX_PAIR)
    trips = np.where(np.arange(flows.pairs) < pairs, float(MAX_PAIR), 0.0)
    x = flows.cheapest(network.free_flow_time)
    moved = np.zeros_like(x)
    moved[:, np.argmax(terms.slope)] = trips / np.linalg.norm(trips)
    change = terms.gradient(x + moved, trips) - terms.gradient(x, trips)
    assert np.linalg.norm(change) == pytest.approx(terms.smoothness, rel=1e-9)


def test_many_periods_reach_the_regularized_optimum() -> None:
    """With the same trips every period it is gradient descent: x_N nears the fixed point of a
    projected step."""
    network, flows, rng = small(3)
    terms = descent.Terms.of(network, Latency(1.0, 1.0), 50.0, MAX_TOTAL, MAX_PAIR)
    trips = demands(rng, flows.pairs)[0]
    steps = np.full(400, 1 / terms.smoothness)
    x = descent.descend(
        flows, terms, steps, lambda _: trips, flows.cheapest(network.free_flow_time)
    )
    moved = flows.project(x - steps[0] * terms.gradient(x, trips)).flow
    assert np.abs(moved - x).max() <= 1e-6


def test_only_affine_latencies() -> None:
    network, _, _ = small(4)
    with pytest.raises(ValueError, match="affine"):
        descent.Terms.of(network, Latency(0.15, 4.0), 1.0, MAX_TOTAL, MAX_PAIR)
