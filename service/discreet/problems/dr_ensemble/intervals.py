"""How far the noise of a release may have moved a demand response: posterior draws of the counts
behind it, and what following the signal achieves for loads of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.problems.accuracy import LEVEL, Interval, Uncertainty
from discreet.problems.dr_ensemble.control import ENERGIES, Control
from discreet.problems.dr_ensemble.estimates import (
    Estimate,
    floors,
    single_moves,
)
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats, Ints
from discreet.problems.dr_ensemble.signal import Worlds
from discreet.solvers.control.control_policies import Policy
from discreet.solvers.estimation.share_ends import RowShares

STRETCH = (1.1, 0.5)
"""The factor by which an interval is wider than its draws say: 1.1, plus either half of the share
of the noise or the noise of the rows that the answer relies on and that are not weak, whichever is
more. Without it, 90 % intervals of loads covered the truth .88 times at a share of .01 and .52
times at one of .7: cells are not quite exchangeable."""
SAVING_STRETCH = 1.25
"""The same of savings, in place of 1.1: of loads without order, of which noise hides nothing, 90 %
intervals held .88 and .94 of 16 releases with 1.1."""
MOST_RELIED = 0.1
"""The share of loads at step 0, or of all their steps, in states whose rows are noise, beyond which
the load and the saving are said to be mostly noise."""
BARE = 3
"""Of the bare chains those that the interval of a saving holds; the others are of moves in one
direction, from which the ends of a load follow."""
Marks = NDArray[np.bool_]
Reach = tuple[Floats, Floats]
"""How far numbers may fall and rise: <= 0 and >= 0."""
LOADS = ("default_power", "expected_power")
"""Fields that are means of the powers of the states. These lie within the range of the powers, to
which intervals are cut: what is cut off cannot be the truth, so coverage stays as it is."""


def uncertainty(
    control: Control,
    estimate: Estimate,
    worlds: Worlds,
    signal: Floats,
    saved: list[Floats],
    initial: Floats | None,
    answer: Mapping[str, Any],
) -> Uncertainty:
    """Intervals of the fields of `answer`, which is what following the `signal` float64[T, n]
    achieves: of the true loads, not of the best that could be done. Whether there is one is chosen
    by public figures, but for `mostly_noise`.

    Of transitions those of `share_ends`, in which no row tells of another. Of savings the 5 and 95
    % quantiles of the draws of each posterior, made wider, together, and of the bare chains; of
    loads and costs those of the draws of the first posterior, made wider where they do not hold the
    answer.

    These are also widened by as far as the answer moves if moves that noise may hide were never
    made: all of them, those to less power, or those to more. Where many never are, each draw has
    some of them: the load of a charging fleet was covered .62 times.

    And they are widened by as far as the answer moves if the rows that noise may have made what
    they are (`weak`) are anything that noise leaves open, all at once. Rows are told from noise by
    the very noise that they have: of a row that is hardly ever visited, only those releases say
    something in which its noise is large, and all draws believe it. So it does not matter which
    rows are called noise, and answers that rely on these have intervals too, wide ones.

    saved: see `saved_of`; initial: float64[n], or None for that of the release. No intervals of
    loads and costs are given for an answer whose counts are mostly noise, and none at all for one
    too large to be drawn often enough. Where counts are mostly noise, or loads rely on rows of
    noise, and the sign of the saving is not known, the answer is called mostly noise.
    """
    rows = estimate.noise_dominates()
    start = control.start(estimate.visits) if initial is None else initial
    first, widths = control.first_rows(rows).astype(bool), estimate.row_noise()
    transitions = estimate.transitions
    times = [
        control.time(moves, start) for moves in (transitions, control.tilts(transitions, signal))
    ]
    relied = (
        max(float(start[first].sum()), *(float(time[rows].sum()) for time in times)) > MOST_RELIED
    )
    values = {}
    if worlds.posteriors:
        both = np.maximum(*times)
        values["saving"] = _of_saving(control, estimate, signal, saved, start, both)
    least: Any = values["saving"]["lower"] if values else 0.0
    # What a person asks for is the saving: where that is known the answer is not noise.
    noise = (estimate.mostly_noise or relied) and not least > 0
    matrix = estimate.public.matrix
    said = Uncertainty(
        level=LEVEL,
        values=values,
        noise_dominates={
            matrix: rows.tolist(),
            "cost_to_go": first.tolist(),
            "saving": noise,
            **dict.fromkeys(
                ("expected_power", *(name for name in ENERGIES if name in answer)), relied
            ),
        },
        mostly_noise=noise,
    )
    shares = estimate.row_shares()
    if not worlds.posteriors or estimate.mostly_noise or shares is None:
        return said
    matrices, begun = worlds.posteriors[0]
    found = control.followed(matrices, signal, begun)
    most = 2 * len(matrices)
    moved = reaches(control, estimate, shares, signal, answer, start, worlds, times, most)
    strong = np.where(shares.weak, 0.0, widths)
    relying = max(
        float(start @ control.first_rows(strong)), *(float(time @ strong) for time in times)
    )
    stretch = STRETCH[0] + max(STRETCH[1] * estimate.share, relying)
    said["values"][matrix] = _of_moves(estimate.public, shares)
    for name in found.keys() - {"saving"}:
        ends = _ends(control, answer[name]) if name in LOADS else None
        said["values"][name] = _interval(found[name], answer[name], stretch, moved[name], ends)
    if control.event is not None:
        _within_bins(control, estimate.public, signal, start, transitions, said)
    return said


def saved_of(control: Control, worlds: Worlds, signal: Floats) -> list[Floats]:
    """What it saves to follow the signal: in the draws of each posterior, then in the bare
    chains."""
    every = (*worlds.posteriors, worlds.bare)
    return [control.savings(moves, signal[None], start)[:, 0] for moves, start in every]


def policy_saving(
    control: Control, estimate: Estimate, worlds: Worlds, policy: Policy, start: Floats
) -> float:
    """What it saves at least to order the probabilities of the policy instead: the least of the
    lower ends of the posteriors, and if no load ever made a move that may be noise alone. Most of
    its cost is of those."""
    every = [moves for moves, _ in worlds.posteriors]
    *drawn, bare = control.ordered([*every, estimate.barest()[None]], policy, start)
    return min([float(bare[0]), *(_stretched(one, estimate.share)[0] for one in drawn)])


def _stretched(drawn: Floats, share: float) -> tuple[float, float]:
    stretch, tail = SAVING_STRETCH + STRETCH[1] * share, (1 - LEVEL) / 2
    low, middle, high = np.quantile(drawn, (tail, 0.5, 1 - tail)).tolist()
    return middle - stretch * (middle - low), middle + stretch * (high - middle)


def _of_saving(
    control: Control,
    estimate: Estimate,
    signal: Floats,
    saved: list[Floats],
    start: Floats,
    relied: Floats,
) -> Interval:
    """Of following the signal; rows that are mostly noise, though a tenth of the loads begins there
    or passes its time, may be anything that noise leaves open: both posteriors make the same of
    them."""
    ends = [(float(saved[-1][:BARE].min()), float(saved[-1][:BARE].max()))]
    ends += [_stretched(drawn, estimate.share) for drawn in saved[:-1]]
    lower, upper = min(low for low, _ in ends), max(high for _, high in ends)
    public, shares = estimate.public, estimate.row_shares()
    most = 2 * len(saved[0])
    begun = np.zeros(relied.size)
    begun[control.first_rows(np.arange(relied.size))] = start
    noise = estimate.noise_dominates() & (np.maximum(begun, relied) > MOST_RELIED)
    rows = _weak(noise, relied, public.widths(), most)
    if rows.size and shares is not None:
        alone = np.concatenate(
            [estimate.transitions[None], single_moves(public, estimate.transitions, rows)]
        )
        moved = control.savings(alone, signal[None], start)[:, 0]
        down, up = _reach(public, shares, rows, moved[1:] - moved[0])
        lower, upper = lower + float(down), upper + float(up)
    return Interval(lower=lower, upper=upper)


def reaches(
    control: Control,
    estimate: Estimate,
    shares: RowShares,
    signal: Floats,
    answer: Mapping[str, Any],
    start: Floats,
    worlds: Worlds,
    times: Sequence[Floats],
    most: int,
) -> dict[str, list[Reach]]:
    """By how far each field of `answer` moves if moves that noise may hide were never made, and if
    weak rows are anything that `shares` leaves open: of those that loads rely on most (`times`
    float64[rows] each), together of at most `most` transitions."""
    lean = control.followed(worlds.bare[0], signal, worlds.bare[1])
    moved = {name: [_span(value - answer[name])] for name, value in lean.items()}
    relied = np.maximum.reduce(times)
    weak = _weak(shares.weak, relied, estimate.public.widths(), most)
    if weak.size:
        alone = single_moves(estimate.public, estimate.transitions, weak)
        others = control.followed(alone, signal, start)
        for name, each in others.items():
            moved[name].append(_reach(estimate.public, shares, weak, each - answer[name]))
    return moved


def _within_bins(
    control: Control,
    public: DrEnsemblePublic,
    signal: Floats,
    start: Floats,
    transitions: Floats,
    said: Uncertainty,
) -> None:
    """Extends the intervals of energies by what bins leave open of the power of a state, where it
    is the middle of its bin, and cuts them to what is possible: no load draws less than the lowest
    edge or more than the highest, and none is saved that would not be drawn."""
    edges = control.edges
    low, high = (control.power.min(), control.power.max()) if edges is None else edges[[0, -1]]
    hours, event = control.hours, control.event
    assert event is not None
    loads = said["values"]["default_power"]
    ends = [np.array(loads[end], dtype=float) for end in ("lower", "upper")]
    least, most = (
        np.where(np.isnan(found), other, found)
        for found, other in zip(ends, (low, high), strict=True)
    )
    if edges is not None:  # a load of the lowest state may draw anything from the lowest edge on
        half = np.diff(edges).max() / 2
        least, most = np.maximum(least - half, low), np.minimum(most + half, high)
    saved = hours * np.sum((most - low)[event]), -hours * np.sum((high - least)[event])
    drawn = hours * np.sum((high - least)[~event]), -hours * np.sum((most - low)[~event])
    more = np.zeros((2, 2))
    if edges is not None:
        apart = control.spread(transitions, start) - control.spread(
            control.tilts(transitions, signal), start
        )
        middle = apart @ control.power
        both = apart[:, :, None] * np.stack([edges[:-1], edges[1:]], axis=1)
        for place, steps in enumerate((event, ~event)):
            open_to = both[steps].min(axis=2).sum(), both[steps].max(axis=2).sum()
            more[place] = hours * np.abs(np.array(open_to) - middle[steps].sum())
    for name, (top, bottom), (less, over) in zip(
        ENERGIES, (saved, drawn), (more[0], more[1][::-1]), strict=True
    ):
        one = said["values"][name]
        lower, upper = float(one["lower"]) - less, float(one["upper"]) + over
        said["values"][name] = Interval(
            lower=float(np.clip(lower, bottom, top)), upper=float(np.clip(upper, bottom, top))
        )


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


def _ends(control: Control, answer: Floats) -> tuple[Floats, Floats]:
    """The least and the most that a load can be in each step."""
    return (
        np.full(answer.size, control.power.min()),
        np.full(answer.size, control.power.max()),
    )


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
