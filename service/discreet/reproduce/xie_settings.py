"""The settings of Xie et al.: the chain, Mountain Car and the treatment of HIV."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.problems.off_policy_evaluation.dataset import transitions_of
from discreet.problems.off_policy_evaluation.features import FourierFeatures
from discreet.reproduce.simulators import (
    CAR_DISCOUNT,
    CAR_HIGH,
    CAR_HORIZON,
    CAR_LOW,
    CHAIN_DISCOUNT,
    CHAIN_STATES,
    HIV_DISCOUNT,
    HIV_HIGH,
    HIV_LOW,
    Rows,
    chain,
    chain_cell_rewards,
    chain_moments,
    chain_topology,
    hiv_treatment,
    mountain_car,
)
from discreet.reproduce.xie_setting import Setting, registered
from discreet.solvers.evaluation import least_squares_temporal_difference as lstd
from discreet.solvers.evaluation.value_features import Fourier

DATA_SEED, REFERENCE_SEED = 11, 12
"""Seeds of the data of every size, and of the sample that represents the population. Releases have
the seeds 0, 1, …"""
CAR_ORDER, HIV_ORDER, HIV_REWARD = 3, 1, 3.0
REFERENCE = 10_000


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


def car_setting(m: int, off_policy: bool) -> Setting:
    """Fourier features of order 3: 16 of them."""
    followed = 0.5 if off_policy else 0.9
    rows, reference = (
        mountain_car(size, np.random.default_rng(seed), followed=followed, evaluated=0.9)
        for size, seed in ((m, DATA_SEED), (REFERENCE, REFERENCE_SEED))
    )
    if not off_policy:
        rows, reference = (_followed(each) for each in (rows, reference))
    public = {"features": 2, "reward_bound": 1, "horizon": CAR_HORIZON}
    features = {"type": "fourier", "order": CAR_ORDER, "low": CAR_LOW, "high": CAR_HIGH}
    return fourier_setting(
        rows, reference, public, {"features": features, "discount": CAR_DISCOUNT}
    )


def _followed(rows: Rows) -> Rows:
    """Without probabilities: the behaviour policy is the one to evaluate."""
    return Rows(
        rows.trajectory,
        rows.step,
        rows.state,
        rows.action,
        rows.reward,
        rows.next_state,
        rows.terminal,
        None,
        None,
    )


def hiv_setting(m: int) -> Setting:
    """Fourier features of order 1: 64 of them. Rewards are clipped to ±3, which one in a thousand
    exceeds."""
    rows, reference = (
        hiv_treatment(size, np.random.default_rng(seed))
        for size, seed in ((m, DATA_SEED), (REFERENCE, REFERENCE_SEED))
    )
    for each in (rows, reference):
        np.clip(each.reward, -HIV_REWARD, HIV_REWARD, out=each.reward)
    public = {"features": 6, "reward_bound": HIV_REWARD, "horizon": 40, "continuing": True}
    features = {"type": "fourier", "order": HIV_ORDER, "low": HIV_LOW, "high": HIV_HIGH}
    return fourier_setting(
        rows, reference, public, {"features": features, "discount": HIV_DISCOUNT}
    )
