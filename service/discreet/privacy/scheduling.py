"""Who of several analysts may spend what of a block's budget now, and who waits in which order.

Each analyst a owns a share w_a of every block; what of it is unused is lent to the others linearly
over `lent_seconds` from when the block was opened. A job of analyst a is admitted when for every
block that it reads some filter holds in all of its columns:

    total + price + sum over others b of max(w_b limit (1 - f) - used_b, 0) <= limit,

f the part of the time that is over. What is in nobody's share is open to everybody at once. A
job that this refuses, but that the whole limit lets pass, may wait for what will be lent: one
of each analyst, if it asks no block for more than its analyst's share, and if it would pass in
its time. So those who wait are few, and what they wait for is small.

They stand in the order of a key that never changes, arrival/L + c ln(area) with c = 1/ln(largest
ratio of areas): small jobs go first, and nobody is overtaken by a job that came more than L later.
Whoever waits is *promised* its price against those behind: a job passes only if granted + promised
ahead + itself fits the limits, where what is not yet lent of an analyst's own share was promised to
nobody else. Promises are no reservations: they bind the order alone, and the ledger knows nothing
of them.

Everything here is a function of prices, caps, blocks, names and times: of what was released or
asked before and of public facts, never of private data. On that rests the guarantee of sources
(docs/theory/sources.md): whether and when a job runs tells nothing of a record. No clock is read
here, and all amounts are integers, so the same past makes the same decisions, in the service as in
`benchmarks/scheduling.py`, which simulates it with this code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

WHOLE = 1_000_000
"""A share is counted in millionths."""
DAY = 86_400
OVERTAKEN_SECONDS = 7 * DAY
"""L of the order: nobody is overtaken by a job that came so much later."""
SMALLEST_AREA, LARGEST_AREA = 0.01, 10.0
"""In whole blocks: areas count as if they were between these."""

LATE_SECONDS = 60
"""So long after the end of its wait a job may still be granted: deciders look each second. One that
nobody has decided by then is refused, since who asked was told so."""
MOST_WAITING = 100
"""On a source: as many as a rule names. A decision reads all of them."""

Amounts = Mapping[str, int]
"""By column of a price."""
Why = Literal["spent", "promised", "share", "large", "another", "many", "late"]
"""What stands in the way: the limits themselves; those who wait ahead; shares of others; and, for
who would have to wait for these, that it is larger than its analyst's own, that another job of the
analyst waits, or too many do; and that its wait has been over for LATE_SECONDS."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may spend which share of each block."""

    shares: Mapping[str, int]
    """In millionths, by analyst; together at most WHOLE. Others have none: they are lent."""
    lent_seconds: int
    """After so long everything of a block is everybody's."""

    def __post_init__(self) -> None:
        if any(share < 0 for share in self.shares.values()) or self.lent_seconds < 1:
            raise ValueError("shares and times are not negative")
        if sum(self.shares.values()) > WHOLE:
            raise ValueError("shares are at most the whole")


@dataclass(slots=True)
class BlockBudget:
    """What is known of a block's budget. It changes with what is granted."""

    opened: int
    """Seconds."""
    limits: Sequence[Amounts]
    """Of each filter: it holds while every column that it names is at most this."""
    totals: dict[str, int] = field(default_factory=dict)
    used: dict[str, dict[str, int]] = field(default_factory=dict)
    """What of the totals each analyst has spent."""

    def spend(self, analyst: str, price: Amounts) -> None:
        """Count a price that was granted."""
        _add(self.totals, price)
        _add(self.used.setdefault(analyst, {}), price)


@dataclass(frozen=True, slots=True)
class Request:
    """A job that asks for budget."""

    id: str
    analyst: str
    price: Amounts
    blocks: Sequence[str]
    until: int
    """Its wait is over then, in seconds."""
    key: float
    """`order_key` of it."""

    @property
    def place(self) -> tuple[float, str]:
        """Its place in the order."""
        return self.key, self.id


