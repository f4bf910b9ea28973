"""Three answers about one treatment, which say how good they are: prints a body of POST /v1/jobs.

3,000 SYNTHETIC patients, from a fixed seed, climb or fall on a ladder of twelve states; the top is
worth 1 and the bottom -1. The answer without noise is known for comparison. At epsilon .02 the plan
warns that the answer will be noise, and the answer begins by saying so; at .1 and 2 it has an
interval.

    python examples/patients.py 2 > job.json
    discreet plan job.json                     # what to expect, from public figures
    discreet solve job.json --out result.json  # `uncertainty`: intervals, and states that are
                                               # mostly noise
    python examples/patients.py --table [PNG]  # the three of them, beside the truth, and a picture
                                               # of the second
    python examples/patients.py 0.1 --picture values.png
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

PATIENTS, STATES, HORIZON, DISCOUNT = 3000, 12, 20, 0.98
EPSILONS = (0.02, 0.1, 2.0)
SEED, START = 2019, 6
OTHERS = 12


@cache
def transitions() -> list[dict[str, Any]]:
    """Random walks whose steps go up with probability .58, down with .32, or stay."""
    # Of numpy's generators only RandomState gives the same numbers in every version (NEP 19).
    random = np.random.RandomState(SEED)
    rows = []
    for patient in range(PATIENTS):
        state = START + random.randint(-2, 3)
        for step in range(HORIZON):
            onward = state + random.choice([1, -1, 0], p=[0.58, 0.32, 0.1])
            ends = not 0 <= onward < STATES
            reward = 0.0 if not ends else 1.0 if onward > 0 else -1.0
            row = {
                "trajectory": patient,
                "step": step,
                "state": int(state),
                "next_state": 0 if ends else int(onward),
            }
            rows.append({**row, "reward": reward, "terminal": bool(ends)})
            if ends:
                break
            state = onward
    return rows


def job(epsilon: float) -> dict[str, Any]:
    """The body, for one trajectory of 3,000."""
    initial = [0.0] * STATES
    initial[START] = 1.0
    topology = [
        [s, to if 0 <= to < STATES else STATES] for s in range(STATES) for to in (s - 1, s, s + 1)
    ]
    rewards = [0.0 if to < STATES else 1.0 if s else -1.0 for s, to in topology]
    return {
        "problem": {
            "kind": "off_policy_evaluation",
            "dataset": {
                "name": "synthetic patients on a ladder",
                "kind": "off_policy_evaluation",
                "mode": "simulation",
                "public": {
                    "unit": "trajectory",
                    "states": STATES,
                    "trajectories": PATIENTS,
                    "reward_bound": 1,
                    "horizon": HORIZON,
                    "topology": topology,
                    "rewards": rewards,
                },
                "content": {"transitions": transitions()},
                "cap": {"epsilon": 10, "delta": 1e-5},
            },
            "features": {"type": "tabular"},
            "discount": DISCOUNT,
            "initial": initial,
        },
        "privacy": {"epsilon": epsilon},
        "seed": 7,
    }


def solved(epsilon: float) -> dict[str, Any]:
    """The result of the job, without a server, with the plan's advice and the value that the data
    alone would give."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415 - whoever prints the body needs no service
    from discreet.problems.numbers import Privacy  # noqa: PLC0415
    from discreet.problems.off_policy_evaluation.dataset import OffPolicyDataset, transitions_of  # noqa: PLC0415
    from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation  # noqa: PLC0415
    from discreet.solvers.evaluation.least_squares_temporal_difference import lstd  # noqa: PLC0415
    from discreet.solvers.evaluation.value_features import Tabular  # noqa: PLC0415

    body = job(epsilon)
    dataset = OffPolicyDataset.model_validate(body["problem"]["dataset"]).described()
    problem = OffPolicyEvaluation.model_validate({**body["problem"], "dataset": "synthetic"})
    plan = problem.plan(dataset.public, Privacy.model_validate(body["privacy"]).budget)
    content = dataset.rows()
    released = problem.release(dataset.public, plan, content, Noise.seeded(body["seed"]))
    result = problem.finish(dataset.public, plan, released, lambda step, total: None).to_json()
    values = lstd(transitions_of(content, 1.0), Tabular(STATES), DISCOUNT)
    return {**result, "advice": list(plan.advice), "unnoised": float(values[START])}


def others(epsilon: float) -> tuple[list[float], list[float]]:
    """Policy values of `OTHERS` more releases: from the noised sums solved directly, as earlier
    versions did, and from today's answers."""
    from discreet.privacy.noise import Noise  # noqa: PLC0415
    from discreet.problems.numbers import Privacy  # noqa: PLC0415
    from discreet.problems.off_policy_evaluation.dataset import OffPolicyDataset  # noqa: PLC0415
    from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation  # noqa: PLC0415

    body = job(epsilon)
    dataset = OffPolicyDataset.model_validate(body["problem"]["dataset"]).described()
    problem = OffPolicyEvaluation.model_validate(
        {**body["problem"], "dataset": "synthetic", "uncertainty": False}
    )
    plan, content = (
        problem.plan(dataset.public, Privacy.model_validate(body["privacy"]).budget),
        dataset.rows(),
    )
    origin, to = dataset.public.cells().T
    plain, answers = [], []
    for seed in range(OTHERS):
        released = problem.release(dataset.public, plan, content, Noise.seeded(seed))
        moves = np.zeros((STATES, STATES + 1))
        moves[origin, to] = released["sums"]
        gained = np.bincount(
            origin, released["sums"] * np.array(dataset.public.rewards), minlength=STATES
        )
        solved_as_is = np.linalg.solve(
            np.diag(moves.sum(axis=1)) - DISCOUNT * moves[:, :STATES], gained
        )
        plain.append(float(solved_as_is[START]))
        answers.append(
            problem.finish(dataset.public, plan, released, lambda step, total: None).to_json()[
                "policy_value"
            ]
        )
    return plain, answers


def table(picture: Path | None = None) -> None:
    """Print the plans' advice, the answers and the values without noise; the picture is of the
    second of `EPSILONS`."""
    for epsilon in EPSILONS:
        found = solved(epsilon)
        ends = found["uncertainty"]["values"].get("policy_value", {"lower": None})
        noise = found["uncertainty"]["mostly_noise"]
        told = "mostly noise" if noise else f"90 %: {ends['lower']:.2f} to {ends['upper']:.2f}"
        print(
            f"epsilon {epsilon:g}: {found['policy_value']:.2f}, {told}; without noise "
            f"{found['unnoised']:.2f}"
        )
        print(f"  the plan said: {found['advice'][0]}")
        plain, answers = others(epsilon)
        print(
            f"  {OTHERS} other releases: {min(answers):.2f} to {max(answers):.2f}; "
            f"their sums solved as they are: {min(plain):.2f} to {max(plain):.2f}"
        )
    if picture is not None:
        draw(EPSILONS[1], picture)


def draw(epsilon: float, picture: Path) -> None:
    """The values of the states with their intervals."""
    from discreet.problems.off_policy_evaluation import charts  # noqa: PLC0415

    charts.draw(job(epsilon)["problem"], solved(epsilon), picture)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--table"]:
        table(*map(Path, arguments[1:2]))
        return
    epsilon = float(arguments[0]) if arguments else 2.0
    if arguments[1:2] == ["--picture"]:
        draw(epsilon, Path(arguments[2]))
        return
    print(json.dumps(job(epsilon)))


if __name__ == "__main__":
    main(sys.argv[1:])
