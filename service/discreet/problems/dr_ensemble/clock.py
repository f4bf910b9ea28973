"""Clock times of the steps of a result, for people: hours, days and weeks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from discreet.problems.dr_ensemble.measurements import step_length

DAY_SECONDS = 86_400
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MOST_WINDOWS = 3
"""Of an event that a sentence names."""


def step_name(result: Mapping[str, Any]) -> str:
    """What a step of the horizon is, for an axis: `step of 15 minutes`."""
    seconds = result.get("states", {}).get("step_seconds")
    if seconds is None:
        return "step"
    return f"step of {step_length(seconds)}"


def clock(states: Mapping[str, Any], step: int) -> str | None:
    """What a clock shows at a step of the day, where that is known; of blocks that begin again
    after several days, on which of them: `Mon 06:00` of weeks, else `day 3, 06:00`. Where they
    begin again at another time of the day no clock tells blocks apart."""
    if not {"day_begins", "step_seconds"} <= states.keys():
        return None
    days, rest = divmod(states["day_steps"] * states["step_seconds"], DAY_SECONDS)
    if rest:
        return None
    hours, minutes, seconds = map(int, states["day_begins"].split(":"))
    passed = step % states["day_steps"] * states["step_seconds"]
    minute = (3600 * hours + 60 * minutes + seconds + passed) // 60
    shown = f"{minute // 60 % 24:02}:{minute % 60:02}"
    if days == 1:
        return shown
    if weekday := states.get("day_begins_on"):
        return f"{WEEKDAYS[(WEEKDAYS.index(weekday[:3]) + minute // 1440) % 7]} {shown}"
    return f"day {minute // 1440 % days + 1}, {shown}"


def block_names(states: Mapping[str, Any]) -> list[str]:
    """The hours of each block, or its steps."""
    ends = [*states["blocks"][1:], states["day_steps"]]
    return [
        f"steps {first} to {end - 1}" if begins is None else f"{begins} to {clock(states, end)}"
        for first, end in zip(states["blocks"], ends, strict=True)
        for begins in [clock(states, first)]
    ]


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
