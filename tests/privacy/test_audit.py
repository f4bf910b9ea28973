"""The audit finds no fault in our mechanisms and every planted one. Whole-run confidence .999 for
the honest rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from discreet.privacy import calibration
from discreet.privacy.attacks import audit, blocks
from discreet.privacy.attacks.audit import Attack, at_least, at_most, audit_event
from discreet.privacy.attacks.examples import examples
from discreet.privacy.attacks.planted import FAULTS, Fault, half_noise
from discreet.privacy.noise import Noise

EXAMPLES = examples()
SAMPLES = 40_000


def test_no_honest_mechanism_is_caught_and_most_bounds_are_near() -> None:
    rows = audit.audit(list(EXAMPLES.values()), samples=SAMPLES, noise=Noise.seeded(11))
    assert [row.name for row in rows] == list(EXAMPLES)
    for row in rows:
        assert row.verdict == "holds", row
        assert 0.15 * row.price_epsilon < row.lower_bound, row


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_half_the_noise_is_caught(name: str) -> None:
    row = half_noise(EXAMPLES[name], samples=SAMPLES, noise=Noise.seeded(12))
    assert row.verdict == "violated", row


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_planted_faults_are_caught(fault: Fault) -> None:
    row = fault.audit(noise=Noise.seeded(13))
    assert row.verdict == "violated", row


def test_blocks_by_date_are_not_caught_where_wrong_ones_are() -> None:
    """The same releases of the same thirty blocks: what is wrong with the three faults is who is
    charged."""
    left, right = blocks.by_date(Noise.seeded(13))
    bound = audit.epsilon_lower_bound(left, right, 0.0, samples=20_000, confidence=audit.CONFIDENCE)
    assert 0.3 * blocks.EPSILON < bound <= blocks.EPSILON


def test_three_percent_less_noise_is_caught() -> None:
    event = calibration.gaussian(1.0, 3 * 10**9, 10**13, dimension=1, neighbours="a vector by 1")
    row = audit_event(
        event, played=event.less_noise(1 / 0.97), samples=400_000, noise=Noise.seeded(17)
    )
    assert row.verdict == "violated", row
    assert audit_event(event, samples=400_000, noise=Noise.seeded(17)).verdict == "holds"


def test_replaced_units_of_minibatches() -> None:
    event = calibration.poisson_subsampled_gaussian(
        1.0, 10**9, 10**13, probability=0.2, steps=10, relation="replace", neighbours="replace one"
    )
    assert audit_event(event, samples=SAMPLES, noise=Noise.seeded(19)).verdict == "holds"
    assert half_noise(event, samples=SAMPLES, noise=Noise.seeded(20)).verdict == "violated"


def test_transcripts_of_several_releases() -> None:
    event = calibration.discrete_gaussian(
        2.0, 10**9, 10**13, count=3, neighbours="counts by 2 in all"
    )
    left, right = event.worst_case(Noise.seeded(1))
    assert left(7).shape == right(7).shape == (7, 3)
    assert audit_event(event, samples=20_000, noise=Noise.seeded(23)).verdict == "holds"
    assert half_noise(event, samples=20_000, noise=Noise.seeded(24)).verdict == "violated"


def test_too_long_transcripts_are_refused() -> None:
    event = calibration.discrete_laplace(1.0, 10**9, count=10_000, neighbours="x")
    with pytest.raises(ValueError, match="too long"):
        audit_event(event)


@pytest.mark.parametrize(("hits", "samples"), [(0, 50), (3, 50), (25, 50), (50, 50)])
def test_clopper_pearson_against_the_binomial(hits: int, samples: int) -> None:
    risk = 0.01
    low, high = at_least(hits, samples, risk), at_most(hits, samples, risk)
    if hits > 0:
        assert stats.binom.sf(hits - 1, samples, low) == pytest.approx(risk)
    if hits < samples:
        assert stats.binom.cdf(hits, samples, high) == pytest.approx(risk)
    assert 0 <= low <= hits / samples <= high <= 1


def test_the_lower_bound_is_below_the_truth_as_often_as_it_says() -> None:
    """300 attacks on a mechanism whose epsilon is known: at confidence .9 fewer than 30 + 4
    deviations are above it."""
    generator, truth = np.random.default_rng(29), 1.0

    def response(chance: float) -> audit.Sampler:
        return lambda n: (generator.random((n, 1)) < chance).astype(np.float64)

    keep = math.exp(truth) / (1 + math.exp(truth))
    above = sum(
        audit.epsilon_lower_bound(
            response(keep), response(1 - keep), 0.0, samples=2000, confidence=0.9
        )
        > truth
        for _ in range(300)
    )
    assert above <= 30 + 4 * math.sqrt(300 * 0.1 * 0.9)


def test_equal_outputs_give_no_bound() -> None:
    generator = np.random.default_rng(31)
    same = lambda n: generator.standard_normal((n, 2))  # noqa: E731
    assert audit.epsilon_lower_bound(same, same, 1e-5, samples=5000, confidence=0.999) < 0.05
    assert Attack.learn(same, same, 5000).curve_lower_bound(EXAMPLES["gaussian"], 0.999) < 0.2
