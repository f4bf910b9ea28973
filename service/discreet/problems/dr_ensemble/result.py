"""The fields of a demand-response result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field
from pydantic.config import JsonDict
from scipy.special import ndtri
from typing_extensions import TypedDict

from discreet.problems.contents import Profile, Released
from discreet.problems.dr_ensemble import estimates
from discreet.problems.dr_ensemble.clock import hours_of
from discreet.problems.dr_ensemble.control import ENERGIES, Control
from discreet.problems.dr_ensemble.dataset import price_in_words
from discreet.problems.dr_ensemble.estimates import (
    LARGEST_SHARE,
    Estimate,
    NoisyCounts,
    balance,
    floored,
    floors,
    single_moves,
)
from discreet.problems.dr_ensemble.limits import LimitsTold
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats, Ints
from discreet.problems.dr_ensemble.request import DrEnsembleRequest
from discreet.problems.dr_ensemble.signal import Worlds
from discreet.problems.plans import Plan
from discreet.problems.results import (
    LEVEL,
    LONGEST,
    NO_SIGN,
    NOISE,
    NOT_FROM_ZERO,
    Expected,
    Headline,
    Interval,
    SummedFields,
    Uncertainty,
    counted,
    figure,
    headline,
    only_noise,
    shown,
)
from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control import signals
from discreet.solvers.control.control_policies import Policy
from discreet.solvers.estimation.count_posterior import Kind, RowShares
from discreet_client import intervals
from discreet_client.intervals import percent, plain

# Intervals ----------------------------------------------------------------------------------------
# How far the noise of a release may have moved a demand response: posterior draws of the counts
# behind it, and what following the signal achieves for loads of each.

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
        kinds={},
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
        return with_kinds(said, control)
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
    return with_kinds(said, control)


def with_kinds(said: Uncertainty, control: Control) -> Uncertainty:
    """The same, with what each interval allows for: noise, and of energies where readings lie in
    the bins of their states."""
    said["kinds"] = {
        name: "noise_and_bins" if name in ENERGIES and control.edges is not None else NOISE
        for name in said["values"]
    }
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


# Result -------------------------------------------------------------------------------------------

POWER = "the unit of power of the states"
MONEY = "the money of the price"
ENERGY = "kWh of steps of meters, else the unit of power times a step"
WEEK_SECONDS = 604_800
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
UNIT: JsonDict = {"x-unit": POWER}


class States(TypedDict):
    """What the states and the steps of a result are, all of it public."""

    power: Annotated[
        list[float],
        Field(
            description="Power of each state: as asked, or the middle of its bin",
            json_schema_extra=UNIT,
        ),
    ]
    edges: NotRequired[
        Annotated[list[float], Field(description="State s is edges[s] <= kW < edges[s + 1]")]
    ]
    blocks: NotRequired[
        Annotated[list[int], Field(description="The step of the day at which each block begins")]
    ]
    day_steps: NotRequired[
        Annotated[int, Field(description="Steps of a day, after which blocks begin again")]
    ]
    day_begins: NotRequired[
        Annotated[str, Field(description="Time of step 0 of a day, by the clock of `meters.start`")]
    ]
    day_begins_on: NotRequired[
        Annotated[
            str,
            Field(description="Its day of the week, such as `Monday`, if the blocks repeat weekly"),
        ]
    ]
    first_step: NotRequired[
        Annotated[int, Field(description="The step of the day at which the horizon begins")]
    ]
    participants: NotRequired[
        Annotated[
            int,
            Field(
                description="Number of loads, if public: all together take so many times the "
                "power of one"
            ),
        ]
    ]
    step_seconds: NotRequired[
        Annotated[int, Field(description="Length of a step, if states come from meters")]
    ]


class DrEnsembleResult(SummedFields, total=False):
    """What follows from the released transitions."""

    states: Annotated[
        States, shown("Meaning of the states, from the problem and the public part of the dataset")
    ]

    transitions: Annotated[
        list[list[float]],
        shown(
            "The released default transition matrix P[from][to]; rows sum to 1",
            table=("from", "to", "probability"),
        ),
    ]
    block_transitions: Annotated[
        list[list[list[float]]],
        shown(
            "Instead of `transitions`, if the dataset has a `day`: [block][from][to]",
            table=("block", "from", "to", "probability"),
        ),
    ]
    signal: Annotated[
        list[list[float]],
        shown(
            "The signal that loads follow: what each state of a step costs more than the cheapest "
            "one, from there on. A load draws its own next state a, accepts it with probability "
            "exp(-signal[step + 1][a] / discomfort_weight), else draws again. All 0: no control",
            unit=MONEY,
            table=("step", "state", "cost"),
        ),
    ]
    policy: Annotated[
        list[list[list[float]]],
        shown(
            "For loads whose moves can be ordered, probabilities that are optimal for the released "
            "transitions: [step][from][to]. What that saves is `policy_saving`",
            table=("step", "from", "to", "probability"),
        ),
    ]
    expected_power: Annotated[
        list[float],
        shown(
            "Expected power in each step of a load that follows the signal, from `initial`",
            unit=POWER,
            table=("step", "power"),
        ),
    ]
    default_power: Annotated[
        list[float], shown("Expected power without control", unit=POWER, table=("step", "power"))
    ]
    cost_to_go: Annotated[
        list[float],
        shown(
            "Expected cost of following the signal from each state at step 0, discomfort included",
            unit=MONEY,
            title="Expected cost by first state",
            table=("state", "cost"),
        ),
    ]
    saving: Annotated[
        float,
        shown(
            "What following the signal saves over all steps from `initial`, net of discomfort: of "
            "loads that may lie behind the release, the lower of two models' medians",
            unit=MONEY,
        ),
    ]
    policy_saving: Annotated[
        float,
        shown(
            "What ordering the probabilities of `policy` saves at least, net of discomfort; often "
            "a loss, as discomfort grows with every error of the released transitions",
            unit=MONEY,
        ),
    ]
    energy_ratio: Annotated[
        float,
        shown(
            "Energy over all steps if the signal is followed, divided by that without control: "
            "below 1 load is shed, at 1 it is shifted"
        ),
    ]
    limits: Annotated[LimitsTold, shown("How the policy keeps the `limits` that were asked for")]
    event: Annotated[
        list[int], shown("The steps of `event_saving`, as asked or the expensive ones")
    ]
    event_saving: Annotated[
        float,
        shown(
            "Energy that a load that follows draws less than without control during the event, "
            "over all its steps",
            unit=ENERGY,
        ),
    ]
    rebound: Annotated[
        float,
        shown(
            "Energy that a load that follows draws more than without control outside the event, "
            "before or after it",
            unit=ENERGY,
        ),
    ]
    cost_of_privacy: Annotated[
        list[list[float]],
        shown(
            "Extra cost of following the signal over the best control of the true loads; only for "
            "simulations",
            unit=MONEY,
            table=("step", "state", "cost"),
        ),
    ]
    true_expected_power: Annotated[
        list[float],
        shown(
            "Expected power under the best control of the true loads; only for simulations",
            unit=POWER,
            table=("step", "power"),
        ),
    ]
    true_default_power: Annotated[
        list[float],
        shown(
            "Expected power of the true loads without control; only for simulations",
            unit=POWER,
            table=("step", "power"),
        ),
    ]
    true_saving: Annotated[
        float,
        shown("The most that control of the true loads can save; only for simulations", unit=MONEY),
    ]
    achieved_power: Annotated[
        list[float],
        shown(
            "Expected power of the true loads if they follow the signal; only for simulations",
            unit=POWER,
            table=("step", "power"),
        ),
    ]
    achieved_saving: Annotated[
        float,
        shown("What the true loads save by following the signal; only for simulations", unit=MONEY),
    ]
    achieved_policy_saving: Annotated[
        float,
        shown(
            "What ordering the probabilities of `policy` saves the true loads; only for "
            "simulations",
            unit=MONEY,
        ),
    ]


def states_of(public: DrEnsemblePublic, control: Control, first_step: int) -> States:
    """What tells a reader of the result alone what its states and steps are."""
    said = States(power=control.power.tolist())
    if public.edges is not None:
        said["edges"] = list(public.edges)
    if public.participants is not None:
        said["participants"] = public.participants
    if public.meters is not None:
        said["step_seconds"] = public.meters.interval_seconds
    if public.day is not None:
        said["blocks"] = list(public.day.blocks)
        said["day_steps"] = public.day.steps
        said["first_step"] = first_step
        if public.meters is not None:
            said["day_begins"] = public.meters.start.strftime("%H:%M:%S")
            if public.day.steps * public.meters.interval_seconds % WEEK_SECONDS == 0:
                said["day_begins_on"] = WEEKDAYS[public.meters.start.weekday()]
    return said


def matrix_rows(matrix: Floats, mask: NDArray[np.bool_]) -> pa.Table:
    """One row a transition of the support; of matrices float64[blocks, n, n] one in each block."""
    origin, to = np.nonzero(mask)
    if matrix.ndim == 2:
        return pa.table({"from": origin, "to": to, "probability": matrix[origin, to]})
    blocks = len(matrix)
    return pa.table(
        {
            "block": np.repeat(np.arange(blocks), origin.size),
            "from": np.tile(origin, blocks),
            "to": np.tile(to, blocks),
            "probability": matrix[:, origin, to].ravel(),
        }
    )


def signal_rows(signal: Floats) -> pa.Table:
    """One row a step and state."""
    step, state = np.indices(signal.shape)
    return pa.table({"step": step.ravel(), "state": state.ravel(), "cost": signal.ravel()})


def policy_rows(policy: Policy, mask: NDArray[np.bool_], steps: int) -> pa.Table:
    """One row a step and transition of the support."""
    origin, to = (axis.astype(np.int32) for axis in np.nonzero(mask))
    return pa.table(
        {
            "step": np.repeat(np.arange(steps, dtype=np.int32), origin.size),
            "from": np.tile(origin, steps),
            "to": np.tile(to, steps),
            "probability": np.concatenate([policy.at(step)[origin, to] for step in range(steps)]),
        }
    )


# Advice -------------------------------------------------------------------------------------------
# What a plan of a demand response predicts and advises, from public figures alone.
#
# Their model of the loads is public too: they stay where they are half of the time, where the
# support allows it, and move evenly to the other states that it allows. Noise of the plan is drawn
# around what that counts, with one seed, and each draw is asked what the request asks: so far off
# will the answer be. Intervals are made wider for what noise may hide, which is told besides. How
# wide they will be depends on the loads: .4 to 5 times what is told here, and up to ten times where
# a state is hardly ever visited.

DRAWS, LEAST_DRAWS = 64, 8
MOST_WORK = 5_000_000
"""Transitions of all steps and draws together; larger problems get fewer draws, and from
`LEAST_DRAWS` on nothing is told."""
SEED = 18
STAYING = 0.5
MODEL_STEPS = 200
MODEL = (
    "these figures are for loads that stay in their state half of the time and otherwise move "
    "evenly; for other loads they are mostly half to twice as large, and intervals are half to "
    "five times as wide, up to ten times where loads are hardly ever in some state"
)
ALL_HOURS = (
    "one matrix holds for all hours: without control the loads go to their mean and stay there, so "
    "no evening peak is seen. A `day` in the public part gives hours their own, and has to be "
    "chosen when the data are registered"
)
TOLD_WIDER = 4 / 3
ALLOWS = "as it also allows for what noise may hide"
"""From how much wider on, in parts of the accuracy, the width of an interval is told besides."""
WIDER = {"saving": 1.35, "cost_to_go": 1.35}
"""Times the model's errors: those of other chains are more, as hardly any chain is as evenly spread
as it."""
MARGIN = {"saving": 2.0, "cost_to_go": 1.5}
"""Times what is told for an accuracy from public figures: of one load in five, those hardly ever in
some state, answers move twice as far and more. With it accuracies are kept as often as is asked,
over the loads of `make bench ARGS=inverse`."""
TOOK = {
    False: {
        "transitions": (0.71, 2.41),
        "block_transitions": (0.71, 2.41),
        "expected_power": (0.55, 1.83),
        "saving": (0.16, 1.2),
        "cost_to_go": (0.35, 2.11),
    },
    True: {
        "transitions": (0.51, 1.08),
        "block_transitions": (0.51, 1.08),
        "expected_power": (0.62, 1.94),
        "saving": (0.73, 0.96),
        "cost_to_go": (0.6, 1.06),
    },
}
"""`Expected.took`: from public figures, and around an earlier release."""
USUAL_STEPS = 100
"""Of a record, where the number of steps is not public."""
WIDE = 0.05
"""Half of a bin's width, of the largest power, from which on its middle is said to be far off."""


