"""Sums over a sparse graph of masks between real processes: agents are killed, and asked again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.usecases.rpc_tls import self_signed
from discreet_agent.federation.identity import Identity
from discreet_agent.secure_sum.errors import Refused
from discreet_agent.sparse_sum import Conductor, Plan, Roster, Step
from discreet_agent.sparse_sum.__main__ import channel, main, values_of
from discreet_agent.sparse_sum.conversation import HEAD
from discreet_agent.sparse_sum.serving import Relay, hello, serve
from discreet_agent.sparse_sum.wire import Kind, bitmap, statement

AGENTS, ROUNDS, SECONDS = 12, 5, 600.0
PLAN = Plan.choose(AGENTS, 2, ROUNDS, gamma=0.1, delta=0.25)
FIGURES = ["--rounds", str(ROUNDS), "--corrupt", "0.1", "--sigma", "0", "--exposure", "accepted"]
FIGURES += ["--patience", str(SECONDS)]


def value(place: int, number: int) -> list[int]:
    return [10**place, -(number + 1) * 3**place]


def total(places: list[int], number: int) -> list[int]:
    return [sum(column) for column in zip(*(value(place, number) for place in places), strict=True)]


@dataclass
class Party:
    """Twelve agents, each a process with a folder of its own, and what the owner has signed."""

    root: Path
    owner: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    port: int = 0

    def __post_init__(self) -> None:
        self.keys = [Identity.open(self.folder(place) / "agent.key") for place in range(AGENTS)]
        self.roster = Roster("a run", PLAN, tuple(key.public_key for key in self.keys))
        signature = self.roster.signed_by(self.owner).hex()
        signed = {"roster": self.roster.content.decode(), "signature": signature}
        (self.root / "roster.json").write_text(json.dumps(signed))
        for place in range(AGENTS):
            lines = [json.dumps(value(place, number)) for number in range(ROUNDS)]
            (self.folder(place) / "values").write_text("\n".join(lines))

    def folder(self, place: int) -> Path:
        return self.root / f"agent {place}"

    def start_all(self, port: int) -> None:
        self.port = port
        for place in range(AGENTS):
            self.start(place)

    def start(self, place: int) -> None:
        folder, owner = self.folder(place), self.owner.public_key().public_bytes_raw().hex()
        said = [str(self.root / "roster.json"), "--owner", owner, "--folder", str(folder)]
        said += ["--server", f"127.0.0.1:{self.port}", "--values", str(folder / "values")]
        with (folder / "log").open("ab") as log:
            self.processes[place] = subprocess.Popen(
                [sys.executable, "-m", "discreet_agent.sparse_sum", "join", *said, *FIGURES],
                stderr=log,
            )

    def kill(self, place: int) -> None:
        os.kill(self.processes[place].pid, signal.SIGKILL)
        self.processes[place].wait()

    def refusals(self, place: int) -> str:
        return (self.folder(place) / "log").read_text()


@pytest.fixture
def party(tmp_path: Path) -> Iterator[Party]:
    found = Party(tmp_path)
    yield found
    for process in found.processes.values():
        process.kill()
        process.wait()


class Killing(Conductor):
    """At the moment at which the answer of an agent to a step of a round is here, its process is
    killed."""

    def __init__(self, party: Party, deaths: dict[tuple[int, Step], int]) -> None:
        super().__init__(party.roster)
        self._party, self._deaths = party, deaths

    def take(self, place: int, said: bytes) -> None:
        super().take(place, said)
        if self._deaths.get((self.number, self.step)) == place:
            self._party.kill(place)


class Asking(Relay):
    """Waits for these `alive` before a round, and keeps the answers of all."""

    def __init__(self, party: Party, conductor: Conductor) -> None:
        self.told: list[dict[str, Any]] = []
        super().__init__(conductor, SECONDS, self.told.append)
        self.party, self.alive = party, set(range(AGENTS))
        self.heard: dict[int, list[bytes]] = {}

    def _are_enough(self) -> bool:
        return self._seats.keys() == self.alive

    def _take(self, place: int, said: bytes) -> None:
        self.heard.setdefault(place, []).append(said)
        super()._take(place, said)

    def say(self, place: int, message: bytes) -> None:
        self._seats[place].put_nowait(message)


@pytest.mark.long
def test_twelve_processes_some_killed_in_each_round_and_one_that_comes_back(party: Party) -> None:
    """Nothing begins again, every sum is exact; who died between its shares and its vector is not
    in the sum, who died behind its vector is."""
    first, second, third = 3, 7, 0
    deaths = {
        (0, Step.SHARES): first,
        (1, Step.CONTRIBUTE): second,
        (2, Step.RELEASE): third,
    }
    relay = Asking(party, Killing(party, deaths))

    def tell(told: dict[str, Any]) -> None:
        relay.told.append(told)
        relay.alive -= {[first, second, third, None, None][told["round"]]}
        if told["round"] == 2:
            relay.alive.add(first)
            party.start(first)

    relay._tell = tell
    asyncio.run(serve(relay, "127.0.0.1:0", ready=party.start_all))
    alive = [set(range(AGENTS)) - gone for gone in ({3}, {3}, {3, 7}, {0, 7}, {0, 7})]
    assert [set(told["agents"]) for told in relay.told] == alive
    for number, told in enumerate(relay.told):
        assert told == {"round": number, "agents": told["agents"], "sum": told["sum"]}
        assert told["sum"] == total(told["agents"], number)
    for place in set(range(AGENTS)) - {second, third}:
        assert party.processes[place].wait(SECONDS) == 0
        assert party.refusals(place) == ""
    claims = (party.folder(first) / "state" / "claims").read_text().split("\n")
    assert [line for line in claims if "round" in line] == ["round 0", "round 3", "round 4"]


class TwoViews(Asking):
    """Agent 0 is asked for both kinds of share of agent 5; agent 1, which died after its vector and
    came back, for all of the round again."""

    def __init__(self, party: Party, conductor: Conductor) -> None:
        super().__init__(party, conductor)
        self.asked: list[bytes] = []

    def dropped(self) -> bytes:
        """A RELEASE of the round in which agent 5 has dropped, signed by the whole jury."""
        group, number = self.conductor.group, self.conductor.number
        assert group is not None
        bits = bitmap(set(range(AGENTS)) - {5}, AGENTS)
        jury, k = sorted(group.jury(number)), PLAN.neighbours
        votes = b"".join(
            self.party.keys[juror].sign(statement(group, Kind.VOTE, number, juror, bits))
            for juror in jury
        )
        proofs = self.conductor.messages[0][-((k + 7) // 8 + 16 * k) :]
        every = bitmap(range(len(jury)), len(jury))
        return HEAD.pack(Step.RELEASE, number) + bits + every + votes + proofs

    def _take(self, place: int, said: bytes) -> None:
        conductor = self.conductor
        first = place == 0 and 0 in conductor.waited_for
        if first and conductor.step is Step.RELEASE and conductor.number == 0:
            self.say(0, self.dropped())
            self.say(0, conductor.messages[0])
        if (
            place == 1
            and 1 in conductor.waited_for
            and said[: HEAD.size] == HEAD.pack(Step.SHARES, 1)
        ):
            for message in self.asked:
                self.say(1, message)
        super()._take(place, said)

    def _advance(self) -> None:
        if self.conductor.number == 0 and 1 in self.conductor.messages:
            self.asked.append(self.conductor.messages[1])
        super()._advance()


def test_a_server_that_asks_for_both_kinds_of_share(party: Party) -> None:
    """With the signatures of the whole jury for both sets: agents give one share of two, alive or
    killed and back."""
    relay = TwoViews(party, Killing(party, {(0, Step.CONTRIBUTE): 1}))

    def tell(told: dict[str, Any]) -> None:
        relay.told.append(told)
        if told["round"] == 0:
            party.start(1)

    relay._tell = tell
    asyncio.run(serve(relay, "127.0.0.1:0", ready=party.start_all))
    assert [told["sum"] for told in relay.told] == [
        total(list(range(AGENTS)), number) for number in range(ROUNDS)
    ]
    release = HEAD.pack(Step.RELEASE, 0)
    answers = [said[HEAD.size :] for said in relay.heard[0] if said[: HEAD.size] == release]
    assert [bool(answer) for answer in answers] == [True, False, False]
    assert party.refusals(0).count("no release of round 0") == 2
    asked = [message[: HEAD.size] for message in relay.asked]
    assert {HEAD.pack(step, 0) for step in (Step.SHARES, Step.CONTRIBUTE)} <= set(asked)
    said = relay.heard[1]
    heads = [one[: HEAD.size] for one in said]
    since = heads.index(HEAD.pack(Step.SHARES, 1)) + 1
    assert heads[since : since + len(asked)] == asked
    answered = {Step(one[0]) for one in said[since:][: len(asked)] if one[HEAD.size :]}
    assert answered == {Step.COMMIT, Step.OPEN, Step.JOIN}  # the same bytes as before
    assert said[since : since + 3] == said[:3]
    assert "round 0 is over" in party.refusals(1)
    assert "no contribution of round 0" in party.refusals(1)


def certificate(root: Path) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself: certificate and key."""
    files = root / "server.crt", root / "server.key"
    for file, pem in zip(files, self_signed(("127.0.0.1",)), strict=True):
        file.write_bytes(pem)
    return files


