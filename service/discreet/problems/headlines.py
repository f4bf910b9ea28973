"""Sentences that answer what was asked: how kinds make theirs, each a number with its interval and
what that lets one say. `answers.py` finds those of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.problems.accuracy import LEVEL
from discreet.problems.results import properties_of
from discreet_client import intervals
from discreet_client.intervals import Stated

ORDER = 10
"""The larger end of an interval in parts of the smaller, up to which the order of magnitude is
told."""
NO_SIGN = "Sign undetermined."
NOT_FROM_ZERO = "Not distinguishable from 0."
NONZERO = "Nonzero; size uncertain."
NO_INTERVAL = "No interval available."
NOISE, CONFIDENCE = "NI", "CI"
"""Kinds of intervals: noise interval, of the noise alone; confidence interval, of noise and who
came."""
LONGEST, LONGEST_STORED = 120, 200
"""Characters of an answer, and of the one that lists of jobs keep."""
SHOWN = 0.01
"""In parts of an interval's width: what is nearer to 0 than that is written as 0."""
SIZES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


@dataclass(frozen=True)
class Headline:
    """A sentence: `figure`, a number with its interval, between the words before and after it."""

    before: str
    figure: str = ""
    after: str = ""
    unit: str = ""
    """What the figure is measured in, as the contract says it."""
    good_for: str = ""
    """What the interval lets one say; empty where no noise was added, or there is no figure."""

    @property
    def text(self) -> str:
        return f"{self.before}{self.figure}{self.after}"


def headline(
    fields: Any,
    result: Mapping[str, Any],
    name: str,
    before: str,
    after: str = "",
    kind: str = "",
    between: str = "",
) -> Headline:
    """A sentence about one number of the result. `fields`: those of the kind, which say its unit;
    the rest as in `figure`."""
    unit = properties_of(fields).get(name, {}).get("x-unit", "")
    shown = figure(result, name, kind, between)
    return Headline(before, shown, after, unit, good_for(result, name))


def figure(result: Mapping[str, Any], name: str, kind: str = "", between: str = "") -> str:
    """A number of the result with its interval, large ones in millions: `7.48 million (7.3 to 7.6,
    90 %)`; with the `kind` of the interval, `NOISE` or `CONFIDENCE`, `7.48 million (90 % NI:
    7.3–7.6)`, and `between` both what the number is of."""
    value, said = result[name], _stated(result, name)
    lower, upper = (None, None) if said is None else (said.lower, said.upper)
    level, noise = (0.9, False) if said is None else (said.level, said.all_noise)
    size, word = next(((size, word) for size, word in SIZES if abs(value) >= size), (1, ""))
    if word:
        value, lower, upper = (None if one is None else one / size for one in (value, lower, upper))
    if lower is None or upper is None:
        noted = " (mostly noise)" if noise else ""
        return f"{intervals.plain(value, 4)}{word and ' '}{word}{between}{noted}"
    text = intervals.with_interval(value, lower, upper, level, noise=noise)
    if kind:
        shown, _, ends = text.partition(" (")
        low, _, rest = ends.partition(" to ")
        high, _, _ = rest.partition(f", {intervals.percent(level)}")
        ends = f"{low} to {high}" if lower < 0 else f"{low}–{high}"
        noted = ", mostly noise" if noise else ""
        of = f"{word and ' '}{word}{between}"
        return f"{shown}{of} ({intervals.percent(level)} {kind}: {ends}{noted})"
    return text.replace(" (", f" {word} (", 1) if word else text


def good_for(result: Mapping[str, Any], name: str) -> str:
    """What a number's interval lets one say of it."""
    said = _stated(result, name)
    if said is None:
        return NO_INTERVAL if result.get("uncertainty") else ""
    lower, upper = said.lower, said.upper
    if lower is None or upper is None:
        return NO_INTERVAL
    return good_for_ends(result[name], lower, upper)


def good_for_ends(value: float, lower: float, upper: float) -> str:
    """What two ends let one say of a number between them."""
    if lower < 0 < upper:
        return NO_SIGN
    near, far = sorted((abs(lower), abs(upper)))
    if lower <= 0 <= upper or near < SHOWN * (upper - lower):
        return NOT_FROM_ZERO
    # Of the interval's middle where the number lies near the end that is nearer to 0: ± 130 % would
    # deny the sign.
    part = (upper - lower) / 2 / max(abs(value), (near + far) / 2)
    if far <= ORDER * near:
        return f"±{intervals.plain(100 * part)} % ({intervals.percent(LEVEL)})."
    return NONZERO


def only_noise(result: Mapping[str, Any], name: str) -> tuple[int, int]:
    """How many rows of a field are only noise, and of how many."""
    said = _stated(result, name)
    return (0, 0) if said is None else (len(said.rows_of_noise), said.rows)


def counted(count: int, noun: str) -> str:
    """`1 link`, `2 links`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _stated(result: Mapping[str, Any], name: str) -> Stated | None:
    return next((one for one in intervals.stated(result) if one.name == name), None)
