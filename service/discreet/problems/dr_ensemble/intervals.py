"""How far the noise of a release may have moved a demand response: posterior draws of the counts
behind it, the answer to each of which is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.problems.accuracy import LEVEL, Interval, Uncertainty
from discreet.problems.dr_ensemble.control import ENERGIES, Control
from discreet.problems.dr_ensemble.estimates import (
    LEAST_DRAWS,
    Estimate,
    floors,
    single_moves,
)
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats, Ints
from discreet.solvers.control.control_policies import Policy
from discreet.solvers.estimation.share_ends import RowShares

DRAWS = 200
MOST_NUMBERS = 10_000_000
"""Numbers of all draws together: transitions, and states of all steps. Larger problems get fewer
draws; those that would get fewer than `LEAST_DRAWS` get none."""
STRETCH = (1.1, 0.5)
"""The factor by which an interval is wider than its draws say: 1.1, plus either half of the share
of the noise or the noise of the rows that the answer relies on and that are not weak, whichever is
more. Without it, 90 % intervals of loads covered the truth .88 times at a share of .01 and .52
times at one of .7: cells are not quite exchangeable."""
MOST_RELIED = 0.1
"""The share of loads at step 0, or of all their steps, in states whose rows are noise, beyond which
the load under control and the saving are said to be mostly noise."""
Marks = NDArray[np.bool_]
Reach = tuple[Floats, Floats]
"""How far numbers may fall and rise: <= 0 and >= 0."""
LOADS = ("default_power", "expected_power")
"""Fields that are means of the powers of the states. These lie within the range of the powers, to
which intervals are cut: what is cut off cannot be the truth, so coverage stays as it is."""
MOST_LIMITED, LIMITED_STEP = 4_000_000, 100
"""Where loads are limited, a policy within the limits is searched for in each draw: the most steps
of all draws together, in numbers of transitions, and what a step costs beside its transitions."""
MOST_STEPS = 40_000
"""The most steps of all draws together where policies are not the exact ones: these are computed
one by one."""


def uncertainty(
    control: Control,
    estimate: Estimate,
    policy: Policy,
    initial: Floats | None,
    answer: dict[str, Any],
) -> Uncertainty:
    """Intervals of the fields of `answer`, whatever the noise says of the release: whether there is
    one is chosen by public figures, but for `mostly_noise` without public participants, which
    follows from the sum of all counts.

    Of transitions those of `share_ends`, in which no row tells of another. Of loads, costs and
    savings the 5 and 95 % quantiles of the draws, made wider where they do not hold the answer.

    They are also widened by as far as the answer moves if moves that noise may hide were never
    made: all of them, those to less power, or those to more. Where many never are, each draw has
    some of them, and control exploits these: the load of a charging fleet was covered .62 times.

    And they are widened by as far as the answer moves if the rows that noise may have made what
    they are (`weak`) are anything that noise leaves open, all at once. Rows are told from noise by
    the very noise that they have: of a row that is hardly ever visited, only those releases say
    something in which its noise is large, and all draws believe it. Without this, savings were
    covered .75 times, and loads left alone .61 times. So it does not matter which rows are called
    noise, and answers that rely on these have intervals too, wide ones.

    policy: that of the answer; initial: float64[n], or None for that of the release. No intervals
    are given for an answer whose counts are mostly noise, one too large to be drawn often enough,
    and a policy that is itself made of draws. Where loads under control and savings rely on rows of
    noise the answer is called mostly noise too: they are what was asked for.
    """
    rows = estimate.noise_dominates()
    start = control.start(estimate.visits) if initial is None else initial
    first, widths = control.first_rows(rows).astype(bool), estimate.row_noise()
    times = [control.time(moves, start) for moves in (estimate.transitions, policy)]
    relied = (
        max(float(start[first].sum()), *(float(time[rows].sum()) for time in times)) > MOST_RELIED
    )
    matrix = estimate.public.matrix
    said = Uncertainty(
        level=LEVEL,
        values={},
        noise_dominates={
            matrix: rows.tolist(),
            "cost_to_go": first.tolist(),
            **dict.fromkeys(("expected_power", "saving"), relied),
            **dict.fromkeys((name for name in ENERGIES if name in answer), relied),
        },
        # What a person reads first are the saving and the load: where both are noise, so is the
        # answer.
        mostly_noise=estimate.mostly_noise or relied,
    )
    draws, shares = draws_of(control), estimate.row_shares()
    drawn = estimate.draw(draws) if draws >= LEAST_DRAWS else None
    if drawn is None or shares is None:
        return said
    matrices, visits = drawn
    begun = control.start(visits) if initial is None else initial
    found = control.answers(matrices, begun)
    moved = reaches(control, estimate, shares, answer, initial, start, np.maximum(*times), draws)
    strong = np.where(shares.weak, 0.0, widths)
    noise = max(
        float(start @ control.first_rows(strong)), *(float(time @ strong) for time in times)
    )
    stretch = STRETCH[0] + max(STRETCH[1] * estimate.share, noise)
    said["values"][matrix] = _of_moves(estimate.public, shares)
    for name, values in found.items():
        exact = np.asarray(answer[name])
        ends = _ends(control, name, exact) if name in LOADS else None
        said["values"][name] = _interval(values, exact, stretch, moved[name], ends)
    return said


def reaches(
    control: Control,
    estimate: Estimate,
    shares: RowShares,
    answer: Mapping[str, Any],
    initial: Floats | None,
    start: Floats,
    relied: Floats,
    most: int,
) -> dict[str, list[Reach]]:
    """By how far each field of `answer` moves if moves that noise may hide were never made, and if
    weak rows are anything that `shares` leaves open: of those that loads rely on most (`relied`
    float64[rows]), together of at most `most` transitions."""
    bare, seen = estimate.bare(control.power)
    lean = control.answers(bare, control.start(seen) if initial is None else initial)
    moved = {name: [_span(value - answer[name])] for name, value in lean.items()}
    weak = _weak(shares.weak, relied, estimate.public.widths(), most)
    if weak.size:
        others = control.answers(single_moves(estimate.public, estimate.transitions, weak), start)
        for name, each in others.items():
            moved[name].append(_reach(estimate.public, shares, weak, each - answer[name]))
    return moved


def _span(moved: Floats) -> Reach:
    """The most that an answer is moved down and up, of an axis in front."""
    return np.minimum(moved.min(axis=0), 0.0), np.maximum(moved.max(axis=0), 0.0)


def _of_moves(public: DrEnsemblePublic, shares: RowShares) -> Interval:
    """Of transitions, as matrices; null where all that is possible is left open."""
    mask, floor = public.mask(), floors(public)[:, None]
    unknown = (shares.lower <= 0) & (shares.upper >= 1)
    blocks = () if public.day is None else (public.blocks,)
    found = []
    for end in (shares.lower, shares.upper):
        matrix = np.zeros((*blocks, *mask.shape))
        matrix[..., mask] = np.where(unknown, np.nan, end).reshape(*blocks, -1)
        rest = 1 - mask.sum(axis=1)[:, None] * floor
        found.append(_known(np.where(mask, floor + rest * matrix, 0.0)))
    return Interval(lower=found[0], upper=found[1])


def _known(numbers: Floats) -> Any:
    """The numbers as lists, with None for NaN."""
    found = np.array(numbers, dtype=object)
    found[np.isnan(numbers)] = None
    return found.tolist()


def _reach(public: DrEnsemblePublic, shares: RowShares, rows: Ints, moved: Floats) -> Reach:
    """How far an answer may fall and rise, where each of the `rows` is anything that `shares`
    leaves open.

    moved: float64[moves, …], by how much it is moved if loads make each single move of these rows
    alone; between, it is taken for linear, and for the sum of what rows do: as far as possible from
    the answer by the best mixture of a row's moves, or along the way to a single one.
    """
    width = public.widths()
    first, place = np.cumsum(width) - width, 0
    low, high = np.zeros(moved[0].size), np.zeros(moved[0].size)
    for row in rows.tolist():
        cells = slice(first[row], first[row] + width[row])
        own = moved[place : place + width[row]].reshape(width[row], -1)
        place += width[row]
        answer, least, most = (
            one[cells, None] for one in (shares.answer, shares.lower, shares.upper)
        )
        alone = (most - answer) / np.maximum(1 - answer, 1e-300)
        for sign, end in ((-1.0, low), (1.0, high)):
            gain = sign * own
            order = np.argsort(-gain, axis=0)
            room = (most - least)[order, 0]
            left = 1 - least.sum() - (np.cumsum(room, axis=0) - room)
            taken = np.clip(left, 0.0, room) * np.take_along_axis(gain, order, axis=0)
            mixed = taken.sum(axis=0) + ((least - answer) * gain).sum(axis=0)
            farthest = np.maximum(np.maximum(mixed, (alone * gain).max(axis=0)), 0.0)
            np.add(end, sign * farthest, out=end)
    return low.reshape(moved.shape[1:]), high.reshape(moved.shape[1:])


def draws_of(control: Control) -> int:
    """How many draws a problem of this size gets."""
    horizon, states = control.utility.shape
    draws: int = min(DRAWS, MOST_NUMBERS // (states * max(control.blocks * states, horizon)))
    if control.limits is not None:
        limited: int = MOST_LIMITED // (horizon * (states**2 + LIMITED_STEP))
        return min(draws, limited)
    if control.policy == "exact":
        return draws
    return 0 if control.samples else min(draws, MOST_STEPS // horizon)


def _ends(control: Control, name: str, answer: Floats) -> tuple[Floats, Floats]:
    """The least and the most that a load can be in each step; under control at most its limits,
    except where the answer itself is beyond them."""
    least, most = (np.full(answer.size, end) for end in (control.power.min(), control.power.max()))
    if control.limits is not None and name == "expected_power":
        most = np.maximum(np.minimum(most, control.limits.feeder), answer)
    return least, most


def _weak(weak: Marks, relied: Floats, width: Ints, most: int) -> Ints:
    """int64: weak rows that loads visit, the most visited first; together of at most `most`
    transitions."""
    rows = np.flatnonzero(weak & (relied > 0))
    rows = rows[np.argsort(-relied[rows], kind="stable")]
    some: Ints = rows[np.cumsum(width[rows]) <= most]
    return some


def _interval(
    draws: Floats,
    answer: Floats,
    stretch: float,
    moved: Sequence[Reach],
    ends: tuple[Floats, Floats] | None = None,
) -> Interval:
    """The quantiles of the draws, stretched about their median, but not beyond all draws and the
    answer; then extended on either side by as much as the answer may have `moved`, for each reason
    in turn.

    ends: the least and the most that is possible at all, which the interval is cut to; null where
    it is all of that.
    """
    tail = (1 - LEVEL) / 2
    least, lower, middle, upper, most = np.quantile(draws, (0, tail, 0.5, 1 - tail, 1), axis=0)
    lower = np.minimum(np.maximum(middle - stretch * (middle - lower), least), answer)
    upper = np.maximum(np.minimum(middle + stretch * (upper - middle), most), answer)
    for down, up in moved:
        lower, upper = lower + down, upper + up
    if ends is not None:  # also the answer, which may be beyond them by a rounding
        unknown = (lower <= ends[0]) & (upper >= ends[1]) & (ends[0] < ends[1])
        lower, upper = np.maximum(lower, ends[0]), np.minimum(upper, ends[1])
        lower, upper = np.minimum(lower, answer), np.maximum(upper, answer)
        lower, upper = (np.where(unknown, np.nan, end) for end in (lower, upper))
    return Interval(lower=_known(lower), upper=_known(upper))
