"""Sums over a sparse graph of masks, with agents that drop: what a round costs an agent.

`python -m benchmarks.dropout [AGENTS …]`. All agents and the server run in this process, one setup
for all rounds. In each round 5 % of all agents drop, a quarter of them each before their shares,
after them, after their contribution, and after the vote; the next round finds them back. Every sum
is compared with that of numpy, entry by entry.

Real agents have machines of their own, so a signature that several of them check, of a juror or of
a member, is checked once by the process that plays them all; what a round costs an agent that
checks everything itself is measured apart, on some of them.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_client.sparse_sum import Agent, Candidate, Group, Plan, Server
from discreet_client.sparse_sum.signing import verify

SIZES = (100, 1000, 10_000)
DIMENSION, ROUNDS, SAMPLE = 100, 3, 20
GAMMA, DELTA = 0.05, 0.05
"""Shares of all: corrupt with the server, and dropping in a round."""
PLACE = 4
"""Bytes of a place beside what is said of it."""


def run(sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    return [row for agents in sizes for row in measure(agents)]


def measure(agents: int) -> Iterator[dict[str, Any]]:
    """Figures of one size. Raises AssertionError when a sum is not exact."""
    plan = Plan.choose(agents, DIMENSION, ROUNDS, gamma=GAMMA, delta=DELTA)
    times: dict[str, float] = {}
    with _timed(times, "setup"):
        group, players = _set_up(plan)
    print(f"{agents:,} agents: setup {times['setup']:.1f} s", file=sys.stderr)
    gc.freeze()
    rng = np.random.default_rng(agents)
    up = down = 0
    walls, own = [], []
    for number in range(ROUNDS):
        since = time.perf_counter()
        sent, heard, seconds = _round(Server(group, number), players, rng)
        walls.append(time.perf_counter() - since)
        own.append(seconds)
        print(f"{agents:,} agents, round {number}: exact, {walls[-1]:.1f} s", file=sys.stderr)
        up, down = max(up, sent), max(down, heard)
    gc.unfreeze()
    k, t = plan.neighbours, plan.threshold
    name = f"sum of {agents:,} agents, 5 % dropping"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield {
        "benchmark": f"{name}, a round",
        "ours": float(np.median(walls)),
        "unit": "s",
        "note": f"{ROUNDS} rounds, all exact, one process; setup {times['setup']:.0f} s; peak "
        f"{peak:.2f} GiB",
    }
    yield {
        "benchmark": f"{name}, an agent's round",
        "ours": 1000 * float(np.median(own)),
        "unit": "ms",
        "note": f"3 messages each way; {up:,} bytes up, {down:,} down; k {k}, t {t}: {2 * k} "
        f"sealings, {k + 1} masks, {2 * k} shares of degree {t - 1}, 3 signatures, "
        f"{plan.quorum} checks of them",
    }


def _set_up(plan: Plan) -> tuple[Group, list[Agent]]:
    candidates = [Candidate(Ed25519PrivateKey.generate()) for _ in range(plan.agents)]
    commitments = [candidate.commitment for candidate in candidates]
    group = Group(plan, tuple(candidate.open(plan, commitments) for candidate in candidates))
    once = cache(verify)
    return group, [Agent(one, at, group, verify=once) for at, one in enumerate(candidates)]


def _round(
    server: Server, players: list[Agent], rng: np.random.Generator
) -> tuple[int, int, float]:
    """The most bytes that an agent sends and hears, and the seconds of one that checks all."""
    plan, number = server.plan, server.round
    values = rng.integers(-(2**40), 2**40, (plan.agents, plan.dimension))
    gone = rng.permutation(plan.agents)[: plan.dropping]
    early, shared, summed, _ = (set(gone[at::4].tolist()) for at in range(4))
    up = np.zeros(plan.agents, dtype=int)
    down = np.zeros(plan.agents, dtype=int)
    alone = np.zeros(plan.agents)
    for place, agent in enumerate(players):
        if place not in early:
            since = time.perf_counter()
            frame = agent.shares(number)
            alone[place] += time.perf_counter() - since
            server.take_shares(place, frame)
            up[place] += len(frame)
    for place, agent in enumerate(players):
        if place not in early | shared:
            boxes = server.delivery(place)
            since = time.perf_counter()
            frame = agent.contribute(number, boxes, values[place])
            alone[place] += time.perf_counter() - since
            server.take_contribution(place, frame)
            up[place] += len(frame)
            down[place] += sum(PLACE + len(box) for box in boxes.values())
    survivors = server.propose()
    for place in server.group.jury(number) - (early | shared | summed):
        vote = players[place].vote(number, survivors)
        server.take_vote(place, vote)
        up[place] += len(vote)
        down[place] += len(survivors)
    votes, releasing = server.votes(), sorted(set(range(plan.agents)) - set(gone.tolist()))
    sample = set(releasing[:: max(1, len(releasing) // SAMPLE)])
    for place in releasing:
        agent, proofs = players[place], server.proofs(place)
        if place in sample:
            agent._verify = verify  # this one shares nothing with the others
        since = time.perf_counter()
        frame = agent.release(number, survivors, votes, proofs)
        alone[place] += time.perf_counter() - since
        server.take_release(place, frame)
        up[place] += len(frame)
        down[place] += len(survivors) + sum(
            PLACE + len(said) for part in (votes, proofs) for said in part.values()
        )
    summands = sorted(set(range(plan.agents)) - early - shared)
    assert np.array_equal(server.open(), values[summands].sum(axis=0))
    return int(up.max()), int(down.max()), float(np.median(alone[sorted(sample)]))


@contextmanager
def _timed(times: dict[str, float], name: str) -> Iterator[None]:
    since = time.perf_counter()
    yield
    times[name] = time.perf_counter() - since


if __name__ == "__main__":
    for agents in tuple(map(int, sys.argv[1:])) or SIZES:
        for row in measure(agents):
            print(f"{row['benchmark']}: {row['ours']:.4g} {row['unit']}; {row['note']}", flush=True)
