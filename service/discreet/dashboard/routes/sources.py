"""Sources: data that arrive in blocks, the budget that each block has left, and the form of a new
block."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.dashboard import forms, paging, submissions
from discreet.dashboard.dataset_forms import (
    described,
    located,
    places_of,
    typed_place,
)
from discreet.dashboard.pages import go_to, render
from discreet.dashboard.sessions import Owner, Reader, Viewer
from discreet.errors import DiscreetError
from discreet.problems.descriptions import is_described
from discreet.usecases import source_rules, sources
from discreet.usecases.places.rules import Located
from discreet.usecases.requests import BlockRequest, PlacedBlockRequest
from discreet.usecases.services import Services
from discreet.web import bodies, uploads
from discreet.web.registrations import BesideBlock, BlockSettings
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

PAGE = 50
WIDEST = 366
"""Newest blocks that the band of a page shows; its table and the API have all."""

_BLOCK: TypeAdapter[BlockRequest] = TypeAdapter(BlockRequest)
_PLACED: TypeAdapter[PlacedBlockRequest] = TypeAdapter(PlacedBlockRequest)


@router.get("/sources")
async def show_sources(
    request: Request, services: CurrentServices, viewer: Reader, after: str | None = None
) -> Response:
    """Sources, newest first."""
    rows = await sources.page(services, viewer.principal, paging.place(after), PAGE + 1)
    return render(
        request,
        "sources.html",
        sources=[sources.view(row) for row in rows[:PAGE]],
        more=paging.after(rows, PAGE),
    )


@router.get("/sources/{source_id}")
async def show_source(
    source_id: str,
    request: Request,
    services: CurrentServices,
    viewer: Reader,
    block: str = "",
) -> Response:
    """One source: a band over its blocks, a table of them, and for owners the form of a new one,
    or of a new version of `block`."""
    return await _page(request, services, viewer, source_id, {"block": block})


@router.post("/sources/{source_id}/upload")
async def upload(
    source_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Register a block from a file: a part `metadata` that is its name, and a part `content`."""
    sent: dict[str, Any] = {}

    def typed(metadata: bytes, content: bool | None) -> BesideBlock:
        name = sent["block"] = metadata.decode(errors="replace")
        forms.refuse_nul("/block", name)
        return BlockSettings(bodies.validate(_BLOCK, {"block": name, "content": {}}).block), None

    try:
        row, new = await uploads.add_block(request, viewer.principal, source_id, typed)
    except DiscreetError as error:
        if not sent:
            raise
        return await _page(request, services, viewer, source_id, sent, refused=error)
    return _added(source_id, row, new=new)


@router.post("/sources/{source_id}/address")
async def locate(
    source_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Register a block whose content lies at an address."""
    form = await forms.read(request)
    source = await sources.find(services, viewer.principal, source_id)
    block = {"block": form.get("block", "")}
    try:
        asked = bodies.validate(_PLACED, {**block, **located(form)})
        with services.turns.turn(viewer.tenant):
            row, new = await sources.add_block(
                services,
                viewer.principal,
                source,
                asked.block,
                Located(asked.content_from, asked.content_stays),
            )
    except DiscreetError as error:
        given = {**block, **typed_place(form)}
        return await _page(request, services, viewer, source_id, given, refused=error)
    return _added(source_id, row, new=new)


def _added(source_id: str, row: dict[str, Any], *, new: bool) -> Response:
    return go_to(f"/sources/{source_id}?{'added' if new else 'known'}={row['id']}")


async def _page(
    request: Request,
    services: Services,
    viewer: Viewer,
    source_id: str,
    given: dict[str, Any],
    *,
    refused: DiscreetError | None = None,
) -> Response:
    """The page of a source. `given`: what the form of a block begins with."""
    row = await sources.find(services, viewer.principal, source_id)
    blocks = await sources.blocks_of(services, viewer.principal, row)
    by_dataset = {one["dataset"]: one for one in blocks}
    adding: dict[str, Any] | None = None
    if viewer.may("owner"):
        adding = {
            "described": is_described(row["public"]),
            "names": services.settings.reads_names,
            "fields": described(row["kind"])["private"],
            "given": {**typed_place({}), **given},
            **await places_of(services, viewer.principal),
        }
    return render(
        request,
        "source.html",
        status=200 if refused is None else submissions.status_of(refused),
        source=sources.view(row),
        blocks=blocks,
        band=blocks[-WIDEST:],
        rule=await source_rules.newest(services, viewer.principal, source_id),
        waiting=await source_rules.waiting(services, viewer.principal, source_id),
        added=by_dataset.get(request.query_params.get("added", "")),
        known=by_dataset.get(request.query_params.get("known", "")),
        adding=adding,
        refused=refused,
    )
