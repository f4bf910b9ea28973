"""How true the inverse is: accuracies are asked for, and releases at the epsilons that plans give
keep them or not.

Truths and problems are those of `benchmarks.coverage`, and patients of
`benchmarks.importance_sampling`. Of each quantity that a kind tells of before a release, asked half
widths are those of random epsilons with two digits, at a random confidence, others of each truth
and number; once from public figures alone, and once around an earlier release: of the same data at
epsilon 1, and of trips of tables whose pairs differ by a lognormal factor of deviation .15 ("like
data") or .5. A plan speaks of the number that noise moves most, where `MOST` names its quantity, or
of the middle one; it is chosen by half of the releases, and looked at in the other half. Total
travel times are asked for in per cent once more, which are of the true one. Told are how often what
was asked is kept, with exact tests of whether that is as often as was asked, and the smallest
epsilon that would have done, in parts of the one found: by the errors' quantile, as errors go about
as 1/epsilon, and of demand, whose noise is of few whole trips, by bisection with the same seeds. On
request: `make bench ARGS="inverse --kinds routing"`; `LEAST_KEPT` releases or more are kept in
`benchmarks/INVERSE.md`, a section a kind.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.coverage import Case, Floats, Silent, all_cases, finished
from benchmarks.importance_sampling import SQUARES, Patients
from benchmarks.importance_sampling import public as patients
from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.contents import Profile
from discreet.problems.inverse import smallest
from discreet.problems.numbers import Accuracy, Budget, Privacy
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.plans import Plan
from discreet.problems.results import Expected

RELEASES, LEAST_KEPT = 100, 40
ASKED = {"multi_agent": 10}
"""Accuracies asked of each quantity of a truth; of other kinds `FEW`."""
FEW = 1
CONFIDENCES = (0.8, 0.9, 0.95)
DELTA = 1e-6
MOST = frozenset({"link_flows", "demand", "noisy_values"})
MEDIAN = frozenset({"values"})
"""Quantities whose plans speak of the number that noise moves as far as half of them."""
EXACT = frozenset({"demand"})
"""Quantities whose smallest epsilon is looked for by releases at another than the one found."""
PER_CENT = frozenset({"total_travel_time"})
"""Quantities that are asked for in per cent too."""
PUBLIC, AROUND = "public figures", "an earlier release"
OTHER = {"routing": {"an earlier release of like data": 0.15, "of data that differ by half": 0.5}}
"""Of trips: by what lognormal deviation each pair of the earlier data differs."""
SURE = 0.01
"""An accuracy is not met where it would be kept so seldom with this probability at most, were it
kept as asked."""
BISECTIONS = 7
RESULTS = Path(__file__).with_name("INVERSE.md")
HEAD = """# Accuracies that were asked for

Written by `make bench ARGS=inverse`: half widths are asked for at random, plans give epsilons, and
seeded releases at these keep what was asked or not. *Kept - asked*: the mean share of releases that
kept it, less the confidence. *Not met*: accuracies kept so seldom that the exact binomial
probability is at most .01, were they kept as often as asked; *all*: that probability of all
accuracies of the row together. *Smallest / found*: the smallest epsilon that would have done, in
parts of the one that was found (below 1: more is paid than needed); from the errors at the one
found, of demand by releases at others. A quantile of 200 errors is itself some 6 % off (10 to 90 %:
8 %), which is in the spread of each row. *From*: what the plan knew. No two accuracies have the
same noise.
"""
COLUMNS = (
    "method",
    "quantity",
    "from",
    "asked",
    "not met",
    "kept - asked",
    "all",
    "smallest / found",
    "10 to 90 %",
)


@dataclass(frozen=True)
class Told:
    """Of one accuracy that was asked for."""

    method: str
    quantity: str
    source: str
    kept: int
    looked: int
    """Releases that were looked at."""
    confidence: float
    part: float
    """The smallest epsilon in parts of the one found."""

    @property
    def missed(self) -> bool:
        return bool(binom.cdf(self.kept, self.looked, self.confidence) <= SURE)


def _chance(told: list[Told]) -> float:
    """That no more releases keep all of these accuracies, were each kept as often as was asked."""
    chances = np.ones(1)
    for one in told:
        chances = np.convolve(
            chances, binom.pmf(np.arange(one.looked + 1), one.looked, one.confidence)
        )
    return float(min(1.0, chances[: sum(one.kept for one in told) + 1].sum()))


def run(releases: int = RELEASES, kinds: str = "") -> list[dict[str, Any]]:
    """Rows in the form of `benchmarks.__main__`: one a quantity and what the plan knew."""
    asked = set(filter(None, kinds.split(",")))
    found: dict[str, list[Told]] = {}
    for case in _truths():
        if not asked or case.kind in asked:
            found.setdefault(case.kind, []).extend(_asked_of(case, releases))
    if releases >= LEAST_KEPT:
        keep(found, releases)
    return [
        {
            "benchmark": f"inverse: {kind} {' '.join(name)}",
            "ours": len(told) - sum(one.missed for one in told),
            "unit": f"of {len(told)} accuracies met",
            "note": f"kept less asked {_margin(told):+.3f}, chance {_chance(told):.2g}; smallest "
            "epsilon / found: median {1:.3f}, 10 to 90 % {0:.3f} to "
            "{2:.3f}".format(*_spread(told)),
        }
        for kind, answers in found.items()
        for name, told in _grouped(answers).items()
    ]


def keep(found: Mapping[str, list[Told]], releases: int) -> None:
    """Write the kinds' sections of the page, and leave those of other kinds as they are."""
    _, *written = RESULTS.read_text().split("\n## ") if RESULTS.exists() else [""]
    sections = {text.split("\n", 1)[0].strip(): text.split("\n", 1)[1].strip() for text in written}
    for kind, answers in found.items():
        rows = [
            (
                *(name[0], name[1], name[2], str(len(told))),
                str(sum(one.missed for one in told)),
                f"{_margin(told):+.3f}",
                f"{_chance(told):.2g}",
                f"{_spread(told)[1]:.2f}",
                "{0:.2f} to {2:.2f}".format(*_spread(told)),
            )
            for name, told in _grouped(answers).items()
        ]
        lines = ["| " + " | ".join(row) + " |" for row in (COLUMNS, ("---",) * len(COLUMNS), *rows)]
        day = datetime.now(UTC).date().isoformat()
        sections[kind] = f"{day}, {releases:,} releases an accuracy.\n\n" + "\n".join(lines)
    parts = (f"## {kind}\n\n{text}\n" for kind, text in sorted(sections.items()))
    RESULTS.write_text("\n".join((HEAD, *parts)))


