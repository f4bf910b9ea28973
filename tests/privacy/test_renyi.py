"""Rho of compositions: never below the truth, hardly above it, and sound in the filter that adds it
up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from discreet.privacy import calibration, events, filters, pld
from discreet.privacy.filters import Cap
from discreet.privacy.mechanism import ComposedEvent, NotCertified
from discreet.privacy.mechanisms.gaussian import gaussian_delta, gaussian_mu
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import RemovePair, ReplacePair
from discreet.privacy.pld import DominatingPair, Reversed
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, RHO_UNIT, Price

Floats = NDArray[np.float64]
X = "one unit"


@dataclass(frozen=True)
class Response:
    """Randomized response: the loss is ±loss, and + with probability e^loss/(1 + e^loss) under
    P."""

    loss: float

    def tails(self, epsilon: Floats) -> tuple[Floats, Floats]:
        truth = 1 / (1 + math.exp(-self.loss))
        above = np.where(epsilon < -self.loss, 1.0, np.where(epsilon < self.loss, truth, 0.0))
        other = np.where(epsilon < -self.loss, 1.0, np.where(epsilon < self.loss, 1 - truth, 0.0))
        return above, other

    def heads(self, epsilon: Floats) -> tuple[Floats, Floats]:
        p, q = self.tails(epsilon)
        return 1 - p, 1 - q


def direct_rho(losses: Floats, masses: Floats, epsilon: float) -> float:
    """sup over orders of D_a(P'||Q)/a on a fine grid of orders, straight from the definition, in
    extended precision."""
    p = masses.astype(np.longdouble)
    q = p * np.exp(-losses.astype(np.longdouble))
    cut = np.minimum(p, np.exp(np.longdouble(epsilon)) * q)
    ratio = np.log(cut / cut.sum() / q)
    orders = 1 + np.geomspace(1e-3, 400.0, 400)
    return float(max(np.log(np.sum(q * np.exp(a * ratio))) / (a - 1) / a for a in orders))


@pytest.mark.parametrize(
    ("loss", "count", "epsilon"), [(0.05, 200, 1.5), (0.3, 30, 4.0), (1.0, 4, 2.5)]
)
def test_randomized_response_against_enumeration(loss: float, count: int, epsilon: float) -> None:
    truth = 1 / (1 + math.exp(-loss))
    positive = np.arange(count + 1)
    losses, masses = loss * (2.0 * positive - count), binom.pmf(positive, count, truth)
    delta = pld.composed_delta(Response(loss), count, epsilon, 1e-12) * (1 + 1e-6)
    exact = direct_rho(losses, masses, epsilon)
    assert exact <= pld.composed_rho(Response(loss), count, epsilon, delta) <= exact * 1.05


@pytest.mark.parametrize(
    "pair", [RemovePair(0.2, 1.0), Reversed(RemovePair(0.2, 1.0)), ReplacePair(0.3, 0.7)]
)
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_one_step_against_its_finely_cut_law(pair: DominatingPair, epsilon: float) -> None:
    """A lower bound: merging losses into one value of P/Q is a processing, which only loses
    divergence."""
    points = np.linspace(-4.0, 8.0, 6001)
    (p, q) = (np.concatenate([[1.0], tail, [0.0]]) for tail in pair.tails(points))
    masses, others = -np.diff(p), -np.diff(q)
    there = (masses > 1e-30) & (others > 1e-30)
    delta = pld.composed_delta(pair, 1, epsilon, 1e-12) * (1 + 1e-6) + 1e-9
    lower = direct_rho(np.log(masses[there] / others[there]), masses[there], epsilon)
    assert lower * (1 - 1e-6) <= pld.composed_rho(pair, 1, epsilon, delta) <= lower * 1.05


@pytest.mark.parametrize(
    ("epsilon", "delta", "count"), [(0.1, 1e-8, 10), (1.0, 1e-5, 1000), (3.0, 1e-9, 7)]
)
def test_gaussians_cost_what_gaussians_cost(epsilon: float, delta: float, count: int) -> None:
    """Rate 1 is the plain Gaussian mechanism, whose rho is mu²/2."""
    event = calibration.poisson_subsampled_gaussian(
        1.0,
        int(epsilon * EPSILON_UNIT),
        int(delta * DELTA_UNIT),
        probability=1.0,
        steps=count,
        relation="replace",
        neighbours=X,
    )
    gaussian = gaussian_mu(epsilon, delta) ** 2 / 2
    assert event.price().rho / RHO_UNIT == pytest.approx(gaussian, rel=2e-3)


def test_chords_bound_what_lies_between() -> None:
    b = np.geomspace(0.01, 50, 40)
    for k in (lambda x: 0.3 * x * (1 + x), lambda x: np.expm1(x / 7), lambda x: 0.2 * x + 0.001):
        bound = pld._largest_on_chords(b, k(b))
        for low, high, most in zip(b[:-1], b[1:], bound, strict=True):
            x = np.linspace(low, high, 50)
            assert np.max(k(x) / (x * (1 + x))) <= most * (1 + 1e-12)


def test_a_curve_becomes_a_pair_that_dominates_it() -> None:
    mu, epsilon = 0.7, 2.0
    losses, masses = pld.pair_of_curve(lambda x: gaussian_delta(x, mu), epsilon)
    infinite = gaussian_delta(epsilon, mu)
    for x in np.linspace(-1.9, 1.99, 57):
        above = float(np.sum(masses * np.maximum(-np.expm1(x - losses), 0.0))) + infinite
        truth = (
            gaussian_delta(x, mu)
            if x >= 0
            else 1 - math.exp(x) + math.exp(x) * gaussian_delta(-x, mu)
        )
        assert truth * (1 - 1e-9) <= above <= truth + 1e-3
    delta = infinite * (1 + 1e-9)
    assert pld.truncated_rho(losses, masses, epsilon, delta) == pytest.approx(mu * mu / 2, rel=0.01)


STEPS = {"clip": 1.0, "probability": 1e-3, "steps": 20_000}
EVENTS: list[tuple[str, dict[str, Any], int]] = [
    ("poisson_subsampled_gaussian", {**STEPS, "relation": "add_remove"}, 100),
    ("poisson_subsampled_gaussian", {**STEPS, "relation": "replace"}, 100),
    ("one_draw_gaussian", {"clip": 1.0, "population": 2_000, "steps": 2_000}, 100),
    ("dirichlet", {"row_change": 0.2, "floor": 0.0, "offset": 2.0}, 100),
    ("smooth_sensitivity_gaussian", {"dimension": 7}, 100),
]


@pytest.mark.parametrize(("mechanism", "arguments", "jobs"), EVENTS)
def test_as_many_jobs_fit_as_of_a_gaussian_and_all_of_them_keep_the_cap(
    mechanism: str, arguments: dict[str, Any], jobs: int
) -> None:
    """Of (0.1, 1e-8) ten fitted under (1, 1e-5) at epsilon²/2. Where pairs are there, the true sum
    is checked too."""
    event = getattr(calibration, mechanism)(
        epsilon=EPSILON_UNIT // 10, delta=10**10, neighbours=X, **arguments
    )
    cap, total, fitted = Cap(EPSILON_UNIT, 10**13), Price.zero(), 0
    while filters.admits(total.columns(), event.price(), cap):
        total, fitted = total + event.price(), fitted + 1
    assert fitted >= jobs
    epsilon, delta = filters.spent(total.columns(), cap)
    assert epsilon <= cap.epsilon
    if isinstance(event, ComposedEvent):
        for pair in event.pairs():
            together = pld.composed_delta(pair, event.count * fitted, epsilon / EPSILON_UNIT, 1e-9)
            assert together <= delta / DELTA_UNIT


def test_less_noise_than_charged_is_found_out() -> None:
    event = calibration.poisson_subsampled_gaussian(
        1.0, EPSILON_UNIT, 10**13, probability=0.01, steps=500, relation="replace", neighbours=X
    )
    assert event.charged_rho is not None
    cheaper = event.model_copy(update={"charged_rho": event.charged_rho * 99 // 100})
    with pytest.raises(NotCertified, match="rho"):
        cheaper.price()


def test_events_of_before_cost_what_they_cost() -> None:
    event = calibration.poisson_subsampled_gaussian(
        1.0, EPSILON_UNIT, 10**13, probability=0.01, steps=500, relation="replace", neighbours=X
    )
    stored = {name: value for name, value in events.to_json(event).items() if name != "charged_rho"}
    old = events.from_json(stored)
    assert old.price() == Price.approximate(EPSILON_UNIT, 10**13)
    assert events.to_json(old) == stored  # a hash of the ledger stands on these bytes
    assert Fraction(event.price().rho, RHO_UNIT) < Fraction(1, 2 * 10)


@pytest.mark.parametrize(("q", "steps"), [(0.1, 20), (0.01, 5), (0.5, 8)])
def test_a_unit_that_is_added_costs_at_most_ln_of_what_is_left(q: float, steps: int) -> None:
    """The loss of one step of the reverse is at most -ln(1-q): from that sum on nothing is left."""
    reverse, most = Reversed(RemovePair(q, 1.3)), -steps * math.log1p(-q)
    assert pld.composed_delta(reverse, steps, most * 1.001, 1e-15) < 1e-12
    assert pld.composed_delta(reverse, steps, most * 0.2, 1e-15) > 1e-6


@pytest.mark.parametrize(
    ("q", "steps", "epsilon", "delta"),
    [
        *(
            (q, *rest)
            for q in (1e-3, 0.1, 0.7)
            for rest in ((20, 10.0, 1e-9), (400, 0.5, 1e-6), (3, 3.0, 1e-12))
        ),
        (1e-6, 10**7, 0.1, 1e-8),  # grids tell less of the pairs that add or remove
    ],
)
def test_adding_or_removing_needs_no_more_noise_than_replacing(
    q: float, steps: int, epsilon: float, delta: float
) -> None:
    scales = [
        calibration.poisson_subsampled_gaussian(
            1.0,
            int(epsilon * EPSILON_UNIT),
            int(delta * DELTA_UNIT),
            probability=q,
            steps=steps,
            relation=relation,
            neighbours=X,
        ).scale
        for relation in ("add_remove", "replace")
    ]
    assert scales[0] <= scales[1]


@pytest.mark.parametrize(("q", "mu"), [(1e-3, 1.0), (0.2, 0.4), (0.9, 2.0), (0.5, 8.0)])
def test_a_unit_that_is_replaced_is_easier_to_tell_than_one_that_is_added_or_removed(
    q: float, mu: float
) -> None:
    """What lets the price of replacing bound the other two: H of one step, at every epsilon."""
    points = np.concatenate([-np.geomspace(12, 1e-6, 200), np.geomspace(1e-6, 12, 200)])

    def curve(pair: DominatingPair) -> Floats:
        p, other = pair.tails(points)
        return p - np.exp(points) * other

    replaced = curve(ReplacePair(q, mu))
    for pair in (RemovePair(q, mu), Reversed(RemovePair(q, mu))):
        assert np.all(curve(pair) <= replaced + 1e-11 * np.exp(np.maximum(points, 0)))
    assert np.any(
        curve(RemovePair(q, 2.5 * mu)) > replaced * (1 + 1e-3) + 1e-9
    )  # it is at more than twice the clip


@pytest.mark.parametrize("q", [0.1, 0.5])
@pytest.mark.parametrize(("steps", "delta"), [(100, 10**6), (20_000, 10**10)])
def test_what_is_charged_here_is_certified_where_transforms_differ(
    monkeypatch: pytest.MonkeyPatch, q: float, steps: int, delta: int
) -> None:
    """Other lengths, and rounding five times as large as here: a stored event costs the same on
    every machine."""
    event = calibration.poisson_subsampled_gaussian(
        1.0, EPSILON_UNIT // 20, delta, probability=q, steps=steps, relation="replace", neighbours=X
    )
    assert event.charged_rho is not None
    rng, power = np.random.default_rng(7), pld.power

    def otherwise(
        grid: pld.Grid, masses: Floats, count: int, epsilon: float, window: pld.Window
    ) -> tuple[Floats, Floats, float]:
        longer = pld.Window(
            window.below, window.above + grid.step * int(rng.integers(5, 20_000)), window.missed
        )
        noisy = masses * (1 + 1e-15 * rng.standard_normal(len(masses)))
        return power(grid, noisy, count, epsilon, longer)

    monkeypatch.setattr(pld, "power", otherwise)
    monkeypatch.setattr(pld, "power", otherwise)
    for _ in range(5):
        pld.composed_tail.cache_clear()
        pld.composed_rhos.cache_clear()
        assert event.derive_price().rho == event.charged_rho


@pytest.mark.parametrize("part", [1.0, 0.5])
def test_the_pair_that_is_cut_has_no_more_beyond_than_delta(part: float) -> None:
    """Where a finer grid certified the charged point, the coarser one here has more than delta
    beyond it."""
    pair, count, epsilon = Response(0.05), 200, 1.5
    delta = part * pld.composed_delta(pair, count, epsilon, 1e-12)
    made = pld._Transforms(pair, count, epsilon, delta)
    losses, masses, cut = pld._composition(made, pld.QUICK)
    beyond = [
        float(np.sum(masses * np.maximum(-np.expm1(x - losses), 0.0))) for x in (epsilon, cut)
    ]
    assert beyond[1] <= delta < beyond[0] * (1 + 1e-3)
    assert cut > epsilon
