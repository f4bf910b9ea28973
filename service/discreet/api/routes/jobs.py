"""Plans, jobs, results, events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response, StreamingResponse

from discreet.api import bodies
from discreet.api.bodies import documented, json_body
from discreet.api.responses import answer, errors, page, page_start
from discreet.api.schemas import JobAnswer, JobPage, JobRequest, PlanAnswer, ResultAnswer
from discreet.api.security import CurrentPrincipal, CurrentServices
from discreet.errors import InvalidInput
from discreet.usecases import access, jobs

router = APIRouter(prefix="/v1", tags=["jobs"])

State = Literal["queued", "awaiting_agents", "running", "succeeded", "failed", "cancelled"]
MAX_KEY_LENGTH = 255
KEEPALIVE_SECONDS = 15.0

_JOB_REQUEST: TypeAdapter[JobRequest] = TypeAdapter(JobRequest)


@router.post(
    "/plans",
    operation_id="price_job",
    responses={200: {"model": PlanAnswer}, **errors(400, 404, 413, 422)},
    openapi_extra=documented(JobRequest),
)
async def price_job(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[JobRequest, Depends(json_body(JobRequest))],
) -> Response:
    """What a job would do and cost, and whether it would be admitted now. Spends nothing, touches no data."""
    return answer(await jobs.price(services, principal, request.problem, request.privacy, request.seed))


@router.post(
    "/jobs",
    operation_id="submit_job",
    status_code=202,
    responses={202: {"model": JobAnswer}, **errors(400, 404, 409, 413, 422)},
    openapi_extra=documented(JobRequest),
)
async def submit_job(
    request: Request,
    services: CurrentServices,
    principal: CurrentPrincipal,
    idempotency_key: Annotated[str | None, Header(description="Any string; the same key is the same job")] = None,
) -> Response:
    """Submit a job: its price is reserved at once, on every account that it touches or on none.

    Before data are touched a failure or a cancellation releases the price in full; afterwards it is charged in full,
    whatever happens.
    """
    access.require(principal, *jobs.SUBMITTERS)
    if not idempotency_key or len(idempotency_key) > MAX_KEY_LENGTH:
        raise InvalidInput(
            f"send the header Idempotency-Key with 1 to {MAX_KEY_LENGTH} characters", code="idempotency_key_missing"
        )
    body = await bodies.read(request, services.settings.json_body_bytes)
    parsed = await bodies.parse(_JOB_REQUEST, body)
    row = await jobs.submit(
        services,
        principal,
        idempotency_key=idempotency_key,
        request=body,
        problem=parsed.problem,
        privacy=parsed.privacy,
        seed=parsed.seed,
    )
    return answer(jobs.view(row), 202, {"Location": f"/v1/jobs/{row['id']}", "Retry-After": "1"})


@router.get("/jobs", operation_id="list_jobs", responses={200: {"model": JobPage}, **errors(422)})
async def list_jobs(
    services: CurrentServices,
    principal: CurrentPrincipal,
    state: State | None = None,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
    page_token: str | None = None,
) -> Response:
    """Jobs of the tenant, newest first."""
    rows = await jobs.page(services, principal, state=state, after=page_start(page_token), size=page_size + 1)
    return page("jobs", rows, page_size, jobs.view)


@router.get("/jobs/{job_id}", operation_id="get_job", responses={200: {"model": JobAnswer}, **errors(404)})
async def get_job(job_id: str, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """One job."""
    return answer(jobs.view(await jobs.find(services, principal, job_id)))


@router.get(
    "/jobs/{job_id}/result", operation_id="get_result", responses={200: {"model": ResultAnswer}, **errors(404, 409)}
)
async def get_result(job_id: str, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The result with its certificate; 409 until there is one. Large fields are named in `result.tables`."""
    row, result, certificate = await jobs.result(services, principal, job_id)
    head = answer({"job": jobs.view(row), "certificate": certificate}).body
    return Response(bytes(head)[:-1] + b',"result":' + result + b"}", media_type="application/json")


@router.get(
    "/jobs/{job_id}/result/{table}",
    operation_id="get_result_table",
    responses={200: {"content": {"application/vnd.apache.parquet": {}}}, **errors(404, 409)},
)
async def get_result_table(job_id: str, table: str, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """A field of more than a million numbers, as Parquet."""
    parquet = await jobs.result_table(services, principal, job_id, table)
    return Response(parquet, media_type="application/vnd.apache.parquet")


@router.post(
    "/jobs/{job_id}/cancel",
    operation_id="cancel_job",
    status_code=202,
    responses={202: {"model": JobAnswer}, **errors(404, 409)},
)
async def cancel_job(job_id: str, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """Cancel a job. Its price is released if no data were touched, and charged in full otherwise."""
    return answer(jobs.view(await jobs.cancel(services, principal, job_id)), 202)


@router.get(
    "/jobs/{job_id}/events",
    operation_id="watch_job",
    responses={200: {"content": {"text/event-stream": {}}}, **errors(404)},
)
async def watch_job(
    job_id: str,
    request: Request,
    services: CurrentServices,
    principal: CurrentPrincipal,
    last_event_id: Annotated[int, Header(ge=0)] = 0,
) -> Response:
    """Server-sent events `state` and `progress`; resumes after `Last-Event-ID`, ends with the job."""
    await jobs.find(services, principal, job_id)
    hub = request.app.state.hub

    async def stream() -> AsyncIterator[str]:
        after = last_event_id
        with hub.waiting(job_id) as changed:
            while True:
                changed.clear()
                rows, ended = await jobs.events(services, principal, job_id, after)
                for row in rows:
                    after = row["seq"]
                    yield f"id: {after}\nevent: {row['event']}\ndata: {json.dumps(row['data'])}\n\n"
                if ended or hub.closing:
                    return
                if not await hub.wait(changed, KEEPALIVE_SECONDS):
                    yield ": still there\n\n"

    return StreamingResponse(
        stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )
