"""Clock times of the steps of a demand-response result: of a day, or of a week."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DAY_SECONDS = 86_400
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def clock(states: Mapping[str, Any], step: int) -> str | None:
    """What a clock shows at a step of the day, where that is known; of blocks that begin again
    after several days, on which of them: `Mon 06:00` of a week, `week 2, Mon 06:00` of several,
    else `day 3, 06:00`. With seconds where steps are no whole minutes. Where they begin again at
    another time of the day no clock tells blocks apart.

    states: the field `states` of the result.
    """
    if not {"day_begins", "step_seconds"} <= states.keys():
        return None
    days, rest = divmod(states["day_steps"] * states["step_seconds"], DAY_SECONDS)
    if rest:
        return None
    hours, minutes, seconds = map(int, states["day_begins"].split(":"))
    passed = step % states["day_steps"] * states["step_seconds"]
    minute, second = divmod(3600 * hours + 60 * minutes + seconds + passed, 60)
    shown = f"{minute // 60 % 24:02}:{minute % 60:02}"
    if states["step_seconds"] % 60:
        shown = f"{shown}:{second:02}"
    if days == 1:
        return shown
    day = minute // 1440
    if weekday := states.get("day_begins_on"):
        week = f"week {day % days // 7 + 1}, " if days > 7 else ""
        return f"{week}{WEEKDAYS[(WEEKDAYS.index(weekday[:3]) + day) % 7]} {shown}"
    return f"day {day % days + 1}, {shown}"


def block_names(states: Mapping[str, Any]) -> list[str]:
    """The hours of each block, or its steps."""
    ends = [*states["blocks"][1:], states["day_steps"]]
    return [
        f"steps {first} to {end - 1}" if begins is None else f"{begins} to {clock(states, end)}"
        for first, end in zip(states["blocks"], ends, strict=True)
        for begins in [clock(states, first)]
    ]


def step_names(states: Mapping[str, Any], count: int) -> list[str] | None:
    """What a clock shows at each of so many steps of the horizon, all different: the second day of
    a horizon longer than the day is `06:00 (2)`. None where no clock is known, or not where the
    horizon begins."""
    first = states.get("first_step")
    if first is None or clock(states, 0) is None:
        return None
    cycle = states["day_steps"]
    return [
        f"{clock(states, first + step)}{f' ({step // cycle + 1})' if step >= cycle else ''}"
        for step in range(count)
    ]
