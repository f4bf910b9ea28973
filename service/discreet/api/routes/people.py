"""People of the identity provider, and the audit log: who may log in, and who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime
from starlette.responses import Response

from discreet.api import examples
from discreet.api.operations import operation
from discreet.api.routes.tenants import AuditLogPage, PersonList, PersonState
from discreet.usecases import access
from discreet.usecases.oidc import people
from discreet.usecases.requests import PersonRequest
from discreet.web.bodies import json_body
from discreet.web.responses import Pages, answer
from discreet.web.security import CurrentPrincipal, CurrentServices

router = APIRouter(prefix="/v1", tags=["people"])

Word = Annotated[str | None, Query(max_length=500, pattern=r"^[^\x00]*$")]


@router.get(
    "/people",
    **operation("list_people", roles=access.KEEPERS, answers={200: PersonList}),
)
async def list_people(
    services: CurrentServices, principal: CurrentPrincipal, subject: Word = None
) -> Response:
    """Who has logged in through the identity provider: the people of the tenant, or of all
    tenants for operators; the 1000 most recent."""
    return answer({"people": await people.page(services, principal, subject)})


@router.put(
    "/people",
    **operation(
        "set_person",
        roles=access.KEEPERS,
        answers={200: PersonState},
        codes=["not_found", "oneself"],
        body=PersonRequest,
        examples=examples.PEOPLE,
    ),
)
async def set_person(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[PersonRequest, Depends(json_body(PersonRequest))],
) -> Response:
    """Remove a person by the provider's identifier, even one who has never logged in, or let
    them in again. Their sessions and access tokens end within a second, for good, and so do the
    API keys that they have made, unless `keep_keys`. Owners decide for their tenant and cannot
    remove an operator; operators decide for all tenants. Nobody can remove themselves."""
    done = await people.set_active(
        services,
        principal,
        request.issuer,
        request.subject,
        active=request.active,
        keep_keys=request.keep_keys,
    )
    return answer(done)


@router.delete(
    "/people/{person_id}",
    **operation(
        "remove_person",
        roles=access.KEEPERS,
        answers={204: None},
        codes=["not_found", "oneself"],
    ),
)
async def remove_person(
    person_id: str, services: CurrentServices, principal: CurrentPrincipal, keep_keys: bool = False
) -> Response:
    """Remove a person who has logged in before, as `set_person` does."""
    await people.remove(services, principal, person_id, keep_keys=keep_keys)
    return Response(status_code=204)


@router.get(
    "/audit-log",
    **operation(
        "list_changes",
        roles=access.READERS,
        answers={200: AuditLogPage},
        codes=["invalid_page_token"],
    ),
)
async def list_changes(
    services: CurrentServices,
    principal: CurrentPrincipal,
    action: Word = None,
    by: Word = None,
    since: AwareDatetime | None = None,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 100,
    page_token: str | None = None,
) -> Response:
    """Who changed what, newest first: datasets, caps, keys, tenants, rosters, logins, removals;
    operators see all tenants. What was spent, and by whom, is in the ledger."""
    pages = Pages(
        services.secrets, principal.tenant_id, "audit-log", principal.role, action, by, str(since)
    )
    (before,) = pages.start(page_token) or (None,)
    rows = await access.page(
        services, principal, before=before, action=action, by=by, since=since, size=page_size + 1
    )
    token = pages.token(rows[page_size - 1]["id"]) if len(rows) > page_size else None
    return answer({"changes": rows[:page_size], "next_page_token": token})
