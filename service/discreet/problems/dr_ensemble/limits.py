"""The capacity of a feeder and the speed of its load's changes: limits on the policy of a
release.

They are public and post-processing: the released transitions stay what they are, and another policy
is found for them (`solvers.control.limited_load`), so limits are asked again for nothing. A policy
sets every move, so loads that follow it keep them whatever the noise; what noise moves is what that
costs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from typing_extensions import TypedDict

from discreet.errors import FieldIssue
from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.public import MAX_FIGURE, DrEnsemblePublic, Floats
from discreet.problems.numbers import Frozen, Real
from discreet.solvers.control.control_policies import Policy
from discreet.solvers.control.limited_load import Limits, least_changes, least_loads
from discreet_client.intervals import plain

MOST_STEPS = 2_000
"""That a limited problem may have: each is a multiplier, or three."""
MOST_CELLS = 1_000_000
"""Steps times transitions of a limited problem."""


class LoadLimits(Frozen):
    """Bounds on the expected load, in the unit of `power`."""

    of: Literal["all", "each"] = Field(
        description="Which load is limited: that of all public `participants` together, as on a "
        "feeder, or of each one"
    )
    feeder: Real | Annotated[tuple[Real | None, ...], InPieces(max_length=MOST_STEPS)] | None = (
        Field(
            default=None,
            description="The largest load: one number for all steps, or one for each step, null "
            "for no limit",
        )
    )
    ramp: Annotated[Real, Field(ge=0)] | None = Field(
        default=None, description="The largest change of the load from one step to the next"
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.feeder is None and self.ramp is None:
            raise FieldError("feeder", "either feeder or ramp is needed")
        return self

    @property
    def figures(self) -> tuple[float, ...]:
        """All limits that there are."""
        each = self.feeder if isinstance(self.feeder, tuple) else (self.feeder,)
        return tuple(one for one in (*each, self.ramp) if one is not None)

    def loads(self, public: DrEnsemblePublic) -> int:
        """The number of loads to which the limits apply together."""
        return (public.participants or 1) if self.of == "all" else 1

    def of_one(self, public: DrEnsemblePublic, horizon: int) -> Limits:
        """The limits of one load."""
        loads = self.loads(public)
        each = self.feeder if isinstance(self.feeder, tuple) else (self.feeder,) * horizon
        feeder = np.array([np.inf if one is None else one / loads for one in each])
        return Limits(
            feeder, np.full(horizon - 1, np.inf if self.ramp is None else self.ramp / loads)
        )


class LimitsTold(TypedDict):
    """How a policy keeps the limits that were asked for; of one load, in the unit of power."""

    kept: Annotated[bool, Field(description="Whether the expected load is within all limits")]
    says: Annotated[
        str,
        Field(
            description="What the limits demand and cost; if they cannot be kept, which one, "
            "where and why"
        ),
    ]
    feeder: NotRequired[
        Annotated[list[float | None], Field(description="The largest power of a load in each step")]
    ]
    ramp: NotRequired[
        Annotated[float, Field(description="The largest change of it from step to step")]
    ]
    price: Annotated[
        list[float],
        Field(
            description="Price of the limits in each step: what one more unit of power would be "
            "worth there, in the money of the price"
        ),
    ]
    cost: Annotated[
        float,
        Field(
            description="How much less a load saves than without limits, in the money of the price"
        ),
    ]
    strays: Annotated[
        float,
        Field(
            description="The largest standard deviation in any step of the load that is limited, "
            "of all or of each, about its expectation, where loads move by themselves"
        ),
    ]


def issues(
    asked: LoadLimits, public: DrEnsemblePublic, horizon: int, policy: str, pointer: str
) -> list[FieldIssue]:
    """What is wrong with the limits of a problem."""
    found = []
    if asked.of == "all" and public.participants is None:
        says = (
            "the dataset does not publish how many `participants` it has: limits can be of "
            "`each` load"
        )
        found.append(FieldIssue(f"{pointer}/of", says))
    if isinstance(asked.feeder, tuple) and len(asked.feeder) != horizon:
        says = f"the problem has {horizon} steps; found {len(asked.feeder)} limits"
        found.append(FieldIssue(f"{pointer}/feeder", says))
    if any(abs(one) > MAX_FIGURE for one in asked.figures):
        found.append(
            FieldIssue(pointer, f"figures must not exceed {MAX_FIGURE:g} in absolute value")
        )
    if policy != "exact":
        found.append(
            FieldIssue(pointer, "the exact policy is needed: the others do not support limits")
        )
    if horizon > MOST_STEPS or horizon * int(public.mask().sum()) > MOST_CELLS:
        says = (
            f"at most {MOST_STEPS:,} steps, and {MOST_CELLS:,} transitions of all steps, where "
            "the load is limited"
        )
        found.append(FieldIssue(pointer, says))
    return found


def told(
    asked: LoadLimits,
    public: DrEnsemblePublic,
    control: Control,
    transitions: Floats,
    policy: Policy,
    start: Floats,
    price: Floats | None,
) -> LimitsTold:
    """Of the policy of these transitions, and what its limits are worth float64[T]. Loads of these
    transitions that follow the signal are where the policy has them; others keep the limits if
    they order the policy's probabilities."""
    limits, power, load = control.limits, control.power, control.load(policy, start)
    assert limits is not None
    assert price is not None
    free = replace(control, limits=None, event=None)
    matrices = transitions[None]
    both = [one.values(matrices, start) for one in (free, control)]
    saved = free.savings(matrices, np.concatenate(both), start)[0]
    cost = float(saved[0] - saved[1])
    beyond = limits.excess(load, float(np.ptp(power)))
    kept = not any(one.any() for one in beyond)
    says = (
        _kept(asked, public, cost)
        if kept
        else _not_kept(asked, public, limits, power, load, start, beyond)
    )
    variance = control.spread(policy, start) @ power**2 - load**2
    strays = float(np.sqrt(max(float(variance.max()), 0.0) * asked.loads(public)))
    found = LimitsTold(kept=kept, says=says, price=price.tolist(), cost=cost, strays=strays)
    if asked.feeder is not None:
        found["feeder"] = [one if np.isfinite(one) else None for one in limits.feeder.tolist()]
    if asked.ramp is not None:
        found["ramp"] = float(limits.ramp[0])
    return found


