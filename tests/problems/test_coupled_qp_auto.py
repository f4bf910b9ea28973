"""`method: auto` of coupled quadratic programs: which requests take it, jobs, sessions, and what a
second job shows."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from discreet.errors import Exposed, InvalidInput
from discreet.problems.coupled_qp import run_again
from discreet.problems.coupled_qp.charts import charts_of
from discreet.problems.coupled_qp.data import part_of
from discreet.problems.coupled_qp.exposure import AGAIN_WITH_PRICES
from discreet.problems.coupled_qp.methods import Auto
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet_agent.demands import Demands
from discreet_agent.federation import spoken
from discreet_agent.federation.errors import AgentError
from discreet_agent.priced_rounds import MOST_COUPLINGS, MOST_ROUNDS, PricedRounds
from discreet_agent.prices import exponent, highest, signed_rows
from tests.clients.attacks.test_federated_agents import C, Party, Together
from tests.problems.test_coupled_qp import federated, planned, random_instance, run, spec
from tests.solvers.test_spds import MULTIPLIERS, OBJECTIVE, OPTIMUM, TOLERANCE, by_cvxpy

ROOT = Path(__file__).parents[2]


def auto(**changes: Any) -> dict[str, Any]:
    """The paper's example without steps."""
    body = spec(**changes)
    del body["steps"]
    return body


# Which requests take it ---------------------------------------------------------------------------


def test_without_steps_a_request_takes_it_and_with_steps_none_does() -> None:
    _, plan = planned(auto())
    assert plan.parameters["method"] == "auto"
    assert plan.parameters["steps"] == {"iterations": MOST_ROUNDS}
    assert plan.parameters["sums"]["dimension"] == 5
    assert plan.parameters["rows"].keys() == {"exponents", "figures"}
    assert plan.parameters["rows"]["figures"] == [1.0, 1.0, 1.0, 1.0]
    _, named = planned(spec(method="spds"))
    _, given = planned(spec())
    # What agents of before there was the method have to read is the same.
    assert named.parameters == given.parameters
    assert "method" not in given.parameters
    assert "rows" not in given.parameters
    _, capped = planned(auto(method="auto") | {"steps": {"iterations": 30}})
    assert capped.iterations == {"rounds": 30}


@pytest.mark.parametrize(
    ("changes", "place", "says"),
    [
        ({"method": "spds"}, ("steps",), "iterations at least"),
        ({"noise": {"epsilon": 1, "delta": 1e-6}}, ("steps",), "sums with noise, need them"),
        (
            {"method": "auto", "noise": {"epsilon": 1, "delta": 1e-6}},
            ("method",),
            "for method spds",
        ),
        (
            {"method": "auto", "steps": {"primal": 1, "dual": 1, "iterations": 9}},
            ("steps", "dual"),
            "has no steps",
        ),
        (
            {"method": "auto", "steps": {"iterations": 3}},
            ("steps", "iterations"),
            "4 rounds at least",
        ),
        ({"method": "newton"}, ("method",), "'rpds' or 'auto'"),
    ],
)
def test_what_does_not_fit_it_is_refused_by_place(
    changes: dict[str, Any], place: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ValidationError, match=says) as refused:
        CoupledQp.model_validate(auto() | changes)
    error = refused.value.errors()[0]
    inner = getattr(error.get("ctx", {}).get("error"), "field", error["loc"])
    assert inner == place


def test_more_couplings_than_matrices_are_kept_of_are_refused() -> None:
    body = federated(3, operator={"c": [0.0] * MOST_COUPLINGS, "d": [0.0]})
    body["agents"]["coupled"] = MOST_COUPLINGS
    del body["steps"]
    problem = CoupledQp.model_validate(body)
    with pytest.raises(InvalidInput, match="at most 512") as refused:
        problem.plan_federation((), problem.budget(None))
    assert refused.value.issues[0].pointer == "/problem/method"


# Jobs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["masking", "paillier"])
def test_the_papers_example_comes_to_its_optimum(scheme: str) -> None:
    body = auto(encryption__scheme=scheme, encryption__key_bits=2048)
    result = run(body)
    assert np.array(result["x"]) == pytest.approx(np.array(OPTIMUM), abs=20 * TOLERANCE)
    assert result["multipliers"] == pytest.approx(MULTIPLIERS, abs=20 * TOLERANCE)
    assert result["objective"] == pytest.approx(OBJECTIVE, rel=1e-4)
    assert result["rounds"] <= 40
    assert result["status"] == "converged"
    assert charts_of(body, {}, result)


