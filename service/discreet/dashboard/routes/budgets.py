"""Budgets: what may be spent, what is, and what would still fit."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.api.security import CurrentServices
from discreet.dashboard.pages import go_to, render
from discreet.dashboard.sessions import CurrentViewer
from discreet.usecases import budgets

router = APIRouter(include_in_schema=False)


@router.get("/")
async def show_budgets(request: Request, services: CurrentServices, viewer: CurrentViewer) -> Response:
    """Every budget of the tenant."""
    if viewer.role == "operator":
        return go_to("/admin")
    found = await budgets.all_budgets(services, viewer.principal)
    return render(request, "budgets.html", budgets=found)
