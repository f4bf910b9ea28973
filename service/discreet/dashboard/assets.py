"""The files of `static/`, read once, with a digest of the content in the address so that browsers
may cache them for ever."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.errors import NotFound

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

router = APIRouter(prefix="/static", include_in_schema=False)


@dataclass(frozen=True)
class Asset:
    """One file, as it is and compressed."""

    data: bytes
    compressed: bytes
    version: str
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """All files of `static/` by name."""
    return {
        file.name: of_bytes(file.read_bytes(), TYPES[suffix])
        for file in resources.files("discreet.dashboard").joinpath("static").iterdir()
        if (suffix := "." + file.name.rpartition(".")[2]) in TYPES
    }


def of_bytes(data: bytes, media_type: str) -> Asset:
    return Asset(
        data, gzip.compress(data, mtime=0), hashlib.sha256(data).hexdigest()[:16], media_type
    )


def address(name: str) -> str:
    """The address of this file, with its version."""
    return f"/static/{name}?v={assets()[name].version}"


def answer(request: Request, asset: Asset) -> Response:
    """The file: cached for ever under the address with its version, revalidated under any other."""
    fresh = request.query_params.get("v") == asset.version
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if fresh else "no-cache",
        "ETag": f'"{asset.version}"',
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            asset.compressed,
            headers={**headers, "Content-Encoding": "gzip"},
            media_type=asset.media_type,
        )
    return Response(asset.data, headers=headers, media_type=asset.media_type)


@router.get("/{name}")
async def read_asset(name: str, request: Request) -> Response:
    """A file of `static/`. None is secret, so no login is needed."""
    found = assets().get(name)
    if found is None:
        raise NotFound()
    return answer(request, found)