@dataclass(frozen=True, slots=True)
class Granted:
    """It may spend its price now."""


@dataclass(frozen=True, slots=True)
class Waits:
    """It is decided again at `not_before`, and whenever budget comes free before."""

    block: str
    """The last one that shares let it pass."""
    not_before: int
    """They do so then, if nothing comes free before."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It gets nothing."""

    why: Why
    block: str
    not_before: int | None = None
    """When shares would let it pass, if nothing else changes; None: they would not help."""


Decision = Granted | Waits | Refused
Promised = dict[str, dict[str, dict[str, int]]]
"""Prices of those who wait ahead, by block and analyst."""


def area(price: Amounts, limits: Iterable[Sequence[Amounts]]) -> float:
    """How much a job takes, in whole blocks: for each block the part of the filter that it takes
    least of."""
    return sum(
        min((_part(price, of_filter) for of_filter in of_block), default=math.inf)
        for of_block in limits
    )


def order_key(arrived: int, size: float) -> float:
    """arrival/L + c ln(area): small first, and nobody overtaken for longer than L."""
    clipped = min(max(size, SMALLEST_AREA), LARGEST_AREA)
    return arrived / OVERTAKEN_SECONDS + math.log(clipped) / math.log(LARGEST_AREA / SMALLEST_AREA)


def promised(ahead: Iterable[Request]) -> Promised:
    """What those who wait ahead are promised."""
    found: Promised = {}
    for request in ahead:
        promise(found, request)
    return found


def promise(to: Promised, request: Request) -> None:
    """Count one more who waits."""
    for name in request.blocks:
        _add(to.setdefault(name, {}).setdefault(request.analyst, {}), request.price)


def decide_new(
    request: Request,
    waiting: Iterable[Request],
    blocks: Mapping[str, BlockBudget],
    rule: Rule,
    now: int,
) -> Decision:
    """What becomes of a request that comes now, beside those who wait."""
    others = list(waiting)
    ahead = promised(one for one in others if one.place < request.place)
    decision = decide(request, blocks, ahead, rule, now)
    if not isinstance(decision, Waits):
        return decision
    if any(one.analyst == request.analyst for one in others):
        return Refused("another", decision.block, decision.not_before)
    if len(others) >= MOST_WAITING:
        return Refused("many", decision.block, decision.not_before)
    for name in request.blocks:
        if now < blocks[name].opened + rule.lent_seconds and not _of_own(
            blocks[name], request, rule
        ):
            return Refused("large", name, decision.not_before)
    return decision


def decide(
    request: Request, blocks: Mapping[str, BlockBudget], ahead: Promised, rule: Rule, now: int
) -> Decision:
    """What becomes of a request at this time, with these promises ahead of it."""
    for name in request.blocks:
        if not _fits(blocks[name], request.price):
            return Refused("spent", name)
    for name in request.blocks:
        if name in ahead and not _unpromised(blocks[name], ahead[name], request, rule, now):
            return Refused("promised", name)
    passes, latest = now, ""
    for name in request.blocks:
        lent = _lent_at(blocks[name], request, rule, passes)
        if lent > passes:
            passes, latest = lent, name
    if passes == now:
        return Granted()
    return Refused("share", latest, passes) if passes > request.until else Waits(latest, passes)


def decide_due(
    waiting: Iterable[tuple[Request, int]],
    blocks: Mapping[str, BlockBudget],
    rule: Rule,
    now: int,
) -> list[tuple[Request, Decision]]:
    """What becomes of those who wait and whose `next_try` (beside each) has come, in their order;
    `blocks` are left as they are then. The others wait on: nothing came free since they were
    decided, and what is granted meanwhile makes nobody's wait shorter."""
    ahead: Promised = {}
    decisions: list[tuple[Request, Decision]] = []
    for request, next_try in sorted(waiting, key=lambda one: one[0].place):
        decision: Decision | None = None
        if next_try <= now:
            decision = (
                Refused("late", request.blocks[0])
                if now > request.until + LATE_SECONDS
                else decide(request, blocks, ahead, rule, now)
            )
            decisions.append((request, decision))
        if isinstance(decision, Granted):
            for name in request.blocks:
                blocks[name].spend(request.analyst, request.price)
        elif not isinstance(decision, Refused):
            promise(ahead, request)
    return decisions