@pytest.mark.parametrize("seed", range(4))
def test_random_instances_against_cvxpy(seed: int) -> None:
    body = random_instance(seed)
    del body["steps"]
    problem, plan = planned(body)
    result = run(body)
    parts = [part_of(agent) for agent in problem._data()]
    _, objective = by_cvxpy(parts, np.array(body["operator"]["c"]), np.array(body["operator"]["d"]))
    assert result["objective"] == pytest.approx(objective, rel=1e-4, abs=1e-4)
    assert result["violation"] < 1e-4
    assert result["status"] == "converged"
    assert result["rounds"] <= 45 <= plan.iterations["rounds"]


def test_the_example_of_the_docs_takes_no_steps() -> None:
    specification = importlib.util.spec_from_file_location(
        "ev_charging", ROOT / "examples" / "ev_charging.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    body = module.job(5)["problem"] | {"encryption": {"scheme": "masking"}}
    del body["steps"]
    result = run(body)
    assert result["status"] == "converged"
    assert result["rounds"] <= 40


def test_too_few_rounds_are_said_to_be_no_optimum() -> None:
    result = run(auto() | {"method": "auto", "steps": {"iterations": 4}})
    assert result["rounds"] == 4
    assert result["status"] == "iteration_limit"


# In any unit --------------------------------------------------------------------------------------


def three(
    big: float = 0.0, upper: float = 5.0, unit: float = 1.0, weight: float = 1e-6
) -> dict[str, Any]:
    """Agents that want 2, 3 and 4 under a joint limit of 3: right is (0, 1, 2)."""
    agents = [
        {
            "A_u": [[0.3], [weight if big else 0.3]],
            "A_g": [[1.0]],
            "A_q": [[1.0]],
            "a_l": [-2.0 * want * unit],
            "lower": [0.0],
            "upper": [upper * unit],
        }
        for want in (2.0, 3.0, 4.0)
    ]
    return {
        "kind": "coupled_qp",
        "mode": "simulation",
        "protocol": "job",
        "method": "auto",
        "encryption": {"scheme": "masking"},
        "operator": {"c": [0.0, big], "d": [-3.0 * unit]},
        "agents": agents,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"big": 1e5},
        {"upper": 1e4},
        {"upper": 1e6},
        {"unit": 1e-4},
        {"unit": 1e-9, "upper": 1e3},
    ],
)
def test_three_agents_settle_at_what_is_right_in_any_unit(changes: dict[str, float]) -> None:
    """All but the first were `converged` at another point, or never, where a start, the largest row
    and an absolute grid were the yardstick."""
    result = run(three(**changes))
    unit = changes.get("unit", 1.0)
    assert result["status"] == "converged"
    assert np.ravel(result["x"]) / unit == pytest.approx([0, 1, 2], abs=2e-4)
    assert result["violations"] == [result["violation"]]
    assert result["violation"] <= 1e-4 * 3 * unit
    # Masks round at random: 11 to 28 were seen in 200 runs.
    assert result["rounds"] <= 50


def test_what_the_slots_cannot_hold_is_refused_by_its_row() -> None:
    with pytest.raises(InvalidInput, match="only in steps of") as refused:
        planned(three(upper=1e18))
    assert refused.value.issues[0].pointer == "/problem/operator/c/0"
    public = {"count": 3, "coupled": 1, "constraints": 1, "reach": [1.0, 1.0]}
    body = federated(3, operator={"c": [1.0], "d": [-1e17]}, agents=public)
    del body["steps"]
    problem = CoupledQp.model_validate(body)
    with pytest.raises(InvalidInput, match="only in steps of") as refused:
        problem.plan_federation((), problem.budget(None))
    assert refused.value.issues[0].pointer == "/problem/operator/d/0"


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_limits_that_cannot_be_kept_are_refused_in_any_unit(unit: float) -> None:
    body = three(unit=unit)
    body["operator"]["d"] = [1e-3 * unit]
    with pytest.raises(InvalidInput, match="violated by at least") as refused:
        planned(body)
    assert refused.value.issues[0].pointer == "/problem/operator/d/0"


def test_narrow_slots_are_refused() -> None:
    with pytest.raises(InvalidInput, match="slots of 64 bits") as refused:
        planned(
            auto(
                encryption__scheme="paillier",
                encryption__slot_bits=48,
                encryption__fraction_bits=20,
            )
        )
    assert refused.value.issues[0].pointer == "/problem/encryption/slot_bits"


# Sessions -----------------------------------------------------------------------------------------

METHOD: dict[str, Any] = {"steps": {"iterations": 60}, "method": "auto"}
LIMIT = (-1.5,)
AUTO = METHOD | {"operator": {"c": C, "d": LIMIT}}


