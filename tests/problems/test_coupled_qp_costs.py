"""Coupled programs whose agents have convex costs and polytopes: jobs against CVXPY by both
methods, what is refused and where, and noise that covers whatever an agent's cost is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.privacy.attacks.audit import epsilon_lower_bound
from discreet.problems.coupled_qp import checks
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet_client import secure_sum
from discreet_client.agent import on_shares
from discreet_client.agent.coupled_qp import run as run_agent
from discreet_client.agent.coupled_qp import solve as take_part
from discreet_client.convex_sets import Box
from discreet_client.cost_terms import LogBarrier, Power
from discreet_client.costs import ConvexCost, QuadraticCost, cost_of
from discreet_client.federation.errors import AgentError
from discreet_client.updates import Participant, Steps
from tests.conftest import first_of
from tests.problems.test_coupled_qp import Federation, crowd, planned, run, spec
from tests.solvers.test_spds import by_cvxpy

Floats = NDArray[np.float64]
EPSILON, DELTA = 3.0, 1e-6

TERMS: list[list[dict[str, Any]]] = [
    [{"kind": "power", "power": 3, "b": 0.5}, {"kind": "quadratic", "P": [[2, 1], [1, 2]]}],
    [{"kind": "entropy", "b": -0.1, "weight": 0.5}, {"kind": "log_barrier", "b": 1.2}],
    [
        {"kind": "piecewise_linear", "A": [[1, 0], [0, 1], [-1, -1]], "b": [0.1, 0.2, -1]},
        {"kind": "power", "power": 1.5, "A": [[1, 1]], "b": 0.4, "weight": 2},
    ],
]
POLYTOPES = [None, {"A": [[1, 1], [-1, 2]], "b": [0.5, 0.2]}, {"A": [[-1, -1]], "b": [-0.2]}]


def convex(**changes: Any) -> dict[str, Any]:
    """The paper's example whose agents have terms and polytopes, by the default method."""
    body = spec(**changes)
    if "steps" not in changes:
        del body["steps"]
    for agent, terms, polytope in zip(body["agents"], TERMS, POLYTOPES, strict=True):
        agent |= {"terms": terms, "polytope": polytope}
    return body


@pytest.mark.parametrize("steps", first_of([None, {"iterations": 500}]), ids=["auto", "spds"])
def test_the_joint_optimum_of_convex_costs(steps: dict[str, Any] | None) -> None:
    """By prices, and by steps that follow from the bounds of curvature over the boxes."""
    body = convex() if steps is None else convex(steps=steps)
    problem, _ = planned(body)
    result = run(body)
    operator = (np.array(body["operator"][name]) for name in ("c", "d"))
    best, objective = by_cvxpy(problem.plain_parts(), *operator)
    assert result["status"] == "converged"
    assert result["objective"] == pytest.approx(objective, rel=1e-4)
    assert np.concatenate(result["x"]) == pytest.approx(best, abs=0.01)
    assert result["violation"] < 1e-3
    for one, polytope in zip(result["x"], POLYTOPES, strict=True):
        if polytope is not None:
            assert np.all(np.array(polytope["A"]) @ one <= np.array(polytope["b"]) + 1e-9)
    plain = run(spec())
    assert np.abs(np.concatenate(result["x"]) - np.concatenate(plain["x"])).max() > 0.05


