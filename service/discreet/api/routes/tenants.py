"""Tenants and API keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from discreet.api import examples
from discreet.api.access_schemas import KeyAnswer, KeyList, TenantAnswer
from discreet.api.operations import operation
from discreet.usecases import access
from discreet.usecases.requests import KeyRequest, TenantRequest
from discreet.web.bodies import json_body
from discreet.web.responses import answer
from discreet.web.security import CurrentPrincipal, CurrentServices

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
