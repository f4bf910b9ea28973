"""Demand response: how an ensemble of loads should be steered, without telling how anybody uses
power.

Loads move between the states of a public partition of power; how likely each move is by default is
private. One of two mechanisms releases a transition matrix; a signal by which loads tilt their own
moves, what following it achieves, and the policies of the linearly-solvable Markov decision process
are post-processing of that matrix. The paper (Hassan et al. 2021) calls policies private that are
functions of the private matrix; see `docs/problems/dr_ensemble.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.accuracy import LEVEL, Expected
from discreet.problems.base import ALWAYS, Neighbours
from discreet.problems.contents import Content, Profile, Progress, Released, Sums
from discreet.problems.dr_ensemble import estimates, examples, intervals, limits
from discreet.problems.dr_ensemble.advice import (
    ALL_HOURS,
    MODEL,
    bins_advice,
    day_advice,
    expectations,
    policy_advice,
    price_advice,
    row_advice,
)
from discreet.problems.dr_ensemble.clips import Clip, clip_advice, clip_of
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.counting import transition_counts
from discreet.problems.dr_ensemble.dataset import DrEnsembleDataset
from discreet.problems.dr_ensemble.fitting import issues
from discreet.problems.dr_ensemble.limits import event_steps
from discreet.problems.dr_ensemble.measurements import HOUR, tariff_utility
from discreet.problems.dr_ensemble.noise import counts_event, dirichlet_event, grid_of
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.dr_ensemble.request import DrEnsembleRequest
from discreet.problems.dr_ensemble.resources import resources_of
from discreet.problems.dr_ensemble.result import (
    DrEnsembleResult,
    matrix_rows,
    policy_rows,
    signal_rows,
    states_of,
)
from discreet.problems.dr_ensemble.signal import chosen, worlds_of
from discreet.problems.dr_ensemble.synthesis import SYNTHESIS
from discreet.problems.dr_ensemble.truth import truth
from discreet.problems.numbers import Budget
from discreet.problems.plans import NoiseSummary, Plan, sized
from discreet.problems.results import Output, Result
from discreet.problems.summed import SumsOverParts
from discreet.problems.synthesis import Synthesis

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
    matters: ClassVar[tuple[str, ...]] = ("saving",)
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
    in_proportion: ClassVar[frozenset[str]] = frozenset({"price", "power", "utility"})

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

    def otherwise(self, public: DrEnsemblePublic) -> dict[str, dict[str, Any]]:
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
    def untold(cls, public: DrEnsemblePublic) -> str:
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
        saved = intervals.saved_of(control, worlds, signal)
        followed = control.followed(transitions[None], signal, start)
        answer = {name: value[0] for name, value in followed.items()}
        answer["policy_saving"] = intervals.policy_saving(control, estimate, worlds, policy, start)
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
            values["uncertainty"] = intervals.uncertainty(
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
