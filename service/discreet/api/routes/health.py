"""Health of this process."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.api.operations import operation
from discreet.api.schemas import HealthAnswer
from discreet.errors import Unavailable
from discreet.observability.monitoring import Check, failing, run_checks
from discreet.usecases import metrics
from discreet.usecases.services import Services
from discreet.web.hub import Hub
from discreet.web.problem_details import document
from discreet.web.responses import answer
from discreet.web.security import CurrentServices

HUB_SECONDS = 3.0
"""Seconds that a process may be without news of jobs, after its start or a lost connection, and
still count as ready."""


def checks(services: Services, hub: Hub) -> dict[str, Check]:
    """What this process needs to serve."""

    async def listening() -> None:
        if not await hub.listens(HUB_SECONDS):
            raise Unavailable("not connected; event streams would wait in vain")

    async def reading() -> None:
        if services.children.failure is not None:
            raise services.children.failure

    return {**metrics.checks(services), "hub": listening, "reader": reading}


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
    answers = await run_checks(checks(services, request.app.state.hub))
    why = failing(answers)
    if why is not None:
        return document(503, "not_ready", why, extra={"checks": answers})
    return answer({"status": "ready", "checks": answers})