@pytest.mark.parametrize("seed", first_of(range(6)))
def test_random_programs_against_cvxpy(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, rows, size = 5, 3, 3
    kinds: list[dict[str, Any]] = [
        {"kind": "power", "power": 1.5},
        {"kind": "power", "power": 4},
        {"kind": "entropy", "b": -0.5},
        {"kind": "log_barrier", "b": 1.3},
        {"kind": "piecewise_linear"},
    ]
    agents, used = [], np.zeros(rows)
    for kind in random.permutation(kinds):  # type: ignore[arg-type]
        A_g, x = random.normal(size=(rows, size)), random.uniform(0, 1, size)
        A = random.normal(size=(2, size))
        used += A_g @ x
        agents.append(
            {
                "A_u": random.normal(size=(rows, size)).tolist(),
                "A_g": A_g.tolist(),
                "A_q": (0.7 * np.eye(size)).tolist(),
                "a_l": random.normal(size=size).tolist(),
                "terms": [{**kind, "weight": float(random.uniform(0.2, 2))}],
                "upper": 1.0,
                "polytope": {"A": A.tolist(), "b": (A @ x + random.uniform(0, 0.2, 2)).tolist()},
            }
        )
    assert len(agents) == count
    body = {
        "kind": "coupled_qp",
        "mode": "simulation",
        "operator": {
            "c": random.normal(size=rows).tolist(),
            "d": (-used - random.uniform(0, 0.2, rows)).tolist(),
        },
        "agents": agents,
        "encryption": {"scheme": "masking"},
    }
    problem, _ = planned(body)
    result = run(body)
    operator = (np.array(body["operator"][name]) for name in ("c", "d"))  # type: ignore[index]
    _, objective = by_cvxpy(problem.plain_parts(), *operator)
    assert result["objective"] == pytest.approx(objective, rel=1e-4, abs=1e-4)
    assert result["violation"] < 1e-4
    assert result["status"] == "converged"
    assert result["rounds"] <= 60


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        ({"terms": [{"kind": "entropy"}]}, "terms/0", "the slope of u log u has no bound at 0"),
        (
            {"terms": [{"kind": "power"}, {"kind": "log_barrier", "b": 1}]},
            "terms/1",
            "the box reaches the barrier",
        ),
        (
            {"terms": [{"kind": "quadratic", "P": [[1, 2], [2, 1]]}]},
            "terms/0",
            "the cost is not convex",
        ),
        ({"terms": [{"kind": "power", "A": [[1]]}]}, "terms/0/A/0", "1 columns, but a_l"),
        ({"terms": [{"kind": "power", "A": [[1, 2], [1]]}]}, "terms/0/A/1", "1 columns, but"),
        ({"terms": [{"kind": "quadratic", "P": [[1, 2]]}]}, "terms/0", "P must be 2 by 2"),
        ({"terms": [{"kind": "power", "A": []}]}, "terms/0", "A needs 2 columns"),
        ({"polytope": {"A": [[1, 1]], "b": [-1]}}, "polytope", "no point in the box"),
        ({"polytope": {"A": [[1, 1]], "b": [1, 2]}}, "polytope", "one limit a row"),
        ({"polytope": {"A": [[1]], "b": [1]}}, "polytope/A/0", "1 columns, but a_l"),
        (
            {"terms": [{"kind": "power", "A": [[1, 1]] * 600}]},
            "terms",
            "at most 512",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_place(
    change: dict[str, Any], place: str, says: str
) -> None:
    body = spec()
    body["agents"][1] |= change
    with pytest.raises(InvalidInput) as refused:
        planned(body)
    assert refused.value.issues[0].pointer == f"/problem/agents/1/{place}"
    assert says in refused.value.issues[0].detail


def test_what_is_no_term_is_refused_by_the_schema() -> None:
    for term, says in (
        ({"kind": "hinge"}, "'hinge'"),
        ({"kind": "power", "power": 1}, "greater than 1"),
        ({"kind": "power", "power": "NaN"}, "number"),
        ({"kind": "entropy", "weight": 0}, "greater than 0"),
        ({"kind": "entropy", "power": 2}, "Extra inputs"),
    ):
        body = spec()
        body["agents"][0]["terms"] = [term]
        with pytest.raises(ValidationError, match=says):
            CoupledQp.model_validate(body)


def test_steps_that_shrink_do_not_fit_polytopes_or_kinks() -> None:
    """Where they move the fixed point: the same agents, with `shrink` 1, are taken."""
    kinked, within = {"terms": TERMS[2]}, {"polytope": POLYTOPES[1]}
    smooth = {"terms": TERMS[1]}
    for change, taken in ((kinked, False), (within, False), (smooth, True)):
        body = spec()
        body["agents"][2] |= change
        if taken:
            planned(body)
            continue
        with pytest.raises(InvalidInput, match="a polytope or a cost with kinks") as refused:
            planned(body)
        assert refused.value.issues[0].pointer == "/problem/steps/shrink"
        body["steps"]["shrink"] = 1
        planned(body)


def test_polytopes_that_leave_no_joint_point_are_refused() -> None:
    body = spec()
    body["agents"][1]["polytope"] = {"A": [[-1, -1]], "b": [-2]}  # at its upper corner alone
    body["operator"]["d"] = [-1.0, -0.5]
    planned(spec() | {"operator": body["operator"]})
    body["agents"][0]["polytope"] = {"A": [[-1, 0]], "b": [-1]}
    body["agents"][2]["polytope"] = {"A": [[0, -1]], "b": [-1]}
    with pytest.raises(InvalidInput, match="budgets and polytopes allow") as refused:
        planned(body)
    assert refused.value.issues[0].pointer.startswith("/problem/operator/d/")


def test_what_takes_too_long_is_refused_before_it_is_looked_at() -> None:
    """The estimates count rows; no set is made for them."""
    body = spec()
    wide = {"A": [[1, 1]] * 500, "b": [2] * 500}
    body["agents"] = [{**body["agents"][0], "polytope": wide}] * 300
    del body["steps"]
    unseen = mock.patch.object(checks, "set_of", side_effect=AssertionError)
    with unseen, pytest.raises(InvalidInput, match="to look at, and at most 20 are given"):
        planned(body)
    body["agents"] = [{**body["agents"][0], "polytope": {"A": [[1, 1]], "b": [2]}}] * 300
    body |= {"method": "spds", "steps": {"primal": 0.1, "dual": 0.1, "iterations": 90_000}}
    with unseen, pytest.raises(InvalidInput, match="in one process, and at most 600"):
        planned(body)


def test_wide_quadratic_terms_are_solved_as_matrices() -> None:
    """The bound on what an interior point method takes is none on them."""
    body, k = spec(), 300
    one = {"A_u": [[1] * k], "A_g": [[-1] * k], "a_l": [0] * k, "lower": 0, "upper": 1}
    rows = len(body["operator"]["c"]), len(body["operator"]["d"])
    one |= {"A_u": one["A_u"] * rows[0], "A_g": one["A_g"] * rows[1]}
    body["agents"] = [{**one, "terms": [{"kind": "quadratic", "P": np.eye(k).tolist()}]}] * 3
    body |= {"steps": {"primal": 0.1, "dual": 0.1, "iterations": 2}}
    planned(body)
    body["agents"][0]["terms"] = [{"kind": "power", "power": 3}]
    with pytest.raises(InvalidInput, match="600; at most 512") as refused:
        planned(body)
    assert refused.value.issues[0].pointer == "/problem/agents/0/terms"


def test_shares_take_quadratic_costs_and_boxes_alone() -> None:
    bounds = {"reach": 4, "price": 9, "least_curvature": 0.1, "most_curvature": 9}
    body = convex(protocol="mpc", encryption={}, mpc=bounds)
    body["agents"][0]["polytope"] = POLYTOPES[1]
    with pytest.raises(ValidationError, match="a budget within it"):
        CoupledQp.model_validate(body)
    for agent in body["agents"]:
        agent["polytope"] = None
    with pytest.raises(ValidationError, match="costs that are quadratic alone"):
        CoupledQp.model_validate(body)
    for agent in body["agents"]:
        agent["terms"] = [{"kind": "quadratic", "P": [[1, 0], [0, 2]]}]
        agent |= {"A_q": [], "A_u": np.eye(2).tolist(), "A_g": np.eye(2).tolist()}
    _, plan = planned(body)
    assert plan.parameters["agents"] == 3
    barrier = cost_of(np.eye(2), np.ones(2), [{"kind": "log_barrier", "b": 2}])
    quadratic = cost_of(np.eye(2), np.ones(2), [])
    for cost, more, why in (
        (quadratic, {"A_u": np.ones(3)}, "cannot reshape"),
        (quadratic, {"listen": 1}, "expected string"),
        (barrier, {}, "only takes quadratic costs"),
        (quadratic, {"budget": (3, 1)}, "a budget needs lower <= upper"),
        (quadratic, {"polytope": (np.eye(2), np.ones(2))}, "takes no polytopes"),
    ):
        with pytest.raises(AgentError, match=why):
            on_shares.solve(
                None,  # type: ignore[arg-type]
                cost=cost,
                upper=1,
                **{"A_u": np.eye(2), "A_g": np.eye(2), "listen": "127.0.0.1:1", **more},  # type: ignore[arg-type]
            )


# Privacy ------------------------------------------------------------------------------------------


class Nobody:
    """An agent that must not be met."""

    def participate(self, step: Any) -> Any:
        raise AssertionError("this agent has met the server")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"cost": cost_of(np.eye(2), np.ones(2), [{"kind": "entropy"}])}, "has no bound at 0"),
        ({"polytope": ([[1, 1]], [-1])}, "no point in the box"),
        ({"polytope": ([[1, 1]], [0.5]), "budget": (1, 2)}, "no point in the box"),
    ],
)
def test_an_agent_checks_its_own_data_before_it_meets_anybody(
    data: dict[str, Any], says: str
) -> None:
    """Later a refusal would tell of its data."""
    given = {"A_u": np.eye(2), "A_g": np.eye(2), "upper": 1, "cost": cost_of(np.eye(2), np.ones(2))}
    with pytest.raises(AgentError, match=says):
        take_part(Nobody(), **{**given, **data})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"terms": "power"}, "terms are a list of objects"),
        ({"terms": 5}, "terms are a list of objects"),
        ({"terms": {"kind": "power"}}, "terms are a list of objects"),
        ({"terms": ["power"]}, "term 0, a term is an object"),
        ({"terms": [{"kind": "powr"}]}, "term 0, a term is one of quadratic, power"),
        ({"terms": [{"kind": "power", "power": 3, "wieght": 2}]}, "it has no field wieght"),
        ({"polytope": [[1, 1]]}, '{"A": …, "b": …} is needed'),
        ({"polytope": {"A": [[1, 1]]}}, '{"A": …, "b": …} is needed'),
        ({"polytope": {"A": [[1]], "b": [1]}}, "2 columns, one a variable"),
        ({"polytope": {"A": [[1, 1]], "b": 1}}, "one limit a row"),
    ],
)
def test_an_agents_file_is_told_what_is_wrong_with_it(given: dict[str, Any], says: str) -> None:
    eye = np.eye(2).tolist()
    own = {"A_u": eye, "A_g": eye, "a_l": [0, 0], "upper": 1}
    with pytest.raises(AgentError, match=re.escape(says)):
        run_agent(Nobody(), {**own, **given})  # type: ignore[arg-type]


