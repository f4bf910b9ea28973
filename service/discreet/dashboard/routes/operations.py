"""The state of the installation, for its operators."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.dashboard.pages import render
from discreet.dashboard.sessions import Operator
from discreet.usecases import operations
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)


@router.get("/operations")
async def show_operations(
    request: Request, services: CurrentServices, viewer: Operator
) -> Response:
    """The answer of `GET /v1/operations` as a page."""
    return render(
        request, "operations.html", state=await operations.state(services, viewer.principal)
    )
