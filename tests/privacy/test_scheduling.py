"""Shares, promises and the order of who waits: by hand, by properties over many random pasts, and
against first come first served."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import scheduling as simulated
from discreet.privacy import scheduling
from discreet.privacy.scheduling import (
    DAY,
    WHOLE,
    BlockBudget,
    Granted,
    Refused,
    Request,
    Rule,
    Waits,
)

LENT = 10 * DAY
HALVES = Rule({"ada": WHOLE // 2, "bo": WHOLE // 2}, LENT)
ZCDP = ({"epsilon": 100, "delta": 0}, {"rho": 1000, "delta_z": 10})


def request(
    number: int,
    analyst: str,
    price: int,
    *,
    blocks: Sequence[str] = ("a",),
    until: int = 30 * DAY,
    key: float | None = None,
) -> Request:
    return Request(
        f"{number:03}", analyst, {"rho": price}, blocks, until, number if key is None else key
    )


def block(opened: int = 0) -> BlockBudget:
    return BlockBudget(opened, ({"rho": 1000},))


def granted_at(begin: Request, blocks: dict[str, BlockBudget], rule: Rule, now: int) -> bool:
    return isinstance(scheduling.decide(begin, blocks, {}, rule, now), Granted)


def test_a_share_is_lent_in_time() -> None:
    """Of the other half a part f is lent: 500 and f of the other 500."""
    for part in (0, 1, 3, 7, 10):
        now = part * DAY
        most = 500 + 50 * part
        assert granted_at(request(1, "ada", most), {"a": block()}, HALVES, now)
        more = scheduling.decide(request(1, "ada", most + 1), {"a": block()}, {}, HALVES, now)
        assert isinstance(more, Refused if part == 10 else Waits)
        if isinstance(more, Waits):  # the first second at which it passes, and none before
            assert granted_at(request(1, "ada", most + 1), {"a": block()}, HALVES, more.not_before)
            assert not granted_at(
                request(1, "ada", most + 1), {"a": block()}, HALVES, more.not_before - 1
            )
    # What Bo has used is not held for him twice, and who has no share gets what is lent.
    used = block()
    used.spend("bo", {"rho": 500})
    assert granted_at(request(1, "ada", 500), {"a": used}, HALVES, 0)
    assert isinstance(scheduling.decide(request(1, "cy", 1), {"a": block()}, {}, HALVES, 0), Waits)
    assert granted_at(request(1, "cy", 100), {"a": block()}, HALVES, DAY)


def test_what_is_nobodys_share_is_everybodys_at_once() -> None:
    rule = Rule({"ada": WHOLE // 5}, LENT)
    assert granted_at(request(1, "cy", 800), {"a": block()}, rule, 0)
    assert not granted_at(request(1, "cy", 801), {"a": block()}, rule, 0)


def test_some_filter_must_hold_in_all_of_its_columns() -> None:
    blocks = {"a": BlockBudget(0, ZCDP)}
    pure = {"epsilon": 50, "delta": 0, "rho": 900, "delta_z": 0}
    assert isinstance(
        scheduling.decide(Request("1", "ada", pure, ["a"], 0, 0.0), blocks, {}, HALVES, 0),
        Granted,
    )  # by the first filter: the second has 500 for her
    blocks["a"].spend("ada", pure)
    noisy = {"epsilon": 90, "delta": 1, "rho": 100, "delta_z": 1}
    found = scheduling.decide(Request("2", "bo", noisy, ["a"], 0, 0.0), blocks, {}, HALVES, 0)
    assert isinstance(found, Granted)
    blocks["a"].spend("bo", noisy)  # now no filter has room
    found = scheduling.decide(Request("3", "bo", pure, ["a"], 0, 0.0), blocks, {}, HALVES, LENT)
    assert found == Refused("spent", "a")


def test_who_waits_is_promised_its_price_against_those_behind() -> None:
    """Without promises whoever comes later and is small takes what is lent, and a larger job
    starves whose turn was before."""
    rule = Rule({"ada": WHOLE // 2, "bo": WHOLE // 2}, LENT)
    blocks = {"a": block()}
    blocks["a"].spend("ada", {"rho": 500})
    large = request(1, "ada", 400)  # passes when 80 % of Bo's half are lent
    assert scheduling.decide_new(large, [], blocks, rule, 0) == Waits("a", 8 * DAY)
    waiting = [(large, 8 * DAY)]
    # On every later day somebody without a share wants half of what is lent then.
    for number in range(2, 9):
        now = number * DAY
        small = request(number, f"guest {number}", 30)
        queue = [one for one, _ in waiting]
        found = scheduling.decide_new(small, queue, blocks, rule, now)
        if isinstance(found, Granted):
            blocks["a"].spend(small.analyst, small.price)
        for one, what in scheduling.decide_due(waiting, blocks, rule, now):
            if isinstance(what, Granted):
                return  # in its time
            assert isinstance(what, Waits), what
            waiting = [(one, what.not_before)]
    for _, what in scheduling.decide_due(waiting, blocks, rule, LENT):
        assert isinstance(what, Granted), what


def test_a_promise_takes_nothing_of_a_share_that_is_not_lent() -> None:
    blocks = {"a": block()}
    blocks["a"].spend("ada", {"rho": 500})
    queue = [request(1, "ada", 500)]
    assert isinstance(scheduling.decide_new(queue[0], [], blocks, HALVES, 0), Waits)
    assert isinstance(
        scheduling.decide_new(request(2, "bo", 500), queue, blocks, HALVES, 0), Granted
    )
    late = 5 * DAY  # half of Bo's is lent, and promised
    assert isinstance(
        scheduling.decide_new(request(2, "bo", 250), queue, blocks, HALVES, late), Granted
    )
    assert scheduling.decide_new(request(2, "bo", 251), queue, blocks, HALVES, late) == Refused(
        "promised", "a"
    )


def test_one_of_each_waits_for_no_more_than_its_share_and_not_too_long() -> None:
    blocks = {"a": block()}
    blocks["a"].spend("ada", {"rho": 400})
    waits = request(1, "ada", 300)
    assert isinstance(scheduling.decide_new(waits, [], blocks, HALVES, 0), Waits)
    another = scheduling.decide_new(request(2, "ada", 200), [waits], blocks, HALVES, 0)
    assert isinstance(another, Refused)
    assert another.why == "another"
    large = scheduling.decide_new(request(2, "ada", 501), [], blocks, HALVES, 0)
    assert isinstance(large, Refused)
    assert large.why == "large"
    short = scheduling.decide_new(request(2, "ada", 300, until=3 * DAY), [], blocks, HALVES, 0)
    assert short == Refused("share", "a", 4 * DAY)
    assert scheduling.decide_new(request(2, "ada", 601), [], blocks, HALVES, 0) == Refused(
        "spent", "a"
    )


def test_the_order_is_static_and_nobody_is_overtaken_for_long() -> None:
    week = scheduling.OVERTAKEN_SECONDS
    assert scheduling.order_key(0, 1.0) < scheduling.order_key(0, 2.0)
    for size in (1e-9, 0.01, 1.0, 1e9):
        assert scheduling.order_key(0, 1e9) <= scheduling.order_key(week, size)
    with pytest.raises(ValueError, match="at most the whole"):
        Rule({"ada": WHOLE, "bo": 1}, LENT)


def test_those_who_are_due_are_decided_in_their_order() -> None:
    """The small one first, though it came later and is named last; who is not due is promised."""
    for due in (LENT, 0):
        blocks = {"a": block()}
        small, large = request(1, "ada", 600, key=1.0), request(0, "bo", 700, key=2.0)
        decided = scheduling.decide_due([(large, 0), (small, due - 1)], blocks, HALVES, LENT)
        assert decided == [(small, Granted()), (large, Refused("spent", "a"))]
    decided = scheduling.decide_due([(large, 0), (small, LENT + 1)], {"a": block()}, HALVES, LENT)
    assert decided == [(large, Refused("promised", "a"))]


PASTS = st.lists(
    st.tuples(
        st.integers(0, 20 * DAY),  # when
        st.sampled_from(["ada", "bo", "cy"]),
        st.integers(1, 600),
        st.sets(st.sampled_from("abc"), min_size=1).map(sorted),
        st.integers(0, 12 * DAY),  # how long it may wait
        st.booleans(),  # whether it is cancelled while it waits
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(PASTS)
def test_whatever_comes_nothing_is_overspent_and_shares_stay(past: list[tuple]) -> None:  # type: ignore[type-arg]
    """At every grant the caps hold; what is not lent is held; and every wait ends in time."""
    blocks = {name: block(day * DAY) for name, day in (("a", 0), ("b", 4), ("c", 9))}
    waiting: dict[str, tuple[Request, int]] = {}

    def spend(one: Request, now: int) -> None:
        for name in one.blocks:
            blocks[name].spend(one.analyst, one.price)
            left = max(0, min(blocks[name].opened + LENT - now, LENT))
            held = sum(
                max(0, 500 * left // LENT - blocks[name].used.get(other, {}).get("rho", 0))
                for other in HALVES.shares
                if other != one.analyst
            )
            assert blocks[name].totals["rho"] + held <= 1000

    def decide(now: int) -> None:
        budgets = {
            name: BlockBudget(
                one.opened, one.limits, dict(one.totals), {a: dict(u) for a, u in one.used.items()}
            )
            for name, one in blocks.items()
        }
        for one, what in scheduling.decide_due(waiting.values(), budgets, HALVES, now):
            if isinstance(what, Waits):
                assert now < what.not_before <= one.until
                waiting[one.id] = (one, what.not_before)
                continue
            del waiting[one.id]
            if isinstance(what, Granted):
                spend(one, now)
        for name, one in budgets.items():
            assert one.totals == blocks[name].totals

    for number, (when, analyst, price, names, wait, cancelled) in enumerate(sorted(past)):
        while waiting and (soon := min(at for _, at in waiting.values())) <= when:
            decide(soon)
        one = request(number, analyst, price, blocks=names, until=when + wait)
        queue = [other for other, _ in waiting.values()]
        what = scheduling.decide_new(one, queue, blocks, HALVES, when)
        if isinstance(what, Granted):
            spend(one, when)
        elif isinstance(what, Waits):
            assert when < what.not_before <= one.until
            if not cancelled:
                waiting[one.id] = (one, what.not_before)
        assert len({other.analyst for other, _ in waiting.values()}) == len(waiting)
    for _ in range(len(waiting) * 3 + 1):
        if waiting:
            decide(min(at for _, at in waiting.values()))
    assert not waiting


def test_more_jobs_than_first_come_first_served_and_a_flood_takes_nobodys_share() -> None:
    """A small run of `benchmarks.scheduling`; docs/theory/sources.md has the whole one. Without
    shares the flood leaves the others next to nothing."""
    found = simulated.compared(1, 4, simulated.shares(), simulated.WAIT_DAYS)
    assert found["jobs"] >= 1.12
    assert found["area"] >= 1
    assert found["once"] >= 0.9
    others = simulated.flooded(1, 8, simulated.shares(), simulated.WAIT_DAYS)
    nobody = simulated.flooded(1, 8, Rule({}, 1), simulated.WAIT_DAYS)
    assert sum(others.values()) / len(others) >= 0.85
    assert sum(nobody.values()) / len(nobody) <= 0.5
