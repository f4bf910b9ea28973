"""Made-up trajectories of a public shape: states that wander, rewards of the state, an even
behaviour policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.problems.contents import Profile
from discreet.problems.off_policy_evaluation.public import Floats, Ints, OffPolicyPublic
from discreet.problems.synthesis import MOST_ROWS, UNITS, Synthesis

MEAN_STEPS = 20
"""Mean number of transitions of a trajectory, at most, where no topology ends it."""
FEWEST = 1e-3
"""The part of all visits that must be beginnings for the first states to follow from them."""
TARGET = 0.7
"""Probability with which the target policy takes the action that the behaviour policy takes for one
of two, where no public rule says how far they differ."""


def rows(public: OffPolicyPublic, units: int | None) -> int:
    """The number of transitions, at most."""
    return (units or UNITS) * min(public.horizon, 2 * MEAN_STEPS)


def columns(
    public: OffPolicyPublic,
    generator: np.random.Generator,
    units: int | None,
    around: Profile | None = None,
) -> dict[str, Any]:
    """Columns of an upload. Each state has a reward, drawn uniformly up to the public bound, and
    from the upper half in state 0; a visit brings it or 0, with probability 1/2 each. Around a
    release, walks begin where more of them leave than come, and move and are rewarded as it
    says."""
    if around is not None and units is None:
        units = max(2, min(round(float(around["trajectories"])), MOST_ROWS // rows(public, 1)))
    count = units or UNITS
    most = min(public.horizon, 2 * MEAN_STEPS)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("trajectory", "step", "reward", "terminal")
    }
    states = public.states or 1
    chances = _chances(public, generator) if around is None else around["transitions"]
    worth = generator.uniform(0, public.reward_bound, states + 1)
    worth[0] = (worth[0] + public.reward_bound) / 2
    state = generator.choice(states, count, p=None if around is None else _beginnings(around))
    x = generator.uniform(0, 1, (count, public.features or 1))
    alive, here, there = np.arange(count), [], []
    for step in range(most):
        where = state[alive]
        drawn = (generator.random(alive.size)[:, None] > np.cumsum(chances[where], axis=1)).sum(
            axis=1
        )
        onward = np.minimum(drawn, chances.shape[1] - 1)
        moved = np.clip(x[alive] + generator.normal(0, 0.1, x[alive].shape), 0, 1)
        terminal = onward == states
        if public.topology is None and around is None:
            terminal = (generator.random(alive.size) < 1 / MEAN_STEPS) & (not public.continuing)
        reward = np.where(generator.random(alive.size) < 0.5, worth[where], 0.0)
        if around is not None:
            reward = around["rewards"][where]
        if public.rewards is not None:
            known = np.zeros((states, states + 1))
            known[tuple(np.array(public.topology).T)] = public.rewards
            reward = known[where, onward]
        if public.features is not None:
            reward = public.reward_bound * x[alive].mean(axis=1)
        columns["trajectory"].append(alive)
        columns["step"].append(np.full(alive.size, step))
        columns["reward"].append(np.clip(reward, public.lowest_reward, public.reward_bound))
        columns["terminal"].append(terminal)
        here.append(where if public.states is not None else x[alive])
        there.append(np.minimum(onward, states - 1) if public.states is not None else moved)
        state[alive], x[alive] = np.minimum(onward, states - 1), moved
        alive = alive[~terminal]
    joined: dict[str, Any] = {name: np.concatenate(parts) for name, parts in columns.items()}
    for name, parts in (("state", here), ("next_state", there)):
        whole = np.concatenate(parts)
        if public.states is not None:
            joined[name] = whole
        else:
            prefix = "x" if name == "state" else "x_next"
            joined |= {f"{prefix}_{axis}": whole[:, axis] for axis in range(whole.shape[1])}
    if public.off_policy:
        joined |= _policies(public.max_ratio, joined["trajectory"], count, generator)
    return joined


def _policies(
    max_ratio: float | None, trajectory: Ints, count: int, generator: np.random.Generator
) -> dict[str, Floats]:
    """Probabilities of the actions under both policies. Where public rules bound ratios, and so
    weights, ratios are as large as these allow: the target policy is a rule, which takes for all
    trajectories the action of probability 1 / max_ratio, or for half of them the other one, if its
    ratio is not larger. Otherwise both policies are mild."""
    if max_ratio is None or max_ratio <= 1:
        agreed = generator.random(trajectory.size) < 0.5
        behaviour = np.full(agreed.size, 0.5)
        target = np.where(agreed, TARGET, 1 - TARGET)
        return {"behaviour": behaviour, "target": np.minimum(target, behaviour * (max_ratio or 2))}
    chance = np.full(count, 1 / max_ratio)
    if max_ratio >= 2:
        chance[1::2] = 1 - chance[1::2]
    taken = generator.random(trajectory.size) < chance[trajectory]
    return {
        "behaviour": np.where(taken, chance[trajectory], 1 - chance[trajectory]),
        "target": taken.astype(np.float64),
    }


def _beginnings(around: Profile) -> Floats:
    """float64[states]: the distribution of first states, by what leaves each beyond what comes
    there; where that is next to nothing, by all visits."""
    visits: Floats = around["visits"]
    begun = np.maximum(visits - visits @ around["transitions"][:, :-1], 0.0)
    if begun.sum() < FEWEST:
        return visits
    return np.asarray(begun / begun.sum())


def _chances(public: OffPolicyPublic, generator: np.random.Generator) -> Floats:
    """float64[states, states + 1]: where each state leads; the last column ends the episode.
    Without a topology that is one of a few states; each row has random weights."""
    states = public.states or 1
    if public.topology is not None:
        allowed = np.zeros((states, states + 1), dtype=bool)
        allowed[tuple(np.array(public.topology).T)] = True
        allowed[~allowed.any(axis=1), states] = True
    else:
        allowed = np.zeros((states, states + 1), dtype=bool)
        for step in range(min(states, 4)):
            allowed[np.arange(states), (np.arange(states) + step) % states] = True
    weights = np.where(allowed, generator.exponential(1.0, allowed.shape), 0.0)
    chances: Floats = weights / weights.sum(axis=1, keepdims=True)
    return chances


SYNTHESIS = Synthesis(rows, columns)
