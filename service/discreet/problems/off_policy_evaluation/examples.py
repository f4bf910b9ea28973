"""The example of the kind, which is small and really runs, and what else its code is rehearsed and attacked with."""

from __future__ import annotations

from typing import Any

from discreet.problems.base import Neighbours, Problem
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.dataset import OffPolicyContent, OffPolicyDataset, OffPolicyPublic


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


def worst_cases(kind: type[Problem]) -> tuple[Neighbours, ...]:
    """For each method one trajectory more, or another, far from what the others do."""
    good, bad = (
        [{"state": state, "next_state": state, "terminal": False, "reward": sign} for _ in range(3)]
        for state, sign in ((0, 1.0), (1, -1.0))
    )
    move = {"x": [1.0], "x_next": [-1.0], "terminal": False, "behaviour": 0.1, "target": 0.9, "reward": 1.0}
    added, replaced = ([good, good], [good, good, bad]), ([good] * 3, [good, good, bad])
    known, delta = {"states": 2, "trajectories": 3}, 10**13
    loops = {"topology": [[0, 0], [1, 1]]}
    identity = {"features": {"type": "identity", "bound": 1}, "clip": 1, "method": "moments"}
    steps = {"clip": 1, "steps": 20, "step_size": 0.1}
    batches = {"method": "minibatch", "sampling": 0.5, **steps}
    moved = ([[move]] * 2, [[move]] * 3)
    stay = {"state": 0, "next_state": 0, "terminal": False}
    alone = ([[{**stay, "reward": 1.0}] * 3], [[{**stay, "reward": -1.0}] * 3])
    cases: list[tuple[str, dict[str, Any], dict[str, Any], tuple[Any, Any], int, bool]] = [
        ("moments, tabular, added", {"states": 2, **loops}, {}, added, 0, True),
        ("moments, tabular, replaced", {**known, **loops}, {}, replaced, 0, True),
        ("moments, columns, added", {"features": 1}, identity, moved, delta, True),
        ("minibatch, columns, added", {"features": 1}, identity | batches, moved, delta, False),
        ("minibatch, tabular, replaced", known, batches, replaced, delta, False),
        ("gradient, replaced", known, {"method": "gradient", **steps}, replaced, delta, False),
        ("dp_lsw, replaced", {"states": 1, "trajectories": 1}, {"method": "dp_lsw"}, alone, delta, True),
        ("dp_lsl, replaced", known, {"method": "dp_lsl", "regularization": 10}, replaced, delta, False),
    ]
    return tuple(_neighbours(kind, *case) for case in cases)


def _neighbours(
    kind: type[Problem],
    name: str,
    part: dict[str, Any],
    fields: dict[str, Any],
    data: tuple[Any, Any],
    delta: int,
    near: bool,
) -> Neighbours:
    public = OffPolicyPublic.model_validate({"unit": "trajectory", "reward_bound": 1, "horizon": 3, **part})
    contents = []
    for trajectories in data:
        rows = [
            {"trajectory": number, "step": step, **row}
            for number, trajectory in enumerate(trajectories)
            for step, row in enumerate(trajectory)
        ]
        contents.append(OffPolicyDataset.read_rows(public, OffPolicyContent.model_validate({"transitions": rows})))
    public = OffPolicyDataset.describe(public, contents[0])
    fixed = {"kind": "off_policy_evaluation", "dataset": "example", "discount": 0.5}
    problem = kind.model_validate({**fixed, "features": {"type": "tabular"}, **fields})
    # Where noise is Gaussian an attack comes near the price of a larger epsilon only.
    plan = problem.plan(public, Budget(epsilon=(3 if delta else 1) * 10**9, delta=delta))
    left, right = contents
    return Neighbours(f"off_policy_evaluation, {name}", problem, public, plan, left, right, near)
