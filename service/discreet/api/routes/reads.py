"""Files that are looked at before anything is registered."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.api import examples
from discreet.api.dataset_schemas import LookAnswer, ReadAnswer
from discreet.api.operations import operation
from discreet.usecases import reads
from discreet.usecases.requests import ReadRequest
from discreet.web import uploads
from discreet.web.responses import answer
from discreet.web.security import CurrentPrincipal, CurrentServices

router = APIRouter(prefix="/v1/reads", tags=["datasets"])


@router.post(
    "",
    **operation(
        "look_at_file",
        roles=["owner"],
        answers={200: LookAnswer},
        codes=[
            *("invalid_multipart", "not_found", "reads_no_names", "too_many_drafts"),
            *("storage_unavailable", "storage_full", "storage_denied", "spool_unavailable"),
            *("reader_not_started", "not_read", "not_isolated", "too_many_uploads"),
        ],
        body=ReadRequest,
        examples=examples.reads(),
        multipart=True,
    ),
)
async def look(request: Request, principal: CurrentPrincipal) -> Response:
    """Say what a file would be read as, and what is wrong with it. Nothing is registered. The file
    stays sealed for a day, for whoever sent it, or until it is registered; `draft` names it then,
    here for another look and in place of a content."""
    return answer(await uploads.read(request, principal))


@router.get(
    "/{read_id}",
    **operation("get_read", roles=["owner"], answers={200: ReadAnswer}, codes=["not_found"]),
)
async def get_read(
    read_id: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """A file that is still here, of whoever sent it."""
    return answer(reads.view(await reads.find(services, principal, read_id)))


@router.delete(
    "/{read_id}",
    **operation("delete_read", roles=["owner"], answers={204: None}, codes=["not_found"]),
)
async def delete_read(
    read_id: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Erase a file at once."""
    await reads.erase(services, principal, read_id)
    return Response(status_code=204)
