"""Networks: public objects that jobs name by their ids."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.api import examples
from discreet.api.operations import EVERYBODY, operation
from discreet.api.schemas import NetworkAnswer, NetworkPage
from discreet.errors import InvalidInput
from discreet.problems.road_networks.network import RoadNetwork
from discreet.usecases import objects
from discreet.usecases.requests import NetworkRequest
from discreet.web import bodies
from discreet.web.responses import Pages, answer, joined, resource
from discreet.web.security import CurrentPrincipal, CurrentServices

router = APIRouter(prefix="/v1/networks", tags=["networks"])

_REQUEST: TypeAdapter[NetworkRequest] = TypeAdapter(NetworkRequest)


@router.post(
    "",
    **operation(
        "add_network",
        roles=["owner"],
        answers={201: NetworkAnswer, 200: NetworkAnswer},
        codes=["too_many_objects"],
        body=NetworkRequest,
        examples=examples.networks(),
        location=True,
    ),
)
async def add_network(
    request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Store a network, which is public to the whole tenant. Storing the same network again
    returns the same object under its first name, with 200."""
    async with bodies.held(request, bodies.of_job(services.settings)) as body:
        asked = await bodies.parse(_REQUEST, body)
        try:
            row, new = await objects.add(
                services, principal, asked.name, asked.network, asked.known
            )
        except InvalidInput as error:
            raise error.under("/network") from None
    return answer(objects.view(row), 201 if new else 200, {"Location": f"/v1/networks/{row['id']}"})


@router.get(
    "",
    **operation(
        "list_networks",
        roles=EVERYBODY,
        answers={200: NetworkPage},
        codes=["invalid_page_token"],
    ),
)
async def list_networks(
    services: CurrentServices,
    principal: CurrentPrincipal,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
    page_token: str | None = None,
) -> Response:
    """Networks of the tenant without their links, newest first."""
    pages = Pages(services.secrets, principal.tenant_id, "networks")
    rows = await objects.page(
        services, principal, RoadNetwork, pages.moment(page_token), page_size + 1
    )
    return pages.answer("networks", rows, page_size, objects.view)


@router.get(
    "/{network_id}",
    **operation(
        "get_network",
        roles=EVERYBODY,
        answers={200: NetworkAnswer},
        codes=["not_found", "object_altered"],
        etag=True,
    ),
)
async def get_network(
    network_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """One network, whole: `network` is its canonical JSON, whose SHA-256 certificates name."""
    row, content = await objects.find(services, principal, network_id, RoadNetwork)
    shown = {**objects.view(row), "sha256": hashlib.sha256(content).hexdigest()}
    return resource(request, joined(shown, network=content))


@router.delete(
    "/{network_id}",
    **operation(
        "delete_network", roles=["owner"], answers={204: None}, codes=["not_found", "object_in_use"]
    ),
)
async def delete_network(
    network_id: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Delete a network that no job has named. What a job names stays, so that its certificate can
    be checked."""
    await objects.remove(services, principal, network_id, RoadNetwork)
    return Response(status_code=204)
