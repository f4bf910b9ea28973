"""The TypeScript agent, written from docs/protocol.md: with Python agents in one session of the
real service, and before a server that lies."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger import session_heads
from discreet.ledger.session_heads import Beside
from discreet_client import secure_sum
from discreet_client.agent import Identity, Ledger
from discreet_client.federation import history, signing
from discreet_client.federation.stream_keys import Exchange
from discreet_client.stubs import federation_pb2 as pb
from tests.clients.node import compiled
from tests.conftest import eventually
from tests.log.test_verifier import stranger
from tests.rpc.conftest import AgentProcess, Federation, federation
from tests.rpc.helpers import entries, final
from tests.rpc.hostile import ANNOUNCED, SMALL_ORDER, Hostile, Listener, end, hostile, round_of
from tests.rpc.test_coupled_qp import (
    PAPER,
    PRIMAL,
    WITHIN,
    QpAgent,
    add_a_million,
    optimal,
    spec,
    submit,
)
from tests.rpc.test_multi_agent import AGENTS, ROUNDS, body

SLOPES = {
    "x1": "2 * (x - 9) + 1",
    "x2": "4 * (x + 4) ** 3",
    "x3": "8 * (x - 1) ** 7",
    "x4": "2 * x + 1",
    "x5": "6 * (x + 3) ** 5",
    "x6": "2 * (x - 6 - 1)",
    "x7": "2 * (x - 5)",
}
"""Derivatives of AGENTS in JavaScript."""


@pytest.fixture(scope="session")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("typescript agent"))


@dataclass
class NodeAgent(AgentProcess):
    """The same by the TypeScript agent, with the same problem file."""

    sdk: Path = Path()
    slope: str = ""

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True, parents=True)
        path = self.folder / "agent.json"
        path.write_text(json.dumps(self.problem))
        options = list(self.options)
        if self.slope:
            (self.folder / "slope.mjs").write_text(f"export default (x) => {self.slope};\n")
            options += ["--slope", str(self.folder / "slope.mjs")]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")
        }
        self.process = subprocess.Popen(
            [
                *(str(shutil.which("node")), str(self.sdk / "dist" / "src" / "agent" / "cli.js")),
                *("--problem", str(path), "--identity", str(self.folder / "agent.key"), *options),
            ],
            env={**environment, "DISCREET_TOKEN": self.token},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


# coupled_qp ---------------------------------------------------------------------------------------


def mixed(
    where: Federation, sdk: Path, job: str, dealer: str = "", last: dict[str, Any] | None = None
) -> list[AgentProcess]:
    """The paper's three agents, the last two in TypeScript; then the owner signs. `dealer`: whose
    key is the first. `last`: other fields of the last agent's problem."""
    accepts: dict[str, Any] = {"kind": "coupled_qp", "demands": {"exposure": "accepted"}}
    agents: list[AgentProcess] = []
    for place, token in enumerate(where.invite(job, 3)):
        folder = where.folder / f"{job}-{place}"
        problem = {**accepts, **PAPER[place], "primal": PRIMAL[place]}
        if place == 2:
            problem |= last or {}
        agents.append(
            NodeAgent(folder, token, problem, sdk=sdk) if place else QpAgent(folder, token, problem)
        )
    if dealer:
        first, second, third = agents
        ordered = [first, second, third] if dealer == "python" else [second, first, third]
        _order_keys([agent.folder for agent in ordered])
    for agent in agents:
        where.agents.append(agent)
        agent.start()
    where.joined(job, 3)
    where.cli("approve", job)
    return agents


def _order_keys(folders: list[Path]) -> None:
    """A key for each folder, such that they stand in this order in the roster."""
    made = [folder / "made.key" for folder in folders]
    for folder, path in zip(folders, made, strict=True):
        folder.mkdir(parents=True)
        Identity.open(path)
    ordered = sorted(made, key=lambda path: Identity.open(path).fingerprint)
    contents = [path.read_bytes() for path in ordered]
    for folder, path, content in zip(folders, made, contents, strict=True):
        path.unlink()
        key = folder / "agent.key"
        key.touch(mode=0o600)
        key.write_bytes(content)


