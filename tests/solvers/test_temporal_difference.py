"""Off-policy evaluation: features, transitions and least squares, against loops, enumeration and
claimed norms."""

from __future__ import annotations

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discreet.privacy import calibration
from discreet.privacy.noise import Noise
from discreet.reproduce import simulators
from discreet.solvers.evaluation.least_squares_temporal_difference import (
    cells_of,
    histograms,
    lstd,
    moments_of,
    solve_moments,
    stacked_bound,
    stacked_grid,
    stacked_size,
    stacked_steps,
    tabular_moments,
    unstacked,
    wis_lstd,
)
from discreet.solvers.evaluation.temporal_difference import (
    Transitions,
    bounded,
    feature_rows,
    grouped,
    importance_ratio,
    mspbe,
    policy_value,
)
from discreet.solvers.evaluation.value_features import Features, Fourier, Identity, Tabular

Floats = NDArray[np.float64]
UNIT = 1 << 24
FOURIER = Fourier(2, (-1.0, 0.0), (1.0, 2.0))


def stacked(
    transitions: Transitions, features: Features, discount: float, **bounds: float
) -> Floats:
    """Stacked statistics as numbers."""
    steps = stacked_steps(transitions, features, discount, **bounds)
    return np.asarray(steps * stacked_grid(bounds["clip"]))


def of_chain(m: int, seed: int) -> Transitions:
    rows = simulators.chain(m, np.random.default_rng(seed))
    return grouped(
        rows.trajectory, rows.step, rows.state, rows.next_state, rows.reward, None, rows.terminal
    )


