"""The dashboard, added to the API's application."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from starlette.responses import Response

from discreet.dashboard import assets
from discreet.dashboard.pages import go_to, render
from discreet.dashboard.routes import budgets, jobs, login

API_PATHS = ("/v1", "/docs", "/openapi.json", "/metrics", "/healthz", "/readyz")

NEXT_STEPS = {
    401: "Log in and try again.",
    403: "Ask an owner of your tenant for a key whose role may do this, or go back to what you can see.",
    404: "Check the address. What belongs to another tenant, or was never there, looks the same from here.",
    409: "Look at the present state of the object, then decide again. Nothing was charged by this request.",
    413: "Send less, or ask whoever runs this server to raise the limit.",
    422: "Correct what is named and send it again. Nothing was charged.",
    503: "Wait a moment and load the page again. Jobs that are queued or running are not lost.",
}
"""What to do about a refusal, by status."""


def install(app: FastAPI) -> None:
    """Add all pages, and show refusals as pages to people who look at pages."""
    for module in (login, budgets, jobs, assets):
        app.include_router(module.router)
    if find_spec("discreet.dashboard.results") is not None:
        app.include_router(importlib.import_module("discreet.dashboard.results").router)
    for kind, handler in list(app.exception_handlers.items()):
        app.exception_handlers[kind] = _for_people(handler)


def _for_people(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The same refusal, as a page where a page was asked for. What it says is decided by the API's table alone."""

    async def shown(request: Request, error: Exception) -> Response:
        made = handler(request, error)
        answer: Response = await made if inspect.isawaitable(made) else made
        if not wants_page(request):
            return answer
        if answer.status_code == 401 and request.method == "GET":
            place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return go_to("/login" if place == "/" else f"/login?{urlencode({'next': place})}")
        problem = json.loads(bytes(answer.body))
        return render(
            request,
            "problem.html",
            status=answer.status_code,
            problem=problem,
            step=NEXT_STEPS.get(answer.status_code, "Load the page again. If it stays, tell whoever runs this server."),
        )

    return shown


def wants_page(request: Request) -> bool:
    """True unless the API was asked, or a script that says what it can read: those get problem documents."""
    path = request.url.path
    of_api = any(path == known or path.startswith(f"{known}/") for known in API_PATHS)
    accepted = request.headers.get("accept", "")
    return not of_api and not any(kind in accepted for kind in ("application/json", "text/event-stream"))