def advice(
    asked: LoadLimits, public: DrEnsemblePublic, limits: Limits, power: Floats, start: Floats | None
) -> tuple[str, ...]:
    """What public figures tell of the limits before anything is released: which of them no policy
    keeps."""
    said = ["these figures are without `limits`, which cost saving: the answer says how much"]
    if start is not None:
        mask, horizon = public.mask(), limits.feeder.size
        over = least_loads(mask, start, power, horizon) - limits.feeder
        faster = least_changes(mask, start, power, horizon) - limits.ramp
        tolerance = 1e-9 * float(np.abs(power).max())
        if over.max() > tolerance or faster.max(initial=-np.inf) > tolerance:
            said.append(_unreachable(asked, public, limits, over, faster))
    return tuple(said)


def _unreachable(
    asked: LoadLimits, public: DrEnsemblePublic, limits: Limits, over: Floats, faster: Floats
) -> str:
    """Which limit no policy keeps by itself, whatever is released."""
    loads = asked.loads(public)
    if over.max() > 0:
        step = int(np.argmax(over > 0))
        least, most = (
            _written(loads * one, public)
            for one in (limits.feeder[step] + over[step], limits.feeder[step])
        )
        return (
            f"no policy keeps the limits: at step {step} {_whose(asked, public)} is at least "
            f"{least}, of at most {most}"
        )
    step = int(np.argmax(faster > 0))
    least, most = (
        _written(loads * one, public)
        for one in (limits.ramp[step] + faster[step], limits.ramp[step])
    )
    changes = f"from step {step} to {step + 1} {_whose(asked, public)} changes by at least {least}"
    return f"no policy keeps the limits: {changes}, of at most {most}"


def _kept(asked: LoadLimits, public: DrEnsemblePublic, cost: float) -> str:
    parts = []
    if isinstance(asked.feeder, tuple):
        parts.append("stays within its limits")
    elif asked.feeder is not None:
        parts.append(f"is at most {_written(asked.feeder, public)}")
    if asked.ramp is not None:
        parts.append(f"changes by at most {_written(asked.ramp, public)} a step")
    cost_of = "nothing" if cost < 1e-12 else f"each load {plain(cost, 3)} of its saving"
    load = f"{_whose(asked, public)} {' and '.join(parts)}"
    return f"By the released transitions {load}. The limits cost {cost_of}"


def _not_kept(
    asked: LoadLimits,
    public: DrEnsemblePublic,
    limits: Limits,
    power: Floats,
    load: Floats,
    start: Floats,
    beyond: tuple[Floats, Floats],
) -> str:
    """Where limits are exceeded most, by how much, and the least that any policy reaches there."""
    (over, faster), loads = beyond, asked.loads(public)
    mask, horizon, steps = (
        public.mask(),
        load.size,
        int(np.count_nonzero(over) + np.count_nonzero(faster)),
    )
    feeder = over.max() >= faster.max(initial=0.0)
    step = int(np.argmax(over if feeder else faster))
    if feeder:
        most, reached = limits.feeder[step], load[step]
        least = float(least_loads(mask, start, power, horizon)[step])
        what = f"at step {step} {_whose(asked, public)} is {_written(loads * reached, public)}"
    else:
        most, reached = limits.ramp[step], abs(load[step + 1] - load[step])
        least = float(least_changes(mask, start, power, horizon)[step])
        what = (
            f"from step {step} to {step + 1} {_whose(asked, public)} changes by "
            f"{_written(loads * reached, public)}"
        )
    why = f"The least that any policy reaches there is {_written(loads * least, public)}"
    if least < most:
        why = (
            f"{_written(loads * least, public)} could be reached there, but not with the other "
            "limits and steps"
        )
    elif feeder and step == 0:
        why = "`initial` puts loads there and no policy changes that; null leaves a step out"
    more = f"; {steps - 1} more exceed theirs" if steps > 1 else ""
    limit = f"limit {_written(loads * most, public)}{more}"
    return f"Limits cannot be kept: {what} ({limit}). {why}"


def _written(power: float, public: DrEnsemblePublic) -> str:
    """A load with its unit, where that is known."""
    return f"{plain(power, 4)}{'' if public.edges is None else ' kW'}"


def _whose(asked: LoadLimits, public: DrEnsemblePublic) -> str:
    return "the load of each" if asked.of == "each" else f"the load of all {public.participants:,}"


def event_steps(
    event: tuple[tuple[int, int], ...] | None, price: tuple[float, ...] | None, horizon: int
) -> Any:
    """bool[T]: the steps of the event; as asked, else those that are dear where a price has two
    levels, the dear ones in fewer than half of the steps. None where there is no event."""
    steps: NDArray[np.bool_] = np.zeros(horizon, dtype=bool)
    for first, end in event or ():
        steps[first:end] = True
    if event is None and price is not None and len(set(price)) == 2:
        steps = np.array(price) > min(price)
        if 2 * steps.sum() >= horizon:
            return None
    return steps if steps.any() else None
