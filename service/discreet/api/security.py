"""Who is asking."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from discreet.errors import Unauthenticated
from discreet.storage.tenants import Principal
from discreet.usecases import access
from discreet.usecases.services import Services

_bearer = HTTPBearer(auto_error=False, bearerFormat="dsc_…", description="An API key")


def services(request: Request) -> Services:
    found = request.app.state.services
    assert isinstance(found, Services)
    return found


async def principal(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Principal:
    """The principal of the request's key, looked up at every request: a revoked key stops at once."""
    if credentials is None:
        raise Unauthenticated("send an API key: `Authorization: Bearer dsc_…`")
    return await access.authenticate(services(request), credentials.credentials)


CurrentPrincipal = Annotated[Principal, Depends(principal)]
CurrentServices = Annotated[Services, Depends(services)]
