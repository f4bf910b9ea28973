"""What stands before the federation service, outermost first: tracing and errors, limits, signatures.

    Tracing       one span and one log line a call; what discreet refuses becomes a gRPC status with a stable code
    Limits        streams at once, messages a second on each
    Signatures    the agent's key signs every message: method, session, stream's nonce, sequence, round, time, content

Behind them the service sees `Received`: a message, and the key that signed it. Whether that key may do anything is the
service's question.
"""

from __future__ import annotations

import os
import time
import traceback
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import grpc
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.message import DecodeError
from prometheus_client import Counter, Gauge

from discreet import telemetry
from discreet.errors import (
    Conflict,
    DiscreetError,
    Forbidden,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    Unauthenticated,
    Unavailable,
)
from discreet.storage.database import Database, trouble
from discreet.storage.schema import schema_trouble
from discreet_client.federation import signing
from discreet_client.stubs import federation_pb2 as pb

log = structlog.get_logger()

SERVICE = "discreet.v1.Federation"
CODE_KEY = "discreet-code"
NONCE_BYTES = 32
HELLO_SECONDS = 20.0

STATUS: tuple[tuple[type[DiscreetError], grpc.StatusCode], ...] = (
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (Conflict, grpc.StatusCode.FAILED_PRECONDITION),
    (PayloadTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (DiscreetError, grpc.StatusCode.INTERNAL),
)
STATUS_OF_CODE = {
    "replayed": grpc.StatusCode.ALREADY_EXISTS,
    "contradiction": grpc.StatusCode.ALREADY_EXISTS,
    "replaced": grpc.StatusCode.ABORTED,
}
"""Codes that gRPC has a better word for."""

_calls = Counter("discreet_rpc_calls_total", "Calls that ended", ["method", "code"])
_messages = Counter("discreet_rpc_messages_total", "Messages of agents that were let through")
_streams = Gauge("discreet_rpc_streams", "Streams that are open")

Behaviour = Callable[[Any, Any], Awaitable[Any]]


class Received(NamedTuple):
    """A message and the key that signed it."""

    session: str
    public_key: bytes
    fingerprint: str
    round: int
    kind: str
    content: Any


class Interceptor(grpc.aio.ServerInterceptor):
    """Wraps the behaviours of our own service; health and reflection pass."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None or not details.method.startswith(f"/{SERVICE}/"):
            return handler
        method = details.method.rpartition("/")[2]
        if handler.stream_stream is not None:
            return grpc.stream_stream_rpc_method_handler(
                self._bound(self.stream, handler.stream_stream, method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._bound(self.unary, handler.unary_unary, method),
            handler.request_deserializer,
            handler.response_serializer,
        )

    @staticmethod
    def _bound(wrapper: Any, inner: Behaviour, method: str) -> Behaviour:
        async def behaviour(request: Any, context: Any) -> Any:
            return await wrapper(inner, method, request, context)

        return behaviour

    @abstractmethod
    async def unary(self, inner: Behaviour, method: str, request: Any, context: Any) -> Any: ...

    @abstractmethod
    async def stream(self, inner: Behaviour, method: str, requests: Any, context: Any) -> None: ...


class Tracing(Interceptor):
    """Spans, log lines and the one table from refusals to statuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def unary(self, inner: Behaviour, method: str, request: Any, context: Any) -> Any:
        async with _told(method, context, self._database):
            return await inner(request, context)

    async def stream(self, inner: Behaviour, method: str, requests: Any, context: Any) -> None:
        async with _told(method, context, self._database):
            await inner(requests, context)


@asynccontextmanager
async def _told(method: str, context: Any, database: Database) -> AsyncIterator[None]:
    started = time.monotonic()
    status, code = grpc.StatusCode.OK, ""
    with telemetry.span(f"{SERVICE}/{method}", kind=telemetry.Kind.SERVER) as span:
        try:
            yield
        except DiscreetError as error:
            status, code = status_of(error), error.code
            await context.abort(status, error.detail, ((CODE_KEY, error.code),))
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            found = trouble(error) or await schema_trouble(database, error)
            if found is not None:
                status, code = grpc.StatusCode.UNAVAILABLE, found.code
                log.warning("database trouble", method=method, code=code, error=type(error).__name__)
                await context.abort(status, found.detail, ((CODE_KEY, code),))
            # Where, and of which type; not the message, which may carry a value.
            status, code = grpc.StatusCode.INTERNAL, "internal"
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("unexpected error", method=method, error=type(error).__name__, trace=where)
            await context.abort(status, "something went wrong", ((CODE_KEY, code),))
        finally:
            span.set_attribute("rpc.grpc.status_code", status.value[0])
            _calls.labels(method, status.name).inc()
            seconds = round(time.monotonic() - started, 4)
            log.info("call", method=method, peer=context.peer(), status=status.name, code=code, seconds=seconds)


def status_of(error: DiscreetError) -> grpc.StatusCode:
    if error.code in STATUS_OF_CODE:
        return STATUS_OF_CODE[error.code]
    return next(status for kind, status in STATUS if isinstance(error, kind))


class Limits(Interceptor):
    """Bounds what one process and one stream take. The size of a message is bounded by gRPC itself."""

    def __init__(self, streams: int, messages_per_second: float) -> None:
        self._most, self._rate = streams, messages_per_second
        self._open = 0

    async def unary(self, inner: Behaviour, method: str, request: Any, context: Any) -> Any:
        with self._counted():
            return await inner(request, context)

    async def stream(self, inner: Behaviour, method: str, requests: Any, context: Any) -> None:
        with self._counted():
            await inner(self._paced(requests), context)

    def _counted(self) -> _Counted:
        if self._open >= self._most:
            raise Unavailable("this process serves as many streams as it may; try again", code="too_many_streams")
        return _Counted(self)

    async def _paced(self, requests: Any) -> AsyncIterator[Any]:
        """A token bucket of one second."""
        left, last = self._rate, time.monotonic()
        async for message in requests:
            now = time.monotonic()
            left = min(self._rate, left + (now - last) * self._rate)
            last = now
            if left < 1:
                raise PayloadTooLarge(f"more than {self._rate:g} messages a second", code="too_many_messages")
            left -= 1
            yield message


class _Counted:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def __enter__(self) -> None:
        self._limits._open += 1
        _streams.set(self._limits._open)

    def __exit__(self, *_: object) -> None:
        self._limits._open -= 1
        _streams.set(self._limits._open)


class Signatures(Interceptor):
    """Nothing passes that the agent's key did not sign for this very place: this stream, this turn, now."""

    def __init__(self, signer: Ed25519PrivateKey, skew_seconds: float) -> None:
        self._signer = signer
        self._public_key = signer.public_key().public_bytes_raw()
        self._skew_ms = int(skew_seconds * 1000)

    async def unary(self, inner: Behaviour, method: str, request: Any, context: Any) -> Any:
        statement = signing.enrolment(request.session, request.nonce, max(0, request.timestamp_ms), request.content)
        self._check(request.public_key, statement, request.signature, request.timestamp_ms)
        content = _parsed(pb.Enrolment, request.content)
        received = Received(
            request.session, request.public_key, signing.fingerprint(request.public_key), 0, "enrolment", content
        )
        answer: pb.Enrolled = await inner(received, context)
        answer.nonce = request.nonce
        data = answer.SerializeToString()
        signature = self._signer.sign(signing.enrolled(request.session, data))
        return pb.EnrollResponse(public_key=self._public_key, content=data, signature=signature)

    async def stream(self, inner: Behaviour, method: str, requests: Any, context: Any) -> None:
        nonce = os.urandom(NONCE_BYTES)
        challenge = pb.Challenge(nonce=nonce, timestamp_ms=_now_ms(), public_key=self._public_key)
        await context.write(signed(self._signer, "", challenge=challenge))
        await inner(self._checked(requests, nonce), context)

    async def _checked(self, requests: Any, nonce: bytes) -> AsyncIterator[Received]:
        session, key, name, expected = "", b"", "", 0
        statement = signing.messages(session, nonce)
        async for message in requests:
            content = _parsed(pb.AgentContent, message.content)
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
            signed_bytes = statement(message.sequence, message.round, max(0, message.timestamp_ms), message.content)
            self._check(key, signed_bytes, message.signature, message.timestamp_ms)
            if message.sequence != expected:
                raise Conflict(f"message {expected} was expected, not {message.sequence}", code="replayed")
            expected += 1
            _messages.inc()
            yield Received(session, key, name, message.round, str(kind), getattr(content, str(kind), None))

    def _check(self, key: bytes, statement: bytes, signature: bytes, timestamp_ms: int) -> None:
        if not signing.is_signed(key, statement, signature):
            raise Unauthenticated("the signature is not that of this key on this message", code="bad_signature")
        off = timestamp_ms - _now_ms()
        if abs(off) > self._skew_ms:
            raise Unauthenticated(
                f"the agent's clock is {off / 1000:+.0f} s off; {self._skew_ms / 1000:g} s are allowed",
                code="clock_skew",
            )


def signed(signer: Ed25519PrivateKey, session: str, **content: Any) -> pb.OperatorMessage:
    """An operator's message, signed for one session."""
    data = pb.OperatorContent(**content).SerializeToString()
    return pb.OperatorMessage(content=data, signature=signer.sign(signing.operator(session, data)))


def _parsed(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidInput("the message cannot be read") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
