"""An agent of a cloud multi-agent problem: its objective and its state stay here, the cloud sees
its state alone.

agent = Agent.from_token(token, announcement={"lower": -10, "upper": 10, "radius": 1}, name="x1", …)
found = minimize(agent, slope=lambda x: 2 * (x - 9) + 1)

A state may be a vector: an announcement with a `dimension` has bounds for all coordinates or lists
of them, and perhaps a `budget: {lower, upper}` of their sum, a `ball: {centre, radius}` or a
`polytope: {A, b, C, d}` (`A x <= b`, `C x = d`); the slope then takes and gives a list, and
`found.x` is one.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import define
from numpy.typing import NDArray

from discreet_client.agent.agent import Agent
from discreet_client.agent.demands import Demands
from discreet_client.agent.rounds import Outcome, Party, Round, Step
from discreet_client.expressions import derivative, parse, value
from discreet_client.federation import history, signing
from discreet_client.federation.errors import AgentError, NotTrusted
from discreet_client.projections import FARTHEST, onto
from discreet_client.updates import agent_step, tikhonov_sizes, vector_step

STATE = struct.Struct("!d")

SETS = ("budget", "ball", "polytope")
"""What an announcement may have beside the box."""

Slope = Callable[[Any], Any]
"""Of an agent's own objective: of a number a number; of a state with a dimension a list, of a
list."""


@define(frozen=True)
class Minimum:
    """How a session ended for this agent: its own last state, and the multipliers that everybody
    has."""

    state: str
    code: str
    x: Any
    """A number; of a state with a dimension a list."""
    multipliers: tuple[float, ...]
    history: str = ""
    """Hex: how the chain of all broadcasts ends that this agent was shown; after success."""
    unsigned: tuple[str, ...] = ()
    """Fingerprints of the agents who have not signed the same end: were there any, the cloud may
    have told them something else."""
    without_slope: int = 0
    """Steps in which the slope was no number, or raised: there the objective did not pull."""
    refused: int = 0
    """Of masked sums: what this agent was asked for and did not answer, since it must not, or had
    dropped from the round."""


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
    (`discreet_client.agent.masked_sums`): its state leaves this process in no other form, and
    `demands` are what it asks of the sums that the owner has signed.
    """
    from discreet_client.agent import masked_sums  # noqa: PLC0415  # it uses this module

    _try_slope(agent.announcement, slope, initial)
    if masked_sums.announced(agent.announcement):
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


def ended(
    agent: Party,
    outcome: Outcome,
    last_move: Callable[[dict[str, Any], bytes], dict[str, Any]],
    more: int = 0,
) -> Minimum:
    """How a session ended, from what the agent has kept. `last_move`: what is kept after the last
    broadcast, of which it may have missed the first copy; its doubles are followed by `more`
    bytes."""
    kept = json.loads(outcome.final_state or "{}")
    if not outcome.succeeded or not kept:
        return Minimum(
            outcome.state,
            outcome.code,
            kept.get("x", math.nan),
            tuple(kept.get("multipliers", ())),
            without_slope=kept.get("without_slope", 0),
            refused=kept.get("refused", 0),
        )
    return _ended(agent, kept, outcome, last_move, more)


