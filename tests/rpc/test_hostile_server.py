"""The pinned server lies to its agents: each lie ends the agent, and costs it nothing that its
ledger does not say."""

from __future__ import annotations

import json
import resource
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from discreet_agent import (
    Agent,
    AgentError,
    LimitExceeded,
    NotTrusted,
    Outcome,
    Round,
    Tls,
)
from discreet_agent.cli import main
from discreet_agent.federation import history, signing
from discreet_agent.federation.errors import FolderLost
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.stream_keys import Exchange
from discreet_agent.multi_agent import minimize
from discreet_agent.rounds import Program
from discreet_agent.stubs import federation_pb2 as pb
from tests.rpc.hostile import ANNOUNCED, SMALL_ORDER, Hostile, Listener, end, hostile, round_of

SPENT = 800_000_000


@pytest.fixture
def server() -> Iterator[Hostile]:
    with hostile() as made:
        yield made


def agent_of(server: Hostile, folder: Path, session: str, **options: Any) -> Agent:
    fields = {"patience_seconds": 3.0, "announcement": {**ANNOUNCED, "lower": -1.0}, **options}
    return Agent.from_token(server.link(session), folder / "agent.key", **fields)


def take_part(agent: Agent) -> Outcome:
    return agent.participate(lambda current: b"answer %d" % current.number)


def spend(server: Hostile, folder: Path) -> Agent:
    """An honest session that costs the agent 0.8 of 1."""
    agent = agent_of(server, folder, "ses_1")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, epsilon=str(SPENT))
        listener.hear()
        yield round_of(0)
        listener.hear()
        yield end(charged=True, state="succeeded")

    server.script = script
    assert take_part(agent).succeeded
    assert spent(agent) == SPENT
    return agent


def spent(agent: Agent) -> int:
    return agent.ledger.entries()[-1].spent[0]


def test_the_end_of_one_session_gives_back_no_charge_of_another(
    server: Hostile, tmp_path: Path
) -> None:
    """The owner signs a second roster under the first job's name; the charge is of a job that costs
    nothing."""
    spend(server, tmp_path)
    agent = agent_of(server, tmp_path, "ses_2")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_2", agent.identity, charged_job="job_2")
        listener.hear()
        yield end(charged=False)

    server.script = script
    with pytest.raises(NotTrusted, match="another agent, session or job"):
        take_part(agent)
    assert spent(agent) == SPENT
    assert len(agent.ledger.entries()) == 1


def test_the_same_job_cannot_be_charged_in_another_session_either(
    server: Hostile, tmp_path: Path
) -> None:
    spend(server, tmp_path)
    agent = agent_of(server, tmp_path, "ses_2")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_2", agent.identity, epsilon="0")
        listener.hear()
        yield end(charged=False)

    server.script = script
    with pytest.raises(FolderLost, match="has taken part"):
        take_part(agent)
    assert spent(agent) == SPENT


def test_an_ended_session_that_goes_on_gets_no_answer_for_nothing(
    server: Hostile, tmp_path: Path
) -> None:
    """The agent's memory of the end was lost, its ledger was not: the charge has been given
    back."""
    agent = agent_of(server, tmp_path, "ses_1")

    def ends(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, epsilon=str(SPENT))
        listener.hear()
        yield end(charged=False)

    server.script = ends
    assert not take_part(agent).succeeded
    assert spent(agent) == 0
    (tmp_path / "agent.state" / "ses_1.json").unlink()
    server.heard.clear()

    def goes_on(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, epsilon=str(SPENT))
        listener.hear()
        yield round_of(0)
        listener.hear()

    server.script = goes_on
    with pytest.raises(LimitExceeded, match="given back"):
        take_part(agent_of(server, tmp_path, "ses_1"))
    assert not any(isinstance(said, pb.Contribution) for said in server.heard)


def test_no_round_beyond_the_planned_ones(server: Hostile, tmp_path: Path) -> None:
    agent = agent_of(server, tmp_path, "ses_1")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, rounds=2)
        listener.hear()
        for number in (0, 1, 2):
            yield round_of(number)
            listener.hear()

    server.script = script
    with pytest.raises(NotTrusted, match="round 2 of 2"):
        take_part(agent)
    assert [said.body for said in server.heard[1:]] == [b"answer 0", b"answer 1"]


