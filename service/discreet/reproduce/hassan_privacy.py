"""The true epsilon of a draw of Hassan et al."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq

from discreet.privacy.mechanisms.dirichlet import Dirichlet
from discreet.privacy.pld import QUICK

H = 0.03
DELTA = 0.05
PAPER_EPSILON = {50: 0.88, 200: 5.45}
FLOORS = (0.05, 0.1, 0.2)


def epsilons(k: float, rows: int = 20) -> dict[str, Any]:
    """The exact epsilon of Dir(k p) at delta .05 by public floor: for one row, and for a person who
    is in all 20."""
    found: dict[str, Any] = {"k": k, "paper": PAPER_EPSILON.get(int(k))}
    for floor in FLOORS:
        found[f"floor {floor}"] = exact_epsilon(draw(k, floor, 1).delta)
    found[f"floor 0.1, {rows} rows"] = exact_epsilon(
        lambda e: draw(k, 0.1, rows).composed_delta(e, QUICK)
    )
    return found


def draw(k: float, floor: float, count: int) -> Dirichlet:
    return Dirichlet(
        sensitivity=H,
        scale=float(k),
        floor=floor,
        count=count,
        neighbours="two entries of each row move by h/2",
        charged_epsilon=1,
        charged_delta=1,
    )


def exact_epsilon(delta: Callable[[float], float]) -> float:
    """The least epsilon >= 0 with delta(epsilon) <= .05."""
    if delta(0.0) <= DELTA:
        return 0.0
    high = 1.0
    while delta(high) > DELTA:
        high *= 2
    return float(brentq(lambda epsilon: delta(epsilon) - DELTA, 0.0, high, xtol=1e-6))


def orderings(costs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By tariff and k: whether digamma is dearer than Taylor, whether the average is dearest, and
    whether each cost is lower than for the previous k."""
    found = []
    for last, row in zip([None, *costs], costs, strict=False):
        other = {
            name: max(row["taylor"], row["digamma"])
            for name in ("average", "average, sampled", "average of solves")
        }
        falls = {
            name: row[name] < last[name]
            if last is not None and last["tariff"] == row["tariff"]
            else None
            for name in ("taylor", "digamma", "average", "one draw")
        }
        found.append(
            {
                "tariff": row["tariff"],
                "k": row["k"],
                "digamma above taylor": row["digamma"] > row["taylor"],
                **{f"{name} dearest": row[name] > dear for name, dear in other.items()},
                **{f"{name} falls with k": verdict for name, verdict in falls.items()},
            }
        )
    return found
