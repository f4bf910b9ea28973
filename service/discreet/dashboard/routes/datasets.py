"""Datasets: what is registered, registering in two steps, deleting.

Step one describes the dataset and is all public. Step two sends the private content, as a file that
is streamed like an upload to the API, or as JSON typed into the page.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.dashboard import forms, job_forms, paging, reading_forms, submissions
from discreet.dashboard.dataset_forms import (
    described,
    has_example,
    hint_of,
    located,
    places_of,
    schema_of,
    typed_place,
)
from discreet.dashboard.pages import go_to, render
from discreet.dashboard.sessions import Owner, Reader, Viewer
from discreet.errors import Conflict, DiscreetError, InvalidInput, NotFound, PayloadTooLarge
from discreet.problems import DATASETS, KINDS
from discreet.problems.datasets import DatasetSettings
from discreet.problems.numbers import PRESETS
from discreet.problems.road_networks.network import RoadNetwork
from discreet.usecases import budgets, corrections, datasets, erasure, objects
from discreet.usecases.places import staying
from discreet.usecases.requests import DatasetRequest, ReadRequest
from discreet.usecases.services import Services
from discreet.web import bodies, uploads
from discreet.web.responses import answer
from discreet.web.security import CurrentServices

NEW_ACCOUNT = "new"
CHECKED = ("delete_after_job", "accept_doubts")
"""Settings that a form ticks."""
"""The value of the form's `account` for people who are in no other dataset. Browsers require a
choice."""
router = APIRouter(include_in_schema=False)

PAGE = 50

_SETTINGS: TypeAdapter[DatasetSettings] = TypeAdapter(DatasetSettings)
_WHOLE: TypeAdapter[DatasetRequest] = TypeAdapter(DatasetRequest)
_READ: TypeAdapter[ReadRequest] = TypeAdapter(ReadRequest)


@router.get("/datasets")
async def show_datasets(
    request: Request, services: CurrentServices, viewer: Reader, after: str | None = None
) -> Response:
    """Datasets that are not deleted, newest first."""
    rows = await datasets.page(services, viewer.principal, paging.place(after), PAGE + 1)
    return render(
        request,
        "datasets.html",
        datasets=[datasets.view(row) for row in rows[:PAGE]],
        more=paging.after(rows, PAGE),
        deleted=request.query_params.get("deleted") is not None,
    )


# Registering --------------------------------------------------------------------------------------


@router.get("/datasets/new")
async def show_form(
    request: Request, services: CurrentServices, viewer: Owner, kind: str = "", example: str = ""
) -> Response:
    """Step one: name, public part, cap. With `example` it has all figures of the kind's example;
    the address may also give numbers of the public part."""
    chosen = kind if kind in DATASETS else next(iter(DATASETS))
    given = _example(chosen)
    made_up = () if example else DATASETS[chosen].MADE_UP
    public = {name: figure for name, figure in given["public"].items() if name not in made_up}
    said = {
        name: forms.number({name: text}, name)
        for name, text in request.query_params.items()
        if name in given["public"]
    }
    public |= {name: figure for name, figure in said.items() if not isinstance(figure, str)}
    form = {
        "name": "",
        "public": submissions.as_text(public),
        "mode": "private",
        "epsilon": str(min(Decimal(str(given["cap"]["epsilon"])), PRESETS["loose"])),
        "delta": str(given["cap"].get("delta", 0)),
        "account": "",
    }
    return await _form(request, services, viewer, chosen, form)


def _example(kind: str) -> dict[str, Any]:
    """The dataset of the kind's example, with its content."""
    found: dict[str, Any] = KINDS[kind].example()["problem"]["dataset"]
    return found


