"""Dataset uploads: JSON bodies, and multipart with Parquet, CSV or JSON content that is never held as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio.to_thread
from fastapi import Request
from pydantic import TypeAdapter
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from discreet.api import bodies
from discreet.api.schemas import DatasetRequest
from discreet.errors import FieldIssue, InvalidInput, PayloadTooLarge
from discreet.problems import DATASETS
from discreet.problems.base import Content, Dataset, DatasetSettings
from discreet.settings import Settings
from discreet.strict_json import loads
from discreet.usecases.budgets import units_of
from discreet.usecases.datasets import Registration
from discreet.usecases.uploads import Format, Upload

METADATA_BYTES = 1 << 20
PIECE_BYTES = 1 << 20
"""Received bytes go to the parser, and to the disk, in pieces of about this size, in a thread."""

_WHOLE: TypeAdapter[DatasetRequest] = TypeAdapter(DatasetRequest)
_SETTINGS: TypeAdapter[DatasetSettings] = TypeAdapter(DatasetSettings)


async def registration(request: Request) -> Registration:
    """What the request registers, validated up to its content's rows, which are read when registering."""
    settings = request.app.state.services.settings
    if request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return await _multipart(request, settings)
    body = await bodies.read(request, settings.json_body_bytes)
    return whole_registration((await bodies.parse(_WHOLE, body)).root)


def whole_registration(whole: Dataset) -> Registration:
    """The registration of a dataset that came in one JSON value."""
    return _registration(whole, whole.kind, whole.public, whole.rows)


async def _multipart(request: Request, settings: Settings) -> Registration:
    most = settings.upload_bytes
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise PayloadTooLarge(f"an upload may have {most} bytes, this one has {declared}")
    form = _Form(request.headers["content-type"], settings)
    received, piece = 0, bytearray()
    try:
        try:
            async for part in request.stream():
                received += len(part)
                if received > most:
                    raise PayloadTooLarge(f"an upload may have {most} bytes")
                piece += part
                if len(piece) >= PIECE_BYTES:
                    await anyio.to_thread.run_sync(form.take, bytes(piece))
                    piece.clear()
        except ClientDisconnect as error:
            raise InvalidInput("the client went away before its body had come", code="invalid_multipart") from error
        return await anyio.to_thread.run_sync(form.end, bytes(piece))
    except BaseException:
        form.close()
        raise


class _Form:
    """The two parts of the form as they come: `metadata` in memory, `content` sealed to the disk.

    What `metadata` says is checked as soon as it has come: where it stands first, nobody sends 2 GB for nothing.
    """

    def __init__(self, content_type: str, settings: Settings) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise _broken()
        self._settings = settings
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._part,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._finished,
            },
        )
        self._headers: dict[bytes, bytes] = {}
        self._field = self._value = b""
        self._into = ""
        self._metadata: bytearray | None = None
        self._settled: tuple[str, Any, DatasetSettings] | None = None
        self._upload: Upload | None = None
        self._whole = False

    def take(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _broken() from error

    def end(self, data: bytes) -> Registration:
        """The registration, after the last bytes."""
        self.take(data)
        if not self._whole:
            raise _broken()
        missing = [
            FieldIssue(f"/{name}", f"the form needs a part `{name}`: {what}")
            for name, what, there in (
                ("metadata", "JSON text", self._settled is not None),
                ("content", "a file", self._upload is not None),
            )
            if not there
        ]
        if missing:
            raise InvalidInput(missing)
        assert self._settled is not None
        assert self._upload is not None
        kind, public, chosen = self._settled
        return _registration(chosen, kind, public, self._upload)

    def close(self) -> None:
        if self._upload is not None:
            self._upload.close()

    def _begin(self) -> None:
        self._headers, self._field, self._value = {}, b"", b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _part(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._into = options.get(b"name", b"").decode("latin-1")
        if self._into == "metadata" and self._metadata is None:
            self._metadata = bytearray()
        elif self._into == "content" and self._upload is None and b"filename" in options:
            self._upload = Upload(self._settings.spool_folder)
            filename = options[b"filename"].decode("latin-1").lower()
            self._upload.format = _format(filename, self._headers.get(b"content-type", b"").decode("latin-1"))
        elif self._into in ("metadata", "content"):
            raise InvalidInput(f"one part `{self._into}` is needed, the content as a file", pointer=f"/{self._into}")
        else:
            raise InvalidInput("the form has the parts `metadata` and `content`", pointer=f"/{self._into[:100]}")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._into == "metadata":
            assert self._metadata is not None
            self._metadata += data[start:end]
            if len(self._metadata) > METADATA_BYTES:
                raise PayloadTooLarge(f"the metadata may have {METADATA_BYTES} bytes")
        else:
            assert self._upload is not None
            self._upload.write(memoryview(data)[start:end])
            most = self._settings.json_body_bytes
            if self._upload.format == "json" and self._upload.plain_bytes > most:
                raise PayloadTooLarge(f"JSON content may have {most} bytes; send Parquet or CSV")

    def _end(self) -> None:
        if self._into == "metadata":
            assert self._metadata is not None
            self._settled = _settled(bytes(self._metadata))
        else:
            assert self._upload is not None
            self._upload.finish()

    def _finished(self) -> None:
        self._whole = True


def _settled(metadata: bytes) -> tuple[str, Any, DatasetSettings]:
    """Kind, public part and settings of the form's metadata."""
    fields = loads(metadata)
    if not isinstance(fields, dict):
        raise InvalidInput("an object is needed", pointer="/metadata")
    if "content" in fields:
        raise InvalidInput("the content is a part of its own here", pointer="/content")
    kind = DATASETS.get(str(fields.get("kind")))
    if kind is None:
        raise InvalidInput(f"one of {', '.join(DATASETS)}", pointer="/kind")
    annotation: Any = kind.model_fields["public"].annotation
    try:
        public = bodies.validate(TypeAdapter[Any](annotation), fields.get("public"))
    except InvalidInput as error:
        raise error.under("/public") from None
    plain = {name: value for name, value in fields.items() if name not in ("kind", "public")}
    return str(fields["kind"]), public, bodies.validate(_SETTINGS, plain)


def _format(filename: str, content_type: str) -> Format:
    if filename.endswith(".json") or content_type == "application/json":
        return "json"
    if filename.endswith(".csv") or content_type == "text/csv":
        return "csv"
    return "parquet"


def _broken() -> InvalidInput:
    return InvalidInput("not a multipart form", code="invalid_multipart")


def _registration(
    chosen: DatasetSettings, kind: str, public: Any, source: Callable[[], Content] | Upload
) -> Registration:
    return Registration(
        name=chosen.name,
        kind=kind,
        public=public,
        mode=chosen.mode,
        cap=None if chosen.cap is None else units_of(chosen.cap),
        account=chosen.account,
        source=source,
        retention_days=chosen.retention_days,
        delete_after_job=chosen.delete_after_job,
    )