@pytest.mark.parametrize(
    ("dealer", "method"),
    [("python", "spds"), pytest.param("typescript", "rpds", marks=pytest.mark.long)],
)
def test_agents_of_both_languages_come_to_the_papers_optimum(
    shared: Federation, sdk: Path, dealer: str, method: str
) -> None:
    problem = spec("masking")
    if method == "rpds":  # which ends 1.2e-5 from it
        problem |= {"method": method}
        problem["steps"] = {**problem["steps"], "shrink": 1, "regularization": 1e-5}
    job = submit(shared, problem)
    agents = mixed(shared, sdk, job, dealer)
    outcomes = [agent.outcome() for agent in agents]
    assert optimal(outcomes)
    assert outcomes[0]["multipliers"] == outcomes[1]["multipliers"] == outcomes[2]["multipliers"]
    assert all(outcome["settled"] for outcome in outcomes)
    assert final(shared, job)["state"] == "succeeded"
    with shared.client() as client:
        answer, session = client.result(job), client.session(job)
        assert client.verify_certificate(answer["certificate"])["valid"]
        head = client.session_statement(job)
    beside = [exported_receipt(agent, job) for agent in agents]
    checks = session_heads.check(head, Beside(certificate=answer["certificate"], receipts=beside))
    assert all(one.holds for one in checks), checks
    assert {"receipts", "certificate", "receipt"} <= {one.name for one in checks}
    assert session["agents"][0]["fingerprint"] == agents[dealer == "typescript"].fingerprint
    assert {outcome["transcript"] for outcome in outcomes} == {answer["result"]["transcript"]}
    section = answer["certificate"]["cryptographic"]
    assert secure_sum.unsigned(section) == []  # all agents have signed
    assert section["settled"] is True
    assert [one.holds for one in stranger._transcript(answer["certificate"])] == [True]
    for name, lie in (
        ("settled", False),
        ("round", section["round"] + 1),
        ("transcript", "ab" * 32),
        ("signatures", {}),
    ):
        lied = {**answer["certificate"], "cryptographic": {**section, name: lie}}
        assert secure_sum.unsigned(lied["cryptographic"]), name
        assert [one.holds for one in stranger._transcript(lied)] == [False], name
    receipts_hold(session, agents)


def test_a_typescript_agent_complains_of_a_sum_beyond_what_the_owner_has_signed(
    shared: Federation, sdk: Path, tmp_path: Path
) -> None:
    job = submit(shared, spec("masking", agents=WITHIN))
    tokens = shared.invite(job, 3)
    accepts: dict[str, Any] = {"kind": "coupled_qp", "demands": {"exposure": "accepted"}}
    honest = [
        NodeAgent(tmp_path / str(place), tokens[place], {**accepts, **PAPER[place]}, sdk=sdk)
        for place in (0, 1)
    ]
    for agent in honest:
        shared.agents.append(agent)
        agent.start()
    add_a_million(shared, job, tokens[2], tmp_path / "liar.key")
    for agent in honest:
        status, output, errors = agent.ended()
        assert (status, output) == (1, "")
        assert "sum_out_of_bounds; the sum of round 0 is wrong: its entry 1 is" in errors
    assert final(shared, job)["error"]["code"] == "sum_out_of_bounds"


def receipts_hold(session: dict[str, Any], agents: list[AgentProcess]) -> None:
    """What the server keeps of every agent is what the agent's own ledger says, by the Python
    client's check of it."""
    members = {one["fingerprint"]: one for one in session["agents"]}
    for agent in agents:
        (entry,) = Ledger(
            agent.folder / "agent.ledger", Identity.open(agent.folder / "agent.key")
        ).entries()
        member = members[agent.fingerprint]
        receipt = member["receipt"]
        assert (receipt["hash"], receipt["charge"]) == (entry.hash.hex(), entry.body["charge"])
        statement = signing.ledger_entry(entry.hash)
        assert signing.is_signed(
            base64.b64decode(member["key"]), statement, base64.b64decode(receipt["signature"])
        )
        exported = exported_receipt(agent, session["job"])
        assert all(
            one.holds for one in session_heads.check(exported, Beside(agent=agent.fingerprint))
        )
        payload = json.loads(base64.b64decode(exported["payload"]))
        assert payload["predicate"]["charge"] == receipt["charge"]


