"""Cases of `coverage`: off-policy evaluation by each method whose results have intervals, on
synthetic data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.coverage import Case, Silent
from discreet.problems.contents import Content
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation.dataset import OffPolicyDataset, transitions_of
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.reproduce import simulators
from discreet.solvers.evaluation import monte_carlo_regression as regression

KIND = "off_policy_evaluation"
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0)
TRUTHS = 4
STACKED_EPSILONS, STACKED_TRUTHS, STACKED_PEOPLE = (0.1, 0.5, 1.0, 2.0, 8.0), 2, 3_000
POINTS = (
    "trajectory",
    "step",
    "x_0",
    "x_1",
    "x_2",
    "x_next_0",
    "x_next_1",
    "x_next_2",
    "reward",
    "terminal",
)
STATES, PEOPLE, HORIZON, DISCOUNT = 12, 3000, 20, 0.9


def cases() -> Iterator[Case]:
    for seed in range(TRUTHS):
        for rewards in ("each step", "ends"):
            table, topology, start = patients(seed, rewards)
            name = f"{STATES} states, {PEOPLE:,} trajectories, rewards at {rewards}, seed {seed}"
            for known, extra in (
                ("topology public", {"topology": topology}),
                ("nothing public", {}),
            ):
                data = read(table, {"trajectories": PEOPLE, **extra})
                for epsilon in EPSILONS:
                    yield tabular(f"{name}, {known}", data, start.tolist(), epsilon)
    table, topology, start = patients(1, "ends")
    data = read(table, {"topology": topology})
    for epsilon in EPSILONS:
        yield tabular(
            "private number of trajectories, Gaussian noise", data, start.tolist(), epsilon, 1e-2
        )
        yield tabular("rewards public", chain(), [1.0] + [0.0] * 39, epsilon)
    data = read(table, {"trajectories": PEOPLE})
    for epsilon in EPSILONS:
        for method in ("dp_lsl", "dp_lsw"):
            yield regressed(method, data, start.tolist(), epsilon)
    for seed in range(STACKED_TRUTHS):
        for epsilon in STACKED_EPSILONS:
            yield stacked(seed, epsilon)


def patients(seed: int, rewards: str) -> tuple[dict[str, Any], list[list[int]], np.ndarray]:
    """Columns of trajectories, their topology and where they begin: each state leads to three
    others or to an end."""
    rng = np.random.default_rng(seed)
    P = np.zeros((STATES, STATES + 1))
    for s in range(STATES):
        P[s, rng.choice(STATES, 3, replace=False)] = rng.gamma(1.0, size=3)
        P[s, STATES] = P[s].sum() * (0.03 + 0.3 * rng.random())
    P /= P.sum(axis=1, keepdims=True)
    start, mean = rng.dirichlet(np.full(STATES, 0.5)), rng.uniform(-1, 1, STATES)
    steps: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    people, state = np.arange(PEOPLE), rng.choice(STATES, PEOPLE, p=start)
    for step in range(HORIZON):
        following = (
            (rng.random(people.size)[:, None] > P.cumsum(axis=1)[state])
            .sum(axis=1)
            .clip(max=STATES)
        )
        ends = following == STATES
        lucky = np.where(rng.random(people.size) < 0.5 + mean[state] / 2, 1.0, -1.0)
        reward = np.where(ends, lucky, 0.0) if rewards == "ends" else lucky
        row = (
            people,
            np.full(people.size, step),
            state,
            np.minimum(following, STATES - 1),
            reward,
            ends,
        )
        for name, values in zip(COLUMNS, row, strict=True):
            steps[name].append(values)
        people, state = people[~ends], following[~ends]
    return (
        {name: np.concatenate(values) for name, values in steps.items()},
        np.argwhere(P > 0).tolist(),
        start,
    )


COLUMNS = ("trajectory", "step", "state", "next_state", "reward", "terminal")


def read(table: dict[str, Any], part: dict[str, Any]) -> tuple[OffPolicyPublic, Content]:
    fixed = {"unit": "trajectory", "states": STATES, "reward_bound": 1, "horizon": HORIZON}
    public = OffPolicyPublic.model_validate({**fixed, **part})
    content = OffPolicyDataset.read_table(public, pa.table(table))
    return OffPolicyDataset.describe(public, content), content


def chain() -> tuple[OffPolicyPublic, Content]:
    rows = simulators.chain(100_000, np.random.default_rng(11))
    part = {"states": 40, "horizon": 1000, "trajectories": 100_000}
    part |= {
        "topology": simulators.chain_topology().tolist(),
        "rewards": simulators.chain_cell_rewards().tolist(),
    }
    return read({name: getattr(rows, name) for name in COLUMNS}, part)


def stacked(seed: int, epsilon: float) -> Case:
    """Walks of points in a square, and moments of two coordinates and a constant: what is to be
    held is what the same sums say without noise, clipped and regularized alike."""
    rng = np.random.default_rng([9, seed])
    steps: dict[str, list[Any]] = {name: [] for name in POINTS}
    person, x = np.arange(STACKED_PEOPLE), rng.uniform(-0.5, 0.5, (STACKED_PEOPLE, 2))
    turn, worth = 0.8 * np.linalg.qr(rng.standard_normal((2, 2)))[0], rng.uniform(-0.7, 0.7, 3)
    for step in range(10):
        onward = np.clip(x @ turn + 0.2 * rng.standard_normal(x.shape), -0.5, 0.5)
        reward = np.clip(worth[:2] @ x.T + worth[2] + 0.3 * rng.standard_normal(len(x)), -1, 1)
        one, ends = np.full(len(x), 0.5), rng.random(len(x)) < 0.1
        row = (person, np.full(len(x), step), *x.T, one, *onward.T, one, reward, ends)
        for name, values in zip(POINTS, row, strict=True):
            steps[name].append(values)
        person, x = person[~ends], onward[~ends]
    public = OffPolicyPublic.model_validate(
        {
            "unit": "trajectory",
            "features": 3,
            "reward_bound": 1,
            "horizon": 10,
            "trajectories": STACKED_PEOPLE,
        }
    )
    content = OffPolicyDataset.read_table(
        public, pa.table({name: np.concatenate(each) for name, each in steps.items()})
    )
    public = OffPolicyDataset.describe(public, content)
    initial = [[0.1, 0.1, 0.5], [-0.2, 0.3, 0.5]]
    asked = problem(method="moments", features={"type": "identity", "bound": 1}, initial=initial)
    plan = asked.plan(public, Privacy.model_validate({"epsilon": epsilon, "delta": 1e-5}).budget)
    said = f"{STACKED_TRUTHS} walks in a square, 3 features, {STACKED_PEOPLE:,} trajectories"
    return Case(
        KIND, "moments, stacked", said, epsilon, asked, public, plan, content, None, seed, 17
    )


def problem(**values: Any) -> OffPolicyEvaluation:
    fixed = {
        "kind": KIND,
        "dataset": "benchmark",
        "features": {"type": "tabular"},
        "discount": DISCOUNT,
    }
    return OffPolicyEvaluation.model_validate({**fixed, **values})


def tabular(
    truth: str,
    data: tuple[OffPolicyPublic, Content],
    start: list[float],
    epsilon: float,
    delta: float = 0.0,
    discount: float = DISCOUNT,
) -> Case:
    """What is to be held: the values of the exact histograms, to which no prior is added."""
    public, content = data
    asked = problem(method="moments", initial=start, discount=discount)
    plan = asked.plan(public, Privacy.model_validate({"epsilon": epsilon, "delta": delta}).budget)
    sums = asked.release(public, plan, content, Silent())["sums"].astype(float)
    states, cells = public.states or 1, public.cells()
    onward = np.zeros((states, states + 1))
    onward[cells[:, 0], cells[:, 1]] = sums[: len(cells)]
    if public.rewards is None:
        gained = sums[len(cells) :]
    else:
        gained = np.bincount(cells[:, 0], sums * np.array(public.rewards), minlength=states)
    values = np.linalg.solve(
        np.diag(np.maximum(onward.sum(axis=1), 1.0)) - discount * onward[:, :states], gained
    )
    exact = {"values": values, "weights": values, "policy_value": values @ start}
    return Case(KIND, "moments", truth, epsilon, asked, public, plan, content, exact)


def regressed(
    method: str, data: tuple[OffPolicyPublic, Content], start: list[float], epsilon: float
) -> Case:
    public, content = data
    asked = problem(method=method, initial=start)
    plan = asked.plan(public, Privacy.model_validate({"epsilon": epsilon, "delta": 1e-5}).budget)
    shared: dict[str, Any] = {"smoothing": 0.01, "reward_bound": 1.0, "horizon": HORIZON}
    if method == "dp_lsl":
        shared["penalty"] = float(PEOPLE)
    found = getattr(regression, method)(
        transitions_of(content, 1.0), np.eye(STATES), DISCOUNT, **shared
    ).theta
    exact = {"values": found, "weights": found, "policy_value": found @ start}
    said = f"{STATES} states, {PEOPLE:,} trajectories"
    return Case(KIND, method, said, epsilon, asked, public, plan, content, exact, repeats=34)