def pulled(target: float) -> ConvexCost:
    """A cost as steep as one may be, toward one end of the box."""
    terms = (
        Power(np.eye(1), np.array([target]), 1e6, 1.1),
        LogBarrier(np.eye(1), np.array([1.00001])),
    )
    return ConvexCost(QuadraticCost(np.zeros((0, 1)), np.array([-1e6 * np.sign(target)])), terms)


def test_noise_covers_whatever_an_agents_cost_is(tmp_path: Path) -> None:
    """Neighbours whose costs drive them to opposite ends of their boxes in every round, whatever
    the noisy sums are: stock agents, and the clip of the protocol. What they send differs by all
    that the plan's sensitivity allows, and no more; an attack on all rounds together finds no
    epsilon above the price, and with half of the noise it does.

    One verdict a side, wrong with probability 1e-3; the agents' own noise is left out, and drawn
    as the plan has it."""
    count, rounds, clip = 700, 4, 1.2
    _, plan = planned(crowd(count, epsilon=EPSILON, delta=DELTA, clip=clip))
    (event,) = plan.events
    sigma = secure_sum.Parameters(**plan.parameters["sums"]).noise_sigma
    random = np.random.default_rng(3)
    federation = Federation(3, noise={"epsilon": 1e3, "delta": 1e-3, "clip": clip})
    federation.run(rounds=2)  # so that machines know their roster
    machine, path = federation.machines[0], []
    for target in (1.0, -1.0):
        cost, domain = pulled(target), Box(np.full(1, -1.0), np.ones(1))
        cost.check(domain)
        steps = Steps(1e-3, 0.01)
        agent = Participant(np.ones((1, 1)), np.ones((1, 1)), cost, domain, steps)
        agent.x = np.array([target])  # its start is its own
        sent = []
        for _ in range(rounds):
            with mock.patch(
                "discreet_client.secure_sum.agent.discrete_gaussian",
                lambda variance, size, below: [0] * size,
            ):
                sent.append(np.array(machine._encoded(agent.contribution()), dtype=np.float64))
            agent.update(50 * random.normal(size=2))
            assert np.all(np.isfinite(agent.x))
        path.append(np.concatenate(sent) / 2.0**32)
    apart = np.linalg.norm((path[0] - path[1]).reshape(rounds, 2), axis=1) * 2.0**32
    assert np.all(apart <= event.sensitivity)
    assert apart == pytest.approx(event.sensitivity, rel=1e-6)

    def opened(sent: Floats, deviation: float) -> Any:
        return lambda samples: sent + deviation * random.normal(size=(samples, sent.size))

    found = [
        epsilon_lower_bound(
            *(opened(sent, deviation) for sent in path),
            DELTA,
            samples=200_000,
            confidence=0.999,
        )
        for deviation in (sigma, sigma / 2)
    ]
    assert found[0] <= EPSILON < found[1]
    assert found[0] > EPSILON / 3, "the attack finds what there is"


