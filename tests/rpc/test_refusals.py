"""What the server refuses, sent by hand: each with its gRPC status and a stable code."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from discreet_agent.federation import signing, stream_keys
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.links import Link
from discreet_agent.federation.rosters import roster_document
from discreet_agent.federation.stream_keys import Exchange
from discreet_agent.stubs import federation_pb2 as pb
from discreet_agent.stubs import federation_pb2_grpc as rpc
from discreet_client.errors import Conflict, InvalidInput, NotFound
from tests.conftest import DEADLINE_SECONDS
from tests.rpc.conftest import Federation
from tests.rpc.hostile import SMALL_ORDER
from tests.rpc.kinds import NUMBER

Code = grpc.StatusCode


class Raw:
    """An agent that may say anything."""

    def __init__(self, link: str, identity: Identity | None = None) -> None:
        self.link = Link.parse(link)
        self.identity = identity or Identity.generate()
        self.channel = grpc.insecure_channel(self.link.address)
        self.stub = rpc.FederationStub(self.channel)
        self._open: list[Stream] = []

    def enroll(
        self, *, skew: float = 0, token: str | None = None, tamper: bool = False, **fields: Any
    ) -> Any:
        content = pb.Enrolment(
            **{
                "token": self.link.token if token is None else token,
                "name": "raw",
                "unit": "trajectory",
                "cap_epsilon": "1",
                "cap_delta": "0",
                "announcement": b"{}",
                **fields,
            }
        ).SerializeToString()
        nonce, now = os.urandom(16), time.time_ns() // 1_000_000 + int(skew * 1000)
        statement = signing.enrolment(self.link.session, nonce, now, content)
        return self.stub.Enroll(
            pb.EnrollRequest(
                session=self.link.session,
                public_key=self.identity.public_key,
                nonce=nonce,
                timestamp_ms=now,
                content=content + (b"\x0a\x00" if tamper else b""),
                signature=self.identity.sign(statement),
            )
        )

    def open(self) -> Stream:
        stream = Stream(self)
        self._open.append(stream)
        return stream

    def close(self) -> None:
        for stream in self._open:
            stream.out.put(None)
        self.channel.close()


class Stream:
    """One `Participate`, message by message."""

    def __init__(self, agent: Raw) -> None:
        self.agent = agent
        self.out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.call = agent.stub.Participate(iter(self.out.get, None))
        self.sequence = 0
        self.challenged = next(self.call).content
        self.challenge = pb.OperatorContent.FromString(self.challenged).challenge
        self.nonce = self.challenge.nonce
        self.exchange = Exchange()
        self.key = b""

    def message(
        self,
        number: int = 0,
        *,
        skew: float = 0,
        sequence: int | None = None,
        key: bytes | None = None,
        **content: Any,
    ) -> pb.AgentMessage:
        """A contribution with a MAC under the stream's key, or `key`; anything else signed."""
        made = pb.AgentMessage(
            content=pb.AgentContent(**content).SerializeToString(),
            round=number,
            sequence=self.sequence if sequence is None else sequence,
            timestamp_ms=time.time_ns() // 1_000_000 + int(skew * 1000),
        )
        if "contribution" in content:
            made.mac = stream_keys.mac(self.key if key is None else key, self.statement(made))
        else:
            made.signature = self.agent.identity.sign(self.statement(made))
        return made

    def statement(self, message: pb.AgentMessage) -> bytes:
        """What a signature or a MAC of this message is of."""
        return signing.message(
            self.agent.link.session,
            self.nonce,
            message.sequence,
            message.round,
            message.timestamp_ms,
            message.content,
        )

    def send(self, *arguments: Any, **fields: Any) -> pb.AgentMessage:
        made = self.message(*arguments, **fields)
        self.sequence += 1
        self.out.put(made)
        return made

    def greeting(self, **changed: Any) -> pb.Hello:
        fields = {
            "session": self.agent.link.session,
            "public_key": self.agent.identity.public_key,
            "nonce": self.nonce,
            "exchange": self.exchange.public,
        }
        return pb.Hello(**{**fields, **changed})

    def hello(self, **fields: Any) -> None:
        made = self.send(hello=self.greeting(), **fields)
        self.key = self.exchange.key(
            self.challenge.exchange, self.agent.link.session, self.challenged, made.content
        )

    def hear(self) -> Any:
        content = pb.OperatorContent.FromString(next(self.call).content)
        return getattr(content, content.WhichOneof("kind"))

    def accept(self) -> Any:
        """Up to the first round."""
        self.hello()
        while not isinstance(start := self.hear(), pb.Start):
            pass
        self.send(accept=self.receipt(start))
        while not isinstance(current := self.hear(), pb.Round):
            pass
        return current

    def receipt(self, start: Any, **changed: Any) -> pb.Accept:
        """What says that the charge is booked."""
        fields = {
            "roster_digest": signing.digest(start.roster),
            "charge_digest": signing.digest(start.charge),
            "ledger_seq": 1,
            "ledger_link": b"l" * 32,
        }
        booked = signing.booked(fields["ledger_link"], 1, fields["charge_digest"])
        fields["ledger_signature"] = self.agent.identity.sign(signing.ledger_entry(booked))
        return pb.Accept(**{**fields, **changed})

    def refusal(self) -> tuple[Any, str]:
        """How the stream ends."""
        with pytest.raises(grpc.RpcError) as ended:
            for _ in self.call:
                pass
        return told(ended.value)


