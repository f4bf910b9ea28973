"""Opened sums and bytes until vehicles are within 1e-4 of their optimum: `make bench
ARGS=coupled_qp`, a minute.

The vehicles of `examples/ev_charging.py` (`energy`), whose costs make SPDS with the service's
default steps slow, and `EV`, the same with a need of each hour instead of one over the night.
Rounds: sums until objective and limit are within 1e-4 of what CVXPY and Clarabel find, the first
sum of `auto`, of slopes, included. Bytes: of one agent, sent and received, with `scheme: masking`
as the machines of `secure_sum` send them; frames of one session are equally long, so two short
sessions say what a long one takes.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from discreet.problems.coupled_qp import problem as bounds
from discreet.problems.coupled_qp.data import OperatorData
from discreet.problems.coupled_qp.methods import Auto
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.solvers.saddle.spds import Part, step_sizes
from discreet_agent import secure_sum
from discreet_agent.costs import QuadraticCost
from discreet_agent.packing import box_bound
from discreet_agent.priced_rounds import PricedRounds
from discreet_agent.updates import Participant

Floats = NDArray[np.float64]
EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "ev_charging.py"))
SIZES = (3, 5, 10, 50)
NEAR = 1e-4
MOST = 20_000


def run() -> list[dict[str, Any]]:
    """Rounds and bytes of both methods on both families."""
    rows = []
    for family, changed in (("EV", True), ("energy", False)):
        for count in SIZES:
            parts, c, d = _vehicles(count, changed)
            best = _optimum(parts, c, d)
            rounds = {"auto": _auto(parts, c, d, best), "spds": _spds(parts, c, d, best)}
            sizes = {
                name: _bytes(count, c.size + d.size + (name == "auto"), taken)
                for name, taken in rounds.items()
            }
            for what, unit, found in (
                ("rounds", "rounds", rounds),
                ("bytes of an agent", "kB", sizes),
            ):
                rows.append(
                    {
                        "benchmark": f"coupled_qp auto, {family}, {count} agents: {what} to 1e-4",
                        "ours": found["auto"],
                        "unit": unit,
                        "peer": "spds, default steps",
                        "peer_value": found["spds"],
                        "ratio": found["auto"] / found["spds"],
                    }
                )
    return rows


def _vehicles(count: int, changed: bool) -> tuple[list[Part], Floats, Floats]:
    problem = CoupledQp.model_validate(EXAMPLE["job"](count)["problem"])
    parts = problem.plain_parts()
    c, d = np.array(problem.operator.c), np.array(problem.operator.d)
    if changed:
        random = np.random.RandomState(EXAMPLE["SEED"])
        parts = [
            Part(part.A_u, part.A_g, _hourly(random, part.cost.size), part.domain) for part in parts
        ]
    return parts, c, d


def _hourly(random: np.random.RandomState, hours: int) -> QuadraticCost:
    curvature, need = random.uniform(0.5, 1.5, hours), random.uniform(0, 4, hours)
    return QuadraticCost(np.diag(np.sqrt(curvature)), -2 * curvature * need)


def _optimum(parts: Sequence[Part], c: Floats, d: Floats) -> float:
    x = [cp.Variable(part.A_u.shape[1]) for part in parts]
    cost = cp.sum_squares(sum(part.A_u @ v for part, v in zip(parts, x, strict=True)) + c) / 2
    constraints = [sum(part.A_g @ v for part, v in zip(parts, x, strict=True)) + d <= 0]
    for part, v in zip(parts, x, strict=True):
        assert isinstance(part.cost, QuadraticCost)
        cost += cp.sum_squares(part.cost.A_q @ v) + part.cost.a_l @ v
        constraints += [v >= part.domain.lower, v <= part.domain.upper]  # type: ignore[attr-defined]
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def _near(
    parts: Sequence[Part], c: Floats, d: Floats, best: float
) -> Callable[[Sequence[Floats]], bool]:
    def near(x: Sequence[Floats]) -> bool:
        u = sum((part.A_u @ one for part, one in zip(parts, x, strict=True)), c)
        over = float(np.max(sum((part.A_g @ one for part, one in zip(parts, x, strict=True)), d)))
        cost = float(u @ u) / 2 + sum(
            part.cost.value(one) for part, one in zip(parts, x, strict=True)
        )
        return abs(cost - best) <= NEAR * abs(best) and over <= NEAR * float(np.max(np.abs(d)))

    return near


def _auto(parts: Sequence[Part], c: Floats, d: Floats, best: float) -> int:
    """The median of five runs, whose hazes are drawn anew."""
    near, found = _near(parts, c, d, best), []
    method, bound = Auto(80), 2.0**24
    A = [np.vstack([part.A_u, part.A_g]) for part in parts]
    reach = [box_bound(one, *part.domain.sides) for one, part in zip(A, parts, strict=True)]
    operator = OperatorData(c=tuple(c), d=tuple(d))
    units = bounds.units_of(operator, np.max(reach, axis=0).tolist(), bound)
    sums_of = secure_sum.Parameters(c.size + d.size + 1, method.iterations, bound)
    parameters = {
        "coupled": c.size,
        "constraints": d.size,
        "rows": units.signed,
        "sums": sums_of.fields,
    }
    own = method.own(np.concatenate([c, d]), parameters)
    for _ in range(5):
        sums: Floats | None = None
        agents = method.updates(parts, parameters)
        while (told := [agent(sums) for agent in agents])[0] is not None:
            total = np.sum([one for one in told if one is not None], axis=0)
            assert isinstance(agents[0], PricedRounds)
            sums = total if agents[0].alone else total + own
            if agents[0].done and near([agent.x for agent in agents]):
                break
        found.append(agents[0].done + 1)
    return int(np.median(found))


def _spds(parts: Sequence[Part], c: Floats, d: Floats, best: float) -> int:
    near, steps = _near(parts, c, d, best), step_sizes(parts)
    agents = [Participant(part.A_u, part.A_g, part.cost, part.domain, steps) for part in parts]
    for done in range(1, MOST):
        sums = np.concatenate([c, d]) + sum(agent.contribution() for agent in agents)
        if near([agent.x for agent in agents]):
            return done
        for agent in agents:
            agent.update(sums)
    raise AssertionError(f"not within {NEAR} after {MOST} rounds")


class _Zeros:
    """So many sums of zeros."""

    def __init__(self, dimension: int, rounds: int) -> None:
        self.dimension, self.left = dimension, rounds + 1

    def __call__(self, sums: Floats | None) -> Floats | None:
        self.left -= 1
        return np.zeros(self.dimension) if self.left else None


def _bytes(count: int, dimension: int, rounds: int) -> float:
    """kB that the busiest agent sends and receives in a session of so many sums."""
    sizes = []
    for few in (1, 2):
        parameters = secure_sum.Parameters(dimension, few, 1.0, "masking")
        done = secure_sum.run_in_process(
            [_Zeros(dimension, few) for _ in range(count)], np.zeros(dimension), parameters
        )
        sizes.append(
            max(sent + received for sent, received in zip(done.sent, done.received, strict=True))
        )
    return (sizes[0] + (rounds - 1) * (sizes[1] - sizes[0])) / 1000
