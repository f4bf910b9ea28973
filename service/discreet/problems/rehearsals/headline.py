"""The answer of a rehearsal: which epsilon is enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.problems.headlines import Headline
from discreet.problems.rehearsals import naming
from discreet_client import intervals

WITHIN = 0.1
"""Parts of a number's size that count as near."""


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """Of the first quantity: the least epsilon at which nine runs in ten come near it, or how near
    the best came."""
    rows = (
        [row for row in result["rows"] if row["quantity"] == result["rows"][0]["quantity"]]
        if result["rows"]
        else []
    )
    if not rows:
        return [Headline("No method could be tried at any of the epsilons")]
    quantity = naming.quantity(problem, rows[0]["quantity"])
    near = [row for row in rows if row["error_of_nine_in_ten"] <= WITHIN * row["size"]]
    if near:
        best = min(near, key=lambda row: (row["epsilon"], row["error_of_nine_in_ten"]))
        before = f"Nine runs in ten come within {intervals.percent(WITHIN)} of {quantity} from "
        after = f" on, with the method {naming.method(best['method'])}"
        return [Headline(before, f"epsilon {best['epsilon']:g}", after, good_for=_made_up(result))]
    best = min(rows, key=lambda row: row["error_of_nine_in_ten"])
    apart = f"± {intervals.plain(best['error_of_nine_in_ten'], 3)}"
    size = intervals.plain(best["size"], 3)
    after = (
        f", where it is about {size}: at epsilon {best['epsilon']:g} with the method "
        f"{naming.method(best['method'])}"
    )
    within = intervals.percent(WITHIN)
    before = f"No epsilon brings {quantity} within {within}; at best nine runs in ten are within "
    return [Headline(before, apart, after, good_for=_made_up(result))]


def _made_up(result: Mapping[str, Any]) -> str:
    return f"Good for choosing an epsilon: data were {result['data']}."
