"""How long a release seems to take."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from discreet.worker.runner import padded_seconds


@given(st.floats(0, 3600), st.sampled_from([0.0625, 0.25, 0.5, 3.25]))
def test_a_release_seems_to_take_its_quantum_or_a_doubling(elapsed: float, quantum: float) -> None:
    padded = padded_seconds(elapsed, quantum)
    assert padded >= elapsed
    assert padded == quantum or padded < 2 * elapsed
    assert math.log2(padded / quantum).is_integer()


def test_long_releases_show_few_figures() -> None:
    """By parameters that make a release long, an analyst would see contents of 1,000 sizes apart in multiples of the
    quantum; in doublings four."""
    times = [10 + 0.1 * size for size in range(1000)]
    assert len({math.ceil(time / 0.5) for time in times}) > 190
    assert len({padded_seconds(time, 0.5) for time in times}) == 4
