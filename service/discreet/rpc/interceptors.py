"""What stands before the federation service, outermost first: tracing and errors, limits,
authentication.

    Tracing         one span and one log line a call; what discreet refuses becomes a gRPC status
                    with a stable code
    Doors           the waiting room, the length of messages, messages a second (`admission`)
    Authentication  an agent's key, or one that it agreed on for the stream, stands for every
                    message: session, stream's nonce, sequence, round, time, content
                    (`authentication`)

Behind them the service sees `Received`: a message, and the key that it comes from. Whether that key
may do anything is for the service to decide.
"""

from __future__ import annotations

import asyncio
import inspect
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
from discreet.observability import telemetry
from discreet.rpc.admission import Messages, WaitingRoom, too_many
from discreet.storage.database import Database, trouble
from discreet.storage.schema import schema_trouble

log = structlog.get_logger()

SERVICE = "discreet.v1.Federation"
CODE_KEY = "discreet-code"
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

Behaviour = Callable[[Any, Any], Awaitable[Any]]


class Received(NamedTuple):
    """A message and the key of the agent that it comes from."""

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
    return parsed(read, data)


async def _again(
    first: Any, messages: Messages, read: Callable[[bytes], Any]
) -> AsyncIterator[Any]:
    yield first
    async for data in messages:
        yield parsed(read, data)


def _shaped(handler: Any, behaviour: Behaviour) -> Any:
    """`behaviour` as a handler of bytes, with one answer or many as `handler` has."""
    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(behaviour, None, handler.response_serializer)
    return grpc.stream_unary_rpc_method_handler(behaviour, None, handler.response_serializer)


def parsed(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except DecodeError:
        raise InvalidInput("the message cannot be read") from None
