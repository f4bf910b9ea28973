"""What the studies of `discreet.reproduce` say of the papers, and what `docs/problems/` repeats of
them, holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.privacy import calibration
from discreet.privacy.attacks import printed
from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawGaussian
from discreet.reproduce import (
    event_capacity,
    hassan,
    load_ensemble,
    simulators,
    xie_settings,
)

M = 100_000


# Xie et al.: the chain of 40 states at epsilon .1, delta 1e-5 -------------------------------------


@pytest.fixture(scope="module")
def chain() -> Any:
    """100,000 trajectories, registered, beside the population's A, b and C."""
    return xie_settings.chain_setting(M)


@pytest.fixture(scope="module")
def constant(chain: Any) -> float:
    """The MSPBE of predicting 1 everywhere, which needs no data."""
    found: float = chain.mspbe(np.ones(40))
    assert found == pytest.approx(9.1e-5, rel=0.01)
    return found


def test_auto_is_orders_better_than_a_constant(chain: Any, constant: float) -> None:
    median = np.median(chain.errors(20))
    assert median < 1e-6 < constant / 50


@pytest.mark.long
def test_minibatch_is_an_order_better_than_a_constant(chain: Any, constant: float) -> None:
    assert np.median(chain.errors(3, method="minibatch")) < constant / 10


@pytest.mark.long
def test_gpope_loses_to_a_constant_once_its_noise_is_honest(chain: Any, constant: float) -> None:
    """As printed it wins, which is the paper's picture: at the price of epsilon 9.8 for the .1 that
    is claimed."""
    honest, as_printed = chain.errors(20, method="gradient"), chain.errors_as_printed(20)
    assert np.median(as_printed) < constant < np.median(honest)


def test_output_perturbation_is_worse_than_predicting_nothing(chain: Any, constant: float) -> None:
    nothing = chain.mspbe(np.zeros(40))
    assert np.median(chain.errors(3, method="dp_lsw")) > nothing
    lsl = [
        np.median(chain.errors(3, method="dp_lsl", regularization=penalty))
        for penalty in (1e2, 1e4, 1e6, 1e8)
    ]
    assert min(lsl) > 100 * constant


@pytest.mark.long
def test_the_true_epsilon_of_the_noise_as_printed() -> None:
    """Lemma 1's sigma, claimed to be .1, is between 9.7 and 9.85."""
    honest = calibration.one_draw_gaussian(
        1.0, 10**8, 10**13, population=M, steps=M, neighbours="replace one"
    )
    assert isinstance(honest, OneDrawGaussian)
    sigma = printed.lemma_one_sigma(0.1, 1e-5, M, M)
    assert sigma == pytest.approx(0.5704, abs=1e-4)
    caught = honest.model_copy(update={"scale": sigma})
    assert honest.delta(0.1) <= 1e-5 < caught.delta(9.7)
    assert caught.delta(9.85) < 1e-5


def test_equal_weight_of_trajectories_tilts_the_answer() -> None:
    """The docs' .010: the weights that MSPBE wants are above the value function, by up to .010."""
    A, b, _ = simulators.chain_moments()
    # A stage takes a geometric number of steps of mean 2: it is worth g/(2 - g) of the next, the
    # last 1/g of that.
    values = (0.99 / 1.01) ** np.arange(40, 0, -1) / 0.99
    above = np.linalg.solve(A, b) - values
    assert above.min() > 0
    assert above.max() == pytest.approx(0.0101, abs=1e-4)


# Hassan et al.: policies of Dirichlet draws, and what a released matrix is good for ---------------


@pytest.fixture(scope="module")
def costs() -> dict[tuple[float, int], dict[str, Any]]:
    """Costs of privacy by the event's payment and k."""
    ensemble = load_ensemble.generate()
    P = hassan.transition_matrix(ensemble)
    cases = [
        (hassan.TARIFFS[0], 50),
        (hassan.TARIFFS[0], 200),
        (hassan.TARIFFS[0], 1000),
        (hassan.TARIFFS[2], 50),
    ]
    return {(tariff[1], k): hassan.cost_row(ensemble, P, tariff, k, 0) for tariff, k in cases}


@pytest.mark.long
def test_digamma_is_dearer_than_taylor(costs: Any) -> None:
    assert all(row["digamma"] > row["taylor"] > 0 for row in costs.values())


def test_costs_of_privacy_fall_with_k(costs: Any) -> None:
    for name in ("taylor", "digamma", "average", "one draw"):
        assert costs[1.0, 50][name] > costs[1.0, 200][name] > costs[1.0, 1000][name] > 0


def test_the_average_is_dearest_only_at_small_k_and_dear_power(costs: Any) -> None:
    dearest = {
        key: row["average"] > max(row["taylor"], row["digamma"]) for key, row in costs.items()
    }
    assert dearest == {(1.0, 50): True, (1.0, 200): True, (1.0, 1000): False, (0.15, 50): False}
    assert costs[1.0, 1000]["average"] < costs[1.0, 1000]["taylor"]


def test_what_is_released_costs_more_than_any_policy_of_the_private_matrix(costs: Any) -> None:
    for row in costs.values():
        others = [
            row[name]
            for name in ("taylor", "digamma", "average", "average, sampled", "average of solves")
        ]
        assert row["one draw"] - 5 * row["one draw, error"] > 2 * max(others)


def test_epsilons_of_the_paper_are_not_of_one_floor() -> None:
    """From k = 50 to 200 the paper's grows 6.2-fold, the exact one and formula (10) at most
    3.5-fold at one floor. At two floors (10) gives both: the pairs do not contradict each other."""
    few, many = hassan.epsilons(50), hassan.epsilons(200)
    printed = {k: float(shown) for k, shown in hassan.PAPER_EPSILON.items()}
    for kind, most in (("floor", 3.33), ("formula (10), floor", 3.47)):
        growth = [many[f"{kind} {floor}"] / few[f"{kind} {floor}"] for floor in hassan.FLOORS]
        assert 2.6 < min(growth) <= max(growth) < most < printed[200] / printed[50]
    for k, floor in ((50, 0.321), (200, 0.25)):
        assert hassan.formula_ten(k, floor) == pytest.approx(printed[k], rel=0.05)


def test_corollaries_foretell_what_a_draw_costs(costs: Any) -> None:
    """(22) and (27) are 7.22/8.06 at k = 100 and 3.62/3.85 at 200 in Figure 8, where following one
    draw costs 6.5 and 3.7; (31) as printed is no cost."""
    for (payment, k), row in costs.items():
        if payment == 1.0:
            for name in ("formula (22)", "formula (27)"):
                assert row["one draw"] == pytest.approx(row[name], rel=0.35 if k == 50 else 0.07)
        assert row["formula (27)"] > row["formula (22)"] > row["taylor"]
    assert costs[1.0, 200]["formula (22)"] == pytest.approx(3.623, abs=1e-3)
    assert costs[1.0, 200]["formula (27)"] == pytest.approx(3.851, abs=1e-3)
    assert costs[1.0, 1000]["formula (31)"] < 0
    assert costs[1.0, 1000]["(49) to (51)"] > 4


@pytest.mark.long
def test_most_of_an_event_survives_at_epsilon_one() -> None:
    small, large = event_capacity.survival(100), event_capacity.survival(1000)
    assert large["saved share"] > 0.95
    assert large["benefit share"] > 0.8
    assert 0.6 < small["benefit share"] < large["benefit share"]