@pytest.mark.parametrize(
    "lie", [{"name": "another"}, {"announcement": {**ANNOUNCED, "radius": 0.01}}]
)
def test_the_owner_has_signed_what_this_agent_has_announced(
    server: Hostile, tmp_path: Path, lie: Any
) -> None:
    """With a smaller radius than the agent's there would be less noise than it asks for."""
    agent = agent_of(server, tmp_path, "ses_1")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, **lie)

    server.script = script
    with pytest.raises(NotTrusted, match="other figures"):
        take_part(agent)
    assert agent.ledger.entries() == []


UNREADABLE: list[Any] = [
    b"\xff\xff",
    b"",
    {"challenge": pb.Challenge()},
    {"charge": {"price": {}}},
    {"charge": {"price": []}},
    {"charge": {"agent": None}},
    {"parameters": b"["},
    {"parameters": b"[" * 100_000},
]


@pytest.mark.parametrize("lie", UNREADABLE, ids=[str(n) for n in range(len(UNREADABLE))])
def test_what_cannot_be_read_is_one_line_and_no_crash(
    server: Hostile, tmp_path: Path, lie: Any
) -> None:
    agent = agent_of(server, tmp_path, "ses_1")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        if isinstance(lie, bytes) or "challenge" in lie:
            yield lie
            return
        start = server.start("ses_1", agent.identity, charge=lie.get("charge"))
        start["start"].parameters = lie.get("parameters", b"{}")
        yield start

    server.script = script
    with pytest.raises(NotTrusted):
        take_part(agent)
    assert agent.ledger.entries() == []
    spend(server, tmp_path)  # key, ledger and memory are as good as before


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        ({"challenge": {"exchange": b""}}, "speaks an older version of the protocol"),
        *(({"challenge": {"exchange": key}}, "no secret can be agreed on") for key in SMALL_ORDER),
        ({"challenge": {"exchange": b"e" * 31}}, "no secret can be agreed on"),
        ({"in_the_middle": {"exchange": Exchange().public}}, "challenge is not signed"),
        ({"in_the_middle": {"exchange": b""}}, "challenge is not signed"),
        ({"in_the_middle": {"nonce": b"m" * 32}}, "challenge is not signed"),
    ],
)
def test_nothing_is_said_on_a_stream_without_a_key(
    server: Hostile, tmp_path: Path, lie: dict[str, Any], says: str
) -> None:
    """Nor is a signature given in its place, as to a server of an older version."""
    agent = agent_of(server, tmp_path, "ses_1")
    server.script = lambda server, listener: iter([server.start("ses_1", agent.identity)])
    for name, value in lie.items():
        setattr(server, name, value)
    with pytest.raises(NotTrusted, match=says):
        take_part(agent)
    assert (server.streams, server.heard) == (0, [])
    server.challenge, server.in_the_middle = {}, None
    spend(server, tmp_path)


def test_a_steps_own_error_is_not_taken_for_a_break(server: Hostile, tmp_path: Path) -> None:
    agent = agent_of(server, tmp_path, "ses_1")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity)
        listener.hear()
        yield round_of(0)
        listener.hear()

    def step(current: Round) -> bytes:
        raise ConnectionRefusedError("the meter does not answer")

    server.script = script
    with pytest.raises(ConnectionRefusedError, match="meter"):
        agent.participate(step)
    assert server.streams == 1


