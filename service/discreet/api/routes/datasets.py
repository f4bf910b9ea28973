"""Datasets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse, Response

from discreet.api import examples
from discreet.api.dataset_schemas import DatasetAnswer, DatasetPage, ErasedAnswer
from discreet.api.operations import EVERYBODY, operation
from discreet.usecases import datasets, erasure
from discreet.usecases.places import staying
from discreet.usecases.requests import (
    CorrectionRequest,
    DatasetRequest,
    DraftDatasetRequest,
    PlacedDatasetRequest,
)
from discreet.web import uploads
from discreet.web.responses import Pages, answer, resource
from discreet.web.security import CurrentPrincipal, CurrentServices

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])


@router.post(
    "",
    **operation(
        "register_dataset",
        roles=["owner"],
        answers={201: DatasetAnswer, 200: DatasetAnswer},
        codes=[
            *("invalid_multipart", "not_found", "content_known", "unit_differs"),
            *(
                "storage_unavailable",
                "storage_full",
                "storage_denied",
                "spool_unavailable",
                "reader_not_started",
            ),
            *("not_read", "not_isolated", "too_many_uploads", "too_many_failed_reads"),
            *("place_refused", "query_refused", "place_unavailable", "places_unreadable"),
            *("content_changed", "reads_no_names"),
        ],
        body=DatasetRequest,
        or_body=(PlacedDatasetRequest, DraftDatasetRequest),
        examples=examples.datasets(),
        multipart=True,
        location=True,
    ),
)
async def register(request: Request, principal: CurrentPrincipal) -> Response:
    """Register a dataset. Registering the same content again returns the same dataset on the
    same account, with 200."""
    row, new = await uploads.register(request, principal)
    return answer(
        datasets.view(row), 201 if new else 200, {"Location": f"/v1/datasets/{row['id']}"}
    )


@router.get(
    "",
    **operation(
        "list_datasets",
        roles=EVERYBODY,
        answers={200: DatasetPage},
        codes=["invalid_page_token"],
    ),
)
async def list_datasets(
    services: CurrentServices,
    principal: CurrentPrincipal,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
    page_token: str | None = None,
) -> Response:
    """Datasets that are not deleted, newest first."""
    pages = Pages(services.secrets, principal.tenant_id, "datasets")
    rows = await datasets.page(services, principal, pages.moment(page_token), page_size + 1)
    return pages.answer("datasets", rows, page_size, datasets.view)


@router.get(
    "/{dataset_id}",
    **operation(
        "get_dataset", roles=EVERYBODY, answers={200: DatasetAnswer}, codes=["not_found"], etag=True
    ),
)
async def get_dataset(
    dataset_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """One dataset; never its content."""
    row = await datasets.find(services, principal, dataset_id)
    view = await staying.with_address(services, principal, row, datasets.view(row))
    return resource(request, view)


@router.patch(
    "/{dataset_id}",
    **operation(
        "correct_dataset",
        roles=["owner"],
        answers={200: DatasetAnswer},
        codes=[
            *("not_found", "released", "dataset_in_use", "dataset_changed", "conflict"),
            *("invalid_multipart", "content_known", "unit_differs"),
            *("storage_unavailable", "storage_full", "storage_denied", "spool_unavailable"),
            *("reader_not_started", "not_read", "not_isolated", "too_many_uploads"),
            *("place_refused", "query_refused", "place_unavailable", "places_unreadable"),
            *("content_changed", "too_many_failed_reads", "reads_no_names"),
        ],
        body=CorrectionRequest,
        examples=examples.CORRECTIONS,
        multipart=True,
    ),
)
async def correct_dataset(
    dataset_id: str, request: Request, principal: CurrentPrincipal
) -> Response:
    """Correct the public part while nothing was spent or reserved on the dataset's account and no
    job on it waits or runs; of a simulation while none waits or runs. Id and account stay."""
    return answer(datasets.view(await uploads.correct(request, principal, dataset_id)))


@router.delete(
    "/{dataset_id}",
    **operation(
        "delete_dataset",
        roles=["owner"],
        answers={204: None, 200: ErasedAnswer},
        codes=["not_found", "dataset_in_use"],
    ),
)
async def delete_dataset(
    dataset_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    prefer: Annotated[
        str, Header(description="`return=representation` asks which copies remain (RFC 7240)")
    ] = "",
) -> Response:
    """Erase the content. Its account and ledger stay, and the same content finds them if it is
    registered again."""
    remains = await erasure.erase(services, principal, dataset_id)
    if "return=representation" in prefer:
        return JSONResponse(
            {"id": dataset_id, "remains": remains},
            headers={"Preference-Applied": "return=representation"},
        )
    return Response(status_code=204)
