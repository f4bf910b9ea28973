"""`protocol: mpc` of coupled quadratic programs at the service: simulation, plan, and the
operator's side of a session. Computations between processes are in tests/clients/mpc, whole
sessions in tests/rpc/test_on_shares.py."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.charts import charts_module
from discreet.problems.coupled_qp import shares_answers, shares_session
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.problems.coupled_qp.result import headlines
from discreet.problems.coupled_qp.shares_session import SharesSession
from discreet.problems.federation import Member, SessionFailed, is_session
from discreet_agent.federation.identity import Identity
from discreet_agent.mpc import evidence, keys, member
from discreet_agent.mpc.terms import Terms
from tests.clients.mpc.over_time import OverTime
from tests.clients.mpc.parties import Instance, asked


def simulated(instance: Instance | OverTime, **changes: Any) -> dict[str, Any]:
    terms = instance.terms
    agents = [
        {name: np.asarray(value).tolist() for name, value in instance.agent(place).items()}
        for place in range(terms.agents)
    ]
    for agent in agents:
        if "budget" in agent:
            agent["budget"] = dict(zip(("lower", "upper"), agent["budget"], strict=True))
    return {
        "kind": "coupled_qp",
        "mode": "simulation",
        "protocol": "mpc",
        **asked(instance),
        "agents": agents,
        **changes,
    }


def run(body: dict[str, Any]) -> tuple[CoupledQp, dict[str, Any], dict[str, Any]]:
    problem = CoupledQp.model_validate(body)
    plan = problem.plan(None, problem.budget(None))
    released = problem.release(None, plan, None, Noise.secure())  # type: ignore[arg-type]
    result = problem.finish(None, plan, released, lambda step, total: None).to_json()
    evidence_said = problem.evidence(plan, json.dumps(result).encode())
    assert evidence_said is not None
    return problem, result, evidence_said


@pytest.mark.parametrize(("cost", "limit"), [(True, True), (True, False), (False, True)])
def test_a_simulation_finds_the_optimum(cost: bool, limit: bool) -> None:
    instance = Instance.draw(12, 5, 4, cost=cost, limit=limit)
    body = simulated(instance)
    problem, result, said = run(body)
    best = instance.by_clarabel()
    assert result["objective"] == pytest.approx(instance.objective(best), rel=1e-4)
    assert np.array(result["x"]) == pytest.approx(best, abs=2e-3)
    assert result["status"] == "converged"
    assert len(result["violations"]) == (4 if limit else 0)
    assert result["rounds"] == 0
    assert (said["security"], said["threshold"]) == (evidence.SECURITY, 1)
    assert "signatures" not in said
    assert not is_session(body)
    assert problem.terms is None
    drawn = charts_module("coupled_qp").charts_of(problem.model_dump(mode="json"), {}, result)
    assert "agents" in [one.name for one in drawn]
    assert "convergence" not in [one.name for one in drawn]


def test_a_simulation_over_time() -> None:
    """Budgets, and costs of changes from hour to hour; too few steps are an answer that says so."""
    instance = OverTime.draw(4, 3, 4)
    instance.iterations, instance.typical = 60, instance.usual_curvature
    body = simulated(instance)
    problem, result, said = run(body)
    best = instance.objective(instance.by_clarabel())
    assert result["objective"] == pytest.approx(best, rel=1e-4)
    assert instance.keeps(np.array(result["x"]))
    assert result["status"] == "converged"
    assert said["terms"]["iterations"] == 60
    assert "each its own x" in said["reveals"]["agents"]
    assert "60 steps" in said["reveals"]["agents"]
    plan = problem.plan(None, problem.budget(None))
    assert plan.iterations["steps"] == 60
    assert any("60 steps of ADMM" in one for one in plan.advice)
    assert any("about 925 rounds of messages" in one for one in plan.advice)
    body["mpc"]["iterations"] = 3
    _, result, _ = run(body)
    assert result["status"] == "iteration_limit"
    line = headlines(body, result)[0]
    assert "outside the tolerance" in line.before


def test_what_is_refused_over_time() -> None:
    instance = OverTime.draw(4, 3, 4)
    body = simulated(instance)
    exact = {**body["mpc"], "iterations": None, "typical_curvature": None}
    with pytest.raises(ValidationError) as refused:
        run(body | {"mpc": exact})
    error = refused.value.errors()[0]["ctx"]["error"]
    assert error.field == ("agents", "0", "budget")
    assert "give `mpc.iterations`" in str(error)
    without = [{**agent, "budget": None} for agent in body["agents"]]
    with pytest.raises(InvalidInput, match="A_q couples hours"):
        run(body | {"mpc": exact, "agents": without})
    rows = {"A": [[1.0, -1.0, 0.0, 0.0]], "b": [1.0]}
    with pytest.raises(ValidationError, match="set is a box, and a budget within it"):
        run(body | {"agents": [{**body["agents"][0], "polytope": rows}, *body["agents"][1:]]})
    with pytest.raises(InvalidInput) as long:
        run(body | {"operator": body["operator"] | {"c": [1e9, 0.0, 0.0, 0.0]}})
    assert long.value.issues[0].pointer == "/problem/operator/c"


def test_a_simulation_whose_data_pass_the_bounds_is_refused() -> None:
    instance = Instance.draw(12, 3, 2)
    body = simulated(instance)
    body["mpc"]["reach"] /= 3
    body["mpc"]["price"] *= 10
    with pytest.raises(InvalidInput) as refused:
        run(body)
    assert refused.value.issues[0].pointer.startswith("/problem/agents/")
    with pytest.raises(InvalidInput, match="mode"):
        run(simulated(instance, mode="private"))


def test_fields_of_other_protocols() -> None:
    instance = Instance.draw(12, 3, 2)
    for changes, field in (
        ({"steps": {"iterations": 3}}, "steps"),
        ({"exposure": "accepted"}, "exposure"),
        ({"encryption": {"scheme": "masking"}}, "encryption"),
        ({"mpc": None}, "mpc"),
        ({"method": "auto"}, "method"),
        ({"protocol": "job", "steps": {"iterations": 3}}, "mpc"),
    ):
        with pytest.raises(ValidationError) as refused:
            CoupledQp.model_validate(simulated(instance, **changes))
        assert refused.value.errors()[0]["ctx"]["error"].field == (field,)


def session() -> tuple[SharesSession, list[Identity], bytes, bytes]:
    terms = Terms(3, 2, 1, False, True, 1.0, 1.0, 0.5, 1.0, 1e-3)
    identities = [Identity.generate() for _ in range(3)]
    members = [
        Member(
            one.fingerprint,
            "",
            one.public_key,
            member.announcement(one, "ses_a", f"127.0.0.1:{place + 1}"),
        )
        for place, one in enumerate(identities)
    ]
    made = SharesSession(terms, members, [5, -6])
    broadcast = made.opening(Noise.secure())
    return (
        made,
        identities,
        broadcast,
        evidence.context(terms, [(one.key, one.announcement) for one in members]),
    )


def answer(identity: Identity, bound: bytes, broadcast: bytes, kept: Any) -> bytes:
    signature = identity.sign(evidence.statement(bound, broadcast, kept)).hex()
    return json.dumps({"kept": kept, "signature": signature}).encode()


def test_the_rehearsal_goes_from_opening_to_what_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is run before a child gives up its rights, so that nothing is loaded later: each part of a
    session must be in it, and in a session that was restored, as another process has it."""
    called = []

    def watch(name: str) -> None:
        plain = getattr(SharesSession, name)

        def watched(*given: Any) -> Any:
            called.append(name)
            return plain(*given)

        monkeypatch.setattr(SharesSession, name, watched)

    for name in ("opening", "accepts", "state", "restore", "step", "released"):
        watch(name)
    shares_session.rehearse()
    assert called == ["opening", "state", "restore", *["accepts"] * 3, "step", "released"]


