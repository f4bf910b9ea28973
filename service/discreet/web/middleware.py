"""Around every request: its turn among those of its key, how long it took, and the headers of every
answer. Plain ASGI, since that costs only microseconds."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from weakref import WeakValueDictionary

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.observability import telemetry
from discreet.web import problem_details
from discreet.web.codes import NOTHING_HERE
from discreet.web.security import HOST_PREFIX, SESSION_COOKIE

UNTIMED = re.compile(
    r"POST (/v1/datasets|/v1/reads|/datasets/(upload|content|address|read|reading)"
    r"|/datasets/[^/]+/correct(/read|/reading)?"
    r"|/v1/sources/[^/]+/blocks|/sources/[^/]+/(upload|address))"
    r"|PATCH /v1/(datasets|sources)/[^/]+|DELETE /v1/(datasets|reads)/[^/]+"
)
"""How long such a request takes, which reads or checks a content, may depend on it, so no metric
and no trace shows it."""
UNTRACED = frozenset({"/healthz", "/readyz"})

NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The policy of an answer without one of its own: it loads nothing, sends nothing and is shown
in no frame."""
OF_PAGES = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}

_requests = Counter(
    "discreet_http_requests_total", "Requests that were answered", ["method", "route", "status"]
)
_seconds = Histogram(
    "discreet_http_request_seconds", "Time to answer", ["method", "route", "status"]
)
_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})


class _Turn:
    """One request's turn among those of its credentials, which all have their places in one order:
    nobody waits for a request that waits for them."""

    def __init__(self, free: list[asyncio.Semaphore]) -> None:
        self._free = free
        self._held: list[asyncio.Semaphore] = []

    async def come(self) -> None:
        for one in self._free:
            await one.acquire()
            self._held.append(one)

    def end(self) -> None:
        """An event stream gives its turn back when it begins, as it may stay for hours; then again,
        as every request does, which changes nothing."""
        while self._held:
            self._held.pop().release()


class Envelope:
    """Measures, and completes the headers: quota, deprecation, no sniffing, no caching unless an
    answer says otherwise.

    Of the requests of one key, or session, `at_once` are worked on and the others wait here, before
    anything was done for them: the loop serves all keys, and takes what is ready in turn.

    A path with a NUL byte names nothing, and no database takes it: 404.
    """

    def __init__(self, app: ASGIApp, at_once: int) -> None:
        self._app = app
        self._at_once = at_once
        self._free: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def _turn(self, scope: Scope) -> _Turn:
        return _Turn(
            [
                self._free.setdefault(credential, asyncio.Semaphore(self._at_once))
                for credential in _credentials(scope)
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        turn = self._turn(scope)
        try:
            await turn.come()
            await self._answer(scope, receive, send, turn)
        finally:
            turn.end()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, turn: _Turn) -> None:
        started = time.perf_counter()
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message["headers"])
                _complete(headers, scope)
                if headers.get("content-type", "").startswith("text/event-stream"):
                    turn.end()
            await send(message)

        method = scope["method"] if scope["method"] in _METHODS else "other"
        try:
            with _traced(method, scope) as span:
                if "\0" in scope["path"]:
                    await problem_details.document(404, "not_found", NOTHING_HERE)(
                        scope, receive, sending
                    )
                else:
                    await self._app(scope, receive, sending)
                span.update_name(f"{method} {_route(scope)}")
                span.set_attributes(
                    {"http.route": _route(scope), "http.response.status_code": status}
                )
        finally:
            _requests.labels(method, _route(scope), status).inc()
            if not is_untimed(method, _route(scope)):
                _seconds.labels(method, _route(scope), status).observe(
                    time.perf_counter() - started
                )


def _credentials(scope: Scope) -> list[str]:
    """The key and the session of a request, without what stands around them: of one key written in
    many ways, or of a session beside an invented key or cookie, each way would have turns of its
    own."""
    connection = HTTPConnection(scope)
    found = [connection.headers.get("authorization", "").partition(" ")[2].strip()]
    if "cookie" in connection.headers:
        cookies = connection.cookies
        found.append(cookies.get(HOST_PREFIX + SESSION_COOKIE, cookies.get(SESSION_COOKIE, "")))
    return [one for one in found if one]


def is_untimed(method: str, path: str) -> bool:
    """Whether nobody is told how long this request takes, by its path or the path of its route."""
    return UNTIMED.fullmatch(f"{method} {path}") is not None


def _route(scope: Scope) -> str:
    """The label of a request. Only our own names become labels: those that clients invent would
    grow the metrics without limit."""
    return str(getattr(scope.get("route"), "path", "unknown"))


def _traced(method: str, scope: Scope) -> contextlib.AbstractContextManager[telemetry.Span]:
    """The span of a request, in the trace that its `traceparent` names, if any."""
    if scope["path"] in UNTRACED or is_untimed(method, scope["path"]):
        return contextlib.nullcontext(telemetry.NO_SPAN)
    parent = Headers(scope=scope).get("traceparent", "")
    return telemetry.span(method, parent=parent, kind=telemetry.Kind.SERVER)


def guard(headers: MutableHeaders) -> None:
    """Headers that every answer carries, errors included; a page may add to them and cannot
    remove any."""
    headers["X-Content-Type-Options"] = "nosniff"
    headers.setdefault("Cache-Control", "no-store")
    headers.setdefault("Content-Security-Policy", NOTHING)
    if headers.get("content-type", "").startswith("text/html"):
        for name, value in OF_PAGES.items():
            headers.setdefault(name, value)


def _complete(headers: MutableHeaders, scope: Scope) -> None:
    guard(headers)
    rate = scope.get("state", {}).get("rate")
    if rate is not None:
        for name, value in problem_details.rate_headers(rate).items():
            headers[name] = value
    extra = getattr(scope.get("route"), "openapi_extra", None) or {}
    if "x-deprecated-since" in extra:
        headers["Deprecation"] = f"@{extra['x-deprecated-since']}"
        headers["Sunset"] = extra["x-sunset"]