def told(error: Any) -> tuple[Any, str]:
    return error.code(), dict(error.trailing_metadata()).get("discreet-code", "")


def refused(what: Callable[[], Any]) -> tuple[Any, str]:
    with pytest.raises(grpc.RpcError) as error:
        what()
    return told(error.value)


@pytest.fixture
def make(shared: Federation) -> Iterator[Callable[..., Raw]]:
    made: list[Raw] = []

    def one(link: str, identity: Identity | None = None) -> Raw:
        made.append(Raw(link, identity))
        return made[-1]

    yield one
    for agent in made:
        agent.close()


@pytest.fixture
def job(shared: Federation) -> Iterator[str]:
    made = shared.submit(
        agents=2, rounds=3, mode="simulation", on_missing="finish", quorum=2, round_seconds=300.0
    )
    yield made
    with shared.client() as client:
        if client.job(made)["finished_at"] is None:
            client.cancel(made)


@pytest.fixture
def pair(shared: Federation, make: Callable[..., Raw], job: str) -> tuple[Raw, Raw]:
    """Two enrolled agents on a signed roster."""
    agents = [make(link) for link in shared.invite(job, 2)]
    for agent in agents:
        agent.enroll()
    shared.approve(job)
    return agents[0], agents[1]


def test_enrolment(shared: Federation, make: Callable[..., Raw], job: str) -> None:
    first, second = shared.invite(job, 2)
    agent, thief = make(first), make(first)
    assert refused(lambda: agent.enroll(token="guess")) == (Code.UNAUTHENTICATED, "wrong_token")
    assert refused(lambda: agent.enroll(token="")) == (Code.UNAUTHENTICATED, "wrong_token")
    assert refused(lambda: agent.enroll(skew=120)) == (Code.UNAUTHENTICATED, "clock_skew")
    assert refused(lambda: agent.enroll(skew=-120)) == (Code.UNAUTHENTICATED, "clock_skew")
    assert refused(lambda: agent.enroll(tamper=True)) == (Code.UNAUTHENTICATED, "bad_signature")
    for bad in ("", "-1", "1e9", "NaN", "2000", "0." + "1" * 31):
        assert refused(lambda bad=bad: agent.enroll(cap_epsilon=bad)) == (
            Code.INVALID_ARGUMENT,
            "invalid_input",
        )
    unstorable = (b'{"zone": 1e999}', b'{"zone": "\\u0000"}', b'{"zone": "\\ud800"}')
    for bad_json in (b"[]", b"{", b'{"zone": NaN}', b"{" * 4_000, b'{"radius": 1}', *unstorable):
        assert (
            refused(lambda bad=bad_json: agent.enroll(announcement=bad))[0] == Code.INVALID_ARGUMENT
        )
    for size, refusal in (
        (4097, "invalid_input"),
        (8192, "message_too_large"),
        (1 << 20, "message_too_large"),
    ):
        assert refused(lambda size=size: agent.enroll(announcement=b" " * size))[1] == refusal
    for bad in ("", "a" * 201, "a\x00b", "a\nb", "honest\x1b[2K", "a\u202eb"):
        assert refused(lambda bad=bad: agent.enroll(name=bad)) == (
            Code.INVALID_ARGUMENT,
            "invalid_input",
        )
    for session in ("ses_\x00", "", "ses_" + "a" * 1000, "job_1"):
        stranger = make(first)
        stranger.link = replace(stranger.link, session=session)
        assert refused(stranger.enroll) == (Code.NOT_FOUND, "not_found")
        stream = stranger.open()
        stream.hello()
        assert stream.refusal() == (Code.NOT_FOUND, "not_found")
    with shared.client() as client:
        assert client.session(job)["agents"] == []
    account = pb.Enrolled.FromString(agent.enroll(announcement=b'{"zone": 3}').content).account
    again = pb.Enrolled.FromString(
        agent.enroll(cap_epsilon="2").content
    )  # the answer may have been lost
    assert (again.account, again.fingerprint) == (account, agent.identity.fingerprint)
    assert refused(thief.enroll) == (Code.PERMISSION_DENIED, "token_used")
    assert refused(lambda: agent.enroll(unit="household")) == (
        Code.FAILED_PRECONDITION,
        "unit_differs",
    )
    with shared.client() as client:
        assert client.budget(account)["cap"]["epsilon"] == 2
    other = make(second.replace(Link.parse(second).session, "ses_" + "0" * 26))
    assert refused(other.enroll) == (Code.NOT_FOUND, "not_found")
    elsewhere = shared.submit(agents=1)
    (foreign,) = shared.invite(elsewhere, 1)
    assert refused(lambda: thief.enroll(token=Link.parse(foreign).token)) == (
        Code.UNAUTHENTICATED,
        "wrong_token",
    )
    make(second).enroll()
    (third,) = shared.invite(job, 1)
    assert refused(make(third).enroll) == (Code.FAILED_PRECONDITION, "session_full")
    shared.approve(job)
    (late,) = shared.invite(elsewhere, 1)
    assert refused(lambda: make(first).enroll(token=Link.parse(late).token)) == (
        Code.UNAUTHENTICATED,
        "wrong_token",
    )


