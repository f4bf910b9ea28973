"""Clock times of the steps of a result, for people: hours, days and weeks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from discreet.problems.dr_ensemble.dataset import step_length
from discreet_client.day_clock import clock

MOST_WINDOWS = 3
"""Of an event that a sentence names."""


def step_name(result: Mapping[str, Any]) -> str:
    """What a step of the horizon is, for an axis: `step of 15 minutes`."""
    seconds = result.get("states", {}).get("step_seconds")
    if seconds is None:
        return "step"
    return f"step of {step_length(seconds)}"


def across(result: Mapping[str, Any], hours: Mapping[Any, Any]) -> str:
    """What an axis of steps shows, with or without a clock."""
    many = result.get("states", {}).get("day_begins_on")
    return (
        f"time of {'week' if many else 'day'}, each {step_name(result)}"
        if hours
        else step_name(result)
    )


def windows(steps: Sequence[int]) -> list[tuple[int, int]]:
    """Of increasing steps those that follow each other, from the first to before the end."""
    ends = [place for place, (one, after) in enumerate(pairwise(steps), 1) if after > one + 1]
    return (
        [(steps[first], steps[end - 1] + 1) for first, end in pairwise([0, *ends, len(steps)])]
        if steps
        else []
    )


def hours_of(problem: Mapping[str, Any], states: Mapping[str, Any], steps: Sequence[int]) -> str:
    """Steps by the clock where it is known, such as `17:00 to 20:00`, else `steps 34 to 39`."""
    shift, said = problem.get("first_step", 0), list[str]()
    for first, end in windows(steps):
        begins = clock(states, shift + first)
        if begins is not None:
            said.append(f"{begins} to {clock(states, shift + end)}")
        else:
            said.append(f"step {first}" if end == first + 1 else f"steps {first} to {end - 1}")
    more = f" and {len(said) - MOST_WINDOWS} more times" if len(said) > MOST_WINDOWS else ""
    return ", ".join(said[:MOST_WINDOWS]) + more
