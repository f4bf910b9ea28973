"""The privacy audit: the newest table of this installation. A run takes too long for a page, so
only the command line starts one."""

from __future__ import annotations

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.dashboard.pages import render
from discreet.dashboard.sessions import CurrentViewer
from discreet.usecases import audits
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)


@router.get("/audit")
async def show_audit(
    request: Request, services: CurrentServices, viewer: CurrentViewer
) -> Response:
    """The newest table that `discreet audit --save` wrote into this state folder."""
    table = await anyio.to_thread.run_sync(audits.saved, services.settings.state)
    return render(request, "audit.html", table=table, confidence=audits.CONFIDENCE)