def test_a_token_for_a_name_lets_in_nobody_else(
    shared: Federation, make: Callable[..., Raw], job: str
) -> None:
    wrong = (
        {"group": "g"},
        {"count": 2},
        {"names": ["a", "a"]},
        {"names": ["b", "a\x1b[2K"]},
        {"names": []},
    )
    with shared.http() as http:
        for fields in wrong:
            refusal = http.post(
                f"/v1/sessions/{job}/tokens", json={"owner": "5f" * 32, "names": ["a"], **fields}
            )
            assert refusal.status_code == 422, fields
            assert refusal.json()["errors"][0]["pointer"].startswith("/names"), fields
    ward, clinic = (make(link) for link in shared.invite(job, names=["Ward 3", "Clinic"]))
    for name in ("Clinic", "ward 3", "Ward 3 ", "Ward 33"):
        assert refused(lambda name=name: ward.enroll(name=name)) == (
            Code.PERMISSION_DENIED,
            "name_differs",
        )
    with shared.client() as client:
        assert client.session(job)["tokens"] == {"used": 0, "open": 2}  # a refusal uses no token
    ward.enroll(name="Ward 3")
    assert refused(lambda: ward.enroll(name="Clinic")) == (
        Code.PERMISSION_DENIED,
        "name_differs",
    )  # nor later
    ward.enroll(name="Ward 3", announcement=b'{"zone": 3}')
    clinic.enroll(name="Clinic")
    shared.approve(job)
    with shared.client() as client:
        assert {one["name"] for one in client.session(job)["agents"]} == {"Ward 3", "Clinic"}


