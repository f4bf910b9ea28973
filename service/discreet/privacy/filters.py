"""Fully adaptive privacy filters: when may one more request be answered?

Requests, their order and their parameters may depend on every earlier answer, so admission must be
a *filter* (Rogers, Roth, Ullman & Vadhan 2016): a rule on the running sums that holds whatever the
analyst does. An account with cap (E, D) runs all `FILTERS` side by side on the SAME sums, in which
every admitted entry counts, pending ones included. A request is admitted when ANY filter, whose own
delta is at most D/2, still holds with the request added:

- `basic`: sum epsilon <= E and sum delta <= D/2.
- `zcdp`: sum delta_z <= D/4 and eps(sum rho, d') <= E with d' = D/4, fixed once the cap is (a d'
  that shrinks with what is spent would not be a filter).

Why each is a filter. Given the past, let one answer be delta_t-approximately rho_t-zCDP: on
neighbouring data its laws are P_t = (1-delta_t)P'_t + delta_t P''_t and Q_t, with Rényi divergences
D_a(P'_t || Q'_t) <= a rho_t for all a > 1 and some Q'_t with (1-delta_t)Q'_t <= Q_t: the good part
of Q_t, or Q_t itself (as `renyi` has it). Stop the run before a sum would pass its limit; what the
next answer costs is known before it is given. (1) Let P', Q' be the laws of the run in which every
answer comes from P'_t, Q'_t. Under Q' the process (dP'/dQ')^a e^{-a(a-1)(rho_1 + ... + rho_t)} is a
supermartingale, so D_a(P' || Q') <= a rho with rho the limit, and P', Q' are (eps(rho, d'),
d')-indistinguishable. (2) Let W, between 0 and 1, be the product of all 1-delta_t of a transcript.
A transcript in S without any bad part has probability E_P'[W; S] <= e^eps E_Q'[W; S] + d' <= e^eps
Q(S) + d'; a bad part occurs with probability at most sum delta_t. Together P(S) <= e^eps Q(S) + d'
+ sum delta_t. For `basic` put the largest privacy loss for D_a: it is at most sum epsilon_t, and d'
= 0. (Feldman & Zrnic 2021, Theorem 3.1; Whitehouse, Ramdas, Rogers & Wu 2023.)

Why two at once are sound. Let P, Q be the transcripts on neighbouring data and S a set of
transcripts. Split S by which filter still held at the end: S = S1 + S2, where on S1 the first did
(the sums only grow, so it then held throughout), and on S2 the second. On S1 the run equals the run
that the first filter stops, which is (E, D/2)-DP, so P(S1) <= e^E Q(S1) + D/2; in the same way
P(S2) <= e^E Q(S2) + D/2. The sum is P(S) <= e^E Q(S) + D. A third filter needs the shares of delta
to be split again. With D = 0 only `basic` stands, and pure requests alone pass.

When a cap is changed, the guarantee is that of the largest cap that grants could reach. PLD figures
calibrate single jobs and serve reports; they admit nothing. The database compares sums with
`Filter.budget` integers and knows no more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from discreet.privacy import units
from discreet.privacy.units import Price


@dataclass(frozen=True, slots=True)
class Cap:
    """What an account may ever spend: epsilon in units of 1e-9, delta in units of 1e-18."""

    epsilon: int
    delta: int

    def __post_init__(self) -> None:
        if self.epsilon < 0 or self.delta < 0:
            raise ValueError("a cap is not negative")


Totals = Mapping[str, int]
"""Sums of price columns by name; missing columns are zero."""


class Filter(Protocol):
    """A rule on sums of prices that stays (E, D/2)-DP under full adaptivity."""

    name: str

    def budget(self, cap: Cap) -> dict[str, int] | None:
        """The largest sum of each price column under which the filter holds; None: this cap admits
        nothing here."""

    def spent(self, total: Totals, cap: Cap) -> tuple[int, int] | None:
        """The (epsilon, delta), rounded up, that the filter certifies for these sums; None as in
        `budget`."""

    def largest_epsilon(self, total: Totals, cap: Cap, delta_units: int) -> int:
        """The largest epsilon of one more request with this delta (pure when 0) that would pass.

        With delta > 0 the request is taken for one known only as (epsilon, delta)-DP.
        """


class Basic:
    """Basic composition: epsilons and deltas add up."""

    name = "basic"

    def budget(self, cap: Cap) -> dict[str, int] | None:
        return {"epsilon": cap.epsilon, "delta": cap.delta // 2}

    def spent(self, total: Totals, cap: Cap) -> tuple[int, int] | None:
        return total.get("epsilon", 0), total.get("delta", 0)

    def largest_epsilon(self, total: Totals, cap: Cap, delta_units: int) -> int:
        if total.get("delta", 0) + delta_units > cap.delta // 2:
            return 0
        return max(0, cap.epsilon - total.get("epsilon", 0))


class Zcdp:
    """Approximate zero-concentrated DP: rhos and delta_zs add up, d' = D/4 is paid once."""

    name = "zcdp"

    def budget(self, cap: Cap) -> dict[str, int] | None:
        share = cap.delta // 4
        return {"rho": units.largest_rho(cap.epsilon, share), "delta_z": share} if share else None

    def spent(self, total: Totals, cap: Cap) -> tuple[int, int] | None:
        share, rho, delta_z = cap.delta // 4, total.get("rho", 0), total.get("delta_z", 0)
        if not share:
            return None
        return (units.epsilon_units_from_rho(rho, share), share + delta_z) if rho else (0, delta_z)

    def largest_epsilon(self, total: Totals, cap: Cap, delta_units: int) -> int:
        budget = self.budget(cap)
        if budget is None or total.get("delta_z", 0) + delta_units > budget["delta_z"]:
            return 0
        # The price of the request is ceil(epsilon²/2) and rho is an integer: epsilon² <= 2 (what is
        # left).
        return math.isqrt(2 * max(0, budget["rho"] - total.get("rho", 0)))


FILTERS: tuple[Filter, ...] = (Basic(), Zcdp())


def holds(one: Filter, total: Totals, price: Price, cap: Cap) -> bool:
    """Whether this filter still holds with `price` added to `total`."""
    budget = one.budget(cap)
    if budget is None:
        return False
    added = price.columns()
    return all(total.get(column, 0) + added[column] <= most for column, most in budget.items())


def admits(total: Totals, price: Price, cap: Cap) -> list[str]:
    """Names of the filters that pass; empty: refused."""
    return [one.name for one in FILTERS if holds(one, total, price, cap)]


def spent(total: Totals, cap: Cap) -> tuple[int, int]:
    """The smallest valid (epsilon, delta): that of the filter with least epsilon spent, ties to the
    lesser delta.

    Each filter's figure is valid only while that filter holds; a filter that does not is left out
    unless none does.
    """
    nothing = Price.zero()
    figures = [(one.spent(total, cap), holds(one, total, nothing, cap)) for one in FILTERS]
    valid = [figure for figure, sound in figures if figure is not None and sound]
    return min(valid or [figure for figure, _ in figures if figure is not None])


def largest_epsilon(total: Totals, cap: Cap, delta_units: int = 0) -> int:
    """The largest epsilon of one more request with this delta that some filter would pass."""
    return max(one.largest_epsilon(total, cap, delta_units) for one in FILTERS)
