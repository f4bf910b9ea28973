"""Whose message ends a session, and why: the causes that sessions tell."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import Exposed
from discreet.privacy.noise import Noise
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.problems.coupled_qp.session import SumSession
from discreet.problems.federation import CAUSES, Member, SessionFailed
from discreet.problems.multi_agent.session import CloudSession
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet.rpc.session_child import known_causes
from discreet_agent import secure_sum
from discreet_agent.exposure import Opens
from discreet_agent.federation.signing import fingerprint

SPEC: dict[str, Any] = {
    "kind": "coupled_qp",
    "operator": {"c": [1], "d": [-1]},
    "agents": {"count": 3, "coupled": 1, "constraints": 1},
    "steps": {"primal": 0.016, "dual": 0.8, "shrink": 0.99, "iterations": 20},
    "encryption": {"scheme": "masking"},
    "protocol": "federated",
    "federation": {"agents": 3},
    "exposure": "accepted",
}
NOTHING = Budget(epsilon=0, delta=0)


def plan_of(**changes: Any) -> tuple[CoupledQp, Plan]:
    problem = CoupledQp.model_validate({**SPEC, **changes})
    return problem, problem.plan_federation((), NOTHING)


class Running:
    """A session of sums with three agents, at their first contributions."""

    def __init__(self) -> None:
        _, plan = plan_of()
        identities = [Ed25519PrivateKey.generate() for _ in range(3)]
        keys = [one.public_key().public_bytes_raw() for one in identities]
        self.names = [fingerprint(key) for key in keys]
        members = [Member(name, "", key, {}) for name, key in zip(self.names, keys, strict=True)]
        self.session = SumSession(plan, members, np.zeros(2))
        self.agents = [
            secure_sum.Agent(one, lambda document: True, Still(), secure_sum.MemoryJournal())
            for one in identities
        ]
        self.identities = identities
        self.broadcast = self.session.opening(Noise.secure())
        self.number = 0

    def answers(self) -> dict[str, bytes]:
        return {
            name: agent.answer(self.broadcast)
            for name, agent in zip(self.names, self.agents, strict=True)
        }

    def until(self, number: int) -> dict[str, bytes]:
        """The answers to this exchange."""
        while self.number < number:
            said = self.answers()
            assert all(self.session.accepts(self.number, *one) for one in said.items())
            self.broadcast = self.session.step(self.number, said, Noise.secure())
            self.number += 1
        return self.answers()


class Still:
    """An optimizer that stays where it is."""

    def __call__(self, sums: Any) -> Any:
        return np.array([1.0, 1.0])

    def settled(self, tolerance: float) -> bool:
        return False


def test_each_fault_of_a_frame_has_its_cause() -> None:
    running = Running()
    said = running.until(3)
    first, second, _ = running.names
    frame, fault = said[first], running.session.fault
    assert fault(3, first, frame[:-1] + bytes([frame[-1] ^ 1])) == "bad_signature"
    assert fault(3, first, said[second]) == "wrong_frame"
    assert fault(3, first, b"short") == "wrong_frame"
    assert fault(3, first, b"") == "no_answer"
    assert fault(3, first, frame) == ""
    machine, identity = running.agents[0], running.identities[0]
    machine.round, before = 0, machine._previous
    machine._previous = machine._who.hash
    other = machine._frame(secure_sum.Kind.CONTRIBUTION, 0, bytes(len(frame) - 11 - 64))
    assert fault(3, first, other) == "contradiction"
    machine._previous = before
    assert identity is machine.identity


def test_a_contribution_that_cannot_be_read_names_its_agent() -> None:
    running = Running()
    running.until(3)
    machine = running.agents[0]
    short = machine._frame(secure_sum.Kind.CONTRIBUTION, 0, b"12345678")
    assert running.session.fault(3, running.names[0], short) == "unreadable"


def test_a_dealer_that_has_not_dealt_to_all_is_named() -> None:
    running = Running()
    said = running.until(1)
    dealer = running.agents[0]
    said[running.names[0]] = dealer._frame(secure_sum.Kind.DEAL, 0, bytes(40))
    with pytest.raises(SessionFailed) as failed:
        running.session.step(1, said, Noise.secure())
    assert failed.value.code == "protocol_broken"
    assert failed.value.blamed == {running.names[0]: "unreadable"}


class Other(Still):
    """One that says of the sums what others do not say."""

    alone = True

    def natural(self, entry: int, value: float) -> float:
        return value

    def settled(self, tolerance: float) -> bool:
        return True


def test_one_that_says_another_kind_of_sum_is_named() -> None:
    """Nothing is opened: with or without the operator's part, it would be wrong for some."""
    for liars, named in (([1], [1]), ([0, 1], [2])):  # of whom most are is held for true
        running = Running()
        for place in liars:
            running.agents[place]._update = Other()
        said = running.until(3)
        with pytest.raises(SessionFailed) as failed:
            running.session.step(3, said, Noise.secure())
        assert failed.value.blamed == {running.names[place]: "wrong_frame" for place in named}
        assert running.session._machine.opened == 0


