"""What-if questions beside an answer: the fields that may be changed after the release at price 0,
and the job that answers each question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import JSONResponse, Response

from discreet.dashboard import forms, job_forms, submissions
from discreet.dashboard.pages import HEADERS
from discreet.dashboard.sessions import Submitter, Viewer
from discreet.errors import Conflict, DiscreetError, Gone, InvalidInput, NotFound
from discreet.intake.strict_json import loads
from discreet.problems import KINDS
from discreet.problems.base import Problem
from discreet.usecases import asking, jobs, objects, published
from discreet.usecases.requests import JobRequest
from discreet.usecases.services import Services
from discreet.web import bodies, drawings
from discreet.web.security import CurrentServices
from discreet_client import canonical

router = APIRouter(include_in_schema=False)

MOST_FIRST = 3
"""Fields that are shown beside an answer; all others are folded below them."""
LONGEST_VALUE = 10_000
"""Characters of a value that can be changed beside an answer; longer ones are changed in the form
of a job."""
LONGEST_NAME = 200
"""Characters of a job's name."""
MOST_TRIES = 8
"""Jobs that may ask one question, as long as each fails or is cancelled."""

_REQUEST: TypeAdapter[JobRequest] = TypeAdapter(JobRequest)


@router.get("/jobs/{job_id}/ask")
async def show_fields(job_id: str, services: CurrentServices, viewer: Submitter) -> Response:
    """The schema of the fields that this job's release left free, their values, and the stored
    objects that fit."""
    row = await jobs.find(services, viewer.principal, job_id)
    free, public = await asking.free(services.database, viewer.principal, row)
    if not free:
        if row["result_gone_at"] is not None:
            raise Gone(published.gone(row), code="result_gone")
        raise NotFound("nothing can be asked of this job again")
    kind = KINDS[row["kind"]]
    fitting = {
        field: [
            one
            for one in await objects.page(
                services, viewer.principal, model, None, job_forms.MOST_STORED
            )
            if kind.fits(field, one["sizes"], public)
        ]
        for field, model in kind.objects.items()
        if field in free
    }
    parts: dict[str, list[tuple[Any, str]]] = {}
    if own := kind.left_out:
        async with drawings.turns() if objects.names_any(row["problem"]) else nullcontext():
            whole = await objects.filled_text(services, viewer.principal, row["problem"])
        found = await anyio.to_thread.run_sync(own.choices, whole)
        parts = {field: choices for field, choices in found.items() if field in free}
    made = await anyio.to_thread.run_sync(_fields, kind, row["problem"], free, fitting, parts)
    return JSONResponse(made, headers=HEADERS)


def _fields(
    kind: type[Problem],
    problem: Mapping[str, Any],
    free: frozenset[str],
    fitting: Mapping[str, list[dict[str, Any]]],
    parts: Mapping[str, list[tuple[Any, str]]],
) -> dict[str, Any]:
    schema = kind.model_json_schema()
    properties = {
        name: {
            **schema["properties"][name],
            **({"x-scaled": True} if name in kind.scaled_together else {}),
        }
        for name in kind.asked_again
        if name in free
        and name not in fitting
        and len(json.dumps(problem.get(name))) <= LONGEST_VALUE
    }
    values = {name: problem[name] for name in properties if problem.get(name) is not None}
    stored: dict[str, list[dict[str, str]]] = {}
    for name, rows in fitting.items():
        named = problem.get(name) if isinstance(problem.get(name), str) else None
        others = [job_forms.sized(one) for one in rows if one["id"] != named]
        if others:  # an object is not sent: it stays as it was, or a stored one is named
            stored[name] = [{"value": "", "label": "Original"}, *others]
            properties[name] = {"type": "string"}
    order = [name for name in kind.asked_again if name in free]
    shown = [name for name in order if name in properties]
    first = [name for name in shown if name in order[:MOST_FIRST] or name in parts]
    return {
        "schema": {
            "$defs": schema.get("$defs", {}),
            "properties": properties,
            "required": [name for name in schema.get("required", []) if name in values],
        },
        "values": values,
        "stored": stored,
        "several": {
            name: [{"value": value, "label": label} for value, label in choices]
            for name, choices in parts.items()
            if name in properties
        },
        "first": first,
        "more": [name for name in shown if name not in first],
    }