def test_owners_send_agents_away_before_they_sign(
    shared: Federation, make: Callable[..., Raw], job: str
) -> None:
    first, second = (make(link) for link in shared.invite(job, 2))
    first.enroll(name="first")
    second.enroll(name="second")
    gone = first.identity.fingerprint
    waiting = first.open()
    waiting.hello()
    with shared.client() as client:
        with pytest.raises(NotFound):
            client.remove_agent(job, "0" * 64)
        found = client.session(job)
        before = roster_document(found["id"], job, found["kind"], found["agents"])
        client.remove_agent(job, gone)
        assert [one["name"] for one in client.session(job)["agents"]] == ["second"]
        with pytest.raises(NotFound):
            client.remove_agent(job, gone)
    assert refused(first.enroll) == (Code.PERMISSION_DENIED, "token_used")
    with pytest.raises(InvalidInput, match="did not enrol like this"):
        shared.hand_in(job, before)
    (link,) = shared.invite(job, names=["third"])
    third = make(link)
    third.enroll(name="third")
    shared.approve(job)
    assert waiting.refusal() == (Code.PERMISSION_DENIED, "not_on_roster")
    with shared.client() as client, pytest.raises(Conflict) as signed:
        client.remove_agent(job, third.identity.fingerprint)
    assert signed.value.code == "roster_signed"


def test_streams(pair: tuple[Raw, Raw], make: Callable[..., Raw]) -> None:
    agent, _ = pair
    stranger = make(str(agent.link))
    stream = stranger.open()
    stream.hello()
    assert stream.refusal() == (Code.PERMISSION_DENIED, "not_enrolled")
    stream = agent.open()
    stream.send(contribution=pb.Contribution(body=b"x"))
    assert stream.refusal() == (Code.UNAUTHENTICATED, "hello_expected")
    stream = agent.open()
    stream.hello(skew=90)
    assert stream.refusal() == (Code.UNAUTHENTICATED, "clock_skew")
    stream = agent.open()
    other = agent.open()
    stream.out.put(other.message(hello=other.greeting()))  # recorded on another stream
    assert stream.refusal() == (Code.UNAUTHENTICATED, "wrong_nonce")
    stream = agent.open()
    stream.send(hello=stream.greeting(public_key=pair[1].identity.public_key))
    assert stream.refusal() == (Code.UNAUTHENTICATED, "bad_signature")
    for exchange in (b"", *SMALL_ORDER, b"\1" * 31, b"\1" * 33):
        stream = agent.open()
        stream.send(hello=stream.greeting(exchange=exchange))
        code = "bad_exchange" if exchange else "no_exchange"  # what older agents are told
        assert stream.refusal() == (Code.UNAUTHENTICATED, code)
    stream = agent.open()
    swapped = stream.message(hello=stream.greeting())
    swapped.content = pb.AgentContent(
        hello=stream.greeting(exchange=Exchange().public)
    ).SerializeToString()
    stream.out.put(swapped)
    assert stream.refusal() == (Code.UNAUTHENTICATED, "bad_signature")
    stream = agent.open()
    stream.hello()
    stream.hello()
    assert stream.refusal() == (Code.ALREADY_EXISTS, "replayed")
    stream = agent.open()
    stream.out.put(pb.AgentMessage(content=b"\xff\xff"))
    assert stream.refusal() == (Code.INVALID_ARGUMENT, "invalid_input")
    stream = agent.open()  # only an answer to a round has a MAC
    stream.hello()
    accept = stream.message(accept=stream.receipt(stream.hear()))
    accept.mac, accept.signature = stream_keys.mac(stream.key, stream.statement(accept)), b""
    stream.out.put(accept)
    assert stream.refusal() == (Code.UNAUTHENTICATED, "bad_signature")
    stream = agent.open()
    stream.hello()
    told_agent = pb.OperatorContent(start=stream.hear()).SerializeToString()
    stream.out.put(pb.AgentMessage(content=told_agent, sequence=1))  # reflected
    assert stream.refusal()[0] in (Code.INVALID_ARGUMENT, Code.UNAUTHENTICATED)