@pytest.mark.parametrize("broken", ["unseal", "unsigned"])
def test_the_rehearsal_notices_what_it_comes_to(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Summands that do not add up to the operator's figures, and an end that somebody has not
    signed."""
    if broken == "unseal":
        monkeypatch.setattr(keys, "unseal", lambda *given: [0])
    else:
        monkeypatch.setattr(evidence, "unsigned", lambda section: ["somebody"])
    with pytest.raises(AssertionError):
        shares_session.rehearse()


def test_the_operators_figures_reach_agents_together_only() -> None:
    _, identities, broadcast, bound = session()
    sealed = member.sealed_parts(broadcast)
    parts = [
        keys.unseal(keys.exchange_key(one.private_key, "ses_a"), bound, sealed[one.fingerprint])
        for one in identities
    ]
    assert [sum(column) for column in zip(*parts, strict=True)] == [5, -6]
    assert all(abs(part[0]) > 2**100 for part in parts)


def test_answers_that_are_not_the_agents_own_are_none() -> None:
    made, identities, broadcast, bound = session()
    first, second = identities[:2]
    good = answer(first, bound, broadcast, True)
    assert made.accepts(0, first.fingerprint, good)
    assert not made.accepts(0, second.fingerprint, good)
    for wrong in (
        answer(first, bound, broadcast + b" ", True),
        answer(first, bytes(32), broadcast, True),
        good.replace(b"true", b"false"),
        good.replace(b"true", b"1"),
        b"{}",
        b"[]",
        b"",
        b"\xff",
        b'{"broken": 1}',
        b"[" * 100_000,
    ):
        assert not made.accepts(0, first.fingerprint, wrong)


def test_ends_of_a_session() -> None:
    made, identities, broadcast, bound = session()
    good = {one.fingerprint: answer(one, bound, broadcast, True) for one in identities}
    last = identities[-1].fingerprint
    with pytest.raises(SessionFailed, match="computation_broken"):
        made.step(0, {**good, last: b'{"broken": "time"}'}, Noise.secure())
    with pytest.raises(SessionFailed, match="protocol_broken"):
        made.step(
            0, {**good, last: answer(identities[-1], bound, broadcast, False)}, Noise.secure()
        )
    assert set(CoupledQp.failures) >= {"computation_broken", "protocol_broken"}
    signed = json.loads(made.step(0, good, Noise.secure()))
    assert made.done
    section = json.loads(made.released()["evidence"].tobytes())
    assert section["signatures"] == signed["signatures"]
    assert evidence.unsigned(section) == []


def test_figures_beyond_what_changes_anything_are_cut() -> None:
    """c and d of any size fit the numbers of the shares, and mean the same."""
    terms = Terms(3, 1, 1, True, True, 1.0, 1.0, 0.5, 1.0)
    operator = CoupledQp.model_validate(
        simulated(Instance.draw(1, 3, 1)) | {"operator": {"c": [1e300], "d": [-1e300]}}
    ).operator
    cost, limit = (
        one / 2**terms.fraction_bits for one in shares_answers.figures_of(terms, operator)
    )
    assert (cost, limit) == (terms.cost_bound, -terms.limit_bound)


def test_the_announcement_of_an_agent() -> None:
    identity = Identity.generate()
    good = member.announcement(identity, "ses_a", "[2001:db8::1]:7000")
    problem = CoupledQp.model_validate(simulated(Instance.draw(1, 3, 1)))
    problem.check_announcement(good)
    assert member.host_and_port(good["address"]) == ("2001:db8::1", 7000)
    for wrong in (
        {},
        {**good, "more": 1},
        {**good, "address": "no port"},
        {**good, "address": "host:0"},
        {**good, "address": "ho st:70"},
        {**good, "certificate": "AAAA"},
        {**good, "certificate": "é"},
        {**good, "exchange": "00"},
        {**good, "exchange": 5},
    ):
        with pytest.raises(InvalidInput):
            problem.check_announcement(wrong)
