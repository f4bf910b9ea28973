"""Rounds of a federated session against a minimal grpc.aio echo of the same size, in the same run.

Both: one server process, one client process that plays all agents on streams of their own, messages
of the same size, plain TCP on loopback. Ours does all that a real session does: every message is
authenticated and checked, every round waits for all agents, is computed in the session's isolated
child, and is sealed and committed in PostgreSQL before the broadcast goes out. Real agents have
machines of their own: what they do on their disks is left out, and the broadcast, one signed
message for all of them, is checked once by the process that plays them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from discreet.installation.prepared import embedded
from discreet.isolation.processes import dies_with_parent, end
from discreet.rpc import ed25519
from discreet.settings import Settings
from discreet.storage import secrets
from discreet_agent.federation import signing, stream_keys
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.links import Link
from discreet_agent.stubs import federation_pb2 as pb
from discreet_agent.stubs import federation_pb2_grpc as rpc

AGENTS = 64
ROUNDS = 100
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
TURNS = 3
"""Ours and the peer take turns; the ratio is the median of the ratios of neighbouring turns."""


def run() -> list[dict[str, Any]]:
    """Messages a second, processor time and bytes a message, the echo's, and what checks take."""
    check, verify = _check_seconds()
    with (
        tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder,
        _service(Path(folder)) as service,
    ):
        turns = [(service.session(), _echo(service.bytes_each_way)) for _ in range(TURNS)]
    turns.sort(key=lambda turn: turn[0].rate / turn[1].rate)
    ours, echo = turns[TURNS // 2]
    rate, peer, size = ours.rate, echo.rate, service.bytes_beside
    seconds, peer_seconds = (min(run.seconds for run in runs) for runs in zip(*turns, strict=True))
    return [
        {
            "benchmark": f"federation, {AGENTS} agents, every message authenticated",
            "ours": rate,
            "unit": "messages/s",
            "note": "rounds with MACs, barrier, child process and durable state",
            "peer": "grpc.aio echo of the same size",
            "peer_value": peer,
            "ratio": rate / peer,
        },
        {
            "benchmark": "federation, processor time of the server a message",
            "ours": seconds * 1e6,
            "unit": "us",
            "note": f"least of {TURNS}; {check * 1e6:.1f} us for the MAC; without child and "
            "database",
            "peer": "grpc.aio echo of the same size",
            "peer_value": peer_seconds * 1e6,
            "ratio": seconds / peer_seconds,
        },
        {
            "benchmark": "federation, bytes of one agent's round beside its payload",
            "ours": size,
            "unit": "B",
            "note": "both directions, envelope, MAC and signature; payload 16 B",
        },
        {
            "benchmark": "federation, what makes one message authentic, at the server",
            "ours": check * 1e6,
            "unit": "us",
            "note": "HMAC-SHA-256 of an answer under its stream's key; the broadcast is signed "
            "once for all",
            "peer": "an Ed25519 signature in libsodium, as Hello and Accept have",
            "peer_value": verify * 1e6,
            "ratio": check / verify,
        },
    ]


class Run(NamedTuple):
    """Messages a second, and seconds of processor time that the server process took for one."""

    rate: float
    seconds: float


def _processor_seconds(pid: int) -> float:
    """What all threads of a process have used so far."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _check_seconds() -> tuple[float, float]:
    """The check of a MAC and of a signature: the fastest of ten batches, since other work on the
    machine only ever adds."""
    key, shared = Identity.generate(), os.urandom(stream_keys.KEY_BYTES)
    statement = signing.message("ses_" + "0" * 26, bytes(32), 1, 1, 1, bytes(64))
    signature, mac = key.sign(statement), stream_keys.mac(shared, statement)
    verifier = stream_keys.Verifier(shared)
    checks: tuple[Callable[[], bool], ...] = (
        lambda: verifier.is_authentic(statement, mac),
        lambda: ed25519.is_signed(key.public_key, statement, signature),
    )
    check, verify = (min(timeit.repeat(one, number=100, repeat=10)) / 100 for one in checks)
    return check, verify


# Ours ---------------------------------------------------------------------------------------------


class Service:
    """A service on a durable database of its own."""

    def __init__(self, settings: Settings, port: int, pid: int) -> None:
        self._settings, self._port, self._pid = settings, port, pid
        self.bytes_each_way = (0, 0)

    @property
    def bytes_beside(self) -> int:
        """Of one agent's round, both directions, without the payload."""
        return sum(self.bytes_each_way) - 16

    def session(self) -> Run:
        """One session, from its second round on."""
        return asyncio.run(self._session())

    async def _session(self) -> Run:
        from discreet.usecases import access
        from discreet.usecases.services import open_services
        from discreet.usecases.sessions import enrolment, rosters

        async with open_services(self._settings) as services:
            owner = await access.local_owner(services)
            key = Identity.generate()
            job = await _submit(services, owner)
            made = await enrolment.create_tokens(
                services, owner, job, owner=key.fingerprint, count=AGENTS, group=None
            )
            agents = [_Agent(Link.parse(link)) for link in made["links"]]
            address = f"127.0.0.1:{self._port}"
            channels = [
                grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
                for _ in "1234"
            ]
            try:
                stubs = [rpc.FederationStub(channel) for channel in channels]
                for number, agent in enumerate(agents):
                    await agent.enroll(stubs[number % 4])
                shown = await rosters.show(services, owner, job)
                from discreet_agent.federation.rosters import roster_document

                document = roster_document(shown["id"], job, shown["kind"], shown["agents"])
                await rosters.approve(
                    services,
                    owner,
                    job,
                    roster=document,
                    signature=key.sign(signing.roster(document)),
                    owner_key=key.public_key,
                )
                used: list[float] = []
                spans = await asyncio.gather(
                    *(
                        agent.participate(
                            stubs[number % 4], lambda: used.append(_processor_seconds(self._pid))
                        )
                        for number, agent in enumerate(agents)
                    )
                )
            finally:
                for channel in channels:
                    await channel.close()
        self.bytes_each_way = agents[0].sizes
        seconds = max(last for _, last in spans) - min(first for first, _ in spans)
        messages = AGENTS * (ROUNDS - 1)
        return Run(messages / seconds, (max(used) - min(used)) / messages)


async def _submit(services: Any, owner: Any) -> str:
    from decimal import Decimal

    from discreet.problems.numbers import Privacy
    from discreet.usecases import jobs
    from tests.rpc.kinds import NoisySum

    terms = {"agents": AGENTS, "round_seconds": 60.0}
    problem = NoisySum.model_validate(
        {"protocol": "federated", "federation": terms, "rounds": ROUNDS}
    )
    row = await jobs.submit(
        services,
        owner,
        idempotency_key=os.urandom(8).hex(),
        request=b"",
        problem=problem,
        privacy=Privacy(epsilon=Decimal("0.5")),
        seed=None,
    )
    return str(row["id"])


@lru_cache(maxsize=4 * AGENTS)
def _is_signed(key: bytes, session: str, content: bytes, signature: bytes) -> bool:
    return signing.is_signed(key, signing.operator(session, content), signature)


class _Agent:
    """The agent's part of the protocol, without its disk."""

    def __init__(self, link: Link) -> None:
        self.link, self.identity = link, Identity.generate()
        self.sizes = (0, 0)

    async def enroll(self, stub: Any) -> None:
        content = pb.Enrolment(
            token=self.link.token,
            name="agent",
            unit="trajectory",
            cap_epsilon="1",
            cap_delta="0",
            announcement=b"{}",
        ).SerializeToString()
        nonce, now = os.urandom(16), time.time_ns() // 1_000_000
        await stub.Enroll(
            pb.EnrollRequest(
                session=self.link.session,
                public_key=self.identity.public_key,
                nonce=nonce,
                timestamp_ms=now,
                content=content,
                signature=self.identity.sign(
                    signing.enrolment(self.link.session, nonce, now, content)
                ),
            )
        )

    async def participate(self, stub: Any, note: Callable[[], None]) -> tuple[float, float]:
        """When the second round came, and when the end; `note` is called at both."""
        call, session = stub.Participate(), self.link.session
        first = await call.read()
        challenge = pb.OperatorContent.FromString(first.content).challenge
        self._sequence, self._statement = 0, signing.messages(session, challenge.nonce)
        exchange = stream_keys.Exchange()
        hello = pb.Hello(
            session=session,
            public_key=self.identity.public_key,
            nonce=challenge.nonce,
            exchange=exchange.public,
        )
        said = self._authentic(0, None, hello=hello)
        key = exchange.key(challenge.exchange, session, first.content, said.content)
        await call.write(said)
        begun = 0.0
        while True:
            message = await call.read()
            assert _is_signed(challenge.public_key, session, message.content, message.signature)
            content = pb.OperatorContent.FromString(message.content)
            kind = content.WhichOneof("kind")
            if kind == "start":
                link, charge = bytes(32), signing.digest(content.start.charge)
                booked = signing.booked(link, 1, charge)
                accept = pb.Accept(
                    roster_digest=signing.digest(content.start.roster),
                    charge_digest=charge,
                    ledger_seq=1,
                    ledger_link=link,
                    ledger_signature=self.identity.sign(signing.ledger_entry(booked)),
                )
                await call.write(self._authentic(0, None, accept=accept))
            elif kind == "round":
                if content.round.number == 1:
                    begun = time.perf_counter()
                    note()
                answers = signing.digest(content.round.broadcast)
                answer = self._authentic(
                    content.round.number,
                    key,
                    contribution=pb.Contribution(body=bytes(8), answers=answers),
                )
                self.sizes = (answer.ByteSize(), message.ByteSize())
                await call.write(answer)
            elif kind == "end":
                assert content.end.state == "succeeded", content.end.code
                note()
                return begun, time.perf_counter()

    def _authentic(self, number: int, key: bytes | None, **content: Any) -> pb.AgentMessage:
        """Signed, or with a MAC under the stream's key."""
        data = pb.AgentContent(**content).SerializeToString()
        now = time.time_ns() // 1_000_000
        statement = self._statement(self._sequence, number, now, data)
        self._sequence += 1
        return pb.AgentMessage(
            content=data,
            round=number,
            sequence=self._sequence - 1,
            timestamp_ms=now,
            signature=b"" if key else self.identity.sign(statement),
            mac=stream_keys.mac(key, statement) if key else b"",
        )


@contextmanager
def _service(folder: Path) -> Iterator[Service]:
    from tests.rpc import kinds

    kinds.register()
    settings = Settings(state=folder / "state", rpc_address="127.0.0.1:1")
    with embedded(settings) as ready:
        port = _free_port()
        if not ready.secrets_path.exists():
            secrets.create(ready.secrets_path)
        root = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), root]))
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "DISCREET_STATE": str(ready.state),
            "DISCREET_DATABASE_URL": str(ready.database_url),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.rpc.program", "rpc", "--port", str(port)],
            env=environment,
            stderr=subprocess.DEVNULL,
            preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509
        )
        try:
            _await(port)
            yield Service(
                ready.model_copy(update={"rpc_address": f"127.0.0.1:{port}"}), port, process.pid
            )
        finally:
            end(process, (signal.SIGTERM, 30.0))