def test_the_commands_of_the_documentation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four agents over TLS, with noise; and what each command refuses."""
    count, sigma = 4, 1000.0
    figures = ["--rounds", "2", "--corrupt", "0", "--sigma", str(sigma)]

    def said(*arguments: object) -> str:
        assert main([str(one) for one in arguments]) == 0
        return capsys.readouterr().out.strip()

    def refused(*arguments: object) -> str:
        assert main([str(one) for one in arguments]) == 1
        return capsys.readouterr().err

    folders = [tmp_path / str(place) for place in range(count)]
    keys = tmp_path / "keys.txt"
    keys.write_text("\n".join(said("key", folder) for folder in folders))
    roster = tmp_path / "roster.json"
    signing = ["sign", "--owner", tmp_path / "owner.key", "--run", "tariffs", "--keys", keys]
    signing += ["--dimension", 1, "--dropping", 0.25, "--out", roster, *figures]
    owner = said(*signing)
    for place, folder in enumerate(folders):
        (folder / "values").write_text(f"[{10**6 * 7**place}]\n[5]\n")
    join = ["join", roster, "--owner", owner, *figures, "--folder", folders[0]]
    join += ["--values", folders[0] / "values", "--server"]
    assert "not a loopback address" in refused(*join, "10.1.1.1:7070")
    stranger = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    assert "the owner has not signed" in refused(*join, "127.0.0.1:1", "--owner", stranger)
    assert "asks for 1001" in refused(*join, "127.0.0.1:1", "--sigma", 1001)
    assert "has not accepted that" in refused(*join, "127.0.0.1:1", "--sigma", 0)
    assert "the server has not answered" in refused(*join, "127.0.0.1:1", "--patience", 0)
    for text in ("[]", '{"roster": 5, "signature": ""}', "[" * 10_000, '{"roster": "\\ud800"}'):
        (tmp_path / "wrong.json").write_text(text)
        assert "no signed roster" in refused("join", tmp_path / "wrong.json", *join[2:], "x:1")
    serving = ["serve", roster, "--owner", owner, "--seconds", SECONDS, "--listen"]
    assert "--certificate and --key are needed" in refused(*serving, "0.0.0.0:0")
    assert "go together" in refused(*serving, "127.0.0.1:0", "--certificate", keys)
    assert "rounds are 0 to 1" in refused(*serving, "127.0.0.1:0", "--from-round", -1)
    for line in ("[1.9]", '["5"]', "[true]", "[[1]]", "5", "[" * 10_000, f"[{2**63}]", "[1, 2]"):
        keys.write_text(line)
        with pytest.raises(Refused, match="line 1 of"):
            values_of(keys, replace(PLAN, dimension=1))(0)

    chain, key = certificate(tmp_path)
    command = [*serving, "127.0.0.1:0", "--certificate", chain, "--key", key]
    with subprocess.Popen(
        [sys.executable, "-m", "discreet_agent.sparse_sum", *map(str, command)],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        address = f"127.0.0.1:{json.loads(server.stdout.readline())['port']}"
        codes: list[int] = []

        def take_part(folder: Path) -> None:
            arguments = [*join, address, "--authority", chain, "--folder", folder]
            arguments += ["--values", folder / "values"]
            codes.append(main([str(one) for one in arguments]))

        threads = [threading.Thread(target=take_part, args=(folder,)) for folder in folders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = [json.loads(line) for line in server.stdout]
        assert server.wait() == 0
    assert codes == [0] * count
    assert [one["round"] for one in told] == [0, 1]
    for one, exact in zip(told, (10**6 * (1 + 7 + 49 + 343), 20), strict=True):
        assert one["agents"] == list(range(count))
        # noise of sigma² (4/3) together; 10 standard deviations, and exactly 0 with 3e-4
        assert abs(one["sum"][0] - exact) < 10 * sigma * (4 / 3) ** 0.5


def test_a_place_is_its_keys_alone(party: Party) -> None:
    """Streams that sign nothing, another nonce, with another key, or for a place beyond the
    roster."""
    import grpc

    relay = Asking(party, Conductor(party.roster))
    relay._seconds = 0.2
    found: list[grpc.StatusCode] = []

    def visit(port: int, number: int) -> None:
        with channel(f"127.0.0.1:{port}", None) as line:
            nonce: list[bytes] = []
            there = threading.Event()

            def says() -> Iterator[bytes]:
                there.wait()
                signed = hello(party.roster, bytes(32) if number == 1 else nonce[0])
                signature = party.keys[4 if number == 2 else 0].sign(signed)
                yield [bytes(68), bytes(4) + signature, bytes(4) + signature,
                       (99).to_bytes(4, "big") + signature, b""][number]  # fmt: skip
                threading.Event().wait(0.1)

            stream = line.stream_stream("/discreet.SparseSum/Converse")(says())
            nonce.append(next(stream))
            there.set()
            try:
                next(stream)
            except grpc.RpcError as error:
                found.append(error.code())

    async def run() -> None:
        port = asyncio.get_running_loop().create_future()
        server = asyncio.create_task(serve(relay, "127.0.0.1:0", ready=port.set_result))
        for number in range(5):
            await asyncio.to_thread(visit, await port, number)
        await server

    asyncio.run(run())
    assert found == [grpc.StatusCode.UNAUTHENTICATED] * 5
    assert all("setup" in told for told in relay.told)