def test_extreme_numbers_are_refused_or_answered() -> None:
    """By no other exception, and never with an x that is no number: warnings are errors here."""
    random = np.random.default_rng(1)
    figures = [0, 1, -1, 0.5, 1e-12, 1e5, -1e5, 1e-3, 3.7, 1e-300, -0.1, 1e300]
    answered = refused = 0

    def matrix(rows: int) -> list[list[float]]:
        return random.choice(figures, (rows, 2)).tolist()

    for _ in range(50):
        body = spec(method="auto", steps={"iterations": 4})
        for agent in body["agents"]:
            kind = str(random.choice(["power", "entropy", "log_barrier", "piecewise_linear"]))
            b = {"log_barrier": 2e5, "entropy": -2e5}.get(kind, float(random.choice(figures)))
            more = (
                {"power": float(random.choice([1 + 1e-7, 1.5, 2, 10]))} if kind == "power" else {}
            )
            agent["terms"] = [{"kind": kind, "A": matrix(2), "b": b, **more}]
            if random.random() < 0.4:
                limits = np.abs(random.choice(figures, 2)).tolist()
                agent["polytope"] = {"A": matrix(2), "b": limits}
        try:
            result = run(body)
        except InvalidInput:
            refused += 1
        else:
            answered += 1
            assert np.all(np.isfinite(np.concatenate(result["x"])))
    assert min(answered, refused) >= 5


