"""The samplers against the exact probabilities. Seeds are fixed, so a pass repeats; thresholds
stand for 1e-4 each."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from discreet.privacy import calibration, samplers
from discreet.privacy.noise import Noise
from discreet.privacy.samplers import as_ratio, fill_gaussian, fill_laplace

ALARM = 1e-4
DRAWS = 300_000


def exact(kind: str, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Support and probabilities, summed far beyond what 3e5 draws see."""
    reach = math.ceil((45 if kind == "laplace" else 10) * scale) + 3
    support = np.arange(-reach, reach + 1)
    weights = (
        np.exp(-np.abs(support) / scale)
        if kind == "laplace"
        else np.exp(-0.5 * (support / scale) ** 2)
    )
    return support, weights / weights.sum()


@pytest.mark.parametrize(
    "scale", [0.05, 0.37, 1.0, 1.5, math.pi, 3.7404847, 10.000000000000002, 47.1]
)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_draws_follow_the_exact_distribution(kind: str, scale: float) -> None:
    noise = Noise.seeded(20251121)
    draws = (
        noise.discrete_laplace(scale, DRAWS)
        if kind == "laplace"
        else noise.discrete_gaussian(scale, DRAWS)
    )
    support, probabilities = exact(kind, scale)
    counts = np.bincount(draws - support[0], minlength=len(support))
    seen = probabilities * DRAWS >= 10
    observed = np.append(counts[seen], counts[~seen].sum())
    expected = np.append(probabilities[seen], probabilities[~seen].sum()) * DRAWS
    if expected[-1] < 10:
        observed, expected = observed[:-1], expected[:-1]
        assert counts[~seen].sum() <= 60
    if len(expected) > 1:
        assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > ALARM


@pytest.mark.parametrize("scale", [2.0**30 * 1.37, 2.0**52])
def test_large_scales_look_continuous(scale: float) -> None:
    noise = Noise.seeded(7)
    laplace, gaussian = (
        noise.discrete_laplace(scale, DRAWS) / scale,
        noise.discrete_gaussian(scale, DRAWS) / scale,
    )
    assert stats.kstest(laplace, "laplace").pvalue > ALARM
    assert stats.kstest(gaussian, "norm").pvalue > ALARM


