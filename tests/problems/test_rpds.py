"""`method: rpds` of coupled programs: where it ends, what it opens, and which requests take it."""

from __future__ import annotations

import base64
from typing import Any
from unittest import mock

import numpy as np
import pytest
from pydantic import ValidationError

from discreet.problems.coupled_qp.charts import charts_of
from discreet.problems.coupled_qp.exposure import AGAIN
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.solvers.saddle.spds import solve
from discreet_client import secure_sum
from discreet_client.agent.coupled_qp import _Run
from discreet_client.convex_sets import Box
from discreet_client.costs import QuadraticCost
from discreet_client.federation.errors import AgentError
from discreet_client.updates import Steps
from tests.problems.test_coupled_qp import Federation, federated, planned, run, spec
from tests.solvers.test_spds import MULTIPLIERS, OPTIMUM, paper

REGULARIZATION = 1e-3


def rpds(**steps: Any) -> dict[str, Any]:
    given = {"primal": [0.1, 0.016, 0.1], "dual": 0.8, "iterations": 400}
    return spec(method="rpds", steps={**given, "regularization": REGULARIZATION, **steps})


def test_it_ends_where_constraints_are_exceeded_by_their_prices() -> None:
    """The fixed point of the regularized iteration: `Σ A_g x + d = ε λ` where λ > 0, and in x the
    conditions of optimality with `ε x` (Koshal, Nedić, Shanbhag 2011)."""
    result = run(rpds())
    x, prices = np.concatenate(result["x"]), np.array(result["multipliers"])
    assert prices == pytest.approx(MULTIPLIERS, abs=5e-3)
    assert result["violation"] == pytest.approx(REGULARIZATION * prices.max(), rel=1e-5)
    parts, c, d = paper()
    A_u, A_g = (np.hstack([getattr(part, name) for part in parts]) for name in ("A_u", "A_g"))
    own = np.concatenate(
        [part.cost.gradient(one) for part, one in zip(parts, result["x"], strict=True)]
    )
    slope = A_u.T @ (A_u @ x + c) + own + A_g.T @ prices + REGULARIZATION * x
    assert np.clip(x - slope, 0, 1) == pytest.approx(x, abs=1e-6)
    assert x == pytest.approx(np.concatenate(OPTIMUM), abs=5e-3)
    assert charts_of(rpds(), {}, result)
    # The encrypted run is the plaintext iteration.
    steps = [Steps(alpha, 0.8, 1.0, REGULARIZATION) for alpha in (0.1, 0.016, 0.1)]
    plain = solve(parts, c, d, steps=steps, iterations=400)
    assert x == pytest.approx(np.concatenate(plain.x), abs=1e-7)


def test_steps_that_are_not_given_follow_from_the_regularized_problem() -> None:
    body = rpds()
    body["steps"] = {"regularization": 0.01, "iterations": 4000}
    flat = [{**agent, "A_q": []} for agent in body["agents"]]
    # Which spds refuses without steps. A constraint with a price is still below its limit by .03 of
    # 1.1 that agents use; by its longest move and largest sum that had converged.
    result = run({**body, "agents": flat, "encryption": {"scheme": "masking"}})
    assert result["status"] == "iteration_limit"


def test_what_it_opens_is_said() -> None:
    body = federated(3, method="rpds")
    body["steps"]["regularization"] = REGULARIZATION
    problem = CoupledQp.model_validate(body)
    plan = problem.plan_federation((), problem.budget(None))
    plain = CoupledQp.model_validate(federated(3))
    other = plain.plan_federation((), plain.budget(None))
    assert plan.exposure == other.exposure
    assert plan.exposure is not None
    assert AGAIN in plan.exposure.sentence
    (said,) = set(plan.model) - set(other.model)
    assert "regularization 0.001" in said
    assert "exceeded by that times its price" in said
    assert plan.parameters["method"] == "rpds"
    assert plan.parameters["sums"] == other.parameters["sums"]


def test_noise_is_that_of_the_sums_whatever_the_steps() -> None:
    noise = {"epsilon": 30, "delta": 1e-6, "clip": 1.2}
    steps = {"primal": 0.1, "dual": 0.1, "iterations": 3}
    first, second = (
        Federation(40, noise=noise, **more).plan
        for more in (
            {"steps": steps},
            {"steps": {**steps, "regularization": 0.1}, "method": "rpds"},
        )
    )
    assert first.events == second.events
    assert len(first.events) == 1


@pytest.mark.parametrize(
    ("steps", "field", "says"),
    [
        (None, "steps", "method rpds, and sums with noise, need them"),
        ({"iterations": 9}, "steps/regularization", "needs a value above 0"),
        (
            {"iterations": 9, "regularization": 0.1, "shrink": 0.9},
            "steps/shrink",
            "does not shrink",
        ),
    ],
)
def test_what_does_not_fit_it_is_refused_by_place(
    steps: dict[str, Any] | None, field: str, says: str
) -> None:
    with pytest.raises(ValidationError, match=says) as refused:
        CoupledQp.model_validate(spec(method="rpds", steps=steps))
    assert refused.value.errors()[0]["ctx"]["error"].field == tuple(field.split("/"))


def test_an_agent_refuses_a_method_that_it_does_not_know() -> None:
    data = np.eye(1), np.eye(1), QuadraticCost(np.eye(1), np.ones(1)), Box(0.0, 1.0)
    sums = secure_sum.Parameters(2, 3, 10.0, "masking")
    steps = {"primal": 0.1, "dual": 0.1, "shrink": 1.0, "regularization": 0.1, "iterations": 3}
    signed = {"coupled": 1, "constraints": 1, "steps": steps}
    party = _Run(mock.Mock(), data, None)
    agents = [{"key": base64.b64encode(bytes(32)).decode()}] * 3

    def roster(method: str) -> dict[str, Any]:
        return {"agents": agents, "parameters": {**signed, "method": method}}

    assert party._optimizer(roster("rpds"), sums) is not None
    with pytest.raises(AgentError, match="method admm, which this version lacks"):
        party._optimizer(roster("admm"), sums)


def test_a_simulation_plans_it() -> None:
    _, plan = planned(rpds())
    assert plan.parameters["steps"]["regularization"] == REGULARIZATION
    assert plan.iterations == {"rounds": 402}
