"""The signal that a result recommends: chosen by maximin over the worlds that a release leaves
open.

A signal (`solvers.control.signals`) is compared by what following it saves in each world: draws of
two posteriors, of loads that may go anywhere (`Estimate.draw`) and of loads that mostly stay or
move nearby (`Estimate.near`), and chains in which moves that noise may hide are never made
(`Estimate.bare`). Signals that save something in the lower tenth of each posterior and in every
such chain are compared by the part of the most that any of them saves in that world, since worlds
in which little can be saved would choose otherwise; the one is taken whose lower tenth of it is the
largest in the worse posterior. Where no signal saves something in all worlds, no control is
recommended: a signal of zeros.

All of it follows from the release and public figures, so it is free. How many draws and signals
there are follows from public sizes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.estimates import LEAST_DRAWS, Estimate
from discreet.problems.dr_ensemble.public import Floats
from discreet.solvers.estimation.chain_posterior import Moves

DRAWS = 100
"""Of each posterior."""
MOST_NUMBERS = 5_000_000
"""Numbers of all draws of a posterior together: transitions, and states of all steps. Larger
problems get fewer draws; those that would get fewer than `LEAST_DRAWS` get none."""
COMPARED = 40
"""Draws of each posterior by which signals are compared; intervals are of all."""
TENTH = 0.1
PUBLIC = tuple(product((0.5, 0.7, 0.85, 0.95), ((0.5, 1e-3), (1.5, 1e-2), (1.0, 1.0))))
"""Public chains whose signals are compared too: the probability of staying, and the distance by
which moves to neighbours fade and the part of them that goes anywhere."""
MOST_WORK = 2_000_000_000
"""Transitions of all steps, worlds and signals together; with more, public chains are left out."""


@dataclass(frozen=True, eq=False)
class Worlds:
    """What may lie behind a release: transitions with an axis in front, and where the loads of each
    begin, float64[B, n]."""

    posteriors: tuple[tuple[Floats, Floats], ...]
    """The draws of each posterior; empty where none can be had."""
    bare: tuple[Floats, Floats]


def draws_of(control: Control) -> int:
    """How many draws of each posterior a problem of this size gets."""
    horizon, states = control.utility.shape
    each: int = states * max(control.blocks * states, horizon)
    return min(DRAWS, MOST_NUMBERS // each)


def worlds_of(control: Control, estimate: Estimate, initial: Floats | None) -> Worlds:
    """initial: float64[n], or None for loads that begin as the release says."""

    def begun(matrices: Floats, visits: Floats) -> tuple[Floats, Floats]:
        start = control.start(visits) if initial is None else initial
        return matrices, np.broadcast_to(start, (len(matrices), control.power.size))

    draws = draws_of(control)
    found = [estimate.draw(draws), estimate.near(draws)] if draws >= LEAST_DRAWS else []
    posteriors = tuple(begun(*one) for one in found if one is not None)
    return Worlds(posteriors, begun(*estimate.bare(control.power)))


def chosen(control: Control, estimate: Estimate, worlds: Worlds, start: Floats) -> Floats:
    """The signal float64[T, n], in money: what a state costs more than the cheapest one of its
    step; zeros for no control. With limits it is that of the released transitions, which keeps
    them."""
    none = np.zeros_like(control.utility)
    own: Floats = control.values(estimate.transitions[None], start[None])[0]
    if control.limits is not None:
        own -= own.min(axis=1, keepdims=True)
        return own
    if not worlds.posteriors and estimate.mostly_noise:
        return none
    every = np.array([own, *_candidates(control, estimate, worlds)])
    saves = np.ones(len(every), dtype=bool)
    part = np.ones(len(every))
    for matrices, starts in worlds.posteriors:
        saved = control.savings(matrices[:COMPARED], every, starts[:COMPARED])
        saves &= np.quantile(saved, TENTH, axis=0) > 0
        most = np.maximum(saved.max(axis=1, keepdims=True), 1e-300)
        part = np.minimum(part, np.quantile(saved / most, TENTH, axis=0))
    saved = control.savings(worlds.bare[0], every, worlds.bare[1])
    saves &= saved.min(axis=0) > 0
    if not worlds.posteriors:
        part = (saved / np.maximum(saved.max(axis=1, keepdims=True), 1e-300)).min(axis=0)
    if not saves.any():
        return none
    best: Floats = every[int(np.argmax(np.where(saves, part, -np.inf)))]
    best = best - best.min(axis=1, keepdims=True)
    return best


def _candidates(control: Control, estimate: Estimate, worlds: Worlds) -> list[Floats]:
    """Means, halves and lower quartiles of the signals of each posterior's draws, those of bare
    chains, the price now, and those of public chains."""
    found = list[Floats]()
    for matrices, starts in worlds.posteriors:
        values = control.values(matrices[:COMPARED], starts[:COMPARED])
        values -= values.min(axis=2, keepdims=True)  # loads tell states apart, not steps
        mean = values.mean(axis=0)
        found += [mean, mean / 2, np.quantile(values, 0.25, axis=0)]
    found += [*control.values(*worlds.bare), -control.utility]
    public = estimate.public
    mask, (horizon, states) = public.mask(), control.utility.shape
    compared = COMPARED * len(worlds.posteriors) + len(worlds.bare[0])
    if horizon * states**2 * compared * (len(found) + len(PUBLIC)) > MOST_WORK:
        return found
    moves = Moves(1, states, *np.nonzero(mask))
    matrices = np.zeros((len(PUBLIC), *mask.shape))
    matrices[:, mask] = [moves.kernel(stay, *moved) for stay, moved in PUBLIC]
    if public.day is not None:
        matrices = np.repeat(matrices[:, None], public.blocks, axis=1)
    return [*found, *control.values(matrices, np.full(states, 1 / states))]