def test_a_file_that_cannot_be_used_is_not_taken_for_a_break(
    server: Hostile, tmp_path: Path
) -> None:
    """Neither a certificate nor the ledger: a silent server would be blamed, after all patience."""
    agent = agent_of(server, tmp_path, "ses_1", tls=Tls(authorities=tmp_path / "missing.pem"))
    with pytest.raises(AgentError, match=r"missing\.pem: No such file"):
        take_part(agent)

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity)

    server.script = script
    agent = agent_of(server, tmp_path, "ses_1")
    agent.enroll()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        with pytest.raises(AgentError, match="cannot be written: File too large"):
            take_part(agent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_two_processes_do_not_answer_for_one_agent(server: Hostile, tmp_path: Path) -> None:
    first, second = (agent_of(server, tmp_path, "ses_1") for _ in range(2))

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", first.identity)
        listener.hear()
        yield round_of(0)
        listener.hear()
        yield end(charged=True)

    def step(current: Round) -> bytes:
        with pytest.raises(AgentError, match="another process"):
            take_part(second)
        return b"the first's"

    server.script = script
    first.participate(step)
    assert [said.body for said in server.heard[1:]] == [b"the first's"]
    assert take_part(second).state == "failed"  # it knows what the first has seen


@pytest.mark.parametrize("again", [False, True])
def test_one_delivery_a_round(server: Hostile, tmp_path: Path, again: bool) -> None:
    """Another for the same round is a contradiction; the same is answered with the same bytes, of
    which the answer says that they answer it."""
    agent = agent_of(server, tmp_path, "ses_1")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity)
        listener.hear()
        for delivery in (b"one", b"one" if again else b"another"):
            yield round_of(0, delivery=delivery)
            listener.hear()
        yield end(charged=True)

    server.script = script
    asked = []

    def step(current: Round) -> bytes:
        asked.append(current.delivery)
        return b"answer"

    if again:
        agent.participate(step)
    else:
        with pytest.raises(NotTrusted, match="two different broadcasts"):
            agent.participate(step)
    assert asked == [b"one"]
    told = [said for said in server.heard if isinstance(said, pb.Contribution)]
    assert [said.body for said in told] == [b"answer"] * (2 if again else 1)
    assert {said.answers for said in told} == {signing.answers(b"b", b"one")}


@pytest.mark.parametrize("reached", [2, 3])
def test_a_session_that_ends_before_data_costs_nothing(
    server: Hostile, tmp_path: Path, reached: int
) -> None:
    """A step that says from which round on its answers hold data: what was answered before is no
    reason to keep the charge. Afterwards it is, whatever the server says."""
    agent = agent_of(server, tmp_path, "ses_1")

    class Steps(Program):
        first_round_with_data = 2

        def __call__(self, current: Round) -> bytes:
            return b"answer"

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, epsilon=str(SPENT))
        listener.hear()
        for number in range(reached):
            yield round_of(number)
            listener.hear()
        yield end(charged=False)

    server.script = script
    assert not agent.participate(Steps()).succeeded
    assert spent(agent) == (0 if reached == 2 else SPENT)


# multi_agent --------------------------------------------------------------------------------------


def parameters(low: float, high: float) -> dict[str, Any]:
    schedule = {"gamma": 0.1, "alpha": 0.1, "c1": 0.5, "c2": 0.2}
    return {
        "box": [["agent", low, high]],
        "layout": [[0, None], [0, "agent"]],
        "schedule": schedule,
    }


def cloud(server: Hostile, agent: Agent, low: float, high: float, other: bytes = b"") -> None:
    """Two rounds, the second as if `other` had been the end of the first."""

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, parameters=parameters(low, high))
        listener.hear()
        opening = bytes(32) + struct.pack("!d", 0.0)
        yield round_of(0, opening)
        listener.hear()
        yield round_of(1, (other or history.after(opening)) + struct.pack("!ddd", 0.0, 0.0, 0.0))
        listener.hear()
        yield end(charged=True)

    server.script = script


@pytest.mark.parametrize(("low", "high"), [(-1.5, 2.0), (-1.0, 3.0)])
def test_the_range_is_within_the_announced_one(
    server: Hostile, tmp_path: Path, low: float, high: float
) -> None:
    agent = agent_of(server, tmp_path, "ses_1")
    cloud(server, agent, low, high)
    with pytest.raises(NotTrusted, match="range"):
        minimize(agent, lambda x: 2 * x)
    assert len(server.heard) == 1


def raises_after_the_start() -> Callable[[float], float]:
    """It is tried at the start, where it must have a slope, and raises in the first step."""
    tried: list[float] = []

    def slope(x: float) -> float:
        tried.append(x)
        if len(tried) > 1:
            raise LookupError(f"no tariff for {x}")
        return 0.0

    return slope


