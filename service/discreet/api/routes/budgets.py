"""Budgets and the ledger."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from discreet.api.bodies import documented, json_body
from discreet.api.responses import answer, errors
from discreet.api.schemas import BudgetAnswer, BudgetList, EntryPage, GrantRequest
from discreet.api.security import CurrentPrincipal, CurrentServices
from discreet.errors import InvalidInput
from discreet.usecases import budgets

router = APIRouter(prefix="/v1/budgets", tags=["budgets"])

QueryDelta = Annotated[
    Decimal, Query(ge=0, lt=1, description="The delta for which `largest_request` is asked", allow_inf_nan=False)
]


@router.get("", operation_id="list_budgets", responses={200: {"model": BudgetList}, **errors(422)})
async def list_budgets(
    services: CurrentServices, principal: CurrentPrincipal, delta: QueryDelta = Decimal(0)
) -> Response:
    """All budgets of the tenant: cap, spent, reserved, remaining, and what one more request could be."""
    return answer({"budgets": await budgets.all_budgets(services, principal, delta)})


@router.get("/{account_id}", operation_id="get_budget", responses={200: {"model": BudgetAnswer}, **errors(404, 422)})
async def get_budget(
    account_id: str, services: CurrentServices, principal: CurrentPrincipal, delta: QueryDelta = Decimal(0)
) -> Response:
    """One budget."""
    return answer(await budgets.one_budget(services, principal, account_id, delta))


@router.post(
    "/{account_id}/grants",
    operation_id="grant_budget",
    responses={200: {"model": BudgetAnswer}, **errors(400, 404, 409, 413, 422)},
    openapi_extra=documented(GrantRequest),
)
async def grant_budget(
    account_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[GrantRequest, Depends(json_body(GrantRequest))],
) -> Response:
    """Set another cap, with a reason that stays in the ledger; never below what is spent."""
    cap = budgets.units_of(request.cap)
    return answer(await budgets.grant(services, principal, account_id, cap, request.reason))


@router.get(
    "/{account_id}/entries", operation_id="list_entries", responses={200: {"model": EntryPage}, **errors(404, 422)}
)
async def list_entries(
    account_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 100,
    page_token: str | None = None,
) -> Response:
    """Ledger entries of a budget in the order of their hash chain."""
    after = _sequence(page_token)
    rows = await budgets.entries(services, principal, account_id, after=after, size=page_size + 1)
    token = str(rows[page_size - 1]["seq"]) if len(rows) > page_size else None
    return answer({"entries": rows[:page_size], "next_page_token": token})


def _sequence(token: str | None) -> int:
    if token is None:
        return 0
    if not (token.isascii() and token.isdigit() and len(token) < 19):
        raise InvalidInput("not a page token of this service", pointer="/query/page_token")
    return int(token)
