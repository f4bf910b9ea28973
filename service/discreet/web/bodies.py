"""Request bodies, read with limits and validated off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from fastapi import Request
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect

from discreet.errors import InvalidInput, Limit, PayloadTooLarge, TooManyBodies
from discreet.intake.field_issues import Schema, issues_of
from discreet.intake.strict_json import loads, memory_of
from discreet.settings import Settings

THREAD_BYTES = 1 << 16
"""Bodies above this size are parsed in a thread, in pieces, so that the event loop gets its
turn."""
SMALL_BYTES = 1 << 18
"""The most that a body of a few fields may hold."""
CERTIFICATE_BYTES = 4 << 20
ROSTER_BYTES = 9 << 20
"""Bytes of a roster: 4 MiB of text and the escapes of its quotes."""
LARGE_AT_ONCE = 2
"""Bodies above `THREAD_BYTES` that are parsed at once: each may take a multiple of itself in
memory."""

WAIT_SECONDS = 10.0
"""Seconds that a large body waits for its turn: fewer than it may pause, so that its sender
reads the true cause."""
AGAIN_SECONDS = 5

Model = TypeVar("Model")
Answer = TypeVar("Answer")
_LIMITER: RunVar[anyio.CapacityLimiter] = RunVar("large_bodies")
_TURNS: RunVar[WeakValueDictionary[str, anyio.Semaphore]] = RunVar("turns_of_large_bodies")


def validate(adapter: TypeAdapter[Model], value: Any) -> Model:
    """`value` as the model; InvalidInput with a pointer for each bad field."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise InvalidInput(
            issues_of(error.errors(include_url=False), value, _schema(adapter))
        ) from error


@lru_cache(maxsize=64)
def _schema(adapter: TypeAdapter[Any]) -> Schema:
    """The JSON schema of a type, for the names of its fields."""
    return adapter.json_schema()


def of_job(settings: Settings) -> Limit:
    """The most bytes of the body of a job or plan."""
    return _least(settings, Limit("job_body_bytes", "bytes", settings.job_body_bytes))


def _least(settings: Settings, limit: Limit) -> Limit:
    if settings.json_body_bytes < limit.allowed:
        return Limit("json_body_bytes", "bytes", settings.json_body_bytes)
    return limit


async def read(request: Request, most: Limit) -> bytes:
    """The body, refused as soon as it is known to be over the limit."""
    found = bytearray()
    async for part in parts(request, most):
        found += part
    return bytes(found)


@asynccontextmanager
async def held(request: Request, most: Limit, *, form: bool = False) -> AsyncIterator[bytes]:
    """The body, for the time that it is needed; `form`: that of a multipart form.

    Above `THREAD_BYTES` it takes one of its tenant's turns before the rest of it is read: a hundred
    connections of one key would otherwise hold a hundred large bodies, and what they are parsed to.
    Errors: TooManyBodies.
    """
    found = bytearray()
    async with AsyncExitStack() as turn:
        async for part in parts(request, most, form=form):
            if len(found) <= THREAD_BYTES < len(found) + len(part):
                await turn.enter_async_context(_turn(request))
            found += part
        yield bytes(found)


@asynccontextmanager
async def _turn(request: Request) -> AsyncIterator[None]:
    at_once = request.app.state.services.settings.tenant_bodies
    try:
        turns = _TURNS.get()
    except LookupError:
        turns = WeakValueDictionary()
        _TURNS.set(turns)
    free = turns.setdefault(request.state.tenant_id, anyio.Semaphore(at_once))
    with anyio.move_on_after(WAIT_SECONDS) as waiting:
        await free.acquire()
    if waiting.cancelled_caught:
        raise TooManyBodies(Limit("tenant_bodies", "bodies", at_once, at_once + 1), AGAIN_SECONDS)
    try:
        yield
    finally:
        free.release()


def declared(request: Request) -> int:
    """The length of the body by its header; 0 where that does not say it."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isascii() and said.isdigit() else 0


async def while_there(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """What `work` makes, which is ended when whoever asked has gone: of the body nothing is left to
    come. InvalidInput, which nobody hears."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    asked, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    going_on = (asked, leaving)
    try:
        await asyncio.wait(going_on, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done() and not asked.done():
            says = "the client closed the connection before it was answered"
            raise InvalidInput(says, code="invalid_json")
        return await asked
    finally:
        for one in going_on:
            one.cancel()
        await asyncio.gather(*going_on, return_exceptions=True)


async def parts(request: Request, most: Limit, *, form: bool = False) -> AsyncIterator[bytes]:
    """The body as it comes, refused as soon as it is known to be over the limit."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise InvalidInput(
            f"the body is compressed ({encoding[:40]}): send it uncompressed", code="invalid_json"
        )
    if not form and request.headers.get("content-type", "").lower().startswith("multipart/"):
        raise InvalidInput("this is a multipart form; this call takes JSON", code="invalid_json")
    if (length := declared(request)) > most.allowed:
        raise PayloadTooLarge(limit=replace(most, came=length))
    came = 0
    try:
        async for part in request.stream():
            came += len(part)
            if came > most.allowed:
                raise PayloadTooLarge(limit=most)
            yield part
    except ClientDisconnect as error:
        raise InvalidInput(
            "the client closed the connection before the whole body arrived", code="invalid_json"
        ) from error


async def parse(adapter: TypeAdapter[Model], body: bytes) -> Model:
    """JSON bytes as a validated model."""
    return await in_thread_if_large(lambda: validate(adapter, value_of(body)), len(body))


def value_of(body: bytes) -> Any:
    """The value of strict JSON that takes no more memory than such a body may."""
    return loads(body, memory_of(len(body)))


async def in_thread_if_large(work: Callable[[], Answer], size: int) -> Answer:
    """What `work` on so many bytes gives: above `THREAD_BYTES` in a thread, `LARGE_AT_ONCE` of them
    at a time."""
    if size <= THREAD_BYTES:
        return work()
    try:
        limiter = _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(LARGE_AT_ONCE)
        _LIMITER.set(limiter)
    return await anyio.to_thread.run_sync(work, limiter=limiter)


def json_body(
    model: Any, most: int | None = SMALL_BYTES
) -> Callable[[Request], AsyncIterator[Any]]:
    """A dependency that gives the validated JSON body of at most so many bytes; None: as many as a
    job may have.

    It stands after that on the principal, whose tenant's turn a large body takes.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    async def dependency(request: Request) -> AsyncIterator[Any]:
        settings = request.app.state.services.settings
        limit = (
            of_job(settings)
            if most is None
            else _least(settings, Limit("body_bytes", "bytes", most))
        )
        async with held(request, limit) as body:
            yield await parse(adapter, body)

    return dependency
