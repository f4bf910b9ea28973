"""Administration: an owner's keys and caps; an operator's tenants."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.dashboard import forms, submissions
from discreet.dashboard.pages import go_to, render
from discreet.dashboard.sessions import Operator, Owner, Viewer, only
from discreet.errors import Conflict, DiscreetError, Forbidden, InvalidInput, NotFound
from discreet.usecases import access, budgets
from discreet.usecases.oidc import people
from discreet.usecases.requests import CapRequest, KeyRequest, TenantRequest
from discreet.web import bodies
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

Administrator = Annotated[Viewer, Depends(only("owner", "operator"))]

_KEY: TypeAdapter[KeyRequest] = TypeAdapter(KeyRequest)
_CAP: TypeAdapter[CapRequest] = TypeAdapter(CapRequest)
_TENANT: TypeAdapter[TenantRequest] = TypeAdapter(TenantRequest)


@router.get("/admin")
async def show_admin(
    request: Request, services: CurrentServices, viewer: Administrator
) -> Response:
    """What this viewer administers."""
    return await _page(request, services, viewer)


@router.post("/admin/keys")
async def create_key(
    request: Request, services: CurrentServices, viewer: Administrator
) -> Response:
    """Create a key, which only the response to this form shows."""
    form = await forms.read(request)
    try:
        wanted = bodies.validate(
            _KEY,
            {
                "role": form.get("role", ""),
                "principal": form.get("principal", ""),
                "tenant": forms.filled(form, "tenant"),
                "expires_at": _end_of_day(forms.filled(form, "expires")),
            },
        )
        made = await access.create_key(
            services,
            viewer.principal,
            role=wanted.role,
            name=wanted.principal,
            tenant=wanted.tenant,
            expires_at=wanted.expires_at,
        )
    except (InvalidInput, NotFound, Conflict) as error:
        return await _page(request, services, viewer, refused=error, form=form)
    return await _page(request, services, viewer, made=made)


@router.post("/admin/keys/{key_id}/revoke")
async def revoke_key(
    key_id: str, request: Request, services: CurrentServices, viewer: Administrator
) -> Response:
    """Revoke a key, which also ends the sessions that it opened."""
    try:
        await access.revoke_key(services, viewer.principal, key_id)
    except (Forbidden, NotFound) as error:
        return await _page(request, services, viewer, refused=error)
    return go_to("/admin?revoked=1")


@router.post("/admin/people/{person_id}/remove")
async def remove_person(
    person_id: str, request: Request, services: CurrentServices, viewer: Administrator
) -> Response:
    """Remove a person, which also ends their sessions, their access tokens and the keys that they
    made."""
    try:
        await people.remove(services, viewer.principal, person_id)
    except (Conflict, Forbidden, NotFound) as error:
        return await _page(request, services, viewer, refused=error)
    return go_to("/admin?removed=1#people")


@router.post("/admin/people/restore")
async def restore_person(
    request: Request, services: CurrentServices, viewer: Administrator
) -> Response:
    """Admit a removed person again."""
    form = await forms.read(request)
    try:
        await people.set_active(
            services, viewer.principal, form.get("issuer", ""), form.get("subject", ""), active=True
        )
    except (Forbidden, NotFound) as error:
        return await _page(request, services, viewer, refused=error)
    return go_to("/admin?restored=1#people")


@router.post("/admin/caps")
async def set_cap(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Set a cap on the tenant or on one principal, over all data."""
    form = await forms.read(request)
    name = forms.filled(form, "principal")
    try:
        wanted = bodies.validate(
            _CAP,
            {
                "scope": "tenant" if name is None else "principal",
                "principal": name,
                "cap": forms.cap(form),
                "reason": form.get("reason", ""),
            },
        )
        await budgets.set_cap(
            services,
            viewer.principal,
            scope=wanted.scope,
            name=wanted.principal,
            cap=budgets.units_of(wanted.cap),
            reason=wanted.reason,
        )
    except (InvalidInput, Conflict) as error:
        return await _page(request, services, viewer, refused=error, form=form)
    return go_to("/admin?capped=1#caps")


@router.post("/admin/tenants")
async def create_tenant(request: Request, services: CurrentServices, viewer: Operator) -> Response:
    """Create a tenant, which has no keys yet."""
    form = await forms.read(request)
    try:
        wanted = bodies.validate(_TENANT, {"name": form.get("name", "")})
        await access.create_tenant(services, viewer.principal, wanted.name)
    except (InvalidInput, Conflict) as error:
        return await _page(request, services, viewer, refused=error, form=form)
    return go_to("/admin?made=1#tenants")


async def _page(
    request: Request,
    services: CurrentServices,
    viewer: Viewer,
    *,
    refused: DiscreetError | None = None,
    form: forms.Form | None = None,
    made: dict[str, Any] | None = None,
) -> Response:
    operator = viewer.role == "operator"
    return render(
        request,
        "admin.html",
        status=200 if refused is None else submissions.status_of(refused),
        keys=await access.list_keys(services, viewer.principal),
        caps=[] if operator else await budgets.caps(services, viewer.principal),
        tenants=await access.list_tenants(services, viewer.principal) if operator else [],
        operator=operator,
        people=await people.page(services, viewer.principal),
        roles=access.ROLES
        if operator
        else tuple(role for role in access.ROLES if role != "operator"),
        refused=refused,
        form=form or {},
        made=made,
    )


def _end_of_day(day: str | None) -> str | None:
    """The end of a key's last day, in UTC."""
    return None if day is None else f"{day}T23:59:59Z"
