"""Calibration never asks more than the request, wastes little, and events derive their price
alone."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.fft import rfft

from discreet.privacy import calibration, pld
from discreet.privacy.calibration import (
    discrete_gaussian,
    discrete_laplace,
    gaussian,
    laplace,
    least_variance,
)
from discreet.privacy.mechanism import MechanismEvent, NotCertified
from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawGaussian
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import PoissonSubsampledGaussian
from discreet.privacy.noise import Noise
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, LARGEST_SCALE, Price

EPSILONS = st.integers(min_value=1, max_value=100 * EPSILON_UNIT)
DELTAS = st.integers(min_value=10**6, max_value=DELTA_UNIT - 1)
SENSITIVITIES = st.floats(min_value=1e-3, max_value=1e6)
X = "one unit"


def fits(event: MechanismEvent, epsilon: int, delta: int) -> None:
    price = event.price()
    assert price.epsilon <= epsilon
    assert price.delta <= delta


@given(st.integers(1, 10**6), EPSILONS, st.integers(1, 10**4))
def test_discrete_laplace(sensitivity: int, epsilon: int, count: int) -> None:
    if sensitivity * count * EPSILON_UNIT > LARGEST_SCALE / 4 * epsilon:
        # refused or not, see
        # test_noise_beyond_what_can_be_drawn_is_refused_before_anything_is_charged
        return
    event = discrete_laplace(float(sensitivity), epsilon, neighbours=X, count=count)
    fits(event, epsilon, 0)
    assert event.price().delta_z == 0
    smaller = event.model_copy(update={"scale": math.nextafter(event.scale, 0)})
    assert smaller.price().epsilon > epsilon or Fraction(sensitivity * count) / Fraction(
        smaller.scale
    ) > Fraction(epsilon, EPSILON_UNIT)


@given(SENSITIVITIES, EPSILONS, st.integers(1, 10**5), st.integers(1, 1000))
def test_laplace(sensitivity: float, epsilon: int, dimension: int, count: int) -> None:
    if Fraction(count * EPSILON_UNIT * dimension, epsilon) > 2**39:
        return  # refused or not, see test_no_grid
    event = laplace(sensitivity, epsilon, dimension=dimension, count=count, neighbours=X)
    fits(event, epsilon, 0)
    assert event.scale <= sensitivity * count * EPSILON_UNIT / epsilon * 1.001
    assert event.grid * dimension <= sensitivity / 1000
    assert event.scale / event.grid <= LARGEST_SCALE
    loss = (Fraction(sensitivity) + Fraction(event.grid) * dimension) / Fraction(event.scale)
    assert event.price().epsilon == math.ceil(count * loss * EPSILON_UNIT)


@settings(max_examples=50)
@given(SENSITIVITIES, EPSILONS, DELTAS, st.integers(1, 10**6), st.integers(1, 10**4))
def test_gaussian(sensitivity: float, epsilon: int, delta: int, dimension: int, count: int) -> None:
    if dimension * count > 2.0**70 * min(1.0, max(epsilon / EPSILON_UNIT, delta / DELTA_UNIT)) ** 2:
        return  # refused or not, see test_no_grid
    event = gaussian(sensitivity, epsilon, delta, dimension=dimension, count=count, neighbours=X)
    fits(event, epsilon, delta)
    assert event.price().delta_z == 0
    rho = count * Fraction(sensitivity) ** 2 / Fraction(event.scale) ** 2 / 2 * DELTA_UNIT
    assert rho <= event.price().rho <= rho * Fraction(1003, 1000) + 1
    assert event.grid * math.sqrt(dimension) <= sensitivity / 1000
    assert event.scale / event.grid <= LARGEST_SCALE
    if delta < 0.9 * DELTA_UNIT:
        with pytest.raises(NotCertified):
            event.model_copy(update={"scale": event.scale * (1 - 1e-6)}).price()


@settings(max_examples=30)
@given(EPSILONS, DELTAS, st.floats(0.001, 0.999))
def test_gaussian_that_may_fail(epsilon: int, delta: int, share: float) -> None:
    """The noise is that of the rest of delta; the chance itself is in delta and delta_z, or it is
    refused."""
    failure = max(1, int(share * delta))
    event = gaussian(1.0, epsilon, delta, dimension=3, neighbours=X, failure=failure)
    fits(event, epsilon, delta)
    plain = gaussian(1.0, epsilon, delta - failure, dimension=3, neighbours=X)
    assert plain.scale <= event.scale <= plain.scale * (1 + 1e-6)
    price = event.price()
    assert (price.delta, price.delta_z) == (delta, failure)
    assert plain.price().rho * (1 - 1e-5) - 1 <= price.rho <= plain.price().rho
    assert event.delta(epsilon / EPSILON_UNIT) >= failure / DELTA_UNIT
    with pytest.raises(NotCertified):
        event.model_copy(update={"failure": delta}).price()
    with pytest.raises(ValueError, match="masks"):
        gaussian(1.0, epsilon, failure, dimension=3, neighbours=X, failure=failure)
    assert "failure" not in plain.model_dump(mode="json")


@settings(deadline=None)
@given(st.integers(1, 200).map(math.sqrt), EPSILONS, DELTAS, st.integers(1, 50))
def test_discrete_gaussian(sensitivity: float, epsilon: int, delta: int, count: int) -> None:
    event = discrete_gaussian(sensitivity, epsilon, delta, count=count, neighbours=X)
    fits(event, epsilon, delta)
    rho = Fraction(round(sensitivity**2)) * count / (2 * Fraction(event.scale) ** 2)
    assert rho * DELTA_UNIT <= event.price().rho <= rho * DELTA_UNIT * (1 + Fraction(1, 10**14)) + 1


@given(SENSITIVITIES, EPSILONS, DELTAS)
def test_more_noise_never_costs_more(sensitivity: float, epsilon: int, delta: int) -> None:
    for event in (
        gaussian(sensitivity, epsilon, delta, dimension=3, neighbours=X),
        laplace(sensitivity, epsilon, dimension=3, neighbours=X),
        discrete_laplace(sensitivity, epsilon, neighbours=X),
    ):
        before = event.price()
        for factor in (1 + 1e-12, 1.1, 2.0, 1e3):
            after = event.model_copy(update={"scale": event.scale * factor}).price()
            assert after.epsilon <= before.epsilon
            assert after.delta <= before.delta
            assert after.rho <= before.rho
            before = after


@given(st.integers(1, 500), st.integers(1, 500), EPSILONS, st.one_of(st.just(0), DELTAS))
def test_least_variance(l1: int, square: int, epsilon: int, delta: int) -> None:
    event = least_variance(float(l1), math.sqrt(square), epsilon, delta, neighbours=X)
    fits(event, epsilon, delta)
    if delta == 0:
        assert event.mechanism == "discrete_laplace"


def test_least_variance_takes_the_better() -> None:
    many = least_variance(400.0, 20.0, 10**8, 10**13, neighbours=X)
    assert many.mechanism == "discrete_gaussian"
    assert least_variance(1.0, 1.0, 10**8, 10**13, neighbours=X).mechanism == "discrete_laplace"


def test_known_scales_on_the_unit_grid() -> None:
    """Exact curve; the continuous sigmas are 3.7306, 4.2247 and 1.5439."""
    for epsilon, delta, scale in (
        (1, 10**13, 3.7404845),
        (1, 10**12, 4.2307789),
        (3, 10**12, 1.5619947),
    ):
        event = discrete_gaussian(1.0, epsilon * EPSILON_UNIT, delta, neighbours=X)
        assert event.scale == pytest.approx(scale, rel=1e-6)


PLD_EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("dirichlet", {"row_change": 0.03, "floor": 0.3, "count": 12}),
    ("dirichlet", {"row_change": 0.2, "floor": 0.0, "offset": 2.0}),
    (
        "poisson_subsampled_gaussian",
        {"clip": 0.5, "probability": 0.01, "steps": 300, "relation": "add_remove"},
    ),
    (
        "poisson_subsampled_gaussian",
        {"clip": 3.0, "probability": 0.01, "steps": 300, "relation": "replace"},
    ),
    (
        "poisson_subsampled_gaussian",
        {"clip": 1.0, "probability": 1.0, "steps": 3, "relation": "replace"},
    ),
    ("one_draw_gaussian", {"clip": 2.0, "population": 500, "steps": 200}),
    ("one_draw_gaussian", {"clip": 1.0, "population": 1, "steps": 5}),
    ("smooth_sensitivity_gaussian", {"dimension": 7}),
    ("smooth_sensitivity_gaussian", {"dimension": 3, "count": 4}),
]


@pytest.mark.parametrize(("mechanism", "arguments"), PLD_EVENTS)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(3 * EPSILON_UNIT, 10**13), (12 * EPSILON_UNIT, 10**10)]
)
def test_calibrated_to_the_request_and_hardly_beyond(
    mechanism: str, arguments: dict[str, Any], epsilon: int, delta: int
) -> None:
    event = getattr(calibration, mechanism)(epsilon=epsilon, delta=delta, neighbours=X, **arguments)
    fits(event, epsilon, delta)
    price = event.price()
    assert (price.epsilon, price.delta, price.delta_z) == (epsilon, delta, delta)
    assert price.rho < Price.approximate(epsilon, delta).rho / 10
    less = 1.0001 if mechanism == "dirichlet" else 0.9999
    with pytest.raises(NotCertified):
        event.model_copy(update={"scale": event.scale * less}).price()


@pytest.mark.parametrize("epsilon", [1, 10**5, 10**12])
@pytest.mark.parametrize("delta", [1, 9 * 10**17])
@pytest.mark.parametrize(("mechanism", "arguments"), [PLD_EVENTS[i] for i in (0, 1, 2, 3, 5, 8)])
def test_extreme_requests_are_met_or_refused(
    mechanism: str, arguments: dict[str, Any], epsilon: int, delta: int
) -> None:
    try:
        event = getattr(calibration, mechanism)(
            epsilon=epsilon, delta=delta, neighbours=X, **arguments
        )
    except ValueError as refused:
        assert "noise" in str(refused)  # noqa: PT017 - both outcomes are right
    else:
        fits(event, epsilon, delta)


def test_one_draw_of_one_unit_is_the_gaussian_mechanism() -> None:
    drawn = calibration.one_draw_gaussian(
        1.0, EPSILON_UNIT, 10**13, population=1, steps=4, neighbours=X
    )
    plain = gaussian(2.0, EPSILON_UNIT, 10**13, dimension=1, count=4, neighbours=X)
    assert drawn.scale == pytest.approx(plain.scale, rel=1e-3)


def test_smooth_sensitivity_needs_a_fraction_of_the_printed_noise() -> None:
    from discreet.privacy.attacks.printed import smooth_sensitivity_scale

    event = calibration.smooth_sensitivity_gaussian(
        EPSILON_UNIT // 10, 10**13, dimension=40, neighbours=X
    )
    assert event.scale < smooth_sensitivity_scale(0.1, 1e-5) / 6
    assert event.smoothing == pytest.approx(0.1 / 4 / (40 + math.log(2e5)), rel=1e-6)


def test_deltas_of_many_regressions_add_up() -> None:
    """Three releases at 3 epsilon are three times the delta of one at epsilon, each of it paid."""
    one = calibration.smooth_sensitivity_gaussian(
        2 * EPSILON_UNIT, 10**13, dimension=2, neighbours=X
    )
    three = one.model_copy(update={"count": 3})
    assert 1e-6 < one.delta(2.0) <= 1e-5
    assert three.delta(6.0) == pytest.approx(3 * one.delta(2.0), rel=1e-9)
    together = calibration.smooth_sensitivity_gaussian(
        2 * EPSILON_UNIT, 10**13, dimension=2, count=3, neighbours=X
    )
    assert together.scale > 2.5 * one.scale


@pytest.mark.parametrize("epsilon", [0, -1])
def test_epsilon_must_be_positive(epsilon: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        discrete_laplace(1.0, epsilon, neighbours=X)
    with pytest.raises(ValueError, match="positive"):
        laplace(1.0, epsilon, dimension=1, neighbours=X)
    with pytest.raises(ValueError, match="positive"):
        gaussian(1.0, epsilon, 10**13, dimension=1, neighbours=X)


@pytest.mark.parametrize("delta", [0, -1, DELTA_UNIT])
def test_delta_must_be_inside(delta: int) -> None:
    with pytest.raises(ValueError, match="delta"):
        gaussian(1.0, EPSILON_UNIT, delta, dimension=1, neighbours=X)


def test_no_grid() -> None:
    """1e-9 of epsilon for 1e5 coordinates and 1000 releases: noise of 1e12 sensitivities, and 53
    bits to hold it."""
    with pytest.raises(ValueError, match="grid"):
        laplace(1.0, 1, dimension=10**5, count=1000, neighbours=X)
    with pytest.raises(ValueError, match="grid"):
        gaussian(1.0, 1, 10, dimension=10**9, count=10**6, neighbours=X)


def test_a_rounded_root_does_not_hide_a_difference() -> None:
    """The double nearest to sqrt(3) lies below it; (1, 1, 1) must still be among the
    differences."""
    root = math.sqrt(3)
    assert Fraction(root) ** 2 < 3
    event = discrete_gaussian(root, EPSILON_UNIT, 10**13, neighbours=X)
    assert event.scale > 3.73 * 1.73


def test_a_dirichlet_cannot_meet_every_epsilon() -> None:
    with pytest.raises(ValueError, match="no amount of noise"):
        calibration.dirichlet(0.1, 0.1, EPSILON_UNIT // 10, 10**13, neighbours=X)


@pytest.mark.parametrize("epsilon", [1, 10**5, 10**12, 10**15])
@pytest.mark.parametrize("delta", [1, 10**6, DELTA_UNIT - 1])
def test_extreme_requests(epsilon: int, delta: int) -> None:
    for event in (
        gaussian(1.0, epsilon, delta, dimension=1, neighbours=X),
        discrete_gaussian(1.0, epsilon, delta, neighbours=X),
        discrete_laplace(1.0, epsilon, neighbours=X),
        laplace(1.0, epsilon, dimension=1, neighbours=X),
    ):
        fits(event, epsilon, delta)
        assert math.isfinite(event.scale)
        assert np.isfinite(event.delta(epsilon / EPSILON_UNIT))


def test_noise_beyond_what_can_be_drawn_is_refused_before_anything_is_charged() -> None:
    with pytest.raises(ValueError, match="more noise than can be drawn"):
        calibration.discrete_laplace(2.0**25, 1, neighbours="one")
    with pytest.raises(ValueError, match="more noise than can be drawn"):
        calibration.discrete_gaussian(2.0**25, 1, 10**9, neighbours="one")
    event = calibration.least_variance(1e5, 1e5, 1, 1, neighbours="one")
    assert event.mechanism == "discrete_laplace"
    Noise.secure().add(event, np.zeros(3, dtype=np.int64))


# Noise that was calibrated with the finest curves only, before there were quick ones.
CALIBRATED = json.loads(Path(__file__).with_name("calibrated.json").read_text())


def composed(case: dict[str, Any]) -> PoissonSubsampledGaussian | OneDrawGaussian:
    """The event that is calibrated now."""
    epsilon, delta = round(case["epsilon"] * EPSILON_UNIT), int(case["delta"] * DELTA_UNIT)
    if case["mechanism"] == "one_draw":
        return calibration.one_draw_gaussian(
            1.0, epsilon, delta, population=case["sampling"], steps=case["steps"], neighbours=X
        )
    return calibration.poisson_subsampled_gaussian(
        1.0,
        epsilon,
        delta,
        probability=case["sampling"],
        steps=case["steps"],
        relation=case["relation"],
        neighbours=X,
    )


@pytest.mark.parametrize("case", CALIBRATED)
def test_quick_calibration_costs_little_noise_and_old_certificates_stand(
    case: dict[str, Any],
) -> None:
    event = composed(case)
    assert case["scale"] * (1 - 2e-3) < event.scale < case["scale"] * 1.02
    # The ledger holds events with the noise of before.
    before = event.model_copy(update={"scale": case["scale"], "charged_rho": None})
    assert before.price() == Price.approximate(event.charged_epsilon, event.charged_delta)


def test_calibrating_many_steps_takes_few_short_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work as it is counted: 5e6 points of transforms are about half a second."""
    lengths: list[int] = []

    def counted(values: NDArray[np.float64]) -> Any:
        lengths.append(len(values))
        return rfft(values)

    monkeypatch.setattr(pld, "rfft", counted)
    for case in CALIBRATED:
        lengths.clear()
        pld.composed_tail.cache_clear()
        composed({**case, "delta": case["delta"] * 1.001})  # not kept from another test
        assert lengths
        assert sum(lengths) < 5 * pld.QUICK.longest, (case, lengths)
        assert max(lengths) < 1.01 * pld.QUICK.longest
