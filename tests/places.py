"""Places of contents for tests: the operator's file, and what an owner's address brings."""

from __future__ import annotations

import asyncio
import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from discreet.isolation.reading import UPLOAD
from discreet.settings import Settings
from discreet.storage.sealing import open_stream
from discreet.usecases import access
from discreet.usecases.places import web
from discreet.usecases.services import open_services


def trips(first: int = 0, count: int = 30) -> pa.Table:
    """Rows of trips that no two calls with other numbers share."""
    return pa.table(
        {
            "period": [number % 10 for number in range(count)],
            "origin": [1 + number % 3 for number in range(count)],
            "destination": [1 + (number + 1) % 3 for number in range(count)],
            "count": [first + number + 1 for number in range(count)],
        }
    )


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def allowing(folder: Path, *places: dict[str, Any]) -> Path:
    """The operator's file, in which every place is for every tenant unless it says for whom."""
    path = folder / "places.json"
    path.write_text(json.dumps({"places": [{"tenants": ["*"], **place} for place in places]}))
    path.chmod(0o600)
    return path


def fetched(settings: Settings, text: str) -> tuple[bytes, list[int], str]:
    """The bytes that an address brings the owner of tenant `default`, the lengths of its files, and
    their format."""

    async def go() -> tuple[bytes, list[int], str]:
        async with open_services(settings) as services:
            upload = await web.fetch(services, await access.local_owner(services), text)
            try:
                sealed = os.pread(upload.file.descriptor, upload.sealed_bytes, 0)
                return (
                    bytes(open_stream(upload.key, UPLOAD, upload.sealed_bytes, [sealed])),
                    upload.parts,
                    upload.format,
                )
            finally:
                upload.close()

    return asyncio.run(go())
