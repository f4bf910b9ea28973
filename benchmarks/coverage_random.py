"""Random truths of coverage, of many kinds at once: what methods were not made for in particular.

`dr_ensemble(seed, epsilon)` and `off_policy(seed, epsilon)` draw structure, size and what is public
from the seed. The first `HELD_BACK` seeds stand in the table; whoever works on the intervals looks
at others (1,000 and on).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.coverage import Case, Floats
from benchmarks.coverage_dr_ensemble import case_of
from benchmarks.coverage_off_policy import COLUMNS, read, tabular

HELD_BACK = 30
EPSILONS = (0.5, 2.0, 5.0)
LOADS = ("charging", "schedule", "thermostat", "sticky", "near", "anywhere")
PROCESSES = ("cycle", "ladder", "random", "one state", "grid", "care")


def cases() -> Iterator[Case]:
    for epsilon in EPSILONS:
        for seed in range(HELD_BACK):
            yield dr_ensemble(seed, epsilon)
    for epsilon in EPSILONS:
        for seed in range(HELD_BACK):
            yield replace(off_policy(seed, epsilon), repeats=6)


# Demand response ----------------------------------------------------------------------------------


def dr_ensemble(seed: int, epsilon: float) -> Case:
    """Loads of the family seed mod 6, of 3 to 12 states."""
    rng, family = np.random.default_rng([7, seed]), LOADS[seed % len(LOADS)]
    states, steps = int(rng.integers(3, 13)), int(rng.choice([13, 25, 49, 97, 169]))
    participants = int(np.exp(rng.uniform(np.log(100), np.log(5000))))
    rows, mask = _loads(family, states, participants, steps, rng)
    near = rng.random() < 0.4
    support: Any = "all"
    if near and (np.abs(np.subtract(*np.nonzero(mask))) <= 1).all():
        support = [(a, b) for a in range(states) for b in range(states) if abs(a - b) <= 1]
    public: dict[str, Any] = {"unit": "participant", "states": states, "support": support}
    if rng.random() < 0.7:
        public |= {"participants": participants, "steps": steps}
    begins = np.bincount(rows[:, 0], minlength=states) / participants
    first = (np.round(begins * 10) / 10 + 0.02) / (
        np.round(begins * 10) / 10 + 0.02
    ).sum()  # told about, by a plan
    initial: Any = ["released", [1 / states] * states, first.tolist()][int(rng.integers(3))]
    fields = {"initial": initial, "discomfort_weight": float(rng.choice([0.5, 1.0, 3.0]))}
    return replace(
        case_of(f"{HELD_BACK} random ensembles", public, rows.tolist(), epsilon, **fields),
        part=seed,
    )


def _loads(
    family: str, states: int, participants: int, steps: int, rng: np.random.Generator
) -> tuple[Any, np.ndarray]:
    """int64[participants, steps], and bool[states, states] of what moves there are."""
    P = np.zeros((states, states))
    first = rng.dirichlet(np.ones(states))
    each = range(states)
    if family == "charging":  # from empty to full; some are plugged in again
        for s in each:
            P[s, min(s + 1, states - 1)] += rng.uniform(0.1, 0.9)
            P[s, s] += 1 - P[s].sum()
        P[-1, 0] += rng.choice([0, 0.01])
        first = np.eye(states)[0]
    elif family == "schedule":  # round and round, nearly together
        for s in each:
            P[s, (s + 1) % states] = rng.uniform(0.7, 0.999)
            P[s, s] += 1 - P[s].sum()
        first = rng.dirichlet(np.full(states, 0.2))
    elif family == "thermostat":  # up fast, down slowly
        for s in each:
            P[s, min(s + 2, states - 1)] += rng.uniform(0.05, 0.3)
            P[s, max(s - 1, 0)] += rng.uniform(0.2, 0.6)
            P[s, s] += 0.1
    elif family == "sticky":
        stay = rng.uniform(0.5, 0.98)
        P = stay * np.eye(states) + (1 - stay) * rng.dirichlet(
            np.full(states, rng.uniform(0.2, 1)), states
        )
    elif family == "near":
        for s in each:
            some = range(max(0, s - 1), min(states, s + 2))
            P[s, some] = rng.dirichlet(np.full(len(some), rng.uniform(0.4, 2)))
    else:
        P = rng.dirichlet(np.full(states, rng.uniform(0.1, 2)), states)
    P /= P.sum(axis=1, keepdims=True)
    rows = np.empty((participants, steps), dtype=np.int64)
    rows[:, 0] = rng.choice(states, participants, p=first)
    for step in range(1, steps):
        u = rng.random(participants)[:, None]
        rows[:, step] = (u > P.cumsum(axis=1)[rows[:, step - 1]]).sum(axis=1).clip(max=states - 1)
    return rows, P > 0


# Off-policy evaluation ----------------------------------------------------------------------------


def off_policy(seed: int, epsilon: float) -> Case:
    """Processes of the family seed mod 6, of 1 to 30 states."""
    rng, family = np.random.default_rng([8, seed]), PROCESSES[seed % len(PROCESSES)]
    P, first = _process(family, rng)
    states, horizon = len(P), int(rng.choice([5, 10, 20, 50]))
    people = int(np.exp(rng.uniform(np.log(500), np.log(10_000))))
    cells = np.argwhere(P > 0)
    worth = np.where(rng.random(P.shape) < rng.choice([0.2, 1]), rng.uniform(-1, 1, P.shape), 0.0)
    mean = np.where(rng.random(states) < rng.choice([0.3, 1]), rng.uniform(-1, 1, states), 0.0)
    topology, public_rewards = rng.random() < 0.6, rng.random() < 0.5
    part: dict[str, Any] = {"states": states, "horizon": horizon}
    if topology:
        part["topology"] = cells.tolist()
        if public_rewards:
            part["rewards"] = worth[tuple(cells.T)].tolist()
    if rng.random() < 0.7:
        part["trajectories"] = people
    steps: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    person, state = np.arange(people), rng.choice(states, people, p=first)
    for step in range(horizon):
        to = (
            (rng.random(person.size)[:, None] > P.cumsum(axis=1)[state])
            .sum(axis=1)
            .clip(max=states)
        )
        ends = to == states
        lucky = np.where(rng.random(person.size) < 0.5 + mean[state] / 2, 1.0, -1.0) * (
            mean[state] != 0
        )
        reward = worth[state, to] if "rewards" in part else lucky
        row = (person, np.full(person.size, step), state, np.minimum(to, states - 1), reward, ends)
        for name, values in zip(COLUMNS, row, strict=True):
            steps[name].append(values)
        person, state = person[~ends], to[~ends]
    data = read({name: np.concatenate(values) for name, values in steps.items()}, part)
    discount = float(rng.choice([0.5, 0.9, 0.98]))
    return replace(
        tabular(f"{HELD_BACK} random processes", data, first.tolist(), epsilon, discount=discount),
        part=seed,
    )


def _process(family: str, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Transitions float64[n, n + 1], the last an end, and where trajectories begin."""
    n = 1 if family == "one state" else 16 if family == "grid" else int(rng.integers(3, 31))
    P = np.zeros((n, n + 1))
    leave = rng.choice([0.0, 0.02, 0.1, 0.3])
    for s in range(n):
        if family == "cycle":
            P[s, (s + 1) % n] = rng.uniform(0.5, 1)
            P[s, s] += 1 - P[s, (s + 1) % n]
        elif family == "ladder":
            for to, p in ((s - 1, 0.3), (s, 0.1), (s + 1, 0.6)):
                P[s, to if 0 <= to < n else n] += p * rng.uniform(0.5, 1.5)
        elif family == "grid":
            x, y = divmod(s, 4)
            for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                P[s, 4 * min(max(x + dx, 0), 3) + min(max(y + dy, 0), 3)] += rng.gamma(1.0)
        elif family == "care":  # to few states with most of the mass in one
            some = rng.choice(n, min(n, 4), replace=False)
            P[s, some] = np.sort(rng.dirichlet(np.full(some.size, 0.4)))
        else:
            some = rng.choice(n, min(n, int(rng.integers(1, 6))), replace=False)
            P[s, some] = rng.gamma(1.0, size=some.size)
    if family == "one state":
        leave = rng.choice([0.1, 0.3, 0.6])
    P /= P.sum(axis=1, keepdims=True)
    P = P * (1 - leave) + leave * np.eye(n + 1)[[-1] * n]
    first = np.eye(n)[0] if family in ("cycle", "grid") else rng.dirichlet(np.full(n, 0.5))
    return P, first