def _grouped(answers: list[Told]) -> dict[tuple[str, str, str], list[Told]]:
    groups: dict[tuple[str, str, str], list[Told]] = {}
    for one in answers:
        groups.setdefault((one.method, one.quantity, one.source), []).append(one)
    return dict(sorted(groups.items(), key=lambda group: group[0][:2]))


def _margin(told: list[Told]) -> float:
    return float(np.mean([one.kept / one.looked - one.confidence for one in told]))


def _spread(told: list[Told]) -> tuple[float, float, float]:
    low, middle, high = np.quantile([one.part for one in told], (0.1, 0.5, 0.9))
    return float(low), float(middle), float(high)


def _truths() -> Iterator[Case]:
    """Each problem on each truth once, as coverage has them at several epsilons, and without
    intervals of its own."""
    seen = set()
    for case in (*all_cases(), *_weighted()):
        key = case.kind, case.method, case.truth
        if key not in seen:
            seen.add(key)
            yield replace(case, problem=case.problem.model_copy(update={"uncertainty": False}))


def _weighted() -> Iterator[Case]:
    """Importance sampling, whose cap on weights, and so what it answers without noise, goes with
    epsilon."""
    for square in SQUARES:
        for effect in ("strong", "mild"):
            public = patients(known=True)
            body = {"kind": "off_policy_evaluation", "dataset": "dst_x", "return_bounds": [0, 1]}
            problem = OffPolicyEvaluation.model_validate({**body, "discount": 1 - 1e-12})
            plan = problem.plan(public, _budget(1))
            content = Patients(square, effect).draw(np.random.default_rng(18))
            truth = f"{effect} effect, weights of mean square {square:g}"
            yield Case(
                "off_policy_evaluation", "importance", truth, 1.0, problem, public, plan, content
            )


def _budget(epsilon: float) -> Budget:
    return Privacy.model_validate({"epsilon": round(epsilon, 3), "delta": DELTA}).budget


def _earlier(case: Case, deviation: float) -> Profile | None:
    """What a release of other data of this shape at epsilon 1 says."""
    content = dict(case.content)
    if case.kind == "routing":
        trips = content["trips"].copy()
        zones = case.public.zones
        rng = np.random.default_rng(17)
        factors = rng.lognormal(0, deviation, (zones + 1, zones + 1))[trips[:, 1], trips[:, 2]]
        if "person_start" in content:  # as many persons, of whom each has one record here
            trips = trips[np.sort(rng.choice(len(trips), len(trips), p=factors / factors.sum()))]
        else:
            moved = trips[:, 3] * factors
            trips[:, 3] = np.rint(moved * trips[:, 3].sum() / moved.sum())
        content["trips"] = trips
    try:
        plan = case.problem.plan(case.public, _budget(1))
    except InvalidInput:
        return None
    released = case.problem.release(case.public, plan, content, Noise.seeded(1_000_000))
    return case.problem.profile(case.public, plan, released)


def _exact(case: Case, plan: Plan, seeds: range, quantity: str) -> Floats | None:
    """What releases of this plan would answer without noise: float64[1 or seeds, numbers]; None of
    no such field."""
    if isinstance(case.exact, partial):  # at the states that each release came by
        problem, public, _, *others = case.exact.args
        found = [case.exact.func(problem, public, plan, *others, seed) for seed in seeds]
    elif isinstance(case.exact, Mapping):
        found = [case.exact]
    else:
        outputs = finished(replace(case, plan=plan), Silent())
        found = [{name: output.value() for name, output in outputs.items() if name == quantity}]
    if quantity not in found[0]:
        return None
    return np.array([np.asarray(one[quantity], dtype=np.float64).ravel() for one in found])