def exported_receipt(agent: AgentProcess, job: str) -> dict[str, Any]:
    """By the agent's own program."""
    folder = agent.folder
    program = [sys.executable, "-m", "discreet_client.agent.cli"]
    if isinstance(agent, NodeAgent):
        program = [str(shutil.which("node")), str(agent.sdk / "dist" / "src" / "agent" / "cli.js")]
    command = [
        *program,
        "receipt",
        job,
        "--identity",
        str(folder / "agent.key"),
        "--out",
        str(folder / "receipt.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "receipt.json").read_text())
    return found


@pytest.mark.long
def test_a_typescript_agent_that_is_killed_goes_on_where_it_was(
    shared: Federation, sdk: Path
) -> None:
    job = submit(shared, spec("masking", iterations=200))
    agents = mixed(shared, sdk, job)
    for beyond in (2, 20, 60):
        eventually(lambda: shared.round_of(job) > beyond, "some rounds were run")  # noqa: B023
        agents[1].kill()
        assert agents[1].process is not None
        assert agents[1].process.returncode == -signal.SIGKILL
        agents[1].start()
    assert optimal([agent.outcome() for agent in agents])
    with shared.client() as client:
        assert secure_sum.unsigned(client.result(job)["certificate"]["cryptographic"]) == []


@pytest.mark.parametrize("lost", ["all", "a copy of before"])
def test_a_typescript_agent_with_an_older_memory_answers_nothing(
    shared: Federation, sdk: Path, lost: str
) -> None:
    job = submit(
        shared,
        spec("masking", federation={"agents": 3, "join_seconds": 60.0, "round_seconds": 5.0}),
    )
    agents = mixed(shared, sdk, job)
    eventually(lambda: shared.round_of(job) > 5, "some rounds were run")
    (memory,) = (agents[1].folder / "agent.state").glob("*.json")
    copy = memory.read_bytes()
    seen = shared.round_of(job)
    eventually(lambda: shared.round_of(job) > seen + 5, "more rounds were run")
    agents[1].kill()
    if lost == "all":
        memory.unlink()
    else:
        memory.write_bytes(copy)
    agents[1].start()
    status, output, errors = agents[1].ended()
    assert (status, output) == (1, "")
    assert ("the folder was lost" if lost == "all" else "older than its journal") in errors
    assert final(shared, job)["error"]["code"] == "agent_declined"


DEMANDS: list[tuple[dict[str, Any], str]] = [
    ({}, "this agent has not accepted that"),
    ({"exposure": "accepted", "rounds": 4}, "7 sums would be opened; this agent allows 4"),
    ({"exposure": "accepted", "agents": 4}, "a roster of 3 agents; this one asks for 4"),
    (
        {"exposure": "accepted", "colluding": 2},
        "the sums withstand 1 colluding agents; this one asks for 2",
    ),
    ({"exposure": "accepted", "noise": True}, "the sums have no noise"),
    (
        {"exposure": "accepted", "known": ["0" * 16]},
        "of the 1 agents that this one knows 0 are on the roster",
    ),
    ({"exposure": "accepted", "upper": 1e12}, "the box is too large"),
    ({"exposure": "accepted", "A_g": [[0, 1]]}, "rows; the owner has signed"),
]


def test_a_typescript_agent_refuses_files_that_it_does_not_understand(
    shared: Federation, sdk: Path, tmp_path: Path
) -> None:
    """Before it joins."""
    job = submit(shared, spec("masking", iterations=5))
    agent = NodeAgent(tmp_path / "0", shared.invite(job, 1)[0], {}, sdk=sdk)
    shared.agents.append(agent)
    for field, given in (
        ("terms", [{"kind": "power"}]),
        ("polytope", {"A": [[1, 1]], "b": [1]}),
        ("budget", {"lower": 0, "upper": 1}),
        ("demand exposur", {}),
    ):
        more = {field: given} if given else {"demands": {"exposur": "accepted"}}
        agent.problem = {"kind": "coupled_qp", **PAPER[0], **more}
        agent.start()
        status, output, errors = agent.ended()
        assert (status, output) == (2 if given else 1, ""), errors
        assert f"no {field}" in errors
    with shared.client() as client:
        assert client.session(job)["agents"] == []
        client.cancel(job)


@pytest.mark.parametrize(
    ("demands", "says"),
    DEMANDS,
    ids=lambda one: next(iter(one), "nothing") if isinstance(one, dict) else "",
)
def test_a_typescript_agent_declines_what_it_has_not_agreed_to(
    shared: Federation, sdk: Path, demands: dict[str, Any], says: str
) -> None:
    """Of what the owner has signed for real; the agent says so and sends nothing."""
    job = submit(shared, spec("masking", iterations=5))
    data = {name: demands[name] for name in ("upper", "A_g") if name in demands}
    asked = {name: one for name, one in demands.items() if name not in data}
    agents = mixed(shared, sdk, job, last={**data, "demands": asked})
    status, output, errors = agents[2].ended()
    assert (status, output) == (1, "")
    assert says in errors
    for memory in (agents[2].folder / "agent.state").glob("*.json"):
        assert json.loads(memory.read_text())["sent"] is None
    assert final(shared, job)["error"]["code"] == "agent_declined"
    assert shared.rounds_of(job) == 0


@pytest.mark.parametrize("scheme", ["paillier"])
def test_a_scheme_that_the_typescript_agent_does_not_speak(
    shared: Federation, sdk: Path, tmp_path: Path, scheme: str
) -> None:
    job = submit(shared, spec(scheme, iterations=5))
    (token,) = shared.invite(job, 1)
    agent = NodeAgent(tmp_path / "0", token, {"kind": "coupled_qp", **PAPER[0]}, sdk=sdk)
    shared.agents.append(agent)
    agent.start()
    status, output, errors = agent.ended()
    assert (status, output) == (1, "")
    assert f"does not speak {scheme}, which this job needs" in errors
    with shared.client() as client:
        assert client.session(job)["agents"] == []
        client.cancel(job)


def test_a_typescript_agent_is_refused_where_the_method_is_auto_before_anybody_signs(
    shared: Federation, sdk: Path, tmp_path: Path
) -> None:
    problem = spec("masking")
    del problem["steps"]
    job = submit(shared, problem)
    agent = NodeAgent(
        tmp_path / "0", shared.invite(job, 1)[0], {"kind": "coupled_qp", **PAPER[0]}, sdk=sdk
    )
    shared.agents.append(agent)
    agent.start()
    status, output, errors = agent.ended()
    assert (status, output) == (1, "")
    assert "does not speak auto, which this job needs" in errors
    with shared.client() as client:
        assert client.session(job)["agents"] == []
        client.cancel(job)


# multi_agent --------------------------------------------------------------------------------------


@pytest.mark.long
def test_seven_agents_of_both_languages_over_tls(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path, sdk: Path
) -> None:
    with federation(
        postgres, template, tmp_path / "state", {"DISCREET_RPC_TLS": "always"}
    ) as where:
        with where.client() as client:
            job = str(client.submit(body(7))["id"])
        limits = ("--limit-epsilon", "2", "--limit-delta", "0.05")
        agents: list[AgentProcess] = []
        for token, (name, objective) in zip(where.invite(job, 7), AGENTS.items(), strict=True):
            announcement = {"lower": -10, "upper": 10, "radius": 1}
            fields = {
                "kind": "multi_agent",
                "announcement": announcement,
                "initial": 0,
                "name": name,
            }
            if name in ("x2", "x3", "x5", "x6"):
                made = NodeAgent(
                    where.folder / name, token, fields, limits, sdk=sdk, slope=SLOPES[name]
                )
                where.agents.append(made)
                made.start()
                agents.append(made)
            else:
                agents.append(
                    where.agent(token, "--name", name, *limits, **fields, objective=objective)
                )
        where.joined(job, 7)
        where.approve(job)
        eventually(lambda: where.round_of(job) >= 5, "rounds go on")
        agents[2].kill()
        agents[2].start()
        outcomes = [agent.outcome() for agent in agents]
        assert final(where, job)["state"] == "succeeded"
        for one, other in itertools.pairwise(outcomes):
            assert one["multipliers"] == other["multipliers"]
            assert one["history"] == other["history"]
        assert all(outcome["unsigned"] == [] for outcome in outcomes)
        with where.client() as client:
            answer, session = client.result(job), client.session(job)
        assert answer["result"]["multipliers"] == outcomes[0]["multipliers"]
        assert len(answer["result"]["multiplier_path"]) == ROUNDS
        agreement, roster = answer["result"]["agreement"], session["roster"].encode()
        assert history.unsigned_of_result(agreement, answer["certificate"], roster) == []
        assert len(agreement["signatures"]) == 7
        charged = entries(where, job)
        assert all(
            kinds == ["open", "reserve", "data_touched", "commit"] for kinds in charged.values()
        )
        receipts_hold(session, agents)
        wrong_pin = NodeAgent(
            tmp_path / "wrong",
            _other_certificate(agents[1].token),
            {"kind": "multi_agent"},
            sdk=sdk,
            slope="x",
        )
        wrong_pin.start()
        assert "is not the one that the token pins" in wrong_pin.ended()[2]


def _other_certificate(token: str) -> str:
    before, _, _ = token.partition("tls=")
    return f"{before}tls={'0' * 64}"


# A server that lies -------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Hostile]:
    with hostile() as made:
        yield made


PARAMETERS = {
    "box": [["agent", -1, 2.5]],
    "layout": [[0, None], [0, "agent"]],
    "schedule": {"gamma": 0.1, "alpha": 0.1, "c1": 0.5, "c2": 0.2},
}
OPENING = bytes(32) + struct.pack("!d", 0.0)
NEXT = history.after(OPENING) + struct.pack("!3d", 0.5, 0.0, 0.0)
FAILED = "discreet-agent: AgentError: the session failed\n"


def agent_of(server: Hostile, sdk: Path, folder: Path, link: str = "", **problem: Any) -> NodeAgent:
    fields = {
        "kind": "multi_agent",
        "announcement": {**ANNOUNCED, "lower": -1.0},
        "initial": 1.5,
        **problem,
    }
    made = NodeAgent(
        folder, link or server.link("ses_1"), fields, ("--patience", "5"), sdk=sdk, slope="2 * x"
    )
    folder.mkdir(exist_ok=True)
    Identity.open(folder / "agent.key")
    return made


def contributions(server: Hostile) -> list[bytes]:
    return [said.body for said in server.heard if isinstance(said, pb.Contribution)]


Lie = Callable[[Hostile, Listener, Any], Iterator[Any]]


def unsigned_message(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    message = server.signed("ses_1", **start)
    yield pb.OperatorMessage(content=message.content, signature=bytes(64))


def signed_for_another_session(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    yield server.signed("ses_2", **start)


def unsigned_roster(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    start["start"].roster_signature = server.signer.sign(signing.roster(start["start"].roster))
    yield start


def another_owner(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    other = Identity.generate()
    start["start"].owner_key = other.public_key
    start["start"].roster_signature = other.sign(signing.roster(start["start"].roster))
    yield start


def unsigned_charge(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    start["start"].charge_signature = bytes(64)
    yield start


def unreadable(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    yield b"\xff\xff"


def challenge_again(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    yield {"challenge": pb.Challenge()}


def round_before_the_roster(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    yield round_of(0, OPENING)


def older_round(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    yield start
    listener.hear()
    for number, broadcast in ((0, OPENING), (1, NEXT), (0, OPENING)):
        yield round_of(number, broadcast)
        listener.hear()


def another_broadcast(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    yield start
    listener.hear()
    for broadcast in (OPENING, bytes(32) + struct.pack("!d", 1.0)):
        yield round_of(0, broadcast)
        listener.hear()


def beyond_the_plan(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    yield start
    listener.hear()
    yield round_of(3, OPENING)
    listener.hear()


def does_not_follow(server: Hostile, listener: Listener, start: Any) -> Iterator[Any]:
    yield start
    listener.hear()
    yield round_of(0, OPENING)
    listener.hear()
    yield round_of(1, bytes(32) + NEXT[32:])
    listener.hear()


LIES: list[tuple[Lie, dict[str, Any], str, int, int]] = [
    (unsigned_message, {}, "a message is not signed by the server", 0, 0),
    (signed_for_another_session, {}, "a message is not signed by the server", 0, 0),
    (unsigned_roster, {}, "the roster is not signed by the owner", 0, 0),
    (another_owner, {}, "by another owner than the one that the token pins", 0, 0),
    (unsigned_charge, {}, "the charge is not signed by the server", 0, 0),
    (unreadable, {}, "a message that cannot be read", 0, 0),
    (challenge_again, {}, "challenge, which does not belong here", 0, 0),
    (round_before_the_roster, {}, "a round came before the roster", 0, 0),
    (older_round, {"name": "another"}, "the owner has signed another name", 0, 0),
    (older_round, {"announcement": {**ANNOUNCED, "radius": 0.01}}, "other figures", 0, 0),
    (older_round, {"charged_job": "job_2"}, "another agent, session or job", 0, 0),
    (
        older_round,
        {"charge": {"price": {"epsilon": 1, "delta": "0"}}},
        "charge cannot be read",
        0,
        0,
    ),
    (older_round, {"charge": {"agent": "0" * 64}}, "another agent, session or job", 0, 0),
    (older_round, {"epsilon": "-1"}, "a charge is never negative", 0, 0),
    (
        older_round,
        {"epsilon": "1000000001"},
        "epsilon 1.000000001 would pass this agent's limit of 1",
        0,
        0,
    ),
    (
        older_round,
        {"parameters": {**PARAMETERS, "box": [["agent", -1.5, 2]]}},
        "is not within the one",
        0,
        1,
    ),
    (older_round, {}, "the server went back from round 1 to 0", 2, 1),
    (another_broadcast, {}, "two different broadcasts for round 0", 1, 1),
    (beyond_the_plan, {}, "the server asks for round 3 of 3", 0, 1),
    (does_not_follow, {}, "does not follow from the one that this agent was shown", 1, 1),
]


@pytest.mark.parametrize(
    ("lie", "start", "says", "answered", "booked"), LIES, ids=[str(n) for n in range(len(LIES))]
)
def test_a_lie_ends_the_typescript_agent(
    server: Hostile,
    sdk: Path,
    tmp_path: Path,
    lie: Lie,
    start: dict[str, Any],
    says: str,
    answered: int,
    booked: int,
) -> None:
    agent = agent_of(server, sdk, tmp_path / "a b")
    identity = Identity.open(agent.folder / "agent.key")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        message = server.start("ses_1", identity, **{"parameters": PARAMETERS, **start})
        yield from lie(server, listener, message)

    server.script = script
    agent.start()
    status, output, errors = agent.ended()
    assert (status, output) == (1, ""), errors
    assert says in errors
    assert len(errors.splitlines()) == 2, "its fingerprint, and what ended it"
    assert len(contributions(server)) == answered
    assert len(Ledger(agent.folder / "agent.ledger", identity).entries()) == booked


def test_a_server_with_another_key_is_told_nothing(
    server: Hostile, sdk: Path, tmp_path: Path
) -> None:
    link = server.link("ses_1")
    server.signer = Identity.generate()
    agent = agent_of(server, sdk, tmp_path / "a", link)
    agent.start()
    assert "this is not the server that the token pins" in agent.ended()[2]
    assert (server.streams, server.heard) == (0, [])


def test_nothing_is_said_on_a_stream_without_a_key(
    server: Hostile, sdk: Path, tmp_path: Path
) -> None:
    server.script = lambda server, listener: iter(())
    for challenge, in_the_middle, says in (
        ({"exchange": b""}, None, "it speaks an older version of the protocol"),
        ({"exchange": SMALL_ORDER[1]}, None, "no secret can be agreed on with the server's X25519"),
        ({}, {"exchange": Exchange().public}, "the challenge is not signed by the server"),
    ):
        server.challenge, server.in_the_middle = challenge, in_the_middle
        agent = agent_of(server, sdk, tmp_path / "a")
        agent.start()
        assert says in agent.ended()[2]
    assert (server.streams, server.heard) == (0, [])


def test_the_same_bytes_again_after_a_break_and_by_a_new_process(
    server: Hostile, sdk: Path, tmp_path: Path
) -> None:
    """The stream breaks after every answer; the process is killed and started again as well."""
    agent = agent_of(server, sdk, tmp_path / "a")
    identity = Identity.open(agent.folder / "agent.key")
    seen: list[tuple[int, bytes]] = []

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", identity, parameters=PARAMETERS, epsilon="700000000", rounds=4)
        listener.hear()
        number = min(server.streams - 1, 1) if server.streams < 5 else 1
        yield round_of(number, (OPENING, NEXT)[number])
        said = listener.hear()
        seen.append((number, said.body))
        if server.streams == 3:
            agent.kill()
        if server.streams >= 5:
            yield end(charged=False)

    server.script = script
    agent.start()
    eventually(lambda: len(seen) >= 3, "three answers")
    eventually(
        lambda: agent.process is not None and agent.process.poll() is not None, "it was killed"
    )
    agent.start()
    assert agent.ended() == (1, "", agent.greeting + FAILED)
    assert len({body for number, body in seen if number == 0}) == 1
    assert len({body for number, body in seen if number == 1}) == 1
    book = Ledger(agent.folder / "agent.ledger", identity)
    assert [entry.spent[0] for entry in book.entries()] == [
        700_000_000
    ]  # it has answered: nothing is given back
    # The same job in another session, at another price: the agent declines, and says so.
    second = agent_of(server, sdk, agent.folder, server.link("ses_2"))
    server.heard.clear()

    def dear(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_2", identity, parameters=PARAMETERS, epsilon="1")
        listener.hear()

    server.script = dear
    second.start()
    assert "the folder was lost" in second.ended()[2]
    assert [said.code for said in server.heard] == ["folder_lost"]
    assert len(book.entries()) == 1


def test_a_typescript_agent_whose_slope_throws_stays_in_its_session(
    server: Hostile, sdk: Path, tmp_path: Path
) -> None:
    """Where it left, everybody would see where it stood. At its start, 1.5, the slope is there."""
    agent = agent_of(server, sdk, tmp_path / "a")
    agent.slope = (
        "{ if (globalThis.tried) throw new Error('x'); globalThis.tried = true; return 0; }"
    )
    identity = Identity.open(agent.folder / "agent.key")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", identity, parameters=PARAMETERS)
        for number, broadcast in enumerate((OPENING, NEXT)):
            listener.hear()
            yield round_of(number, broadcast)
        listener.hear()
        yield end(charged=True)

    server.script = script
    agent.start()
    assert agent.ended() == (1, "", agent.greeting + FAILED)
    first, second = (struct.unpack("!d", body)[0] for body in contributions(server))
    assert (first, second) == (1.5, pytest.approx(1.5 - 0.1 * 0.1 * 1.5))


def test_two_processes_do_not_answer_for_one_typescript_agent(
    server: Hostile, sdk: Path, tmp_path: Path
) -> None:
    first, second = (agent_of(server, sdk, tmp_path / "a") for _ in range(2))
    identity = Identity.open(first.folder / "agent.key")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", identity, parameters=PARAMETERS)
        listener.hear()
        second.start()
        status, _, errors = second.ended()
        assert (status, "another process takes part" in errors) == (1, True), errors
        yield round_of(0, OPENING)
        listener.hear()
        yield end(charged=True)

    server.script = script
    first.start()
    assert first.ended() == (1, "", first.greeting + FAILED)
    assert contributions(server) == [struct.pack("!d", 1.5)]
    assert server.streams == 1
    second.start()
    assert second.ended() == (1, "", second.greeting + FAILED)  # it knows what the first has seen
    assert server.streams == 1
