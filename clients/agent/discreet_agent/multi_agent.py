"""An agent of a cloud multi-agent problem: its objective stays here, the cloud sees its state
alone, and with masks not even that.

agent = Agent.from_token(token, announcement={"lower": -10, "upper": 10, "radius": 1}, name="x1", …)
found = minimize(agent, slope=lambda x: 2 * (x - 9) + 1)

A state may be a vector: an announcement with a `dimension` has bounds for all coordinates or lists
of them, and perhaps a `budget: {lower, upper}` of their sum, a `ball: {centre, radius}` or a
`polytope: {A, b, C, d}` (`A x <= b`, `C x = d`); the slope then takes and gives a list, and
`found.x` is one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet_agent.agent import Agent
from discreet_agent.demands import Demands
from discreet_agent.expressions import derivative, parse, value
from discreet_agent.federation import history, signing
from discreet_agent.federation.errors import AgentError, NotTrusted, Unfit
from discreet_agent.own_state import (
    Minimum,
    Slope,
    begun,
    doubles,
    end_of,
    ended,
    moved_along,
)
from discreet_agent.rounds import Party, Round, Step

__all__ = ["Minimum", "Slope", "minimize", "run", "step_of"]

STATE = struct.Struct("!d")


def minimize(
    agent: Party,
    slope: Slope,
    *,
    initial: float | list[float] | None = None,
    demands: Demands | None = None,
) -> Minimum:
    """Take part with an objective whose derivative is `slope`.

    Starts at `initial`, or in the middle of the range, or at the point of its set nearest to
    either; the range is the announced one, cut to what the constraints allow, which every agent is
    told. A slope that raises, or is no number, does not pull in that step: an agent that left there
    would show everybody where it stands. At the start it is tried before anybody is met, and
    AgentError says what it raised. Other errors as `Agent.participate`.

    An agent that announces `masks: "sparse"` takes part in masked sums alone
    (`discreet_agent.masked_sums`): its state leaves this process in no other form, and
    `demands` are what it asks of the sums that the owner has signed.
    """
    initial = _numbers_of(initial)
    _try_slope(agent.announcement, slope, initial)
    if agent.announcement.get("masks") is not None:
        from discreet_agent import masked_sums  # noqa: PLC0415 - of these sessions alone

        return masked_sums.minimize(agent, slope, initial=initial, demands=demands)
    if demands is not None:
        raise AgentError(
            "demands are of masked sums, and this agent does not announce them (masks: 'sparse'): "
            "the cloud would see its states"
        )
    outcome = agent.participate(step_of(slope, initial))

    def last_move(kept: dict[str, Any], told: bytes) -> dict[str, Any]:
        return _moved(kept, slope, kept["steps"], told)

    return ended(agent, outcome, last_move)


def step_of(slope: Slope, initial: float | list[float] | None = None) -> Step:
    """What an agent answers to each broadcast, see `minimize`."""

    def step(current: Round) -> bytes:
        if "sums" in current.parameters:
            raise Unfit(
                "the sums of this job are masked: an agent takes part that announces it (masks: "
                "'sparse')"
            )
        try:
            before, told = history.split(current.broadcast)
            if not current.state:
                kept = begun(current, initial, told)
            else:
                kept = json.loads(current.state)
                if kept["number"] == current.number - 1 and kept["history"] != before.hex():
                    raise NotTrusted(
                        "the cloud's broadcast does not follow from the one that this agent was "
                        "shown"
                    )
                kept = _moved(kept, slope, current.number, told)
        except (struct.error, LookupError, TypeError, ValueError, StopIteration) as error:
            raise NotTrusted(
                f"the cloud's message cannot be read: {type(error).__name__}"
            ) from error
        end = history.after(current.broadcast)
        kept |= {"number": current.number, "history": end.hex()}
        if current.number < kept["steps"]:
            answer = b"".join(
                map(STATE.pack, kept["x"] if isinstance(kept["x"], list) else [kept["x"]])
            )
        else:
            assert current.identity is not None
            answer = current.identity.sign(signing.history(current.roster_digest, end))
        current.state = json.dumps(kept).encode()
        return answer

    return step


def _numbers_of(initial: Any) -> float | list[float] | None:
    """The initial state as a number or a list of numbers; AgentError for anything else."""
    if initial is None:
        return None
    try:
        found = np.asarray(initial, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise AgentError(f"the initial state must hold numbers: {error}") from None
    if found.ndim > 1 or not np.all(np.isfinite(found)):
        raise AgentError("the initial state is a finite number, or a list of such")
    numbers: float | list[float] = found.tolist()
    return numbers


def _try_slope(
    announced: Mapping[str, Any], slope: Slope, initial: float | list[float] | None
) -> None:
    """At the start, or where none is given in the middle of the range: AgentError where it raises,
    or has another shape than the state."""
    dimension = announced.get("dimension")
    try:
        places = range(1 if dimension is None else int(dimension))
    except (TypeError, ValueError):
        return  # figures that nobody can enrol with: the server says what is wrong with them
    if isinstance(initial, list) and len(initial) != len(places):
        raise AgentError(f"the initial state has {len(initial)} numbers, not {len(places)}")
    try:
        middle = [
            (end_of(announced["lower"], place) + end_of(announced["upper"], place)) / 2
            for place in places
        ]
        start = middle if initial is None else [end_of(initial, place) for place in places]
    except (LookupError, TypeError, ValueError):
        return  # figures that nobody can enrol with: the server says what is wrong with them
    x: Any = start[0] if dimension is None else start
    try:
        found = np.array(slope(x), dtype=np.float64)
    except Exception as error:
        raise AgentError(
            f"the slope of this agent's own objective raised {type(error).__name__} at {x}: {error}"
        ) from error
    if found.size != len(start):
        raise AgentError(
            f"the slope of this agent's own objective has {found.size} numbers, not {len(start)}"
        )


def _moved(kept: dict[str, Any], slope: Slope, k: int, broadcast: bytes) -> dict[str, Any]:
    """The same after step k, from the cloud's answer: its noised outputs, then the next
    multipliers."""
    answer = doubles(broadcast)
    gradient: list[Any] = [0.0] * len(kept["multipliers"])
    if isinstance(kept["x"], list):
        rows = np.zeros((len(kept["multipliers"]), len(kept["x"])))
        for place, constraint, coordinate in kept["own"]:
            rows[constraint, coordinate] = answer[place]
        gradient = rows.tolist()
    else:
        for place, constraint in kept["own"]:
            gradient[constraint] = answer[place]
    return moved_along(kept, slope, k, gradient, answer[kept["outputs"] :])


def run(agent: Agent, problem: dict[str, Any]) -> dict[str, Any]:
    """`discreet-agent --problem FILE`: `{kind, name, objective, announcement: {lower, upper,
    radius}, initial?, demands?}`.

    The objective is an expression in the agent's own name, the one that the constraints call it by;
    with a `dimension` in its coordinates, `name_1`, `name_2`, …
    """
    name, dimension = agent.name, dict(problem.get("announcement") or {}).get("dimension")
    names = (
        [name]
        if dimension is None
        else [f"{name}_{place}" for place in range(1, int(dimension) + 1)]
    )
    try:
        objective = parse(str(problem.get("objective", "0")), names)
        slopes = [derivative(objective, one) for one in names]
    except ValueError as error:
        raise AgentError(
            f"the objective is not an expression in {', '.join(names)[:80]}: {error}"
        ) from None

    def slope(x: Any) -> Any:
        point = dict(zip(names, [x] if dimension is None else x, strict=True))
        found = [value(one, point) for one in slopes]
        return found[0] if dimension is None else found

    try:
        demands = Demands(**problem["demands"]) if "demands" in problem else None
    except (TypeError, ValueError) as error:
        raise AgentError(f"demands of the problem file: {error}") from error
    found = minimize(agent, slope, initial=problem.get("initial"), demands=demands)
    if found.state != "succeeded":
        raise AgentError(f"the session {found.state}" + (f": {found.code}" if found.code else ""))
    return {
        "state": found.state,
        "code": found.code,
        "x": found.x,
        "multipliers": list(found.multipliers),
        "history": found.history,
        "unsigned": list(found.unsigned),
        "without_slope": found.without_slope,
        **({"refused": found.refused} if found.refused else {}),
    }