# The peer -----------------------------------------------------------------------------------------


def _echo(sizes: tuple[int, int]) -> Run:
    """The same through an echo on as many streams."""
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.federation", str(port), str(sizes[1])],
        preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509
    )
    try:
        _await(port)
        return asyncio.run(_drive(port, process.pid, bytes(sizes[0])))
    finally:
        end(process, (signal.SIGTERM, 5.0))


async def _drive(port: int, pid: int, message: bytes) -> Run:
    channels = [
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OWN_CONNECTION) for _ in "1234"
    ]

    async def one(channel: Any, rounds: int) -> None:
        call = channel.stream_stream("/bench.Echo/Echo")()
        for _ in range(rounds):
            await call.write(message)
            await call.read()
        await call.done_writing()

    try:
        await asyncio.gather(*(one(channels[number % 4], 3) for number in range(AGENTS)))
        begun, used = time.perf_counter(), _processor_seconds(pid)
        await asyncio.gather(*(one(channels[number % 4], ROUNDS) for number in range(AGENTS)))
        seconds = time.perf_counter() - begun
        messages = AGENTS * ROUNDS
        return Run(messages / seconds, (_processor_seconds(pid) - used) / messages)
    finally:
        for channel in channels:
            await channel.close()


async def _serve_echo(port: int, size: int) -> None:
    answer = bytes(size)

    async def echo(requests: Any, context: Any) -> None:
        async for _ in requests:
            await context.write(answer)

    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler(
        "bench.Echo", {"Echo": grpc.stream_stream_rpc_method_handler(echo)}
    )
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def _await(port: int) -> None:
    for _ in range(600):
        with (
            contextlib.suppress(OSError),
            closing(socket.create_connection(("127.0.0.1", port), timeout=1)),
        ):
            return
        time.sleep(0.1)
    raise TimeoutError("the server does not answer")


if __name__ == "__main__":
    asyncio.run(_serve_echo(int(sys.argv[1]), int(sys.argv[2])))
