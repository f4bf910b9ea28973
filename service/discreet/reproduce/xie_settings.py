"""The settings of Xie et al. (2019) as the service registers them, with their populations' moments:
the chain, Mountain Car and the treatment of HIV."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.privacy.attacks.printed import lemma_one_sigma
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation.dataset import OffPolicyDataset, transitions_of
from discreet.problems.off_policy_evaluation.features import FourierFeatures
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.reproduce.simulators import (
    CAR_DISCOUNT,
    CAR_HIGH,
    CAR_HORIZON,
    CAR_LEARNING_ORDER,
    CAR_LOW,
    CHAIN_DISCOUNT,
    CHAIN_STATES,
    HIV_DISCOUNT,
    HIV_HIGH,
    HIV_LOW,
    Rows,
    car_actions,
    chain,
    chain_cell_rewards,
    chain_moments,
    chain_topology,
    hiv_treatment,
    hiv_values,
    mountain_car,
)
from discreet.solvers.evaluation import gradient_temporal_difference as gtd
from discreet.solvers.evaluation import least_squares_temporal_difference as lstd
from discreet.solvers.evaluation.temporal_difference import mspbe
from discreet.solvers.evaluation.value_features import Fourier, Tabular

Floats = NDArray[np.float64]
Moments = tuple[Floats, Floats, Floats]


EPSILON, DELTA = 0.1, 1e-5
DATA_SEED, REFERENCE_SEED = 11, 12
"""Seeds of the data of every size, and of the sample that represents the population. Releases have
the seeds 0, 1, …"""
CAR_ORDER, HIV_ORDER, HIV_REWARD = 3, 1, 3.0
REFERENCE = 10_000
LEARNING_SEED = 13
"""Of Q-learning."""
CAR_CELLS = 10
"""Cells along each coordinate of a car, for methods that count visits of states."""


@dataclass(frozen=True)
class Setting:
    """A dataset as it is registered, and A, b and C of its population."""

    public: OffPolicyPublic
    content: Content
    problem: dict[str, Any]
    moments: Moments

    def job(self, **fields: Any) -> OffPolicyEvaluation:
        body = {"kind": "off_policy_evaluation", "dataset": "example", **self.problem, **fields}
        return OffPolicyEvaluation.model_validate(body)

    def errors(self, releases: int, epsilon: float = EPSILON, **fields: Any) -> Floats:
        """float64[releases]: the MSPBE of each release of one plan."""
        job = self.job(**fields)
        plan = job.plan(self.public, Privacy(epsilon=epsilon, delta=DELTA).budget)
        found = np.empty(releases)
        for seed in range(releases):
            released = job.release(self.public, plan, self.content, Noise.seeded(seed))
            answer = job.finish(self.public, plan, released, lambda *_: None).to_json()
            found[seed] = self.mspbe(np.array(answer["weights"]))
        return found

    def errors_as_printed(self, releases: int, epsilon: float = EPSILON, **fields: Any) -> Floats:
        """float64[releases]: GPOPE with the sigma of Lemma 1. NOT private: its true epsilon is
        9.7 to 9.8 at epsilon .1."""
        plan = self.job(method="gradient", **fields).plan(
            self.public, Privacy(epsilon=epsilon, delta=DELTA).budget
        )
        steps, clip = plan.parameters["steps"], plan.parameters["clip"]
        moved = transitions_of(self.content, 1.0)
        found = np.empty(releases)
        for seed in range(releases):
            theta = gtd.gradient(
                moved,
                Tabular(CHAIN_STATES),
                self.problem["discount"],
                steps=steps,
                step_sizes=plan.parameters["step_size"] * (1 - np.arange(steps) / steps),
                clip=clip,
                noise_scale=clip * lemma_one_sigma(epsilon, DELTA, moved.trajectories, steps),
                generator=np.random.default_rng(seed),
            )
            found[seed] = self.mspbe(theta)
        return found

    def mspbe(self, weights: Floats) -> float:
        return mspbe(weights, *self.moments)


def registered(rows: Rows, public: dict[str, Any]) -> tuple[OffPolicyPublic, Content]:
    """Rows as a dataset with a public number of trajectories: the only form that every method
    takes."""
    columns: dict[str, Any] = {
        name: getattr(rows, name)
        for name in ("trajectory", "step", "reward", "terminal", "behaviour", "target")
        if getattr(rows, name) is not None
    }
    names = ("state", "next_state") if rows.state.ndim == 1 else ("x", "x_next")
    for name, values in zip(names, (rows.state, rows.next_state), strict=True):
        if values.ndim == 1:
            columns[name] = values
        else:
            columns |= {
                f"{name}_{axis}": np.ascontiguousarray(values[:, axis])
                for axis in range(values.shape[1])
            }
    fixed = {"unit": "trajectory", "trajectories": int(rows.trajectory[-1]) + 1}
    read = OffPolicyPublic.model_validate(fixed | public)
    content = OffPolicyDataset.read_table(read, pa.table(columns))
    return OffPolicyDataset.describe(read, content), content


def chain_setting(m: int, known: bool = True) -> Setting:
    """`known`: topology and rewards are public."""
    public: dict[str, Any] = {"states": CHAIN_STATES, "reward_bound": 1, "horizon": 1000}
    if known:
        public |= {"topology": chain_topology().tolist(), "rewards": chain_cell_rewards().tolist()}
    problem = {"features": {"type": "tabular"}, "discount": CHAIN_DISCOUNT}
    data = registered(chain(m, np.random.default_rng(DATA_SEED)), public)
    return Setting(*data, problem, chain_moments())


def fourier_setting(
    rows: Rows, reference: Rows, public: dict[str, Any], problem: dict[str, Any]
) -> Setting:
    """A dataset and the moments of an independent sample."""
    data = registered(rows, public)
    known, other = registered(reference, public)
    features = Setting(known, other, problem, (np.empty(0),) * 3).job().features
    assert isinstance(features, FourierFeatures)
    basis = Fourier(features.order, features.low, features.high)
    return Setting(
        *data, problem, lstd.moments_of(transitions_of(other, np.inf), basis, problem["discount"])
    )


learned_actions = cache(lambda: car_actions(np.random.default_rng(LEARNING_SEED)))
learned_values = cache(lambda: hiv_values(np.random.default_rng(LEARNING_SEED)))


def car_rows(size: int, seed: int, *, off_policy: bool, learned: bool) -> Rows:
    """Of `car_setting`."""
    rng = np.random.default_rng(seed)
    if learned:
        rows = mountain_car(size, rng, followed=0.9, evaluated=0.0, actions=learned_actions())
    else:
        rows = mountain_car(size, rng, followed=0.5 if off_policy else 0.9, evaluated=0.9)
    # Without probabilities the behaviour policy is the one to evaluate.
    return rows if off_policy else replace(rows, behaviour=None, target=None)


def car_setting(m: int, *, off_policy: bool, learned: bool = False) -> Setting:
    """Fourier features of order 3: 16 of them.

    `learned`: as in the paper, a policy of Q-learning is followed, off-policy the uniform one is
    evaluated, and features have order 5. An action is random with probability .1, which the paper
    does not say: without it off-policy data would not have all actions.
    """
    rows, reference = (
        car_rows(size, seed, off_policy=off_policy, learned=learned)
        for size, seed in ((m, DATA_SEED), (REFERENCE, REFERENCE_SEED))
    )
    public = {"features": 2, "reward_bound": 1, "horizon": CAR_HORIZON}
    order = CAR_LEARNING_ORDER if learned else CAR_ORDER
    features = {"type": "fourier", "order": order, "low": CAR_LOW, "high": CAR_HIGH}
    return fourier_setting(
        rows, reference, public, {"features": features, "discount": CAR_DISCOUNT}
    )


def car_cells(m: int, moments: Moments) -> Setting:
    """The trajectories of the learned on-policy `car_setting`, whose `moments` are given, in
    CAR_CELLS² numbered cells: for DP-LSW, which counts visits. Errors are those of the Fourier
    features fitted to the released values at the cells' centres."""
    rows = car_rows(m, DATA_SEED, off_policy=False, learned=True)
    low, width = np.array(CAR_LOW), np.subtract(CAR_HIGH, CAR_LOW) / CAR_CELLS

    def numbered(state: Floats) -> NDArray[np.int32]:
        cell = np.clip((state - low) / width, 0, CAR_CELLS - 1).astype(np.int32)
        return np.asarray(cell[:, 0] * CAR_CELLS + cell[:, 1], dtype=np.int32)

    rows = replace(
        rows,
        state=numbered(np.asarray(rows.state)),
        next_state=numbered(np.asarray(rows.next_state)),
    )
    public = {"states": CAR_CELLS**2, "reward_bound": 1, "horizon": CAR_HORIZON}
    problem = {"features": {"type": "tabular"}, "discount": CAR_DISCOUNT}
    centres = low + width * (np.indices((CAR_CELLS, CAR_CELLS)).reshape(2, -1).T + 0.5)
    fitted = np.linalg.pinv(Fourier(CAR_LEARNING_ORDER, CAR_LOW, CAR_HIGH)(centres))
    A, b, C = moments
    return Setting(*registered(rows, public), problem, (A @ fitted, b, C))


def hiv_setting(m: int, *, learned: bool = False) -> Setting:
    """Fourier features of order 1: 64 of them. Rewards are clipped to ±3, which one in a thousand
    exceeds.

    `learned`: as in the paper, the greedy policy of Q-learning is evaluated, and softmax of its
    values followed, here at temperature 1, which the paper does not say.
    """
    values = learned_values() if learned else None
    rows, reference = (
        hiv_treatment(size, np.random.default_rng(seed), values=values)
        for size, seed in ((m, DATA_SEED), (REFERENCE, REFERENCE_SEED))
    )
    for each in (rows, reference):
        np.clip(each.reward, -HIV_REWARD, HIV_REWARD, out=each.reward)
    public = {"features": 6, "reward_bound": HIV_REWARD, "horizon": 40, "continuing": True}
    features = {"type": "fourier", "order": HIV_ORDER, "low": HIV_LOW, "high": HIV_HIGH}
    return fourier_setting(
        rows, reference, public, {"features": features, "discount": HIV_DISCOUNT}
    )
