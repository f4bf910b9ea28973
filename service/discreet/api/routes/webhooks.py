"""Webhooks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from discreet.api.bodies import documented, json_body
from discreet.api.responses import answer, errors
from discreet.api.schemas import WebhookCreated, WebhookList, WebhookRequest
from discreet.api.security import CurrentPrincipal, CurrentServices
from discreet.usecases import webhooks

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])


@router.post(
    "",
    operation_id="create_webhook",
    status_code=201,
    responses={201: {"model": WebhookCreated}, **errors(400, 409, 413, 422)},
    openapi_extra=documented(WebhookRequest),
)
async def create_webhook(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[WebhookRequest, Depends(json_body(WebhookRequest))],
) -> Response:
    """Have an address told of events (owners). The secret that signs the messages is shown this once."""
    made = await webhooks.create(services, principal, url=request.url, events=request.events, secret=request.secret)
    return answer(made, 201)


@router.get("", operation_id="list_webhooks", responses={200: {"model": WebhookList}, **errors()})
async def list_webhooks(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The webhooks of the tenant (owners), with what went wrong last; never their secrets."""
    return answer({"webhooks": await webhooks.list_all(services, principal)})


@router.delete("/{webhook_id}", operation_id="delete_webhook", status_code=204, responses=errors(404))
async def delete_webhook(webhook_id: str, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """Tell this address no more (owners)."""
    await webhooks.remove(services, principal, webhook_id)
    return Response(status_code=204)
