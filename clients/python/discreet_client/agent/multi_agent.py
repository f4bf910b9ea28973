"""An agent of a cloud multi-agent problem: its objective and its state stay here, the cloud sees its state alone.

agent = Agent.from_token(token, announcement={"lower": -10, "upper": 10, "radius": 1}, name="x1", …)
found = minimize(agent, slope=lambda x: 2 * (x - 9) + 1)
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable
from typing import Any

from attrs import define

from discreet_client.agent.agent import Agent
from discreet_client.agent.rounds import Outcome, Party, Round, Step
from discreet_client.expressions import derivative, parse, value
from discreet_client.federation import history, signing
from discreet_client.federation.errors import AgentError, NotTrusted
from discreet_client.updates import agent_step, tikhonov_sizes

STATE = struct.Struct("!d")


@define(frozen=True)
class Minimum:
    """How a session ended for this agent: its own last state, and the multipliers that everybody has."""

    state: str
    code: str
    x: float
    multipliers: tuple[float, ...]
    history: str = ""
    """Hex: how the chain of all broadcasts ends that this agent was shown; after success."""
    unsigned: tuple[str, ...] = ()
    """Fingerprints of the agents who have not signed the same end: were there any, the cloud may have told them
    something else."""


def minimize(agent: Party, slope: Callable[[float], float], *, initial: float | None = None) -> Minimum:
    """Take part with an objective whose derivative is `slope`.

    Starts at `initial`, or in the middle of the range; the range is the announced one, cut to what the constraints
    allow, which every agent is told. Errors as `Agent.participate`.
    """
    outcome = agent.participate(step_of(slope, initial))
    kept = json.loads(outcome.final_state or "{}")
    if not outcome.succeeded or not kept:
        return Minimum(outcome.state, outcome.code, kept.get("x", math.nan), tuple(kept.get("multipliers", ())))
    return _ended(agent, kept, slope, outcome)


def step_of(slope: Callable[[float], float], initial: float | None = None) -> Step:
    """What an agent answers to each broadcast, see `minimize`."""

    def step(current: Round) -> bytes:
        try:
            before, told = history.split(current.broadcast)
            if not current.state:
                kept = _begun(current, initial, told)
            else:
                kept = json.loads(current.state)
                if kept["number"] == current.number - 1 and kept["history"] != before.hex():
                    raise NotTrusted("the cloud's broadcast does not follow from the one that this agent was shown")
                kept = _moved(kept, slope, current.number, told)
        except (struct.error, LookupError, TypeError, ValueError, StopIteration) as error:
            raise NotTrusted(f"the cloud's message cannot be read: {type(error).__name__}") from error
        end = history.after(current.broadcast)
        kept |= {"number": current.number, "history": end.hex()}
        if current.number < kept["steps"]:
            answer = STATE.pack(kept["x"])
        else:
            assert current.identity is not None
            answer = current.identity.sign(signing.history(current.roster_digest, end))
        current.state = json.dumps(kept).encode()
        return answer

    return step


def _ended(agent: Party, kept: dict[str, Any], slope: Callable[[float], float], outcome: Outcome) -> Minimum:
    """After success: the last broadcast repeats the one before, which this agent may have missed, and has what the
    others signed of it."""
    try:
        length = history.DIGEST_BYTES + 8 * (kept["outputs"] + len(kept["multipliers"]))
        last, signed = outcome.broadcast[:length], history.unpacked(outcome.broadcast[length:])
        before, told = history.split(last)
        end = history.after(last).hex()
        shown = {kept["steps"]: end, kept["steps"] - 1: before.hex()}.get(kept["number"], kept["history"])
        if shown != kept["history"]:
            raise NotTrusted("the cloud's last broadcast does not follow from the one that this agent was shown")
        if kept["number"] < kept["steps"]:
            kept = _moved(kept, slope, kept["steps"], told)
    except (struct.error, LookupError, TypeError, ValueError) as error:
        raise NotTrusted(f"the cloud's message cannot be read: {type(error).__name__}") from error
    listed = [
        {"fingerprint": one["fingerprint"], "key": base64.b64decode(one["key"])} for one in agent.roster["agents"]
    ]
    missing = history.unsigned(agent.roster_digest, listed, bytes.fromhex(end), signed)
    return Minimum(outcome.state, outcome.code, kept["x"], tuple(kept["multipliers"]), end, tuple(missing))


def _begun(current: Round, initial: float | None, broadcast: bytes) -> dict[str, Any]:
    """What is kept from round to round: state, multipliers, and the public figures that steps need."""
    parameters = current.parameters
    signed = next(one for one in current.roster["agents"] if one["fingerprint"] == current.agent)
    name, announced = str(signed["name"]), signed["announcement"]
    low, high = next(ends for of, *ends in parameters["box"] if of == name)
    if not announced["lower"] <= low <= high <= announced["upper"]:
        raise NotTrusted(f"the cloud's range {low:g} to {high:g} is not within the one that this agent announced")
    x = min(max((low + high) / 2 if initial is None else initial, low), high)
    told = _doubles(broadcast)
    # An agent that missed the first rounds hears the outputs of the last one before the multipliers.
    multipliers = told[len(parameters["layout"]) :] if current.number else told
    own = [(place, constraint) for place, (constraint, of) in enumerate(parameters["layout"]) if of == name]
    return {
        "x": x,
        "multipliers": multipliers,
        "range": [low, high],
        "outputs": len(parameters["layout"]),
        "steps": current.rounds - 1,  # the last round is that of signatures
        "own": own,
        "schedule": [parameters["schedule"][figure] for figure in ("gamma", "alpha", "c1", "c2")],
    }


def _moved(kept: dict[str, Any], slope: Callable[[float], float], k: int, broadcast: bytes) -> dict[str, Any]:
    """The same after step k, from the cloud's answer: its noised outputs, then the next multipliers."""
    answer = _doubles(broadcast)
    gradient = [0.0] * len(kept["multipliers"])
    for place, constraint in kept["own"]:
        gradient[constraint] = answer[place]
    x = kept["x"]
    sizes = tikhonov_sizes(k, *kept["schedule"])
    # Where the objective has no slope it does not pull: a state that is no number would end the job there, and show
    # everybody where this agent stands.
    pull = slope(x)
    pull = 0.0 if math.isnan(pull) else pull
    moved = agent_step(x, pull, gradient, kept["multipliers"], *sizes, *kept["range"])
    if not math.isfinite(moved):
        moved = x
    return {**kept, "x": moved, "multipliers": answer[kept["outputs"] :]}


def run(agent: Agent, problem: dict[str, Any]) -> dict[str, Any]:
    """`discreet-agent --problem FILE`: `{kind, name, objective, announcement: {lower, upper, radius}, initial?}`.

    The objective is an expression in the agent's own name, the one that the constraints call it by.
    """
    name = agent.name
    try:
        slope = derivative(parse(str(problem.get("objective", "0")), [name]), name)
    except ValueError as error:
        raise AgentError(f"the objective is no expression in {name}: {error}") from None
    found = minimize(agent, lambda x: value(slope, {name: x}), initial=problem.get("initial"))
    return {
        "state": found.state,
        "code": found.code,
        "x": found.x,
        "multipliers": list(found.multipliers),
        "history": found.history,
        "unsigned": list(found.unsigned),
    }


def _doubles(data: bytes) -> list[float]:
    return [number for (number,) in struct.iter_unpack("!d", data)]
