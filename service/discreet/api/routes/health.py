"""Health, metrics and the printed contract."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import text
from starlette.responses import Response

from discreet.api.operations import operation
from discreet.api.responses import answer
from discreet.api.schemas import HealthAnswer
from discreet.api.security import CurrentServices
from discreet.storage.database import SYSTEM

router = APIRouter(tags=["health"])


@router.get("/healthz", **operation("check_health", roles=None, answers={200: HealthAnswer}))
async def check_health() -> Response:
    """This process answers."""
    return answer({"status": "ok"})


@router.get("/readyz", **operation("check_readiness", roles=None, answers={200: HealthAnswer}))
async def check_readiness(services: CurrentServices) -> Response:
    """This process can serve: its database answers and has this version's tables."""
    async with services.database.transaction(SYSTEM) as connection:
        await connection.execute(text("SELECT FROM jobs LIMIT 1"))
    return answer({"status": "ready"})


@router.get("/metrics", response_class=Response, **operation("read_metrics", roles=None, answers={200: "text/plain"}))
async def read_metrics() -> Response:
    """Prometheus metrics of this process."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
