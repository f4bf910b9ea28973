"""The fields of a demand-response result."""

from __future__ import annotations

from typing import Annotated, NotRequired

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field
from pydantic.config import JsonDict
from typing_extensions import TypedDict

from discreet.problems.dr_ensemble.control import Control
from discreet.problems.dr_ensemble.limits import LimitsTold
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats
from discreet.problems.results import SummedFields, shown
from discreet.solvers.control.control_policies import Policy

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
