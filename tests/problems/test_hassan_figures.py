"""Figures 3, 4, 6 and 7 of Hassan et al. on synthetic buildings: what is drawn, and that it is
drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.figures.simplexes import Triangle, draw_matrix, draw_simplexes
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.dr_ensemble.result import moves, policy_advice
from discreet.reproduce import hassan, hassan_figures, load_ensemble
from discreet.solvers.control import linearly_solvable_mdp as lsmdp


def test_draws_of_adjacent_rows_and_their_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hassan_figures, "DOTS", 30)
    ensemble = load_ensemble.generate(seed=0)
    P = hassan.transition_matrix(ensemble)
    found = hassan_figures.dots(ensemble, P, hassan.adjacent(P), hassan.ROW, 9, 0)
    assert [one["k"] for one in found] == [50, 200]
    spread = []
    for one in found:
        for name in ("draws", "policies"):
            for part in one[name]:
                assert part.shape == (30, 3)
                assert (part >= 0).all()
                assert (part.sum(axis=1) <= 1 + 1e-12).all()
        spread.append(one["draws"][0].std(axis=0).max())
        assert one["policies apart"] > 0
    assert spread[1] < spread[0]  # the larger k, the nearer draws are to the row
    day = hassan_figures.day(ensemble)
    assert max(day["mean"]) == pytest.approx(
        ensemble.power.sum(axis=0).reshape(-1, 96).mean(axis=0).max() / 1e3
    )
    for file in hassan_figures.plots(day, P, found, tmp_path):
        assert file.stat().st_size > 5000


def test_practice_is_a_state_less_in_the_event() -> None:
    ensemble = load_ensemble.generate(participants=5, days=2, seed=0)
    n = ensemble.bin_power.size
    spread = np.eye(n)[np.full(ensemble.price.size, 5)]
    power = hassan_figures.practice(ensemble, spread)
    assert power == pytest.approx(
        np.where(ensemble.event, ensemble.bin_power[4], ensemble.bin_power[5])
    )


def test_odd_points_and_matrices_are_refused(tmp_path: Path) -> None:
    for points in ([[0.5, 0.5]], [[-0.1, 0.5, 0.6]], [[0.0, 0.0, 0.0]], [[np.nan, 1, 1]]):
        with pytest.raises(InvalidInput):
            draw_simplexes(
                [Triangle("t", {"p": points})], tmp_path / "t.png", corners=("a", "b", "c")
            )
    with pytest.raises(InvalidInput):
        draw_matrix([[np.inf]], tmp_path / "m.png", x="", y="", title="", label="")


def test_plans_tell_what_a_policy_costs_by_the_public_model() -> None:
    """The value under the exact policy less that under the other, where the model holds. It is not
    the quantity of the paper's Corollaries, so none is named."""
    public = DrEnsemblePublic.model_validate({"unit": "participant", "states": 3})
    power, start = np.array([0.0, 1.0, 3.0]), np.array([0.2, 0.3, 0.5])
    utility, model = -np.outer([0.1, 0.6, 0.6, 0.1], power), moves(public)
    for policy in ("taylor", "digamma", "average"):
        control = Control(utility, power, 1.0, policy=policy, concentration=20)  # type: ignore[arg-type]
        (told,) = policy_advice(public, control, start)
        values = [
            start @ lsmdp.evaluate(one, model, utility, 1.0)[0]
            for one in (lsmdp.solve(model, utility, 1.0), control.solve(model))
        ]
        assert "orollar" not in told
        assert f"costs a load {float(f'{values[0] - values[1]:.3g}'):g}" in told.replace(",", "")
    assert policy_advice(public, Control(utility, power, 1.0), start) == ()
