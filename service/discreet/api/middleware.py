"""Around every request: how long it took, and the headers of every answer. Plain ASGI: it costs microseconds."""

from __future__ import annotations

import time

from prometheus_client import Histogram
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.api import problem_details

_seconds = Histogram("discreet_http_request_seconds", "Time to answer", ["method", "route", "status"])
_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})


class Envelope:
    """Measures, and completes the headers: quota, deprecation, no sniffing, no caching unless an answer says otherwise.

    A path with a NUL byte names nothing, and no database takes it: 404.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _complete(MutableHeaders(raw=message["headers"]), scope)
            await send(message)

        try:
            if "\0" in scope["path"]:
                await problem_details.document(404, "not_found", "Not Found")(scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
        finally:
            # Only names of our own become labels: what clients make up would grow the metrics without end.
            route = getattr(scope.get("route"), "path", "unknown")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            _seconds.labels(method, route, status).observe(time.perf_counter() - started)


def _complete(headers: MutableHeaders, scope: Scope) -> None:
    headers["X-Content-Type-Options"] = "nosniff"
    headers.setdefault("Cache-Control", "no-store")
    rate = scope.get("state", {}).get("rate")
    if rate is not None:
        for name, value in problem_details.rate_headers(rate).items():
            headers[name] = value
    extra = getattr(scope.get("route"), "openapi_extra", None) or {}
    if "x-deprecated-since" in extra:
        headers["Deprecation"] = f"@{extra['x-deprecated-since']}"
        headers["Sunset"] = extra["x-sunset"]
