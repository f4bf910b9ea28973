"""Which agent a message comes from: its key signs all that begins or ends something, and agrees
with the server on a key for each stream under which answers to rounds have a MAC.

A signature takes 37 us to check, a MAC 2, and there is one answer of each agent in each round. A
MAC proves nothing to anybody but this server, and nothing more is needed of an answer's envelope:
it is never stored or passed on. What agents prove to each other or to strangers is signed inside
(decision 42).
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from prometheus_client import Counter

from discreet.errors import Conflict, Unauthenticated
from discreet.ledger.entries import Signer
from discreet.rpc.admission import Messages
from discreet.rpc.ed25519 import is_signed
from discreet.rpc.interceptors import Behaviour, Checked, Interceptor, Received, parsed
from discreet_agent.federation import signing
from discreet_agent.federation.stream_keys import Exchange, Verifier
from discreet_agent.stubs import federation_pb2 as pb

NONCE_BYTES = 32

_messages = Counter("discreet_rpc_messages_total", "Messages of agents that were let through")


class Authentication(Interceptor):
    """Only messages pass that come from the agent's key, for this stream, this position in it, and
    this time."""

    def __init__(self, signer: Signer, skew_seconds: float) -> None:
        self._signer = signer
        self._public_key = signer.public_key().public_bytes_raw()
        self._skew_ms = int(skew_seconds * 1000)

    def wrap(self, handler: Any, ours: bool, method: str) -> Any:
        if not ours:
            return handler
        if handler.unary_unary is not None:
            enroll: Behaviour = handler.unary_unary
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: self._enroll(enroll, request, context),
                handler.request_deserializer,
                handler.response_serializer,
            )
        take_part: Behaviour = handler.stream_stream
        return grpc.stream_stream_rpc_method_handler(
            lambda messages, context: self._stream(take_part, messages, context),
            handler.request_deserializer,
            None,  # `signed` has serialized them
        )

    async def _enroll(self, inner: Behaviour, request: Any, context: Any) -> Any:
        statement = signing.enrolment(
            request.session, request.nonce, max(0, request.timestamp_ms), request.content
        )
        _check_signature(request.public_key, statement, request.signature)
        self._check_time(request.timestamp_ms)
        content = parsed(pb.Enrolment.FromString, request.content)
        received = Received(
            request.session,
            request.public_key,
            signing.fingerprint(request.public_key),
            0,
            "enrolment",
            content,
        )
        answer: pb.Enrolled = await inner(received, context)
        answer.nonce = request.nonce
        data = answer.SerializeToString()
        signature = self._signer.sign(signing.enrolled(request.session, data))
        return pb.EnrollResponse(public_key=self._public_key, content=data, signature=signature)

    async def _stream(self, inner: Behaviour, messages: Messages, context: Any) -> None:
        nonce, exchange = os.urandom(NONCE_BYTES), Exchange()
        challenge = pb.Challenge(
            nonce=nonce,
            timestamp_ms=_now_ms(),
            public_key=self._public_key,
            exchange=exchange.public,
        )
        data = pb.OperatorContent(challenge=challenge).SerializeToString()
        await context.write(_envelope(self._signer, "", data))
        checked = self._checked(messages, nonce, data, exchange)
        await inner(Checked(checked, messages), context)

    async def _checked(
        self, messages: Messages, nonce: bytes, challenge: bytes, exchange: Exchange
    ) -> AsyncIterator[Received]:
        session, public_key, name, expected = "", b"", "", 0
        statement, verifier = signing.messages(session, nonce), None
        async for data in messages:
            message = parsed(pb.AgentMessage.FromString, data)
            said = message.content
            content = parsed(pb.AgentContent.FromString, said)
            kind = content.WhichOneof("kind")
            if expected == 0:
                if kind != "hello":
                    raise Unauthenticated("a stream begins with Hello", code="hello_expected")
                session, public_key = content.hello.session, content.hello.public_key
                name, statement = signing.fingerprint(public_key), signing.messages(session, nonce)
                if content.hello.nonce != nonce:
                    raise Unauthenticated("this is the Hello of another stream", code="wrong_nonce")
            elif kind == "hello":
                raise Conflict("a stream has one Hello", code="replayed")
            authenticated = statement(
                message.sequence, message.round, max(0, message.timestamp_ms), said
            )
            if kind != "contribution":
                _check_signature(public_key, authenticated, message.signature)
            elif verifier is None or not verifier.is_authentic(authenticated, message.mac):
                raise Unauthenticated(
                    "the MAC is not that of this stream's key on this message", code="bad_mac"
                )
            self._check_time(message.timestamp_ms)
            if message.sequence != expected:
                raise Conflict(
                    f"message {expected} was expected, not {message.sequence}", code="replayed"
                )
            if expected == 0:
                verifier = _agreed(exchange, content.hello, challenge, said)
            expected += 1
            _messages.inc()
            yield Received(
                session,
                public_key,
                name,
                message.round,
                str(kind),
                getattr(content, str(kind), None),
            )

    def _check_time(self, timestamp_ms: int) -> None:
        off = timestamp_ms - _now_ms()
        if abs(off) > self._skew_ms:
            raise Unauthenticated(
                f"the agent's clock is {off / 1000:+.0f} s off; {self._skew_ms / 1000:g} s are "
                "allowed",
                code="clock_skew",
            )


def signed(signer: Signer, session: str, **content: Any) -> bytes:
    """An operator's message (OperatorMessage), signed for one session. In bytes: a broadcast goes
    to all agents of a session, and is serialized once."""
    return _envelope(signer, session, pb.OperatorContent(**content).SerializeToString())


def _envelope(signer: Signer, session: str, data: bytes) -> bytes:
    signature = signer.sign(signing.operator(session, data))
    message: bytes = pb.OperatorMessage(content=data, signature=signature).SerializeToString()
    return message


def _check_signature(public_key: bytes, statement: bytes, signature: bytes) -> None:
    if not is_signed(public_key, statement, signature):
        raise Unauthenticated(
            "the signature is not that of this key on this message", code="bad_signature"
        )


def _agreed(exchange: Exchange, hello: pb.Hello, challenge: bytes, said: bytes) -> Verifier:
    """What checks this stream's contributions. An agent that offers no key of its own speaks an
    older version: it is told so, and no signature is taken instead."""
    if not hello.exchange:
        raise Unauthenticated(
            "this Hello has no X25519 key: the agent speaks an older version of the protocol",
            code="no_exchange",
        )
    try:
        return Verifier(exchange.key(hello.exchange, hello.session, challenge, said))
    except ValueError:
        raise Unauthenticated(
            "no secret can be agreed on with this X25519 key", code="bad_exchange"
        ) from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
