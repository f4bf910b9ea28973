"""Demand response: how an ensemble of loads should be steered, without telling how anybody uses power.

Loads move between the states of a public partition of power; how likely each move is by default is private. One of two
mechanisms releases a transition matrix; the control policy of the linearly-solvable Markov decision process, whichever
of the paper's four, and the load it leads to are post-processing of that matrix. The paper (Hassan et al. 2020) calls
policies private that are functions of the private matrix; see `docs/problems/dr_ensemble.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.items import InPieces
from discreet.privacy import calibration
from discreet.privacy.noise import Noise
from discreet.problems.accuracy import INTERVALS
from discreet.problems.base import ALWAYS, Neighbours
from discreet.problems.columns import MAX_ISSUES
from discreet.problems.contents import Content, Progress, Released
from discreet.problems.dr_ensemble import estimates, examples, intervals
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.dataset import (
    GRID,
    MAX_FIGURE,
    MAX_STATES,
    SUM_TOLERANCE,
    DrEnsembleDataset,
    DrEnsemblePublic,
    Floats,
    Ints,
)
from discreet.problems.dr_ensemble.measurements import tariff_utility
from discreet.problems.dr_ensemble.result import DrEnsembleResult
from discreet.problems.numbers import CLIP, Budget, Flag, Real
from discreet.problems.plans import NoiseSummary, Plan, Resources, sized
from discreet.problems.results import Output, Result
from discreet.problems.reuse import ProblemOnData
from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control.transition_counts import transition_sums

MAX_POLICY_CELLS = 20_000_000

Numbers = Annotated[tuple[Real, ...], InPieces()]
Spread = Annotated[tuple[Annotated[Real, Field(ge=0, le=1)], ...], InPieces(max_length=MAX_STATES)]


class DrEnsemble(ProblemOnData):
    """Steer a load ensemble through T steps.

    `counts`: every participant's transitions, normalized by their number, are summed and released with noise; a
    participant is a point of the simplex, whatever the record's length. `dirichlet`: every row of a transition matrix
    is answered by one Dirichlet draw.
    """

    title: ClassVar[str] = "Demand response"
    private: ClassVar[str] = "how participants of a demand-response ensemble use power"
    published: ClassVar[str] = "a transition matrix, a control policy, the expected load"
    words: ClassVar[Mapping[str, str]] = {"horizon": "Steps of the horizon"}
    Dataset: ClassVar[type[DrEnsembleDataset]] = DrEnsembleDataset
    Fields: ClassVar[Any] = DrEnsembleResult
    asked_again: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("power", "price", "utility", "discomfort_weight", "initial"),
            *("policy", "concentration", "samples", "uncertainty"),
        ),
        ALWAYS,
    )

    kind: Literal["dr_ensemble"]
    power: Annotated[tuple[Real, ...], InPieces(min_length=2, max_length=MAX_STATES)] = Field(
        description="Power of each state"
    )
    price: Annotated[tuple[Real, ...], InPieces(min_length=2, max_length=100_000)] | None = Field(
        default=None, description="Money per unit of power in each step; the utility is then minus price times power"
    )
    utility: Annotated[tuple[Numbers, ...], InPieces(min_length=2, max_length=100_000)] | None = Field(
        default=None, description="Money by step and state, instead of `price`"
    )
    discomfort_weight: Annotated[Real, Field(gt=0, le=1e12, description="gamma, in the unit of utility")]
    initial: Spread | Literal["released"] = Field(
        description="How the loads are spread over the states at step 0, chosen without looking at the data; or as the "
        "release says that their time is"
    )
    method: Literal["auto", "counts", "dirichlet"] = "auto"
    policy: Literal["exact", "taylor", "digamma", "average"] = "exact"
    concentration: Annotated[Real, Field(gt=0, le=1e12)] | None = Field(
        default=None, description="k of the last three policies; the Dirichlet mechanism's own when not given"
    )
    samples: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = Field(
        default=None, description="Draws of the average policy; its closed form when not given"
    )
    clip: Annotated[Real, Field(gt=0, le=1), CLIP] | None = Field(
        default=None, description="Public bound on the l2 norm of a participant's histogram; less noise, some bias"
    )
    prior: Annotated[Real, Field(ge=0, le=1e6)] = Field(
        default=0.0, description="Added to each parameter of a Dirichlet draw; lets small epsilons be met"
    )

    uncertainty: Flag = INTERVALS

    @classmethod
    def example(cls) -> dict[str, Any]:
        return examples.example()

    @classmethod
    def vary(cls, content: dict[str, Any], number: int) -> None:
        content["trajectories"][0] = [number // 3**step % 3 for step in range(len(content["trajectories"][0]))]

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        return examples.worst_cases(cls)

    def otherwise(self, public: DrEnsemblePublic) -> dict[str, dict[str, Any]]:
        return examples.otherwise(self, public)

    def plan(self, public: DrEnsemblePublic, budget: Budget) -> Plan:
        method = "counts" if public.row_change is None else "dirichlet"
        if issues := self._issues(public, method):
            raise InvalidInput(issues)
        mask = public.mask()
        cells = int(mask.sum())
        try:
            if method == "counts":
                event, quantity, assumptions = self._counts_event(public, budget, cells)
            else:
                event, quantity, assumptions = self._dirichlet_event(public, budget, mask)
        except ValueError as error:
            pointer = "/privacy/delta" if budget.delta == 0 else "/privacy/epsilon"
            says = f"{error}; a larger epsilon or delta is needed"
            if method == "dirichlet":
                says += ", or a `prior`: without one, a row's draw loses more than epsilon however much noise it has"
            raise InvalidInput(says, pointer=pointer) from None
        horizon = self._horizon()
        return Plan.priced(
            [event],
            noise=(NoiseSummary.of(event, quantity, self._grid(public) if method == "counts" else 1.0),),
            iterations={"horizon": horizon},
            resources=Resources.padded(
                0.25 * (1 + cells // 100_000),
                # Cells are looked up at random: the more there are, the farther away they lie.
                work=public.most_rows * (20e-9 + 80e-9 * min(1.0, cells / 1e5)) if method == "counts" else 0.0,
                content_bytes=12.0 * public.most_rows if method == "counts" else 8.0 * public.states**2,
                memory_bytes=(1 << 28) + 64 * horizon * public.states + 100 * cells + 40 * (horizon - 1) * cells,
                steps=self.samples or horizon - 1,
            ),
            unit=public.unit,
            neighbours=event.neighbours,
            assumptions=(
                "the states, their support, tariff and weights are public",
                *assumptions,
                *([sized(f"{public.most_rows} states of trajectories")] if method == "counts" else []),
            ),
            parameters={
                "method": method,
                "grid": self._grid(public),
                "concentration": event.scale if method == "dirichlet" else None,
            },
        )

    def _counts_event(self, public: DrEnsemblePublic, budget: Budget, cells: int) -> tuple[Any, str, tuple[str, ...]]:
        """A participant adds a point of the simplex, times the grid: l1 at most grid, l2 at most clip · grid.

        Replacing one moves the sum by a difference of two such vectors without negative entries: l1 at most twice that,
        l2 at most sqrt 2 times.
        """
        grid = self._grid(public)
        replaced = public.participants is not None
        norm = (self.clip or 1.0) * grid
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
        quantity = f"{cells} shares of transitions, summed over participants{length}; a participant's sum to 1"
        known = ["every participant's number of steps is public"] if public.steps is not None else []
        return event, quantity, (*known, "whose record a trajectory is, is recorded truly")

    def _dirichlet_event(
        self, public: DrEnsemblePublic, budget: Budget, mask: NDArray[np.bool_]
    ) -> tuple[Any, str, tuple[str, ...]]:
        """Rows compose: a person may be in all of them. A row with one possible transition says nothing."""
        assert public.row_change is not None
        assert public.min_probability is not None
        random_rows = int((mask.sum(axis=1) > 1).sum())
        if random_rows == 0:
            raise InvalidInput("every state has one transition: nothing is private", pointer="/problem/dataset")
        entries = f"two entries of a row of the transition matrix move by at most {public.row_change / 2:g} each"
        one = public.unit == "row"
        event = calibration.dirichlet(
            public.row_change,
            public.min_probability,
            budget.epsilon,
            budget.delta,
            neighbours=f"{entries}, in {'one row' if one else f'each of its {random_rows} rows'}",
            offset=self.prior,
            count=1 if one else random_rows,
        )
        composed = (
            "the unit is one row: rows are different people's"
            if one
            else f"a participant may be in all {random_rows} rows, whose draws are composed"
        )
        return event, f"{random_rows} rows of the transition matrix, one draw each", (composed,)

    def release(self, public: DrEnsemblePublic, plan: Plan, content: Content, noise: Noise) -> Released:
        """Noisy counts int64[cells] of transitions, in 1/grid participants, or drawn rows float64[cells].

        Counts: neighbours add, remove or replace one participant, who adds a vector of l1 norm at most grid and l2 norm
        at most clip · grid, see `_counts_event`. Draws: neighbours move two entries of one row, or of each.
        """
        (event,) = plan.events
        mask = public.mask()
        if plan.parameters["method"] == "counts":
            sums = _sums(mask, content, plan.parameters["grid"], self.clip)
            return {"counts": noise.add(event, sums)}
        rows = event.scale * content["transitions"] + self.prior
        drawn = np.ones(mask.shape)
        for origin in np.flatnonzero(mask.sum(axis=1) > 1):
            drawn[origin, mask[origin]] = noise.dirichlet(rows[origin, mask[origin]])
        return {"transitions": drawn[mask]}

    def diagnose(self, public: DrEnsemblePublic, plan: Plan, content: Content, noise: Noise) -> Released:
        """The transition matrix that no noise was added to."""
        if plan.parameters["method"] == "dirichlet":
            return {"true_transitions": content["transitions"][public.mask()]}
        return {"true_counts": _sums(public.mask(), content, plan.parameters["grid"], self.clip)}

    def noised_sums(self, plan: Plan) -> frozenset[str]:
        return frozenset({"counts"} if plan.parameters["method"] == "counts" else ())

    def finish(self, public: DrEnsemblePublic, plan: Plan, released: Released, progress: Progress) -> Result:
        mask, control, horizon = public.mask(), self.control(plan), self._horizon()
        estimate = estimates.estimated(public, plan, released)
        transitions = estimate.transitions
        policy = control.solve(transitions, progress)
        initial = None if self.initial == "released" else np.array(self.initial)
        answer = control.answer(transitions, policy, estimate.visits if initial is None else initial)
        values = {
            "transitions": Output(
                transitions.tolist, numbers=transitions.size, table=lambda: _matrix_rows(transitions, mask)
            ),
            "policy": Output(
                lambda: [policy.at(step).tolist() for step in range(horizon - 1)],
                numbers=(horizon - 1) * transitions.size,
                table=lambda: _policy_rows(policy, mask, horizon - 1),
            ),
            **answer,
        }
        if self.uncertainty:
            answer["transitions"] = transitions
            values["uncertainty"] = intervals.uncertainty(control, estimate, policy, initial, answer)
        if {"true_counts", "true_transitions"} & released.keys():
            unnoised = estimates.unnoised(public, plan, released)
            true, start = unnoised.transitions, unnoised.visits if initial is None else initial
            exact = replace(control, policy="exact")
            best = exact.answer(true, exact.solve(true), start)
            cost = lsmdp.cost_of_privacy(policy, true, control.utility, self.discomfort_weight)
            values |= {
                "cost_of_privacy": cost,
                **{f"true_{name}": best[name] for name in ("expected_power", "default_power", "saving")},
                "achieved_power": control.load(policy, start),
                "achieved_saving": best["saving"] - float(start @ cost[0]),
            }
        return Result.of(self.Fields, values)

    def control(self, plan: Plan) -> Control:
        """What is asked, for matrices of a release of this plan."""
        return Control(
            utility=self._utility(),
            power=np.array(self.power),
            discomfort_weight=self.discomfort_weight,
            policy=self.policy,
            concentration=self.concentration or plan.parameters["concentration"],
            samples=self.samples,
        )

    def _utility(self) -> Floats:
        if self.utility is not None:
            return np.array(self.utility)
        return tariff_utility(np.array(self.price), self.power)

    def _grid(self, public: DrEnsemblePublic) -> int:
        """What a participant counts in all: records of one public length need no rounding, unless they are clipped."""
        return GRID if public.steps is None or self.clip is not None else public.steps - 1

    def _horizon(self) -> int:
        return len(self.utility if self.utility is not None else self.price or ())

    def _issues(self, public: DrEnsemblePublic, method: str) -> list[FieldIssue]:
        """What keeps this from being a problem on the dataset's states."""
        n = public.states
        found = []
        if (self.price is None) == (self.utility is None):
            found.append(FieldIssue("/problem/price", "either price or utility is needed"))
        if self.method not in ("auto", method):
            holds = "trajectories" if method == "counts" else "a transition matrix"
            found.append(FieldIssue("/problem/method", f"the dataset holds {holds}, which {method} is for"))
        given = {"power": self.power} | ({} if self.initial == "released" else {"initial": self.initial})
        for name, values in given.items():
            if len(values) != n:
                found.append(FieldIssue(f"/problem/{name}", f"the dataset has {n} states; found {len(values)} numbers"))
        for step, row in enumerate(self.utility or ()):
            if len(row) != n and len(found) < MAX_ISSUES:
                found.append(FieldIssue(f"/problem/utility/{step}", f"the dataset has {n} states; found {len(row)}"))
        utility = tuple(figure for row in self.utility or () for figure in row)
        for name, values in (("power", self.power), ("price", self.price or ()), ("utility", utility)):
            if max(map(abs, values), default=0) > MAX_FIGURE:
                found.append(FieldIssue(f"/problem/{name}", f"figures are at most {MAX_FIGURE:g} large"))
        if abs((total := sum(given.get("initial", (1.0,)))) - 1) > SUM_TOLERANCE:
            found.append(FieldIssue("/problem/initial", f"must sum to 1; sums to {total:.12g}"))
        if method == "counts" and self.policy != "exact" and self.concentration is None:
            found.append(FieldIssue("/problem/concentration", f"the {self.policy} policy needs it; counts has no k"))
        if self.samples is not None and self.policy != "average":
            found.append(FieldIssue("/problem/samples", "for the average policy only"))
        for name, stands, other in (("clip", self.clip is not None, "dirichlet"), ("prior", self.prior > 0, "counts")):
            if stands and method == other:
                found.append(FieldIssue(f"/problem/{name}", f"means nothing to the method {method}"))
        size = (self._horizon() - 1) * int(public.mask().sum())
        if size > MAX_POLICY_CELLS:
            says = f"a policy of {size} transitions; at most {MAX_POLICY_CELLS}: fewer steps or a smaller support"
            found.append(FieldIssue("/problem/price" if self.utility is None else "/problem/utility", says))
        return found


def _sums(mask: NDArray[np.bool_], content: Content, grid: int, clip: float | None) -> Ints:
    cell_of = np.full(mask.shape, -1, dtype=np.int64)
    cell_of[mask] = np.arange(mask.sum())
    return transition_sums(content["states"], content["start"], cell_of, int(mask.sum()), grid, clip or 1.0)


def _matrix_rows(matrix: Floats, mask: NDArray[np.bool_]) -> pa.Table:
    origin, to = np.nonzero(mask)
    return pa.table({"from": origin, "to": to, "probability": matrix[origin, to]})


def _policy_rows(policy: lsmdp.Policy, mask: NDArray[np.bool_], steps: int) -> pa.Table:
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
