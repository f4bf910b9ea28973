"""What the API answers of tenants and their keys."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from discreet.usecases.requests import Role


class TenantAnswer(BaseModel):
    """A tenant."""

    id: str
    name: str


class KeyAnswer(BaseModel):
    """A new API key; `key` is shown this once."""

    id: str
    key: str
    role: Role
    principal: str
    tenant: str
    expires_at: datetime | None


class KeyEntry(BaseModel):
    """An API key, without its secret."""

    id: str
    principal: str
    role: Role
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="Late by at most the window of the rate limit")


class KeyList(BaseModel):
    """The keys of the tenant, without their secrets."""

    keys: list[KeyEntry]
