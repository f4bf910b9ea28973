"""Jobs: the list, one job with its plan and result, its certificate, submitting and cancelling."""

from __future__ import annotations

import json
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.api.security import CurrentServices
from discreet.dashboard import results
from discreet.dashboard.pages import render
from discreet.dashboard.sessions import Reader, Viewer
from discreet.errors import Conflict
from discreet.usecases import jobs
from discreet.usecases.services import Services

router = APIRouter(include_in_schema=False)


@router.get("/jobs")
async def show_jobs(request: Request, services: CurrentServices, viewer: Reader) -> Response:
    """The newest jobs."""
    rows = await jobs.page(services, viewer.principal, state=None, after=None, size=50)
    return render(request, "jobs.html", jobs=[jobs.view(row) for row in rows])


@router.get("/jobs/{job_id}")
async def show_job(job_id: str, request: Request, services: CurrentServices, viewer: Reader) -> Response:
    """One job: state, price, plan and, when it has one, its result."""
    row = await jobs.find(services, viewer.principal, job_id)
    result, certificate = await published(services, viewer, row)
    charts = await results.charts_of(services, viewer, row)
    return render(
        request,
        "job.html",
        job=jobs.view(row),
        problem=row["problem"],
        plan=row["plan"],
        result=result,
        certificate=certificate,
        charts=charts,
    )


async def published(
    services: Services, viewer: Viewer, row: dict[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Result and certificate of a job, for those who may see them; None while there is none."""
    if row["state"] != "succeeded" or not viewer.may(*jobs.SUBMITTERS):
        return None, None
    try:
        _, text, certificate = await jobs.result(services, viewer.principal, row["id"])
    except Conflict:
        return None, None
    return await anyio.to_thread.run_sync(json.loads, text), certificate
