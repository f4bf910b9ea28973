"""Security headers: on every answer of every route, to every method, refusals and unexpected errors
included."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.routing import BaseRoute, Route

from discreet.api.app import create_app
from discreet.dashboard.app import install
from discreet.settings import Settings
from tests.conftest import Installation
from tests.dashboard.browsing import Browser

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
ENDLESS = ("/jobs/events",)
"""Pages whose answers go on for ever; of jobs that are not there such an answer is a refusal."""


def routes_of(routes: list[BaseRoute]) -> Iterator[BaseRoute]:
    """The routes in their order, those of included routers among them."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from routes_of(inner.routes)


def addresses() -> list[str]:
    """Every route with its parameters filled in, and some that are none."""
    routes = routes_of(create_app(Settings(), pages=install).routes)
    found = {route.path for route in routes if isinstance(route, Route)}
    assert {
        "/docs",
        "/jobs/{job_id}",
        "/v1/jobs/{job_id}/cancel",
        "/static/{name}",
        "/login/{token}",
    } <= found
    filled = {re.sub(r"{[^}]*}", "x", path) for path in found}
    return sorted({*filled, "/nowhere", "/v1/nowhere", "/static/page.css"}.difference(ENDLESS))


def check(answer: httpx.Response) -> None:
    where = (answer.request.method, str(answer.request.url), answer.status_code)
    headers = answer.headers
    assert "content-security-policy" in headers, where
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'", where
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'", where
    assert policy["form-action"] in ("'none'", "'self'"), where
    assert "unsafe" not in headers["content-security-policy"], where
    assert headers["x-content-type-options"] == "nosniff", where
    assert "cache-control" in headers, where
    if headers.get("content-type", "").startswith("text/html"):
        assert (
            headers["referrer-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
        ), where
        assert headers["cross-origin-resource-policy"] == "same-origin", where


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_every_answer_carries_them(api_only: Installation, accept: str) -> None:
    pages = 0
    with Browser.logged_in(api_only) as browser:
        headers = {"Accept": accept, "Authorization": f"Bearer {api_only.owner_key}"}
        for address in addresses():
            for method in METHODS:
                answer = browser.http.request(
                    method, address, headers=headers, follow_redirects=False
                )
                check(answer)
                pages += answer.headers.get("content-type", "").startswith("text/html")
    assert pages > (100 if accept == "text/html" else 5)


def test_the_documentation_applies_its_own_sheet_alone(api_only: Installation) -> None:
    with api_only.http() as http:
        answer = http.get("/docs")
    check(answer)
    (sheet,) = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert " style=" not in answer.text


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_an_unexpected_error_carries_them(tmp_path: Path, accept: str) -> None:
    app = create_app(Settings(state=tmp_path), pages=install)

    @app.get("/broken")
    async def broken() -> None:
        raise ZeroDivisionError

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/broken", headers={"Accept": accept})

    answer = asyncio.run(ask())
    assert answer.status_code == 500
    assert "ZeroDivision" not in answer.text
    check(answer)