def _fits(block: BlockBudget, price: Amounts) -> bool:
    return any(
        all(free >= 0 for free, _, _ in _free(limits, block.totals, price))
        for limits in block.limits
    )


def _of_own(block: BlockBudget, request: Request, rule: Rule) -> bool:
    """Whether it asks for no more than its analyst's share, by some filter."""
    share = rule.shares.get(request.analyst, 0)
    return any(
        all(request.price.get(column, 0) * WHOLE <= most * share for column, most in limits.items())
        for limits in block.limits
    )


def _unpromised(
    block: BlockBudget,
    ahead: Mapping[str, Amounts],
    request: Request,
    rule: Rule,
    now: int,
) -> bool:
    """Whether some filter has room for what is granted, promised ahead and asked for. What is not
    yet lent of an analyst's own share nobody else was promised."""
    left = max(0, min(block.opened + rule.lent_seconds - now, rule.lent_seconds))
    share, used = rule.shares.get(request.analyst, 0), block.used.get(request.analyst, {})
    mine = ahead.get(request.analyst, {})
    others = [price for name, price in ahead.items() if name != request.analyst]
    return any(
        all(
            request.price.get(column, 0) + mine.get(column, 0)
            <= max(
                most * share * left // (WHOLE * rule.lent_seconds) - used.get(column, 0),
                free - sum(price.get(column, 0) for price in others),
            )
            for free, most, column in _free(limits, block.totals, {})
        )
        for limits in block.limits
    )


def _lent_at(block: BlockBudget, request: Request, rule: Rule, begin: int) -> int:
    """The first second from `begin` on at which shares let this pass, if nothing else changes. The
    whole limit lets it pass."""
    lent = block.opened + rule.lent_seconds
    others = [
        (share, block.used.get(name, {}))
        for name, share in rule.shares.items()
        if name != request.analyst
    ]
    possible = [
        free
        for limits in block.limits
        if min(free := _free(limits, block.totals, request.price), default=(0, 0, ""))[0] >= 0
    ]

    def passes(at: int) -> bool:
        left = max(0, min(lent - at, rule.lent_seconds))
        return any(
            all(
                _held_within(free, most, column, others, left, rule.lent_seconds)
                for free, most, column in columns
            )
            for columns in possible
        )

    if passes(begin):
        return begin
    low, high = begin, lent  # not at low; at high, when nothing is held any more
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle
    return high


def _free(limits: Amounts, totals: Amounts, price: Amounts) -> list[tuple[int, int, str]]:
    """What of each limit would be left, the limit, and its column."""
    return [
        (most - totals.get(column, 0) - price.get(column, 0), most, column)
        for column, most in limits.items()
    ]


def _held_within(
    free: int, most: int, column: str, others: Sequence[tuple[int, Amounts]], left: int, whole: int
) -> bool:
    """Whether what of a limit is held for others, each rounded up, is at most so much."""
    for share, used in others:
        own = -(-most * share * left // (WHOLE * whole)) - used.get(column, 0)
        if own > 0:
            free -= own
            if free < 0:
                return False
    return True


def _part(price: Amounts, limits: Amounts) -> float:
    """The largest part of any of these limits."""
    parts = [
        0.0 if not price.get(column, 0) else price[column] / most if most else math.inf
        for column, most in limits.items()
    ]
    return max(parts, default=math.inf)


def _add(to: dict[str, int], price: Amounts) -> None:
    for column, units in price.items():
        to[column] = to.get(column, 0) + units
