"""Jobs: the list, one job with its plan and result, its certificate, submitting and cancelling."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, get_args

import anyio
from fastapi import APIRouter, Header, Request
from pydantic import TypeAdapter
from starlette.responses import JSONResponse, Response

from discreet.dashboard import answers, forms, paging, results, submissions
from discreet.dashboard.pages import HEADERS, environment, go_to, render
from discreet.dashboard.sessions import Owner, Reader, Submitter, Viewer, is_logged_in
from discreet.errors import Conflict, DiscreetError, InvalidInput, NotFound
from discreet.ledger.proofs import place_of
from discreet.problems.federation import is_session
from discreet.storage.jobs import FINAL
from discreet.storage.tables import JobState
from discreet.usecases import asking, jobs, objects, published, transparency
from discreet.usecases.jobs import Cancellation
from discreet.usecases.requests import SessionTokensRequest
from discreet.usecases.services import Services
from discreet.usecases.sessions import again, enrolment, rosters
from discreet.web import bodies
from discreet.web.hub import ANY_JOB
from discreet.web.job_events import KEEPALIVE_SECONDS, STILL_THERE, event, job_events, stream_of
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

PAGE = 50
STATES: tuple[str, ...] = get_args(JobState)
BREATH_SECONDS = 1.0
"""Fewest seconds between two updates of the list, however many jobs change."""

_TOKENS: TypeAdapter[SessionTokensRequest] = TypeAdapter(SessionTokensRequest)


# Lists --------------------------------------------------------------------------------------------


@router.get("/jobs")
async def show_jobs(
    request: Request,
    services: CurrentServices,
    viewer: Reader,
    state: str = "",
    after: str | None = None,
) -> Response:
    """The jobs, newest first; a script keeps the first page up to date."""
    chosen = state if state in STATES else None
    rows = await jobs.page(
        services, viewer.principal, state=chosen, after=paging.place(after), size=PAGE + 1
    )
    return render(
        request,
        "jobs.html",
        jobs=[answers.view(row, viewer) for row in rows[:PAGE]],
        more=paging.after(rows, PAGE),
        states=STATES,
        state=chosen,
        first=after is None,
    )


@router.get("/jobs/events")
async def watch_jobs(
    request: Request, services: CurrentServices, viewer: Reader, state: str = ""
) -> Response:
    """The rows of the list's first page, sent again whenever one has changed: server-sent events
    `row` and `gone`."""
    hub = request.app.state.hub
    hub.require_room(viewer.principal.key_id)
    chosen = state if state in STATES else None

    async def stream() -> AsyncIterator[str]:
        shown: dict[str, str] = {}
        with hub.waiting(ANY_JOB, viewer.principal.key_id) as changed:
            while not hub.closing and await is_logged_in(request):
                changed.clear()
                rows = await jobs.page(
                    services, viewer.principal, state=chosen, after=None, size=PAGE
                )
                now = {row["id"]: _row(answers.view(row, viewer)) for row in reversed(rows)}
                for job_id, html in now.items():
                    if shown.get(job_id) != html:
                        yield event("row", {"id": job_id, "html": html})
                for job_id in shown.keys() - now.keys():
                    yield event("gone", {"id": job_id})
                shown = now
                if not await hub.wait(changed, KEEPALIVE_SECONDS):
                    yield STILL_THERE
                await anyio.sleep(BREATH_SECONDS)

    return stream_of(stream())


def _row(job: dict[str, Any]) -> str:
    return environment.get_template("jobs_row.html").render(job=job)


# One job ------------------------------------------------------------------------------------------


@router.get("/jobs/{job_id}")
async def show_job(
    job_id: str, request: Request, services: CurrentServices, viewer: Reader
) -> Response:
    """One job: state, price, plan and, when it has one, its result."""
    return await _job_page(request, services, viewer, job_id)


@router.get("/jobs/{job_id}/problem.json")
async def show_problem(job_id: str, services: CurrentServices, viewer: Submitter) -> Response:
    """The problem of a job, of which the form of a new job may take a part."""
    row = await jobs.find(services, viewer.principal, job_id)
    return JSONResponse(jobs.problem_view(row, viewer.principal), headers=HEADERS)


@router.get("/jobs/{job_id}/events")
async def watch_one(
    job_id: str,
    request: Request,
    services: CurrentServices,
    viewer: Reader,
    last_event_id: Annotated[int, Header(ge=0)] = 0,
) -> Response:
    """The events of the API's stream, for a session of the dashboard; they end with the job or the
    session."""
    return await job_events(
        request, viewer.principal, job_id, last_event_id, lambda: is_logged_in(request)
    )


@router.post("/jobs/{job_id}/cancel")
async def cancel(
    job_id: str, request: Request, services: CurrentServices, viewer: Submitter
) -> Response:
    """Cancel a job: its price is given back if its data were not touched yet, and charged in full
    otherwise. The page says so if it is too late."""
    try:
        _, found = await jobs.cancel(services, viewer.principal, job_id)
    except Conflict as error:
        return await _job_page(request, services, viewer, job_id, refused=error)
    if found.cancel == "too_late":
        return await _job_page(request, services, viewer, job_id, cancellation=found)
    return go_to(f"/jobs/{job_id}")


@router.get("/jobs/{job_id}/certificate")
async def show_certificate(
    job_id: str, request: Request, services: CurrentServices, viewer: Submitter
) -> Response:
    """The certificate alone, for printing."""
    row, signed = await published.certificate(services, viewer.principal, job_id)
    certificate = await transparency.proven(services, viewer.principal.tenant_id, signed)
    return render(
        request,
        "certificate.html",
        job=jobs.view(row, viewer.principal),
        certificate=certificate,
        place=place_of(certificate),
    )


@router.post("/jobs/{job_id}/tokens")
async def invite(
    job_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Create links for the agents of a federated job, which only the response to this form
    shows."""
    form = await forms.read(request)
    count = form.get("count", "1").strip()
    try:
        wanted = bodies.validate(
            _TOKENS,
            {
                "owner": form.get("owner", "").strip(),
                "count": int(count)
                if count.isascii() and count.isdigit() and len(count) < 6
                else count,
                "group": forms.filled(form, "group"),
            },
        )
        made = await enrolment.create_tokens(
            services,
            viewer.principal,
            job_id,
            owner=wanted.owner,
            count=wanted.count,
            group=wanted.group,
        )
    except (InvalidInput, Conflict, NotFound) as error:
        return await _job_page(request, services, viewer, job_id, refused=error, form=form)
    return await _job_page(request, services, viewer, job_id, links=made["links"] or [made["link"]])