def moves(public: DrEnsemblePublic, staying: float = STAYING) -> Floats:
    """The public model's transition matrix float64[n, n]."""
    mask = public.mask()
    others = mask & ~np.eye(public.states, dtype=bool)
    width = others.sum(axis=1)
    stays = np.where(np.diag(mask), np.where(width > 0, staying, 1.0), 0.0)
    matrix: Floats = others * ((1 - stays) / np.maximum(width, 1))[:, None] + np.diag(stays)
    return matrix


def time(matrix: Floats, start: Floats | None, steps: int | None) -> Floats:
    """float64[n]: how the time of records of so many steps is spread over the states by the model,
    from `start`."""
    shares = np.full(len(matrix), 1 / len(matrix)) if start is None else start
    spread = np.zeros(len(matrix))
    for _ in range(min(MODEL_STEPS, (steps or USUAL_STEPS) - 1)):
        spread += shares
        shares = shares @ matrix
    normalized: Floats = spread / spread.sum()
    return normalized


def expectations(
    public: DrEnsemblePublic,
    plan: Plan,
    control: Control,
    initial: Floats | None,
    confidence: float,
    around: Profile | None = None,
) -> Iterator[Expected]:
    """Transitions, load, saving and costs, in this order; nothing where their size is neither
    public nor released. `around`: what an earlier release says of such loads stands for them, in
    place of the model."""
    event: Any
    (event,), counts = plan.events, plan.parameters["method"] == "counts"
    model = moves(public) if around is None else around["transitions"]
    names = (public.matrix, "expected_power", "saving", "cost_to_go")
    people = public.participants or (
        0.0 if around is None else float(around.get("participants", 0.0))
    )
    horizon, states = control.utility.shape
    draws = min(DRAWS, MOST_WORK // (horizon * states**2 * public.blocks))
    if draws < LEAST_DRAWS or (counts and not people) or control.samples:
        return
    if counts and public.steps is not None and states * public.cells > MOST_WORK:
        return  # flow balance is a matrix of that size, in the process that plans for everybody
    mask, rng = public.mask(), np.random.default_rng(SEED)
    visits = time(model, initial, public.steps) if around is None else around["visits"]
    if public.day is not None:  # each block has the model's matrix, or its own of the release
        model = np.broadcast_to(model, (public.blocks, states, states))
        visits = np.broadcast_to(visits, (public.blocks, states))
    stretch, share, total, deviation = 1.0, 0.0, 0.0, 0.0
    if counts:
        deviation, total = event.deviation() / plan.parameters["grid"], float(people)
        total *= plan.parameters.get("kept", 1.0)
        share = public.cells * deviation / math.sqrt(2) / total
        stretch = STRETCH[0] + STRETCH[1] * share
        moved = (visits[..., None] * model)[..., mask].reshape(public.blocks, -1)
        true = (total * public.shares[:, None] * moved).ravel()
        drawn = floored(public, _noisy(public, true, deviation, draws, rng))
    else:
        drawn = np.zeros((draws, *mask.shape))
        for row in range(states):
            alpha = (
                event.scale * np.maximum(model[row], public.min_probability or 0)[mask[row]]
                + event.offset
            )
            drawn[:, row, mask[row]] = rng.dirichlet(alpha, draws)
    start = control.start(visits) if initial is None else initial
    signal, own = control.values(model[None], start)[0], control.values(drawn, start)
    answer = control.followed(model[None], signal, start)
    # What an answer tells of following the signal made of it, and what that achieves in truth.
    told_of = control.followed(drawn, own, start)
    achieved = control.followed(np.broadcast_to(model, drawn.shape), own, start)
    wider = (
        _wider(public, plan, control, true, signal, answer, initial, start, draws) if counts else {}
    )
    lost = counts and _relies_on_noise(public, control, model, start, visits * total, deviation)
    wide = stretch * float(ndtri((1 + confidence) / 2))
    sure = f"with {percent(confidence)}"
    for name, unit, what in zip(
        names,
        (
            "as a probability",
            f"in {POWER if public.edges is None else 'kW'}",
            f"in {MONEY}",
            f"in {MONEY}",
        ),
        (
            "the probability of a transition",
            "the expected load of a step",
            "the saving",
            "the expected cost from a state",
        ),
        strict=True,
    ):
        exact, truth, found = (
            (model, model, drawn)
            if name == public.matrix
            else (answer[name][0], achieved[name], told_of[name])
        )
        errors = np.sqrt(np.mean((found - truth) ** 2, axis=0))
        other = WIDER.get(name, 1.0) if around is None else 1.0
        within = (
            other
            * wide
            * float(errors[..., mask].mean() if name == public.matrix else errors.mean())
        )
        size = float(np.abs(model[..., mask] if name == public.matrix else exact).mean())
        near = f"± {plain(within)} {sure} (it is about {plain(size)}, {unit})"
        says = f"{what} within about {near}"
        if (
            share > LARGEST_SHARE
            or within > 2 * size
            or (lost and name in ("saving", "expected_power"))
        ):
            says = f"{what} is expected to be mostly noise: about {near}"
            within = math.inf
        margin = MARGIN.get(name, 1.0) if around is None else 1.0
        interval = None
        if name in wider and math.isfinite(within):
            half = other * wide * errors + wider[name]
            if name == "expected_power":  # to which intervals are cut
                half = np.minimum(half, float(np.ptp(control.power)) / 2)
            interval = float(half.mean())
            if interval > TOLD_WIDER * within:
                says += f"; its interval will be wider, about ± {plain(interval)}, {ALLOWS}"
        yield Expected(
            name,
            within,
            unit,
            says,
            size,
            margin=margin,
            took=TOOK[around is not None].get(name),
            interval=interval,
        )


def _wider(
    public: DrEnsemblePublic,
    plan: Plan,
    control: Control,
    true: Floats,
    signal: Floats,
    answer: dict[str, Any],
    initial: Floats | None,
    start: Floats,
    most: int,
) -> dict[str, Floats]:
    """By how much half of each interval of a result is wider than its draws say, were the model's
    counts `true` float64[cells] released."""
    event: Any
    (event,), grid = plan.events, plan.parameters["grid"]
    kind: Kind = "laplace" if event.noise == "discrete_laplace" else "gaussian"
    estimate = NoisyCounts(
        public, event.deviation() / grid, true, noisy=true, scale=event.scale / grid, kind=kind
    )
    shares = estimate.row_shares()
    assert shares is not None
    relied = control.time(estimate.transitions, start)
    exact = {name: value[0] for name, value in answer.items()}
    matrices, visits = estimate.bare(control.power)
    begun = control.start(visits) if initial is None else initial
    worlds = Worlds((), (matrices, np.broadcast_to(begun, (len(matrices), start.size))))
    moved = reaches(control, estimate, shares, signal, exact, start, worlds, [relied], most)
    del moved["saving"]  # its interval is of draws, but where rows are mostly noise
    return {
        name: sum((up - down for down, up in each), np.zeros_like(exact[name])) / 2
        for name, each in moved.items()
    }


def _relies_on_noise(
    public: DrEnsemblePublic,
    control: Control,
    model: Floats,
    start: Floats,
    sums: Floats,
    deviation: float,
) -> bool:
    """Whether by the model too many loads begin in states whose rows are noise, or pass their time
    there; as of a result (`intervals`). sums: of the rows of each block, in participants, were all
    moves in it."""
    width = public.widths()
    found = (public.shares[:, None] * sums.reshape(public.blocks, -1)).ravel()
    noise = (width > 1) & (deviation * np.sqrt(width) >= found)
    begun = float(start[control.first_rows(noise)].sum())
    return max(begun, float(control.time(model, start)[noise].sum())) > MOST_RELIED


def _noisy(
    public: DrEnsemblePublic, true: Floats, deviation: float, draws: int, rng: np.random.Generator
) -> Floats:
    """Counts float64[draws, cells] about the true ones, as far as a posterior is from them: a
    normal one, of a prior as wide as the mean count, and with flow balance."""
    prior = true.mean()
    variance = np.full(true.size, deviation**2 * prior**2 / (deviation**2 + prior**2))
    moved = np.sqrt(variance) * rng.standard_normal((draws, true.size))
    if (known := balance(public, true.sum())) is not None:
        A = known.weights
        spread = variance * A
        target = known.deviation * rng.standard_normal((draws, len(A)))
        moved += (target - moved @ A.T) @ np.linalg.solve(
            A @ spread.T + np.diag(known.deviation**2), spread
        )
    counts: Floats = np.maximum(true + moved, 0.0)
    return counts


def row_advice(public: DrEnsemblePublic, deviation: float) -> str:
    """From which count on a row can be told from noise."""
    width = int(public.mask().sum(axis=1).max())
    least = deviation * math.sqrt(width) / float(public.shares[public.shares > 0].min())
    among = "" if public.participants is None else f"of {public.participants} "
    where = "a state" if public.day is None else "in the shortest block a state"
    says = (
        f"{where} with fewer than {plain(least)} {among}participants on average will have "
        "transitions of mostly noise"
    )
    if public.participants is not None and least > public.participants:
        return f"{says}: that is every state"
    return (
        f"{says}; if more than {percent(MOST_RELIED)} of the loads begin or stay there, so will "
        "saving and load. Public figures cannot tell: `discreet rehearse` tries this job on "
        "made-up loads, free"
    )


def bins_advice(public: DrEnsemblePublic) -> tuple[str, ...]:
    """How far the power of a state may be off, where it is the middle of a wide bin."""
    assert public.edges is not None
    edges = np.array(public.edges)
    half = float(np.diff(edges).max()) / 2
    if half < WIDE * float(np.abs(edges).max()):
        return ()
    return (
        f"each state counts as the middle of its bin, so a load may be up to {plain(half)} kW off "
        "at any epsilon, which intervals do not tell: narrower `edges` mend that, or a `power` "
        "for each state that everybody may know",
    )


def price_advice(price: tuple[float, ...] | None, public: DrEnsemblePublic) -> tuple[str, ...]:
    """The price per kWh, if the length of a step is known."""
    if price is None or public.meters is None:
        return ()
    taken = price_in_words(price, public.meters.interval_seconds)
    return (f"`price` is {taken}; saving and costs are in the same money",)


def policy_advice(
    public: DrEnsemblePublic, control: Control, initial: Floats | None
) -> tuple[str, ...]:
    """What following the policy costs more than following the exact one of the same matrix, by the
    public model. It is not the cost of privacy of the paper's Corollaries 1 to 3: that compares
    minima of two Bellman equations, this evaluates both policies on one matrix."""
    horizon, states = control.utility.shape
    if control.policy == "exact" or control.samples or horizon * states**2 > MOST_WORK:
        return ()
    model = moves(public)
    start = time(model, initial, public.steps) if initial is None else initial
    cost = lsmdp.cost_of_privacy(
        control.solve(model), model, control.utility, control.discomfort_weight
    )
    k = plain(control.concentration or math.nan, 4)
    return (
        f"the {control.policy} policy at k = {k} costs a load {plain(float(start @ cost[0]), 3)} "
        f"more than the exact one would, in {MONEY}, of loads as the model has them. It protects "
        "nobody more: all policies are made of the same release",
    )


def day_advice(public: DrEnsemblePublic) -> str:
    """The cost of blocks of hours in noise."""
    least = percent(float(public.shares.min()))
    return (
        f"the {public.blocks} blocks of the day cost no more than one matrix would, but each has "
        f"the noise of the whole for its part of the moves, {least} in the shortest: fewer blocks "
        "are less noisy, more follow the day nearer"
    )


# Headline -----------------------------------------------------------------------------------------
# The answer of a demand response: what following the signal achieves.

UNKNOWN = (NO_SIGN, NOT_FROM_ZERO)
"""Said of a saving of which it is not known whether there is one: then nothing is said of how much
energy it takes."""
SAME = 0.05
"""How far from 1 the ratio of energies may be where load is called shifted."""
NET = "net of discomfort"
NO_CONTROL = "No control: no signal saves something in every case that noise leaves open"


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """What following the signal saves, its lower end first; how much energy is shed; states whose
    moves are mostly noise; of simulations what it saves in truth."""
    found = []
    limits = result.get("limits")
    of_limits = [Headline(one) for one in limits["says"].split(". ")] if limits else []
    if limits and not limits["kept"]:
        found += of_limits
    idle = "signal" in result and not np.any(result["signal"])
    if idle:
        found.append(Headline(NO_CONTROL))
    elif "saving" in result:
        states, lost = result.get("states", {}), intervals.is_mostly_noise(result)
        each = "meter" if "step_seconds" in states else "load"
        # Limits may cost more than prices save: then that is what is at least so much.
        upper = ((result.get("uncertainty") or {}).get("values", {}).get("saving") or {}).get(
            "upper"
        )
        loses = upper is not None and upper < 0
        told = _turned(result, "saving") if loses else result
        verb = "costs" if loses else "saves"
        one = headline(DrEnsembleResult, told, "saving", f"Following the signal {verb} ")
        said = _least(told, f" per {each}", f", {'discomfort included' if loses else NET}")
        found.append(
            replace(
                one,
                before=f"{one.before}{said[0]}",
                figure=said[1],
                after=said[2],
                unit=_money(problem, result),
            )
        )
        people = states.get("participants")
        if people and not lost:
            found += _together(told, people, "pay" if loses else "save")
        ratio = result.get("energy_ratio")
        if ratio is not None and not lost and one.good_for not in UNKNOWN:
            found.append(_energy(ratio))
    if limits and limits["kept"]:
        found += of_limits
    if "event_saving" in result and not idle:
        found += _event(problem, result)
    noise, states = only_noise(
        result, "block_transitions" if "block_transitions" in result else "transitions"
    )
    if noise:
        what = (
            counted(states, "state")
            if "transitions" in result
            else f"{states:,} states in blocks of the day"
        )
        found.append(Headline("Transitions from ", f"{noise:,} of {what}", " are mostly noise"))
    if {"achieved_saving", "true_saving"} <= result.keys():
        best = f"; the best control saves {figure(result, 'true_saving')}"
        found.append(
            Headline(
                "Simulation: on the true data it saves ", figure(result, "achieved_saving"), best
            )
        )
    return found


def _least(result: Mapping[str, Any], each: str, after: str) -> tuple[str, str, str]:
    """Of a saving the words before its figure, the figure, and the words after it: the lower end
    where that is above 0 as it is written, else the median. Ends are rounded outward."""
    said = (result.get("uncertainty") or {}).get("values", {}).get("saving") or {}
    lower, upper = said.get("lower"), said.get("upper")
    if lower is None or upper is None:
        noted = " (mostly noise)" if intervals.is_mostly_noise(result) else ""
        return "", f"{plain(result['saving'], 4)}{noted}", f"{each}{after}"
    value = intervals.with_interval(result["saving"], lower, upper, LEVEL).partition(" (")[0]
    low, high = intervals.outward(lower, upper)
    kind = intervals.kind_of(result, "saving")
    between = f" ({intervals.between_ends(low, high, LEVEL, kind)})"
    sure = low.strip("-0.,") != "" and lower > 0  # at least 0 says nothing
    return (
        ("at least ", low, f"{each}{between}{after}")
        if sure
        else ("", value, f"{each}{between}{after}")
    )


def _energy(ratio: float) -> Headline:
    if abs(ratio - 1) <= SAME:
        return Headline("Energy use stays at ", percent(ratio), ": load is shifted, not shed")
    if ratio < 1:
        return Headline("Energy use falls to ", percent(ratio), ": load is shed, not shifted")
    return Headline("Energy use rises to ", percent(ratio))


def _money(problem: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What the price was taken for, where steps have a known length: nobody can see that of a
    number."""
    seconds, price = result.get("states", {}).get("step_seconds"), problem.get("price")
    return f"{MONEY}, {price_in_words(price, seconds)}" if seconds and price else MONEY


def _together(result: Mapping[str, Any], people: int, verb: str) -> list[Headline]:
    """Of all participants what is told of one, with their highest loads where these are told."""
    least, saved, more = _least(_times(result, people, "saving"), "", "")
    found = [Headline(f"All {people:,} together {verb} {least}", saved, more)]
    if {"default_power", "expected_power"} <= result.keys():
        kw = " kW" if "edges" in result["states"] else ""
        before, now = (
            figure(_times(result, people, name, int(np.argmax(result[name]))), name, between=kw)
            for name in ("default_power", "expected_power")
        )
        found.append(Headline("Highest total load: ", now, f"; without control {before}"))
    return found


def _times(
    result: Mapping[str, Any], people: int, name: str, step: int | None = None
) -> dict[str, Any]:
    """A number of one load, or that of one step, as one of all loads, with its interval where it
    has one."""
    said = result.get("uncertainty") or {}
    value, ends = result[name], said.get("values", {}).get(name) or {}
    if step is not None:
        value, ends = value[step], {end: one[step] for end, one in ends.items()}
    values = (
        {name: {end: people * one for end, one in ends.items()}}
        if ends and None not in ends.values()
        else {}
    )
    lost = said.get("noise_dominates", {}) if step is None else {}
    known = {"uncertainty": {**said, "values": values, "noise_dominates": lost}} if said else {}
    return {name: people * value, **known}


def _event(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """What a load that follows draws less in the steps of the event, and more at other times."""
    states = result["states"]
    unit, each = (" kWh", "meter") if "step_seconds" in states else ("", "load")
    when = hours_of(problem, states, result["event"])
    found = []
    for name, where, higher, lower in (
        ("event_saving", f"During the event ({when})", "less", "more"),
        ("rebound", "Outside the event", "more", "less"),
    ):
        plus = result[name] >= 0
        signed, how = (result, higher) if plus else (_turned(result, name), lower)
        before = f"{where} each {each} uses "
        one = headline(DrEnsembleResult, signed, name, before, between=f"{unit} {how}")
        if len(one.text) > LONGEST:
            one = replace(one, before=f"During the event each {each} uses ")
        found.append(replace(one, unit="kWh" if unit else one.unit))
    return found


def _turned(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The result with the other sign of one number."""
    said = result.get("uncertainty") or {}
    ends = said.get("values", {}).get(name) or {}
    turned = {name: {"lower": -ends["upper"], "upper": -ends["lower"]}} if ends else {}
    values = {**said.get("values", {}), **turned}
    return {
        **result,
        name: -result[name],
        **({"uncertainty": {**said, "values": values}} if said else {}),
    }


# Truth --------------------------------------------------------------------------------------------
# What a simulation adds to its result: what following the signal achieves on the true loads, and
# the most that could be.


def truth(
    problem: DrEnsembleRequest,
    public: DrEnsemblePublic,
    plan: Plan,
    released: Released,
    control: Control,
    signal: Floats,
    policy: Policy,
) -> dict[str, Any]:
    """Of a `problem.DrEnsemble`, whose `signal` is followed by loads that move as they do without
    noise."""
    unnoised = estimates.unnoised(public, plan, released)
    true = unnoised.transitions[None]
    start = (
        control.start(unnoised.visits)
        if problem.initial == "released"
        else np.array(problem.initial)
    )
    best = control.values(true, start)
    attained = control.followed(true, best[0], start)
    achieved = control.followed(true, signal, start)
    values = {
        **{
            f"true_{name}": attained[name][0]
            for name in ("expected_power", "default_power", "saving")
        },
        "achieved_power": achieved["expected_power"][0],
        "achieved_saving": control.savings(true, signal[None], start)[0, 0],
        "achieved_policy_saving": control.ordered([true], policy, start)[0][0],
    }
    # With limits the best is that of one start, and no state has a best of its own.
    if problem.limits is None:
        cost = signals.costs(
            true,
            np.array([signal, best[0]]),
            control.utility,
            control.discomfort_weight,
            at=control.at,
            steps=True,
        )[0]
        values["cost_of_privacy"] = np.maximum(cost[0] - cost[1], 0.0)
    return values
