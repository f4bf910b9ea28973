"""Health, metrics and the printed contract."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from discreet.api.problem_details import document
from discreet.api.responses import answer, errors
from discreet.api.security import CurrentServices
from discreet.errors import Unavailable
from discreet.monitoring import failing, run_checks
from discreet.usecases import standing

router = APIRouter(tags=["health"])


@router.get("/healthz", operation_id="check_health")
async def check_health() -> Response:
    """This process answers."""
    return answer({"status": "ok"})


@router.get("/readyz", operation_id="check_readiness", responses={503: errors()[503]})
async def check_readiness(request: Request, services: CurrentServices) -> Response:
    """This process can serve: its database answers, has a schema for this version, and news of jobs come."""
    hub = request.app.state.hub

    async def listening() -> None:
        if not hub.listening:
            raise Unavailable("not connected; event streams would wait in vain")

    answers = await run_checks({**standing.checks(services), "hub": listening})
    why = failing(answers)
    if why is not None:
        return document(503, "not_ready", why, extra={"checks": answers})
    return answer({"status": "ready", "checks": answers})


@router.get("/metrics", operation_id="read_metrics", response_class=Response)
async def read_metrics(request: Request) -> Response:
    """Prometheus metrics of this process and of the installation; nothing in them names a tenant."""
    await request.app.state.standing.refresh()
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