@router.post("/jobs/{job_id}/again")
async def start_again(
    job_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Start a failed session again without the agents that its error names; the page of the new
    job shows the link for the others."""
    try:
        made = await again.start(services, viewer.principal, job_id, None)
    except (InvalidInput, Conflict, NotFound) as error:
        return await _job_page(request, services, viewer, job_id, refused=error)
    return await _job_page(request, services, viewer, made["job"], links=[made["link"]])


async def _job_page(
    request: Request,
    services: Services,
    viewer: Viewer,
    job_id: str,
    *,
    refused: DiscreetError | None = None,
    form: forms.Form | None = None,
    links: list[str] | None = None,
    cancellation: Cancellation | None = None,
) -> Response:
    found = await answers.of_job(services, viewer, job_id)
    row = found.row
    federated = is_session(row["problem"])
    kept = any(one in (found.certificate or {}) for one in ("release_digest", "follows_from"))
    questions = await asking.questions(services.database, viewer.principal, row) if kept else None
    return render(
        request,
        "job.html",
        status=200 if refused is None else submissions.status_of(refused),
        job=found.job,
        problem=row["problem"],
        objects=await objects.of_job(services, viewer.principal, job_id),
        problem_text=await submissions.shown(found.problem),
        plan=row["plan"],
        result=found.result,
        certificate=found.certificate,
        altered=found.altered,
        gone=found.gone,
        told=found.told,
        headlines=found.headlines,
        mostly_noise=found.mostly_noise,
        not_converged=found.not_converged,
        tells_figures=submissions.tells_figures(row["problem"], row["plan"], found.certificate),
        zone_names=found.zone_names,
        left=found.left,
        may_ask=bool(questions),
        asked_out=questions == [],
        has_pairs=results.has_pairs(row["kind"]),
        charts=found.charts,
        session=await rosters.show(services, viewer.principal, job_id) if federated else None,
        ended=row["state"] in FINAL,
        refused=refused,
        form=form or {},
        links=links or [],
        cancellation=cancellation or await jobs.cancellation(services, viewer.principal, job_id),
    )
