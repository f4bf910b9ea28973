"""Linearly-solvable decision processes against recursions in mpmath, a conic solver, an integral,
simulation."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import betaincc

from discreet.reproduce import hassan, load_ensemble
from discreet.solvers.control import linearly_solvable_mdp
from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control.control_policies import Support, TabulatedPolicy

Floats = NDArray[np.float64]


# Instances ----------------------------------------------------------------------------------------


def random_transitions(rng: np.random.Generator, n: int, density: float = 1.0) -> Floats:
    """Rows of very unequal probabilities; each keeps a transition to the next state, which is a way
    to all others."""
    weights = rng.gamma(0.3, size=(n, n)) + 1e-6
    weights[rng.random((n, n)) >= density] = 0
    weights[np.arange(n), (np.arange(n) + 1) % n] += 0.1
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def random_walk(n: int) -> Floats:
    """Stay, one up or one down, reflected: three transitions a state."""
    P = 0.5 * np.eye(n) + 0.25 * np.eye(n, k=1) + 0.25 * np.eye(n, k=-1)
    return np.asarray(P / P.sum(axis=1, keepdims=True))


@st.composite
def instances(draw: st.DrawFn) -> tuple[Floats, Floats, float]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, horizon = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    P = random_transitions(rng, n, draw(st.sampled_from([0.2, 0.6, 1.0])))
    return (
        P,
        rng.normal(0, draw(st.sampled_from([0.1, 3.0, 300.0])), (horizon, n)),
        draw(st.sampled_from([0.5, 15.0])),
    )


# Oracles ------------------------------------------------------------------------------------------


def by_recursion(W: Any, utility: Floats, gamma: float) -> tuple[Floats, Floats]:
    """ln z and the policies, by the recursion for z itself, state after state, in numbers of 40
    digits and any size."""
    horizon, n = utility.shape
    with mpmath.workdps(40):
        weights = [[mpmath.mpf(W[b][a]) for a in range(n)] for b in range(n)]
        z = [mpmath.exp(mpmath.mpf(u) / mpmath.mpf(gamma)) for u in utility[-1]]
        log_z, policies = [[float(mpmath.log(x)) for x in z]], []
        for t in range(horizon - 2, -1, -1):
            sums = [mpmath.fsum(w * x for w, x in zip(row, z, strict=True)) for row in weights]
            policies.append(
                [[float(weights[b][a] * z[a] / sums[b]) for a in range(n)] for b in range(n)]
            )
            z = [
                mpmath.exp(mpmath.mpf(utility[t, b]) / mpmath.mpf(gamma)) * sums[b]
                for b in range(n)
            ]
            log_z.append([float(mpmath.log(x)) for x in z])
    return np.array(log_z[::-1]), np.array(policies[::-1]).reshape(horizon - 1, n, n)


def value_by_loops(policies: Floats, P: Floats, utility: Floats, gamma: float) -> Floats:
    value = np.zeros(utility.shape)
    value[-1] = utility[-1]
    for t in range(len(utility) - 2, -1, -1):
        for b in range(len(P)):
            value[t, b] = utility[t, b]
            for a in range(len(P)):
                p = policies[t, b, a]
                if p > 0:
                    value[t, b] += p * (value[t + 1, a] - gamma * np.log(p / P[b, a]))
    return value


def mean_policy(shape: Floats, z: Floats) -> Floats:
    """E[X z/(X z)], X ~ Dir(shape): with 1/y = int e^{-sy} ds over Gamma variables, and s = e^x,
    one integral a state.

    E_a = shape_a z_a int (1 + s z_a)^-1 prod_j (1 + s z_j)^-shape_j ds.
    """

    def integrand(x: float, a: int) -> float:
        terms = np.logaddexp(0, x + np.log(z))
        return float(shape[a] * z[a] * np.exp(x - shape @ terms - terms[a]))

    middle = -np.log(z.max())
    bounds = np.concatenate([middle + np.array([-60, -20, -5, 0, 5, 20, 60, 200]), [middle + 2000]])
    pieces = list(pairwise(bounds))
    return np.array(
        [
            sum(
                quad(integrand, low, high, (a,), epsabs=1e-13, limit=400)[0] for low, high in pieces
            )
            for a in range(z.size)
        ]
    )


# Desirability and policy --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("density", [0.1, 0.5, 1.0])
def test_agrees_with_a_plain_recursion(scale: float, density: float) -> None:
    """To 1e-10, relative for ln z and absolute for probabilities, however far z is from what a
    double holds."""
    rng = np.random.default_rng(7)
    P, U = random_transitions(rng, 14, density), rng.normal(0, scale, (9, 14))
    log_z, policies = by_recursion(P, U, 1.5)
    policy = lsmdp.solve(P, U, 1.5)
    assert policy.steps == 8
    np.testing.assert_allclose(policy.log_desirability, log_z, rtol=1e-10)
    np.testing.assert_allclose(policy.transitions, policies, atol=1e-10, rtol=0)
    assert (policy.transitions[:, P == 0] == 0).all()


@pytest.mark.parametrize("weights", ["taylor", "digamma"])
def test_weights_agree_with_a_plain_recursion(weights: linearly_solvable_mdp.Weights) -> None:
    rng = np.random.default_rng(8)
    P, U, k = random_transitions(rng, 8, 0.6), rng.normal(0, 5, (6, 8)), 50
    with mpmath.workdps(40):
        if weights == "taylor":
            W = [
                [
                    p * mpmath.exp(-(1 - p) / (2 * p * (k + 1))) if p else 0
                    for p in map(mpmath.mpf, row)
                ]
                for row in P
            ]
        else:
            W = [
                [
                    mpmath.exp(mpmath.psi(0, k * p) - mpmath.psi(0, k)) if p else 0
                    for p in map(mpmath.mpf, r)
                ]
                for r in P
            ]
    log_z, policies = by_recursion(W, U, 2.0)
    policy = lsmdp.solve(P, U, 2.0, weights=weights, concentration=k)
    np.testing.assert_allclose(policy.log_desirability, log_z, rtol=1e-10)
    np.testing.assert_allclose(policy.transitions, policies, atol=1e-10, rtol=0)


def test_agrees_with_a_conic_solver() -> None:
    """The joint occupancies of (b, a) at t solve a convex programme: to 1e-10, value and
    occupancies."""
    rng = np.random.default_rng(9)
    n, horizon, gamma = 4, 5, 2.0
    P, U, initial = random_transitions(rng, n), rng.normal(0, 3, (horizon, n)), np.full(n, 1 / n)
    joint = [cp.Variable((n, n), nonneg=True) for _ in range(horizon - 1)]
    at = [cp.sum(y, axis=1) for y in joint] + [cp.sum(joint[-1], axis=0)]
    flow = [at[0] == initial] + [cp.sum(joint[t], axis=0) == at[t + 1] for t in range(horizon - 2)]
    discomfort = sum(
        cp.sum(
            cp.rel_entr(
                y,
                cp.multiply(P, cp.reshape(cp.sum(y, axis=1), (n, 1), order="C") @ np.ones((1, n))),
            )
        )
        for y in joint
    )
    earned = sum(U[t] @ at[t] for t in range(horizon))
    programme = cp.Problem(cp.Maximize(earned - gamma * discomfort), flow)
    programme.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    policy = lsmdp.solve(P, U, gamma)
    best = float(initial @ (gamma * policy.log_desirability[0]))
    assert programme.value == pytest.approx(best, abs=1e-10)
    distributions = lsmdp.propagate(initial, policy, horizon)
    for t, y in enumerate(joint):
        np.testing.assert_allclose(
            y.value, distributions[t][:, None] * policy.at(t), atol=1e-10, rtol=0
        )


def residual(policy: lsmdp.DesirabilityPolicy, P: Floats, U: Floats, t: int, b: int) -> float:
    """How far ln z_t[b] is from what ln z_{t+1} says, in long doubles, as a part of the larger of
    |ln z| and 1."""
    z = policy.relative.astype(np.longdouble)
    to = np.flatnonzero(P[b])
    terms = np.log(P[b, to].astype(np.longdouble)) + z[t + 1, to]
    top = terms.max()
    expected = (
        np.longdouble(U[t, b])
        + top
        + np.log(np.exp(terms - top).sum())
        + np.longdouble(policy.level[t + 1])
    )
    return float(abs(z[t, b] + np.longdouble(policy.level[t]) - expected) / max(1, abs(expected)))


@pytest.mark.parametrize("dense", [True, False])
def test_nothing_underflows(dense: bool) -> None:
    """1,000 states, 1,000 steps, utilities of 1e4 at gamma 1: z spans e^(1e7)."""
    rng = np.random.default_rng(10)
    n, horizon = 1000, 1000
    P = rng.dirichlet(np.full(n, 0.5), n) if dense else random_walk(n)
    P[P < 1e-9] = 0
    P /= P.sum(axis=1, keepdims=True)
    U = rng.choice([-1e4, 0, 1e4], (horizon, n)) + rng.normal(0, 1, (horizon, n))
    policy = lsmdp.solve(P, U, 1.0)
    assert np.isfinite(policy.log_desirability).all()
    assert np.abs(policy.log_desirability).max() > (9e6 if dense else 1e6)
    assert max(residual(policy, P, U, *point) for point in rng.integers(0, 999, (200, 2))) < 1e-13
    for t in (0, 500, 998):
        cells = policy.cells(t)
        assert (cells >= 0).all()
        np.testing.assert_allclose(policy.support.row_sums(cells), 1, atol=1e-14)


def test_rows_that_hardly_reach_the_best_states_are_right() -> None:
    """Products that underflow are summed again in logarithms."""
    P = np.array([[1 - 1e-300, 1e-300, 0.0], [0.5, 0.5, 0.0], [0.0, 1e-280, 1.0]])
    U = np.array([[0.0, 0, 0], [0, 1500, 0], [0, 0, 900]])
    log_z, policies = by_recursion(P, U, 1.0)
    policy = lsmdp.solve(P, U, 1.0)
    np.testing.assert_allclose(policy.log_desirability, log_z, rtol=1e-13)
    np.testing.assert_allclose(policy.transitions, policies, atol=1e-12)


@pytest.mark.parametrize("weights", ["exact", "taylor", "digamma"])
def test_sparse_and_dense_sums_agree(
    weights: linearly_solvable_mdp.Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(11)
    P, U = random_transitions(rng, 30, 0.3), rng.normal(0, 400, (12, 30))
    found = []
    for threshold in (0.0, 2.0):
        monkeypatch.setattr(linearly_solvable_mdp, "SPARSE", threshold)
        found.append(lsmdp.solve(P, U, 1.0, weights=weights, concentration=20.0))
    np.testing.assert_allclose(found[0].log_desirability, found[1].log_desirability, rtol=1e-12)
    np.testing.assert_allclose(found[0].transitions, found[1].transitions, atol=1e-11)


@pytest.mark.parametrize("threshold", [0.0, 2.0])
@pytest.mark.parametrize("density", [0.05, 1.0])
def test_many_are_solved_as_each_alone(
    density: float, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Utilities to one matrix, matrices of different support to one utility, and pairs; dense and
    sparse sums."""
    monkeypatch.setattr(linearly_solvable_mdp, "SPARSE", threshold)
    rng = np.random.default_rng(12)
    P = np.stack([random_transitions(rng, 25, density) for _ in range(3)])
    U = rng.normal(0, 500, (3, 6, 25))
    for transitions, utility in ((P[0], U), (P, U[1]), (P, U)):
        many = lsmdp.solve_many(transitions, utility, 2.0)
        assert len(many) == 3
        for i, policy in enumerate(many):
            one_P, one_U = (
                P[i] if transitions.ndim == 3 else P[0],
                U[i] if utility.ndim == 3 else U[1],
            )
            alone = lsmdp.solve(one_P, one_U, 2.0)
            np.testing.assert_allclose(
                policy.log_desirability, alone.log_desirability, rtol=1e-12, atol=1e-12
            )
            np.testing.assert_allclose(policy.transitions, alone.transitions, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(instances())
def test_policies_are_distributions_on_the_support(instance: tuple[Floats, Floats, float]) -> None:
    P, U, gamma = instance
    policies = [
        lsmdp.solve(P, U, gamma),
        lsmdp.solve(P, U, gamma, weights="taylor", concentration=50),
        lsmdp.solve(P, U, gamma, weights="digamma", concentration=50),
        lsmdp.average_policy(P, U, gamma, 50),
        lsmdp.average_policy(P, U, gamma, 50, samples=3, generator=np.random.default_rng(1)),
    ]
    for policy in policies:
        transitions = policy.transitions
        assert transitions.shape == (len(U) - 1, *P.shape)
        assert (transitions >= 0).all()
        assert (transitions[:, P == 0] == 0).all()
        np.testing.assert_allclose(transitions.sum(axis=2), 1, atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(instances(), st.integers(0, 2**32))
def test_what_pays_attracts(instance: tuple[Floats, Floats, float], seed: int) -> None:
    """More utility in a state at t + 1 never lowers a probability of moving there at t, nor any
    value before."""
    P, U, gamma = instance
    rng = np.random.default_rng(seed)
    if len(U) == 1:
        return
    t, a = int(rng.integers(1, len(U))), int(rng.integers(len(P)))
    raised = U.copy()
    raised[t, a] += gamma
    before, after = lsmdp.solve(P, U, gamma), lsmdp.solve(P, raised, gamma)
    assert (after.at(t - 1)[:, a] >= before.at(t - 1)[:, a] - 1e-14).all()
    open_rows = (before.at(t - 1)[:, a] > 1e-9) & (before.at(t - 1)[:, a] < 1 - 1e-9)
    assert (after.at(t - 1)[open_rows, a] > before.at(t - 1)[open_rows, a]).all()
    # What is near zero is a difference of larger figures: rounding goes by those.
    assert (
        after.log_desirability - before.log_desirability
        >= -1e-12 * (1 + np.abs(before.log_desirability).max())
    ).all()


def test_without_utility_nobody_is_moved() -> None:
    P = random_transitions(np.random.default_rng(13), 6, 0.5)
    policy = lsmdp.solve(P, np.full((4, 6), -3.0), 2.0)
    np.testing.assert_allclose(policy.at(1), P, atol=1e-15)
    np.testing.assert_allclose(policy.log_desirability[:, 0], [-6, -4.5, -3, -1.5], rtol=1e-14)


def test_the_last_time_stands_alone() -> None:
    policy = lsmdp.solve(np.full((2, 2), 0.5), np.array([[1.0, 2.0]]), 2.0)
    assert policy.transitions.shape == (0, 2, 2)
    assert policy.log_desirability.tolist() == [[0.5, 1.0]]
    with pytest.raises(IndexError, match="there is no 0"):
        policy.at(0)


# Weights ------------------------------------------------------------------------------------------


def test_digamma_weights_are_the_mean_logarithm() -> None:
    rng = np.random.default_rng(14)
    row, k = np.array([0.1, 0.25, 0.65]), 50
    logs = np.log(rng.dirichlet(k * row, 200_000))
    found = linearly_solvable_mdp.log_weights(np.tile(row, (3, 1)), "digamma", k)[0]
    assert (np.abs(logs.mean(axis=0) - found) < 5 * logs.std(axis=0) / np.sqrt(len(logs))).all()


@pytest.mark.parametrize("k", [50.0, 200.0, 1e6])
def test_taylor_weights_expand_the_digamma_ones(k: float) -> None:
    """Both are below ln P (Jensen); their difference is of the next order of 1/(k P)."""
    P = random_transitions(np.random.default_rng(15), 5) * 0.5 + 0.1
    P /= P.sum(axis=1, keepdims=True)
    exact, taylor, mean = (
        linearly_solvable_mdp.log_weights(P, name, k) for name in ("exact", "taylor", "digamma")
    )
    assert (taylor < exact).all()
    assert (mean < exact).all()
    assert (np.abs(taylor - mean) < 1 / (k * P) ** 2 + 1e-12).all()


def test_no_weight_off_the_support() -> None:
    P = np.array([[1.0, 0.0], [0.25, 0.75]])
    for name in ("exact", "taylor", "digamma"):
        logs = linearly_solvable_mdp.log_weights(P, name, 10.0)
        assert logs[0, 1] == -np.inf
        assert np.isfinite(logs[P > 0]).all()
        assert logs[0, 0] == 0


# The average value policy -------------------------------------------------------------------------


def one_step(P: Floats, log_z: Floats) -> tuple[Floats, Floats, float]:
    """A problem of one step in which `log_z` is the desirability that the step leads to."""
    return P, np.stack([np.zeros(len(P)), log_z]), 1.0


@pytest.mark.parametrize("k", [50.0, 200.0])
def test_the_closed_form_is_within_the_sampling_error_of_a_million_draws(k: float) -> None:
    """And sums to 1 to 1e-14. Five standard errors: passed by chance once in 1e6."""
    rng = np.random.default_rng(16)
    P = np.array([[0.25, 0.5, 0.25], [0.2, 0.45, 0.35], [0.6, 0.3, 0.1]])
    log_z = np.log([1.0, 0.9, 0.75])
    policy = lsmdp.average_policy(*one_step(P, log_z), k)
    found = policy.at(0)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-14)
    for b in range(3):
        drawn = rng.dirichlet(k * P[b], 1_000_000) * np.exp(log_z)
        drawn /= drawn.sum(axis=1, keepdims=True)
        assert (np.abs(found[b] - drawn.mean(axis=0)) < 5 * drawn.std(axis=0) / 1e3).all()


def test_the_closed_form_is_the_delta_method() -> None:
    """m/Y - Cov/Y^2 + m Var/Y^3 of vectors.json, with the covariances of a Dirichlet vector. The
    printed one is not."""
    rng = np.random.default_rng(17)
    P, log_z, k = random_transitions(rng, 5) * 0.7 + 0.06, rng.normal(0, 0.5, 5), 50.0
    P /= P.sum(axis=1, keepdims=True)
    found = lsmdp.average_policy(*one_step(P, log_z), k).at(0)
    for b in range(5):
        z, p = np.exp(log_z), P[b]
        covariance = np.outer(z, z) * (np.diag(p) - np.outer(p, p)) / (k + 1)
        m, Y = p * z, p @ z
        expected = m / Y - covariance.sum(axis=1) / Y**2 + m * covariance.sum() / Y**3
        np.testing.assert_allclose(found[b], expected, atol=1e-14)
        printed = (
            m / Y - covariance.sum(axis=1) / np.sum(m**2) + m * covariance.sum() / np.sum(m**3)
        )
        assert abs(printed.sum() - 1) > 1e-4


def test_the_closed_form_errs_in_second_order() -> None:
    """Against the exact mean: four times the concentration leaves a sixteenth of the error."""
    P, log_z = (
        np.array([[0.3, 0.5, 0.2], [0.2, 0.4, 0.4], [0.1, 0.6, 0.3]]),
        np.array([0.0, 1.0, 2.0]),
    )
    errors = []
    for k in (100.0, 400.0):
        exact = np.stack([mean_policy(k * row, np.exp(log_z)) for row in P])
        np.testing.assert_allclose(exact.sum(axis=1), 1, atol=1e-11)
        errors.append(np.abs(lsmdp.average_policy(*one_step(P, log_z), k).at(0) - exact).max())
    assert errors[0] < 1e-3
    assert 12 < errors[0] / errors[1] < 20


def test_where_the_expansion_leaves_the_simplex_it_is_brought_back() -> None:
    """k P = .01 for the state that pays: expanded, its probability is negative. Sampling is right
    here too."""
    P, log_z, k = np.tile([0.999, 0.001], (2, 1)), np.log([1.0, 1000.0]), 10.0
    found = lsmdp.average_policy(*one_step(P, log_z), k).at(0)
    assert found.tolist() == [[1, 0], [1, 0]]
    exact = mean_policy(k * P[0], np.exp(log_z))
    sampled = lsmdp.average_policy(
        *one_step(P, log_z), k, samples=20_000, generator=np.random.default_rng(18)
    ).at(0)
    deviation = np.sqrt(exact[0] * exact[1])  # at most, of a variable within [0, 1]
    assert np.abs(sampled - exact).max() < 5 * deviation / np.sqrt(20_000)
    assert 0.005 < exact[1] < 0.1


def test_sampling_agrees_with_the_exact_mean() -> None:
    """All rows at once, at every step; parameters down to 1e-4 and less; five standard errors."""
    rng = np.random.default_rng(19)
    P, U, k, samples = random_transitions(rng, 4), rng.normal(0, 1, (3, 4)), 3.0, 20_000
    z = np.exp(lsmdp.solve(P, U, 1.0).log_desirability)
    seen: list[tuple[int, int]] = []
    policy = lsmdp.average_policy(
        P,
        U,
        1.0,
        k,
        samples=samples,
        generator=rng,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (samples, samples)
    assert (k * P).min() < 1e-3
    for t in range(2):
        exact = np.stack([mean_policy(k * row, z[t + 1]) for row in P])
        bound = 5 * np.sqrt(exact * (1 - exact) / samples) + 1e-3 / samples
        assert (np.abs(policy.at(t) - exact) < bound).all()


def test_sampling_is_repeatable() -> None:
    P, U = random_walk(5), np.arange(15.0).reshape(3, 5)
    first, second = (
        lsmdp.average_policy(
            P, U, 1.0, 5.0, samples=4, generator=np.random.default_rng(3)
        ).transitions
        for _ in "ab"
    )
    assert (first == second).all()


# Evaluation, propagation, cost --------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(instances(), st.integers(0, 2**32))
def test_values_and_costs_of_any_policy(instance: tuple[Floats, Floats, float], seed: int) -> None:
    """Against loops; no policy beats the best; the cost of privacy is the difference of values."""
    P, U, gamma = instance
    rng = np.random.default_rng(seed)
    policies = np.where(P > 0, rng.random((len(U) - 1, *P.shape)) * (rng.random(P.shape) < 0.7), 0)
    policies += 1e-3 * P
    policies /= policies.sum(axis=2, keepdims=True)
    size = np.abs(U).max() * len(U) + gamma
    best = lsmdp.solve(P, U, gamma)
    value, best_value = lsmdp.evaluate(policies, P, U, gamma), lsmdp.evaluate(best, P, U, gamma)
    np.testing.assert_allclose(value, value_by_loops(policies, P, U, gamma), atol=1e-12 * size)
    np.testing.assert_allclose(best_value, gamma * best.log_desirability, atol=1e-12 * size)
    cost = lsmdp.cost_of_privacy(policies, P, U, gamma)
    assert (cost >= 0).all()
    np.testing.assert_allclose(cost, best_value - value, atol=1e-11 * size)
    assert np.abs(lsmdp.cost_of_privacy(best, P, U, gamma)).max() == 0
    assert np.abs(lsmdp.cost_of_privacy(best.transitions, P, U, gamma)).max() < 1e-12 * size


def test_one_matrix_is_a_policy_for_all_steps() -> None:
    rng = np.random.default_rng(20)
    P, U = random_transitions(rng, 5), rng.normal(0, 1, (6, 5))
    idle = lsmdp.evaluate(P, P, U, 3.0)
    expected = sum(np.linalg.matrix_power(P, t) @ U[t] for t in range(6))
    np.testing.assert_allclose(idle[0], expected, atol=1e-12)
    np.testing.assert_allclose(lsmdp.evaluate(np.stack([P] * 5), P, U, 3.0), idle, atol=1e-12)


def test_small_costs_are_not_lost_in_large_values() -> None:
    """Values are 1e9: the difference between two of them would be rounding."""
    P, U = np.array([[0.5, 0.5], [0.5, 0.5]]), np.full((2, 2), 1e9)
    p = np.array([0.5 + 1e-6, 0.5 - 1e-6])
    cost = lsmdp.cost_of_privacy(np.stack([[p, p]]), P, U, 1.0)
    assert cost[0] == pytest.approx(2e-12, rel=1e-3)


def test_a_policy_with_fewer_transitions_pays_for_those_it_lacks() -> None:
    P = np.array([[0.75, 0.25], [0.5, 0.5]])
    cost = lsmdp.cost_of_privacy(np.eye(2), P, np.zeros((2, 2)), 2.0)
    np.testing.assert_allclose(cost, [[-2 * np.log(0.75), -2 * np.log(0.5)], [0, 0]], rtol=1e-14)


def test_transitions_that_are_ruled_out_have_no_price() -> None:
    P, made = np.array([[1.0, 0.0], [0.5, 0.5]]), np.full((2, 2), 0.5)
    U = np.zeros((3, 2))
    assert lsmdp.evaluate(made, P, U, 1.0).tolist() == [[-np.inf, -np.inf], [-np.inf, 0], [0, 0]]
    assert lsmdp.cost_of_privacy(made, P, U, 1.0).tolist() == [
        [np.inf, np.inf],
        [np.inf, 0],
        [0, 0],
    ]


def test_ensembles_follow_the_matrices() -> None:
    rng = np.random.default_rng(21)
    P, U, power = random_transitions(rng, 6, 0.5), rng.normal(0, 2, (5, 6)), rng.random(6)
    policy, initial = lsmdp.solve(P, U, 1.0), rng.dirichlet(np.ones(6))
    found = lsmdp.propagate(initial, policy, 5)
    expected = [initial]
    for matrix in policy.transitions:
        expected.append(expected[-1] @ matrix)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    np.testing.assert_allclose(
        lsmdp.expected_power(found, power), np.stack(expected) @ power, atol=1e-14
    )
    np.testing.assert_allclose(lsmdp.propagate(initial, P, 4)[3], initial @ P @ P @ P, atol=1e-14)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-13)


def test_progress_counts_steps() -> None:
    seen: list[tuple[int, int]] = []
    lsmdp.solve(random_walk(3), np.zeros((4, 3)), 1.0, progress=lambda *at: seen.append(at))
    assert seen == [(1, 3), (2, 3), (3, 3)]


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"transitions": np.full((2, 2), 0.4)}, "sum to 1"),
        ({"transitions": np.array([[1.5, -0.5], [0.5, 0.5]])}, "nonnegative"),
        ({"transitions": np.full((2, 2), np.nan)}, "sum to 1"),
        ({"transitions": np.full((2, 3), 1 / 3)}, "square"),
        ({"transitions": np.full((3, 2, 2), 0.5)}, "square"),
        ({"utility": np.zeros((2, 3, 2))}, "steps by states"),
        ({"utility": np.zeros((0, 2))}, "at least one"),
        ({"utility": np.array([[0, np.nan]])}, "finite"),
        ({"utility": np.zeros((3, 3))}, "3 states"),
        ({"discomfort_weight": 0.0}, "positive"),
        ({"discomfort_weight": np.inf}, "positive"),
        ({"weights": "taylor"}, "positive concentration"),
        ({"weights": "digamma", "concentration": -1.0}, "positive concentration"),
    ],
)
def test_bad_problems_are_refused(change: dict[str, Any], says: str) -> None:
    problem: dict[str, Any] = {
        "transitions": np.full((2, 2), 0.5),
        "utility": np.zeros((3, 2)),
        "discomfort_weight": 1,
    }

    with pytest.raises(ValueError, match=says):
        lsmdp.solve(**problem | change)


