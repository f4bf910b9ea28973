"""dp_accounting as an oracle where it is right, and its traps pinned where it is not."""

from __future__ import annotations

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.privacy_accountant import UnsupportedEventError
from dp_accounting.rdp import RdpAccountant

from benchmarks import noise
from discreet.privacy import calibration
from discreet.privacy.attacks.examples import examples
from discreet.privacy.mechanism import OneDrawSampling, PoissonSampling
from discreet.privacy.mechanisms.discrete_gaussian import exact_delta
from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawGaussian
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import PoissonSubsampledGaussian
from tests.conftest import first_of
from tests.privacy.dp_events import dp_event

EXAMPLES = examples()
ADD_REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


def poisson(scale: float, q: float, steps: int, relation: str) -> PoissonSubsampledGaussian:
    return PoissonSubsampledGaussian(
        sensitivity=1.0 if relation == "add_remove" else 2.0,
        scale=scale,
        count=steps,
        sampling=PoissonSampling(probability=q),
        relation=relation,
        neighbours=relation,
        charged_epsilon=10**9,
        charged_delta=10**13,
    )


def one_draw(sigma: float, m: int, steps: int) -> OneDrawGaussian:
    return OneDrawGaussian(
        sensitivity=2.0,
        scale=sigma,
        count=steps,
        sampling=OneDrawSampling(population=m),
        neighbours="replace one",
        charged_epsilon=10**8,
        charged_delta=10**13,
    )


@pytest.mark.parametrize(
    ("scale", "q", "steps", "epsilon"),
    [(1.0, 0.01, 1000, 1.0), (5.0, 0.3, 10, 0.5), (0.7, 0.5, 3, 2.0), (4.416, 0.001, 20_000, 0.1)],
)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_poisson_subsampling_agrees(
    scale: float, q: float, steps: int, epsilon: float, relation: str
) -> None:
    event = poisson(scale, q, steps, relation)
    interval = {0.1: 1e-5, 2.0: 1e-3}.get(epsilon, 1e-4)
    accountant = PLDAccountant(ADD_REMOVE if relation == "add_remove" else REPLACE, interval)
    accountant.compose(dp_event(event))
    assert event.delta(epsilon) == pytest.approx(accountant.get_delta(epsilon), rel=5e-3)


def test_gaussians_agree() -> None:
    event = calibration.gaussian(2.5, 10**9, 10**13, dimension=9, count=6, neighbours="x")
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_event(event))
    assert accountant.get_delta(1.0) == pytest.approx(1e-5, rel=2e-3)


@pytest.mark.parametrize(("epsilon", "scale"), [(1.0, 3.74), (0.3, 8.0), (3.0, 1.57)])
def test_discrete_gaussian_agrees(epsilon: float, scale: float) -> None:
    pld = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        scale, value_discretization_interval=1e-5
    )
    assert exact_delta(epsilon, 1, scale) == pytest.approx(
        pld.get_delta_for_epsilon(epsilon), rel=1e-3
    )


def test_discrete_laplace_agrees() -> None:
    accountant = PLDAccountant(value_discretization_interval=1e-5)
    event = EXAMPLES["discrete_laplace"]
    accountant.compose(dp_event(event))
    for epsilon in (0.2, 0.9):
        assert event.delta(epsilon) == pytest.approx(accountant.get_delta(epsilon), rel=1e-4)


def test_renyi_accounting_of_one_draw_is_an_upper_bound() -> None:
    event = one_draw(1.0799, 10**5, 10**5)
    accountant = RdpAccountant(neighboring_relation=REPLACE)
    accountant.compose(dp_event(event))
    assert accountant.get_epsilon(1e-5) > 1.7  # true: .0999; Rényi orders do not see so rare a loss
    assert event.delta(0.1) < 1e-5


NOT_THERE = {"laplace", "dirichlet", "exponential", "smooth_sensitivity_gaussian"}


def test_every_event_says_what_dp_accounting_calls_it() -> None:
    known = {name for name, event in EXAMPLES.items() if dp_event(event) is not None}
    assert known == set(EXAMPLES) - NOT_THERE
    assert dp_event(calibration.discrete_laplace(1.5, 10**9, neighbours="x")) is None


# The traps.


def test_trap_replace_one_multipliers_are_relative_to_twice_the_clip() -> None:
    """Noise sigma·h on a clip at h is mu = 2/sigma for a replaced unit; the multiplier `sigma`
    counts half of that."""
    sigma = 8.0
    naive, right = (RdpAccountant(neighboring_relation=REPLACE) for _ in range(2))
    naive.compose(dp_accounting.GaussianDpEvent(sigma))
    right.compose(dp_accounting.GaussianDpEvent(sigma / 2))
    true = PLDAccountant(value_discretization_interval=1e-4)
    true.compose(dp_accounting.GaussianDpEvent(sigma / 2))
    assert naive.get_epsilon(1e-5) < true.get_epsilon(1e-5) < right.get_epsilon(1e-5)


def test_trap_pld_rejects_sampling_without_replacement() -> None:
    accountant = PLDAccountant(REPLACE)
    with pytest.raises(UnsupportedEventError):
        accountant.compose(dp_event(one_draw(1.0799, 10**5, 10**5)))


def test_trap_poisson_with_replace_one_is_no_substitute_for_one_draw() -> None:
    substitute = PLDAccountant(REPLACE, value_discretization_interval=1e-5)
    substitute.compose(dp_event(poisson(1.0799, 1e-5, 10**5, "replace")))
    assert substitute.get_epsilon(1e-5) < 0.02
    assert one_draw(1.0799, 10**5, 10**5).delta(0.09) > 1e-5


def test_trap_coarse_grids() -> None:
    """A value discretization of 1e-3 reports nearly twice the epsilon; 1e-5 is near the truth, ours
    nearer."""
    event, epsilons = poisson(4.416, 0.001, 20_000, "add_remove"), []
    for interval in (1e-3, 1e-5):
        accountant = PLDAccountant(value_discretization_interval=interval)
        accountant.compose(dp_event(event))
        epsilons.append(accountant.get_epsilon(1e-5))
    assert epsilons[0] > 0.18
    assert epsilons[1] == pytest.approx(0.1, abs=1e-4)
    assert event.delta(epsilons[1]) < 1e-5


def test_trap_default_orders_are_a_grid() -> None:
    """The zCDP conversion of small rho on dp_accounting's default orders, which end at 1024, and at
    the best order."""
    from discreet.privacy.units import epsilon_units_from_rho

    accountant = RdpAccountant()
    accountant.compose(dp_accounting.ZCDpEvent(1e-8))
    assert accountant.get_epsilon(1e-5) > 4 * epsilon_units_from_rho(10**10, 10**13) / 1e9


@pytest.mark.parametrize(
    "place",
    first_of(
        [
            noise.Place(0.1, 1_000, 3.0, 1e-6, "add_remove"),
            noise.Place(0.5, 30, 1.0, 1e-5, "add_remove"),
            noise.Place(0.5, 1, 0.3, 1e-5, "replace"),
            noise.Place(0.001, 30_000, 8.0, 1e-9, "replace"),
        ],
        3,
    ),
)
def test_noise_is_least(place: noise.Place) -> None:
    """Some places of the grid of `make bench ARGS=noise`."""
    found = noise.compare(place)
    assert found is not None
    assert noise.LEAST_RATIO <= found.ratio <= noise.LARGEST_RATIO
