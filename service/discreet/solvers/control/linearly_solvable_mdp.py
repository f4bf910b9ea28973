"""Linearly-solvable Markov decision processes with a finite horizon (Todorov 2007; Hassan et al.
2021, Theorem 1).

An ensemble of loads is in one of n states at T times. Without control it moves by the transition
matrix P; other transitions p_t cost discomfort: gamma times their Kullback–Leibler divergence from
P. The value of a policy is what it earns minus its discomfort,

    V_T = U_T,   V_t[b] = U_t[b] + sum_a p_t[b, a] (V_{t+1}[a] - gamma ln(p_t[b, a] / P[b, a])),

in the currency of the utility U; the paper's value function is a cost, `cost_to_go = -V`. The best
policy is linear in the desirability z = exp(V / gamma):

    z_T = exp(U_T / gamma),   z_t[b] = exp(U_t[b] / gamma) sum_a W[b, a] z_{t+1}[a],
    p_t = W z_{t+1} / (W z_{t+1})

with the weights W = P. Taylor and digamma weights (Theorem 3, eqs 20 and 25) replace ln P by the
mean of ln P~ for P~ ~ Dir(k P), approximately and exactly. The paper calls their policies private.
They are NOT: they are functions of P from which P can be computed. Nothing here adds noise; solving
for a released P is post-processing.

Matrices are from (row) to (column); everything is computed in logarithms, so nothing underflows.
The policies themselves are in `control_policies`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import digamma

from discreet.solvers.control.control_policies import (
    LEAST_SUM,
    AveragePolicy,
    DesirabilityPolicy,
    Floats,
    Ints,
    Policy,
    Support,
    TabulatedPolicy,
    add_policies,
    log_sum_exp,
)
from discreet.solvers.errors import InvalidArgument

# Desirability -------------------------------------------------------------------------------------
# Logarithms of desirabilities by the backward recursion, and the input formats of a process.

Weights = Literal["exact", "taylor", "digamma"]
SPARSE = 0.15
"""Supports with less than this fraction of all transitions are summed cell by cell: an exponential
costs as much as 6 or more multiplications."""
SUM_TOLERANCE = 1e-9
"""Tolerance of the sum of a row of probabilities, which is 1."""


def log_weights(
    transitions: Floats, weights: Weights = "exact", concentration: float | None = None
) -> Floats:
    """ln W, float64[..., n, n], of transition matrices P of that shape; -inf where P is 0.

    exact: ln P. taylor: `ln P - (1 - P)/(2 P (k + 1))`, the expansion of E ln P~ to second order
    (eq. 20). digamma: `psi(k P) - psi(k)`, which is E ln P~ for P~ ~ Dir(k P) (eq. 25). k =
    `concentration` > 0 is needed by the last two; InvalidArgument if it is missing.
    """
    P = np.asarray(transitions, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        if weights == "exact":
            return np.log(P)
        k = concentration
        if k is None or not 0 < k < np.inf:
            raise InvalidArgument(f"{weights} weights need a positive concentration, not {k}")
        possible = P > 0
        safe = np.where(possible, P, 1.0)
        if weights == "taylor":
            logs = np.log(safe) - (1 - safe) / (2 * safe * (k + 1))
        else:
            logs = digamma(k * safe) - digamma(k)
    return np.where(possible, logs, -np.inf)


def log_desirabilities(
    support: Support,
    log_weight: Floats,
    at: Ints,
    scaled: Floats,
    progress: Callable[[int, int], None] | None,
) -> tuple[Floats, Floats]:
    """ln z as `relative` float64[B, T, n] and `level` float64[B, T], from ln W float64[B or 1, K,
    cells], the index of each step's matrix, and U/gamma.

    A step is a matrix-vector product: z and the rows of W are scaled to maximum 1, so it can only
    underflow, and only in rows that do not reach the best states; these are summed in logarithms.
    """
    n = support.states
    batch, horizon = max(len(log_weight), len(scaled)), scaled.shape[1]
    relative, level = np.empty((batch, horizon, n)), np.zeros((batch, horizon))
    sums = np.zeros((batch, n))
    dense = support.to.size >= SPARSE * n * n
    if dense:
        largest = np.maximum.reduceat(log_weight, support.row_start[:-1], axis=-1)
        W = support.scatter(log_weight, -np.inf) - largest[..., None]
        np.exp(W, out=W)
    every = np.arange(n)
    for t in range(horizon - 1, -1, -1):
        if t < horizon - 1:
            after = relative[:, t + 1]
            if dense:
                z, turn = np.exp(after), W[:, at[t]]
                product = (
                    (turn[0] @ z.T).T if len(W) == 1 else np.matmul(turn, z[:, :, None])[:, :, 0]
                )
                sums[:] = np.log(np.maximum(product, LEAST_SUM)) + largest[:, at[t]]
                low = product < LEAST_SUM
            for i in np.flatnonzero(low.any(axis=1)) if dense else range(batch):
                rows = np.flatnonzero(low[i]) if dense else every
                weight = log_weight[min(i, len(log_weight) - 1), at[t]]
                log_sum_exp(support.row_start, support.to, weight, after[i], rows, sums[i])
        log_z = scaled[:, t] + sums
        top = log_z.max(axis=1)
        relative[:, t] = log_z - top[:, None]
        level[:, t] = top + (level[:, t + 1] if t < horizon - 1 else 0.0)
        if progress is not None and t < horizon - 1:
            progress(horizon - 1 - t, horizon - 1)
    return relative, level


def transitions_of(transitions: Floats, dimensions: int = 2) -> Floats:
    P = np.asarray(transitions, dtype=np.float64)
    if not 2 <= P.ndim <= dimensions or P.shape[-1] != P.shape[-2] or P.size == 0:
        raise InvalidArgument(f"transitions are square matrices, not of shape {P.shape}")
    if not (P >= 0).all() or not (np.abs(P.sum(axis=-1) - 1) <= SUM_TOLERANCE).all():
        raise InvalidArgument("each row of the transitions must be nonnegative and sum to 1")
    return P


def utility_of(utility: Floats, dimensions: int = 2) -> Floats:
    U = np.asarray(utility, dtype=np.float64)
    if not 2 <= U.ndim <= dimensions or U.size == 0:
        raise InvalidArgument(
            f"utility is an array of steps by states, at least one of each, not of shape {U.shape}"
        )
    if not np.isfinite(U).all():
        raise InvalidArgument("utility must be finite")
    return U


def policy_of(policy: Policy | Floats, horizon: int, states: int) -> Policy:
    """`policy` as a Policy that covers the horizon."""
    if not isinstance(policy, Policy):
        matrices = np.asarray(policy, dtype=np.float64)
        if matrices.ndim == 2:
            one = TabulatedPolicy.of(matrices[None])
            policy = TabulatedPolicy(
                one.support, np.broadcast_to(one.probability, (horizon - 1, one.support.to.size))
            )
        else:
            policy = TabulatedPolicy.of(matrices)
    if policy.support.states != states:
        raise InvalidArgument(f"the policy is of {policy.support.states} states, not {states}")
    if policy.steps < horizon - 1:
        raise InvalidArgument(
            f"a policy of {policy.steps} steps does not reach a horizon of {horizon}"
        )
    return policy


def cells_of(support: Support, other: Support) -> Ints:
    """int64[cells]: the cell of `other` of each transition of `support`, or the number of cells of
    `other` if it lacks the transition."""
    n = support.states
    wanted, known = support.origin * n + support.to, other.origin * n + other.to
    place = np.searchsorted(known, wanted)
    found = np.append(known, -1)[place] == wanted
    return np.where(found, place, known.size)


# Linearly solvable mdp ----------------------------------------------------------------------------

# Changing policy ----------------------------------------------------------------------------------
# Policies of loads whose own transitions change with the hour.


@dataclass(frozen=True, eq=False)
class ChangingPolicy(Policy):
    """A policy that alternates between parts: at `step` it is `parts[at[step]]`; all parts have the
    same support and horizon.

    `at_step`: int64[T - 1]. The desirability z is the same in all parts; the uncontrolled
    transitions differ.
    """

    support: Support
    parts: tuple[DesirabilityPolicy, ...]
    at_step: Ints

    @property
    def relative(self) -> Floats:
        """float64[T, n], as in each part."""
        return self.parts[0].relative

    @property
    def level(self) -> Floats:
        """float64[T], as in each part."""
        return self.parts[0].level

    @property
    def log_desirability(self) -> Floats:
        """float64[T, n]: ln z_t."""
        return self.parts[0].log_desirability

    @property
    def steps(self) -> int:
        return self.parts[0].steps

    def cells(self, step: int) -> Floats:
        return self._part(step).cells(step)

    def log_cells(self, step: int) -> Floats:
        return self._part(step).log_cells(step)

    def _part(self, step: int) -> DesirabilityPolicy:
        return self.parts[int(self.at_step[step])]


# Linearly solvable mdp ----------------------------------------------------------------------------

__all__ = [
    "ChangingPolicy",
    "DesirabilityPolicy",
    "Policy",
    "Weights",
    "average_policy",
    "cost_of_privacy",
    "evaluate",
    "expected_power",
    "log_weights",
    "propagate",
    "solve",
    "solve_many",
]


def solve(
    transitions: Floats,
    utility: Floats,
    discomfort_weight: float,
    *,
    weights: Weights = "exact",
    concentration: float | None = None,
    at: Ints | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DesirabilityPolicy | ChangingPolicy:
    """The best policy of transitions P: float64[n, n], utility U: float64[T, n] and gamma =
    `discomfort_weight` > 0.

    With `at`, int64[T - 1], matrices alternate, P: float64[K, n, n], and loads move at step t by
    `P[at[t]]`.

    With Taylor or digamma weights, the policy is optimal for a discomfort that is an expectation
    over Dir(k P), k = `concentration`. Calls `progress(step, T - 1)` after each step.
    InvalidArgument for rows that are not distributions, a utility that is not finite or has another
    shape, T = 0 and gamma <= 0.
    """
    P, U = transitions_of(transitions, 2 if at is None else 3), utility_of(utility)
    if at is not None:
        P = P[None]
    return solve_many(
        P,
        U,
        discomfort_weight,
        weights=weights,
        concentration=concentration,
        at=at,
        progress=progress,
    )[0]


def solve_many(
    transitions: Floats,
    utility: Floats,
    discomfort_weight: float,
    *,
    weights: Weights = "exact",
    concentration: float | None = None,
    at: Ints | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[DesirabilityPolicy | ChangingPolicy, ...]:
    """As `solve`, for B problems: transitions float64[B, n, n] or [n, n], utility float64[B, T, n]
    or [T, n]; with `at` transitions float64[B, K, n, n].

    An argument without the leading B is shared by all. Matrices of different support are solved on
    the union of their supports.
    """
    P, U = transitions_of(transitions, 3 if at is None else 4), utility_of(utility, 3)
    if not 0 < discomfort_weight < np.inf:
        raise InvalidArgument(f"the discomfort weight must be positive, not {discomfort_weight}")
    P, U = P if P.ndim >= 3 else P[None], U if U.ndim == 3 else U[None]
    if at is None:
        P = P[:, None]
    elif P.ndim != 4 or at.shape != (U.shape[1] - 1,) or not ((at >= 0) & (at < P.shape[1])).all():
        raise InvalidArgument(
            f"each of {U.shape[1] - 1} steps needs one of the matrices of {P.shape}"
        )
    if P.shape[-1] != U.shape[-1]:
        raise InvalidArgument(
            f"utility is of {U.shape[-1]} states, the transitions of {P.shape[-1]}"
        )
    if len(P) != len(U) and 1 not in (len(P), len(U)):
        raise InvalidArgument(f"{len(P)} transition matrices do not go with {len(U)} utilities")
    support = Support.of(np.any(P > 0, axis=(0, 1)))
    log_weight = support.gather(log_weights(P, weights, concentration))
    turns = np.zeros(U.shape[1] - 1, dtype=np.int64) if at is None else at
    relative, level = log_desirabilities(
        support, log_weight, turns, U / discomfort_weight, progress
    )
    found: list[DesirabilityPolicy | ChangingPolicy] = []
    for problem in range(len(relative)):
        each = log_weight[min(problem, len(P) - 1)]
        parts = tuple(
            DesirabilityPolicy(support, one, relative[problem], level[problem]) for one in each
        )
        found.append(parts[0] if at is None else ChangingPolicy(support, parts, at))
    return tuple(found)


def average_policy(
    transitions: Floats,
    utility: Floats,
    discomfort_weight: float,
    concentration: float,
    *,
    samples: int | None = None,
    generator: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Policy:
    """The mean over P~, rows ~ Dir(k P), of the policy `P~ z/(P~ z)`: the paper's average value
    policy (Proposition 3).

    z is the desirability of P itself, at every step: only the step's own transitions are drawn. The
    mean is by the corrected delta method, see `AveragePolicy`, or over `samples` draws from
    `generator`, which makes a table of (T - 1) times the support. Rows sum to 1. Draws from Dir(k
    P) of a private P are NOT free: each costs epsilon again.

    Arguments and errors as in `solve`; `progress` counts steps, or draws if `samples` is given.
    InvalidArgument for k <= 0, samples <= 0, and samples without a generator.
    """
    k = concentration
    if not 0 < k < np.inf:
        raise InvalidArgument(f"the concentration must be positive, not {k}")
    if samples is None:
        exact = solve(transitions, utility, discomfort_weight, progress=progress)
        assert isinstance(exact, DesirabilityPolicy)
        return AveragePolicy(exact.support, exact.log_weight, exact.relative, exact.level, k)
    if samples <= 0 or generator is None:
        raise InvalidArgument("sampling needs a positive number of samples and a generator")
    exact = solve(transitions, utility, discomfort_weight)
    assert isinstance(exact, DesirabilityPolicy)
    support = exact.support
    shape = k * np.exp(exact.log_weight)
    mean = np.zeros((exact.steps, support.to.size))
    for sample in range(samples):
        # Normalizing Gamma variables to a Dirichlet row can wait for the policy. A Gamma variable
        # of shape a is one of shape a + 1 times U^(1/a); in logarithms neither underflows, however
        # small k P is.
        with np.errstate(divide="ignore"):
            drawn = (
                np.log(generator.standard_gamma(shape + 1))
                - generator.standard_exponential(shape.size) / shape
            )
        add_policies(support.row_start, support.to, drawn, exact.relative, 1 / samples, mean)
        if progress is not None:
            progress(sample + 1, samples)
    return TabulatedPolicy(support, mean / support.row_sums(mean)[:, support.origin])


def evaluate(
    policy_transitions: Policy | Floats,
    transitions: Floats,
    utility: Floats,
    discomfort_weight: float,
    *,
    at: Ints | None = None,
) -> Floats:
    """The value V float64[T, n] of any policy if the true transitions are P = `transitions`, in the
    currency of `utility`.

    `policy_transitions`: a `Policy`, or its matrices float64[T - 1, n, n], or one float64[n, n] for
    all steps. More is better; the paper's cost to go is -V. The best policy has V = gamma ln z.
    -inf where the policy makes transitions that P rules out: these have infinite cost. `at` and
    errors as `solve`.
    """
    P, U = transitions_of(transitions, 2 if at is None else 3), utility_of(utility)
    policy = policy_of(policy_transitions, len(U), P.shape[-1])
    support = policy.support
    with np.errstate(divide="ignore"):
        log_defaults = np.log(support.gather(P))
    value = U.copy()
    for t in range(len(U) - 2, -1, -1):
        log_default = log_defaults if at is None else log_defaults[at[t]]
        p, log_p = policy.cells(t), policy.log_cells(t)
        with np.errstate(invalid="ignore"):
            gain = np.where(
                p > 0,
                p * (value[t + 1][support.to] - discomfort_weight * (log_p - log_default)),
                0.0,
            )
        value[t] += support.row_sums(gain)
    return value


def cost_of_privacy(
    private_policy: Policy | Floats,
    transitions: Floats,
    utility: Floats,
    discomfort_weight: float,
    *,
    at: Ints | None = None,
) -> Floats:
    """The loss of each state from time t on if a policy is followed that was made without knowing
    P: float64[T, n], >= 0.

    This is the value of the best policy minus that of `private_policy`, both under P =
    `transitions`, in the currency of `utility`. It is not computed as the difference, which for
    values of 1e7 would be rounding, but as an equal expression: gamma times the divergence of the
    policy from the best one, at this step and expected at later ones. +inf where the policy makes
    transitions that P rules out. The paper's ΔC (eqs 22, 27, 31) is another quantity, see
    `reproduce.hassan.by_formula`. `at` as in `solve`.
    """
    best = solve(transitions, utility, discomfort_weight, at=at)
    T, n = best.relative.shape
    policy = policy_of(private_policy, T, n)
    support, place = policy.support, cells_of(policy.support, best.support)
    cost = np.zeros((T, n))
    for t in range(T - 2, -1, -1):
        log_p = policy.log_cells(t)
        p = np.exp(log_p)  # so that the best policy's own cost is 0, not rounding
        log_best = np.append(best.log_cells(t), -np.inf)[place]
        q = np.exp(log_best)
        # p ln(p/q) - p + q is nonnegative term by term, and so is the mass of q where p has no
        # cell.
        with np.errstate(invalid="ignore"):
            divergence = np.where(p > 0, p * (log_p - log_best) - p + q, q)
            later = np.where(p > 0, p * cost[t + 1][support.to], 0.0)
        outside = (
            np.maximum(1 - support.row_sums(q), 0.0)
            if support.to.size < best.support.to.size
            else 0.0
        )
        here = support.row_sums(np.maximum(divergence, 0.0)) + outside
        cost[t] = discomfort_weight * here + support.row_sums(later)
    return cost


def propagate(
    initial: Floats, policy_transitions: Policy | Floats, horizon: int, *, at: Ints | None = None
) -> Floats:
    """The expected distribution over states at times 0…horizon - 1: float64[horizon, n], from
    `initial` float64[n].

    `policy_transitions` as in `evaluate`; the default transition matrix gives the ensemble without
    control, and so do, with `at` int64[horizon - 1], the alternating matrices float64[K, n, n]: no
    matrix is made for each step. InvalidArgument for horizon <= 0 or one that the policy does not
    reach.
    """
    if horizon <= 0:
        raise InvalidArgument(f"the horizon must be positive, not {horizon}")
    start = np.asarray(initial, dtype=np.float64)
    turns = np.arange(horizon - 1) if at is None else at
    policy = policy_of(
        policy_transitions, horizon if at is None else int(turns.max(initial=-1)) + 2, start.size
    )
    if turns.size < horizon - 1:
        raise InvalidArgument(
            f"the turns of {turns.size} steps do not reach a horizon of {horizon}"
        )
    support = policy.support
    distributions = np.empty((horizon, start.size))
    distributions[0] = start
    for t in range(horizon - 1):
        moved = distributions[t][support.origin] * policy.cells(int(turns[t]))
        distributions[t + 1] = np.bincount(support.to, moved, minlength=start.size)
    return distributions


def expected_power(distributions: Floats, power: Floats) -> Floats:
    """float64[T] of distributions float64[T, n] and the power float64[n] of the states, in its
    unit, for one load."""
    expected: Floats = distributions @ np.asarray(power, dtype=np.float64)
    return expected
