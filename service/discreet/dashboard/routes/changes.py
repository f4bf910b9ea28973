"""The audit log: who changed what."""

from __future__ import annotations

from typing import Annotated, get_args

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from discreet.dashboard.pages import render
from discreet.dashboard.sessions import Viewer, only
from discreet.storage.audit_log import Action
from discreet.usecases import access
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

Reader = Annotated[Viewer, Depends(only(*access.READERS))]
PAGE = 100
ACTIONS: tuple[str, ...] = get_args(Action)


@router.get("/changes")
async def show_changes(
    request: Request,
    services: CurrentServices,
    viewer: Reader,
    action: str = "",
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
) -> Response:
    """Changes of the tenant, newest first; an operator sees those of all."""
    chosen = action if action in ACTIONS else None
    rows = await access.page(
        services, viewer.principal, before=before, action=chosen, size=PAGE + 1
    )
    return render(
        request,
        "changes.html",
        changes=rows[:PAGE],
        more=rows[PAGE - 1]["id"] if len(rows) > PAGE else None,
        actions=ACTIONS,
        action=chosen,
    )
