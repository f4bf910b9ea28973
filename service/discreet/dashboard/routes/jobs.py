"""Jobs: the list, one job with its plan and result, its certificate, submitting and cancelling."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any, get_args

import anyio.to_thread
from fastapi import APIRouter, Header, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.dashboard import forms, paging, results, submissions
from discreet.dashboard.pages import environment, go_to, render
from discreet.dashboard.sessions import Owner, Reader, Submitter, Viewer, is_logged_in
from discreet.errors import Conflict, DiscreetError, InvalidInput, NotFound, ResultAltered, Unavailable
from discreet.problems import DATASETS, KINDS
from discreet.problems.charts import charts_module
from discreet.storage.jobs import FINAL
from discreet.storage.tables import JobState
from discreet.usecases import budgets, datasets, jobs, rehearsals
from discreet.usecases.requests import SessionTokensRequest
from discreet.usecases.services import Services
from discreet.usecases.sessions import enrolment, rosters
from discreet.web import bodies
from discreet.web.hub import ANY_JOB
from discreet.web.job_events import KEEPALIVE_SECONDS, STILL_THERE, event, job_events, stream_of
from discreet.web.security import CurrentServices
from discreet_client import intervals

router = APIRouter(include_in_schema=False)

PAGE = 50
STATES: tuple[str, ...] = get_args(JobState)
MOST_DATASETS = 200
"""So many of the newest are offered."""
NOT_WHAT_WAS_PUBLISHED = ("result_altered", "signing_key_unknown")
"""Codes of a stored result that does not stand under its certificate."""
BREATH_SECONDS = 1.0
"""The list is sent at most so often, however many jobs have news."""

_TOKENS: TypeAdapter[SessionTokensRequest] = TypeAdapter(SessionTokensRequest)


# Lists --------------------------------------------------------------------------------------------------------------


@router.get("/jobs")
async def show_jobs(
    request: Request, services: CurrentServices, viewer: Reader, state: str = "", after: str | None = None
) -> Response:
    """The jobs, newest first; the first page keeps itself up to date."""
    chosen = state if state in STATES else None
    rows = await jobs.page(services, viewer.principal, state=chosen, after=paging.place(after), size=PAGE + 1)
    return render(
        request,
        "jobs.html",
        jobs=[_view(row, viewer) for row in rows[:PAGE]],
        more=paging.token(rows[PAGE - 1]["created_at"], rows[PAGE - 1]["id"]) if len(rows) > PAGE else None,
        states=STATES,
        state=chosen,
        first=after is None,
    )


@router.get("/jobs/events")
async def watch_jobs(request: Request, services: CurrentServices, viewer: Reader, state: str = "") -> Response:
    """The rows of the list's first page, sent again whenever one has changed: server-sent events `row` and `gone`."""
    hub = request.app.state.hub
    chosen = state if state in STATES else None

    async def stream() -> AsyncIterator[str]:
        shown: dict[str, str] = {}
        with hub.waiting(ANY_JOB) as changed:
            while not hub.closing and await is_logged_in(request):
                changed.clear()
                rows = await jobs.page(services, viewer.principal, state=chosen, after=None, size=PAGE)
                now = {row["id"]: _row(_view(row, viewer)) for row in reversed(rows)}
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


