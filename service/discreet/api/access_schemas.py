"""What the API answers of tenants, their keys and people, and of the audit log."""

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
    last_used_at: datetime | None = Field(
        description="Late by at most the window of the rate limit"
    )


class KeyList(BaseModel):
    """The keys of the tenant, without their secrets."""

    keys: list[KeyEntry]


class PersonEntry(BaseModel):
    """A person of an identity provider in a tenant."""

    id: str
    tenant: str = Field(description="Its name")
    issuer: str
    subject: str = Field(description="What the provider calls them")
    principal: str = Field(
        description="What budgets, caps and the ledger call them: `issuer#subject`"
    )
    name: str | None = Field(description="What people call them, if the provider said so")
    role: Role = Field(description="What their newest token gave them; each token decides anew")
    created_at: datetime
    last_used_at: datetime | None = Field(
        description="Late by at most the window of the rate limit"
    )
    removed_at: datetime | None
    everywhere: bool = Field(description="Removed by an operator, from all tenants")


class PersonList(BaseModel):
    """People, those who came last first."""

    people: list[PersonEntry]


class PersonState(BaseModel):
    """Whether a person may come in."""

    issuer: str
    subject: str
    active: bool
    revoked_keys: list[str] = Field(
        description="Ids of keys that they had made, or keys of theirs, and that ended"
    )
    kept_keys: list[str] = Field(
        description="Those that go on, because it was said so or they are an operator's"
    )


class AuditEntry(BaseModel):
    """A change, and who made it."""

    id: int
    tenant_id: str = Field(description="Whose object was changed")
    at: datetime
    action: Action
    object: str | None = Field(description="What was changed, where the action does not say it")
    principal: str = Field(description="By whom: what budgets and the ledger call them")
    role: Role
    credential: str = Field(description="By which key, or as which person (`GET /v1/people`)")
    issuer: str | None = Field(description="Of a person: the identity provider")
    subject: str | None = Field(description="Of a person: what it calls them")
    details: dict[str, Any]


class AuditLogPage(BaseModel):
    """Changes, newest first."""

    changes: list[AuditEntry]
    next_page_token: str | None
