"""Health, metrics and the documentation of the contract."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from discreet.api.operations import operation
from discreet.api.schemas import HealthAnswer
from discreet.errors import Unavailable
from discreet.observability.monitoring import failing, run_checks
from discreet.usecases import metrics
from discreet.web.problem_details import document
from discreet.web.responses import answer
from discreet.web.security import CurrentServices

HUB_SECONDS = 3.0
"""Seconds that a process may be without news of jobs, after its start or a lost connection, and
still count as ready."""

router = APIRouter(tags=["health"])


@router.get("/healthz", **operation("check_health", roles=None, answers={200: HealthAnswer}))
async def check_health() -> Response:
    """Whether this process answers."""
    return answer({"status": "ok"})


@router.get(
    "/readyz",
    **operation("check_readiness", roles=None, answers={200: HealthAnswer}, codes=["not_ready"]),
)
async def check_readiness(request: Request, services: CurrentServices) -> Response:
    """Whether this process can serve: its database answers and has the schema of this version,
    news of jobs arrives, and the reader of uploads has not failed to start."""
    hub = request.app.state.hub

    async def listening() -> None:
        if not await hub.listens(HUB_SECONDS):
            raise Unavailable("not connected; event streams would wait in vain")

    async def reading() -> None:
        if services.children.failure is not None:
            raise services.children.failure

    answers = await run_checks({**metrics.checks(services), "hub": listening, "reader": reading})
    why = failing(answers)
    if why is not None:
        return document(503, "not_ready", why, extra={"checks": answers})
    return answer({"status": "ready", "checks": answers})


@router.get(
    "/metrics",
    response_class=Response,
    **operation("read_metrics", roles=None, answers={200: "text/plain"}),
)
async def read_metrics(request: Request) -> Response:
    """Prometheus metrics of this process and of the installation; nothing in them names a
    tenant."""
    await request.app.state.metrics.refresh()
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