def _view(row: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
    """The job as the API shows it, with what lists and pages look at whether or not it is there."""
    absent: dict[str, Any] = {
        "name": None,
        "dataset_name": None,
        "simulation": False,
        "mostly_noise": False,
        "release": [],
    }
    return {**absent, **jobs.view(row, viewer.principal)}


# Submitting ---------------------------------------------------------------------------------------------------------


@router.get("/jobs/new")
async def show_form(
    request: Request,
    services: CurrentServices,
    viewer: Submitter,
    dataset: str | None = None,
    kind: str | None = None,
    release: str | None = None,
    around: str | None = None,
) -> Response:
    """The form of a job: an example of the kind on the chosen dataset, or the problem of a job that is asked again, or
    around whose release another is planned."""
    rows = await datasets.page(services, viewer.principal, None, MOST_DATASETS)
    if release is not None:
        row = await jobs.find(services, viewer.principal, release)
        text = submissions.again_text(jobs.problem_view(row, viewer.principal), release)
        return _form(request, kind=row["kind"], dataset=None, rows=rows, text=text, again=release)
    if around is not None:
        row = await jobs.find(services, viewer.principal, around)
        text = submissions.around_text(jobs.problem_view(row, viewer.principal), around)
        offered = next((one for one in rows if one["id"] == row["dataset_id"]), None)
        return _form(request, kind=row["kind"], dataset=offered, rows=rows, text=text, around=around)
    chosen = next((row for row in rows if row["id"] == dataset), None)
    if chosen is not None:
        kind = chosen["kind"]
    if kind not in KINDS:
        kind = rows[0]["kind"] if rows else next(iter(KINDS))
    if chosen is None:
        chosen = next((row for row in rows if row["kind"] == kind), None)
    if chosen is None:
        text = submissions.example_text(kind)
    else:
        largest = await budgets.largest_request(services, viewer.principal, chosen["account_id"])
        text = await anyio.to_thread.run_sync(submissions.example_on, chosen, largest)
    return _form(request, kind=kind, dataset=chosen, rows=rows, text=text, example=True)


@router.post("/jobs/new")
async def price_or_submit(request: Request, services: CurrentServices, viewer: Submitter) -> Response:
    """Price first. A submission is taken only for the very text whose price was shown."""
    form = await forms.read(request)
    text = form.get("body", "")
    rows = await datasets.page(services, viewer.principal, None, MOST_DATASETS)
    around = forms.filled(form, "around")
    shown: dict[str, Any] = {
        "rows": rows,
        "text": text,
        "dataset": None,
        "kind": form.get("kind", ""),
        "around": around,
    }
    try:
        parsed = await submissions.read(text)
        shown["kind"] = parsed.problem.kind
        named = getattr(parsed.problem, "dataset", None)
        shown["dataset"] = next((row for row in rows if row["id"] == named), None)
        if form.get("action") == "submit" and form.get("priced") == submissions.fingerprint(text):
            row = await jobs.submit(
                services,
                viewer.principal,
                idempotency_key=f"page/{form.get('once', '')[:100]}",
                request=text.encode(),
                problem=parsed.problem,
                privacy=parsed.privacy,
                seed=parsed.seed,
                name=parsed.name,
            )
            return go_to(f"/jobs/{row['id']}")
        if form.get("action") == "rehearse":
            row = await rehearsals.submit(
                services,
                viewer.principal,
                idempotency_key=f"page/{form.get('once', '')[:100]}",
                request=f"{text}{around or ''}".encode(),
                asked=submissions.rehearsal(parsed, around),
            )
            return go_to(f"/jobs/{row['id']}")
        plan = await jobs.price(services, viewer.principal, parsed.problem, parsed.privacy, parsed.seed)
        if parsed.privacy is not None and parsed.privacy.accuracy is not None:
            figures = plan["privacy"]
            shown["text"] = await bodies.apart(lambda: submissions.in_figures(text, figures), len(text))
    except (InvalidInput, NotFound, Conflict) as error:
        return _form(request, refused=error, **shown)
    return _form(request, plan=plan, changed=form.get("action") == "submit", **shown)


def _form(
    request: Request,
    *,
    kind: str,
    dataset: dict[str, Any] | None,
    rows: list[dict[str, Any]],
    text: str,
    plan: dict[str, Any] | None = None,
    refused: DiscreetError | None = None,
    changed: bool = False,
    again: str | None = None,
    around: str | None = None,
    example: bool = False,
) -> Response:
    return render(
        request,
        "job_new.html",
        again=again,
        around=around,
        example=example,
        status=200 if refused is None else submissions.status_of(refused),
        kind=kind,
        kinds=list(KINDS),
        with_dataset=list(DATASETS),
        dataset=dataset,
        datasets=[datasets.view(row) for row in rows],
        account_names={row["account_id"]: row["name"] for row in rows},
        text=text,
        priced=submissions.fingerprint(text),
        once=str(uuid.uuid4()),
        plan=plan,
        refused=refused,
        changed=changed,
    )


# One job ------------------------------------------------------------------------------------------------------------


@router.get("/jobs/{job_id}")
async def show_job(job_id: str, request: Request, services: CurrentServices, viewer: Reader) -> Response:
    """One job: state, price, plan and, when it has one, its result."""
    return await _job_page(request, services, viewer, job_id)


@router.get("/jobs/{job_id}/events")
async def watch_one(
    job_id: str,
    request: Request,
    services: CurrentServices,
    viewer: Reader,
    last_event_id: Annotated[int, Header(ge=0)] = 0,
) -> Response:
    """The events of the API's stream, for the holder of a session; ends with the job, or with the session."""
    return await job_events(request, viewer.principal, job_id, last_event_id, lambda: is_logged_in(request))


@router.post("/jobs/{job_id}/cancel")
async def cancel(job_id: str, request: Request, services: CurrentServices, viewer: Submitter) -> Response:
    """Cancel: released in full before data were touched, charged in full afterwards; or it is too late, and said so."""
    try:
        _, found = await jobs.cancel(services, viewer.principal, job_id)
    except Conflict as error:
        return await _job_page(request, services, viewer, job_id, refused=error)
    if found.cancel == "too_late":
        return await _job_page(request, services, viewer, job_id, cancellation=found)
    return go_to(f"/jobs/{job_id}")


@router.get("/jobs/{job_id}/certificate")
async def show_certificate(job_id: str, request: Request, services: CurrentServices, viewer: Submitter) -> Response:
    """The certificate alone, for print."""
    row, _, certificate = await jobs.result(services, viewer.principal, job_id)
    return render(request, "certificate.html", job=jobs.view(row, viewer.principal), certificate=certificate)


@router.post("/jobs/{job_id}/tokens")
async def invite(job_id: str, request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Links for the agents of a federated job; they are on the answer to this form and nowhere else."""
    form = await forms.read(request)
    count = form.get("count", "1").strip()
    try:
        wanted = bodies.validate(
            _TOKENS,
            {
                "owner": form.get("owner", "").strip(),
                "count": int(count) if count.isascii() and count.isdigit() and len(count) < 6 else count,
                "group": forms.filled(form, "group"),
            },
        )
        made = await enrolment.create_tokens(
            services, viewer.principal, job_id, owner=wanted.owner, count=wanted.count, group=wanted.group
        )
    except (InvalidInput, Conflict, NotFound) as error:
        return await _job_page(request, services, viewer, job_id, refused=error, form=form)
    return await _job_page(request, services, viewer, job_id, links=made["links"] or [made["link"]])


async def _job_page(
    request: Request,
    services: Services,
    viewer: Viewer,
    job_id: str,
    *,
    refused: DiscreetError | None = None,
    form: forms.Form | None = None,
    links: list[str] | None = None,
    cancellation: jobs.Cancellation | None = None,
) -> Response:
    row = await jobs.find(services, viewer.principal, job_id)
    result: dict[str, Any] | None = None
    told: list[tuple[str, str, bool]] = []
    certificate: dict[str, Any] | None = None
    altered: str | None = None
    if row["state"] == "succeeded" and viewer.may(*jobs.SUBMITTERS):
        try:
            _, text, certificate = await jobs.result(services, viewer.principal, job_id)
            result, told = await anyio.to_thread.run_sync(_read, text, row["problem"])
        except (ResultAltered, Unavailable) as error:
            if error.code not in NOT_WHAT_WAS_PUBLISHED:
                raise
            altered = error.detail
    job = _view(row, viewer)
    if certificate is not None and certificate["guarantee"]["type"] == "none":
        job["simulation"] = True  # also when its dataset is gone
    federated = row["problem"].get("protocol") == "federated"
    return render(
        request,
        "job.html",
        status=200 if refused is None else submissions.status_of(refused),
        job=job,
        problem=row["problem"],
        problem_text=submissions.as_text(jobs.problem_view(row, viewer.principal)),
        plan=row["plan"],
        result=result,
        certificate=certificate,
        altered=altered,
        told=told,
        mostly_noise=result is not None and intervals.is_mostly_noise(result),
        tells_figures=submissions.tells_figures(row["kind"], certificate),
        has_pairs=results.has_pairs(row["kind"]),
        charts=[] if altered else await results.charts_of(services, viewer, row),
        session=await rosters.show(services, viewer.principal, job_id) if federated else None,
        ended=row["state"] in FINAL,
        refused=refused,
        form=form or {},
        links=links or [],
        cancellation=cancellation or await jobs.cancellation(services, viewer.principal, job_id),
    )


def _read(text: bytes, problem: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str, bool]]]:
    """A result, and what it says of its uncertainty: the field, that in words, and whether it is a number alone."""
    result: dict[str, Any] = json.loads(text)
    called = getattr(charts_module(problem["kind"]), "row_names", lambda problem, field: None)
    told = intervals.stated(result)
    return result, [(one.name, one.words(called(problem, one.name)), intervals.is_number(one.value)) for one in told]
