"""The documentation, served by the installation itself. It is open to all, since nothing in it is
private and those who cannot log in need it most."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from discreet.dashboard import assets, handbook, help_search
from discreet.dashboard.pages import render
from discreet.dashboard.sessions import Visitor

router = APIRouter(prefix=handbook.PLACE, include_in_schema=False)


@router.get("/pictures/{name}")
async def show_picture(name: str, request: Request) -> Response:
    """A picture of the documentation."""
    return assets.answer(request, await anyio.to_thread.run_sync(handbook.picture, name))


@router.get("/search")
async def show_search(
    request: Request, visitor: Visitor, q: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """Sections that contain all words of `q`."""
    found = await anyio.to_thread.run_sync(help_search.search, q)
    return render(request, "help_search.html", asked=q, found=found)


@router.get("")
async def show_start(request: Request, visitor: Visitor) -> Response:
    """The first page of the documentation, which lists all pages."""
    return await _shown(request, handbook.START)


@router.get("/{name:path}")
async def show_page(name: str, request: Request, visitor: Visitor) -> Response:
    """One page of the documentation."""
    return await _shown(request, name or handbook.START)


async def _shown(request: Request, name: str) -> Response:
    page = await anyio.to_thread.run_sync(handbook.page, name)
    return render(request, "help.html", page=page, is_start=name == handbook.START)
