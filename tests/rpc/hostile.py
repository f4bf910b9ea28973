"""A server that says what its script says, well signed: what the pinned operator could do to its
agents."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from discreet_agent import Identity
from discreet_agent.federation import signing
from discreet_agent.federation.links import Link
from discreet_agent.federation.rosters import roster_document
from discreet_agent.federation.stream_keys import Exchange, mac
from discreet_agent.stubs import federation_pb2 as pb
from discreet_agent.stubs import federation_pb2_grpc as rpc

SMALL_ORDER = (bytes(32), (1).to_bytes(32, "little"), (2**255 - 19).to_bytes(32, "little"))
"""X25519 keys with which every secret is zero: 0, 1, and 0 once more."""
ANNOUNCED = {"lower": -1, "upper": 2.5, "radius": 1}


@dataclass
class Hostile(rpc.FederationServicer):
    """`script` yields the server's messages after Hello, of one stream: fields of a message or its
    bytes, to be signed, or a message as it is sent. What agents send is in `heard`."""

    signer: Identity = field(default_factory=Identity.generate)
    owner: Identity = field(default_factory=Identity.generate)
    script: Callable[[Hostile, Listener], Iterator[Any]] | None = None
    challenge: dict[str, Any] = field(default_factory=dict)
    """Fields of the challenge that are to be others."""
    in_the_middle: dict[str, Any] | None = None
    """Fields that somebody changes in the signed challenge on its way."""
    port: int = 0
    heard: list[Any] = field(default_factory=list)
    streams: int = 0

    def link(self, session: str) -> str:
        keys = self.signer.fingerprint, self.owner.fingerprint
        return str(Link("127.0.0.1", self.port, session, *keys, token="t"))

    def Enroll(self, request: Any, context: Any) -> Any:  # noqa: N802
        content = pb.Enrolled(
            session=request.session, account="acc_1", nonce=request.nonce
        ).SerializeToString()
        signature = self.signer.sign(signing.enrolled(request.session, content))
        return pb.EnrollResponse(
            public_key=self.signer.public_key, content=content, signature=signature
        )

    def Participate(self, requests: Any, context: Any) -> Any:  # noqa: N802
        now, exchange = time.time_ns() // 1_000_000, Exchange()
        fields = {
            "nonce": b"n" * 32,
            "timestamp_ms": now,
            "public_key": self.signer.public_key,
            "exchange": exchange.public,
        }
        first = self.signed("", challenge=pb.Challenge(**{**fields, **self.challenge}))
        if self.in_the_middle is not None:
            first.content = pb.OperatorContent(
                challenge=pb.Challenge(**{**fields, **self.in_the_middle})
            ).SerializeToString()
        yield first
        message = next(requests, None)
        if message is None:
            return
        hello = pb.AgentContent.FromString(message.content).hello
        session, nonce = hello.session, fields["nonce"]
        key = exchange.key(hello.exchange, session, first.content, message.content)
        listener = Listener(self, requests, hello.public_key, key, signing.messages(session, nonce))
        listener.check("hello", message)
        self.streams += 1
        assert self.script is not None
        for message in self.script(self, listener):
            if isinstance(message, pb.OperatorMessage):
                yield message
            elif isinstance(message, bytes):
                signature = self.signer.sign(signing.operator(session, message))
                yield pb.OperatorMessage(content=message, signature=signature)
            else:
                yield self.signed(session, **message)

    def signed(self, session: str, **content: Any) -> Any:
        data = pb.OperatorContent(**content).SerializeToString()
        return pb.OperatorMessage(
            content=data, signature=self.signer.sign(signing.operator(session, data))
        )

    def start(
        self,
        session: str,
        agent: Identity,
        *,
        epsilon: str = "0",
        charged_job: str | None = None,
        parameters: Any = None,
        rounds: int = 3,
        name: str = "agent",
        announcement: Any = ANNOUNCED,
        charge: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Start, of job `job_1` whatever the session is: the owner has signed that."""
        key = base64.b64encode(agent.public_key).decode()
        listed = {
            "name": name,
            "fingerprint": agent.fingerprint,
            "key": key,
            "announcement": announcement,
        }
        roster = roster_document(session, "job_1", "multi_agent", [listed])
        words = {
            "session": session,
            "job": charged_job or "job_1",
            "agent": agent.fingerprint,
            "price": {"epsilon": epsilon, "delta": "0"},
            **(charge or {}),
        }
        document = json.dumps(words).encode()
        return {
            "start": pb.Start(
                roster=roster,
                roster_signature=self.owner.sign(signing.roster(roster)),
                owner_key=self.owner.public_key,
                charge=document,
                charge_signature=self.signer.sign(signing.charge(document)),
                parameters=json.dumps(parameters or {}).encode(),
                rounds=rounds,
            )
        }


@dataclass
class Listener:
    """The agent's side of a stream, for scripts. It checks what the agent says as the service
    does."""

    server: Hostile
    requests: Any
    public_key: bytes
    key: bytes
    statement: Callable[[int, int, int, bytes], bytes]
    sequence: int = 0

    def hear(self) -> Any:
        message = next(self.requests)
        content = pb.AgentContent.FromString(message.content)
        kind = str(content.WhichOneof("kind"))
        self.check(kind, message)
        said = getattr(content, kind)
        self.server.heard.append(said)
        return said

    def check(self, kind: str, message: Any) -> None:
        """Only contributions have a MAC, all else is signed."""
        assert message.sequence == self.sequence
        self.sequence += 1
        statement = self.statement(
            message.sequence, message.round, message.timestamp_ms, message.content
        )
        if kind == "contribution":
            assert message.mac == mac(self.key, statement)
            assert not message.signature
        else:
            assert signing.is_signed(self.public_key, statement, message.signature)
            assert not message.mac


@contextmanager
def hostile() -> Iterator[Hostile]:
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool)
        made = Hostile()
        rpc.add_FederationServicer_to_server(made, server)
        made.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield made
        finally:
            server.stop(None).wait()


def round_of(number: int, broadcast: bytes = b"b", delivery: bytes = b"") -> dict[str, Any]:
    told = pb.Round(number=number, broadcast=broadcast, milliseconds=1000, delivery=delivery)
    return {"round": told}


def end(*, charged: bool, state: str = "failed") -> dict[str, Any]:
    return {"end": pb.End(state=state, code="", charged=charged)}
