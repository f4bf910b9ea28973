"""Budgets: caps, what is spent, what still fits, and requests for more."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.dashboard import forms, submissions
from discreet.dashboard.pages import go_to, render
from discreet.dashboard.sessions import CurrentViewer, Owner, Reader, Submitter, Viewer
from discreet.errors import Conflict, DiscreetError, InvalidInput
from discreet.figures.charts import Chart
from discreet.figures.timelines import spending_chart
from discreet.usecases import budget_requests, budgets, datasets, sources
from discreet.usecases.requests import BudgetRequestRequest, DeclineRequest, GrantRequest
from discreet.web import bodies
from discreet.web.responses import answer
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

_GRANT: TypeAdapter[GrantRequest] = TypeAdapter(GrantRequest)
_ASK: TypeAdapter[BudgetRequestRequest] = TypeAdapter(BudgetRequestRequest)
_DECLINE: TypeAdapter[DeclineRequest] = TypeAdapter(DeclineRequest)


@router.get("/")
async def show_budgets(
    request: Request, services: CurrentServices, viewer: CurrentViewer
) -> Response:
    """Every budget of the tenant; operators have none and are led to their own page."""
    if viewer.role == "operator":
        return go_to("/operations")
    found = await budgets.all_budgets(services, viewer.principal)
    blocks = await sources.accounts(services, viewer.principal)
    data = [one for one in found if one["scope"] not in budgets.CAPS and one["id"] not in blocks]
    caps = [one for one in found if one["scope"] in budgets.CAPS]
    bound = {one["id"]: binding(one, caps, viewer) for one in data}
    asked = (
        await budget_requests.unanswered(services, viewer.principal) if viewer.may("owner") else []
    )
    return render(
        request,
        "budgets.html",
        budgets=data,
        caps=caps,
        bound=bound,
        asked=asked,
        blocks=bool(blocks),
    )


@router.get("/budgets/{account_id}")
async def show_budget(
    account_id: str, request: Request, services: CurrentServices, viewer: Reader
) -> Response:
    """One budget: figures by filter, spending over time, grants, and what a request would cost."""
    return await _page(request, services, viewer, account_id)


@router.post("/budgets/{account_id}/grants")
async def grant(
    account_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Set a new cap, with a reason."""
    form = await forms.read(request)
    try:
        body = {
            "cap": forms.cap(form),
            "reason": form.get("reason", ""),
            "request": forms.filled(form, "request"),
        }
        wanted = bodies.validate(_GRANT, body)
        cap = budgets.units_of(wanted.cap)
        await budgets.grant(
            services, viewer.principal, account_id, cap, wanted.reason, wanted.request
        )
    except (InvalidInput, Conflict) as error:
        return await _page(request, services, viewer, account_id, refused=error, form=form)
    return go_to(f"/budgets/{account_id}?granted=1#grants")


@router.post("/budgets/{account_id}/requests")
async def ask(
    account_id: str, request: Request, services: CurrentServices, viewer: Submitter
) -> Response:
    """Ask an owner for more budget."""
    form = await forms.read(request)
    try:
        wanted = bodies.validate(_ASK, {"more": forms.cap(form), "reason": form.get("reason", "")})
        more = budgets.units_of(wanted.more)
        await budget_requests.ask(services, viewer.principal, account_id, more, wanted.reason)
    except (InvalidInput, Conflict) as error:
        return await _page(request, services, viewer, account_id, refused=error, asking=form)
    return go_to(f"/budgets/{account_id}#requests")


@router.post("/budgets/{account_id}/requests/{request_id}/decline")
async def decline(
    account_id: str, request_id: str, request: Request, services: CurrentServices, viewer: Owner
) -> Response:
    """Decline a request with a sentence."""
    form = await forms.read(request)
    try:
        wanted = bodies.validate(_DECLINE, {"answer": form.get("answer", "")})
        await budget_requests.decline(
            services, viewer.principal, account_id, request_id, wanted.answer
        )
    except (InvalidInput, Conflict) as error:
        return await _page(request, services, viewer, account_id, refused=error)
    return go_to(f"/budgets/{account_id}#requests")


