"""The HTTP application."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.responses import RedirectResponse, Response

from discreet.api.connections import bounded_protocol
from discreet.api.documentation import documentation_page
from discreet.api.operations import strict_query
from discreet.api.routes import (
    budgets,
    datasets,
    health,
    installation,
    jobs,
    ledger,
    networks,
    people,
    reads,
    sessions,
    sources,
    tenants,
    webhooks,
)
from discreet.api.routes import log as transparency_log
from discreet.api.schemas import Results
from discreet.isolation.children import ChildFailed, trimming_memory
from discreet.observability.heartbeat import beating
from discreet.observability.monitoring import answering
from discreet.settings import Settings
from discreet.storage.database import DatabaseTrouble
from discreet.usecases import cosigning, processes, requests, transparency
from discreet.usecases.keyring import Keyring
from discreet.usecases.metrics import InstallationMetrics
from discreet.usecases.oidc.configuration import configured
from discreet.usecases.oidc.tokens import Provider
from discreet.usecases.services import Services, open_services
from discreet.web import problem_details
from discreet.web.hub import Hub
from discreet.web.middleware import Envelope

log = structlog.get_logger()

DESCRIPTION = (
    "Private optimization with a price known before any data is touched, and a ledger "
    "that cannot be overspent."
)
REQUEST_MODELS = (
    requests.DatasetRequest,
    requests.PlacedDatasetRequest,
    requests.DraftDatasetRequest,
    requests.PlacedBlockRequest,
    requests.DraftBlockRequest,
    requests.ReadRequest,
    requests.CorrectionRequest,
    requests.SourceCorrection,
    requests.JobRequest,
    requests.NetworkRequest,
    requests.SourceRequest,
    requests.BlockRequest,
    requests.RehearsalRequest,
    requests.GrantRequest,
    requests.BudgetRequestRequest,
    requests.DeclineRequest,
    requests.CapRequest,
    requests.CertificateRequest,
    requests.TenantRequest,
    requests.KeyRequest,
    requests.PersonRequest,
    requests.SessionTokensRequest,
    requests.SessionAgainRequest,
    requests.RosterRequest,
    requests.WebhookRequest,
)
SHUTDOWN_SECONDS = 5


Pages = Callable[[FastAPI], None]
"""Adds the pages for people to the application, including `/`."""


def create_app(settings: Settings, pages: Pages | None = None) -> FastAPI:
    """Create the application; it opens its database when it starts."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        cosigning.addresses(settings)  # a mistake there is an error now, not in a task
        trusted = configured(settings)
        provider = None if trusted is None else Provider(trusted)
        async with open_services(settings) as services:
            with contextlib.suppress(DatabaseTrouble):  # who listens asks again
                await services.database.require_sessions()
            hub = Hub(services.database, settings.key_streams)
            keyring = Keyring(services, on_change=hub.wake_all, provider=provider)
            app.state.provider = provider
            app.state.services = services
            app.state.hub = hub
            app.state.keyring = keyring
            app.state.metrics = metrics = InstallationMetrics(services)
            tasks = [
                asyncio.create_task(hub.listen()),
                asyncio.create_task(keyring.listen()),
                asyncio.create_task(_start(services)),
                asyncio.create_task(transparency.keep(services)),
                asyncio.create_task(cosigning.keep(services)),
            ]
            try:
                async with processes.present(services, "api", services.children):
                    with metrics.shown():
                        yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    app = FastAPI(
        title="discreet",
        version=version("discreet"),
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # one address for everything; a redirected POST would be lost on many clients
        redirect_slashes=False,
    )
    problem_details.install(app)
    for router in (
        budgets.router,
        jobs.router,
        datasets.router,
        sessions.router,
        ledger.router,
        transparency_log.router,
        tenants.router,
        people.router,
        networks.router,
        reads.router,
        sources.router,
        webhooks.router,
        health.router,
        installation.router,
    ):
        # One flat list: an included router is searched twice for every request.
        app.router.routes.extend(router.routes)
        for route in router.routes:
            assert isinstance(route, APIRoute)
            strict_query(route)
    inner = app.build_middleware_stack
    # Around everything, and so around what Starlette answers to an unexpected error as well.
    app.build_middleware_stack = lambda: Envelope(inner(), settings.key_requests)  # type: ignore[method-assign]

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return documentation_page(app.openapi())

    if pages is not None:
        pages(app)
    else:

        @app.get("/", include_in_schema=False)
        async def front() -> Response:
            return RedirectResponse("/docs")

    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


async def _start(services: Services) -> None:
    """Start the reader of uploads and test its isolation before the first upload."""
    try:
        await services.children.start()
    except ChildFailed as failure:  # uploads are then refused with this reason
        log.error("the reader of uploads does not start", detail=failure.detail)


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, including the request bodies that routes parse themselves."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        _, definitions = models_json_schema(
            [
                (model, "validation")
                for model in (*REQUEST_MODELS, problem_details.ProblemDocument, Results)
            ],
            ref_template="#/components/schemas/{model}",
        )
        described = document["components"]["schemas"]
        described.update(definitions["$defs"])
        for unused in (
            "HTTPValidationError",
            "ValidationError",
        ):  # FastAPI's own; every error here is a ProblemDocument
            described.pop(unused, None)
        document["components"]["schemas"] = dict(sorted(described.items()))
        for call in (call for path in document["paths"].values() for call in path.values()):
            content = call["responses"].get("422", {}).get("content", {})
            if "HTTPValidationError" in str(content.get("application/json")):
                # FastAPI adds 422 for path parameters; ours are any text, and an unknown one is
                # 404.
                del call["responses"]["422"]
        app.openapi_schema = document
    return app.openapi_schema


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    descriptor: int | None,
    monitor: socket.socket | None = None,
    pages: Pages | None = None,
) -> None:
    """Serve until told to stop. `descriptor` is a listening socket that a supervisor holds open
    across restarts. Health and metrics are answered on the listening socket `monitor`."""
    app = create_app(settings, pages)

    class Server(uvicorn.Server):
        """uvicorn that opens and closes what the application needs itself, so that a refusal to
        start is an error like any other, and that ends the event streams before it waits for
        connections to close."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            async with contextlib.AsyncExitStack() as opened:
                await opened.enter_async_context(app.router.lifespan_context(app))
                state = app.state
                checks = health.checks(state.services, state.hub)
                await opened.enter_async_context(
                    answering(monitor, checks, refresh=state.metrics.refresh)
                )
                await super().startup(sockets)
                await opened.enter_async_context(beating(settings.watchdog_seconds))
                await opened.enter_async_context(trimming_memory())
                self._opened = opened.pop_all()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.hub.close()
            await super().shutdown(sockets)
            await self._opened.aclose()

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        http=bounded_protocol(settings),
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    # Not by `fd=`, which uvicorn opens as a Unix socket: Nagle's algorithm then holds every answer
    # for 40 ms.
    Server(config).run(sockets=None if descriptor is None else [socket.socket(fileno=descriptor)])
