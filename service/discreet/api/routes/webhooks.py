"""Webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import Response

from discreet.api import examples
from discreet.api.operations import operation
from discreet.storage.jobs import WebhookEvent
from discreet.usecases import webhooks
from discreet.usecases.requests import WebhookRequest
from discreet.web.bodies import json_body
from discreet.web.responses import answer
from discreet.web.security import CurrentPrincipal, CurrentServices

# Webhook schemas ----------------------------------------------------------------------------------
# Answers about webhooks.


class WebhookAnswer(BaseModel):
    """A webhook. Its secret is never returned again."""

    id: str
    url: str
    events: list[WebhookEvent]
    created_at: datetime
    failing_since: datetime | None = Field(
        description="The first failed delivery since the last successful one"
    )
    last_error: str | None = Field(
        description="`timeout`, `no_connection`, `address_refused`, `secret_unreadable` or "
        "`status_` and the number"
    )
    disabled_at: datetime | None = Field(
        description="Nothing is sent since then: it failed for too long, or answered 410"
    )


class WebhookCreated(WebhookAnswer):
    """A new webhook."""

    secret: str


class WebhookList(BaseModel):
    """The webhooks of a tenant."""

    webhooks: list[WebhookAnswer]


# Webhooks -----------------------------------------------------------------------------------------

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])


@router.post(
    "",
    **operation(
        "create_webhook",
        roles=["owner"],
        answers={201: WebhookCreated},
        codes=["too_many_webhooks"],
        body=WebhookRequest,
        examples=examples.WEBHOOKS,
    ),
)
async def create_webhook(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[WebhookRequest, Depends(json_body(WebhookRequest))],
) -> Response:
    """Send events to an address (owners). The secret that signs the messages is shown only once."""
    made = await webhooks.create(
        services, principal, url=request.url, events=request.events, secret=request.secret
    )
    return answer(made, 201)


@router.get("", **operation("list_webhooks", roles=["owner"], answers={200: WebhookList}))
async def list_webhooks(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The webhooks of the tenant (owners) with their last error; never their secrets."""
    return answer({"webhooks": await webhooks.list_all(services, principal)})


@router.delete(
    "/{webhook_id}",
    **operation("delete_webhook", roles=["owner"], answers={204: None}, codes=["not_found"]),
)
async def delete_webhook(
    webhook_id: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Stop sending events to this address (owners)."""
    await webhooks.remove(services, principal, webhook_id)
    return Response(status_code=204)