LONG = 10**400
"""An integer that JSON may hold, and no double."""


@pytest.mark.parametrize(
    "wrong",
    [
        {"polytope": {"A": [[LONG, 1]], "b": [1]}},
        {"polytope": {"A": {"x": 1}, "b": [1]}},
        {"polytope": {"A": [1, 1], "b": [1]}, "budget": {"lower": 0, "upper": 1}},
        {"polytope": {"A": [[1, 1]], "b": 1}, "budget": {"lower": 0, "upper": 1}},
        {"terms": [{"kind": "power", "weight": LONG}]},
        {"terms": [{"kind": "power", "A": [[LONG, 1]]}]},
        {"terms": [{"kind": "quadratic", "P": [[LONG, 1], [1, 1]]}]},
        {"A_q": [[LONG, 1]]},
        {"A_u": [[LONG, 1]]},
        {"A_u": {}},
        {"A_u": None},
        {"upper": LONG},
        {"upper": {}},
        {"upper": [1, [2]]},
        {"budget": {"lower": 0, "upper": LONG}},
        {"primal": {}},
        {"primal": LONG},
    ],
)
def test_no_file_of_an_agent_ends_in_a_traceback(wrong: dict[str, Any]) -> None:
    """Before anybody is met: this agent could meet nobody."""
    right = {
        "A_u": [[1.0, 1.0]],
        "A_g": [[1.0, 0.0]],
        "a_l": [1.0, 2.0],
        "upper": 1.0,
        "polytope": {"A": [[1.0, 1.0]], "b": [1.0]},
    }
    nobody: Any = object()
    with pytest.raises(AttributeError, match="participate"):
        run_agent(nobody, right)
    with pytest.raises(AgentError):
        run_agent(nobody, right | wrong)
