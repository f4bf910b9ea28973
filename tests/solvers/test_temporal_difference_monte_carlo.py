"""DP-LSW and DP-LSL: estimates by loops, sensitivities by changing data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discreet.solvers.evaluation.monte_carlo_regression import Regression, dp_lsl, dp_lsw
from discreet.solvers.evaluation.temporal_difference import Transitions

Floats = NDArray[np.float64]
Trajectory = list[tuple[int, float]]
STATES = 4
PHI = np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5], [-0.4, 0.9]])
RHO = np.array([1.0, 0.5, 2.0, 1.5])


def of(trajectories: list[Trajectory]) -> Transitions:
    rows = [row for trajectory in trajectories for row in trajectory]
    state = np.array([s for s, _ in rows], np.int32)
    return Transitions(
        np.concatenate([[0], np.cumsum([len(t) for t in trajectories])]).astype(np.int64),
        state,
        state,
        np.array([r for _, r in rows], dtype=float),
        np.empty(0),
        np.zeros(len(rows), bool),
    )


def first_visit_means(trajectories: list[Trajectory], discount: float) -> tuple[Floats, Floats]:
    returns: dict[int, list[float]] = {s: [] for s in range(STATES)}
    for trajectory in trajectories:
        for s in {s for s, _ in trajectory}:
            first = [state for state, _ in trajectory].index(s)
            returns[s].append(sum(discount**k * r for k, (_, r) in enumerate(trajectory[first:])))
    means = [float(np.mean(returns[s])) if returns[s] else 0.0 for s in range(STATES)]
    return np.array([float(len(returns[s])) for s in range(STATES)]), np.array(means)


def lsw(trajectories: list[Trajectory], smoothing: float) -> Regression:
    return dp_lsw(of(trajectories), PHI, 0.8, smoothing=smoothing, reward_bound=1.0, weights=RHO)


def lsl(trajectories: list[Trajectory], smoothing: float, penalty: float = 3.0) -> Regression:
    return dp_lsl(
        of(trajectories),
        PHI,
        0.8,
        penalty=penalty,
        smoothing=smoothing,
        reward_bound=1.0,
        weights=RHO,
    )


TRAJECTORIES: list[Trajectory] = [
    [(0, 1.0), (1, -1.0), (0, 0.5)],
    [(1, 1.0)],
    [(2, 0.0), (2, 1.0), (1, 1.0), (0, -0.5)],
]


def test_estimates_are_those_of_the_regressions() -> None:
    counts, means = first_visit_means(TRAJECTORIES, 0.8)
    root = np.sqrt(RHO)
    weighted = np.linalg.lstsq(root[:, None] * PHI, root * means, rcond=None)[0]
    np.testing.assert_allclose(lsw(TRAJECTORIES, 0.1).theta, weighted, rtol=1e-12)
    # Ridge regression as least squares over every (trajectory, state), the penalty as further rows.
    rows, targets = [math.sqrt(1.5) * np.eye(2)], [np.zeros(2)]
    for trajectory in TRAJECTORIES:
        visits, values = first_visit_means([trajectory], 0.8)
        seen = visits > 0
        rows.append(root[seen, None] * PHI[seen])
        targets.append(root[seen] * values[seen])
    ridge = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets), rcond=None)[0]
    np.testing.assert_allclose(lsl(TRAJECTORIES, 0.1).theta, ridge, rtol=1e-12)
    assert counts.tolist() == [2, 3, 1, 0]


def test_smooth_sensitivities_are_the_formulas() -> None:
    counts, _ = first_visit_means(TRAJECTORIES, 0.8)
    spread, largest, smoothing, penalty = 2 / 0.2, 1 / 0.2, 0.07, 3.0
    inverse = np.linalg.norm(np.linalg.pinv(np.sqrt(RHO)[:, None] * PHI), 2)
    wanted = max(
        math.exp(-k * smoothing)
        * math.sqrt(sum(w / max(n - k, 1) ** 2 for w, n in zip(RHO, counts, strict=True)))
        for k in range(200)
    )
    assert lsw(TRAJECTORIES, smoothing).sensitivity == pytest.approx(
        spread * inverse * wanted, rel=1e-12
    )
    norm = np.linalg.norm(PHI, 2)

    def reach(k: int, m: float) -> float:
        mass = sum(w * min(n + k, m) for w, n in zip(RHO, counts, strict=True))
        return float(
            np.linalg.norm(RHO) * spread + 2 * norm * largest * math.sqrt(mass / (2 * penalty))
        )

    for m in (None, 3):
        limit = math.inf if m is None else m
        farthest = max(math.exp(-k * smoothing) * reach(k, limit) for k in range(500))
        found = dp_lsl(
            of(TRAJECTORIES),
            PHI,
            0.8,
            penalty=penalty,
            smoothing=smoothing,
            reward_bound=1.0,
            weights=RHO,
            public_trajectories=m,
        )
        assert found.sensitivity == pytest.approx(2 * norm / penalty * farthest, rel=1e-12)


trajectory = st.lists(
    st.tuples(st.integers(0, STATES - 1), st.floats(-1, 1)), min_size=1, max_size=5
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    rest=st.lists(trajectory, max_size=4),
    old=st.one_of(st.none(), trajectory),
    new=trajectory,
    smoothing=st.sampled_from([1e-3, 0.1, 2.0]),
    penalty=st.sampled_from([0.1, 3.0, 100.0]),
)
def test_neighbours_differ_by_less_than_the_smooth_sensitivity(
    rest: list[Trajectory],
    old: Trajectory | None,
    new: Trajectory,
    smoothing: float,
    penalty: float,
) -> None:
    before, after = rest + ([] if old is None else [old]), [*rest, new]
    for one, other in (
        (lsw(before, smoothing), lsw(after, smoothing)),
        (lsl(before, smoothing, penalty), lsl(after, smoothing, penalty)),
    ):
        moved = float(np.linalg.norm(one.theta - other.theta))
        assert moved <= min(one.sensitivity, other.sensitivity) * (1 + 1e-12)
        assert abs(math.log(one.sensitivity / other.sensitivity)) <= smoothing * (1 + 1e-9)


def test_the_bounds_are_met_where_they_must_be() -> None:
    """One state, one trajectory whose reward turns around, no penalty to speak of: nothing is lost
    but the factor 2."""
    up, down = of([[(0, 1.0)]]), of([[(0, -1.0)]])
    found = [
        dp_lsw(data, np.eye(1), 0.8, smoothing=10.0, reward_bound=1.0, horizon=1)
        for data in (up, down)
    ]
    assert abs(found[0].theta[0] - found[1].theta[0]) == pytest.approx(
        found[0].sensitivity, rel=1e-12
    )


def test_public_bounds_narrow_the_sensitivity() -> None:
    data = of(TRAJECTORIES)
    wide = dp_lsw(data, PHI, 0.8, smoothing=0.1, reward_bound=1.0).sensitivity
    positive = dp_lsw(data, PHI, 0.8, smoothing=0.1, reward_bound=1.0, lowest_reward=0.0)
    assert positive.sensitivity == pytest.approx(wide / 2, rel=1e-12)
    # Rewards below the public floor count as the floor.
    clipped, _ = first_visit_means([[(s, max(r, 0.0)) for s, r in t] for t in TRAJECTORIES], 0.8)[
        ::-1
    ]
    np.testing.assert_allclose(positive.theta, np.linalg.pinv(PHI) @ clipped, rtol=1e-12)
    short = dp_lsw(data, PHI, 0.8, smoothing=0.1, reward_bound=1.0, horizon=4)
    assert short.sensitivity == pytest.approx(wide * (1 - 0.8**4), rel=1e-12)
    whole = dp_lsw(data, PHI, 1.0, smoothing=0.1, reward_bound=1.0, horizon=4)
    assert whole.sensitivity == pytest.approx(wide * 0.2 * 4, rel=1e-12)


def test_what_has_no_bound_is_refused() -> None:
    data = of(TRAJECTORIES)
    off_policy = Transitions(
        data.trajectory_start, data.state, data.next_state, data.reward, np.ones(8), data.terminal
    )
    with pytest.raises(ValueError, match="policy that was followed"):
        dp_lsw(off_policy, PHI, 0.8, smoothing=0.1, reward_bound=1.0)
    with pytest.raises(ValueError, match="horizon"):
        dp_lsw(data, PHI, 1.0, smoothing=0.1, reward_bound=1.0)
    with pytest.raises(ValueError, match="penalty"):
        dp_lsl(data, PHI, 0.8, penalty=0.0, smoothing=0.1, reward_bound=1.0)
    with pytest.raises(ValueError, match="smoothing"):
        dp_lsw(data, PHI, 0.8, smoothing=0.0, reward_bound=1.0)
