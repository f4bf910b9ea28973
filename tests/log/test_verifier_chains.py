"""Chains of sources, true and altered: the verifier of one file, `discreet ledger verify` with its
fast way, the slow way alone, and a count of jobs by block all come to one verdict."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import rfc8785

from discreet.ledger import verification
from discreet.ledger.entries import Broken, Chain, limits
from discreet.ledger.verification import verify
from discreet.privacy.filters import Cap
from tests.ledgers import Writer
from tests.log.test_verifier import altered, quarter_and_whole, stranger

CHAINS = 3000 if os.environ.get("DISCREET_FUZZ") == "long" else 300
CHAIN = "acc_s"
Runs = tuple[tuple[int, int], ...]
Step = tuple[str, str | None, Runs, int]
"""Kind, job, blocks, and how many jobs the cap allows that the step sets."""


def runs_of(numbers: list[int]) -> Runs:
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def history(chance: random.Random) -> list[Step]:
    """Blocks that come one by one, and jobs on any of those that are there; every job fits."""
    steps: list[Step] = []
    most: list[int] = []
    used: Counter[int] = Counter()
    open_jobs: dict[str, tuple[str, Runs]] = {}
    for at in range(chance.randrange(1, 40)):
        what = chance.random()
        if not most or what < 0.15:
            most.append(chance.choice((1, 2, 5)))
            steps.append(("open", None, ((len(most), len(most)),), most[-1]))
        elif what < 0.22:
            number = chance.randrange(len(most))
            most[number] = max(used[number + 1], chance.choice((1, 3, 6)))
            steps.append(("grant", None, ((number + 1, number + 1),), most[number]))
        elif what < 0.55:
            free = [number for number in range(1, len(most) + 1) if used[number] < most[number - 1]]
            if not free:
                continue
            taken = runs_of(
                free if chance.random() < 0.3 else [chance.choice(free) for _ in range(3)]
            )
            used.update(number for first, last in taken for number in range(first, last + 1))
            open_jobs[f"job_{at}"] = "reserve", taken
            steps.append(("reserve", f"job_{at}", taken, 0))
        elif open_jobs:
            job = chance.choice(list(open_jobs))
            last, taken = open_jobs[job]
            following = "commit" if last == "data_touched" else "data_touched"
            if last == "reserve" and chance.random() < 0.3:
                following = "release"
                used.subtract(n for first, end in taken for n in range(first, end + 1))
            if following == "data_touched":
                open_jobs[job] = following, taken
            else:
                del open_jobs[job]
            steps.append((following, job, taken, 0))
    return steps


def is_lawful(steps: list[Step]) -> bool:
    """Whether every step follows from those before, as the rules of a chain say in words: jobs that
    hold a block, or have spent it, are counted and compared with what its cap allows."""
    most: list[int] = []
    used: Counter[int] = Counter()
    jobs: dict[str, tuple[str, Runs]] = {}
    for kind, job, runs, allowed in steps:
        numbers = [number for first, last in runs for number in range(first, last + 1)]
        formed = all(0 < first <= last for first, last in runs) and all(
            before[1] + 1 < after[0] for before, after in pairwise(runs)
        )
        if not formed or not numbers:
            return False
        if kind == "open":
            most.append(allowed)
            if numbers != [len(most)]:
                return False
            continue
        if not most or numbers[-1] > len(most):
            return False
        if kind == "grant":
            if len(numbers) != 1:
                return False
            most[numbers[0] - 1] = allowed
        elif kind == "reserve":
            if job in jobs:
                return False
            used.update(numbers)
        else:
            needed = "data_touched" if kind == "commit" else "reserve"
            if jobs.get(str(job)) != (needed, runs):
                return False
            if kind == "release":
                used.subtract(numbers)
        if job is not None:
            jobs[job] = kind, runs
        if kind in ("grant", "reserve") and any(used[one] > most[one - 1] for one in numbers):
            return False
    return True


def rewritten(steps: list[Step], chance: random.Random) -> list[Step]:
    """Another history, by somebody who adds up rightly: with other ranges, blocks left out or put
    in, steps left out, twice there or in another order, or other caps."""
    steps = list(steps)
    at, other = chance.randrange(len(steps)), chance.randrange(len(steps))
    kind, job, runs, allowed = steps[at]
    place = chance.randrange(len(runs)) if runs else 0
    first, last = runs[place] if runs else (1, 1)
    what = chance.randrange(12)
    if what == 0:
        first, last = first + chance.choice((-1, 0, 1)), last + chance.choice((-1, 0, 1, 3))
        steps[at] = kind, job, (*runs[:place], (first, last), *runs[place + 1 :]), allowed
    elif what == 1:
        steps[at] = kind, job, runs[:place] + runs[place + 1 :], allowed
    elif what == 2:
        steps[at] = kind, job, (*runs, (last + 1, last + chance.choice((1, 2)))), allowed
    elif what == 3:
        steps[at] = kind, job, runs[::-1], allowed
    elif what == 4 and last > first:
        both = (first, first), (first + 1, last)
        steps[at] = kind, job, (*runs[:place], *both, *runs[place + 1 :]), allowed
    elif what == 5:
        steps[at] = kind, job, steps[other][2], allowed
    elif what == 6:
        steps[at], steps[other] = steps[other], steps[at]
    elif what == 7:
        del steps[at]
    elif what == 8:
        steps.insert(other, steps[at])
    elif what == 9 and job is not None:
        steps[at] = chance.choice(("reserve", "data_touched", "commit", "release")), job, runs, 0
    elif what == 10 and job is None:
        steps[at] = kind, job, runs, 0
    else:  # the same blocks in every step of the job
        added = chance.choice(steps)[2]
        steps = [
            (one[0], one[1], added, one[3]) if one[1] == job is not None else one for one in steps
        ]
    return steps


def written(steps: list[Step]) -> Writer:
    made = Writer()
    for kind, job, runs, allowed in steps:
        cap = Cap(int(made.price["epsilon"]) * allowed, 0)
        own = (
            {"cap": {"epsilon": str(cap.epsilon), "delta": "0"}, "filters": limits(cap)}
            if job is None
            else {}
        )
        made.write_blocks(CHAIN, kind, job, *runs, **own)
    return made


def falsified(made: Writer, chance: random.Random) -> bool:
    """One entry says something else than it should: other sums of its blocks, or anything. Whether
    no ledger may say it."""
    chain = made.bodies[CHAIN]
    body = chance.choice(chain)
    before, what = json.dumps(chain), chance.randrange(6)
    numbers = [number for first, last in body["blocks"] for number in range(first, last + 1)]
    said = [[one, *made.standing[CHAIN, one].values()] for one in numbers]
    said = [[number, reserved, totals] for number, totals, reserved in said]
    if what == 0:
        body["sums"] = chance.choice(chain)["sums"]
    elif what == 1:  # a block left out, or in another order
        body["sums"] = hashlib.sha256(rfc8785.dumps(said[1:] or said[::-1])).hexdigest()
    elif what == 2:
        body["sums"] = body["sums"].upper()
    elif what == 3:
        body["blocks"] = chance.choice(chain)["blocks"]
    elif what == 4:
        name = chance.choice(("totals", "reserved"))
        body[name] = chance.choice(chain)[name]
    else:
        chain[chain.index(body)] = altered(body, chance)
        return False
    return json.dumps(chain) != before


def slowly(lines: list[bytes]) -> str:
    """What is wrong, by the slow way alone, which looks at each entry in JSON."""
    chain = Chain("ten_1", CHAIN)
    try:
        for line in lines[1:]:
            chain.follow(line)
    except Broken as broken:
        return broken.what
    return ""


def quickly(lines: list[bytes]) -> str:
    try:
        verify(lines)
    except Broken as broken:
        return broken.what
    return ""


@quarter_and_whole(CHAINS)
def test_all_ways_agree_on_chains(cases: int) -> None:
    chance, seen = random.Random(6), Counter[tuple[str, bool]]()
    for case in range(cases):
        steps = history(chance)
        way = ("true", "rewritten", "rewritten", "falsified", "bytes")[case % 5]
        for _ in range(chance.choice((1, 1, 2)) if way == "rewritten" else 0):
            steps = rewritten(steps, chance) or steps
        made = written(steps)
        wrong = way == "bytes" or (way == "falsified" and falsified(made, chance))
        try:
            lines = made.lines()
        except (ValueError, OverflowError):  # what no canonical JSON holds
            continue
        if way == "bytes":
            at = chance.randrange(1, len(lines))
            line = bytearray(lines[at])
            line[chance.randrange(len(line) - 1)] ^= 1 << chance.randrange(7)
            lines[at] = bytes(line)
        if any(b"\n" in line[:-1] for line in lines):
            continue
        says = quickly(lines)
        theirs = stranger.check_ledger(lines)
        assert (says == "") == all(one.holds is not False for one in theirs), (says, theirs, steps)
        if way in ("true", "rewritten"):
            assert (says == "") == is_lawful(steps), (says, steps)
            assert slowly(lines) == says, steps
        if way == "falsified":
            assert bool(slowly(lines)) == bool(says), (case, lines)
        assert says or not wrong, (case, way, lines)
        seen[way, says == ""] += 1
    for way, held in (("true", True), ("rewritten", False), ("falsified", False), ("bytes", False)):
        assert seen[way, held] > cases / 20, seen
    assert seen["rewritten", True] > 0
    assert seen["true", False] == 0


def test_the_fast_way_takes_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but blocks that are opened or granted, and the last entry; of what it does not take
    nothing is changed."""
    taken: Counter[bool] = Counter()
    quick: Callable[..., Any] = verification.take_quickly

    def counted(account: Any, known: Any, line: bytes) -> str | None:
        before = dict(account.blocks), [block.balance for block in account.blocks.values()]
        found = quick(account, known, line)
        taken[found is not None] += 1
        if found is None:
            after = dict(account.blocks), [block.balance for block in account.blocks.values()]
            assert after == before
        return found

    monkeypatch.setattr(verification, "take_quickly", counted)
    chance = random.Random(7)
    steps: list[Step] = [("open", None, ((number, number),), 50) for number in range(1, 41)]
    for job in range(40):
        first = chance.randrange(1, 40)
        runs = ((first, chance.randrange(first, 41)),)
        steps += [(kind, f"job_{job}", runs, 0) for kind in ("reserve", "data_touched", "commit")]
    made = written(steps)
    verify(made.lines())
    assert taken == {True: 119, False: 39}
    made.bodies[CHAIN][-2]["sums"] = "0" * 64
    assert "the sums of its blocks are not" in quickly(made.lines())
