"""Dataset uploads: JSON bodies, and multipart with Parquet, CSV or JSON content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import anyio.to_thread
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from fastapi import Request
from pydantic import TypeAdapter
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from discreet.api import bodies
from discreet.api.schemas import DatasetRequest
from discreet.errors import FieldIssue, InvalidInput, PayloadTooLarge
from discreet.problems import DATASETS
from discreet.problems.base import Content, Dataset, DatasetSettings
from discreet.strict_json import loads
from discreet.usecases.budgets import units_of
from discreet.usecases.datasets import Registration

METADATA_BYTES = 1 << 20

_WHOLE: TypeAdapter[DatasetRequest] = TypeAdapter(DatasetRequest)
_SETTINGS: TypeAdapter[DatasetSettings] = TypeAdapter(DatasetSettings)


async def registration(request: Request) -> Registration:
    """What the request registers, validated up to its content's rows, which are read when registering."""
    settings = request.app.state.services.settings
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        return await _multipart(request, settings.upload_bytes)
    body = await bodies.read(request, settings.json_body_bytes)
    return whole_registration((await bodies.parse(_WHOLE, body)).root)


def whole_registration(whole: Dataset) -> Registration:
    """The registration of a dataset that came in one JSON value."""
    return _registration(whole, whole.kind, whole.public, whole.rows)


async def _multipart(request: Request, most: int) -> Registration:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise PayloadTooLarge(f"an upload may have {most} bytes, this one has {declared}")
    received = 0

    async def counted() -> Any:
        nonlocal received
        async for part in request.stream():
            received += len(part)
            if received > most:
                raise PayloadTooLarge(f"an upload may have {most} bytes")
            yield part

    try:
        form = await MultiPartParser(
            request.headers, counted(), max_files=1, max_fields=1, max_part_size=METADATA_BYTES
        ).parse()
    except (MultiPartException, KeyError) as error:
        raise InvalidInput("not a multipart form", code="invalid_multipart") from error
    metadata, upload = form.get("metadata"), form.get("content")
    missing = [
        FieldIssue(f"/{name}", f"the form needs a part `{name}`: {what}")
        for name, what, there in (
            ("metadata", "JSON text", isinstance(metadata, str)),
            ("content", "a file", isinstance(upload, UploadFile)),
        )
        if not there
    ]
    if missing:
        raise InvalidInput(missing)
    assert isinstance(metadata, str)
    assert isinstance(upload, UploadFile)
    fields = loads(metadata.encode())
    if not isinstance(fields, dict):
        raise InvalidInput("an object is needed", pointer="/metadata")
    if "content" in fields:
        raise InvalidInput("the content is a part of its own here", pointer="/content")
    kind = DATASETS.get(str(fields.get("kind")))
    if kind is None:
        raise InvalidInput(f"one of {', '.join(DATASETS)}", pointer="/kind")
    try:
        public = bodies.validate(_field(kind, "public"), fields.get("public"))
    except InvalidInput as error:
        raise error.under("/public") from None
    plain = {name: value for name, value in fields.items() if name not in ("kind", "public")}
    chosen = bodies.validate(_SETTINGS, plain)
    file = upload.file
    if (upload.filename or "").endswith(".json") or upload.content_type == "application/json":
        content = await anyio.to_thread.run_sync(lambda: loads(file.read(METADATA_BYTES * 32 + 1)))
        try:
            rows = bodies.validate(_field(kind, "content"), content)
        except InvalidInput as error:
            raise error.under("/content") from None
        return _registration(chosen, str(fields["kind"]), public, lambda: kind.read_rows(public, rows))

    def read() -> Content:
        with file:
            return kind.read_table(public, _table(file, upload.filename or "", upload.content_type or ""))

    return _registration(chosen, str(fields["kind"]), public, read)


def _registration(chosen: DatasetSettings, kind: str, public: Any, read: Callable[[], Content]) -> Registration:
    return Registration(
        name=chosen.name,
        kind=kind,
        public=public,
        mode=chosen.mode,
        cap=None if chosen.cap is None else units_of(chosen.cap),
        account=chosen.account,
        read=read,
    )


def _field(kind: type[Dataset], name: str) -> TypeAdapter[Any]:
    annotation: Any = kind.model_fields[name].annotation
    return TypeAdapter(annotation)


def _table(file: BinaryIO, filename: str, content_type: str) -> pa.Table:
    is_csv = filename.endswith(".csv") or content_type == "text/csv"
    try:
        if is_csv:
            return pa_csv.read_csv(file)
        return pa_parquet.read_table(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = "CSV" if is_csv else "Parquet"
        raise InvalidInput(f"the file cannot be read as {kind}", pointer="/content") from error
