"""What stands before the federation service, outermost first: tracing and errors, limits,
signatures.

    Tracing       one span and one log line a call; what discreet refuses becomes a gRPC status with
                  a stable code
    Doors         the waiting room, the length of messages, messages a second (`admission`)
    Signatures    the agent's key signs every message: method, session, stream's nonce, sequence,
                  round, time, content

Behind them the service sees `Received`: a message, and the key that signed it. Whether that key
may do anything is for the service to decide.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
import traceback
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc
import structlog
from google.protobuf.message import DecodeError
from prometheus_client import Counter

from discreet.errors import (
    Conflict,
    DiscreetError,
    Forbidden,
    Gone,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    Unauthenticated,
    Unavailable,
)
from discreet.ledger.signer import Signer
from discreet.observability import telemetry
from discreet.rpc.admission import Messages, WaitingRoom, too_many
from discreet.rpc.ed25519 import is_signed
from discreet.storage.database import Database, trouble
from discreet.storage.schema import schema_trouble
from discreet_client.federation import signing
from discreet_client.stubs import federation_pb2 as pb

log = structlog.get_logger()

SERVICE = "discreet.v1.Federation"
CODE_KEY = "discreet-code"
NONCE_BYTES = 32
OTHER_STREAMS, OTHER_SECONDS = 32, 60.0
"""Streams of health (Watch) and reflection at once, and how long one may last."""

STATUS: tuple[tuple[type[DiscreetError], grpc.StatusCode], ...] = (
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (Conflict, grpc.StatusCode.FAILED_PRECONDITION),
    (Gone, grpc.StatusCode.FAILED_PRECONDITION),
    (PayloadTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (DiscreetError, grpc.StatusCode.INTERNAL),
)
STATUS_OF_CODE = {
    "replayed": grpc.StatusCode.ALREADY_EXISTS,
    "contradiction": grpc.StatusCode.ALREADY_EXISTS,
    "replaced": grpc.StatusCode.ABORTED,
    "first_message_late": grpc.StatusCode.DEADLINE_EXCEEDED,
}
"""Codes that gRPC has a better word for."""

_calls = Counter("discreet_rpc_calls_total", "Calls that ended", ["method", "code"])
_messages = Counter("discreet_rpc_messages_total", "Messages of agents that were let through")

Behaviour = Callable[[Any, Any], Awaitable[Any]]


class Received(NamedTuple):
    """A message and the key that signed it."""

    session: str
    public_key: bytes
    fingerprint: str
    round: int
    kind: str
    content: Any


@dataclass(frozen=True)
class Checked:
    """A stream as the service sees it: checked messages, and the way to say that the agent is
    known."""

    received: AsyncIterator[Received]
    messages: Messages


class Interceptor(grpc.aio.ServerInterceptor):
    """Wraps the behaviours of every service. Behind `Doors` all behaviours have one shape: messages
    in, answers out."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None:
            return None
        service, _, method = details.method.lstrip("/").partition("/")
        return self.wrap(handler, service == SERVICE, method)

    @abstractmethod
    def wrap(self, handler: Any, ours: bool, method: str) -> Any:
        """The handler to use instead."""


