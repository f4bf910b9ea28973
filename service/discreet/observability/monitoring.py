"""Health and metrics of a process: /healthz, /readyz and /metrics on a port of its own.

It answers GET and HEAD from scrapers and probes, on loopback or inside a cluster; it is not a
general web server. Metrics have kinds, states and codes as labels, never a tenant, a job or a
number from data. What is counted (failed attempts, lost leases) is for operators alone: keep this
port where analysts cannot reach it.

Processes that read private contents tell nobody how much processor time or memory they take, nor
how often their garbage was collected: prometheus_client's collectors of these are not shown.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    GC_COLLECTOR,
    PROCESS_COLLECTOR,
    REGISTRY,
    generate_latest,
)

from discreet.errors import DiscreetError

for _of_work in (PROCESS_COLLECTOR, GC_COLLECTOR):
    with suppress(KeyError):  # where another program has taken them away already
        REGISTRY.unregister(_of_work)

CHECK_SECONDS = 5.0
"""A check that takes longer has failed."""

REQUEST_SECONDS = 5.0
REQUEST_BYTES = 8192

Check = Callable[[], Awaitable[None]]
"""Raises if something does not work. The text of a DiscreetError is shown; of any other error only
the type."""


async def run_checks(checks: Mapping[str, Check]) -> dict[str, str]:
    """By the name of the check, `ok` or the reason in one line. All run at once, so one that hangs
    delays no other."""

    async def run(check: Check) -> str:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await check()
        except TimeoutError:
            return f"no answer within {CHECK_SECONDS:.0f} s"
        except DiscreetError as error:
            return error.detail
        except Exception as error:
            return type(error).__name__
        return "ok"

    answers = await asyncio.gather(*(run(check) for check in checks.values()))
    return dict(zip(checks, answers, strict=True))


def failing(answers: Mapping[str, str]) -> str | None:
    """The first check that failed, and why."""
    return next((f"{name}: {answer}" for name, answer in answers.items() if answer != "ok"), None)


@asynccontextmanager
async def answering(
    listener: socket.socket | None,
    checks: Mapping[str, Check],
    vital: tuple[str, ...] = (),
    refresh: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[None]:
    """Answer on `listener` until the block ends; with None do nothing. /healthz fails if a `vital`
    check fails: such a process must be started again. `refresh` is awaited before metrics are
    shown."""
    if listener is None:
        yield
        return

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS + CHECK_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _answer(head, checks, vital, refresh))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, sock=listener, limit=REQUEST_BYTES)
    async with server:
        yield


async def _answer(
    head: bytes,
    checks: Mapping[str, Check],
    vital: tuple[str, ...],
    refresh: Callable[[], Awaitable[None]] | None,
) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.split(b" ")[0].split(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response(405, "text/plain", b"GET only\n")
    if path == b"/metrics":
        if refresh is not None:
            await refresh()
        return _response(200, CONTENT_TYPE_LATEST, generate_latest())
    if path == b"/healthz":
        broken = failing(await run_checks({name: checks[name] for name in vital}))
        if broken is not None:
            return _response(
                500, "application/json", json.dumps({"status": "broken", "detail": broken}).encode()
            )
        return _response(200, "application/json", b'{"status":"ok"}')
    if path == b"/readyz":
        answers = await run_checks(checks)
        status = 200 if failing(answers) is None else 503
        body = {"status": "ready" if status == 200 else "not_ready", "checks": answers}
        return _response(
            status, "application/json", json.dumps(body, separators=(",", ":")).encode()
        )
    return _response(404, "text/plain", b"not found\n")


def _response(status: int, media_type: str, body: bytes) -> bytes:
    reason = HTTPStatus(status).phrase
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {media_type}\r\nContent-Length: "
        f"{len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