def test_coordinates_are_independent() -> None:
    draws = Noise.seeded(3).discrete_gaussian(5.0, (DRAWS // 2, 2))
    assert abs(np.corrcoef(draws.T)[0, 1]) * math.sqrt(DRAWS / 2) < stats.norm.isf(ALARM / 2)


def test_sample_boundaries_do_not_show() -> None:
    """However few words a call has, the same words give the same samples: none is dropped for being
    long."""
    words = np.random.default_rng(5).integers(0, 2**64, size=20_000, dtype=np.uint64)
    for kernel in (fill_laplace, fill_gaussian):
        n, q = as_ratio(2.75)
        whole = np.empty(500, dtype=np.int64)
        done, _ = kernel(whole, 0, words, n, q)
        assert done == 500
        pieces, filled, left, given = np.empty(500, dtype=np.int64), 0, words[:0], 0
        while filled < 500:
            left, given = np.concatenate([left, words[given : given + 7]]), given + 7
            filled, start = kernel(pieces, filled, left, n, q)
            left = left[start:]
        np.testing.assert_array_equal(pieces, whole)


def test_compiled_and_interpreted_kernels_agree() -> None:
    words = np.random.default_rng(6).integers(0, 2**64, size=3000, dtype=np.uint64)
    n, q = as_ratio(1.3)
    for kernel in (fill_laplace, fill_gaussian):
        fast, slow = np.empty(60, dtype=np.int64), np.empty(60, dtype=np.int64)
        assert kernel(fast, 0, words, n, q) == kernel.py_func(slow, 0, words, n, q)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(fast, slow)


def test_a_scale_is_taken_exactly_or_above() -> None:
    for scale in (0.1, 1 / 3, 1e15 + 0.125, 2.0**-9, 4503599627370495.5):
        n, q = as_ratio(scale)
        assert n / q == scale
        assert n < 2**53
        assert q <= 2**61
    assert as_ratio(1e-300) == (1, 512)
    for scale in (0.0, -1.0, math.inf, math.nan, 2.0**53):
        with pytest.raises(ValueError, match="noise scale"):
            as_ratio(scale)


def test_entropy_is_fresh_and_seeds_repeat() -> None:
    first, second = (Noise.secure().discrete_laplace(1000.0, 50) for _ in range(2))
    assert not np.array_equal(first, second)
    same = [Noise.seeded(9).discrete_laplace(1000.0, 50) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    noise = Noise.seeded(9)
    assert not np.array_equal(
        noise.discrete_laplace(1000.0, 50), noise.discrete_laplace(1000.0, 50)
    )


def test_every_secure_word_is_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def zeros(n: int) -> bytes:
        asked.append(n)
        return b"\0" * n

    monkeypatch.setattr("os.urandom", zeros)
    assert Noise.secure().generator().random() == Noise.secure().generator().random()
    assert asked == [16, 16]


def test_the_generator_is_aes_in_counter_mode() -> None:
    key = bytes(range(16))
    stream = Noise(lambda n: key[:n]).generator().bytes(64)
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - one block at a time is the counter mode
    assert stream == b"".join(block.update(counter.to_bytes(16, "little")) for counter in range(4))


def test_generators_differ() -> None:
    noise = Noise.secure()
    assert noise.generator().random() != noise.generator().random()


def test_dirichlet_rows_are_rows() -> None:
    noise = Noise.seeded(4)
    alpha = np.array([[0.02, 3.0, 1.5], [10.0, 20.0, 30.0]])
    rows = noise.dirichlet(np.broadcast_to(alpha, (100_000, 2, 3)))
    assert rows.shape == (100_000, 2, 3)
    np.testing.assert_allclose(rows.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
    for index, parameters in enumerate(alpha):
        total = parameters.sum()
        for entry, parameter in enumerate(parameters):
            sample = rows[:, index, entry]
            if parameter > 1:
                assert (
                    stats.kstest(sample, stats.beta(parameter, total - parameter).cdf).pvalue
                    > ALARM
                )
            mean = parameter / total
            deviation = math.sqrt(mean * (1 - mean) / (total + 1) / len(sample))
            assert abs(sample.mean() - mean) < stats.norm.isf(ALARM / 2) * deviation
    with pytest.raises(ValueError, match="positive"):
        noise.dirichlet(np.array([1.0, 0.0]))


def test_rows_show_no_low_bits_of_their_variates() -> None:
    """A row is whole numbers of 2^-40 that were divided by their sum: some whole sum near 2^40
    gives them back."""
    rows = Noise.seeded(5).dirichlet(np.broadcast_to(np.array([0.5, 3.0, 1.5]), (50, 3)))
    sums = 2.0**40 + np.arange(-3, 4)
    parts = rows[:, None, :] * sums[:, None]
    assert (np.abs(parts - np.rint(parts)).max(axis=2).min(axis=1) < 1e-3).all()


def test_tiny_dirichlet_parameters_do_not_underflow() -> None:
    rows = Noise.seeded(4).dirichlet(np.full((1000, 4), 1e-6))
    assert np.all(np.isfinite(rows))
    np.testing.assert_allclose(rows.max(axis=1), 1.0, atol=1e-2)


def test_adding_noise_to_integers() -> None:
    noise = Noise.seeded(2)
    event = calibration.discrete_laplace(1.0, 10**9, neighbours="one count")
    for kind in (np.int64, np.int32, np.uint8, np.uint64):
        noisy = noise.add(event, np.full((3, 4), 100, dtype=kind))
        assert noisy.dtype == np.int64
        assert noisy.shape == (3, 4)
        assert np.all(np.abs(noisy - 100) < 60)
    extreme = noise.add(event, np.array([2**63 - 1, -(2**63), 0]))
    assert extreme[0] > 2**61
    assert extreme[1] < -(2**61)
    huge = noise.add(event, np.array([2**64 - 1], dtype=np.uint64))
    assert huge[0] > 2**61
    with pytest.raises(TypeError, match="integers"):
        noise.add(event, np.array([0.5]))


def test_adding_noise_to_reals_shows_nothing_but_the_grid() -> None:
    noise = Noise.seeded(2)
    for event in (
        calibration.gaussian(1.0, 10**9, 10**13, dimension=6, neighbours="a vector"),
        calibration.laplace(1.0, 10**9, dimension=6, neighbours="a vector"),
    ):
        noisy = noise.add(event, np.array([0.1, 1 / 3, math.nan, 1e300, -math.inf, 5.0]))
        assert np.all(np.isfinite(noisy))
        steps = noisy / event.grid
        np.testing.assert_array_equal(steps, np.rint(steps))
        assert abs(noisy[5] - 5) < 200
        with pytest.raises(ValueError, match="priced for 6"):
            noise.add(event, np.zeros(7))
    with pytest.raises(TypeError, match="not added"):
        noise.add(
            calibration.dirichlet(0.03, 0.1, 3 * 10**9, 10**13, neighbours="a row"),
            np.zeros(2),
        )


def test_words_are_drawn_in_bounded_pieces() -> None:
    pieces: list[int] = []
    generator = np.random.default_rng(0)

    def entropy(n: int) -> bytes:
        pieces.append(n)
        return generator.bytes(n)

    Noise(entropy).discrete_laplace(4.0, 200_000)
    assert max(pieces) <= 8 << 20
    assert samplers.LARGEST_SCALE == 2.0**52