def test_agents_of_a_session_find_their_optimum_and_restart_at_every_exchange(
    tmp_path: Path,
) -> None:
    run = Together([Party(seed, tmp_path) for seed in range(4)], **AUTO)
    while not run.session.done:
        run.go(1)
        for party in run.parties:
            party.stop()
            party.start()
    ends = [party.run.close(run.roster, party.state, run.broadcast) for party in run.parties]
    assert all(one.settled for one in ends)
    assert {one.rounds for one in ends} == {len(run.sums)}
    assert len(run.sums) < 50  # the haze is drawn by the operating system: 21 to 34 in twenty runs
    assert {one.transcript for one in ends} == {ends[0].transcript}
    x = [one.x for one in ends]
    u = sum((party.A_u @ one for party, one in zip(run.parties, x, strict=True)), np.array(C))
    g = sum((party.A_g @ one for party, one in zip(run.parties, x, strict=True)), np.array(LIMIT))
    # The conditions of an optimum: each agent's slope is zero where it is free, and points out of
    # the box elsewhere.
    for party, one in zip(run.parties, x, strict=True):
        slope = party.cost.gradient(one) + party.A_u.T @ u + party.A_g.T @ ends[0].multipliers
        assert np.max(np.abs(one - np.clip(one - slope, 0, 1))) < 3e-3
    assert np.max(g) < 1e-3
    for party in run.parties:
        party.stop()


def test_the_first_sums_are_of_the_agents_alone() -> None:
    """Neither what the operator holds nor any agent's own steepness can be read from them."""
    run = Together([Party(seed) for seed in range(3)], **AUTO)
    run.go(5)
    exact = []
    for party in run.parties:
        A = np.vstack([party.A_u, party.A_g])
        exact.append(np.diag(A @ np.linalg.inv(2 * party.cost.A_q.T @ party.cost.A_q) @ A.T))
    exponents, _ = signed_rows(run.roster["parameters"])
    spread, slopes = run.sums
    bits = int(run.roster["parameters"]["sums"]["fraction_bits"])
    powers = [
        exponent(run.roster["parameters"]["sums"]["bound"], 2.0**one)
        for one in (highest(int(np.ldexp(total, bits))) or 0 for total in spread[:3])
    ]
    found = np.ldexp(slopes[:3], -2 * exponents - np.array(powers))
    assert np.all(found >= np.sum(exact, axis=0) / 2 - 1e-6)
    assert np.all(found <= np.sum(exact, axis=0) * 2 + 1e-6)
    assert spread[3] == slopes[3] == 0


def test_constraints_that_cannot_be_kept_end_unsettled_and_say_which() -> None:
    run = Together([Party(seed) for seed in range(3)], **AUTO | {"operator": {"c": C, "d": (9.0,)}})
    run.go()
    ends = [party.run.close(run.roster, party.state, run.broadcast) for party in run.parties]
    assert [one.settled for one in ends] == [False] * 3
    assert all("row 2 is off by" in one.why for one in ends)
    assert ends[0].rounds == 60


def test_who_does_not_speak_this_version_or_the_method_is_refused_at_enrolment() -> None:
    """The TypeScript agent knows the other methods alone."""
    needed = CoupledQp.model_validate(federated(5, **METHOD)).needed
    assert spoken.refusal("one", needed, spoken.AGENT) == ""
    without = [one for one in spoken.AGENT if one != "auto"]
    assert "agent one does not speak auto" in spoken.refusal("one", needed, without)
    older = ["discreet/secure-sum/v1", "masking", "paillier", "auto"]
    assert "discreet/secure-sum/v2" in spoken.refusal("one", needed, older)
    other = CoupledQp.model_validate(federated(5)).needed
    assert spoken.refusal("one", other, without) == ""


@pytest.mark.parametrize("hide", ["method", "rows"])
def test_sums_of_another_method_than_is_named_are_refused(hide: str) -> None:
    """Exact answers where slopes were asked for, or the reverse, would be nonsense and might show a
    value."""
    run = Together([Party(seed) for seed in range(3)], **AUTO)
    del run.roster["parameters"][hide]
    with pytest.raises(AgentError, match="do not fit method"):
        run.parties[0].answer(0, run.broadcast, run.roster, run.price)
    assert run.parties[0].state == b""


@pytest.mark.parametrize(
    "rows",
    [
        {"exponents": [0, 0], "figures": [1.0, 1.0, 1.0]},
        {"exponents": [0, 0, 900], "figures": [1.0, 1.0, 1.0]},
        {"exponents": [0, 0, 0], "figures": [1.0, -1.0, 1.0]},
        {"exponents": [0, 0, 0], "figures": [1.0, 1.0, 1.0], "more": 1},
        [],
    ],
)
def test_units_that_cannot_be_read_are_refused(rows: Any) -> None:
    run = Together([Party(seed) for seed in range(3)], **AUTO)
    run.roster["parameters"]["rows"] = rows
    with pytest.raises((AgentError, ValueError), match="units of the rows"):
        run.parties[0].answer(0, run.broadcast, run.roster, run.price)
    assert run.parties[0].state == b""