def test_where_half_differ_nobody_is_named() -> None:
    said = {place: place % 2 for place in range(4)}
    differ = Running().session._machine._differ
    assert differ("what they answer", said).agents == ()
    assert differ("what they answer", {**said, 4: 0}).agents == (1, 3)


def test_a_state_that_is_no_number_is_called_that() -> None:
    session = CloudSession.__new__(CloudSession)
    session._steps, session._span = 5, {"a": slice(0, 2)}
    assert session.fault(1, "a", struct.pack("!2d", 1.0, math.nan)) == "not_a_number"
    assert session.fault(1, "a", struct.pack("!2d", math.inf, 1.0)) == "not_a_number"
    assert session.fault(1, "a", struct.pack("!d", 1.0)) == "wrong_form"
    assert session.fault(1, "a", struct.pack("!2d", 1.0, 2.0)) == ""


def test_a_child_tells_fixed_names_alone() -> None:
    """It has read what agents sent."""
    assert known_causes({"a": "not_a_number", "b": "x is 7.3"}) == {
        "a": "not_a_number",
        "b": "wrong_form",
    }
    assert "wrong_form" in CAUSES


# What a group opens over jobs


def test_a_plan_opens_so_many_numbers() -> None:
    """Of 20 steps, sizes and votes."""
    problem, plan = plan_of()
    assert problem.opens(plan, 3) == Opens(44, 3)
    opened = [problem.opens(plan, 3, rounds).numbers for rounds in (0, 3, 4, 23, 25, 26)]
    assert opened == [0, 0, 2, 40, 44, 44]


def test_a_group_that_has_opened_enough_is_refused() -> None:
    """100 agents × 10 numbers passed three times without a word."""
    few = {
        "agents": {"count": 100, "coupled": 1, "constraints": 1},
        "federation": {"agents": 100},
        "steps": {**SPEC["steps"], "iterations": 3},
    }
    problem, plan = plan_of(**few, exposure=None)
    opened = problem.opens(plan, 100)
    assert opened == Opens(10, 100)
    problem.refuse_exposed(plan, 100, 0 * opened.share)
    with pytest.raises(Exposed, match="in jobs before"):
        problem.refuse_exposed(plan, 100, opened.share)
    with pytest.raises(Exposed, match="too many for any number of agents"):
        problem.refuse_exposed(plan, 100, 2 * opened.share)
    accepted, same = plan_of(**few)
    accepted.refuse_exposed(same, 100, 2 * opened.share)


def test_a_session_goes_on_with_those_who_are_left() -> None:
    problem, _ = plan_of(
        agents={"count": 4, "coupled": 1, "constraints": 1}, federation={"agents": 4}
    )
    left = problem.without_agents(3)
    assert left.agents.count == 3  # type: ignore[union-attr]
    assert left.terms is not None
    assert left.terms.agents == left.terms.least == 3
    left.plan_federation((), NOTHING)


def test_what_a_session_needs_its_agents_to_speak() -> None:
    assert plan_of()[0].needed == ("discreet/secure-sum/v2", "masking", "spds")
    standard = {name: SPEC[name] for name in SPEC if name not in ("steps", "encryption")}
    assert CoupledQp.model_validate(standard).needed[1:] == ("paillier", "auto")
