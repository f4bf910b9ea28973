"""How true plans are: half the width of the intervals that results had, over what the plan said to
expect.

Truths, epsilons and problems are those of `benchmarks.coverage`; a few releases of each, as widths
differ little from one to the next. Of an array a plan speaks of the number that noise moves most,
of the middle one or of their mean, see `OF`; where a plan says "mostly noise", or a result has no
interval, there is nothing to compare. On request: `make bench ARGS="advice --kinds routing"`; five
releases or more are kept in `benchmarks/ADVICE.md`, a section a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.coverage import Case, Floats, all_cases, finished
from discreet.privacy.noise import Noise
from discreet.problems.results import LEVEL

RELEASES, LEAST_KEPT = 5, 5
OF: Mapping[str, Callable[[Floats], float]] = {
    "values": np.median,
    "link_flows": np.max,
    "demand": np.max,
}
"""What of a quantity's half widths a plan speaks of; of others their mean."""
OFF = 4 / 3
TRUTHS = 12
"""Of the random ones so many."""
RESULTS = Path(__file__).with_name("ADVICE.md")
HEAD = """# What plans expect, beside what results say

Written by `make bench ARGS=advice`: half the width of a result's 90 % interval, over what the
plan's advice said from public figures alone. *Within a third*: ratios from 3/4 to 4/3. Below 1 the
answer is nearer than was said.
"""
COLUMNS = ("method", "quantity", "truths and epsilons", "median", "10 to 90 %", "within a third")
Name = tuple[str, str, str]


def run(releases: int = RELEASES, kinds: str = "") -> list[dict[str, Any]]:
    """Rows in the form of `benchmarks.__main__`: one a quantity of a method."""
    asked = set(filter(None, kinds.split(",")))
    found: dict[Name, list[float]] = {}
    for case in all_cases():
        if case.part < TRUTHS and (not asked or case.kind in asked):
            for quantity, ratio in ratios(case, releases).items():
                found.setdefault((case.kind, case.method, quantity), []).append(ratio)
    if releases >= LEAST_KEPT:
        keep(found)
    return [
        {
            "benchmark": f"advice: {' '.join(name)}",
            "ours": float(np.median(each)),
            "unit": "of the half width that was expected",
            "note": f"{len(each)} cases; 10 to 90 % {_spread(each)}; within a third "
            f"{_near(each):.0%}",
        }
        for name, each in found.items()
    ]


def ratios(case: Case, releases: int) -> dict[str, float]:
    """By quantity, of the releases in which it had an interval the median."""
    known = {
        one.quantity: one.within if one.interval is None else one.interval
        for one in case.problem.expected(case.public, case.plan, LEVEL)
    }
    found: dict[str, list[float]] = {}
    for seed in range(releases):
        values = finished(case, Noise.seeded(seed))["uncertainty"].value()["values"]
        for quantity in values.keys() & {
            name for name, within in known.items() if np.isfinite(within)
        }:
            lower, upper = (
                np.asarray(values[quantity][end], dtype=np.float64).ravel()
                for end in ("lower", "upper")
            )
            half = (upper - lower)[np.isfinite(upper - lower)] / 2
            if half.size:
                found.setdefault(quantity, []).append(
                    float(OF.get(quantity, np.mean)(half)) / known[quantity]
                )
    return {quantity: float(np.median(each)) for quantity, each in sorted(found.items())}


def keep(found: Mapping[Name, list[float]]) -> None:
    """Write the kinds' sections of the page, and leave those of other kinds as they are."""
    _, *written = RESULTS.read_text().split("\n## ") if RESULTS.exists() else [""]
    sections = {text.split("\n", 1)[0].strip(): text.split("\n", 1)[1].strip() for text in written}
    for kind in dict.fromkeys(name[0] for name in found):
        rows = [
            (
                *name[1:],
                f"{len(each):,}",
                f"{np.median(each):.2f}",
                _spread(each),
                f"{_near(each):.0%}",
            )
            for name, each in found.items()
            if name[0] == kind
        ]
        lines = ["| " + " | ".join(row) + " |" for row in (COLUMNS, ("---",) * len(COLUMNS), *rows)]
        sections[kind] = f"{datetime.now(UTC).date().isoformat()}.\n\n" + "\n".join(lines)
    parts = (f"## {kind}\n\n{text}\n" for kind, text in sorted(sections.items()))
    RESULTS.write_text("\n".join((HEAD, *parts)))


def _spread(each: list[float]) -> str:
    low, high = np.quantile(each, (0.1, 0.9))
    return f"{low:.2f} to {high:.2f}"


def _near(each: list[float]) -> float:
    return float(np.mean([1 / OFF <= ratio <= OFF for ratio in each]))
