"""Budgets and the ledger."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from discreet.api import examples
from discreet.api.operations import EVERYBODY, operation
from discreet.api.schemas import BudgetAnswer, BudgetList, EntryPage, Figures
from discreet.usecases import budget_requests, budgets
from discreet.usecases.requests import BudgetRequestRequest, DeclineRequest, GrantRequest
from discreet.web.bodies import json_body
from discreet.web.responses import Pages, answer, resource
from discreet.web.security import CurrentPrincipal, CurrentServices

# Budget schemas -----------------------------------------------------------------------------------
# Answers about requests for a larger budget.


class BudgetRequestAnswer(BaseModel):
    """A request for a larger budget. It changes nothing until an owner grants it."""

    id: str
    account: str
    principal: str = Field(description="Who asks")
    more: Figures = Field(description="How much the cap should be raised by")
    reason: str
    state: Literal["open", "granted", "declined"]
    created_at: datetime
    answered_by: str | None
    answer: str | None = Field(description="The owner's reason")
    answered_at: datetime | None


class BudgetRequestList(BaseModel):
    """The newest requests on a budget, at most a hundred."""

    requests: list[BudgetRequestAnswer]


# Budgets ------------------------------------------------------------------------------------------

router = APIRouter(prefix="/v1/budgets", tags=["budgets"])

QueryDelta = Annotated[
    Decimal,
    Query(
        ge=0,
        lt=1,
        description="The delta for which `largest_request` is computed",
        allow_inf_nan=False,
    ),
]


@router.get(
    "",
    **operation("list_budgets", roles=EVERYBODY, answers={200: BudgetList}),
)
async def list_budgets(
    services: CurrentServices, principal: CurrentPrincipal, delta: QueryDelta = Decimal(0)
) -> Response:
    """All budgets of the tenant: cap, spent, reserved, remaining, and the largest request that
    passes."""
    return answer({"budgets": await budgets.all_budgets(services, principal, delta)})


@router.get(
    "/{account_id}",
    **operation(
        "get_budget",
        roles=EVERYBODY,
        answers={200: BudgetAnswer},
        codes=["not_found"],
        etag=True,
    ),
)
async def get_budget(
    account_id: str,
    request: Request,
    services: CurrentServices,
    principal: CurrentPrincipal,
    delta: QueryDelta = Decimal(0),
) -> Response:
    """One budget, as the ledger stands now."""
    return resource(request, await budgets.budget_text(services, principal, account_id, delta))


@router.post(
    "/{account_id}/grants",
    **operation(
        "grant_budget",
        roles=["owner"],
        answers={200: BudgetAnswer},
        codes=["not_found", "cap_below_spent", "request_answered"],
        body=GrantRequest,
        examples=examples.GRANTS,
    ),
)
async def grant_budget(
    account_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[GrantRequest, Depends(json_body(GrantRequest))],
) -> Response:
    """Set a new cap, with a reason that stays in the ledger; never below what is spent."""
    cap = budgets.units_of(request.cap)
    return answer(
        await budgets.grant(services, principal, account_id, cap, request.reason, request.request)
    )


@router.post(
    "/{account_id}/requests",
    **operation(
        "request_budget",
        roles=["owner", "analyst"],
        answers={201: BudgetRequestAnswer},
        codes=["not_found", "too_many_open_requests"],
        body=BudgetRequestRequest,
        examples=examples.BUDGET_REQUESTS,
    ),
)
async def request_budget(
    account_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[BudgetRequestRequest, Depends(json_body(BudgetRequestRequest))],
) -> Response:
    """Ask an owner to raise a cap. Nothing is reserved or changed. A principal may have three
    open requests."""
    more = budgets.units_of(request.more)
    return answer(
        await budget_requests.ask(services, principal, account_id, more, request.reason), 201
    )


@router.get(
    "/{account_id}/requests",
    **operation(
        "list_budget_requests",
        roles=EVERYBODY,
        answers={200: BudgetRequestList},
        codes=["not_found"],
    ),
)
async def list_budget_requests(
    account_id: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Requests for a larger budget with their answers, newest first. Open ones wait for an
    owner, who answers with a grant that names `request`, or with `decline`."""
    return answer({"requests": await budget_requests.of_account(services, principal, account_id)})


@router.post(
    "/{account_id}/requests/{request_id}/decline",
    **operation(
        "decline_budget_request",
        roles=["owner"],
        answers={200: BudgetRequestAnswer},
        codes=["not_found", "request_answered"],
        body=DeclineRequest,
        examples=examples.DECLINES,
    ),
)
async def decline_budget_request(
    account_id: str,
    request_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[DeclineRequest, Depends(json_body(DeclineRequest))],
) -> Response:
    """Decline a request, with a reason; the ledger does not change."""
    return answer(
        await budget_requests.decline(services, principal, account_id, request_id, request.answer)
    )


@router.get(
    "/{account_id}/entries",
    **operation(
        "list_entries",
        roles=EVERYBODY,
        answers={200: EntryPage},
        codes=["not_found", "invalid_page_token"],
    ),
)
async def list_entries(
    account_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 100,
    page_token: str | None = None,
) -> Response:
    """Ledger entries of a budget in the order of their hash chain."""
    pages = Pages(services.secrets, principal.tenant_id, "entries", account_id)
    (after,) = pages.start(page_token) or (0,)
    rows = await budgets.entries(services, principal, account_id, after=after, size=page_size + 1)
    token = pages.token(rows[page_size - 1]["seq"]) if len(rows) > page_size else None
    return answer({"entries": rows[:page_size], "next_page_token": token})
