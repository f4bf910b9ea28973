"""The documentation, served by the installation itself. Nothing in it is private, and who cannot log in needs it most:
it is open to all."""

from __future__ import annotations

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.dashboard import assets, handbook
from discreet.dashboard.pages import render
from discreet.dashboard.sessions import Visitor

router = APIRouter(prefix=handbook.PLACE, include_in_schema=False)


@router.get("/pictures/{name}")
async def show_picture(name: str, request: Request) -> Response:
    """A picture of the documentation."""
    return assets.answer(request, await anyio.to_thread.run_sync(handbook.picture, name))


@router.get("")
async def show_start(request: Request, visitor: Visitor) -> Response:
    """Where the documentation begins, with all its pages."""
    return await _shown(request, handbook.START)


@router.get("/{name:path}")
async def show_page(name: str, request: Request, visitor: Visitor) -> Response:
    """One page of the documentation."""
    return await _shown(request, name or handbook.START)


async def _shown(request: Request, name: str) -> Response:
    page = await anyio.to_thread.run_sync(handbook.page, name)
    return render(request, "help.html", page=page, is_start=name == handbook.START)
