"""Whole sessions: agents, owner and operator in processes of their own."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from sqlalchemy import text

from discreet.ledger import session_heads
from discreet.problems.federation import ROUNDS_ARE_SEEN
from discreet.storage.database import SYSTEM
from discreet.usecases import endings
from discreet.usecases.rpc_tls import self_signed
from discreet.usecases.services import open_services
from discreet_agent import Identity, Ledger, Link
from discreet_agent.federation import signing
from discreet_client.client import ApiError
from tests.conftest import eventually
from tests.rpc.conftest import Federation
from tests.rpc.helpers import entries, final, once_each, run, sums
from tests.rpc.kinds import NUMBER


def test_three_agents_agree(shared: Federation) -> None:
    job = shared.submit(agents=3, rounds=4, mode="simulation")
    assert shared.job(job)["state"] == "awaiting_agents"
    agents = run(shared, job, 3)
    outcomes = [agent.outcome() for agent in agents]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0]["state"] == "succeeded"
    assert outcomes[0]["rounds"] == outcomes[0]["kept"] == 4
    assert NUMBER.unpack(bytes.fromhex(outcomes[0]["broadcast"])) == (sums(3, 4)[-1],)
    assert final(shared, job)["state"] == "succeeded"
    with shared.client() as client:
        answer = client.result(job)
        states = [data["state"] for event, data in client.events(job) if event == "state"]
    assert states == ["queued", "awaiting_agents", "running", "succeeded"]
    assert answer["result"]["sums"] == sums(3, 4)
    assert answer["certificate"]["guarantee"]["type"] == "none"
    # Of this kind the plan says nothing of it: the session does, and says it once.
    assert answer["certificate"]["assumptions"].count(ROUNDS_ARE_SEEN) == 1
    assert all(kinds == ["open"] for kinds in entries(shared, job).values())


def test_each_agent_is_charged_and_both_sides_can_prove_it(shared: Federation) -> None:
    job = shared.submit(agents=3, rounds=2, epsilon="0.5")
    agents = run(shared, job, 3)
    outcomes = [agent.outcome() for agent in agents]
    assert {outcome["state"] for outcome in outcomes} == {"succeeded"}
    final(shared, job)
    assert all(
        kinds == ["open", "reserve", "data_touched", "commit"]
        for kinds in entries(shared, job).values()
    )
    with shared.client() as client:
        answer = client.result(job)
        session = client.session(job)
        assert client.verify_certificate(answer["certificate"])["valid"]
        head = client.session_statement(job)
    ledgers = [
        Ledger(one.folder / "agent.ledger", Identity.open(one.folder / "agent.key"))
        for one in agents
    ]
    beside = session_heads.Beside(
        certificate=answer["certificate"],
        owner=Identity.open(shared.owner_identity).fingerprint,
        receipts=[one.receipt(job) for one in ledgers],
    )
    checks = session_heads.check(head, beside)
    assert all(one.holds for one in checks), checks
    assert [one.name for one in checks].count("receipt") == 3
    said = session_heads.opened(head)
    assert (said["state"], said["rounds"], said["transcript"]) == (
        "succeeded",
        2,
        outcomes[0]["transcript"],
    )
    assert answer["certificate"]["guarantee"]["type"] == "pure_dp"
    assert len(answer["certificate"]["ledger_entry"]) == 3
    told = answer["certificate"]["federation"]
    assert told["roster"] == signing.digest(session["roster"].encode()).hex()
    assert told["owner"] == Identity.open(shared.owner_identity).fingerprint
    assert (told["agents"], told["rounds"]) == (3, 2)
    assert told["transcript"] == outcomes[0]["transcript"]
    for agent in agents:
        book = Ledger(agent.folder / "agent.ledger", Identity.open(agent.folder / "agent.key"))
        (entry,) = book.entries()
        assert entry.spent == (500_000_000, 0)
        (member,) = [one for one in session["agents"] if one["fingerprint"] == agent.fingerprint]
        receipt = member["receipt"]
        assert receipt["hash"] == entry.hash.hex()
        assert receipt["charge"] == entry.body["charge"]
        charged = signing.digest(receipt["charge"].encode())
        assert signing.booked(bytes.fromhex(receipt["link"]), receipt["seq"], charged) == entry.hash
        assert signing.is_signed(
            base64.b64decode(member["key"]),
            signing.ledger_entry(entry.hash),
            base64.b64decode(receipt["signature"]),
        )
        assert json.loads(entry.body["charge"])["account"] == member["account"]


def test_what_nobody_has_signed_is_not_sealed(shared: Federation) -> None:
    """No head before there is a roster, none of what is no session."""
    job = shared.submit(agents=2)
    with shared.client() as client:
        with pytest.raises(ApiError) as refused:
            client.session_statement(job)
        assert (refused.value.status, refused.value.code) == (409, "no_roster")
        with pytest.raises(ApiError) as refused:
            client.session_statement("job_nothing")
        assert refused.value.status == 404
        client.cancel(job)


def test_a_kind_without_mechanisms_charges_nobody_and_claims_no_epsilon(shared: Federation) -> None:
    job = shared.submit(agents=2, rounds=1, exact=True)
    agents = run(shared, job, 2)
    assert {agent.outcome()["state"] for agent in agents} == {"succeeded"}
    final(shared, job)
    with shared.client() as client:
        certificate = client.result(job)["certificate"]
        assert client.verify_certificate(certificate)["valid"]
        lie = {
            **certificate,
            "guarantee": {**certificate["guarantee"], "type": "pure_dp", "epsilon": 0, "delta": 0},
        }
        verdict = client.verify_certificate(lie)
    assert {**certificate["guarantee"], "unit": ""} == {
        **{"type": "cryptographic", "epsilon": None, "delta": None, "unit": ""},
        "neighbours": "one agent's integers differ",
    }
    # Under a signature that does not hold nothing is derived again.
    assert not verdict["valid"]
    assert "signature" in {check["name"] for check in verdict["checks"] if not check["holds"]}
    assert all(kinds == ["open"] for kinds in entries(shared, job).values())
    book = Ledger(agents[0].folder / "agent.ledger", Identity.open(agents[0].folder / "agent.key"))
    assert [entry.spent for entry in book.entries()] == [(0, 0)]


def test_a_cap_that_does_not_let_the_price_pass_refuses_the_roster_and_charges_nobody(
    shared: Federation,
) -> None:
    job = shared.submit(agents=2, epsilon="0.5")
    tokens = shared.invite(job, 2)
    shared.agent(tokens[0], name=f"{job}-rich")
    shared.agent(tokens[1], "--limit-epsilon", "0.4", name=f"{job}-poor")
    shared.joined(job, 2)
    with pytest.raises(ApiError) as refused:
        shared.approve(job)
    assert refused.value.code == "budget_exhausted"
    assert "only the agent can raise these limits" in refused.value.problem["detail"]
    assert refused.value.problem["binding"]["cap"]["epsilon"] == 0.4
    assert all(kinds == ["open"] for kinds in entries(shared, job).values())
    assert shared.job(job)["state"] == "awaiting_agents"
    with shared.client() as client:
        client.cancel(job)
    assert {agent.outcome()["state"] for agent in shared.agents[-2:]} == {"cancelled"}


def test_an_agent_refuses_work_beyond_its_own_limit(shared: Federation, tmp_path: Path) -> None:
    """Another server has charged it 0.8 before, which this one cannot know."""
    job = shared.submit(agents=2, epsilon="0.5")
    tokens = shared.invite(job, 2)
    folder = shared.folder / f"{job}-careful"
    folder.mkdir()
    other, key = Identity.generate(), Identity.open(folder / "agent.key")
    charge = json.dumps(
        {"job": "job_elsewhere", "price": {"epsilon": "800000000", "delta": "0"}}
    ).encode()
    Ledger(folder / "agent.ledger", key, limit_epsilon=Decimal(1)).charge(
        charge, other.sign(signing.charge(charge)), other.public_key
    )
    careful = shared.agent(tokens[0], name=f"{job}-careful")
    other_agent = shared.agent(tokens[1], name=f"{job}-other")
    shared.joined(job, 2)
    shared.approve(job)
    status, _, errors = careful.ended()
    assert status == 1
    assert "LimitExceeded: epsilon 1.3" in errors
    outcome = other_agent.outcome()
    assert (outcome["state"], outcome["code"]) == ("failed", "agent_declined")
    assert careful.answers == other_agent.answers == []
    assert all(kinds == ["open", "reserve", "release"] for kinds in entries(shared, job).values())
    book = Ledger(
        other_agent.folder / "agent.ledger", Identity.open(other_agent.folder / "agent.key")
    )
    assert [entry.body["kind"] for entry in book.entries()] == ["charge", "release"]
    assert book.entries()[-1].spent == (0, 0)


def test_a_killed_agent_goes_on_where_it_was(shared: Federation) -> None:
    job = shared.submit(agents=3, rounds=5, mode="simulation")
    agents = run(shared, job, 3, a2={"stop_at": 2})
    status, _, _ = agents[1].ended()
    assert status == -9
    assert shared.job(job)["state"] == "running"
    agents[1].start()
    outcomes = [agent.outcome() for agent in agents]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert all(once_each(agent, 5) for agent in agents)
    with shared.client() as client:
        assert client.result(job)["result"]["sums"] == sums(3, 5)


@pytest.mark.parametrize("fault", ["hang_at", "garbage_at"])
def test_abort_ends_the_job_when_an_agent_misses_a_round(shared: Federation, fault: str) -> None:
    job = shared.submit(agents=3, rounds=3, on_missing="abort", round_seconds=8.0)
    agents = run(shared, job, 3, a3={fault: 1})
    outcomes = [agent.outcome() for agent in agents[:2]]
    for outcome in outcomes:
        assert (outcome["state"], outcome["code"], outcome["rounds"]) == (
            "failed",
            "agent_missing",
            1,
        )
    error = final(shared, job)["error"]
    assert error["code"] == "agent_missing"
    assert "its full price was charged" in error["detail"]
    cause = {"hang_at": "no_answer", "garbage_at": "wrong_form"}[fault]
    named = [(one["fingerprint"], one["cause"]) for one in error["agents"]]
    assert named == [(agents[2].fingerprint, cause)]
    assert all([tuple(one) for one in outcome["blamed"]] == named for outcome in outcomes)
    assert shared.cli("show", job)["error"]["agents"] == error["agents"]
    assert all(
        kinds[-1] == "commit" for kinds in entries(shared, job).values()
    )  # a message was accepted before


def test_a_failed_session_starts_again_without_whom_its_error_names(shared: Federation) -> None:
    job = shared.submit(
        agents=3, rounds=3, on_missing="abort", round_seconds=8.0, mode="simulation"
    )
    agents = run(shared, job, 3, a3={"garbage_at": 1})
    assert final(shared, job)["state"] == "failed"
    made = shared.cli("again", job)
    assert shared.cli("again", job) == made  # asked twice, it is the same job
    staying = sorted(agent.fingerprint for agent in agents[:2])
    assert made["agents"] == staying
    found = shared.cli("show", made["job"])
    assert [one["fingerprint"] for one in found["agents"]] == staying
    for agent in agents[:2]:
        agent.outcome()
        agent.token = made["link"]
        agent.start()
    shared.approve(made["job"])
    assert [agent.outcome()["state"] for agent in agents[:2]] == ["succeeded"] * 2
    with shared.client() as client:
        assert client.result(made["job"])["result"]["sums"] == sums(2, 3)
        with pytest.raises(ApiError) as refused:
            client.start_session_again(made["job"])
        assert refused.value.code == "not_failed"


@pytest.mark.parametrize("fault", ["hang_at", "garbage_at"])
def test_finish_goes_on_with_a_quorum(shared: Federation, fault: str) -> None:
    job = shared.submit(
        agents=3, rounds=4, on_missing="finish", quorum=2, round_seconds=8.0, mode="simulation"
    )
    agents = run(shared, job, 3, a3={fault: 1})
    assert [agent.outcome()["state"] for agent in agents[:2]] == ["succeeded"] * 2
    with shared.client() as client:
        found = client.result(job)["result"]["sums"]
    whole = sums(3, 4)
    assert found[0] == whole[0]
    assert found[1] == whole[1] - 31
    # Garbage harms its own round only; a process that hangs misses all that follow.
    later = [whole[n] - (30 + n if fault == "hang_at" else 0) for n in (2, 3)]
    assert found[2:] == later


def test_finish_fails_below_its_quorum(shared: Federation) -> None:
    job = shared.submit(
        agents=3, rounds=2, on_missing="finish", quorum=3, round_seconds=1.5, mode="simulation"
    )
    agents = run(shared, job, 3, a1={"hang_at": 0})
    assert agents[1].outcome()["code"] == "quorum_lost"
    assert final(shared, job)["error"]["code"] == "quorum_lost"


def test_a_kind_ends_its_session_with_a_fixed_code_of_its_own(shared: Federation) -> None:
    job = shared.submit(agents=2, rounds=5, mode="simulation", forbidden=30 + 2)
    agents = run(shared, job, 2)
    outcome = agents[0].outcome()
    assert (outcome["state"], outcome["code"], outcome["rounds"]) == ("failed", "forbidden_sum", 1)
    detail = f"the sum is not allowed; {endings.NOTHING_RESERVED}"
    assert final(shared, job)["error"] == {"code": "forbidden_sum", "detail": detail}


def test_a_session_whose_step_crashes_ends_when_it_may_not_be_tried_again(
    shared: Federation,
) -> None:
    job = shared.submit(agents=2, rounds=3, crash_at=1)
    agents = run(shared, job, 2)
    assert agents[0].outcome()["code"] == "session_failed"
    error = final(shared, job)["error"]
    assert error["code"] == "session_failed"
    assert error["detail"] == f"{endings.FAILURES['session_failed']}; {endings.IN_FULL}"
    assert all(
        kinds == ["open", "reserve", "data_touched", "commit"]
        for kinds in entries(shared, job).values()
    )


def test_the_time_to_join_passes(shared: Federation) -> None:
    job = shared.submit(agents=2, join_seconds=3.0)
    tokens = shared.invite(job, 2)
    gone = shared.agent(tokens[0], name=f"{job}-gone")
    shared.joined(job, 1)
    gone.kill()
    stays = shared.agent(tokens[1], name=f"{job}-stays")
    shared.joined(job, 2)
    shared.approve(job)
    assert stays.outcome()["code"] == "agents_absent"
    assert all(kinds == ["open", "reserve", "release"] for kinds in entries(shared, job).values())


def test_a_running_session_is_cancelled_and_charged(shared: Federation) -> None:
    job = shared.submit(agents=2, rounds=1000)
    agents = run(shared, job, 2, a1={"pause": 0.1})
    eventually(lambda: shared.round_of(job) > 1, "some rounds were run")
    with shared.client() as client:
        client.cancel(job)
    assert {agent.outcome()["state"] for agent in agents} == {"cancelled"}
    assert final(shared, job)["state"] == "cancelled"
    assert all(kinds[-1] == "commit" for kinds in entries(shared, job).values())


def test_an_agent_that_comes_after_the_end_is_told(shared: Federation) -> None:
    job = shared.submit(
        agents=2, rounds=2, on_missing="finish", quorum=1, round_seconds=8.0, mode="simulation"
    )
    agents = run(shared, job, 2, a2={"stop_at": 1})
    agents[1].ended()
    first = agents[0].outcome()
    final(shared, job)
    agents[1].start()
    late = agents[1].outcome()
    assert {**late, "kept": 0} == {**first, "kept": 0}
    assert late["kept"] == 1
    agents[0].start()  # and one that knows already does not ask
    assert agents[0].outcome() == first


def test_an_agent_that_comes_again_before_the_roster_announces_what_it_has_now(
    shared: Federation,
) -> None:
    """Else the owner would sign the old figures, and the agent refuse them."""
    job = shared.submit(agents=1, rounds=1, mode="simulation")
    agent = shared.agent(*shared.invite(job, 1), name=f"{job}-1", announcement={"zone": 1})
    shared.joined(job, 1)
    agent.kill()
    agent.problem["announcement"] = {"zone": 2}
    agent.start()
    with shared.client() as client:
        eventually(
            lambda: client.session(job)["agents"][0]["announcement"] == {"zone": 2},
            "it has enrolled anew",
        )
    shared.approve(job)
    assert agent.outcome()["state"] == "succeeded"


def test_a_standing_group_needs_no_tokens(shared: Federation) -> None:
    first = shared.submit(agents=2, rounds=1, epsilon="0.3")
    agents = [
        shared.agent(token, name=f"{first}-{n}") for n, token in enumerate(shared.invite(first, 2))
    ]
    shared.joined(first, 2)
    shared.approve(first, save_as="the two")
    assert {agent.outcome()["state"] for agent in agents} == {"succeeded"}
    second = shared.submit(agents=2, rounds=1, epsilon="0.3")
    made = shared.cli("tokens", second, "--group", "the two")
    assert made["links"] == []
    assert Link.parse(made["link"]).token == ""
    shared.cli("approve", second)
    for agent in agents:
        agent.token = made["link"]
        agent.start()
    assert {agent.outcome()["state"] for agent in agents} == {"succeeded"}
    third = shared.submit(agents=2, rounds=1, epsilon="0.5")  # 0.3 + 0.3 are spent of 1
    link = shared.cli("tokens", third, "--group", "the two")["link"]
    assert link is not None
    with pytest.raises(ApiError) as refused:
        shared.approve(third)
    assert refused.value.code == "budget_exhausted"
    shown = shared.cli("show", third)
    assert [one["on_roster"] for one in shown["agents"]] == [False, False]


def test_only_the_pinned_owner_signs_rosters_of_enrolled_agents(
    shared: Federation, tmp_path: Path
) -> None:
    job = shared.submit(agents=2, mode="simulation")
    agents = [
        shared.agent(token, name=f"{job}-{n}") for n, token in enumerate(shared.invite(job, 2))
    ]
    shared.joined(job, 2)
    pinned = shared.folder
    try:
        shared.folder = tmp_path
        with pytest.raises(ApiError) as refused:
            shared.approve(job)
        assert refused.value.code == "owner_differs"
    finally:
        shared.folder = pinned
    owner = Identity.open(shared.owner_identity)
    with shared.client() as client:
        found = client.session(job)

        def hand_in(change: Any, *, sign: bool = True) -> str:
            body = {"version": 1, "session": found["id"], "job": job, "kind": "noisy_sum"}
            columns = ("name", "fingerprint", "key", "announcement")
            body["agents"] = [{name: one[name] for name in columns} for one in found["agents"]]
            change(body)
            text = json.dumps(body)
            statement = signing.roster(text.encode() if sign else b"other")
            with pytest.raises(ApiError) as error:
                client.approve_session(
                    job,
                    roster=text,
                    signature=base64.b64encode(owner.sign(statement)).decode(),
                    owner_key=base64.b64encode(owner.public_key).decode(),
                )
            return error.value.code

        assert hand_in(lambda body: None, sign=False) == "roster_signature"
        for change in (
            lambda body: body.update(session="ses_other"),
            lambda body: body["agents"].reverse(),
            lambda body: body["agents"].pop(),
            lambda body: body["agents"].append(body["agents"][0]),
            lambda body: body["agents"][0].update(name="somebody else"),
            lambda body: body["agents"][0].update(key=base64.b64encode(bytes(32)).decode()),
            lambda body: body.pop("agents"),
        ):
            assert hand_in(change) == "invalid_input"
        client.cancel(job)
    assert {agent.outcome()["state"] for agent in agents} == {"cancelled"}


def test_the_certificate_of_our_own_making_is_of_the_name_that_agents_ask_for() -> None:
    from discreet.usecases.rpc_tls import NAME
    from discreet_agent.connection import PINNED_NAME

    assert NAME == PINNED_NAME
    pem, _ = self_signed((NAME, "127.0.0.1"))
    names = (
        x509.load_pem_x509_certificate(pem)
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert names.get_values_for_type(x509.DNSName) == ["discreet.rpc"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_a_session_that_nobody_signs_ends(shared: Federation) -> None:
    """An agent waits; the owner does not sign. The job says until when it waits, and fails; nothing
    is charged."""
    job = shared.submit(agents=2, approve_seconds=86400.0)
    agent = shared.agent(shared.invite(job, 1)[0], name=f"{job}-waits")
    shared.joined(job, 1)

    async def let_pass() -> None:
        """As if a day had passed."""
        async with (
            open_services(shared.settings) as services,
            services.database.transaction(SYSTEM) as connection,
        ):
            change = """UPDATE sessions SET terms = terms || '{"approve_seconds": 0.5}'
                WHERE job_id = :job"""
            await connection.execute(text(change), {"job": job})

    with shared.client() as client:
        began, until = (
            datetime.fromisoformat(found)
            for found in (client.job(job)["created_at"], client.session(job)["approve_by"])
        )
        assert until - began == timedelta(days=1)
        assert client.job(job)["state"] == "awaiting_agents"
        asyncio.run(let_pass())
        ended = final(shared, job)
        assert (ended["state"], ended["error"]["code"]) == ("failed", "roster_unsigned")
        assert client.session(job)["approve_by"] is None
    assert list(entries(shared, job).values()) == [["open"]]
    assert "roster_unsigned" in "".join(map(str, agent.ended()[1:]))