class Tracing(Interceptor):
    """Spans, log lines and the one table from refusals to statuses; of health and reflection the
    table alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def wrap(self, handler: Any, ours: bool, method: str) -> Any:
        inner: Behaviour = handler.stream_stream or handler.stream_unary

        async def behaviour(requests: Any, context: Any) -> Any:
            if not ours:
                answer, refusal = await _outcome(inner(requests, context), method, self._database)
            else:
                started = time.monotonic()
                with telemetry.span(f"{SERVICE}/{method}", kind=telemetry.Kind.SERVER) as span:
                    status, code = grpc.StatusCode.CANCELLED, ""
                    try:
                        answer, refusal = await _outcome(
                            inner(requests, context), method, self._database
                        )
                        status, code = (
                            (grpc.StatusCode.OK, "")
                            if refusal is None
                            else (refusal.status, refusal.code)
                        )
                    finally:
                        span.set_attribute("rpc.grpc.status_code", status.value[0])
                        _calls.labels(method, status.name).inc()
                        seconds = round(time.monotonic() - started, 4)
                        log.info(
                            "call",
                            method=method,
                            peer=context.peer(),
                            status=status.name,
                            code=code,
                            seconds=seconds,
                        )
            if refusal is not None:
                await context.abort(refusal.status, refusal.detail, ((CODE_KEY, refusal.code),))
            return answer

        return _shaped(handler, behaviour)


class Refusal(NamedTuple):
    """How a refused call ends."""

    status: grpc.StatusCode
    code: str
    detail: str


async def _outcome(
    call: Awaitable[Any], method: str, database: Database
) -> tuple[Any, Refusal | None]:
    """What a call answers, or how it is refused.

    The error itself does not leave this function: an exception that gRPC's abort were raised beside
    would stand in its context, and their tracebacks would keep the call's frames, and whatever lies
    in them, until a collector comes.
    """
    try:
        return await call, None
    except DiscreetError as error:
        return None, Refusal(status_of(error), error.code, error.detail)
    except grpc.aio.AbortError:
        raise
    except Exception as error:
        found = trouble(error) or await schema_trouble(database, error)
        if found is not None:
            log.warning(
                "database trouble", method=method, code=found.code, error=type(error).__name__
            )
            return None, Refusal(grpc.StatusCode.UNAVAILABLE, found.code, found.detail)
        # Where, and of which type; not the message, which may carry a value.
        where = "".join(traceback.format_tb(error.__traceback__))
        log.error("unexpected error", method=method, error=type(error).__name__, trace=where)
        return None, Refusal(grpc.StatusCode.INTERNAL, "internal", "something went wrong")


def status_of(error: DiscreetError) -> grpc.StatusCode:
    if error.code in STATUS_OF_CODE:
        return STATUS_OF_CODE[error.code]
    return next(status for kind, status in STATUS if isinstance(error, kind))


class Doors(Interceptor):
    """No byte of a call is read before it has a place in the waiting room, and no message that
    is too long is parsed. For gRPC every method takes a stream of bytes: a call with one message
    is such a stream on the wire, so this code decides when it is read. Health and reflection go
    through the same room; their streams have few places of their own, and end after OTHER_SECONDS.
    """

    def __init__(self, room: WaitingRoom, messages_per_second: float) -> None:
        self._room, self._rate = room, messages_per_second
        self._others = 0

    def wrap(self, handler: Any, ours: bool, method: str) -> Any:
        single = handler.unary_unary or handler.unary_stream
        inner: Callable[..., Any] = single or handler.stream_stream
        read: Callable[[bytes], Any] = handler.request_deserializer or bytes

        async def behaviour(requests: Any, context: Any) -> Any:
            async with self._room.visit(context.peer()) as visitor:
                messages = Messages(context, visitor, self._room, self._rate)
                if handler.unary_unary:
                    return await inner(await _first(messages, read), context)
                if ours:
                    return await inner(messages, context)
                request = await _first(messages, read)
                messages.seated()
                return await self._other(
                    inner(request if single else _again(request, messages, read), context), context
                )

        return _shaped(handler, behaviour)

    async def _other(self, answers: Any, context: Any) -> None:
        """A stream of health or reflection."""
        if self._others >= OTHER_STREAMS:
            if not inspect.isasyncgen(answers):
                answers.close()
            raise too_many()
        self._others += 1
        try:
            async with asyncio.timeout(OTHER_SECONDS):
                if inspect.isasyncgen(answers):
                    async for answer in answers:
                        await context.write(answer)
                else:
                    await answers
        except TimeoutError:
            raise Unavailable(
                "this stream has lasted long enough; come again", code="too_many_streams"
            ) from None
        finally:
            self._others -= 1


async def _first(messages: Messages, read: Callable[[bytes], Any]) -> Any:
    """The message of a call with a single message."""
    try:
        data = await anext(messages)
    except StopAsyncIteration:
        raise InvalidInput("the call ended before its message") from None
    return _parsed(read, data)


async def _again(
    first: Any, messages: Messages, read: Callable[[bytes], Any]
) -> AsyncIterator[Any]:
    yield first
    async for data in messages:
        yield _parsed(read, data)


def _shaped(handler: Any, behaviour: Behaviour) -> Any:
    """`behaviour` as a handler of bytes, with one answer or many as `handler` has."""
    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(behaviour, None, handler.response_serializer)
    return grpc.stream_unary_rpc_method_handler(behaviour, None, handler.response_serializer)


class Signatures(Interceptor):
    """Only messages pass that the agent's key signed for this stream, this position in it, and
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
        self._check(request.public_key, statement, request.signature, request.timestamp_ms)
        content = _parsed(pb.Enrolment.FromString, request.content)
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
        nonce = os.urandom(NONCE_BYTES)
        challenge = pb.Challenge(nonce=nonce, timestamp_ms=_now_ms(), public_key=self._public_key)
        await context.write(signed(self._signer, "", challenge=challenge))
        await inner(Checked(self._checked(messages, nonce), messages), context)

    async def _checked(self, messages: Messages, nonce: bytes) -> AsyncIterator[Received]:
        session, key, name, expected = "", b"", "", 0
        statement = signing.messages(session, nonce)
        async for data in messages:
            message = _parsed(pb.AgentMessage.FromString, data)
            content = _parsed(pb.AgentContent.FromString, message.content)
            kind = content.WhichOneof("kind")
            if expected == 0:
                if kind != "hello":
                    raise Unauthenticated("a stream begins with Hello", code="hello_expected")
                session, key = content.hello.session, content.hello.public_key
                name, statement = signing.fingerprint(key), signing.messages(session, nonce)
                if content.hello.nonce != nonce:
                    raise Unauthenticated("this is the Hello of another stream", code="wrong_nonce")
            elif kind == "hello":
                raise Conflict("a stream has one Hello", code="replayed")
            signed_bytes = statement(
                message.sequence, message.round, max(0, message.timestamp_ms), message.content
            )
            self._check(key, signed_bytes, message.signature, message.timestamp_ms)
            if message.sequence != expected:
                raise Conflict(
                    f"message {expected} was expected, not {message.sequence}", code="replayed"
                )
            expected += 1
            _messages.inc()
            yield Received(
                session, key, name, message.round, str(kind), getattr(content, str(kind), None)
            )

    def _check(self, key: bytes, statement: bytes, signature: bytes, timestamp_ms: int) -> None:
        if not is_signed(key, statement, signature):
            raise Unauthenticated(
                "the signature is not that of this key on this message", code="bad_signature"
            )
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
    data = pb.OperatorContent(**content).SerializeToString()
    signature = signer.sign(signing.operator(session, data))
    message: bytes = pb.OperatorMessage(content=data, signature=signature).SerializeToString()
    return message


def _parsed(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except DecodeError:
        raise InvalidInput("the message cannot be read") from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
