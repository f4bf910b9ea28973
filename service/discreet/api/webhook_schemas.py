"""Answers about webhooks."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from discreet.storage.jobs import WebhookEvent


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
