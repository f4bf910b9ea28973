"""The example of the kind, which is small and really runs, and further inputs for rehearsals and
attacks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.problems.base import MOST_ROWS, UNITS, Neighbours, Problem, Synthesis
from discreet.problems.contents import Profile
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.dataset import OffPolicyContent, OffPolicyDataset
from discreet.problems.off_policy_evaluation.public import Floats, Ints, OffPolicyPublic
from discreet.problems.off_policy_evaluation.request import OffPolicyRequest

FEW_COORDINATES = 3
"""Up to so many an example has Fourier features, of which there are two to the power of them."""


def example() -> dict[str, Any]:
    """Two hundred synthetic walks along five states to an end that is worth 1."""
    rows = []
    for walk in range(200):
        state, step = walk % 3, 0
        while state < 5:
            onward = state + 1 + (walk * (step + 3) + state) % 2
            rows.append(
                {
                    "trajectory": walk,
                    "step": step,
                    "state": state,
                    "next_state": min(onward, 4),
                    "reward": float(onward >= 5),
                    "terminal": onward >= 5,
                }
            )
            state, step = onward, step + 1
    topology = [[s, s + d] for s in range(5) for d in (1, 2) if s + d <= 5]
    return {
        "problem": {
            "kind": "off_policy_evaluation",
            "dataset": {
                "name": "synthetic walks",
                "kind": "off_policy_evaluation",
                "public": {
                    "unit": "trajectory",
                    "states": 5,
                    "reward_bound": 1,
                    "horizon": 5,
                    "topology": topology,
                },
                "content": {"transitions": rows},
                "cap": {"epsilon": 10, "delta": 1e-4},
            },
            "features": {"type": "tabular"},
            "discount": 0.9,
            "initial": [1, 0, 0, 0, 0],
        },
        "privacy": {"epsilon": 1},
    }


def example_for(kind: Any, public: OffPolicyPublic) -> dict[str, Any]:
    """Where the probabilities of actions are there both policies' values, of which nothing is made
    up. Else features that fit the states: tabular; of few coordinates, between 0 and 1, Fourier;
    else they themselves."""
    problem: dict[str, Any]
    if public.off_policy:
        problem = {
            "kind": "off_policy_evaluation",
            "discount": 1.0,
            "return_bounds": list(public.returns(1.0)),
        }
        return {"problem": problem, "privacy": {"epsilon": 1}}
    problem = {"kind": "off_policy_evaluation", "features": {"type": "tabular"}, "discount": 0.9}
    if public.features is not None:
        size = public.features
        problem["features"] = {"type": "identity", "bound": float(math.ceil(math.sqrt(size)))}
        if size <= FEW_COORDINATES:
            problem["features"] = {
                "type": "fourier",
                "order": 1,
                "low": [0.0] * size,
                "high": [1.0] * size,
            }
        problem["initial"] = [[0.5] * size]
    else:
        told = kind.model_validate({**problem, "dataset": "example"}).tells_visits(public)
        problem["initial"] = (
            "released" if told else [1 / (public.states or 1)] * (public.states or 1)
        )
    return {"problem": problem, "privacy": {"epsilon": 1, "delta": "auto"}}


def worst_cases(kind: type[Problem]) -> tuple[Neighbours, ...]:
    """For each method and relation one trajectory more, or another, far from what the others do."""
    good, bad, worse = (
        [{"state": state, "next_state": to, "terminal": False, "reward": reward} for _ in range(3)]
        for state, to, reward in ((0, 0, 1.0), (1, 1, -1.0), (0, 1, -1.0))
    )
    added, replaced = ([good, good], [good, good, bad]), ([good, good, good], [good, good, worse])
    known, delta, large = {"states": 2, "trajectories": 3}, 10**13, 10**17
    loops: dict[str, Any] = {"topology": [[0, 0], [0, 1], [1, 1]]}
    # Features that are worth nothing later: all of a clipped vector is the reward.
    gain, loss = ([{**_OFF, "x": [0.5], "x_next": [1.0], "reward": sign}] for sign in (1.0, -1.0))
    summed = {
        "features": {"type": "identity", "bound": 1},
        "clip": 1,
        "method": "moments",
        "discount": 0.5,
    }
    stay = {"state": 0, "next_state": 0, "terminal": False}
    alone = [[{**stay, "reward": sign}] * 3 for sign in (1.0, -1.0)]
    one = {"states": 1, "trajectories": 1}
    crowd = [alone[0]] * 100  # so many that a mean moves by all that its sensitivity says
    lsl = {"method": "dp_lsl", "regularization": 1e6}
    cases: list[tuple[str, dict[str, Any], dict[str, Any], tuple[Any, Any], int, int]] = [
        ("moments, tabular, added", {"states": 2, **loops}, {}, added, 1, 0),
        ("moments, tabular, added, gaussian", {"states": 2, **loops}, {}, added, 1, large),
        ("moments, tabular, replaced", {**known, **loops}, {}, replaced, 1, 0),
        ("moments, tabular, replaced, gaussian", {**known, **loops}, {}, replaced, 1, large),
        ("moments, public rewards", {**known, **loops, "rewards": [1, -1, -1]}, {}, replaced, 1, 0),
        ("moments, columns, added", {"features": 1}, summed, ([gain], [gain, gain]), 3, delta),
        (
            "moments, columns, replaced",
            {"features": 1, "trajectories": 2},
            summed,
            ([gain] * 2, [gain, loss]),
            3,
            delta,
        ),
        *_gradient_cases(),
        *_weighted_cases(),
        (
            "constant, added",
            {"states": 1, "continuing": True},
            {"method": "constant"},
            (crowd, [*crowd, alone[0]]),
            1,
            0,
        ),
        (
            "constant, replaced",
            {**one, "continuing": True},
            {"method": "constant"},
            ([alone[0]], [alone[1]]),
            1,
            0,
        ),
        (
            "dp_lsw, added",
            {"states": 1},
            {"method": "dp_lsw"},
            (crowd, [*crowd, alone[1]]),
            6,
            delta,
        ),
        ("dp_lsw, replaced", one, {"method": "dp_lsw"}, ([alone[0]], [alone[1]]), 6, delta),
        ("dp_lsl, added", {"states": 1}, lsl, ([alone[0]], alone), 6, delta),
        ("dp_lsl, replaced", one, lsl, ([alone[0]], [alone[1]]), 6, delta),
    ]
    found = [_neighbours(kind, *case) for case in cases]
    # What dp_lsl says of replacing is twice what adding does: a sum of returns moves by one of
    # them.
    return tuple(
        replace(one, slack=2.0) if one.name.endswith("dp_lsl, added") else one for one in found
    )


def _weighted_cases() -> list[
    tuple[str, dict[str, Any], dict[str, Any], tuple[Any, Any], int, int]
]:
    """A trajectory of full weight and the largest return; instead of it one of no weight and the
    least."""
    stay: dict[str, Any] = {"state": 0, "next_state": 0, "terminal": False, "behaviour": 0.5}

    def walk(target: float, *rewards: float) -> list[dict[str, Any]]:
        return [{**stay, "target": target, "reward": reward} for reward in rewards]

    full, none, other = walk(1.0, 1.0, 1.0, 1.0), walk(0.0, -1.0, -1.0, -1.0), walk(0.5, 1.0, 0.0)
    asked = {"method": "importance_sampling", "max_importance": 8}
    ruled, heavy = {"method": "importance_sampling"}, [walk(1.0, 1.0, 0.0, 1.0)] * 200
    added, replaced = ([other], [other, full]), ([other, none], [other, full])
    # Squares of weights are told by returns: most differs where both have the largest weight.
    turned = ([other, walk(1.0, -1.0, -1.0, -1.0)], [other, full])
    part: dict[str, Any] = {"states": 1}
    # Clipped from the first step on.
    stepwise = {"method": "per_decision", "max_importance": 2}
    rules = {**part, "max_ratio": 2, "target_policy": "treat 0.5, wait 0.5"}
    return [
        ("importance sampling, added", part, asked, added, 1, 0),
        ("importance sampling, replaced", {**part, "trajectories": 2}, asked, turned, 1, 0),
        # All of the largest weight that public rules allow: no mean of weights is so.
        ("importance sampling, public rules, added", rules, ruled, (heavy, [*heavy, full]), 1, 0),
        ("importance sampling, added, gaussian", part, asked, added, 1, 10**17),
        *_chosen_cases(),
        ("per decision, added", part, stepwise, added, 1, 0),
        ("per decision, replaced", {**part, "trajectories": 2}, stepwise, replaced, 1, 0),
        ("per decision, added, gaussian", part, stepwise, added, 1, 10**17),
        (
            "importance sampling, replaced, gaussian",
            {**part, "trajectories": 2},
            asked,
            turned,
            1,
            10**17,
        ),
    ]


def _chosen_cases() -> list[tuple[str, dict[str, Any], dict[str, Any], tuple[Any, Any], int, int]]:
    """Of one visit with two actions, and with a clip that the release chooses."""

    def visit(behaviour: float, target: float, reward: float) -> list[dict[str, Any]]:
        chances = {"behaviour": behaviour, "target": target}
        return [{"state": 0, "next_state": 0, "terminal": True, "reward": reward, **chances}]

    # Of a weight beyond every clip, all of which is cut off, and the same with the least return; of
    # a weight that is the clip of 8; of none.
    full, low = visit(1e-9, 1.0, 1.0), visit(1e-9, 1.0, -1.0)
    whole, none = visit(0.125, 1.0, -1.0), visit(1e-9, 0.0, -1.0)
    part: dict[str, Any] = {"states": 1, "horizon": 1, "actions": 2}
    known, several = {**part, "trajectories": 2}, {"states": 1}
    asked = {"method": "importance_sampling"}
    own = {**asked, "max_importance": 8}
    added, replaced = ([none], [none, full]), ([none, whole], [none, full])
    either = ([none, low], [none, full])
    later = {"terminal": False, "behaviour": 1.0}
    heavy = [{**full[0], "terminal": False}, *({**full[0], **later},) * 2]
    # The second visit tells the discount, and that the rule ends there: the weight is 0.
    light = [
        {**full[0], **later, "reward": -1.0},
        {**none[0], **later, "reward": 0.0},
        {**full[0], **later, "reward": -1.0},
    ]
    return [
        ("importance sampling, one visit, added", part, own, added, 1, 0),
        ("importance sampling, one visit, replaced", known, own, replaced, 1, 0),
        ("importance sampling, one visit, added, gaussian", part, own, added, 1, 10**17),
        ("importance sampling, chosen clip, added", part, asked, added, 1, 0),
        # Whichever clip is chosen.
        ("importance sampling, chosen clip, replaced", known, asked, either, 1, 0),
        (
            "importance sampling, chosen clip, visits, added",
            several,
            asked,
            ([light], [light, heavy]),
            1,
            0,
        ),
    ]


_OFF = {"terminal": False, "behaviour": 0.1, "target": 1.0, "reward": 0.0}
"""Of a transition that counts ten times."""


def _gradient_cases() -> list[
    tuple[str, dict[str, Any], dict[str, Any], tuple[Any, Any], int, int]
]:
    """Steps on a saddle, of which theta alone is released. The others' rewards, which are far
    beyond the clip, drive the dual weights up in each step and leave theta alone (`x` is worth as
    much as what follows). Then all of one's own gradient, which has no reward, is in theta, and is
    clipped: in one direction, or in the other."""
    on = {**_OFF, "behaviour": 1.0}
    columns = {
        "others": [{**on, "x": [0.9], "x_next": [1.0], "reward": 1.0}],
        "up": [{**_OFF, "x": [1.0], "x_next": [-1.0]}],
        "down": [{**_OFF, "x": [0.5], "x_next": [1.0]}],
    }
    # Of numbered states two go up together, and what one is worth the other is worth less.
    tabular = {
        "others": [{**on, "state": state, "next_state": 2, "reward": 1.0} for state in (0, 1)],
        "up": [{**_OFF, "state": 0, "next_state": 1}],
        "down": [{**_OFF, "state": 1, "next_state": 0}],
    }
    cases = []
    for name, part, features, rows in (
        ("columns", {"features": 1}, {"type": "identity", "bound": 1}, columns),
        ("tabular", {"states": 3}, {"type": "tabular"}, tabular),
    ):
        fields = {
            "features": features,
            "discount": 0.9 if name == "columns" else 0.99,
            "clip": 1e-3,
            "step_size": 1,
        }
        methods: tuple[tuple[str, int, dict[str, Any]], ...] = (
            ("minibatch", 50, {"steps": 20, "sampling": 0.5}),
            ("gradient", 10, {"steps": 400}),
        )
        for method, crowd, chosen in methods:
            most = [rows["others"]] * crowd
            known = {**part, "trajectories": crowd + 1}
            pair = ([*most, rows["up"]], [*most, rows["down"]])
            asked = {**fields, "method": method, **chosen}
            cases.append((f"{method}, {name}, replaced", known, asked, pair, 6, 10**13))
            if method == "minibatch":
                cases.append((f"{method}, {name}, added", part, asked, (most, pair[0]), 6, 10**13))
            if method == "minibatch" and name == "tabular":
                # The mean reward is most of the price among few, and told apart by the last one's:
                # the steps' noise is attacked above.
                few: list[Any] = [rows["others"]] * 10
                ends = [{**rows["up"][0], "reward": 1.0}, {**rows["down"][0], "reward": -1.0}]
                pair = ([*few, ends[:1]], [*few, ends[1:]])
                part_known = {**part, "trajectories": 11, "continuing": True}
                cases.append(
                    (f"{method}, continuing, replaced", part_known, asked, pair, 1, 10**13)
                )
    return cases


def _neighbours(
    kind: type[Problem],
    name: str,
    part: dict[str, Any],
    fields: dict[str, Any],
    data: tuple[Any, Any],
    epsilon: int,
    delta: int,
) -> Neighbours:
    public = OffPolicyPublic.model_validate(
        {"unit": "trajectory", "reward_bound": 1, "horizon": 3, **part}
    )
    contents = []
    for trajectories in data:
        rows = [
            {"trajectory": number, "step": step, **row}
            for number, trajectory in enumerate(trajectories)
            for step, row in enumerate(trajectory)
        ]
        contents.append(
            OffPolicyDataset.read_rows(
                public, OffPolicyContent.model_validate({"transitions": rows})
            )
        )
    public = OffPolicyDataset.describe(public, contents[0])
    fixed = {"kind": "off_policy_evaluation", "dataset": "example", "discount": 0.5}
    problem = kind.model_validate({**fixed, "features": {"type": "tabular"}, **fields})
    # Where noise is Gaussian an attack comes near the price of a larger epsilon only.
    plan = problem.plan(public, Budget(epsilon=epsilon * 10**9, delta=delta))
    left, right = contents
    return Neighbours(f"off_policy_evaluation, {name}", problem, public, plan, left, right)


def otherwise(problem: OffPolicyRequest, public: OffPolicyPublic) -> dict[str, dict[str, Any]]:
    """Another value of each field of the request."""
    n = public.states or public.features or 1
    identity = {"type": "identity", "bound": getattr(problem.features, "bound", 1) / 2}
    cap = problem.max_importance if isinstance(problem.max_importance, float) else 4
    named = "minibatch" if problem.method in ("auto", "moments") else "moments"
    low, high = problem.return_bounds or public.returns(problem.discount)
    estimand = "sum" if problem.estimand == "mean_per_visit" else "mean_per_visit"
    # Of a single visit a discount means nothing, nor do bounds of returns that are all at one end:
    # another clip comes beside them.
    clipped = {"max_importance": cap / 2} if public.horizon == 1 else {}
    return {
        "features": {"features": identity},
        "discount": {"discount": problem.discount / 2, **clipped},
        "method": {
            "method": named,
            "clip": None,
            "steps": None,
            "step_size": None,
            "sampling": None,
        },
        "clip": {"clip": (problem.clip if isinstance(problem.clip, float) else 1) / 2},
        "steps": {"steps": 1 + (problem.steps or 0)},
        "step_size": {"step_size": (problem.step_size or 1) / 2},
        "sampling": {"sampling": (problem.sampling or 1) / 2},
        "max_importance": {"max_importance": cap / 2},
        "regularization": {"regularization": 3 * (problem.regularization or 1)},
        "return_bounds": {"return_bounds": [low, (low + high) / 2], **clipped},
        "estimand": {"estimand": estimand},
        "rule_visits": {"rule_visits": None if problem.rule_visits else 1},
        "uncertainty": {"uncertainty": not problem.uncertainty},
        "initial": {"initial": [0.0] * (n - 1) + [1.0] if public.states else [[0.5] * n]},
    }


# Synthesis ----------------------------------------------------------------------------------------
# Made-up trajectories of a public shape: states that wander, rewards of the state, an even
# behaviour policy.

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
