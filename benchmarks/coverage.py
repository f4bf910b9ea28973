"""How often the intervals of results hold what they would be without noise: every kind, over
epsilons and truths.

Each case is released many times, with seeded noise, and every release is finished as a job's is. Of
each quantity of `uncertainty.values`: the part of all its numbers, over all releases, whose
interval holds the exact one. Nominal is `accuracy.LEVEL`. On request: `make bench ARGS="coverage
--releases 20 --kinds dr_ensemble"`. A run with 1,000 releases or more of each kind and method is
kept in `benchmarks/COVERAGE.md`, a section a kind. Cases are a function `cases()` in files of their
own, named in `CASES`.
"""

from __future__ import annotations

import importlib
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.noise import Noise
from discreet.problems.base import Problem
from discreet.problems.contents import Content
from discreet.problems.plans import Plan
from discreet.problems.results import LEVEL, Output

CASES: tuple[str, ...] = (
    "coverage_dr_ensemble",
    "coverage_routing",
    "coverage_multi_agent",
    "coverage_off_policy",
    "coverage_random",
)
"""Modules of this package with a function `cases() -> Iterator[Case]`."""
RELEASES = 1000
LEAST_TOLD = 20
"""Releases in which a number has an interval, for its own coverage to be told."""
RESULTS = Path(__file__).with_name("COVERAGE.md")
HEAD = f"""# Coverage of the intervals of results

Seeded releases by `make bench ARGS=coverage`, nominal {LEVEL:.0%}. Coverage is of the intervals
that were given; that of the worst twentieth is what a twentieth of a quantity's numbers stay below.
*Called noise*: releases whose result says `mostly_noise`. *30 random ensembles*, *30 random
processes*: truths of many kinds, of seeds that nobody looked at while the intervals were made.
"""
COLUMNS = (
    "method",
    "truth",
    "epsilon",
    "releases",
    "quantity",
    "numbers",
    "coverage",
    "of the worst twentieth",
    "median width / value",
    "without interval",
    "called noise",
)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One problem on one truth at one price: what `Problem.plan` and `release` need."""

    kind: str
    method: str
    truth: str
    """In a few words: what the data are."""
    epsilon: float
    problem: Problem
    public: Any
    plan: Plan
    content: Content
    exact: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None = None
    """What the intervals are to hold, by quantity, perhaps of the release of a seed; None: what is
    finished of a release without noise."""
    part: int = 0
    """Cases of one truth and price that differ in this are told of together."""
    repeats: int = 1
    """How often it is released for each release that is asked for: where there are few cases of a
    method."""


class Silent(Noise):
    """Adds nothing, so that a release is exact."""

    def __init__(self) -> None:
        super().__init__(bytes)

    def add(self, event: Any, values: Any) -> Any:
        return np.array(values)


@dataclass
class Held:
    """Of each number of a quantity: how often it had an interval, and how often that held it."""

    numbers: int
    given: Floats = field(init=False)
    holding: Floats = field(init=False)
    widths: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.given, self.holding = np.zeros(self.numbers), np.zeros(self.numbers)

    def add(self, interval: Mapping[str, Any], exact: Floats) -> None:
        lower, upper = (_numbers(interval[end]) for end in ("lower", "upper"))
        given = np.isfinite(lower) & np.isfinite(upper)
        error = 1e-9 * (1 + np.abs(exact))  # an interval of no width holds what rounding moved
        self.given += given
        self.holding += given & (lower <= exact + error) & (exact - error <= upper)
        told = given & (np.abs(exact) > 1e-6 * np.abs(exact).max())
        if told.any():
            self.widths.append(float(np.median((upper - lower)[told] / np.abs(exact[told]))))


def run(releases: int = RELEASES, kinds: str = "", truths: str = "") -> list[dict[str, Any]]:
    """Rows in the form of `benchmarks.__main__`, one a quantity of a case; `kinds`: only these,
    with commas between; `truths`: only cases whose truth has one of these words, with semicolons
    between. Such a run is not kept."""
    asked, words = set(filter(None, kinds.split(","))), list(filter(None, truths.split(";")))
    found: dict[tuple[Any, ...], Pooled] = {}
    made: Counter[tuple[str, str]] = Counter()
    for case in all_cases():
        if (not asked or case.kind in asked) and (
            not words or any(word in case.truth for word in words)
        ):
            key = case.kind, case.method, case.truth, case.epsilon
            found.setdefault(key, Pooled()).add(case, case.repeats * releases)
            made[case.kind, case.method] += case.repeats * releases
    rows = [row for pooled in found.values() for row in pooled.rows()]
    if not words and min(made.values()) >= RELEASES:
        keep(rows)
    return [
        {
            "benchmark": f"coverage: {row['kind']} {row['method']}, {row['truth']}, epsilon "
            f"{row['epsilon']:g}",
            "ours": row["coverage"],
            "unit": row["quantity"],
            "note": f"worst twentieth {row['worst']:.3g}; width {row['width']:.3g} of the value; "
            f"{row['none']:.0%} without interval; {row['noise']:.0%} called noise",
        }
        for row in rows
    ]


def all_cases() -> Iterator[Case]:
    for name in CASES:
        yield from importlib.import_module(f"benchmarks.{name}").cases()


class Pooled:
    """Cases of one truth and price, told of together."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.releases = self.noise = 0
        self.quantities: dict[str, list[Held]] = {}

    def add(self, case: Case, releases: int) -> None:
        """Release a case, and look at its intervals."""
        exact = case.exact
        if exact is None:
            exact = {name: output.value() for name, output in finished(case, Silent()).items()}
        self.start = {
            "kind": case.kind,
            "method": case.method,
            "truth": case.truth,
            "epsilon": case.epsilon,
        }
        own: dict[str, Held] = {}
        first = zlib.crc32(
            f"{case.kind} {case.method} {case.truth} {case.part} {case.epsilon:g}".encode()
        )
        for seed in range(first, first + releases):  # no two cases have the same noise
            uncertainty = finished(case, Noise.seeded(seed))["uncertainty"].value()
            self.noise += uncertainty["mostly_noise"]
            of_seed = exact(seed) if callable(exact) else exact
            for name, interval in uncertainty["values"].items():
                number = _numbers(of_seed[name])
                own.setdefault(name, Held(number.size)).add(interval, number)
        self.releases += releases
        for name, held in own.items():
            self.quantities.setdefault(name, []).append(held)

    def rows(self) -> list[dict[str, Any]]:
        """One a quantity that had an interval in any release, and one of all where none had."""
        start = {**self.start, "releases": self.releases, "noise": self.noise / self.releases}
        rows = []
        for name, each in self.quantities.items():
            given, holding = (
                np.concatenate([getattr(held, field) for held in each])
                for field in ("given", "holding")
            )
            widths = [width for held in each for width in held.widths]
            mean = float(np.mean([held.numbers for held in each]))
            row = {"quantity": name, "numbers": given.size, "worst": _worst(given, holding)}
            row["coverage"] = float(holding.sum() / given.sum()) if given.any() else math.nan
            row["width"] = float(np.median(widths)) if widths else math.nan
            row["none"] = float(1 - given.sum() / (self.releases * mean))
            rows.append({**start, **row})
        nothing = dict.fromkeys(("coverage", "worst", "width"), math.nan)
        return rows or [{**start, "quantity": "none", "numbers": 0, "none": 1.0, **nothing}]


