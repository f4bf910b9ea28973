"""What an earlier release says of trajectories: where states lead, how often each is visited, and
its rewards."""

from __future__ import annotations

import math

import numpy as np

from discreet.privacy.events import Event
from discreet.problems.contents import Profile, Released
from discreet.problems.off_policy_evaluation.expectation import MOSTLY_NOISE, Model, noise_of
from discreet.problems.off_policy_evaluation.public import Floats, OffPolicyPublic
from discreet.solvers.estimation.count_posterior import MAX_CELLS, CountPosterior, Kind
from discreet.solvers.evaluation.value_draws import mean_rewards

SELDOM = 0.1
"""The part of the uniform probability of a row below which a transition is taken not to occur."""


def profile_of(
    public: OffPolicyPublic, event: Event, released: Released, unit: float
) -> Profile | None:
    """`transitions` float64[n, n + 1], of which the last column ends an episode; `visits`
    float64[n], as fractions of all; `rewards` float64[n], the mean reward of a visit;
    `trajectories`, their number. They are means of the posteriors that answers are made of; None
    where the release is mostly noise, or has more cells than such posteriors may have."""
    cells, states = public.cells(), public.states or 0
    sums, size = released["sums"] / unit, len(cells)
    deviation = event.deviation() / unit
    if size > MAX_CELLS or deviation * size / math.sqrt(2) > MOSTLY_NOISE * max(
        float(sums[:size].sum()), deviation
    ):
        return None
    kind: Kind = "laplace" if event.noise == "discrete_laplace" else "gaussian"
    scale = event.scale / unit
    counts = CountPosterior.of(sums[:size], scale, kind).mean(None)
    matrix = np.zeros((states, states + 1))
    matrix[cells[:, 0], cells[:, 1]] = counts
    rows = matrix.sum(axis=1)
    transitions = matrix / np.maximum(rows, 1e-300)[:, None]
    if public.rewards is None:
        gained = (
            mean_rewards(sums[size:], rows, scale, kind)
            / np.maximum(rows, 1e-300)
            * public.reward_bound
        )
    else:
        fixed = np.zeros_like(matrix)
        fixed[cells[:, 0], cells[:, 1]] = public.rewards
        gained = (transitions * fixed).sum(axis=1)
    return {
        "transitions": transitions,
        "visits": rows / rows.sum(),
        "rewards": gained,
        "trajectories": np.array(rows.sum()),
    }


def model_around(
    public: OffPolicyPublic,
    discount: float,
    initial: tuple[float, ...] | None,
    profile: Profile,
    size: float,
) -> Model:
    """The model made of a release instead of public figures. size: the largest modulus of a
    value."""
    P: Floats = profile["transitions"]
    visits = np.maximum(profile["visits"], 1e-12)
    origin, target = public.cells().T
    fixed, possible = np.zeros_like(P), np.where(P.shape[1] * P >= SELDOM, 1.0, 0.0)
    if public.topology is not None:
        possible[origin, target] = 1.0
    if public.rewards is not None:
        fixed[origin, target] = public.rewards
    solved = np.linalg.inv(np.eye(len(P)) - discount * P[:, :-1])
    values: Floats = np.asarray(solved @ profile["rewards"], dtype=np.float64)
    variance = noise_of(public, possible, fixed, values, discount) / visits**2
    begin = visits / visits.sum() if initial is None else np.array(initial)
    return Model(
        value=float(np.median(np.sqrt(solved**2 @ variance))),
        policy=math.sqrt(float((begin @ solved) ** 2 @ variance)),
        row=float(begin @ (np.sqrt(possible.sum(axis=1)) / visits)),
        size=size,
    )