@router.post("/datasets/new")
async def describe(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Check step one and ask for the content."""
    form = await forms.read(request)
    kind = form.get("kind", "")
    if kind not in DATASETS:
        raise InvalidInput(f"one of {', '.join(DATASETS)}", pointer="/kind")
    if "back" in form:
        text = form["back"].encode()
        described_before = await bodies.in_thread_if_large(
            lambda: _described_before(bodies.value_of(text)), len(text)
        )
        return await _form(request, services, viewer, kind, described_before)
    try:
        metadata = await bodies.in_thread_if_large(
            lambda: _metadata(kind, form), len(form.get("public", ""))
        )
    except InvalidInput as error:
        return await _form(request, services, viewer, kind, form, refused=error)
    return await _content_page(request, services, viewer, metadata)


@router.post("/datasets/upload")
async def upload(request: Request, viewer: Owner) -> Response:
    """Step two with a file of the kind's own columns, which is not looked at: the same body as the
    API's, a part `metadata` and a part `content`."""
    row, new = await uploads.register(request, viewer.principal)
    return _registered(datasets.view(row), new=new)


@router.post("/datasets/read")
async def look(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Step two with a file: keep it for a day, and say what it would be read as."""
    sent = Sent()
    try:
        found = await uploads.read(request, viewer.principal, sent.read)
    except DiscreetError as error:
        if not sent.metadata:
            raise
        return await _content_page(request, services, viewer, sent.metadata, refused=error)
    sent.metadata["draft"] = found["id"]
    return await _content_page(request, services, viewer, sent.metadata, found=found)


class Sent:
    """What a form says beside its file."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}

    def read(self, metadata: bytes, content: bool | None) -> ReadRequest:
        value = bodies.value_of(metadata)
        if not isinstance(value, dict):
            raise InvalidInput("an object is needed", pointer="/metadata")
        self.metadata = value
        return _asked(value)


async def _looked(
    request: Request, viewer: Viewer, metadata: dict[str, Any], refused: DiscreetError | None
) -> tuple[dict[str, Any] | None, DiscreetError | None]:
    """What the file that `metadata` names would be read as, and what is to be said as refused:
    before all else that the file is not here any more, which `metadata` then does not name. Where
    the description itself is refused, the columns of the file are there, by which it is mended."""
    if "draft" not in metadata:
        return None, refused
    try:
        return await uploads.look_again(request, viewer.principal, _asked(metadata)), refused
    except NotFound as error:
        metadata.pop("draft")
        return None, error
    except DiscreetError as error:
        refused = refused or error
    public = metadata.get("public")
    told = public if isinstance(public, dict) else {}
    plain = {name: one for name, one in told.items() if name not in ("reader", "columns")}
    try:
        asked = _asked({**metadata, "public": plain})
        found = await uploads.look_again(request, viewer.principal, asked)
    except DiscreetError:
        return None, refused
    return {**found, "issues": []}, refused


def _asked(metadata: dict[str, Any]) -> ReadRequest:
    said = {name: metadata[name] for name in ("kind", "public", "draft") if name in metadata}
    return bodies.validate(_READ, said)


@router.post("/datasets/reading")
async def read_as(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Look again at a file by what the form says of it, or register it so."""
    form = await forms.read(request)
    metadata = await _from_step_one(form)
    try:
        metadata = await _with_description(form, metadata)
        if "register" in form:
            row, new = await uploads.register_fields(services, viewer.principal, metadata)
            return _registered(datasets.view(row), new=new)
    except DiscreetError as error:
        return await _content_page(request, services, viewer, metadata, refused=error, typed=form)
    return await _content_page(request, services, viewer, metadata)


async def _with_description(form: forms.Form, metadata: dict[str, Any]) -> dict[str, Any]:
    """What step one said, with the description of this form. InvalidInput."""
    kind, public = str(metadata.get("kind")), metadata.get("public")
    if not isinstance(public, dict):
        raise InvalidInput("an object is needed", pointer="/public")
    size = sum(map(len, form.values()))
    said = await bodies.in_thread_if_large(
        lambda: reading_forms.described(form, kind, public), size
    )
    return {**metadata, "public": said}


@router.post("/datasets/content")
async def paste(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Step two with JSON typed into the page."""
    form = await forms.read(request)
    metadata = await _from_step_one(form)
    metadata.pop("draft", None)
    try:
        size = len(form.get("metadata", "")) + len(form.get("content", ""))
        whole = (await bodies.in_thread_if_large(lambda: _whole(metadata, form), size)).root
        with services.turns.turn(viewer.tenant):
            row, new = await datasets.register(
                services, viewer.principal, uploads.whole_registration(whole)
            )
    except (InvalidInput, Conflict, NotFound) as error:
        return await _content_page(
            request, services, viewer, metadata, refused=error, content=form.get("content", "")
        )
    return _registered(datasets.view(row), new=new)


@router.post("/datasets/address")
async def locate(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Step two with the address at which the content lies."""
    form = await forms.read(request)
    metadata = {**await _from_step_one(form)}
    metadata.pop("draft", None)
    try:
        fields = {**await _with_description(form, metadata), **located(form)}
        row, new = await uploads.register_fields(services, viewer.principal, fields)
    except DiscreetError as error:
        return await _content_page(
            request, services, viewer, metadata, refused=error, given=typed_place(form), typed=form
        )
    return _registered(datasets.view(row), new=new)


async def _from_step_one(form: forms.Form) -> dict[str, Any]:
    """What the page of step one has put into that of step two."""
    text = form.get("metadata", "").encode()
    metadata = await bodies.in_thread_if_large(lambda: bodies.value_of(text), len(text))
    if not isinstance(metadata, dict):
        raise InvalidInput("an object is needed", pointer="/metadata")
    return metadata


def _whole(metadata: dict[str, Any], form: forms.Form) -> DatasetRequest:
    content = bodies.value_of(form.get("content", "").encode())
    return bodies.validate(_WHOLE, {**metadata, "content": content})


@router.get("/datasets/examples/{kind}.json")
async def read_example(kind: str, viewer: Owner) -> Response:
    """The synthetic content of a kind's example, to try an upload with."""
    if kind not in DATASETS:
        raise NotFound()
    return answer(
        _example(kind)["content"],
        headers={"Content-Disposition": f'attachment; filename="{kind}.json"'},
    )


def _described_before(metadata: Any) -> forms.Form:
    """The fields of step one from which `_metadata` made this."""
    if not isinstance(metadata, dict):
        raise InvalidInput("an object is needed", pointer="/metadata")
    cap = metadata.get("cap")
    plain = metadata | (cap if isinstance(cap, dict) else {})
    names = ("name", "mode", "epsilon", "delta", "account", "retention_days", "draft")
    return {
        "account": NEW_ACCOUNT,
        **{name: str(plain[name]) for name in names if plain.get(name) is not None},
        **{name: "yes" for name in CHECKED if metadata.get(name)},
        "public": submissions.as_text(metadata.get("public")),
    }


def _metadata(kind: str, form: forms.Form) -> dict[str, Any]:
    """The upload's part `metadata`, checked as far as possible without the content."""
    try:
        public = bodies.value_of(form.get("public", "").encode())
    except InvalidInput as error:
        raise error.under("/public") from None
    annotation: Any = DATASETS[kind].model_fields["public"].annotation
    try:
        bodies.validate(TypeAdapter(annotation), public)
    except InvalidInput as error:
        raise error.under("/public") from None
    account = forms.filled(form, "account") if form.get("account") != NEW_ACCOUNT else None
    plain = {
        "name": form.get("name", ""),
        "mode": form.get("mode", "private"),
        **({"cap": forms.cap(form)} if account is None else {"account": account}),
        **(
            {"retention_days": forms.number(form, "retention_days")}
            if forms.filled(form, "retention_days")
            else {}
        ),
        **{name: True for name in CHECKED if form.get(name)},
    }
    bodies.validate(_SETTINGS, plain)
    draft = {"draft": form["draft"]} if form.get("draft") else {}
    return {"kind": kind, **plain, "public": public, **draft}


async def _form(
    request: Request,
    services: CurrentServices,
    viewer: Owner,
    kind: str,
    form: forms.Form,
    *,
    refused: DiscreetError | None = None,
) -> Response:
    found = await budgets.all_budgets(services, viewer.principal)
    return render(
        request,
        "dataset_new.html",
        status=200 if refused is None else submissions.status_of(refused),
        kind=kind,
        kinds=list(DATASETS),
        fields=described(kind),
        schema=schema_of(kind),
        usual=" ".join(DATASETS[kind].USUAL),
        assumes=DATASETS[kind].ASSUMES,
        made_up=DATASETS[kind].MADE_UP,
        issues=json.dumps(
            [
                {"pointer": issue.pointer, "detail": issue.detail}
                for issue in getattr(refused, "issues", ())
            ]
        ),
        form={
            **dict.fromkeys(
                (
                    "name",
                    "public",
                    "epsilon",
                    "delta",
                    "account",
                    "retention_days",
                    "draft",
                    *CHECKED,
                ),
                "",
            ),
            "mode": "private",
            **form,
        },
        accounts=[one for one in found if one["scope"] == "data"],
        refused=refused,
    )


async def _content_page(
    request: Request,
    services: Services,
    viewer: Viewer,
    metadata: dict[str, Any],
    *,
    found: dict[str, Any] | None = None,
    refused: DiscreetError | None = None,
    typed: forms.Form | None = None,
    content: str = "",
    given: dict[str, Any] | None = None,
) -> Response:
    """The page of step two: a file, what was understood of one that is here (`found`), or where the
    content lies. After a refusal with what was typed."""
    kind, public = str(metadata.get("kind")), metadata.get("public")
    if found is None:
        found, refused = await _looked(request, viewer, metadata, refused)
    text = json.dumps(metadata)
    told = public if isinstance(public, dict) else {}
    return render(
        request,
        "dataset_content.html",
        status=200 if refused is None else submissions.status_of(refused),
        metadata=metadata,
        metadata_text=text,
        public_text=await bodies.in_thread_if_large(lambda: submissions.as_text(public), len(text)),
        reading=reading_forms.shown(kind, told, found, typed or {}, refused),
        roads=await _roads(services, viewer, kind),
        reads_names=services.settings.reads_names,
        assumes=DATASETS[kind].ASSUMES if kind in DATASETS else "",
        takes_example=kind in DATASETS and has_example(kind, public),
        hint=hint_of(kind, public),
        fields=described(kind) if kind in DATASETS else {"public": [], "private": []},
        refused=refused,
        content=content,
        given=given,
        **await places_of(services, viewer.principal),
    )


async def _roads(services: Services, viewer: Viewer, kind: str) -> list[tuple[str, str]]:
    """Id and name of stored networks, whose nodes name zones; none of other kinds."""
    if kind not in KINDS or RoadNetwork not in KINDS[kind].objects.values():
        return []
    rows = await objects.page(services, viewer.principal, RoadNetwork, None, job_forms.MOST_STORED)
    return [(row["id"], row["name"]) for row in rows]


def _registered(dataset: dict[str, Any], *, new: bool) -> Response:
    return go_to(f"/datasets/{dataset['id']}?{'registered' if new else 'known'}=1")


# One dataset --------------------------------------------------------------------------------------


@router.get("/datasets/{dataset_id}")
async def show_dataset(
    dataset_id: str, request: Request, services: CurrentServices, viewer: Reader
) -> Response:
    """What is published of a dataset, and its budget. Never its content."""
    row = await datasets.find(services, viewer.principal, dataset_id)
    dataset = await staying.with_address(services, viewer.principal, row, datasets.view(row))
    budget = await budgets.one_budget(services, viewer.principal, dataset["account"])
    return render(
        request,
        "dataset.html",
        dataset=dataset,
        public_text=await submissions.shown(dataset["public"]),
        budget=budget,
        fields=described(dataset["kind"]),
        registered=request.query_params.get("registered") is not None,
        known=request.query_params.get("known") is not None,
        corrected=request.query_params.get("corrected") is not None,
    )


@router.get("/datasets/{dataset_id}/correct")
async def show_correction(
    dataset_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """The public part, to be corrected; a refusal where it stays."""
    row = await datasets.find(services, viewer.principal, dataset_id)
    refused = None
    try:
        await corrections.open_to(services, viewer.principal, dataset_id)
    except Conflict as error:
        refused = error
    return await _correction(request, services, viewer, row, row["public"], refused=refused)


@router.post("/datasets/{dataset_id}/correct")
async def correct(
    dataset_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Correct by what is stored, or by what lies at its place; ask for the content where that does
    not suffice."""
    form = await forms.read(request)
    text = form.get("public", "")
    row = await datasets.find(services, viewer.principal, dataset_id)
    try:
        public = await bodies.in_thread_if_large(lambda: bodies.value_of(text.encode()), len(text))
        if not isinstance(public, dict):
            raise InvalidInput("an object is needed", pointer="/public")
        with services.turns.turn(viewer.tenant):
            patch = _patch(row["public"], public)
            await corrections.correct(services, viewer.principal, dataset_id, patch)
    except (InvalidInput, Conflict, PayloadTooLarge) as error:
        return await _correction(request, services, viewer, row, text, refused=error)
    return go_to(f"/datasets/{dataset_id}?corrected=1")


@router.post("/datasets/{dataset_id}/correct/read")
async def look_for_correction(
    dataset_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """The content again, as a file: keep it for a day, and say what it would be read as."""
    row, sent = await datasets.find(services, viewer.principal, dataset_id), Sent()
    try:
        found = await uploads.read(request, viewer.principal, sent.read)
    except DiscreetError as error:
        if not sent.metadata:
            raise
        return await _again(request, services, viewer, row, sent.metadata, refused=error)
    sent.metadata["draft"] = found["id"]
    return await _again(request, services, viewer, row, sent.metadata, found=found)


@router.post("/datasets/{dataset_id}/correct/reading")
async def correct_by_file(
    dataset_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Look again at a file by what the form says of it, or correct by it."""
    form = await forms.read(request)
    row = await datasets.find(services, viewer.principal, dataset_id)
    metadata = await _from_step_one(form)
    try:
        metadata = await _with_description(form, metadata)
        if "register" in form:
            await uploads.correct_fields(
                services,
                viewer.principal,
                dataset_id,
                _patch(row["public"], metadata["public"]),
                str(metadata.get("draft")),
            )
            return go_to(f"/datasets/{dataset_id}?corrected=1")
    except DiscreetError as error:
        return await _again(request, services, viewer, row, metadata, refused=error, typed=form)
    return await _again(request, services, viewer, row, metadata)


def _patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What makes one public part of the other, whole fields at a time."""
    gone = {name: None for name in before if name not in after}
    new: dict[str, Any] = {}
    for name, value in after.items():
        if before.get(name) == value:
            continue
        old = before.get(name)
        is_part = isinstance(value, dict) and isinstance(old, dict)
        new[name] = _patch(old, value) if is_part else value  # type: ignore[arg-type]
    return {**gone, **new}


async def _correction(
    request: Request,
    services: Services,
    viewer: Viewer,
    row: dict[str, Any],
    public: Any,
    *,
    refused: DiscreetError | None = None,
) -> Response:
    """The page of a correction. `public`: the text that was typed, or what is registered."""
    issues = getattr(refused, "issues", ())
    if any(issue.pointer == "/content" for issue in issues) and isinstance(public, str):
        given = {"kind": row["kind"], "public": json.loads(public)}
        return await _again(request, services, viewer, row, given, refused=refused)
    text = public if isinstance(public, str) else await submissions.shown(public)
    return _corrected(request, row, text, refused, None)


async def _again(
    request: Request,
    services: Services,
    viewer: Viewer,
    row: dict[str, Any],
    metadata: dict[str, Any],
    *,
    found: dict[str, Any] | None = None,
    refused: DiscreetError | None = None,
    typed: forms.Form | None = None,
) -> Response:
    """The same page, which asks for the content, or says what was understood of it (`found`)."""
    kind, public = str(row["kind"]), metadata.get("public")
    told = public if isinstance(public, dict) else {}
    if found is None:
        found, refused = await _looked(request, viewer, metadata, refused)
    content = {
        "reading": reading_forms.shown(kind, told, found, typed or {}, refused),
        "metadata_text": json.dumps(metadata),
        "hint": hint_of(kind, told),
        "roads": await _roads(services, viewer, kind),
        "reads_names": services.settings.reads_names,
    }
    return _corrected(request, row, await submissions.shown(told), refused, content)


def _corrected(
    request: Request,
    row: dict[str, Any],
    public: str,
    refused: DiscreetError | None,
    content: dict[str, Any] | None,
) -> Response:
    dataset, kind = datasets.view(row), str(row["kind"])
    issues = [] if content else getattr(refused, "issues", ())
    said = [{"pointer": issue.pointer, "detail": issue.detail} for issue in issues]
    return render(
        request,
        "dataset_correct.html",
        status=200 if refused is None else submissions.status_of(refused),
        dataset=dataset,
        undeclared=dataset["undeclared"],
        public=public,
        fields=described(kind),
        schema=schema_of(kind),
        usual=" ".join(sorted({*DATASETS[kind].USUAL, *dataset["undeclared"]})),
        issues=json.dumps(said),
        refused=refused,
        content=content,
    )


@router.get("/datasets/{dataset_id}/delete")
async def ask_delete(
    dataset_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Ask for confirmation: the page says what is deleted and what stays."""
    return await _delete_form(request, services, viewer, dataset_id)


@router.post("/datasets/{dataset_id}/delete")
async def delete(
    dataset_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Erase the content."""
    try:
        await erasure.erase(services, viewer.principal, dataset_id)
    except Conflict as error:
        return await _delete_form(request, services, viewer, dataset_id, refused=error)
    return go_to("/datasets?deleted=1")


async def _delete_form(
    request: Request,
    services: CurrentServices,
    viewer: Owner,
    dataset_id: str,
    refused: Conflict | None = None,
) -> Response:
    dataset = datasets.view(await datasets.find(services, viewer.principal, dataset_id))
    remains = await erasure.would_remain(services, viewer.principal, dataset_id)
    status = 200 if refused is None else 409
    return render(
        request,
        "dataset_delete.html",
        status=status,
        dataset=dataset,
        remains=remains,
        refused=refused,
    )
