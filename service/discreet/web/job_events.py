"""Server-sent events of jobs, for clients of the API and for pages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from discreet.storage.tenants import Principal
from discreet.usecases import jobs
from discreet.usecases.services import Services

KEEPALIVE_SECONDS = 15.0
STILL_THERE = ": still there\n\n"
"""A comment in the stream, which keeps proxies from closing an idle connection."""
_LAST_EVENT = 2**31 - 1
"""The largest number of an event; a client that names a larger one has seen them all."""


def event(name: str, data: dict[str, Any], seq: int | None = None) -> str:
    """One event as the stream carries it."""
    number = "" if seq is None else f"id: {seq}\n"
    return f"{number}event: {name}\ndata: {json.dumps(data)}\n\n"


def stream_of(events: AsyncIterator[str]) -> Response:
    """The answer that sends `events` as they come."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def job_events(
    request: Request,
    principal: Principal,
    job_id: str,
    after: int,
    still_allowed: Callable[[], Awaitable[bool]],
) -> Response:
    """The events of a job after number `after`; the stream ends with the job, with the server, and
    as soon as `still_allowed` says no: it is asked before each look. NotFound for a job that
    `principal` may not see, TooManyStreams."""
    services: Services = request.app.state.services
    hub = request.app.state.hub
    hub.require_room(principal.key_id)
    await jobs.find(services, principal, job_id)

    async def events() -> AsyncIterator[str]:
        seen = min(after, _LAST_EVENT)
        with hub.waiting(job_id, principal.key_id) as changed:
            while not hub.closing:
                changed.clear()
                if not await still_allowed():
                    return
                rows, ended = await jobs.events(services, principal, job_id, seen)
                for row in rows:
                    seen = row["seq"]
                    yield event(row["event"], row["details"], seen)
                if ended:
                    return
                if not await hub.wait(changed, KEEPALIVE_SECONDS):
                    yield STILL_THERE

    return stream_of(events())
