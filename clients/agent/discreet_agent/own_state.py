"""What an agent of a cloud multi-agent problem keeps of itself from round to round: its state, the
multipliers, and how it moves."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.cloud_steps import agent_step, tikhonov_sizes, vector_step
from discreet_agent.federation import history
from discreet_agent.federation.errors import AgentError, NotTrusted
from discreet_agent.projections import FARTHEST, onto
from discreet_agent.rounds import Outcome, Party, Round

SETS = ("budget", "ball", "polytope")
"""What an announcement may have beside the box."""

Slope = Callable[[Any], Any]
"""Of an agent's own objective: of a number a number; of a state with a dimension a list, of a
list."""


@dataclass(frozen=True, slots=True)
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
        if (
            not end_of(announced["lower"], place)
            <= low
            <= high
            <= end_of(announced["upper"], place)
        ):
            says = (
                f"the cloud's range {low:g} to {high:g} is not within the one that this agent "
                "announced"
            )
            raise NotTrusted(says)
    within = {part: announced[part] for part in SETS if announced.get(part)} or None
    middle = [(low + high) / 2 for low, high in ranges]
    if isinstance(initial, list) and len(initial) != len(own):
        raise AgentError(f"the initial state has {len(initial)} numbers, not {len(own)}")
    start = middle if initial is None else [end_of(initial, place) for place in range(len(own))]
    x = _projected(np.array(start, dtype=np.float64), ranges, within)
    told = doubles(broadcast)
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


def end_of(given: Any, place: int) -> float:
    """Of a coordinate: a list has one for each, a number is the same for all."""
    return float(given[place] if isinstance(given, list) else given)


def doubles(data: bytes) -> list[float]:
    return [number for (number,) in struct.iter_unpack("!d", data)]