@router.post("/jobs/{job_id}/ask")
async def ask(
    job_id: str, request: Request, services: CurrentServices, viewer: Submitter
) -> Response:
    """The job that answers the question, at price 0: an earlier one with the same question, or a
    new one. The form has `changes`: a JSON object with the new values of fields, null for the
    default."""
    form = await forms.read(request)
    row = await jobs.find(services, viewer.principal, job_id)
    try:
        changes = loads(form.get("changes", "").encode())
        known = KINDS[row["kind"]].asked_again if row["kind"] in KINDS else {}
        if not isinstance(changes, dict) or not changes.keys() <= known.keys():
            raise InvalidInput(
                "only fields that the release did not fix can be changed", pointer="/problem"
            )
        found = await _asked(services, viewer, row, changes)
    except (InvalidInput, NotFound, Conflict) as error:
        return _refused(error)
    return JSONResponse({"id": found["id"], "state": found["state"]}, headers=HEADERS)


async def _asked(
    services: Services, viewer: Viewer, row: dict[str, Any], changes: Mapping[str, Any]
) -> Mapping[str, Any]:
    firsts = row["released_by"] or [row["id"]]
    release = firsts[0] if len(firsts) == 1 else firsts
    stored = jobs.problem_view(row, viewer.principal)
    name = called(changes)

    def question(changes: Mapping[str, Any]) -> tuple[JobRequest, bytes]:
        problem = {**stored, **changes, "dataset": None, "release": release}
        given = {
            name: value for name, value in problem.items() if value is not None and name != "source"
        }
        asked = bodies.validate(_REQUEST, {"problem": given, "name": name})
        return asked, canonical.dumps(asked.problem.model_dump(mode="json"))

    parts = KINDS[row["kind"]].left_out
    fields = () if parts is None else parts.fields
    named = {
        field: values for field, values in changes.items() if field in fields and _names(values)
    }
    changed = {field: value for field, value in changes.items() if field not in named}
    if parts is not None and named:
        # Names become positions in the network that the question is about.
        rest, _ = await anyio.to_thread.run_sync(question, changed)
        whole = rest.problem.model_dump(mode="json")
        async with drawings.turns() if objects.names_any(whole) else nullcontext():
            whole = await objects.filled_text(services, viewer.principal, whole)
        for field, values in named.items():
            changed[field] = await anyio.to_thread.run_sync(parts.positions, whole, field, values)
    asked, text = await anyio.to_thread.run_sync(question, changed)
    _, before = await anyio.to_thread.run_sync(question, {})
    if text == before:
        return row
    digest = canonical.digest(json.loads(text))
    for number in range(MOST_TRIES):
        found = await jobs.submit(
            services,
            viewer.principal,
            idempotency_key=f"asked/{digest}/{number}",
            request=text,
            problem=asked.problem,
            privacy=None,
            seed=None,
            name=asked.name,
        )
        if found["state"] not in ("failed", "cancelled"):
            return found
    raise Conflict(
        f"{MOST_TRIES} jobs asked this question, and each failed or was cancelled", code="job_ended"
    )


def _names(value: Any) -> bool:
    """Whether this is a list that has names of what is left out, not only positions."""
    return isinstance(value, list) and any(isinstance(one, str) for one in value)


def called(changes: Mapping[str, Any]) -> str | None:
    """The name of a job that asks again with these changes: `Objective user equilibrium,
    discomfort weight 2`."""
    said = [f"{name} {_short(value)}".strip().replace("_", " ") for name, value in changes.items()]
    text = ", ".join(said)
    return text[:1].upper() + text[1:LONGEST_NAME] if text else None


def _short(value: Any) -> str:
    if value is None:
        return "as usual"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(
            str(one) if name == "type" else f"{name} {_short(one)}" for name, one in value.items()
        )
    if isinstance(value, list):
        return ", ".join(one for one in value if isinstance(one, str)) or "of its own"
    return str(value)


def _refused(error: DiscreetError) -> Response:
    issues = job_forms.issues_view(getattr(error, "issues", []))
    return JSONResponse(
        {"detail": error.detail, "issues": issues}, submissions.status_of(error), HEADERS
    )
