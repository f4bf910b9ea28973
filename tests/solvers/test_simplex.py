"""Projection on the simplex, by its optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.solvers.traffic import unit_flow_projection


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30),
    st.floats(1e-6, 1e9),
)
def test_is_the_closest_point(vector: list[float], total: float) -> None:
    values = np.array(vector)
    projected = unit_flow_projection.project(values, total)
    assert (projected >= 0).all()
    assert projected.sum() == pytest.approx(total, rel=1e-12)
    # Closest means: all positive entries fell by the same amount, and no other would be positive
    # after it.
    fall = values - projected
    positive = projected > 0
    scale = 1e-9 * (np.abs(values).max() + total)
    assert np.ptp(fall[positive]) <= scale
    assert (values[~positive] <= fall[positive].min() + scale).all()


def test_keeps_shape_and_what_lies_on_the_simplex() -> None:
    inside = np.array([[0.25, 0.0], [0.5, 0.25]])
    assert unit_flow_projection.project(inside, 1.0) == pytest.approx(inside)
    assert unit_flow_projection.project(np.array([3.0, 1.0, -5.0]), 2.0) == pytest.approx([2, 0, 0])
    assert unit_flow_projection.project(np.array([3.0, 2.0, -5.0]), 3.0) == pytest.approx([2, 1, 0])


def test_sums_that_no_vector_has() -> None:
    assert unit_flow_projection.project(np.array([1.0, -2.0]), 0.0).tolist() == [0, 0]
    assert unit_flow_projection.project(np.zeros(0), 0.0).size == 0
    for vector, total in ((np.ones(2), -1.0), (np.ones(2), np.nan), (np.zeros(0), 1.0)):
        with pytest.raises(ValueError, match="sum"):
            unit_flow_projection.project(vector, total)
