"""What one agent that lies finds out from opened sums: the attack of docs/opened-sums.md works, and
noise stops it."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.problems.coupled_qp import attacks
from discreet.problems.coupled_qp.attacks import Others, Peeler


@pytest.mark.parametrize(("agents", "rounds"), [(3, 20), (5, 60), (8, 100)])
def test_one_agent_that_lies_finds_the_needs_of_all_others(agents: int, rounds: int) -> None:
    others = Others(agents - 1, seed=0)
    found = Peeler(others, rounds).attack()
    needs = sorted(g / (2 * curvature) for g, curvature in found)
    assert needs == pytest.approx(sorted(others.need), rel=1e-3)
    assert sorted(curvature for _, curvature in found) == pytest.approx(
        sorted(others.curvature), rel=1e-3
    )


def test_somebody_is_found_among_two_hundred() -> None:
    """Sums hide most, and not who stands out most."""
    others = Others(199, seed=1)
    count = others.true_of(Peeler(others, 100).attack())
    assert 1 <= count <= 199 / 10


def test_noise_in_the_sums_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack counts what it finds against the truth, and does not find it when the sums are
    noisy."""
    random = np.random.default_rng(1)
    play = Others.play

    def noisy(self: Others, own: attacks.Floats) -> attacks.Floats:
        return play(self, own) + random.normal(0, 1, 2)

    monkeypatch.setattr(Others, "play", noisy)
    others = Others(2, seed=0)
    assert others.true_of(Peeler(others, 100).attack()) == 0