def measured(case: Case, releases: int) -> list[dict[str, Any]]:
    """The rows of one case alone."""
    pooled = Pooled()
    pooled.add(case, releases)
    return pooled.rows()


def finished(case: Case, noise: Noise) -> dict[str, Output]:
    """The fields of the result of one release."""
    released = case.problem.release(case.public, case.plan, case.content, noise)
    return case.problem.finish(case.public, case.plan, released, lambda *_: None).outputs


def keep(rows: list[dict[str, Any]]) -> None:
    """Write the rows into their kinds' sections of the page, and leave those of other kinds as they
    are."""
    _, *written = RESULTS.read_text().split("\n## ") if RESULTS.exists() else [""]
    sections = {text.split("\n", 1)[0].strip(): text.split("\n", 1)[1].strip() for text in written}
    for kind in dict.fromkeys(row["kind"] for row in rows):
        sections[kind] = section([row for row in rows if row["kind"] == kind])
    parts = (f"## {kind}\n\n{text}\n" for kind, text in sorted(sections.items()))
    RESULTS.write_text("\n".join((HEAD, *parts)))


def section(rows: list[dict[str, Any]]) -> str:
    """A kind's rows as a table, with the day on which they were measured."""
    cells = [
        (
            row["method"],
            row["truth"],
            f"{row['epsilon']:g}",
            f"{row['releases']:,}",
            row["quantity"],
            f"{row['numbers']:,}",
            _told(row["coverage"], ".3f"),
            _told(row["worst"], ".3f"),
            _told(row["width"], ".3g"),
            f"{row['none']:.0%}",
            f"{row['noise']:.0%}",
        )
        for row in rows
    ]
    lines = ["| " + " | ".join(row) + " |" for row in (COLUMNS, ("---",) * len(COLUMNS), *cells)]
    return f"{datetime.now(UTC).date().isoformat()}.\n\n" + "\n".join(lines)


def _worst(given: Floats, holding: Floats) -> float:
    """What a twentieth of the numbers, each by itself, are covered less often than."""
    told = given >= LEAST_TOLD
    return float(np.quantile(holding[told] / given[told], 0.05)) if told.any() else math.nan


def _numbers(values: Any) -> Floats:
    """Any nest of numbers, flat; null is NaN."""
    return np.asarray(values, dtype=np.float64).ravel()


def _told(number: float, form: str) -> str:
    return "" if math.isnan(number) else format(number, form)
