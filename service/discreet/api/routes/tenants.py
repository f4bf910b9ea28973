"""Tenants and API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from discreet.api import examples
from discreet.api.operations import operation
from discreet.storage.audit_log import Action
from discreet.usecases import access
from discreet.usecases.requests import KeyRequest, Role, TenantRequest
from discreet.web.bodies import json_body
from discreet.web.responses import answer
from discreet.web.security import CurrentPrincipal, CurrentServices

# Access schemas -----------------------------------------------------------------------------------
# Answers about tenants, their keys and people, and about the audit log.


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


# Tenants ------------------------------------------------------------------------------------------

router = APIRouter(prefix="/v1", tags=["tenants"])


@router.post(
    "/tenants",
    **operation(
        "create_tenant",
        roles=["operator"],
        answers={201: TenantAnswer},
        codes=["name_taken"],
        body=TenantRequest,
        examples=examples.TENANTS,
    ),
)
async def create_tenant(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[TenantRequest, Depends(json_body(TenantRequest))],
) -> Response:
    """Create a tenant (operators)."""
    return answer(await access.create_tenant(services, principal, request.name), 201)


@router.post(
    "/keys",
    **operation(
        "create_key",
        roles=access.KEEPERS,
        answers={201: KeyAnswer},
        codes=["not_found"],
        body=KeyRequest,
        examples=examples.KEYS,
    ),
)
async def create_key(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[KeyRequest, Depends(json_body(KeyRequest))],
) -> Response:
    """Create an API key for a principal; it is shown only once."""
    made = await access.create_key(
        services,
        principal,
        role=request.role,
        name=request.principal,
        tenant=request.tenant,
        expires_at=request.expires_at,
    )
    return answer(made, 201)


@router.get("/keys", **operation("list_keys", roles=access.KEEPERS, answers={200: KeyList}))
async def list_keys(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The tenant's keys, without their secrets."""
    return answer({"keys": await access.list_keys(services, principal)})


@router.delete(
    "/keys/{key_id}",
    **operation("revoke_key", roles=access.KEEPERS, answers={204: None}, codes=["not_found"]),
)
async def revoke_key(
    key_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Revoke a key: this process refuses it from now on, every other within a second."""
    await access.revoke_key(services, principal, key_id)
    request.app.state.keyring.forget(key_id)
    return Response(status_code=204)
