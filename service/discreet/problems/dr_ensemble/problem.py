"""Demand response: how an ensemble of loads should be steered, without telling how anybody uses
power.

Loads move between the states of a public partition of power; how likely each move is by default is
private. One of two mechanisms releases a transition matrix; a signal by which loads tilt their own
moves, what following it achieves, and the policies of the linearly-solvable Markov decision process
are post-processing of that matrix. The paper (Hassan et al. 2021) calls policies private that are
functions of the private matrix; see `docs/problems/dr_ensemble.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet.errors import FieldIssue, InvalidInput
from discreet.privacy import calibration
from discreet.privacy.noise import Noise
from discreet.problems.base import ALWAYS, Neighbours, Synthesis
from discreet.problems.contents import MAX_ISSUES, Content, Profile, Progress, Released, Sums
from discreet.problems.dr_ensemble import estimates, examples, limits, result
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.dataset import (
    GRID,
    HOUR,
    SUM_TOLERANCE,
    DrEnsembleDataset,
    tariff_utility,
    transition_counts,
)
from discreet.problems.dr_ensemble.examples import SYNTHESIS
from discreet.problems.dr_ensemble.limits import event_steps
from discreet.problems.dr_ensemble.public import MAX_FIGURE, DrEnsemblePublic, Floats
from discreet.problems.dr_ensemble.request import DrEnsembleRequest
from discreet.problems.dr_ensemble.result import (
    ALL_HOURS,
    MODEL,
    MODEL_STEPS,
    SEED,
    USUAL_STEPS,
    DrEnsembleResult,
    bins_advice,
    day_advice,
    expectations,
    headlines,
    matrix_rows,
    moves,
    policy_advice,
    policy_rows,
    price_advice,
    row_advice,
    signal_rows,
    states_of,
    truth,
)
from discreet.problems.dr_ensemble.signal import chosen, worlds_of
from discreet.problems.numbers import Budget
from discreet.problems.parts import SumsOverParts
from discreet.problems.plans import NoiseSummary, Plan, Resources, sized
from discreet.problems.results import LEVEL, Expected, Output, Result
from discreet_client.intervals import plain

ONE_MATRIX = ("policy", "concentration", "samples")
"""Fields of policies that know no blocks of a day."""


class DrEnsemble(DrEnsembleRequest, SumsOverParts):
    """Steer a load ensemble through T steps.

    `counts`: every participant's transitions, normalized by their number, are summed and released
    with noise; a participant is a point of the simplex, whatever the record's length. `dirichlet`:
    every row of a transition matrix is answered by one Dirichlet draw.
    """

    title: ClassVar[str] = "Demand response"
    private: ClassVar[str] = "how participants of a demand-response ensemble use power"
    published: ClassVar[str] = "a transition matrix, a control signal, the expected load"
    words: ClassVar[Mapping[str, str]] = {"horizon": "Steps of the horizon"}
    Dataset: ClassVar[type[DrEnsembleDataset]] = DrEnsembleDataset
    Fields: ClassVar[Any] = DrEnsembleResult
    headlines: ClassVar[Any] = staticmethod(headlines)
    main_fields: ClassVar[tuple[str, ...]] = ("saving",)
    synthesis: ClassVar[Synthesis | None] = SYNTHESIS
    by_parts: ClassVar[str] = "the method counts reads it by parts"
    made_up: ClassVar[str] = (
        "The price of power in each step, the weight of discomfort and the power of each state, if "
        "it is given, are invented: replace them with your own."
    )
    made_up_fields: ClassVar[tuple[str, ...]] = ("power", "price")
    shape: ClassVar[tuple[str, ...]] = ("states", "support", "day")
    model: ClassVar[str] = MODEL
    asked_again: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("discomfort_weight", "price", "limits", "event", "power", "utility", "initial"), ALWAYS
        ),
        "uncertainty": ALWAYS,
        **dict.fromkeys(ONE_MATRIX, "where the dataset has no `day`"),
        "first_step": "where the dataset has a `day`",
    }
    scaled_together: ClassVar[frozenset[str]] = frozenset({"price", "power", "utility"})

    @classmethod
    def example(cls) -> dict[str, Any]:
        return examples.example()

    @classmethod
    def example_for(cls, public: DrEnsemblePublic) -> dict[str, Any]:
        return examples.example_for(cls, public)

    @classmethod
    def vary(cls, content: dict[str, Any], number: int) -> None:
        content["trajectories"][0] = [
            number // 3**step % 3 for step in range(len(content["trajectories"][0]))
        ]

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        return examples.worst_cases(cls)

    def free(self, public: DrEnsemblePublic) -> frozenset[str]:
        return super().free(public) | (set(ONE_MATRIX) if public.day is None else {"first_step"})

    def alternative_values(self, public: DrEnsemblePublic) -> dict[str, dict[str, Any]]:
        return examples.otherwise(self, public)

    def plan(self, public: DrEnsemblePublic, budget: Budget) -> Plan:
        plan = self.draft(public, budget)
        advice = [one.sentence for one in self.expected(public, plan, LEVEL)]
        if advice:
            advice.append(MODEL)
        if plan.parameters["method"] == "counts":
            advice.append(row_advice(public, plan.noise[0].standard_deviation))
        if public.day is not None:
            advice.append(day_advice(public))
        elif public.meters is not None:
            advice.append(ALL_HOURS)
        advice += price_advice(self.price, public)
        start = None if self.initial == "released" else np.array(self.initial)
        control = self.control(public, plan)
        advice += policy_advice(public, control, start)
        if self.limits is not None and control.limits is not None:
            advice += limits.advice(self.limits, public, control.limits, control.power, start)
        if self.power is None and public.edges is not None:
            advice += bins_advice(public)
        return plan.model_copy(update={"advice": (*advice, *plan.advice)})

    def draft(self, public: DrEnsemblePublic, budget: Budget) -> Plan:
        method = "counts" if public.row_change is None else "dirichlet"
        if found := issues(self, public, method):
            raise InvalidInput(found)
        cells = public.cells
        clip, tried = None, list[Clip]()
        try:
            if method == "counts":
                clip, tried = clip_of(self, public, budget, cells)
                event, quantity, assumptions = counts_event(public, budget, cells, clip)
            else:
                event, quantity, assumptions = dirichlet_event(public, budget, self.prior)
        except ValueError as error:
            pointer = "/privacy/delta" if budget.delta == 0 else "/privacy/epsilon"
            more = "" if budget.delta == 0 else "; a larger epsilon or delta is needed"
            says = f"{error}{more}"
            if method == "dirichlet":
                says += (
                    ", or a `prior`: without one, a row's draw loses more than epsilon however "
                    "much noise it has"
                )
            raise InvalidInput(says, pointer=pointer) from None
        horizon, grid = self.horizon, grid_of(public, clip)
        return Plan.priced(
            [event],
            noise=(NoiseSummary.of(event, quantity, grid if method == "counts" else 1.0),),
            iterations={"horizon": horizon},
            resources=resources_of(public, method, horizon, self.samples),
            unit=public.unit,
            parts_by=public.unit if method == "counts" else None,
            neighbours=event.neighbours,
            assumptions=(
                "the states, their support, tariff and weights are public",
                "`power` was chosen without looking at the data"
                if self.initial == "released"
                else "`initial` and `power` were chosen without looking at the data",
                *assumptions,
                *(
                    [sized(f"{public.most_rows} states of trajectories")]
                    if method == "counts"
                    else []
                ),
            ),
            advice=() if isinstance(self.clip, float) else clip_advice(tried, self.clip == "auto"),
            parameters={
                "method": method,
                "grid": grid,
                "concentration": event.scale if method == "dirichlet" else None,
                "clip": clip,
                "kept": next((one.kept for one in tried if one.bound == clip), 1.0),
            },
        )

    def profile(self, public: DrEnsemblePublic, plan: Plan, released: Released) -> Profile | None:
        """Transitions, how the time is spread over the states, and of counts how many participants
        there are."""
        estimate = estimates.estimated(public, plan, released)
        if estimate.mostly_noise:
            return None
        known = {"transitions": estimate.transitions, "visits": estimate.visits}
        counts = {"participants": np.array(estimate.participants)} if estimate.participants else {}
        return known | counts

    @classmethod
    def why_unpredictable(cls, public: DrEnsemblePublic) -> str:
        if public.participants is not None or public.unit != "participant":
            return ""
        return (
            "the dataset does not publish how many `participants` it has. Ask for an epsilon, "
            "or around a release; a rehearsal of a number of them that you name (discreet rehearse "
            "--units N, units in the API) says how near the answer comes"
        )

    def expected(
        self, public: DrEnsemblePublic, plan: Plan, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        initial = None if self.initial == "released" else np.array(self.initial)
        control = replace(self.control(public, plan), limits=None)
        return tuple(expectations(public, plan, control, initial, confidence, around))

    def release(
        self, public: DrEnsemblePublic, plan: Plan, content: Content, noise: Noise
    ) -> Released:
        """Noisy counts int64[cells] of transitions, in 1/grid participants, or drawn rows
        float64[cells].

        Counts: neighbours add, remove or replace one participant, who adds a vector of l1 norm at
        most grid and l2 norm at most clip · grid, see `noise`. Draws: neighbours move two entries
        of one row, or of each.
        """
        (event,) = plan.events
        mask = public.mask()
        if plan.parameters["method"] == "counts":
            return self.release_sums(public, plan, self.part_sums(public, plan, content), noise)
        rows = event.scale * content["transitions"] + self.prior
        drawn = np.ones(mask.shape)
        for origin in np.flatnonzero(mask.sum(axis=1) > 1):
            drawn[origin, mask[origin]] = noise.dirichlet(rows[origin, mask[origin]])
        return {"transitions": drawn[mask]}

    def part_sums(self, public: DrEnsemblePublic, plan: Plan, content: Content) -> Sums:
        grid = plan.parameters["grid"]
        return {"counts": transition_counts(public, content, grid, self._bound(plan))}

    def release_sums(
        self, public: DrEnsemblePublic, plan: Plan, sums: Sums, noise: Noise
    ) -> Released:
        (event,) = plan.events
        return {"counts": noise.add(event, sums["counts"])}

    def diagnose(
        self, public: DrEnsemblePublic, plan: Plan, content: Content, noise: Noise
    ) -> Released:
        """The transition matrix that no noise was added to."""
        if plan.parameters["method"] == "dirichlet":
            return {"true_transitions": content["transitions"][public.mask()]}
        return {"true_counts": self.part_sums(public, plan, content)["counts"]}

    def noised_sums(self, plan: Plan) -> frozenset[str]:
        return frozenset({"counts"} if plan.parameters["method"] == "counts" else ())

    def finish(
        self, public: DrEnsemblePublic, plan: Plan, released: Released, progress: Progress
    ) -> Result:
        mask, control, horizon = public.mask(), self.control(public, plan), self.horizon
        estimate = estimates.estimated(public, plan, released)
        transitions = estimate.transitions
        initial = None if self.initial == "released" else np.array(self.initial)
        start = control.start(estimate.visits) if initial is None else initial
        price, multipliers = control.price(transitions, start)
        control = replace(control, guess=multipliers)
        policy = control.solve(transitions, progress, price=price)
        worlds = worlds_of(control, estimate, initial)
        signal = chosen(control, estimate, worlds, start)
        saved = result.saved_of(control, worlds, signal)
        followed = control.followed(transitions[None], signal, start)
        answer = {name: value[0] for name, value in followed.items()}
        answer["policy_saving"] = result.policy_saving(control, estimate, worlds, policy, start)
        if worlds.posteriors:
            answer["saving"] = min(float(np.median(drawn)) for drawn in saved[:-1])
        drawn, before = answer["expected_power"].sum(), answer["default_power"].sum()
        if before > 0:
            answer["energy_ratio"] = float(max(drawn, 0.0) / before)
        values = {
            public.matrix: Output(
                transitions.tolist,
                numbers=transitions.size,
                table=lambda: matrix_rows(transitions, mask),
            ),
            "signal": Output(signal.tolist, numbers=signal.size, table=lambda: signal_rows(signal)),
            "policy": Output(
                lambda: [policy.at(step).tolist() for step in range(horizon - 1)],
                numbers=(horizon - 1) * mask.size,
                table=lambda: policy_rows(policy, mask, horizon - 1),
            ),
            "states": states_of(public, control, self.first_step),
            **({} if control.event is None else {"event": np.flatnonzero(control.event).tolist()}),
            **answer,
        }
        if self.uncertainty:
            values["uncertainty"] = result.uncertainty(
                control, estimate, worlds, signal, saved, initial, answer
            )
        if self.limits is not None:
            values["limits"] = limits.told(
                self.limits, public, control, transitions, policy, start, price
            )
        if {"true_counts", "true_transitions"} & released.keys():
            values |= truth(self, public, plan, released, control, signal, policy)
        return Result.of(self.Fields, values)

    def _bound(self, plan: Plan) -> float | None:
        """The clip of a plan; those of before did not say it."""
        bound: float | None = plan.parameters.get("clip", self.clip)
        return bound

    def control(self, public: DrEnsemblePublic, plan: Plan) -> Control:
        """What is asked, for matrices of a release of this plan."""
        power = public.middles if self.power is None else np.array(self.power)
        assert power is not None
        return Control(
            utility=tariff_utility(self.price or (), power)
            if self.utility is None
            else np.array(self.utility),
            power=power,
            discomfort_weight=self.discomfort_weight,
            policy=self.policy,
            concentration=self.concentration or plan.parameters["concentration"],
            samples=self.samples,
            at=None
            if public.day is None
            else public.day.block_of(self.first_step + np.arange(self.horizon - 1)),
            blocks=public.blocks,
            limits=None if self.limits is None else self.limits.of_one(public, self.horizon),
            event=event_steps(self.event, self.price, self.horizon),
            hours=1.0 if public.meters is None else public.meters.interval_seconds / HOUR,
            edges=None
            if self.power is not None or public.edges is None
            else np.array(public.edges),
        )


# Clips --------------------------------------------------------------------------------------------
# At which norm records are best clipped, and what a clip leaves out.

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


# Fitting ------------------------------------------------------------------------------------------
# Whether a request fits a dataset's states.

MAX_POLICY_CELLS = 20_000_000


def issues(problem: DrEnsembleRequest, public: DrEnsemblePublic, method: str) -> list[FieldIssue]:
    """Of a `DrEnsemble` that the method is to answer."""
    n = public.states
    found = []
    if (problem.price is None) == (problem.utility is None):
        found.append(FieldIssue("/problem/price", "either price or utility is needed"))
    if problem.method not in ("auto", method):
        holds = "trajectories" if method == "counts" else "a transition matrix"
        found.append(
            FieldIssue("/problem/method", f"the dataset holds {holds}, which {method} is for")
        )
    if problem.power is None and public.edges is None:
        found.append(
            FieldIssue(
                "/problem/power", "needed, since the dataset declares no `edges` that would give it"
            )
        )
    given = {} if problem.power is None else {"power": problem.power}
    given |= {} if problem.initial == "released" else {"initial": problem.initial}
    for name, values in given.items():
        if len(values) != n:
            found.append(
                FieldIssue(
                    f"/problem/{name}", f"the dataset has {n} states; found {len(values)} numbers"
                )
            )
    for step, row in enumerate(problem.utility or ()):
        if len(row) != n and len(found) < MAX_ISSUES:
            found.append(
                FieldIssue(
                    f"/problem/utility/{step}", f"the dataset has {n} states; found {len(row)}"
                )
            )
    utility = tuple(figure for row in problem.utility or () for figure in row)
    for name, values in (
        ("power", problem.power or ()),
        ("price", problem.price or ()),
        ("utility", utility),
    ):
        if max(map(abs, values), default=0) > MAX_FIGURE:
            found.append(
                FieldIssue(
                    f"/problem/{name}", f"figures must not exceed {MAX_FIGURE:g} in absolute value"
                )
            )
    if abs((total := sum(given.get("initial", (1.0,)))) - 1) > SUM_TOLERANCE:
        found.append(FieldIssue("/problem/initial", f"must sum to 1; sums to {total:.12g}"))
    if method == "counts" and problem.policy != "exact" and problem.concentration is None:
        found.append(
            FieldIssue(
                "/problem/concentration", f"the {problem.policy} policy needs it; counts has no k"
            )
        )
    if problem.samples is not None and problem.policy != "average":
        found.append(FieldIssue("/problem/samples", "only for the average policy"))
    for name, stands, other in (
        ("clip", problem.clip is not None, "dirichlet"),
        ("prior", problem.prior > 0, "counts"),
    ):
        if stands and method == other:
            found.append(FieldIssue(f"/problem/{name}", f"has no effect with the method {method}"))
    if public.day is None and problem.first_step:
        found.append(
            FieldIssue("/problem/first_step", "has no effect here: the dataset declares no `day`")
        )
    if public.day is not None:
        if problem.first_step >= public.day.steps:
            says = f"a day of the dataset has the steps 0 to {public.day.steps - 1}"
            found.append(FieldIssue("/problem/first_step", says))
        if problem.policy != "exact":
            says = (
                "exact is needed where the dataset has a `day`: the other policies are of one "
                "matrix"
            )
            found.append(FieldIssue("/problem/policy", says))
    if problem.limits is not None:
        found += limits.issues(
            problem.limits, public, problem.horizon, problem.policy, "/problem/limits"
        )
    for place, (first, end) in enumerate(problem.event or ()):
        if not first < end <= problem.horizon:
            says = (
                f"[first, end] of a problem of {problem.horizon} steps: first is below end, end "
                "at most that"
            )
            found.append(FieldIssue(f"/problem/event/{place}", says))
    size = (problem.horizon - 1) * int(public.mask().sum())
    if size > MAX_POLICY_CELLS:
        says = (
            f"a policy of {size} transitions; at most {MAX_POLICY_CELLS}: fewer steps or a "
            "smaller support"
        )
        found.append(
            FieldIssue("/problem/price" if problem.utility is None else "/problem/utility", says)
        )
    return found


# Noise --------------------------------------------------------------------------------------------
# The events of the two mechanisms: how far a participant or a row moves what is released, and the
# least noise for a budget.


def grid_of(public: DrEnsemblePublic, clip: float | None) -> int:
    """The sum of a participant's counts. Records of one public length need no rounding, unless they
    are clipped."""
    return GRID if public.steps is None or clip is not None else public.steps - 1


def counts_event(
    public: DrEnsemblePublic, budget: Budget, cells: int, clip: float | None
) -> tuple[Any, str, tuple[str, ...]]:
    """The event of noised counts, what they are, and the assumptions. A participant adds a point of
    the simplex, times the grid: l1 at most grid, l2 at most clip · grid.

    Replacing one moves the sum by a difference of two such vectors without negative entries: l1 at
    most twice that, l2 at most sqrt 2 times.
    """
    grid = grid_of(public, clip)
    replaced = public.participants is not None
    norm = (clip or 1.0) * grid
    neighbours = (
        "one participant's record replaced by another; the number of participants is public"
        if replaced
        else "one participant with all steps added or removed"
    )
    event = calibration.least_variance(
        sensitivity_l1=2 * grid if replaced else grid,
        sensitivity_l2=float(np.nextafter(norm * np.sqrt(2), np.inf)) if replaced else norm,
        epsilon=budget.epsilon,
        delta=budget.delta,
        neighbours=neighbours,
        rho=budget.rho,
    )
    length = "" if public.steps is None else f" of {public.steps} steps each"
    quantity = (
        f"{cells} shares of transitions, summed over participants{length}; a participant's sum to 1"
    )
    known = ["every participant's number of steps is public"] if public.steps is not None else []
    return event, quantity, (*known, "each trajectory is recorded under its own participant")


def dirichlet_event(
    public: DrEnsemblePublic, budget: Budget, prior: float
) -> tuple[Any, str, tuple[str, ...]]:
    """The event of noised rows, what they are, and the assumptions. Rows compose, since a person
    may be in all of them; a row with one possible transition tells nothing."""
    mask = public.mask()
    assert public.row_change is not None
    assert public.min_probability is not None
    random_rows = int((mask.sum(axis=1) > 1).sum())
    if random_rows == 0:
        raise InvalidInput(
            "every state has one transition: nothing is private", pointer="/problem/dataset"
        )
    entries = (
        "two entries of a row of the transition matrix move by at most "
        f"{public.row_change / 2:g} each"
    )
    one = public.unit == "row"
    event = calibration.dirichlet(
        public.row_change,
        public.min_probability,
        budget.epsilon,
        budget.delta,
        neighbours=f"{entries}, in {'one row' if one else f'each of its {random_rows} rows'}",
        offset=prior,
        count=1 if one else random_rows,
    )
    composed = (
        "the unit is one row: rows describe different people"
        if one
        else f"a participant may be in all {random_rows} rows, whose draws are composed"
    )
    return event, f"{random_rows} rows of the transition matrix, one draw each", (composed,)


# Resources ----------------------------------------------------------------------------------------
# The resources of an ensemble's release and of its post-processing, by public figures.


def resources_of(
    public: DrEnsemblePublic, method: str, horizon: int, samples: int | None
) -> Resources:
    """Of a method, and of a policy of so many steps or `samples` matrices."""
    cells = public.cells
    return Resources.padded(
        0.25 * (1 + cells // 100_000),
        # Cells are looked up at random: the more there are, the farther away they lie.
        work=public.most_rows * (20e-9 + 80e-9 * min(1.0, cells / 1e5))
        if method == "counts"
        else 0.0,
        content_bytes=12.0 * public.most_rows if method == "counts" else 8.0 * public.states**2,
        memory_bytes=(1 << 28)
        + 64 * horizon * public.states
        + 100 * cells
        + 40 * (horizon - 1) * cells // public.blocks
        + (16 * (public.blocks * public.states) ** 2 if public.day else 0),
        steps=samples or horizon - 1,
    )
