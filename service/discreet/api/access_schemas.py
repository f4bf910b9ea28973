"""Answers about tenants, their keys and people, and about the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from discreet.storage.audit_log import Action
from discreet.usecases.requests import Role


class TenantAnswer(BaseModel):
    """A tenant."""

    id: str
    name: str


class KeyAnswer(BaseModel):
    """A new API key; `key` is shown only once."""

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
    last_used_at: datetime | None = Field(
        description="Last use, late by at most the window of the rate limit"
    )


class KeyList(BaseModel):
    """The keys of the tenant, without their secrets."""

    keys: list[KeyEntry]


class PersonEntry(BaseModel):
    """A person of an identity provider in a tenant."""

    id: str
    tenant: str = Field(description="Its name")
    issuer: str
    subject: str = Field(description="The provider's identifier for the person")
    principal: str = Field(
        description="Their name in budgets, caps and the ledger: `issuer#subject`"
    )
    name: str | None = Field(description="Their name for people, if the provider gave one")
    role: Role = Field(description="The role their newest token gave; each token decides anew")
    created_at: datetime
    last_used_at: datetime | None = Field(
        description="Last use, late by at most the window of the rate limit"
    )
    removed_at: datetime | None
    everywhere: bool = Field(description="True if an operator removed them from all tenants")


class PersonList(BaseModel):
    """People, the most recent visitors first."""

    people: list[PersonEntry]


class PersonState(BaseModel):
    """Whether a person may log in."""

    issuer: str
    subject: str
    active: bool
    revoked_keys: list[str] = Field(
        description="Ids of keys of theirs, or that they had made, that were revoked"
    )
    kept_keys: list[str] = Field(
        description="Those that stay valid: on request, or because they are an operator's"
    )


class AuditEntry(BaseModel):
    """A change, and who made it."""

    id: int
    tenant_id: str = Field(description="The tenant whose object was changed")
    at: datetime
    action: Action
    object: str | None = Field(description="What was changed, if the action does not say so")
    principal: str = Field(description="Who made the change, as budgets and the ledger name them")
    role: Role
    credential: str = Field(description="The key that was used, or the person (`GET /v1/people`)")
    issuer: str | None = Field(description="The identity provider, for a person")
    subject: str | None = Field(description="The provider's identifier, for a person")
    details: dict[str, Any]


class AuditLogPage(BaseModel):
    """Changes, newest first."""

    changes: list[AuditEntry]
    next_page_token: str | None
