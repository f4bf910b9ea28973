"""At which norm records are best clipped, and what a clip leaves out."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.problems.dr_ensemble.advice import MODEL_STEPS, SEED, USUAL_STEPS, moves
from discreet.problems.dr_ensemble.noise import counts_event, grid_of
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats
from discreet.problems.dr_ensemble.request import DrEnsembleRequest
from discreet.problems.numbers import Budget
from discreet_client.intervals import plain

MOST_RECORDS = 1_000_000
LOADS = 128
STICKY = (0.2, 0.5, 0.8, 0.95)
"""How often loads stay, of the records that clips are chosen by."""
NEARLY = 1.25
NO_TIME = 1e-100
"""Participants in a row that the model never visits: a square of their part of the noise is still a
number."""
CLIPS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08)


class Clip(NamedTuple):
    """A bound on the l2 norm of a participant's histogram; None: none is needed."""

    bound: float | None
    kept: float
    """Of the weight of records of the public model, what it leaves."""
    error: float
    """Expected of a transition: root of the mean square of noise and bias, over the model's time in
    each row."""


def clips(public: DrEnsemblePublic, unclipped: float, gaussian: float) -> list[Clip]:
    """Bounds on the norm of a participant's histogram, the best first, by the expected error of a
    transition.

    unclipped: deviation of a count's noise, in participants, that needs no bound; gaussian: of that
    for a bound of 1. Of records of the public model, some of which move much more than others, each
    bound keeps a part, and so moves the matrix towards those that move more: the bias. NOT looked
    at: the data.
    """
    if public.participants is None or public.blocks * public.states**2 * LOADS > MOST_RECORDS:
        return []
    records = _records(public)
    norms = np.linalg.norm(records, axis=(1, 2))
    exact = records.sum(axis=0)
    rows, width = exact.sum(axis=1), public.widths()
    visits = rows / rows.sum()
    found: list[Clip] = []
    for bound in (None, *CLIPS):
        weight = np.ones(len(records)) if bound is None else np.minimum(1.0, bound / norms)
        kept = float(weight.mean())
        left = np.tensordot(weight, records, 1)
        moved = (
            left / np.maximum(left.sum(axis=1), 1e-300)[:, None]
            - exact / np.maximum(rows, 1e-300)[:, None]
        )
        deviation = unclipped if bound is None else gaussian * bound
        noise = width * (deviation / np.maximum(public.participants * kept * visits, NO_TIME)) ** 2
        square = np.minimum((moved**2).sum(axis=1) + np.where(width > 1, noise, 0.0), 1.0)
        found.append(Clip(bound, kept, math.sqrt(float(visits @ square))))
    found.sort(key=lambda one: one.error)
    # Of those that are nearly as good the one that changes least.
    near = [one for one in found if one.error <= NEARLY * found[0].error]
    best = max(near, key=lambda one: one.bound or math.inf)
    return [best, *(one for one in found if one != best)]


def clip_advice(found: list[Clip], asked: bool) -> tuple[str, ...]:
    """Why that bound, or that one would help."""
    if not found:
        says = (
            "clip (auto) is none: bounds help with a delta above 0, a public number of "
            "participants and few states"
        )
        return (says,) if asked else ()
    best, after = found[0], found[1]
    none = next(one for one in found if one.bound is None)
    error = "expected error of a transition's probability"
    if asked:
        said = [f"clip (auto) is {_named(best)}, with an {error} of {plain(best.error)}"]
        other = "the next best" if best.error <= after.error else "which cuts more"
        said.append(f"{_named(after)}, {other}, has {plain(after.error)}")
        return (
            "; ".join(
                [*said, *([] if none in (best, after) else [f"none has {plain(none.error)}"])]
            ),
        )
    if best.bound is None or best.error > 0.8 * none.error:
        return ()
    return (
        f'"clip": "auto" would take {best.bound:g}: an {error} of {plain(best.error)}, not '
        f"{plain(none.error)}",
    )


def _named(clip: Clip) -> str:
    return "none" if clip.bound is None else f"{clip.bound:g}"


def _records(public: DrEnsemblePublic) -> Floats:
    """Histograms float64[loads, rows, n] of transitions of the public model, each of sum 1."""
    rng, n = np.random.default_rng(SEED), public.states
    cumulated = np.array([moves(public, staying) for staying in STICKY]).cumsum(axis=2)
    kind, each = np.arange(LOADS) % len(STICKY), np.arange(LOADS)
    state = rng.integers(0, n, LOADS)
    records = np.zeros((LOADS, public.blocks * n, n))
    steps = min(MODEL_STEPS, (public.steps or USUAL_STEPS) - 1)
    block = (
        np.zeros(steps, dtype=np.int64)
        if public.day is None
        else public.day.block_of(np.arange(steps))
    )
    for step in range(steps):
        after = np.minimum((rng.random(LOADS)[:, None] > cumulated[kind, state]).sum(axis=1), n - 1)
        records[each, block[step] * n + state, after] += 1 / steps
        state = after
    return records


def clip_of(
    problem: DrEnsembleRequest, public: DrEnsemblePublic, budget: Budget, cells: int
) -> tuple[float | None, list[Clip]]:
    """The bound on the norm of a histogram, and what was expected of others: nothing without a
    delta."""
    least, _, _ = counts_event(public, budget, cells, CLIPS[-1])
    if isinstance(problem.clip, float) or least.norm == "l1":
        return (None if problem.clip == "auto" else problem.clip), []
    unclipped, _, _ = counts_event(public, budget, cells, None)
    found = clips(
        public,
        unclipped.deviation() / grid_of(public, None),
        least.deviation() / grid_of(public, CLIPS[-1]) / CLIPS[-1],
    )
    return (found[0].bound if found and problem.clip == "auto" else None), found