def test_an_agents_cap_on_rounds_holds_for_the_most_that_it_may_take() -> None:
    run = Together(
        [Party(0, demands=Demands(rounds=59, exposure="accepted")), Party(1), Party(2)], **AUTO
    )
    with pytest.raises(AgentError, match="60 sums would be opened; this agent allows 59"):
        next(one for one in run.parties if one.demands.rounds == 59).answer(
            0, run.broadcast, run.roster, run.price
        )


# What a job that is run again shows ---------------------------------------------------------------


@pytest.mark.parametrize(("agents", "hours"), [(4, 1), (8, 1), (4, 8)])
def test_a_job_run_again_without_an_agent_shows_its_wish_only_without_the_haze(
    agents: int, hours: int
) -> None:
    """Two jobs have prices zero in common. Without the haze the difference of their first sums is
    what the missing agent wants, and that of their first slopes how steep its cost is, to the grid.
    With it both are far off, and what the last sums tell is farther off than a guess from what the
    others want."""
    plain = run_again.figures(agents, hours, 4, haze=False)
    assert plain.wish < 1e-6
    assert plain.steepness < 1e-6
    hazy = run_again.figures(agents, hours, 20, haze=True)
    assert hazy.wish > 0.2
    assert hazy.steepness > 0.2
    assert hazy.wish_from_last > hazy.wish_by_guess


def test_repeated_pairs_do_not_lift_the_haze() -> None:
    """The mean of fifty pairs comes near where every job's haze is drawn anew."""
    anew, kept = (
        float(np.median([run_again.repeated(4, 1, seed, 50, kept=kept) for seed in range(4)]))
        for kept in (False, True)
    )
    assert anew < 0.25
    assert kept > 0.4


def test_pairs_at_other_prices_show_an_agents_answers() -> None:
    """What the sentence says, which no haze changes: last sums are exact."""
    worst, median = np.max([run_again.by_prices(4, seed, 8) for seed in range(3)], axis=0)
    assert worst < 0.03
    assert median < 0.005


def test_a_part_of_an_agents_haze_is_its_own() -> None:
    """Two sessions of the same agents and data begin at the same points; with another agent among
    them they do not."""
    parties = [Party(seed) for seed in range(4)]

    def starts(those: list[Party]) -> dict[str, Any]:
        found = {}
        run = Together(those, **AUTO)
        for party in those:
            party.state = b""
            party.start()
            party.answer(0, run.broadcast, run.roster, run.price)
            rounds = party.run._rounds
            assert isinstance(rounds, PricedRounds)
            found[party.identity.fingerprint] = rounds.responder.x
        return found

    first, again, other = (
        starts(parties[:3]),
        starts(parties[:3]),
        starts([*parties[:2], parties[3]]),
    )
    for party in parties[:2]:
        name = party.identity.fingerprint
        np.testing.assert_array_equal(first[name], again[name])
        assert np.max(np.abs(first[name] - other[name])) > 1e-6


def test_plan_and_certificate_say_what_it_opens() -> None:
    problem = CoupledQp.model_validate(federated(5, **METHOD))
    plan = problem.plan_federation((), problem.budget(None))
    assert plan.exposure is not None
    assert (plan.exposure.rounds, plan.exposure.sums) == (60, 180)
    assert AGAIN_WITH_PRICES in plan.exposure.sentence
    few = CoupledQp.model_validate(federated(5))
    other = few.plan_federation((), few.budget(None)).exposure
    assert other is not None
    assert AGAIN_WITH_PRICES not in other.sentence
    silent = CoupledQp.model_validate(federated(5, **METHOD | {"exposure": None}))
    with pytest.raises(Exposed, match="accepted"):
        silent.plan_federation((), silent.budget(None))


def test_how_a_method_is_signed_is_json() -> None:
    assert json.loads(json.dumps(Auto(9).signed)) == {"method": "auto", "steps": {"iterations": 9}}


def test_a_kink_shows_a_wish_that_the_haze_hides_elsewhere() -> None:
    """Which plans say: the last sums of a pair of jobs are that agent's wish itself."""
    off = np.median([run_again.wish_at_a_kink(8, seed) for seed in range(5)], axis=0)
    assert off[0] < 1e-4
    assert off[1] > 0.05
    smooth = np.median(
        [run_again.errors(8, 1, seed, haze=True).wish_from_last for seed in range(5)]
    )
    assert smooth > 0.1
    assert "kink" in AGAIN_WITH_PRICES
