"""What a result states about its uncertainty (field `uncertainty`), for programs and in words.

It uses only names of the contract that every kind shares: `values` with `lower` and `upper` in a
field's shape, `kinds` of these intervals, `noise_dominates` of a field or of its rows,
`mostly_noise` of the result. Nothing here needs NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOSTLY_NOISE = "Mostly noise: at this epsilon, noise is as large as the answer"
KINDS = {
    "noise": ("NI", "noise interval"),
    "noise_and_bins": ("NI with bins", "noise interval with bins"),
    "confidence": ("CI", "confidence interval"),
}
"""Kinds of intervals, short and spelt out: of the noise alone; of the noise and of where a reading
lies within its bin; of the noise and of who is in the data."""
UNKNOWN_KIND = ("interval", "interval")
NOTHING = "nothing above the noise"
"""Said of a number that is 0 because everything released was noise, not because it is known to be
0."""
NOT_CONVERGED = "Not optimal: the iteration did not converge, or the constraints cannot be kept"
"""Said of a result whose `status` is `iteration_limit` or `infeasible`."""
MOST_ROWS = 12
"""How many rows a sentence names."""


@dataclass(frozen=True)
class Stated:
    """The uncertainty that a result states for one field."""

    name: str
    value: Any
    """The field itself; None if it is left out of the JSON, or is a part of a field."""
    lower: Any
    upper: Any
    """None where no honest interval exists."""
    rows_of_noise: tuple[int, ...]
    """Positions of the rows that are mostly noise."""
    rows: int
    """How many rows were judged; 0 if the field was judged as a whole."""
    all_noise: bool
    level: float
    kind: str = ""
    """Of `KINDS`; empty where the result does not state it."""

    @property
    def half_widths(self) -> list[float]:
        """Half the widths of the numbers' intervals, smallest first."""
        pairs = zip(numbers(self.lower), numbers(self.upper), strict=False)
        return sorted(
            (upper - lower) / 2 for lower, upper in pairs if lower is not None and upper is not None
        )

    @property
    def text(self) -> str:
        """The field in words: `0.64 (90 % NI: 0.41–0.87)`, or for an array how wide its intervals
        are."""
        return self.words(None)

    def words(self, names: Sequence[str] | None) -> str:
        """The same, with rows called by their names instead of their positions."""
        if is_number(self.value):
            return with_interval(
                self.value, self.lower, self.upper, self.level, noise=self.all_noise, kind=self.kind
            )
        widths, said = self.half_widths, []
        if widths:
            middle, largest = (plain(one, 3) for one in (widths[len(widths) // 2], widths[-1]))
            apart = middle if middle == largest else f"{middle} (median), {largest} at most"
            called = KINDS.get(self.kind, UNKNOWN_KIND)[1]
            many = f"1 {called}" if len(widths) == 1 else f"{len(widths):,} {_several(called)}"
            said.append(f"{many} of {percent(self.level)}: ± {apart}")
        if self.all_noise:
            said.append("mostly noise" if any(numbers(self.value)) else NOTHING)
        elif self.rows_of_noise:
            few, are = len(self.rows_of_noise), "is" if len(self.rows_of_noise) == 1 else "are"
            said.append(
                f"{few:,} of {self.rows:,} rows {are} mostly noise: "
                f"{listed(self.rows_of_noise, names)}"
            )
        return "; ".join(said) or "no interval"


def is_mostly_noise(result: Mapping[str, Any]) -> bool:
    """Whether the result states that it is mostly noise."""
    return bool((result.get("uncertainty") or {}).get("mostly_noise"))


def is_not_converged(result: Mapping[str, Any]) -> bool:
    """Whether the result is not an optimum: its iteration stopped before it had settled, or its
    constraints are violated."""
    return result.get("status") in ("iteration_limit", "infeasible")


def combined(result: Mapping[str, Any]) -> str:
    """What using several releases together gained, in words; empty for a single release."""
    said = result.get("combined")
    if not said:
        return ""
    together, alone = said["standard_deviation"], said["least_alone"]
    return (
        f"{said['releases']} releases: their combined noise has standard deviation "
        f"{plain(together, 3)}, {percent(1 - together / alone)} less than {plain(alone, 3)} of the "
        "most accurate one alone"
    )


def stated(result: Mapping[str, Any]) -> Iterator[Stated]:
    """Every field for which the result states an uncertainty, single numbers first."""
    said = result.get("uncertainty") or {}
    values, noise = said.get("values", {}), said.get("noise_dominates", {})
    names = dict.fromkeys([*values, *noise])
    for name in sorted(
        names, key=lambda one: (not is_number(result.get(one)), list(names).index(one))
    ):
        interval, dominated = values.get(name) or {}, noise.get(name, False)
        rows = (
            tuple(at for at, one in enumerate(dominated) if all(numbers(one)))
            if isinstance(dominated, list)
            else ()
        )
        yield Stated(
            name=name,
            value=result.get(name),
            lower=interval.get("lower"),
            upper=interval.get("upper"),
            rows_of_noise=rows,
            rows=len(dominated) if isinstance(dominated, list) else 0,
            all_noise=bool(dominated)
            and (not isinstance(dominated, list) or len(rows) == len(dominated)),
            level=said.get("level", 0.9),
            kind=kind_of(result, name),
        )


def kind_of(result: Mapping[str, Any], name: str) -> str:
    """The kind of a field's interval, of `KINDS`; empty where the result does not state it."""
    return str(((result.get("uncertainty") or {}).get("kinds") or {}).get(name, ""))


def with_interval(
    value: float,
    lower: float | None,
    upper: float | None,
    level: float,
    *,
    noise: bool = False,
    kind: str = "",
    between: str = "",
) -> str:
    """A number with its interval, with as many digits as the interval's width justifies: `0.64 (90
    % NI: 0.41–0.87)`. `kind`: of `KINDS`; `between`: what the number is of, before the interval."""
    says = NOTHING if value == 0 else "mostly noise"
    if lower is None or upper is None:
        return f"{figure(value)}{between} ({says})" if noise else f"{figure(value)}{between}"
    decimals = _decimals(upper - lower)
    if isinstance(value, int):
        decimals = min(decimals, 0)
    shown, low, high = (_fixed(one, decimals) for one in (value, lower, upper))
    ends = between_ends(low, high, level, kind)
    return f"{shown}{between} ({ends}{f', {says}' if noise else ''})"


def between_ends(low: str, high: str, level: float, kind: str) -> str:
    """`90 % NI: 0.41–0.87`; where the lower end is negative `-0.08 to 0.38`."""
    to = " to " if low.startswith("-") else "–"
    return f"{percent(level)} {KINDS.get(kind, UNKNOWN_KIND)[0]}: {low}{to}{high}"


def spelt_out(sentence: str) -> str:
    """A sentence whose intervals are called by their whole names."""
    for short, whole in sorted(KINDS.values(), reverse=True):
        sentence = sentence.replace(f" % {short}: ", f" % {whole}: ")
    return sentence


def _several(called: str) -> str:
    return called.replace("interval", "intervals", 1)


def outward(lower: float, upper: float) -> tuple[str, str]:
    """The ends of an interval with the digits of `with_interval`, never within it: what is said to
    be at least the lower end is."""
    decimals = _decimals(upper - lower)
    step = 10.0**-decimals
    low, high = round(lower, decimals), round(upper, decimals)
    low, high = low - step * (low > lower), high + step * (high < upper)
    return _fixed(low, decimals), _fixed(high, decimals)


def figure(value: float) -> str:
    """A number alone, with six digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


def percent(part: float) -> str:
    """`90 %` of 0.9, with up to three digits."""
    return f"{100 * part:.3g} %"


def plain(value: float, digits: int = 2) -> str:
    """A number rounded to so many digits, as people write it: `17,000`, `0.00027`; with a power of
    ten only where there would be too many zeros."""
    if not value or not math.isfinite(value) or not 1e-6 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):,.{max(0, places)}f}"
    return text.rstrip("0").rstrip(".") if places > 0 else text


def listed(rows: Sequence[int], names: Sequence[str] | None = None) -> str:
    """Positions of rows, or their names, shortened where there are many."""
    called = [str(row) if names is None else names[row] for row in rows[:MOST_ROWS]]
    return ", ".join(called) + (", …" if len(rows) > MOST_ROWS else "")


def is_number(value: Any) -> bool:
    """Whether a value is a number in JSON; `true` is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers(value: Any) -> Iterator[Any]:
    """All numbers and nulls of nested lists, in order."""
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    else:
        yield value


def _decimals(width: float) -> int:
    """Decimal places that leave a width two digits; negative for tens, hundreds, …"""
    if not 0 < width < math.inf:
        return 6
    return 1 - math.floor(math.log10(width))


def _fixed(value: float, decimals: int) -> str:
    if decimals > 12 or abs(value) >= 1e15:
        return f"{value:.6g}"
    return f"{round(value, decimals) + 0.0:,.{max(0, decimals)}f}"  # no -0