@router.get("/budgets/{account_id}/charts/spending.json")
async def read_spending(account_id: str, services: CurrentServices, viewer: Reader) -> Response:
    """The chart of what was spent over time, by job and analyst."""
    budget = await budgets.one_budget(services, viewer.principal, account_id)
    drawn = await _drawn(await budgets.history(services, viewer.principal, account_id), budget)
    return answer(drawn.to_json())


async def _drawn(spent: budgets.Spending, budget: dict[str, Any]) -> Chart:
    several = len(budget["filters"]) > 1
    return await anyio.to_thread.run_sync(
        partial(spending_chart, spent.lately, spent.earlier, several=several)
    )


def binding(
    budget: dict[str, Any], caps: Sequence[dict[str, Any]], viewer: Viewer
) -> dict[str, Any]:
    """The one with the least left among the budget and the caps that a request of this viewer must
    also satisfy."""
    own = [
        one for one in caps if one["scope"] == "tenant" or one["subject"] == viewer.principal.name
    ]
    return min([budget, *own], key=lambda one: float(one["largest_request"]["epsilon"]))


async def _page(
    request: Request,
    services: CurrentServices,
    viewer: Viewer,
    account_id: str,
    *,
    refused: DiscreetError | None = None,
    form: forms.Form | None = None,
    asking: forms.Form | None = None,
) -> Response:
    budget = await budgets.one_budget(services, viewer.principal, account_id)
    found = await budgets.all_budgets(services, viewer.principal)
    caps = [one for one in found if one["scope"] in budgets.CAPS]
    is_cap = budget["scope"] in budgets.CAPS
    grants = await budgets.search(
        services, viewer.principal, account_id=account_id, kinds=("open", "grant"), size=50
    )
    newest = await budgets.search(services, viewer.principal, account_id=account_id, size=8)
    spent = await budgets.history(services, viewer.principal, account_id)
    chart = None
    if any(row[4] == "reserve" for row in spent.lately):
        chart = await _drawn(spent, budget)
    asked = await budget_requests.of_account(services, viewer.principal, account_id)
    more = request.query_params.get("more", "")[: forms.LONGEST_NUMBER]
    living = [one for one in budget["datasets"] if not one["deleted"]]
    proposal, needs = None, list[str]()
    if living and viewer.may("owner", "analyst"):
        dataset = await datasets.find(services, viewer.principal, living[-1]["id"])
        largest = await budgets.largest_request(services, viewer.principal, account_id)
        block = None  # a job names it by its source: as a dataset it would be refused
        if dataset["source_id"] is not None:
            block = {"source": {"id": dataset["source_id"], "blocks": dataset["block"]}}
        proposal, _, needs = await submissions.example_on(
            services, viewer.principal, dataset, largest, block
        )
    return render(
        request,
        "budget.html",
        status=200 if refused is None else submissions.status_of(refused),
        budget=budget,
        bound=budget if is_cap else binding(budget, caps, viewer),
        grants=grants,
        newest=newest,
        chart=chart,
        charts=[chart] if chart else [],
        proposal=proposal,
        needs=needs,
        refused=refused,
        form=form or {},
        asked=[_with_cap(one, budget) for one in asked],
        asking=asking or {"epsilon": more},
        raised=_raised(budget, more),
        granted=request.query_params.get("granted") is not None and refused is None,
    )


def _with_cap(asked: dict[str, Any], budget: dict[str, Any]) -> dict[str, Any]:
    """A request with the cap that would grant it, given the budget's present cap."""
    cap = {
        name: Decimal(str(budget["cap"][name])) + Decimal(str(asked["more"][name]))
        for name in ("epsilon", "delta")
    }
    return {**asked, "cap": cap}


def _raised(budget: dict[str, Any], more: str) -> Decimal:
    """The cap raised by `more`, which the address of the page gives if a refusal linked here."""
    wanted = forms.number({"more": more}, "more", "0")
    known = Decimal(str(wanted)) if isinstance(wanted, int | float | Decimal) else Decimal(0)
    return Decimal(str(budget["cap"]["epsilon"])) + max(known, Decimal(0))
