"""Who is asking, and whether they may call the route."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from discreet.errors import Forbidden, Unauthenticated
from discreet.storage.database import act_for
from discreet.storage.tenants import Principal
from discreet.usecases import access
from discreet.usecases.keyring import Keyring
from discreet.usecases.services import Services

SESSION_COOKIE, HOST_PREFIX = "discreet_session", "__Host-"
"""The cookie of who is logged in to the pages, and how its name begins over TLS."""


class _Bearer(HTTPBearer):
    """Says in the contract that a key is needed; `principal` reads it."""

    async def __call__(self, request: Request) -> None:  # type: ignore[override]
        return None


_bearer = _Bearer(
    auto_error=False,
    bearerFormat="dsc_…",
    description="An API key, or an access token (JWT) of the identity provider",
    scheme_name="HTTPBearer",
)


async def services(request: Request) -> Services:
    found = request.app.state.services
    assert isinstance(found, Services)
    return found


async def principal(request: Request, _: Annotated[None, Depends(_bearer)]) -> Principal:
    """The principal of the request's key or access token, with this request counted against its
    quota.

    Forbidden unless the role stands in the route's declaration; a route that declares none is for
    nobody.
    """
    keyring = request.app.state.keyring
    assert isinstance(keyring, Keyring)
    found, request.state.rate = await keyring.admit(bearer(request))
    request.state.tenant_id = found.tenant_id
    act_for(found.key_id)
    extra = request.scope["route"].openapi_extra or {}
    if "x-roles" not in extra:
        raise Forbidden("no role may make this call")
    access.require(found, *extra["x-roles"])
    return found


def bearer(request: Request) -> str:
    """The API key of the request, or its access token."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise Unauthenticated("send an API key: `Authorization: Bearer dsc_…`")
    return key.strip()


CurrentPrincipal = Annotated[Principal, Depends(principal)]
CurrentServices = Annotated[Services, Depends(services)]
