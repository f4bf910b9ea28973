"""Plans, jobs, results, events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.api import examples
from discreet.api.operations import EVERYBODY, operation
from discreet.api.routes.ledger import EnvelopeAnswer
from discreet.api.schemas import (
    CancelAnswer,
    ChartList,
    JobAnswer,
    JobPage,
    PlanAnswer,
    ResultAnswer,
)
from discreet.errors import Forbidden, InvalidInput, Unauthenticated
from discreet.problems.plans import Plan
from discreet.storage.tables import JobState
from discreet.usecases import jobs, published, rehearsals
from discreet.usecases.oidc.tokens import ProviderUnavailable
from discreet.usecases.requests import JobRequest, RehearsalRequest
from discreet.web import bodies
from discreet.web.bodies import json_body
from discreet.web.drawings import charts_text, drawn
from discreet.web.job_events import job_events
from discreet.web.responses import Pages, answer, resource
from discreet.web.results import envelope_text, result_text
from discreet.web.security import CurrentPrincipal, CurrentServices, bearer

router = APIRouter(prefix="/v1", tags=["jobs"])

MAX_KEY_LENGTH = 255
PARQUET = "application/vnd.apache.parquet"

_JOB_REQUEST: TypeAdapter[JobRequest] = TypeAdapter(JobRequest)
_REHEARSAL_REQUEST: TypeAdapter[RehearsalRequest] = TypeAdapter(RehearsalRequest)


@router.post(
    "/plans",
    **operation(
        "price_job",
        roles=jobs.SUBMITTERS,
        answers={200: PlanAnswer},
        codes=["not_found", "no_release", "release_differs", "exposed", "object_altered"],
        body=JobRequest,
        examples=examples.jobs(),
    ),
)
async def price_job(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[JobRequest, Depends(json_body(JobRequest, None))],
) -> Response:
    """What a job would do and cost, and whether it would be admitted now. This spends nothing
    and touches no data."""
    return answer(
        await jobs.price(
            services, principal, request.problem, request.privacy, request.seed, request.wait
        )
    )


@router.post(
    "/jobs",
    **operation(
        "submit_job",
        roles=jobs.SUBMITTERS,
        answers={202: JobAnswer},
        codes=[
            "idempotency_key_missing",
            "not_found",
            "budget_exhausted",
            "budget_held",
            "no_release",
            "release_differs",
            "exposed",
            "object_altered",
            "request_in_flight",
            "idempotency_key_reused",
        ],
        body=JobRequest,
        examples=examples.jobs(),
        location=True,
    ),
)
async def submit_job(
    request: Request,
    services: CurrentServices,
    principal: CurrentPrincipal,
    idempotency_key: Annotated[
        str | None, Header(description="Any string; the same key always means the same job")
    ] = None,
) -> Response:
    """Submit a job: its price is reserved at once, on every account that it touches or on none.

    On blocks of a source with a rule it may wait for shares to be lent (`wait`): then it is
    `waiting`, nothing is reserved, and `waiting` says why and until when.

    Before data are touched a failure or a cancellation releases the price in full; afterwards it is
    charged in full, whatever happens.
    """
    key = _required(idempotency_key)
    async with bodies.held(request, bodies.of_job(services.settings)) as body:
        parsed = await bodies.parse(_JOB_REQUEST, body)
        row = await jobs.submit(
            services,
            principal,
            idempotency_key=key,
            request=body,
            problem=parsed.problem,
            privacy=parsed.privacy,
            seed=parsed.seed,
            name=parsed.name,
            wait=parsed.wait,
        )
    return answer(
        jobs.view(row, principal), 202, {"Location": f"/v1/jobs/{row['id']}", "Retry-After": "1"}
    )


def _required(idempotency_key: str | None) -> str:
    if not idempotency_key or len(idempotency_key) > MAX_KEY_LENGTH:
        raise InvalidInput(
            f"send the header Idempotency-Key with 1 to {MAX_KEY_LENGTH} characters",
            pointer="/header/Idempotency-Key",
            code="idempotency_key_missing",
        )
    return idempotency_key


@router.post(
    "/rehearsals",
    **operation(
        "rehearse_job",
        roles=jobs.SUBMITTERS,
        answers={202: JobAnswer},
        codes=[
            "idempotency_key_missing",
            "not_found",
            "no_release",
            "object_altered",
            "request_in_flight",
            "idempotency_key_reused",
        ],
        body=RehearsalRequest,
        examples=examples.rehearsals(),
        location=True,
    ),
)
async def rehearse_job(
    request: Request,
    services: CurrentServices,
    principal: CurrentPrincipal,
    idempotency_key: Annotated[
        str | None, Header(description="Any string; the same key always means the same job")
    ] = None,
) -> Response:
    """Run a problem on synthetic data with the public shape of its dataset, for several values
    of epsilon: a job without a price, whose result gives the error of each number at each
    epsilon. It uses no private data and no budget; its certificate guarantees nothing."""
    key = _required(idempotency_key)
    async with bodies.held(request, bodies.of_job(services.settings)) as body:
        asked = await bodies.parse(_REHEARSAL_REQUEST, body)
        row = await rehearsals.submit(
            services, principal, idempotency_key=key, request=body, asked=asked
        )
    return answer(
        jobs.view(row, principal), 202, {"Location": f"/v1/jobs/{row['id']}", "Retry-After": "1"}
    )


@router.get(
    "/jobs",
    **operation(
        "list_jobs",
        roles=EVERYBODY,
        answers={200: JobPage},
        codes=["invalid_page_token"],
    ),
)
async def list_jobs(
    services: CurrentServices,
    principal: CurrentPrincipal,
    state: JobState | None = None,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
    page_token: str | None = None,
) -> Response:
    """Jobs of the tenant, newest first."""
    pages = Pages(services.secrets, principal.tenant_id, "jobs", state)
    rows = await jobs.page(
        services, principal, state=state, after=pages.moment(page_token), size=page_size + 1
    )
    return pages.answer("jobs", rows, page_size, lambda row: jobs.view(row, principal))


@router.get(
    "/jobs/{job_id}",
    **operation(
        "get_job", roles=EVERYBODY, answers={200: JobAnswer}, codes=["not_found"], etag=True
    ),
)
async def get_job(
    job_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """One job."""
    row = await jobs.find(services, principal, job_id)
    asked = {
        "problem": jobs.problem_view(row, principal),
        "plan": jobs.plan_view(Plan.model_validate(row["plan"])),
    }
    return resource(request, {**jobs.view(row, principal), **asked})


@router.get(
    "/jobs/{job_id}/result",
    **operation(
        "get_result",
        roles=jobs.SUBMITTERS,
        answers={200: ResultAnswer},
        codes=["not_found", "no_result", "result_gone", "result_altered", "signing_key_unknown"],
        etag=True,
    ),
)
async def get_result(
    job_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """The result with the certificate that binds it; 409 until there is one, 410 when it was
    deleted at the end of its retention period. Large fields are named in `result.tables`. The
    stored result is compared with its certificate before it is returned."""
    return resource(request, await result_text(services, principal, job_id))


@router.get(
    "/jobs/{job_id}/certificate",
    **operation(
        "get_certificate",
        roles=jobs.SUBMITTERS,
        answers={200: EnvelopeAnswer},
        codes=["not_found", "no_result", "result_altered", "signing_key_unknown"],
        etag=True,
    ),
)
async def get_certificate(
    job_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """The certificate as an in-toto statement in a signed envelope (DSSE), for tools that read
    these; 409 `no_result` until there is one, and for results of an older version, whose
    certificates do not bind them."""
    return resource(request, await envelope_text(services, principal, job_id))


@router.get(
    "/jobs/{job_id}/result/{table}",
    **operation(
        "get_result_table",
        roles=jobs.SUBMITTERS,
        answers={200: PARQUET},
        codes=["not_found", "no_result", "result_gone", "result_altered", "signing_key_unknown"],
        etag=True,
    ),
)
async def get_result_table(
    job_id: str,
    table: str,
    request: Request,
    services: CurrentServices,
    principal: CurrentPrincipal,
) -> Response:
    """A field of more than a million numbers, as Parquet."""
    return resource(
        request, await published.result_table(services, principal, job_id, table), PARQUET
    )


@router.get(
    "/jobs/{job_id}/charts",
    **operation(
        "get_charts",
        roles=jobs.SUBMITTERS,
        answers={200: ChartList},
        codes=[
            "not_found",
            "no_result",
            "result_gone",
            "object_altered",
            "result_altered",
            "signing_key_unknown",
        ],
        etag=True,
    ),
)
async def get_charts(
    job_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """The charts of a result as Plotly figures, as on its page; 409 until there is a result.
    Fields that are named in `result.tables` are not drawn."""
    found = await drawn(services, principal, job_id)
    return resource(request, await anyio.to_thread.run_sync(charts_text, found.charts))


@router.post(
    "/jobs/{job_id}/cancel",
    **operation(
        "cancel_job",
        roles=jobs.SUBMITTERS,
        answers={202: CancelAnswer},
        codes=["not_found", "job_ended"],
    ),
)
async def cancel_job(
    job_id: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Cancel a job. Its price is released if no data were touched, and charged in full
    otherwise; the answer says which, and whether it is too late. Cancelling a job again gives
    the same answer."""
    row, found = await jobs.cancel(services, principal, job_id)
    return answer({**jobs.view(row, principal), **asdict(found)}, 202, {"Retry-After": "1"})


@router.get(
    "/jobs/{job_id}/events",
    **operation(
        "watch_job",
        roles=EVERYBODY,
        answers={200: "text/event-stream"},
        codes=["not_found", "too_many_streams"],
    ),
)
async def watch_job(
    job_id: str,
    request: Request,
    services: CurrentServices,
    principal: CurrentPrincipal,
    last_event_id: Annotated[int, Header(ge=0)] = 0,
) -> Response:
    """Server-sent events `state` and `progress`. The stream resumes after `Last-Event-ID` and
    ends when the job ends or the key is revoked."""
    keyring, key = request.app.state.keyring, bearer(request)

    async def still_counts() -> bool:
        try:
            await keyring.principal(key)
        except (Unauthenticated, Forbidden, ProviderUnavailable):
            return False
        return True

    return await job_events(request, principal, job_id, last_event_id, still_counts)