def test_bad_averages_policies_and_horizons_are_refused() -> None:
    P, U = np.full((2, 2), 0.5), np.zeros((3, 2))
    with pytest.raises(ValueError, match="concentration"):
        lsmdp.average_policy(P, U, 1.0, 0.0)
    with pytest.raises(ValueError, match="generator"):
        lsmdp.average_policy(P, U, 1.0, 5.0, samples=3)
    with pytest.raises(ValueError, match="2 transition matrices do not go with 3 utilities"):
        lsmdp.solve_many(np.stack([P] * 2), np.stack([U] * 3), 1.0)
    with pytest.raises(ValueError, match="horizon must be positive"):
        lsmdp.propagate(np.array([1.0, 0]), P, 0)
    with pytest.raises(ValueError, match="does not reach a horizon of 9"):
        lsmdp.propagate(np.array([1.0, 0]), lsmdp.solve(P, U, 1.0), 9)
    with pytest.raises(ValueError, match="policy is of 2 states"):
        lsmdp.propagate(np.array([1.0, 0, 0]), P, 3)
    with pytest.raises(ValueError, match="state 1 has no transition"):
        Support.of(np.array([[True, True], [False, False]]))


def test_tables_are_policies() -> None:
    matrices = np.stack([random_walk(4), np.eye(4)])
    policy = TabulatedPolicy.of(matrices)
    assert (policy.transitions == matrices).all()
    assert policy.log_cells(1)[0] == 0
    assert policy.log_cells(1)[1] == -np.inf


# The synthetic ensemble and the paper's study -----------------------------------------------------


def test_buildings_are_within_a_tenth_of_the_profile() -> None:
    ensemble = load_ensemble.generate(participants=30, days=3, seed=5)
    assert ensemble.power.shape == (30, 3 * 96)
    assert (ensemble.power == load_ensemble.generate(30, 3, 5).power).all()
    assert (ensemble.power[:, 50] != load_ensemble.generate(30, 3, 6).power[:, 50]).all()
    noise = ensemble.power / np.tile(load_ensemble.base_profile(), 3) - 1
    assert np.abs(noise).max() < 0.1
    assert 0.02 < noise.std() < 0.06
    assert ensemble.edges.size == ensemble.bin_power.size + 1 == 21
    assert (ensemble.power > ensemble.edges[0]).all()
    assert (ensemble.power < ensemble.edges[-1]).all()
    assert ensemble.price.size == ensemble.clock.size == ensemble.event.size == 22
    assert ensemble.clock[ensemble.event].tolist() == np.arange(11, 15, 0.25).tolist()
    assert ensemble.initial.sum() == pytest.approx(1, abs=1e-12)


def test_an_event_lowers_the_load_and_privacy_costs() -> None:
    ensemble = load_ensemble.generate()
    P = hassan.transition_matrix(ensemble)
    assert (P.sum(axis=0) > 0).all()
    curves = hassan.load_curves(ensemble, P, 50, 0)
    late = ensemble.clock == 14
    assert 100 < np.array(curves["exact"])[late] < 0.5 * np.array(curves["default"])[late]
    for name in ("taylor", "digamma", "average"):
        assert np.array(curves[name])[late] > np.array(curves["exact"])[late]
    few, more = (hassan.cost_row(ensemble, P, hassan.TARIFFS[0], k, 0) for k in (50, 200))
    assert few["exact"] == 0
    assert few["taylor"] < few["digamma"] < few["average"] < few["one draw"]
    for name in ("taylor", "digamma", "average", "one draw"):
        assert more[name] < few[name] / 3
    mild = hassan.cost_row(ensemble, P, hassan.TARIFFS[2], 50, 0)
    # The paper's other ordering does not hold here.
    assert mild["average"] < mild["taylor"] < mild["digamma"]


def test_adjacent_rows_and_exact_epsilons() -> None:
    P = hassan.transition_matrix(load_ensemble.generate())
    change = hassan.adjacent(P) - P
    assert np.abs(change).sum() == pytest.approx(hassan.H)
    assert (change.any(axis=1) == (np.arange(20) == hassan.ROW)).all()
    for k in (50, 200):
        found = hassan.epsilons(k)
        assert found["floor 0.05"] > found["floor 0.1"] > found["floor 0.2"] > 0
        assert found["floor 0.1, 20 rows"] > found["floor 0.1"]
        # By the formula of privacy.md, which the event does not use: a Beta pair and its exact
        # delta.
        b, t = 0.1 * k, 0.015 * k
        u = 1 / (1 + np.exp(-found["floor 0.1"] / t))
        delta = betaincc(b + t, b, u) - np.exp(found["floor 0.1"]) * betaincc(b, b + t, u)
        assert delta == pytest.approx(hassan.DELTA, rel=1e-4)
