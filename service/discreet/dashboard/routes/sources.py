"""Sources: data that arrive in blocks, and the budget that each block has left."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.dashboard import paging
from discreet.dashboard.pages import render
from discreet.dashboard.sessions import Reader
from discreet.usecases import source_rules, sources
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

PAGE = 50
WIDEST = 366
"""Newest blocks that the band of a page shows; its table and the API have all."""


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
    source_id: str, request: Request, services: CurrentServices, viewer: Reader
) -> Response:
    """One source: a band over its blocks, and a table of them."""
    row = await sources.find(services, viewer.principal, source_id)
    blocks = await sources.blocks_of(services, viewer.principal, row)
    return render(
        request,
        "source.html",
        source=sources.view(row),
        blocks=blocks,
        band=blocks[-WIDEST:],
        rule=await source_rules.newest(services, viewer.principal, source_id),
        waiting=await source_rules.waiting(services, viewer.principal, source_id),
    )
