"""Sums over a sparse graph of masks, with agents that drop: what a round costs an agent.

`python -m benchmarks.dropout [AGENTS …]`. The server runs in this process, the agents in children
of it; there is one setup for all rounds, and nothing is started again. In each round 5 % of all
agents drop, a quarter of them each before their shares, after them, after their contribution, and
after the vote; the next round finds them back. Every sum is compared with numpy's, entry by entry.

Real agents have machines of their own, so a signature that several of them check, of a juror or of
a member, is checked once by the process that plays them all; what a round costs an agent that
checks everything itself is measured apart, on some of them.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_agent.sparse_sum import Agent, Candidate, Group, Plan, Server
from discreet_agent.sparse_sum.signing import verify

SIZES = (100, 1000, 10_000)
DIMENSION, ROUNDS, SAMPLE = 100, 3, 20
GAMMA, DELTA = 0.05, 0.05
"""Shares of all: corrupt with the server, and dropping in a round."""
WORKERS, CHUNK = 4, 400
EMPTY: Set[int] = frozenset()
PLACE = 4
"""Bytes of a place beside what is said of it."""


def run(sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    return [row for agents in sizes for row in measure(agents)]


def measure(agents: int) -> Iterator[dict[str, Any]]:
    """Figures of one size. Raises AssertionError when a sum is not exact."""
    plan = Plan.choose(agents, DIMENSION, ROUNDS, gamma=GAMMA, delta=DELTA)
    since = time.perf_counter()
    with _players(plan) as (group, players):
        setup = time.perf_counter() - since
        print(f"{agents:,} agents: setup {setup:.1f} s", file=sys.stderr)
        rng = np.random.default_rng(agents)
        up = down = 0
        walls, own = [], []
        for number in range(ROUNDS):
            since = time.perf_counter()
            sent, heard, seconds = _round(Server(group, number), players, rng)
            walls.append(time.perf_counter() - since)
            own.append(seconds)
            up, down = max(up, sent), max(down, heard)
            print(f"{agents:,} agents, round {number}: exact, {walls[-1]:.1f} s", file=sys.stderr)
        peak = players.memory()
    k, t = plan.neighbours, plan.threshold
    name = f"sum of {agents:,} agents, 5 % dropping"
    yield {
        "benchmark": f"{name}, a round",
        "ours": float(np.median(walls)),
        "unit": "s",
        "note": f"{ROUNDS} rounds, all exact, 1 + {WORKERS} processes; setup {setup:.0f} s; peak "
        f"{peak:.2f} GiB",
    }
    yield {
        "benchmark": f"{name}, an agent's round",
        "ours": 1000 * float(np.median(own)),
        "unit": "ms",
        "note": f"of processor; 3 messages each way; {up:,} bytes up, {down:,} down; k {k}, t {t}: "
        f"{2 * k} sealings, {k + 1} masks, {2 * k} shares of degree {t - 1}, 3 signatures, "
        f"{plan.quorum} checks of them",
    }


class _Players:
    """All agents, in processes of which each has every so many-th."""

    def __init__(self, group: Group, candidates: list[Candidate]) -> None:
        context = multiprocessing.get_context("fork")
        self._ends: list[Connection] = []
        self._children = []
        for first in range(WORKERS):
            end, other = context.Pipe()
            child = context.Process(
                target=_play, args=(other, group, candidates, first), daemon=True
            )
            child.start()
            other.close()
            self._ends.append(end)
            self._children.append(child)
        for end in self._ends:
            end.recv()

    def ask(
        self, step: str, number: int, told: Mapping[int, tuple[Any, ...]], alone: Set[int] = EMPTY
    ) -> Iterator[tuple[int, bytes, float]]:
        """Place, answer and seconds of processor for each agent that is told something. Those of
        `alone` check each signature themselves."""
        order = sorted(told)
        for at in range(0, len(order), CHUNK):
            asked: list[list[Any]] = [[] for _ in self._ends]
            for place in order[at : at + CHUNK]:
                asked[place % WORKERS].append((place, place in alone, told[place]))
            for end, part in zip(self._ends, asked, strict=True):
                end.send((step, number, part))
            for end in self._ends:
                yield from end.recv()

    def memory(self) -> float:
        """GiB at the most, of all processes together: pages that they share count in each."""
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for end in self._ends:
            end.send(("memory", 0, []))
        return float(own + sum(end.recv() for end in self._ends)) / 2**20

    def close(self) -> None:
        for end, child in zip(self._ends, self._children, strict=True):
            end.send(("end", 0, []))
            child.join()
            end.close()


def _play(end: Connection, group: Group, candidates: list[Candidate], first: int) -> None:
    """A process with some of the agents, until it is told to end."""
    once = cache(verify)
    agents = {
        place: Agent(candidates[place], place, group, verify=once)
        for place in range(first, len(candidates), WORKERS)
    }
    gc.freeze()
    end.send(None)
    while True:
        step, number, asked = end.recv()
        if step == "end":
            return
        if step == "memory":
            end.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            continue
        answers = []
        for place, alone, told in asked:
            agent = agents[place]
            agent._verify = verify if alone else once
            since = time.process_time()
            frame = getattr(agent, step)(number, *told)
            answers.append((place, frame, time.process_time() - since))
        end.send(answers)


@contextmanager
def _players(plan: Plan) -> Iterator[tuple[Group, _Players]]:
    candidates = [Candidate(Ed25519PrivateKey.generate()) for _ in range(plan.agents)]
    commitments = [candidate.commitment for candidate in candidates]
    group = Group(plan, tuple(candidate.open(plan, commitments) for candidate in candidates))
    players = _Players(group, candidates)
    try:
        yield group, players
    finally:
        players.close()


def _round(server: Server, players: _Players, rng: np.random.Generator) -> tuple[int, int, float]:
    """The most bytes that an agent sends and hears, and the seconds of one that checks all."""
    plan, number = server.plan, server.round
    values = rng.integers(-(2**40), 2**40, (plan.agents, plan.dimension))
    gone = rng.permutation(plan.agents)[: plan.dropping]
    early, shared, summed, _ = (set(gone[at::4].tolist()) for at in range(4))
    everybody = set(range(plan.agents))
    up = np.zeros(plan.agents, dtype=int)
    down = np.zeros(plan.agents, dtype=int)
    spent = np.zeros(plan.agents)

    told: dict[int, tuple[Any, ...]] = dict.fromkeys(everybody - early, ())
    for place, frame, seconds in players.ask("shares", number, told):
        server.take_shares(place, frame)
        up[place] += len(frame)
        spent[place] += seconds

    told = {place: (server.delivery(place), values[place]) for place in everybody - early - shared}
    for place, (boxes, _values) in told.items():
        down[place] += sum(PLACE + len(box) for box in boxes.values())
    for place, frame, seconds in players.ask("contribute", number, told):
        server.take_contribution(place, frame)
        up[place] += len(frame)
        spent[place] += seconds

    survivors = server.propose()
    told = dict.fromkeys(server.group.jury(number) - early - shared - summed, (survivors,))
    for place, vote, seconds in players.ask("vote", number, told):
        server.take_vote(place, vote)
        up[place] += len(vote)
        down[place] += len(survivors)
        spent[place] += seconds

    votes, staying = server.votes(), sorted(everybody - set(gone.tolist()))
    sample = set(staying[:: max(1, len(staying) // SAMPLE)])
    told = {place: (survivors, votes, server.proofs(place)) for place in staying}
    for place, (_, _, proofs) in told.items():
        down[place] += len(survivors) + sum(
            PLACE + len(said) for part in (votes, proofs) for said in part.values()
        )
    for place, frame, seconds in players.ask("release", number, told, sample):
        server.take_release(place, frame)
        up[place] += len(frame)
        spent[place] += seconds

    summands = sorted(everybody - early - shared)
    assert np.array_equal(server.open(), values[summands].sum(axis=0))
    return int(up.max()), int(down.max()), float(np.median(spent[sorted(sample)]))


if __name__ == "__main__":
    for agents in tuple(map(int, sys.argv[1:])) or SIZES:
        for row in measure(agents):
            print(f"{row['benchmark']}: {row['ours']:.4g} {row['unit']}; {row['note']}", flush=True)