def random_transitions(
    seed: int, lengths: list[int], states: int | None = 4, ratios: bool = True, scale: float = 1.0
) -> Transitions:
    """Tabular ones, or with two coordinates where `states` is None."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    state, following = (
        (scale * rng.normal(size=(n, 2)), scale * rng.normal(size=(n, 2)))
        if states is None
        else (
            rng.integers(0, states, n).astype(np.int32),
            rng.integers(0, states, n).astype(np.int32),
        )
    )
    return Transitions(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        state,
        following,
        scale * rng.normal(size=n),
        scale * rng.exponential(size=n) if ratios else np.empty(0),
        rng.random(n) < 0.2,
    )


def without(transitions: Transitions, trajectory: int) -> Transitions:
    begin, end = transitions.trajectory_start[trajectory : trajectory + 2]
    kept = np.ones(transitions.reward.size, dtype=bool)
    kept[begin:end] = False
    start = np.delete(transitions.trajectory_start, trajectory)
    start[trajectory:] -= end - begin
    return Transitions(
        start,
        transitions.state[kept],
        transitions.next_state[kept],
        transitions.reward[kept],
        transitions.ratio[kept] if transitions.ratio.size else transitions.ratio,
        transitions.terminal[kept],
    )


def printed_moments(
    transitions: Transitions, features: Features, discount: float
) -> list[tuple[Floats, Floats, Floats]]:
    """Eq. 2.2 by outer products, one triple a trajectory."""
    phi = features(transitions.state)
    ahead = features(transitions.next_state) * ~transitions.terminal[:, None]
    ratio = transitions.ratio if transitions.ratio.size else np.ones(len(phi))
    triples = []
    for begin, end in zip(
        transitions.trajectory_start[:-1], transitions.trajectory_start[1:], strict=True
    ):
        A = sum(
            ratio[t] * np.outer(phi[t], phi[t] - discount * ahead[t]) for t in range(begin, end)
        ) / (end - begin)
        b = sum(ratio[t] * phi[t] * transitions.reward[t] for t in range(begin, end)) / (
            end - begin
        )
        C = sum(np.outer(phi[t], phi[t]) for t in range(begin, end)) / (end - begin)
        triples.append((A, b, C))
    return triples


# Features -----------------------------------------------------------------------------------------


def test_fourier_features_are_cosines_of_every_integer_combination() -> None:
    x = np.array([[0.5, 0.5], [-1.0, 2.0]])
    phi = FOURIER(x)
    wanted = [
        [
            float(mpmath.cos(mpmath.pi * (i * (a + 1) / 2 + j * b / 2)))
            for i in range(3)
            for j in range(3)
        ]
        for a, b in x
    ]
    np.testing.assert_allclose(phi, wanted, atol=1e-15)


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=8))
def test_no_state_has_longer_features_than_the_public_bound(
    states: list[tuple[float, float]],
) -> None:
    for features in (FOURIER, Identity(2, 3.0)):
        with np.errstate(over="raise", invalid="raise"):
            norms = np.linalg.norm(features(np.array(states)), axis=1)
        assert np.all(norms <= features.norm_bound * (1 + (1e-15 if features is FOURIER else 0)))


def test_bounds_are_reached_and_short_rows_are_left_alone() -> None:
    assert np.linalg.norm(FOURIER(np.array([[-1.0, 0.0]]))) == pytest.approx(
        FOURIER.norm_bound, rel=1e-15
    )
    assert np.linalg.norm(Identity(2, 3.0)(np.array([[30.0, 40.0]]))) == pytest.approx(
        3.0, rel=1e-11
    )
    np.testing.assert_array_equal(Identity(2, 3.0)(np.array([[1.0, -2.0]])), [[1.0, -2.0]])
    np.testing.assert_array_equal(Tabular(3)(np.array([2, 0])), [[0, 0, 1], [1, 0, 0]])


def test_features_refuse_what_they_cannot_map() -> None:
    with pytest.raises(IndexError, match="0 to 2"):
        Tabular(3)(np.array([3]))
    with pytest.raises(ValueError, match="2 coordinates"):
        FOURIER(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="below"):
        Fourier(1, (0.0,), (0.0,))


# Transitions --------------------------------------------------------------------------------------


def test_rows_in_any_order_give_the_same_transitions() -> None:
    rows = simulators.chain(30, np.random.default_rng(1))
    order = np.random.default_rng(2).permutation(rows.state.size)
    straight = of_chain(30, 1)
    shuffled = grouped(
        rows.trajectory[order],
        rows.step[order],
        rows.state[order],
        rows.next_state[order],
        rows.reward[order],
        None,
        rows.terminal[order],
    )
    for name in ("trajectory_start", "state", "next_state", "reward", "ratio", "terminal"):
        np.testing.assert_array_equal(getattr(shuffled, name), getattr(straight, name))
    assert straight.trajectories == 30
    assert straight.on_policy


def test_no_rows_are_no_trajectories() -> None:
    empty = np.empty(0, np.int64)
    none = grouped(empty, empty, empty, empty, empty, None, empty)
    assert none.trajectories == 0
    assert not histograms(none, cells_of(3), 3).visits.any()
    assert not stacked(none, Tabular(3), 0.9, clip=1.0).any()


def test_ratios_are_capped_without_dividing_by_zero() -> None:
    ratio = importance_ratio([0.5, 0.5, 0.0, 0.9, 1.0], [0.25, 0.0, 0.0, 0.1, 1e-320], 5.0)
    np.testing.assert_array_equal(ratio, [2.0, 5.0, 0.0, 5.0, 5.0])


def test_bounded_cuts_rewards_and_ratios() -> None:
    transitions = random_transitions(3, [5, 5], scale=10.0)
    cut = bounded(transitions, 2.0, 3.0)
    np.testing.assert_array_equal(cut.reward, np.clip(transitions.reward, -2, 2))
    np.testing.assert_array_equal(cut.ratio, np.minimum(transitions.ratio, 3))


# The chain ----------------------------------------------------------------------------------------


def test_the_population_of_the_chain_is_the_mean_over_its_trajectories() -> None:
    A, b, C = simulators.chain_moments(states=5)
    rows = simulators.chain(200_000, np.random.default_rng(4), states=5)
    data = grouped(
        rows.trajectory, rows.step, rows.state, rows.next_state, rows.reward, None, rows.terminal
    )
    found = moments_of(data, Tabular(5), 0.99)
    # Shares of one trajectory vary by less than 1/2, so a mean by 1.1e-3 at most, one deviation:
    # five of them.
    for theirs, ours in zip((A, b, C), found, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=5.6e-3)


def test_shares_of_the_chain_are_those_of_negative_binomial_lengths() -> None:
    A, b, C = simulators.chain_moments()
    with mpmath.workdps(30):
        left = [
            mpmath.nsum(
                lambda t, k=k: mpmath.binomial(t - 1, k - 1) * mpmath.mpf(2) ** -t / t, [k, 400]
            )
            for k in (1, 2, 40)
        ]
    assert 40 * (b[-1]) == pytest.approx(
        float(
            sum(mpmath.quad(lambda v, k=k: v ** (k - 1) / (1 + v), [0, 1]) for k in range(1, 41))
        ),
        rel=1e-12,
    )
    assert float(left[0]) == pytest.approx(float(mpmath.log(2)), rel=1e-15)
    # Only the first state's starters are counted in it: the share of leaving is u_40 / 40.
    assert (C[0, 0] - (A[0, 0] - 0.01 * C[0, 0]) / 0.99) == pytest.approx(
        C[0, 0] - float(left[2]) / 40, rel=1e-10
    )
    assert A[0, 1] == pytest.approx(-0.99 * float(left[2]) / 40, rel=1e-12)


def test_predicting_one_costs_what_the_reference_says() -> None:
    moments = simulators.chain_moments()
    assert mspbe(np.ones(40), *moments) == pytest.approx(9.1e-5, rel=0.01)
    assert mspbe(np.linalg.solve(*moments[:2]), *moments) < 1e-30


def test_lstd_finds_the_value_of_the_chain() -> None:
    moments = simulators.chain_moments()
    data = of_chain(100_000, 5)
    theta = lstd(data, Tabular(40), 0.99)
    assert mspbe(theta, *moments) < 3e-9
    cells, rewards = simulators.chain_topology(), simulators.chain_cell_rewards()
    exact = histograms(data, cells, 40)
    from_cells = tabular_moments(exact.visits, cells, 40, 0.99, cell_rewards=rewards)
    np.testing.assert_allclose(solve_moments(*from_cells), theta, atol=1e-4)
    from_states = tabular_moments(exact.visits, cells, 40, 0.99, rewards=exact.rewards)
    np.testing.assert_allclose(solve_moments(*from_states), theta, atol=1e-4)


@pytest.mark.parametrize(("m", "most"), [(100_000, 1e-6), (500_000, 1e-8)])
def test_noised_moments_meet_what_was_promised(m: int, most: float) -> None:
    """Epsilon .1, add/remove, public topology and rewards: the median of 20 releases of each of a
    few datasets."""
    event = calibration.least_variance(
        float(UNIT), float(UNIT), 10**8, 10**13, neighbours="add_remove"
    )
    moments, cells = simulators.chain_moments(), simulators.chain_topology()
    rewards = simulators.chain_cell_rewards()
    visits = histograms(of_chain(m, 6), cells, 40).visits
    noise = Noise.seeded(7)
    errors = []
    for _ in range(20):
        noised = tabular_moments(
            noise.add(event, visits),
            cells,
            40,
            0.99,
            cell_rewards=rewards,
            pseudo_count=0.1 * event.scale,
        )
        errors.append(mspbe(solve_moments(*noised), *moments))
    assert np.median(errors) < most


# Histograms ---------------------------------------------------------------------------------------


def test_histograms_by_hand() -> None:
    data = Transitions(
        np.array([0, 3, 4]),
        np.array([0, 0, 1, 1], np.int32),
        np.array([0, 1, 0, 1], np.int32),
        np.array([1.0, -2.0, 3.0, 0.5]),
        np.array([1.0, 0.5, 4.0, 1.0]),
        np.array([False, False, True, False]),
    )
    cells = np.array([[0, 0], [0, 1], [1, 2]])
    found = histograms(data, cells, 2, reward_bound=2.0, max_ratio=2.0, unit=12)
    # Ratios over 2: .5, .25, 1 (capped), .5; the last transition's cell is not public.
    np.testing.assert_array_equal(found.visits, [6 // 3, 3 // 3, 12 // 3])
    # Worth .5·.5·12 = 3 and .25·-1·12 = -3 in state 0; 1·1·12 in state 1.
    np.testing.assert_array_equal(found.rewards, [0, 4])
    by_horizon = histograms(data, cells, 2, reward_bound=2.0, max_ratio=2.0, unit=12, horizon=2)
    np.testing.assert_array_equal(by_horizon.visits, [3, 1, 0])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    scale=st.sampled_from([0.1, 1.0, 1e3]),
    horizon=st.sampled_from([None, 1, 4]),
    ratios=st.booleans(),
)
def test_one_trajectory_moves_histograms_by_a_unit(
    seed: int, lengths: list[int], scale: float, horizon: int | None, ratios: bool
) -> None:
    data = random_transitions(seed, lengths, ratios=ratios, scale=scale)

    def of(transitions: Transitions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return histograms(
            transitions, cells_of(4), 4, reward_bound=0.7, max_ratio=1.5, horizon=horizon
        )

    whole, rest = of(data), of(without(data, seed % len(lengths)))
    visits, rewards = whole[0] - rest[0], whole[1] - rest[1]
    assert np.all(visits >= 0)
    assert visits.sum() <= UNIT
    assert np.abs(rewards).sum() <= UNIT
    if horizon is None and not ratios:
        # Nothing but rounding is lost.
        assert visits.sum() >= UNIT - 2 * sum(lengths)


def test_histograms_are_total() -> None:
    data = random_transitions(8, [4, 4])
    broken = Transitions(
        data.trajectory_start,
        np.array([0, -1, 9, 1, 2, 3, 0, 1], np.int32),
        np.array([0, 1, 2, 9, -3, 4, 0, 1], np.int32),
        np.array([np.nan, np.inf, -np.inf, 0, 0, 0, np.nan, -np.inf]),
        np.array([1, 1, 1, 1, 1, 1, np.nan, np.inf]),
        np.zeros(8, bool),
    )
    found = histograms(broken, cells_of(4), 4, max_ratio=2.0, unit=8)
    # (0, 0) of the first trajectory with half the cap, of the second NaN; (1, 1) with the cap.
    assert found.visits.sum() == 1 + 2
    np.testing.assert_array_equal(found.rewards, [0, -2, 0, 0])


def test_off_policy_histograms_give_the_weighted_solution() -> None:
    data = random_transitions(9, [50] * 400, states=3)
    top = float(data.ratio.max())
    noiseless = histograms(data, cells_of(3), 3, reward_bound=5.0, max_ratio=top)
    moments = tabular_moments(
        noiseless.visits, cells_of(3), 3, 0.9, rewards=noiseless.rewards, reward_bound=5.0
    )
    # Visits are in parts of the cap and rewards too: theta is that of WIS-LSTD.
    np.testing.assert_allclose(solve_moments(*moments), wis_lstd(data, Tabular(3), 0.9), atol=1e-4)


def test_thresholds_and_pseudo_counts_by_hand() -> None:
    cells = np.array([[0, 0], [0, 1], [1, 2], [1, 0]])
    visits, rewards = np.array([8.0, 4.0, -3.0, 2.0]), np.array([-20.0, 1.5])
    A, b, C = tabular_moments(visits, cells, 2, 0.5, rewards=rewards, reward_bound=3.0)
    np.testing.assert_allclose(C, np.diag([12, 2]))
    np.testing.assert_allclose(A, [[12 - 4, -2], [-1, 2]])
    np.testing.assert_allclose(b, [3 * -12, 3 * 1.5])
    A, b, C = tabular_moments(visits, cells, 2, 0.5, rewards=rewards, threshold=3.0)
    # State 1 has no counts left: its value is 0.
    np.testing.assert_allclose(C, np.diag([12, 1]))
    np.testing.assert_allclose(A, [[8, -2], [0, 1]])
    np.testing.assert_allclose(b, [-12, 0])
    A, b, C = tabular_moments(
        visits, cells, 2, 0.5, cell_rewards=np.array([0.5, -1.0, 1.0, 9.0]), pseudo_count=1.0
    )
    np.testing.assert_allclose(C, np.diag([14, 4]))
    np.testing.assert_allclose(A, [[14 - 4.5, -2.5], [-1.5, 4]])
    np.testing.assert_allclose(b, [9 * 0.5 - 5, 1 + 3])  # a public reward is within its bound, too
    _, b, _ = tabular_moments(visits, cells, 2, 0.5, rewards=rewards, reward_threshold=2.0)
    np.testing.assert_allclose(b, [-12, 0])
    with pytest.raises(ValueError, match="either"):
        tabular_moments(visits, cells, 2, 0.5)


def test_a_public_horizon_gives_the_value_and_own_lengths_nearly() -> None:
    data = of_chain(100_000, 16)
    cells, rewards = simulators.chain_topology(), simulators.chain_cell_rewards()
    last = 0.5 / (1 - 0.99 / 2)
    value = last * (0.99 * last) ** np.arange(39, -1, -1)

    def found(horizon: int | None) -> Floats:
        visits = histograms(data, cells, 40, horizon=horizon).visits
        return solve_moments(*tabular_moments(visits, cells, 40, 0.99, cell_rewards=rewards))

    # Each state is passed by 2500 trajectories or more; 40 of 1/(2 p) steps to absorption vary by
    # 0.3 % together.
    assert np.max(np.abs(found(500) - value)) < 0.005
    assert 0.007 < np.max(np.abs(found(None) - value)) < 0.013


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1.0, 1e6, 1e300]),
    st.floats(0, 0.999),
    st.booleans(),
)
def test_values_of_noise_alone_are_bounded(
    seed: int, size: float, discount: float, public_rewards: bool
) -> None:
    rng = np.random.default_rng(seed)
    visits, rewards = size * rng.standard_normal(20), size * rng.standard_normal(4)
    moments = (
        tabular_moments(
            visits, cells_of(4), 4, discount, cell_rewards=rng.normal(size=20), reward_bound=1.0
        )
        if public_rewards
        else tabular_moments(visits, cells_of(4), 4, discount, rewards=rewards, reward_bound=1.0)
    )
    theta = solve_moments(*moments)
    assert np.all(np.abs(theta) <= (1 + 1e-6) / (1 - discount))


# Stacked statistics -------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [Tabular(4), FOURIER, Identity(2, 1.0)])
@pytest.mark.parametrize("ratios", [True, False])
def test_stacked_statistics_are_those_of_the_paper(features: Features, ratios: bool) -> None:
    data = random_transitions(
        10, [1, 7, 3], states=4 if isinstance(features, Tabular) else None, ratios=ratios
    )
    triples = printed_moments(bounded(data, 1.5, 2.0), features, 0.9)
    clip = stacked_bound(features.norm_bound, 0.9, 2.0 if ratios else 1.0)
    total = stacked(data, features, 0.9, clip=clip, reward_bound=1.5, max_ratio=2.0)
    found = unstacked(total, features.dimension, 1.5)
    for ours, theirs in zip(
        found, (sum(parts) for parts in zip(*triples, strict=True)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-6 * clip)
    pooled = moments_of(bounded(data, 1.5, 2.0), features, 0.9)
    for ours, theirs in zip(
        pooled, (sum(parts) / 3 for parts in zip(*triples, strict=True)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    clip=st.sampled_from([0.01, 0.3, 1.0, 50.0]),
    scale=st.sampled_from([0.1, 1.0, 1e200]),
    tabular=st.booleans(),
)
def test_one_trajectory_moves_stacked_statistics_by_the_clip(
    seed: int, lengths: list[int], clip: float, scale: float, tabular: bool
) -> None:
    features: Features = Tabular(4) if tabular else FOURIER
    data = random_transitions(seed, lengths, states=4 if tabular else None, scale=scale)
    one = without(data, seed % len(lengths))
    bounds = {"clip": clip, "reward_bound": 2.0, "max_ratio": 3.0}
    change = stacked(data, features, 0.9, **bounds) - stacked(one, features, 0.9, **bounds)
    # The sums are exact, so this is the trajectory's own vector.
    assert np.linalg.norm(change) <= clip
    assert change.size == stacked_size(features.dimension)


def test_stacked_vectors_are_within_the_public_bound() -> None:
    worst = Transitions(
        np.array([0, 1]),
        np.array([[-1.0, 0.0]]),
        np.array([[1.0, 0.0]]),
        np.array([1.0]),
        np.array([3.0]),
        np.array([False]),
    )
    features = Fourier(1, (-1.0, 0.0), (1.0, 2.0))
    length = np.linalg.norm(stacked(worst, features, 1.0, clip=1e6, max_ratio=3.0))
    assert 0.5 * stacked_bound(2.0, 1.0, 3.0) < length <= stacked_bound(2.0, 1.0, 3.0)


def test_a_trajectory_that_is_not_finite_counts_nothing() -> None:
    data = random_transitions(11, [2, 2])
    data.reward[0] = np.nan
    left = stacked(without(data, 0), Tabular(4), 0.9, clip=1.0, max_ratio=2.0)
    np.testing.assert_array_equal(stacked(data, Tabular(4), 0.9, clip=1.0, max_ratio=2.0), left)


# Solutions ----------------------------------------------------------------------------------------


def test_solution_is_the_formula_of_the_paper() -> None:
    rng = np.random.default_rng(12)
    A, b, root = rng.normal(size=(5, 5)), rng.normal(size=5), rng.normal(size=(5, 5))
    C = root @ root.T + np.eye(5)
    for regularization in (0.0, 0.3):
        inverse = np.linalg.inv(C)
        wanted = np.linalg.solve(A.T @ inverse @ A + regularization * np.eye(5), A.T @ inverse @ b)
        np.testing.assert_allclose(solve_moments(A, b, C, regularization), wanted, rtol=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1e-8, 1.0]),
    st.sampled_from(["noise", "zero", "negative"]),
)
def test_solution_is_finite_for_anything(seed: int, regularization: float, kind: str) -> None:
    rng = np.random.default_rng(seed)
    A, b, C = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=(4, 4))
    C = {"noise": C, "zero": 0 * C, "negative": -(C @ C.T)}[kind]
    assert np.all(np.isfinite(solve_moments(A, b, C, regularization)))
    assert np.all(np.isfinite(solve_moments(0 * A, b, C, regularization)))


def test_mspbe_is_the_quadratic_form_and_never_negative() -> None:
    rng = np.random.default_rng(13)
    A, b, root = rng.normal(size=(5, 5)), rng.normal(size=5), rng.normal(size=(5, 5))
    C, theta = root @ root.T, rng.normal(size=5)
    residual = b - A @ theta
    assert mspbe(theta, A, b, C) == pytest.approx(residual @ np.linalg.solve(C, residual), rel=1e-8)
    assert mspbe(theta, A, b, np.zeros((5, 5))) == 0
    flat = np.diag([1.0, 2.0, 0.0, 0.0, 0.0])
    assert mspbe(theta, A, b, flat) == pytest.approx(
        residual[0] ** 2 + residual[1] ** 2 / 2, rel=1e-12
    )


def test_policy_value_is_the_mean_over_the_initial_distribution() -> None:
    assert policy_value(np.array([1.0, 3.0]), np.array([0.25, 0.75])) == 2.5


def test_wis_lstd_corrects_what_lstd_does_not() -> None:
    """A bandit of one state: pays 1 for an action taken with probability .2, evaluated with .6."""
    rng = np.random.default_rng(14)
    paid = rng.random(200_000) < 0.2
    data = Transitions(
        np.arange(200_001),
        np.zeros(200_000, np.int32),
        np.zeros(200_000, np.int32),
        paid.astype(float),
        importance_ratio(np.where(paid, 0.6, 0.4), np.where(paid, 0.2, 0.8), 10.0),
        np.ones(200_000, bool),
    )
    # One deviation of either is below .003.
    assert lstd(data, Tabular(1), 0.9)[0] == pytest.approx(0.2, abs=0.005)
    assert wis_lstd(data, Tabular(1), 0.9)[0] == pytest.approx(0.6, abs=0.015)


def test_feature_rows_of_tables_are_the_states_themselves() -> None:
    data = random_transitions(15, [3])
    assert feature_rows(data, Tabular(4))[0] is data.state


@pytest.mark.parametrize("wrong", [-1, 4])
def test_states_out_of_range_never_reach_a_kernel(wrong: int) -> None:
    data = random_transitions(17, [3])
    data.terminal[:] = [True, False, False]
    data.next_state[0] = wrong  # of a terminal transition: never read
    feature_rows(data, Tabular(4))
    data.next_state[1] = wrong
    with pytest.raises(IndexError, match="0 to 3"):
        feature_rows(data, Tabular(4))
