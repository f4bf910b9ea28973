"""Datasets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from discreet.api.bodies import documented
from discreet.api.responses import answer, errors, page, page_start
from discreet.api.schemas import DatasetAnswer, DatasetPage, DatasetRequest
from discreet.api.security import CurrentPrincipal, CurrentServices
from discreet.api.uploads import registration
from discreet.usecases import access, datasets

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])


@router.post(
    "",
    operation_id="register_dataset",
    status_code=201,
    responses={201: {"model": DatasetAnswer}, 200: {"model": DatasetAnswer}, **errors(400, 404, 409, 413, 422)},
    openapi_extra=documented(DatasetRequest, multipart=True),
)
async def register(request: Request, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """Register a dataset. The same content again is the same dataset on the same account, with 200."""
    access.require(principal, "owner")
    row, new = await datasets.register(services, principal, await registration(request))
    return answer(datasets.view(row), 201 if new else 200, {"Location": f"/v1/datasets/{row['id']}"})


@router.get("", operation_id="list_datasets", responses={200: {"model": DatasetPage}, **errors(422)})
async def list_datasets(
    services: CurrentServices,
    principal: CurrentPrincipal,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
    page_token: str | None = None,
) -> Response:
    """Datasets that are not deleted, newest first."""
    rows = await datasets.page(services, principal, page_start(page_token), page_size + 1)
    return page("datasets", rows, page_size, datasets.view)


@router.get("/{dataset_id}", operation_id="get_dataset", responses={200: {"model": DatasetAnswer}, **errors(404)})
async def get_dataset(dataset_id: str, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """One dataset; never its content."""
    return answer(datasets.view(await datasets.find(services, principal, dataset_id)))


@router.delete("/{dataset_id}", operation_id="delete_dataset", status_code=204, responses=errors(404, 409))
async def delete_dataset(dataset_id: str, services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """Erase the content. Its account and ledger stay, and the same content registered again finds them."""
    await datasets.erase(services, principal, dataset_id)
    return Response(status_code=204)