def step_of(slope: Slope, initial: float | list[float] | None = None) -> Step:
    """What an agent answers to each broadcast, see `minimize`."""

    def step(current: Round) -> bytes:
        if "sums" in current.parameters:
            raise AgentError(
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


def _ended(
    agent: Party,
    kept: dict[str, Any],
    outcome: Outcome,
    last_move: Callable[[dict[str, Any], bytes], dict[str, Any]],
    more: int,
) -> Minimum:
    """After success: the last broadcast repeats the one before, which this agent may have missed,
    and has what the others signed of it."""
    try:
        length = history.DIGEST_BYTES + 8 * (kept["outputs"] + len(kept["multipliers"])) + more
        last, signed = outcome.broadcast[:length], history.unpacked(outcome.broadcast[length:])
        before, told = history.split(last)
        end = history.after(last).hex()
        shown = {kept["steps"]: end, kept["steps"] - 1: before.hex()}.get(
            kept["number"], kept["history"]
        )
        if shown != kept["history"]:
            raise NotTrusted(
                "the cloud's last broadcast does not follow from the one that this agent was shown"
            )
        if kept["number"] < kept["steps"]:
            kept = last_move(kept, told)
    except (struct.error, LookupError, TypeError, ValueError) as error:
        raise NotTrusted(f"the cloud's message cannot be read: {type(error).__name__}") from error
    listed = [
        {"fingerprint": one["fingerprint"], "key": base64.b64decode(one["key"])}
        for one in agent.roster["agents"]
    ]
    missing = history.unsigned(agent.roster_digest, listed, bytes.fromhex(end), signed)
    return Minimum(
        outcome.state,
        outcome.code,
        kept["x"],
        tuple(kept["multipliers"]),
        end,
        tuple(missing),
        kept.get("without_slope", 0),
        kept.get("refused", 0),
    )


def _try_slope(
    announced: Mapping[str, Any], slope: Slope, initial: float | list[float] | None
) -> None:
    """At the start, or where none is given in the middle of the range: AgentError where it raises,
    or has another shape than the state."""
    dimension = announced.get("dimension")
    places = range(1 if dimension is None else int(dimension))
    try:
        middle = [
            (_end(announced["lower"], place) + _end(announced["upper"], place)) / 2
            for place in places
        ]
        start = middle if initial is None else [_end(initial, place) for place in places]
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


def begun(current: Round, initial: float | list[float] | None, broadcast: bytes) -> dict[str, Any]:
    """What is kept from round to round: state, multipliers, and the public figures that steps
    need."""
    parameters = current.parameters
    signed = next(one for one in current.roster["agents"] if one["fingerprint"] == current.agent)
    name, announced = str(signed["name"]), signed["announcement"]
    dimension = announced.get("dimension")
    own = (
        {name: 0}
        if dimension is None
        else {f"{name}_{place + 1}": place for place in range(dimension)}
    )
    ranges = [list(ends) for of, *ends in parameters["box"] if of in own]
    if len(ranges) != len(own):
        raise NotTrusted("the cloud's ranges are not of this agent's coordinates")
    for place, (low, high) in enumerate(ranges):
        if not _end(announced["lower"], place) <= low <= high <= _end(announced["upper"], place):
            says = (
                f"the cloud's range {low:g} to {high:g} is not within the one that this agent "
                "announced"
            )
            raise NotTrusted(says)
    within = {part: announced[part] for part in SETS if announced.get(part)} or None
    middle = [(low + high) / 2 for low, high in ranges]
    if isinstance(initial, list) and len(initial) != len(own):
        raise AgentError(f"the initial state has {len(initial)} numbers, not {len(own)}")
    start = middle if initial is None else [_end(initial, place) for place in range(len(own))]
    x = _projected(np.array(start, dtype=np.float64), ranges, within)
    told = _doubles(broadcast)
    # An agent that missed the first rounds hears the outputs of the last one before the
    # multipliers.
    multipliers = told[len(parameters["layout"]) :] if current.number else told
    derivatives = [
        (place, constraint, of)
        for place, (constraint, of) in enumerate(parameters["layout"])
        if of in own
    ]
    return {
        "x": x[0] if dimension is None else x,
        "multipliers": multipliers,
        "range": ranges[0] if dimension is None else ranges,
        "within": within,
        "outputs": len(parameters["layout"]),
        "steps": current.rounds - 1,  # the last round is that of signatures
        # Where among the outputs, of which constraint; of a vector in which coordinate.
        "own": [one[:2] if dimension is None else (*one[:2], own[one[2]]) for one in derivatives],
        "schedule": [parameters["schedule"][figure] for figure in ("gamma", "alpha", "c1", "c2")],
    }


def _moved(kept: dict[str, Any], slope: Slope, k: int, broadcast: bytes) -> dict[str, Any]:
    """The same after step k, from the cloud's answer: its noised outputs, then the next
    multipliers."""
    answer = _doubles(broadcast)
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


def moved_along(
    kept: dict[str, Any],
    slope: Slope,
    k: int,
    gradient: list[Any],
    multipliers: list[float],
) -> dict[str, Any]:
    """The same after step k, along these derivatives of the constraints: a number of each, or of a
    state that is a vector a list. `multipliers`: the next ones; the step is made with those
    before."""
    if isinstance(kept["x"], list):
        moved_to = _vector_moved(kept, slope, k, np.array(gradient, dtype=np.float64))
        return {**kept, "x": moved_to, "multipliers": multipliers}
    x = kept["x"]
    sizes = tikhonov_sizes(k, *kept["schedule"])
    pull = float(_pull(kept, slope))
    moved = agent_step(x, pull, gradient, kept["multipliers"], *sizes, *kept["range"])
    if not math.isfinite(moved):
        moved = x
    return {**kept, "x": moved, "multipliers": multipliers}


def _pull(kept: dict[str, Any], slope: Slope) -> NDArray[np.float64]:
    """The slope at the state, of its shape. Where the objective has none it does not pull, also
    where it raises: a state that is no number, or an agent that leaves, would end the job there,
    and show everybody where this agent stands. How often is kept for its own user."""
    shape = np.shape(kept["x"])
    try:
        pull = np.array(slope(kept["x"]), dtype=np.float64).reshape(shape)
    except Exception:  # whatever it is, nobody else is to see that it was
        pull = np.full(shape, math.nan)
    unknown = np.isnan(pull)
    if unknown.any():
        kept["without_slope"] = kept.get("without_slope", 0) + 1
    return np.where(unknown, 0.0, pull)


def _vector_moved(
    kept: dict[str, Any], slope: Slope, k: int, gradient: NDArray[np.float64]
) -> list[float]:
    """The next state that is a vector."""
    x = np.array(kept["x"], dtype=np.float64)
    pull = _pull(kept, slope)
    multipliers = np.array(kept["multipliers"], dtype=np.float64)
    gamma, alpha = tikhonov_sizes(k, *kept["schedule"])
    moved = vector_step(x, pull, gradient, multipliers, gamma, alpha)
    return _projected(np.where(np.isnan(moved), x, moved), kept["range"], kept["within"])


def _projected(point: Any, ranges: list[list[float]], within: dict[str, Any] | None) -> list[float]:
    low, high = np.array(ranges, dtype=np.float64).T
    found: list[float] = onto(np.clip(point, -FARTHEST, FARTHEST), low, high, within).tolist()
    return found


def _end(given: Any, place: int) -> float:
    """Of a coordinate: a list has one for each, a number is the same for all."""
    return float(given[place] if isinstance(given, list) else given)


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


def _doubles(data: bytes) -> list[float]:
    return [number for (number,) in struct.iter_unpack("!d", data)]
