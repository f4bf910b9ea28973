"""The reference values of `vectors.json` that concern privacy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import brentq

from discreet.privacy import units as zcdp
from discreet.privacy.attacks import printed
from discreet.privacy.calibration import gaussian, one_draw_gaussian, poisson_subsampled_gaussian
from discreet.privacy.mechanism import OneDrawSampling
from discreet.privacy.mechanisms.dirichlet import Dirichlet, beta_delta
from discreet.privacy.mechanisms.gaussian import gaussian_delta, gaussian_mu
from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawGaussian
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, RHO_UNIT
from tests.privacy.exact import dirichlet_renyi, one_draw_delta

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.mark.parametrize(("epsilon", "delta", "sigma"), VECTORS["gaussian_analytic_sigma"])
def test_analytic_gaussian(epsilon: float, delta: float, sigma: float) -> None:
    assert 1 / gaussian_mu(epsilon, delta) == pytest.approx(sigma, rel=1e-9)
    event = gaussian(
        1.0,
        round(epsilon * EPSILON_UNIT),
        round(delta * DELTA_UNIT),
        dimension=100,
        neighbours="a vector by 1",
    )
    assert event.scale == pytest.approx(sigma, rel=1e-6)


def test_gaussian_dp_curve() -> None:
    for case in VECTORS["gdp_delta"]:
        assert gaussian_delta(case["epsilon"], case["mu"]) == pytest.approx(case["delta"], rel=1e-9)


def test_zcdp_conversion() -> None:
    for case in VECTORS["zcdp_to_epsilon_dp_accounting"]:
        units = zcdp.epsilon_units_from_rho(
            round(case["rho"] * RHO_UNIT), round(case["delta"] * DELTA_UNIT)
        )
        assert units / EPSILON_UNIT == pytest.approx(case["epsilon"], rel=1e-8)


def test_dirichlet_renyi() -> None:
    for case in VECTORS["dirichlet"]["renyi"]:
        p, q = ([case["k"] * entry for entry in case[side]] for side in "pq")
        assert dirichlet_renyi(2, p, q) == pytest.approx(case["D2"], rel=1e-6)
        assert dirichlet_renyi(4, p, q) == pytest.approx(case["D4"], rel=1e-6)
        if "D2_reverse" in case:
            assert dirichlet_renyi(2, q, p) == pytest.approx(case["D2_reverse"], rel=1e-6)


def test_dirichlet_delta() -> None:
    for case in VECTORS["dirichlet"]["delta"]:
        moved = [
            (case["k"] * p, case["k"] * q)
            for p, q in zip(case["p"], case["q"], strict=True)
            if p != q
        ]
        moved.sort(key=lambda pair: pair[1] - pair[0])  # first what is larger under p
        (a, a2), (b, b2) = moved
        assert beta_delta(case["epsilon"], (a, b), (a2, b2)) == pytest.approx(
            case["delta"], rel=1e-6
        )


def test_dirichlet_epsilon() -> None:
    for case in VECTORS["dirichlet"]["epsilon_at_1e-5"]:
        event = Dirichlet(
            sensitivity=case["h"],
            scale=case["k"],
            floor=case["floor"],
            neighbours="two entries of a row",
            charged_epsilon=3 * EPSILON_UNIT,
            charged_delta=10**13,
        )
        epsilon = brentq(lambda x, curve=event.delta: math.log(curve(x) / 1e-5), 0.1, 5)
        assert epsilon == pytest.approx(case["epsilon"], rel=1e-8)


def test_the_papers_dirichlet_bound() -> None:
    for case in VECTORS["dirichlet"]["gohari_epsilon"]:
        bound = printed.gohari_epsilon(
            case["k"], case["omega"], case["omega_bar"], case["psi"], case["W"], case["h"]
        )
        assert bound == pytest.approx(case["epsilon"], rel=1e-9)


def test_one_draw_hockey_stick() -> None:
    for case in VECTORS["gpope_hockey_stick"]:
        assert case["distance"] == 2
        assert one_draw_delta(case["epsilon"], case["q"], case["sigma"]) == pytest.approx(
            case["delta"], rel=1e-9
        )


def test_one_draw_composed() -> None:
    for case in VECTORS["gpope_epsilon_m_N_1e5_delta_1e-5"]:
        event = OneDrawGaussian(
            sensitivity=2.0,
            scale=case["sigma"],
            count=100_000,
            sampling=OneDrawSampling(population=100_000),
            neighbours="replace one trajectory",
            charged_epsilon=EPSILON_UNIT // 10,
            charged_delta=10**13,
        )
        # The delta at the reference epsilon's two ends brackets 1e-5.
        assert (
            event.delta(case["epsilon"] - case["tol"])
            > 1e-5
            > event.delta(case["epsilon"] + case["tol"])
        )
    event = one_draw_gaussian(
        1.0, 10**8, 10**13, population=10**5, steps=10**5, neighbours="replace one trajectory"
    )
    assert event.scale == pytest.approx(1.0799, rel=2e-3)
    assert event.scale < 1.0799  # our grid is finer than the reference's


def test_hale() -> None:
    case = VECTORS["hale"]
    assert printed.hale_kappa(0.05, math.log(3)) == pytest.approx(case["kappa_0.05_ln3"], rel=1e-9)
    assert 1 / gaussian_mu(math.log(3), 0.05) == pytest.approx(case["analytic_0.05_ln3"], rel=1e-9)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_minibatch(relation: Any) -> None:
    case = VECTORS["minibatch_sigma_m1e5_q.001_T2e4_eps.1_delta1e-5"]
    event = poisson_subsampled_gaussian(
        1.0, 10**8, 10**13, probability=0.001, steps=20_000, relation=relation, neighbours=relation
    )
    expected = case["add_remove" if relation == "add_remove" else "replace_one"]
    assert event.scale == pytest.approx(expected, abs=case["tol"])


def test_lemma_one() -> None:
    assert printed.lemma_one_sigma(0.1, 1e-5, 10**5, 10**5) == pytest.approx(0.5704, abs=5e-5)


def test_the_classic_gaussian_wastes_eightfold() -> None:
    assert printed.classic_gaussian_sigma(0.1, 0.1) == pytest.approx(22.475, abs=5e-4)
    assert 1 / gaussian_mu(0.1, 0.1) == pytest.approx(2.847, abs=5e-4)


@pytest.mark.parametrize(("draws", "epsilon"), [(1, 1.07), (10, 3.75), (100, 14.9), (1000, 74.6)])
def test_averaging_dirichlet_draws_costs_every_draw(draws: int, epsilon: float) -> None:
    event = Dirichlet(
        sensitivity=0.03,
        scale=50.0,
        floor=0.3,
        count=draws,
        neighbours="two entries of a row",
        charged_epsilon=EPSILON_UNIT,
        charged_delta=10**13,
    )
    assert event.delta(epsilon * 1.01) < 1e-5 < event.delta(epsilon * 0.99)
