"""How true the inverse is: accuracies are asked for, and releases at the epsilons that plans give keep them or not.

Truths and problems are those of `benchmarks.coverage`. Of each quantity that a kind tells of before a release, asked
half widths are those of random epsilons with two digits, at a random confidence. Of the releases at the epsilon found:
the part of all numbers within the half width of what they are without noise ("kept"), and their error's quantile at
that confidence in parts of the half width; errors go about as 1/epsilon, so that is also the smallest epsilon that
would have done, in parts of the one found. A plan speaks of the number that noise moves most: that part is told of the
worst twentieth of the numbers too. `make bench ARGS="inverse --releases 100"`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.coverage import Case, Silent, all_cases, finished
from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.accuracy import Expected
from discreet.problems.inverse import smallest
from discreet.problems.numbers import Accuracy, Privacy

RELEASES = 200
ASKED = 6
"""Accuracies asked of each quantity of a truth."""
CONFIDENCES = (0.8, 0.9, 0.95)
DELTA = 1e-6


def run(releases: int = RELEASES, kinds: str = "") -> list[dict[str, Any]]:
    """Rows in the form of `benchmarks.__main__`: one a quantity, and one of all."""
    asked = set(filter(None, kinds.split(",")))
    found: dict[tuple[str, str, str], list[tuple[float, float, float]]] = {}
    for case in _truths():
        if not asked or case.kind in asked:
            for quantity, *told in _asked_of(case, releases):
                found.setdefault((case.kind, case.method, quantity), []).append((told[0], told[1], told[2]))
    rows = [_row(" ".join(name), answers) for name, answers in found.items()]
    return [*rows, _row("all", [one for answers in found.values() for one in answers])]


def _row(name: str, answers: list[tuple[float, float, float]]) -> dict[str, Any]:
    margins, *parts = (np.array(one) for one in zip(*answers, strict=True))
    low, middle, high = np.quantile(parts[0], (0.1, 0.5, 0.9))
    return {
        "benchmark": f"inverse: {name}",
        "ours": float(np.mean(margins >= 0)),
        "unit": f"of {len(answers)} accuracies met",
        "note": f"kept less the confidence, mean {margins.mean():+.3f}, least {margins.min():+.3f}; smallest epsilon / "
        f"found: median {middle:.3f}, 10 to 90 % {low:.3f} to {high:.3f}; of the worst {np.median(parts[1]):.3f}",
    }


def _truths() -> Iterator[Case]:
    """Each problem on each truth once: coverage has them at several epsilons."""
    seen = set()
    for case in all_cases():
        key = case.kind, case.method, case.truth
        if key not in seen:
            seen.add(key)
            yield case


def _asked_of(case: Case, releases: int) -> Iterator[tuple[str, float, float, float]]:
    """Of every accuracy: its quantity, by how much what was kept is above the confidence (within the error of so many
    releases: 0), and the error's quantile in parts of the half width, of all numbers and of the worst."""
    exact = {name: output.value() for name, output in finished(case, Silent()).items()}
    rng = np.random.default_rng(18)
    delta = Privacy.model_validate({"epsilon": 1, "delta": DELTA}).budget.delta
    for quantity in [one.quantity for one in case.problem.expected(case.public, case.plan, 0.9)]:
        if quantity not in exact:  # of a part of a field there is no number to compare
            continue
        true = np.asarray(exact[quantity], dtype=np.float64).ravel()
        for _ in range(ASKED):
            confidence = float(rng.choice(CONFIDENCES))
            within = _within(case, quantity, float(np.exp(rng.uniform(math.log(0.1), math.log(5)))), confidence)
            if within is None:
                continue
            accuracy = Accuracy(quantity=quantity, within=within, confidence=confidence)
            plan = smallest(
                case.problem,
                case.public,
                accuracy,
                delta,
                lambda budget: case.problem.plan_within(case.public, budget),
            ).plan
            errors = np.abs([_released(case, plan, seed, quantity) - true for seed in range(releases)])
            kept = float(np.mean(errors <= within * (1 + 1e-9)))
            chance = 2 * math.sqrt(confidence * (1 - confidence) / releases)
            margin = kept - confidence
            worst = np.quantile(np.quantile(errors, confidence, axis=0), 0.95)
            parts = float(np.quantile(errors, confidence)) / within, float(worst) / within
            yield quantity, 0.0 if -chance <= margin < 0 else margin, *parts


def _within(case: Case, quantity: str, epsilon: float, confidence: float) -> float | None:
    """The half width that is expected at this epsilon, to two digits; None where none is."""
    try:
        plan = case.problem.plan(
            case.public, Privacy.model_validate({"epsilon": round(epsilon, 3), "delta": DELTA}).budget
        )
    except InvalidInput:
        return None
    known: tuple[Expected, ...] = case.problem.expected(case.public, plan, confidence)
    width = next((one.within for one in known if one.quantity == quantity), math.inf)
    return float(f"{width:.2g}") if 0 < width < math.inf else None


def _released(case: Case, plan: Any, seed: int, quantity: str) -> Any:
    released = case.problem.release(case.public, plan, case.content, Noise.seeded(seed))
    value = case.problem.finish(case.public, plan, released, lambda *_: None).outputs[quantity].value()
    return np.asarray(value, dtype=np.float64).ravel()