@pytest.mark.parametrize("slope", [lambda x: float("nan"), raises_after_the_start()])
def test_an_objective_without_a_slope_somewhere_does_not_end_the_job_there(
    server: Hostile, tmp_path: Path, slope: Callable[[float], float]
) -> None:
    """The state would be no number, or the agent gone: all would see where the agent stood. Its own
    user is told."""
    agent = agent_of(server, tmp_path, "ses_1")
    cloud(server, agent, -1, 2.5)
    assert minimize(agent, slope, initial=1.5).without_slope == 1
    sent = [struct.unpack("!d", said.body)[0] for said in server.heard[1:]]
    assert sent[0] == 1.5
    assert sent[1] == pytest.approx(
        1.5 - 0.1 * 0.1 * 1.5
    )  # without its own pull; the regularization remains


def test_an_objective_that_raises_at_the_start_meets_nobody(
    server: Hostile, tmp_path: Path
) -> None:
    agent = agent_of(server, tmp_path, "ses_1")
    cloud(server, agent, -1, 2.5)
    with pytest.raises(AgentError, match=r"raised ZeroDivisionError at 0\.0"):
        minimize(agent, lambda x: 1 / x, initial=0.0)
    with pytest.raises(AgentError, match="has 2 numbers, not 1"):
        minimize(agent, lambda x: [x, x])
    assert server.heard == []


def test_the_command_of_an_agent_whose_session_failed_ends_with_1(
    server: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = agent_of(server, tmp_path, "ses_1")
    cloud(server, agent, -1, 2.5)
    path = tmp_path / "problem.json"
    path.write_text(
        json.dumps(
            {
                "kind": "multi_agent",
                "objective": "agent^2",
                "announcement": {**ANNOUNCED, "lower": -1.0},
            }
        )
    )
    given = ["--token", server.link("ses_1"), "--problem", str(path), "--patience", "3"]
    assert main([*given, "--identity", str(tmp_path / "agent.key")]) == 1
    said = capsys.readouterr()
    first, failed = said.err.splitlines()
    key = Identity.open(tmp_path / "agent.key").fingerprint
    assert first.endswith(f"fingerprint, for the owner to compare before signing: {key}")
    assert (said.out, failed) == ("", "discreet-agent: AgentError: the session failed")


def test_an_answer_waits_until_its_time_however_long_it_took(
    server: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server sees of two answers, one of 0.25 s of computing and one of none."""
    clock = [0.0]
    sent: list[float] = []
    monkeypatch.setattr(
        "discreet_agent.agent.time",
        SimpleNamespace(
            monotonic=lambda: clock[0],
            sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds),
            time_ns=time.time_ns,
        ),
    )
    agent = agent_of(server, tmp_path, "ses_1", answer_seconds=1.0)

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity)
        listener.hear()
        for number in range(2):
            yield round_of(number)
            listener.hear()
            sent.append(clock[0])
        yield end(charged=True)

    def step(current: Round) -> bytes:
        clock[0] += 0.25 if current.number else 0.0
        return b"answer"

    server.script = script
    agent.participate(step)
    assert sent == [1.0, 2.0]


def test_an_agent_answers_no_round_that_does_not_follow_from_what_it_was_shown(
    server: Hostile, tmp_path: Path
) -> None:
    agent = agent_of(server, tmp_path, "ses_1")
    cloud(server, agent, -1, 2.5, other=bytes(32))
    with pytest.raises(NotTrusted, match="does not follow"):
        minimize(agent, lambda x: 2 * x)
    assert [said.DESCRIPTOR.name for said in server.heard] == ["Accept", "Contribution"]


def test_an_agent_that_missed_the_first_rounds_comes_in_later(
    server: Hostile, tmp_path: Path
) -> None:
    """Under `finish` the first round that it hears of need not be the first."""
    agent = agent_of(server, tmp_path, "ses_1")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, parameters=parameters(-1, 2.5), rounds=4)
        listener.hear()
        before = b"b" * 32
        for number in (1, 2):
            broadcast = before + struct.pack("!ddd", 5.0, 1.0, 7.0)
            yield round_of(number, broadcast)
            listener.hear()
            before = history.after(broadcast)
        yield end(charged=True)

    server.script = script
    minimize(agent, lambda x: 0.0, initial=1.5)
    sent = [struct.unpack("!d", said.body)[0] for said in server.heard[1:]]
    gamma, alpha = 0.1 * 2**-0.5, 0.1 * 2**-0.2
    assert sent == [1.5, pytest.approx(1.5 - gamma * (1.0 * 7.0 + alpha * 1.5))]
