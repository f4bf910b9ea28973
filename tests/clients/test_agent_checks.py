"""What an agent is given is converted and checked before it joins; what it may open adds up."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from discreet_agent import Agent, Demands, coupled_qp, multi_agent, secure_sum
from discreet_agent import agent as agent_module
from discreet_agent.cost_terms import Power
from discreet_agent.costs import ConvexCost, QuadraticCost
from discreet_agent.exposure import Opens, crowd
from discreet_agent.federation import signing, spoken
from discreet_agent.federation.errors import AgentError, Refused, Unfit
from discreet_agent.federation.identity import Identity
from discreet_agent.ledger import Ledger


class Joined(Exception):
    """The agent has gone to the server."""


class Party:
    """An agent that would join."""

    announcement: dict[str, Any] = {"lower": -1.0, "upper": 1.0, "radius": 1.0}  # noqa: RUF012

    def participate(self, step: Any) -> Any:
        raise Joined


DATA: dict[str, Any] = {"A_u": [[1.0]], "A_g": [[1.0]], "upper": [5.0]}


def test_lists_are_as_good_as_arrays() -> None:
    """Before, they died in a round with an AttributeError, and the job stayed running."""
    cost = QuadraticCost([[1.0]], [-2.0])  # type: ignore[arg-type]
    assert cost.gradient(np.array([3.0])).tolist() == [4.0]
    term = Power([[1.0]], [0.5], power=3.0)  # type: ignore[arg-type]
    for given in (cost, ConvexCost(cost, [term])):  # type: ignore[arg-type]
        with pytest.raises(Joined):
            coupled_qp.solve(Party(), cost=given, **DATA)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cost": {"A_q": [[1.0]]}}, "cost must be"),
        ({"A_u": [["x"]]}, "could not convert"),
        ({"budget": ("a", "b")}, "could not convert"),
        ({"budget": 3.0}, "not iterable"),
        ({"primal": "small"}, "could not convert"),
        ({"demands": {"agents": 3}}, "demands must be"),
        ({"upper": float("nan")}, "lower <= upper"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_before_anybody_is_met(
    changes: dict[str, Any], says: str
) -> None:
    data = {**DATA, "cost": QuadraticCost(np.array([[1.0]]), np.array([-2.0])), **changes}
    with pytest.raises(AgentError, match=says):
        coupled_qp.solve(Party(), **data)  # type: ignore[arg-type]


def test_a_cost_that_fails_is_found_before_anybody_is_met() -> None:
    class Broken(ConvexCost):
        def gradient(self, x: Any) -> Any:
            return x * np.nan

    cost = Broken(QuadraticCost(np.array([[1.0]]), np.array([-2.0])), ())
    with pytest.raises(AgentError, match="no step"):
        coupled_qp.solve(Party(), cost=cost, **DATA)  # type: ignore[arg-type]


@pytest.mark.parametrize("initial", ["here", [0.0, 1.0], float("inf"), [[0.0]]], ids=str)
def test_an_initial_state_is_checked_before(initial: Any) -> None:
    with pytest.raises(AgentError, match="initial state"):
        multi_agent.minimize(Party(), lambda x: x, initial=initial)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "demands",
    [{"agents": "3"}, {"rounds": 2.5}, {"exposure": "yes"}, {"known": "a" * 64}, {"known": [1]}],
    ids=str,
)
def test_demands_are_checked_when_they_are_made(demands: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(demands))):
        Demands(**demands)


# What jobs open adds up


def test_chances_of_jobs_add_up() -> None:
    assert crowd(10) == 100
    assert crowd(10, Fraction(10, 200)) == 200
    assert crowd(10, Opens(10, 100).share) is None  # a tenth for each agent is all there is
    assert crowd(0, Fraction(1)) == 0


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", Identity.generate())


def booked(ledger: Ledger, job: str, opens: Opens) -> None:
    server = Identity.generate()
    price = {"epsilon": "0", "delta": "0"}
    document = json.dumps({"session": "ses_x", "job": job, "price": price}).encode()
    ledger.charge(document, server.sign(signing.charge(document)), server.public_key, opens)


def test_an_agent_takes_part_in_no_third_job_that_opens_too_much(ledger: Ledger) -> None:
    """100 agents and 10 numbers passed three times without a word."""
    sums = secure_sum.Parameters(dimension=5, rounds=2, bound=1.0, scheme="masking")
    keys = [bytes([place]) * 32 for place in range(100)]
    Demands().check(sums, keys, ledger.exposed(but="a"))
    booked(ledger, "a", Opens(10, 100))
    Demands().check(sums, keys, ledger.exposed(but="a"))  # the same job once more
    with pytest.raises(Unfit, match=r"in its jobs before.*with any number of agents"):
        Demands().check(sums, keys, ledger.exposed(but="b"))
    accepted = secure_sum.Parameters(
        dimension=5, rounds=2, bound=1.0, scheme="masking", exposure="accepted"
    )
    Demands(exposure="accepted").check(accepted, keys, ledger.exposed(but="b"))


def test_a_ledger_counts_what_was_opened_in_the_end(ledger: Ledger) -> None:
    booked(ledger, "a", Opens(400, 100))
    assert ledger.exposed(but="x") == 4
    ledger.opened("a", 10)
    ledger.opened("a", 5)  # said once
    assert ledger.exposed(but="x") == Fraction(1, 10)
    booked(ledger, "b", Opens(30, 100))
    ledger.release("b")
    assert ledger.exposed(but="x") == Fraction(1, 10)
    assert [entry.body["kind"] for entry in ledger.entries()] == [
        "charge",
        "opened",
        "charge",
        "release",
    ]
    assert ledger.receipt("a")["signatures"]
    assert ledger.has("a")
    assert not ledger.has("b")
    booked(ledger, "a", Opens(400, 100))  # again, in another process: nothing is booked twice
    assert len(ledger.entries()) == 4


# What an agent speaks


def test_who_lacks_something_is_named() -> None:
    needed = (spoken.SECURE_SUMS, "paillier", "auto")
    assert not spoken.refusal("x", needed, spoken.AGENT)
    says = spoken.refusal("ward 3", needed, ("discreet/secure-sum/v2", "masking", "spds"))
    assert says.startswith("agent ward 3 does not speak paillier, auto")
    assert "names nothing" in spoken.refusal("x", needed, ())


# A crowd of agents


class Turned(grpc.RpcError):
    """The server has no place at this moment."""

    def __init__(self, status: grpc.StatusCode, code: str) -> None:
        self._status, self._code = status, code

    def code(self) -> grpc.StatusCode:
        return self._status

    def details(self) -> str:
        return "come again"

    def trailing_metadata(self) -> list[tuple[str, str]]:
        return [("discreet-code", self._code)]


def test_a_crowd_is_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 agents of one machine: some were refused for good with too_many_streams."""
    pauses: list[float] = []
    monkeypatch.setattr(agent_module.time, "sleep", pauses.append)
    token = f"dsc://127.0.0.1:1/ses_1?token=x&server={'a' * 64}&owner={'b' * 64}"
    agent = Agent.from_token(token, tmp_path / "agent.key")
    turned = [Turned(grpc.StatusCode.RESOURCE_EXHAUSTED, "too_many_streams")] * 9

    def enroll() -> str:
        if turned:
            raise turned.pop()
        return "acc_1"

    assert agent._patiently(enroll) == "acc_1"
    assert len(pauses) == 9
    assert max(pauses) > 5
    with pytest.raises(Refused):
        agent._patiently(
            lambda: (_ for _ in ()).throw(
                Turned(grpc.StatusCode.RESOURCE_EXHAUSTED, "too_many_messages")
            )
        )
