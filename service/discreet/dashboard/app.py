"""The dashboard, added to the API's application."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from starlette.responses import Response

from discreet.dashboard import assets, results
from discreet.dashboard.pages import go_to, render, wants_page
from discreet.dashboard.routes import (
    admin,
    ask,
    audit,
    budgets,
    changes,
    compare,
    datasets,
    documentation,
    export,
    jobs,
    ledger,
    login,
    networks,
    new_job,
    operations,
    sign_in,
    sources,
)

NEXT_STEPS = {
    401: "Log in and try again.",
    403: "Ask an owner of your tenant for a key whose role may do this, or go back to what you can "
    "see.",
    404: "Check the address. What belongs to another tenant, or was never there, looks the same "
    "from here.",
    409: "Check the current state of the object, then decide again. This request charged nothing.",
    410: "Send the job again if you still need its answer: it is charged like a new one. Its "
    "certificate and its entries in the ledger are kept.",
    413: "Send less, or ask the operator of this server to raise the limit.",
    422: "Correct the named fields and send it again. Nothing was charged.",
    429: "Wait a moment, then load the page again.",
    503: "Wait a moment and load the page again. Jobs that are queued or running are not lost.",
}
"""What to do about a refusal, by status."""
NEXT_STEPS_OF = {
    "no_rpc": "Ask the operator of this server to set it up; waiting does not help.",
    "wrong_schema": "Tell the operator of this server; waiting does not help, but jobs are "
    "not lost.",
}
"""By code, where that tells more."""

LAST_STEP = "Load the page again. If the error stays, tell the operator of this server."


def install(app: FastAPI) -> None:
    """Add all pages, and show refusals as pages to people who look at pages."""
    pages = (
        login,
        sign_in,
        budgets,
        compare,
        export,
        new_job,
        ask,
        jobs,
        results,
        datasets,
        networks,
        sources,
        ledger,
        audit,
        changes,
        operations,
        admin,
        documentation,
        assets,
    )
    for module in pages:
        app.include_router(module.router)
    for kind, handler in list(app.exception_handlers.items()):
        app.exception_handlers[kind] = _for_people(handler)


def _for_people(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The same refusal, as a page where a page was asked for. What it says is decided by the API's
    table alone."""

    async def shown(request: Request, error: Exception) -> Response:
        made = handler(request, error)
        answer: Response = await made if inspect.isawaitable(made) else made
        if not wants_page(request):
            return answer
        if answer.status_code == 401 and request.method == "GET":
            place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return go_to("/login" if place == "/" else f"/login?{urlencode({'next': place})}")
        problem = json.loads(bytes(answer.body))
        page = render(
            request,
            "problem.html",
            status=answer.status_code,
            problem=problem,
            step=NEXT_STEPS_OF.get(problem["code"])
            or NEXT_STEPS.get(answer.status_code, LAST_STEP),
        )
        if "retry-after" in answer.headers:
            page.headers["Retry-After"] = answer.headers["retry-after"]
        return page

    return shown
