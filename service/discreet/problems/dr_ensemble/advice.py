"""What a plan of a demand response predicts and advises, from public figures alone.

Their model of the loads is public too: they stay where they are half of the time, where the support
allows it, and move evenly to the other states that it allows. Noise of the plan is drawn around
what that counts, with one seed, and each draw is asked what the request asks: so far off will the
answer be. Intervals are made wider for what noise may hide, which is told besides. How wide they
will be depends on the loads: .4 to 5 times what is told here, and up to ten times where a state is
hardly ever visited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri

from discreet.problems.accuracy import Expected
from discreet.problems.contents import Profile
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.estimates import (
    LARGEST_SHARE,
    NoisyCounts,
    balance,
    floored,
)
from discreet.problems.dr_ensemble.intervals import MOST_RELIED, STRETCH, reaches
from discreet.problems.dr_ensemble.measurements import price_in_words
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats
from discreet.problems.dr_ensemble.result import MONEY, POWER
from discreet.problems.dr_ensemble.signal import Worlds
from discreet.problems.plans import Plan
from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.estimation.posterior_cells import Kind
from discreet_client.intervals import percent, plain

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
        f"{where} in which fewer than {plain(least)} {among}participants are on average has a "
        "row of mostly noise"
    )
    if public.participants is not None and least > public.participants:
        return f"{says}: that is every state"
    return (
        f"{says}; where more than {percent(MOST_RELIED)} of the loads begin in such states or pass "
        "their time there, saving and load are mostly noise. Public figures cannot tell that: "
        "`discreet rehearse` tries this job on made-up loads first, for nothing"
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