def test_a_newer_stream_replaces_the_older(pair: tuple[Raw, Raw]) -> None:
    agent, _ = pair
    older, newer = agent.open(), agent.open()
    older.hello()
    assert isinstance(older.hear(), pb.Start)
    newer.hello()
    assert older.refusal() == (Code.ABORTED, "replaced")
    assert isinstance(newer.hear(), pb.Start)


def changed(**fields: Any) -> Callable[[Stream, pb.Contribution], pb.AgentMessage]:
    """A contribution of which these fields are other than when its MAC was made."""

    def made(stream: Stream, good: pb.Contribution) -> pb.AgentMessage:
        message = stream.message(0, contribution=good)
        for name, value in fields.items():
            setattr(message, name, value(getattr(message, name)))
        return message

    return made


def signed_instead(stream: Stream, good: pb.Contribution) -> pb.AgentMessage:
    """As agents of an older version do: a good signature, and no MAC."""
    message = stream.message(0, contribution=good)
    message.mac, message.signature = b"", stream.agent.identity.sign(stream.statement(message))
    return message


def with_mac(message: pb.AgentMessage, mac: bytes) -> pb.AgentMessage:
    message.mac = mac
    return message


FORGERIES = (
    changed(round=lambda _: 1),
    changed(timestamp_ms=lambda at: at + 1),
    changed(sequence=lambda place: place + 1),
    changed(content=lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    changed(mac=lambda mac: mac[:-1] + bytes([mac[-1] ^ 1])),
    changed(mac=lambda mac: mac[:-1]),
    changed(mac=lambda mac: mac + b"\0"),
    changed(mac=lambda _: b""),
    changed(mac=lambda mac: 100 * mac),
    signed_instead,
    lambda stream, good: with_mac(signed_instead(stream, good), bytes(32)),
    lambda stream, good: stream.message(0, contribution=good, key=b""),
    lambda stream, good: stream.message(0, contribution=good, key=bytes(32)),
)


def test_rounds(shared: Federation, pair: tuple[Raw, Raw], job: str) -> None:
    """Each lie ends one stream of one agent; the other agent and the session do not notice."""
    import threading

    liar, honest = pair
    steady = honest.open()
    rounds: queue.SimpleQueue[Any] = queue.SimpleQueue()
    waiting = threading.Thread(target=lambda: rounds.put(steady.accept()), daemon=True)
    waiting.start()
    stream = liar.open()
    current = stream.accept()
    waiting.join(DEADLINE_SECONDS)
    assert rounds.get().broadcast == current.broadcast == b"begin"
    answers = signing.digest(current.broadcast)

    def again() -> Stream:
        fresh = liar.open()
        assert fresh.accept().number == 0
        return fresh

    good = pb.Contribution(body=NUMBER.pack(1), answers=answers)
    for number in (1, 7, 2**40):
        stream.send(number, contribution=good)
        assert stream.refusal() == (Code.FAILED_PRECONDITION, "wrong_round")
        stream = again()
    stream.send(0, contribution=pb.Contribution(body=NUMBER.pack(1), answers=bytes(32)))
    assert stream.refusal() == (Code.FAILED_PRECONDITION, "wrong_broadcast")
    stream = again()
    stream.send(0, contribution=good, skew=-40)
    assert stream.refusal() == (Code.UNAUTHENTICATED, "clock_skew")
    stream = again()
    before = stream
    recorded = before.message(0, contribution=good)
    before.call.cancel()
    for forge in FORGERIES:
        stream = again()
        stream.out.put(forge(stream, good))
        assert stream.refusal() == (Code.UNAUTHENTICATED, "bad_mac"), forge
    for lie in (recorded, before.message(0, contribution=good, key=steady.key)):
        stream = again()
        stream.out.put(lie)
        assert stream.refusal() == (Code.UNAUTHENTICATED, "bad_mac")
    for key in (before.key, steady.key):  # this stream's place, the key of another
        stream = again()
        stream.send(0, contribution=good, key=key)
        assert stream.refusal() == (Code.UNAUTHENTICATED, "bad_mac")
    for said in ({"accept": pb.Accept()}, {"decline": pb.Decline()}, {}):
        stream = again()
        lie = stream.message(**said)
        lie.mac, lie.signature = stream_keys.mac(stream.key, stream.statement(lie)), b""
        stream.out.put(lie)
        assert stream.refusal() == (Code.UNAUTHENTICATED, "bad_signature"), said
    stream = again()
    stream.send(0, contribution=good, sequence=9)
    assert stream.refusal() == (Code.ALREADY_EXISTS, "replayed")
    stream = again()
    for size, refusal in (
        (8 << 10, "message_too_large"),
        ((4 << 20) + 1, ""),
    ):  # the second by gRPC itself
        stream.send(0, contribution=pb.Contribution(body=bytes(size), answers=answers))
        assert stream.refusal() == (Code.RESOURCE_EXHAUSTED, refusal)
        stream = again()
    recorded = stream.send(0, contribution=good)
    stream.out.put(recorded)
    assert stream.refusal() == (Code.ALREADY_EXISTS, "replayed")
    stream = again()  # what was accepted is kept, and may be repeated, not changed
    stream.send(0, contribution=good)
    stream.send(0, contribution=pb.Contribution(body=NUMBER.pack(2), answers=answers))
    assert stream.refusal() == (Code.ALREADY_EXISTS, "contradiction")
    assert shared.round_of(job) == 0
    steady.send(0, contribution=good)
    following = steady.hear()
    assert (following.number, following.broadcast) == (1, NUMBER.pack(2))


def test_a_flood_is_stopped(pair: tuple[Raw, Raw], shared: Federation) -> None:
    liar, honest = pair
    streams = [agent.open() for agent in (liar, honest)]
    streams[1].hello()
    streams[1].send(accept=streams[1].receipt(streams[1].hear()))
    current = streams[0].accept()
    good = pb.Contribution(body=NUMBER.pack(1), answers=signing.digest(current.broadcast))
    for _ in range(1000):
        streams[0].send(0, contribution=good)
    assert streams[0].refusal() == (Code.RESOURCE_EXHAUSTED, "too_many_messages")


def test_what_was_accepted_must_be_what_was_charged(pair: tuple[Raw, Raw]) -> None:
    """A receipt is of an entry that holds the charge: a signed hash of anything else is none."""
    agent, _ = pair
    another = signing.booked(b"l" * 32, 1, bytes(32))
    for change, code in (
        ({"roster_digest": bytes(32)}, "wrong_roster"),
        ({"charge_digest": bytes(32)}, "wrong_roster"),
        ({"ledger_signature": bytes(64)}, "bad_receipt"),
        ({"ledger_seq": 2}, "bad_receipt"),
        ({"ledger_link": bytes(32)}, "bad_receipt"),
        ({"ledger_link": b"l" * 31}, "bad_receipt"),
        ({"ledger_signature": agent.identity.sign(signing.ledger_entry(another))}, "bad_receipt"),
        ({"ledger_signature": agent.identity.sign(signing.ledger_entry(b"h" * 32))}, "bad_receipt"),
    ):
        stream = agent.open()
        stream.hello()
        stream.send(accept=stream.receipt(stream.hear(), **change))
        assert stream.refusal()[1] == code


def test_health_and_reflection(shared: Federation) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{shared.rpc_port}") as channel:
        for name in ("", "discreet.v1.Federation"):
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=name)
            )
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (listed,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([request])
        )
        names = {service.name for service in listed.list_services_response.service}
    assert {"discreet.v1.Federation", "grpc.health.v1.Health"} <= names
