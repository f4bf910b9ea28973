"""A new job: its form, its price while it is written, and the submission of what was priced."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from discreet.dashboard import forms, job_forms, network_forms, submissions
from discreet.dashboard.pages import HEADERS, environment, go_to, render
from discreet.dashboard.routes import networks
from discreet.dashboard.sessions import Submitter, Viewer
from discreet.errors import Conflict, DiscreetError, InvalidInput, NotFound
from discreet.problems import DATASETS, KINDS
from discreet.problems.base import Problem
from discreet.problems.reuse import WHERE_THE_DATA_ARE
from discreet.problems.road_networks.network import RoadNetwork
from discreet.usecases import asking, budgets, datasets, jobs, objects, rehearsals, sources
from discreet.usecases.blocks import of_accounts
from discreet.usecases.requests import JobRequest
from discreet.usecases.services import Services
from discreet.web import bodies, form_files
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

MOST_DATASETS = 200
"""Newest datasets that are offered."""
MOST_SOURCES = 20
"""Newest sources that are offered, with all of their blocks."""
RECENT_JOBS = 50
"""Newest jobs, of which those of the same kind are offered to take a part of the problem from."""

CARRIED = ("body", "kind", "around", "units")
"""Fields of a job's form that are kept while its network's files are read."""


@router.get("/jobs/new")
async def show_form(
    request: Request,
    services: CurrentServices,
    viewer: Submitter,
    dataset: str | None = None,
    source: str | None = None,
    kind: str | None = None,
    release: str | None = None,
    around: str | None = None,
    network: str | None = None,
) -> Response:
    """The form of a job. It begins with an example of the kind, on the chosen dataset or network or
    on the newest block of a source; with the problem of the job `release`, which is asked again; or
    with that of the job `around`, around whose release another is planned."""
    rows = await datasets.page(services, viewer.principal, None, MOST_DATASETS)
    show = partial(_form, request, services, viewer, rows=rows)
    if release is not None:
        row = await jobs.find(services, viewer.principal, release)
        problem = jobs.problem_view(row, viewer.principal)
        text = await anyio.to_thread.run_sync(submissions.again_text, problem, release)
        free, _ = await asking.free(services.database, viewer.principal, row)
        fixed = sorted(problem.keys() - free - WHERE_THE_DATA_ARE)
        return await show(kind=row["kind"], dataset=None, text=text, again=release, fixed=fixed)
    if around is not None:
        row = await jobs.find(services, viewer.principal, around)
        problem = jobs.problem_view(row, viewer.principal)
        text = await anyio.to_thread.run_sync(submissions.around_text, problem, around)
        offered = next((one for one in rows if one["id"] == row["dataset_id"]), None)
        return await show(kind=row["kind"], dataset=offered, text=text, around=around)
    if source is not None:
        row = await sources.find(services, viewer.principal, source)
        blocks = await sources.blocks_of(services, viewer.principal, row)
        left = blocks[-1]["remaining"]["epsilon"] if blocks else 0.0
        begun = await submissions.example_on(
            services, viewer.principal, row, left, {"source": {"id": row["id"], "last": 1}}
        )
        return await show(
            kind=row["kind"], dataset=None, source=row, example=True, **begun._asdict()
        )
    chosen = next((row for row in rows if row["id"] == dataset), None)
    beside: dict[str, dict[str, Any]] = {}
    if network is not None:
        kind, field = job_forms.kind_of(RoadNetwork)
        road, _ = await objects.find(services, viewer.principal, network, RoadNetwork)
        beside = {field: road}
        if chosen is None or chosen["kind"] != kind:
            chosen = _fitting(rows, kind, field, road["sizes"])
    if chosen is not None:
        kind = chosen["kind"]
    if kind not in KINDS:
        kind = rows[0]["kind"] if rows else next(iter(KINDS))
    if chosen is None:
        chosen = next((row for row in rows if row["kind"] == kind), None)
    if chosen is None:
        begun = submissions.Example(submissions.example_text(kind, beside), [], [])
    else:
        largest = await budgets.largest_request(services, viewer.principal, chosen["account_id"])
        begun = await submissions.example_on(
            services, viewer.principal, chosen, largest, chosen=beside
        )
    return await show(kind=kind, dataset=chosen, example=True, **begun._asdict())


@router.post("/jobs/new")
async def price_or_submit(
    request: Request, services: CurrentServices, viewer: Submitter
) -> Response:
    """Price first. A submission is taken only for the very text whose price was shown."""
    form = await forms.read(request)
    text = form.get("body", "")
    rows = await datasets.page(services, viewer.principal, None, MOST_DATASETS)
    around, units = forms.filled(form, "around"), forms.filled(form, "units")
    shown: dict[str, Any] = {
        "rows": rows,
        "text": text,
        "dataset": None,
        "kind": form.get("kind", ""),
        "around": around,
        "units": units,
    }
    try:
        parsed = await submissions.read(text)
        shown.update(_of_problem(parsed.problem, rows))
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
                wait=parsed.wait,
            )
            return go_to(f"/jobs/{row['id']}")
        if form.get("action") == "rehearse":
            row = await rehearsals.submit(
                services,
                viewer.principal,
                idempotency_key=f"page/{form.get('once', '')[:100]}",
                request=f"{text}{around or ''} {units or ''}".encode(),
                asked=submissions.rehearsal(parsed, around, units),
            )
            return go_to(f"/jobs/{row['id']}")
        plan, leaves = await _priced(services, viewer, parsed)
        if parsed.privacy is not None and parsed.privacy.accuracy is not None:
            figures = plan["privacy"]
            shown["text"] = await bodies.in_thread_if_large(
                lambda: submissions.in_figures(text, figures), len(text)
            )
    except (InvalidInput, NotFound, Conflict) as error:
        return await _form(request, services, viewer, refused=error, **shown)
    changed = form.get("action") == "submit"
    return await _form(
        request, services, viewer, plan=plan, leaves=leaves, changed=changed, **shown
    )


@router.post("/jobs/new/network")
async def read_network(request: Request, services: CurrentServices, viewer: Submitter) -> Response:
    """The files of a network for the job that is being written: asked for, then read into its text,
    which the form goes on with. Nothing is stored."""
    if not forms.is_multipart(request):
        form = await forms.read(request)
        job = {name: form.get(name, "") for name in CARRIED}
        return networks.show_files(request, services, dict(network_forms.BLANK), job=job)
    most = bodies.of_job(services.settings)
    async with form_files.held(request, most, CARRIED) as sent:
        job = {name: sent.fields.pop(name, "") for name in CARRIED}
        found = await networks.read_files(services, sent, most)
    if isinstance(found, networks.Refused):
        return networks.show_files(request, services, sent.fields, found, job)
    rows = await datasets.page(services, viewer.principal, None, MOST_DATASETS)
    shown: dict[str, Any] = {
        "rows": rows,
        "text": job["body"],
        "dataset": None,
        "kind": job["kind"],
        "around": forms.filled(job, "around"),
        "units": forms.filled(job, "units"),
        "told": networks.Told(found.notes, found.warnings, new=True),
    }
    try:
        shown["text"] = await bodies.in_thread_if_large(
            lambda: submissions.with_network(job["body"], found.network),
            len(job["body"]) + len(found.network),
        )
        shown.update(_of_problem((await submissions.read(shown["text"])).problem, rows))
    except InvalidInput as error:
        return await _form(request, services, viewer, refused=error, **shown)
    return await _form(request, services, viewer, **shown)


@router.post("/jobs/new/price")
async def price(request: Request, services: CurrentServices, viewer: Submitter) -> Response:
    """The price of a text while it is written: two parts of the page, and the fingerprint by which
    a submission names the text. A refusal has one part of the page, and its issues with pointers
    into the text."""
    form = await forms.read(request)
    text = form.get("body", "")
    rows = await datasets.page(services, viewer.principal, None, MOST_DATASETS)
    shown: dict[str, Any] = {**_names(rows), "live": True}
    shown |= {name: forms.filled(form, name) for name in ("around", "units")}
    try:
        parsed = await submissions.read(text)
        shown.update(_of_problem(parsed.problem, rows))
        shown["plan"], shown["leaves"] = await _priced(services, viewer, parsed)
    except (InvalidInput, NotFound, Conflict) as error:
        issues = job_forms.issues_view(error.issues if isinstance(error, InvalidInput) else [])
        body = {"price": _part("job_refusal.html", refused=error, **shown), "issues": issues}
        return JSONResponse(body, submissions.status_of(error), HEADERS)
    body = {
        "price": _part("job_price.html", **shown),
        "actions": _part("job_actions.html", **shown),
        "priced": submissions.fingerprint(text),
        "privacy": shown["plan"].get("privacy"),
        "issues": [],
    }
    return JSONResponse(body, headers=HEADERS)


def _fitting(
    rows: Sequence[dict[str, Any]], kind: str, field: str, sizes: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Of the datasets that a stored object of these sizes fits, the one whose public part has most
    of the same figures, the newest of equals; None if it fits none."""
    fitting = [
        row
        for row in rows
        if row["kind"] == kind
        and KINDS[kind].fits(field, sizes, DATASETS[kind].read_public(row["public"]))
    ]
    return max(
        fitting,
        key=lambda row: sum(row["public"].get(name) == size for name, size in sizes.items()),
        default=None,
    )


