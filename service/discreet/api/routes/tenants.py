"""Tenants and API keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from discreet.api.bodies import documented, json_body
from discreet.api.responses import answer, errors
from discreet.api.schemas import KeyAnswer, KeyList, KeyRequest, TenantAnswer, TenantRequest
from discreet.api.security import CurrentPrincipal, CurrentServices
from discreet.usecases import access

router = APIRouter(prefix="/v1", tags=["tenants"])


@router.post(
    "/tenants",
    operation_id="create_tenant",
    status_code=201,
    responses={201: {"model": TenantAnswer}, **errors(400, 409, 413, 422)},
    openapi_extra=documented(TenantRequest),
)
async def create_tenant(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[TenantRequest, Depends(json_body(TenantRequest))],
) -> Response:
    """Make a tenant (operators)."""
    return answer(await access.create_tenant(services, principal, request.name), 201)


@router.post(
    "/keys",
    operation_id="create_key",
    status_code=201,
    responses={201: {"model": KeyAnswer}, **errors(400, 404, 413, 422)},
    openapi_extra=documented(KeyRequest),
)
async def create_key(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[KeyRequest, Depends(json_body(KeyRequest))],
) -> Response:
    """Make an API key of a principal; it is shown this once."""
    made = await access.create_key(
        services,
        principal,
        role=request.role,
        name=request.principal,
        tenant=request.tenant,
        expires_at=request.expires_at,
    )
    return answer(made, 201)


@router.get("/keys", operation_id="list_keys", responses={200: {"model": KeyList}, **errors()})
async def list_keys(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The tenant's keys, without their secrets."""
    return answer({"keys": await access.list_keys(services, principal)})


@router.delete("/keys/{key_id}", operation_id="revoke_key", status_code=204, responses=errors(404))
async def revoke_key(key_id: str, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """Revoke a key; from then on it opens nothing."""
    await access.revoke_key(services, principal, key_id)
    return Response(status_code=204)