def _asked_of(case: Case, releases: int) -> Iterator[Told]:
    """Of every accuracy that is asked of a truth; the same of all sources."""
    delta = _budget(1).delta
    others = {
        name: _earlier(case, one) for name, one in OTHER.get(case.kind, {AROUND: 0.0}).items()
    }
    for source, around in ((PUBLIC, None), *others.items()):
        if source != PUBLIC and around is None:
            continue
        known = case.problem.expected(case.public, case.plan, 0.9, around)
        rng = np.random.default_rng(zlib.crc32(f"{case.kind} {case.truth} {case.method}".encode()))
        for one in known:
            quantity, forms = one.quantity, (False, True) if one.quantity in PER_CENT else (False,)
            true = _exact(case, case.plan, range(1), quantity)
            if true is None:  # of a part of a field there is no number to compare
                continue
            for number in range(ASKED.get(case.kind, FEW) * len(forms)):
                confidence = float(rng.choice(CONFIDENCES))
                epsilon = float(np.exp(rng.uniform(math.log(0.1), math.log(5))))
                of = float(true[0, 0]) if (part := forms[number % len(forms)]) else 0.0
                within = _within(case, quantity, epsilon, confidence, around, of)
                if within is None:
                    continue
                asked = f"{within / of:.3%}" if part else within
                accuracy = Accuracy.model_validate(
                    {"quantity": quantity, "within": asked, "confidence": confidence}
                )
                found = smallest(case.problem, case.public, accuracy, delta, around)
                said = f"{quantity}, per cent" if part else quantity
                first = zlib.crc32(f"{case.truth} {case.method} {source} {said} {number}".encode())
                seeds = range(first, first + releases)

                def errors(plan: Plan, quantity: str = quantity, seeds: range = seeds) -> Floats:
                    exact = _exact(case, plan, seeds, quantity)
                    assert exact is not None
                    return np.abs(
                        np.array([_released(case, plan, seed, quantity) for seed in seeds]) - exact
                    )

                yield _told(
                    case, source, said, found.plan, found.budget, within, confidence, errors
                )


def _told(
    case: Case,
    source: str,
    quantity: str,
    plan: Plan,
    budget: Budget,
    within: float,
    confidence: float,
    errors: Callable[[Plan], Floats],
) -> Told:
    looked_at = _looked_at(errors(plan), quantity, confidence)
    # Numbers of one release hang together: they count as one, kept or not as their mean says.
    kept = round(float(np.mean(_keeps(looked_at, within))) * len(looked_at))
    if quantity in EXACT:
        low, high = 0.25, 4.0
        for _ in range(BISECTIONS):
            part = math.sqrt(low * high)
            other = case.problem.draft(
                case.public, budget.model_copy(update={"epsilon": int(part * budget.epsilon)})
            )
            enough = (
                np.mean(_keeps(_looked_at(errors(other), quantity, confidence), within))
                >= confidence
            )
            low, high = (low, part) if enough else (part, high)
        part = math.sqrt(low * high)
    else:
        part = float(np.quantile(looked_at, confidence)) / within
    return Told(case.method, quantity, source, kept, len(looked_at), confidence, part)


def _looked_at(errors: Floats, quantity: str, confidence: float) -> Floats:
    """Of errors float64[releases, numbers] those that a plan speaks of."""
    if quantity not in MOST | MEDIAN:
        return errors.ravel() if errors.shape[1] == 1 else errors
    chosen, others = errors[::2], errors[1::2]
    moved = np.argsort(np.quantile(chosen, confidence, axis=0))
    return others[:, moved[-1 if quantity in MOST else (len(moved) - 1) // 2]]


def _keeps(errors: Floats, within: float) -> Any:
    return errors <= within * (1 + 1e-9)


def _within(
    case: Case, quantity: str, epsilon: float, confidence: float, around: Profile | None, of: float
) -> float | None:
    """The half width that is expected at this epsilon, to two digits, or `of` in per cent with two
    digits; None where none is."""
    try:
        plan = case.problem.draft(case.public, _budget(epsilon))
    except InvalidInput:
        return None
    known: tuple[Expected, ...] = case.problem.expected(case.public, plan, confidence, around)
    width = next((one.within for one in known if one.quantity == quantity), math.inf)
    if not 0 < width < math.inf:
        return None
    return float(f"{width / of:.2g}") * of if of else float(f"{width:.2g}")


def _released(case: Case, plan: Plan, seed: int, quantity: str) -> Any:
    released = case.problem.release(case.public, plan, case.content, Noise.seeded(seed))
    # Demand as profiles tell it, where they do: what is finished of a release beside that takes
    # longer.
    profile = case.problem.profile(case.public, plan, released) if quantity in EXACT else None
    if profile is not None:
        return np.asarray(profile[quantity], dtype=np.float64).ravel()
    value = (
        case.problem.finish(case.public, plan, released, lambda *_: None).outputs[quantity].value()
    )
    return np.asarray(value, dtype=np.float64).ravel()
