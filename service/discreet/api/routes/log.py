"""The transparency log, open to everybody: static files that witnesses, monitors and tools read
without a key."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from discreet.api.operations import operation
from discreet.usecases import transparency
from discreet.web.security import CurrentServices

router = APIRouter(prefix="/v1/log", tags=["ledger"])

FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get(
    "/checkpoint",
    response_class=Response,
    **operation("get_log_checkpoint", roles=None, answers={200: "text/plain"}, codes=["not_found"]),
)
async def get_log_checkpoint(services: CurrentServices) -> Response:
    """The newest checkpoint of the transparency log, a signed note (C2SP): its name, how many
    ledger entries it holds, the root of their tree, and the signatures of this service and of
    witnesses."""
    note = await transparency.checkpoint(services)
    return Response(note, media_type="text/plain", headers={"Cache-Control": "no-cache"})


@router.get(
    "/tile/{tile:path}",
    response_class=Response,
    **operation(
        "get_log_tile", roles=None, answers={200: "application/octet-stream"}, codes=["not_found"]
    ),
)
async def get_log_tile(tile: str, services: CurrentServices) -> Response:
    """A tile of the log (C2SP tlog-tiles): `<level>/<number>` for up to 256 hashes,
    `entries/<number>` for up to 256 entries, with `.p/<width>` for the first few. Entries are
    salted hashes of ledger entries; they name nobody."""
    content = await transparency.tile(services, tile)
    return Response(content, media_type="application/octet-stream", headers=FOR_EVER)