async def _sources(services: Services, viewer: Viewer, kind: str) -> list[dict[str, Any]]:
    """The newest sources of a kind, each with the names of its readable blocks; empty for a kind
    that reads no sources."""
    if "source" not in KINDS[kind].model_fields:
        return []
    rows = await sources.page(services, viewer.principal, None, MOST_SOURCES)
    found = [
        sources.view(row) | {"block_by": row["block_by"]} for row in rows if row["kind"] == kind
    ]
    for one in found:
        blocks = await sources.blocks_of(services, viewer.principal, one)
        one["blocks"] = [block["block"] for block in blocks if not block["erased"]]
    return found


def _part(template: str, **shown: Any) -> str:
    return environment.get_template(template).render(**shown)


async def _priced(
    services: Services, viewer: Viewer, asked: JobRequest
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The plan of a job, and what it would leave on each account."""
    body, accounts, price = await jobs.priced(
        services, viewer.principal, asked.problem, asked.privacy, asked.seed, asked.wait
    )
    names = await of_accounts(services.database, viewer.principal, accounts)
    return body, job_forms.together([budgets.left_by(one, price) for one in accounts], names)


def _of_problem(problem: Problem, rows: list[dict[str, Any]]) -> dict[str, Any]:
    named, blocks = getattr(problem, "dataset", None), getattr(problem, "source", None)
    return {
        "kind": problem.kind,
        "dataset": next((row for row in rows if row["id"] == named), None),
        "source": None if blocks is None else {"id": blocks.id, "name": blocks.id},
    }


def _names(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "account_names": {row["account_id"]: row["name"] for row in rows},
        "with_dataset": list(DATASETS),
    }


async def _form(
    request: Request,
    services: Services,
    viewer: Viewer,
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
    units: str | None = None,
    fixed: Sequence[str] = (),
    example: bool = False,
    named: Sequence[str] = (),
    needs: Sequence[str] = (),
    leaves: list[dict[str, Any]] | None = None,
    source: dict[str, Any] | None = None,
    told: networks.Told | None = None,
) -> Response:
    recent = await jobs.page(
        services, viewer.principal, state="succeeded", after=None, size=RECENT_JOBS
    )
    known = kind in KINDS
    stored = {
        field: await objects.page(services, viewer.principal, model, None, job_forms.MOST_STORED)
        for field, model in (KINDS[kind].objects.items() if known else ())
    }
    return render(
        request,
        "job_new.html",
        again=again,
        fixed=fixed,
        around=around,
        units=units,
        example=example,
        named=named,
        needs=needs,
        status=200 if refused is None else submissions.status_of(refused),
        kind=kind,
        kinds=list(KINDS),
        dataset=dataset,
        datasets=[datasets.view(row) for row in rows],
        **_names(rows),
        schema=job_forms.schema_of(kind) if known else None,
        choices=(
            job_forms.choices(
                kind, rows, recent, stored, refused, fixed, await _sources(services, viewer, kind)
            )
            if known
            else None
        ),
        source=source,
        told=told,
        stored=[row["name"] for rows_of in stored.values() for row in rows_of],
        leaves=leaves or [],
        live=False,
        text=text,
        priced=submissions.fingerprint(text),
        once=str(uuid.uuid4()),
        plan=plan,
        refused=refused,
        changed=changed,
    )
