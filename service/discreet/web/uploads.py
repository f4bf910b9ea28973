"""Dataset uploads: JSON bodies, and multipart with Parquet, CSV or JSON content that is never held
as a whole."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Generic, TypeVar

import anyio.to_thread
import numpy as np
from fastapi import Request
from pydantic import TypeAdapter
from starlette.requests import ClientDisconnect

from discreet.errors import FieldIssue, InvalidInput, Limit, NotFound, PayloadTooLarge
from discreet.intake.strict_json import PART_BYTES, Structure
from discreet.problems.contents import Content
from discreet.problems.datasets import Dataset
from discreet.problems.descriptions import completed, is_described
from discreet.settings import Settings
from discreet.storage.tenants import Principal
from discreet.usecases import access, corrections, datasets, reads, sources
from discreet.usecases.budgets import units_of
from discreet.usecases.datasets import Registration
from discreet.usecases.descriptions import ReadsNoNames, require_reads_names
from discreet.usecases.places.rules import Located
from discreet.usecases.requests import DatasetRequest, ReadRequest
from discreet.usecases.services import Services
from discreet.usecases.uploads import OWN_FORMS, Upload, format_of
from discreet.web import bodies
from discreet.web.multipart import Multipart
from discreet.web.registrations import (
    Beside,
    BesideBlock,
    Correction,
    Draft,
    block_of,
    correction,
    placed,
    settings_and_place,
)

METADATA_BYTES = 1 << 20
MOST_OF_KEY = 100
"""Bytes of a member in which its key is looked for: `content` with all its letters in escapes has
44."""
PIECE_BYTES = 1 << 20
"""Received bytes go to the parser, and to the disk, in pieces of about this size, in a thread."""

_COLON, _END = b":}"
_BETWEEN = np.zeros(256, dtype=bool)
_BETWEEN[list(b"{,:")] = True

_WHOLE: TypeAdapter[DatasetRequest] = TypeAdapter(DatasetRequest)
_READ: TypeAdapter[ReadRequest] = TypeAdapter(ReadRequest)

Given = TypeVar("Given")
"""What is said beside a content."""
Settled = Callable[[bytes, bool | None], Given]
"""Validates that, as `registrations.beside` reads it."""


async def register(request: Request, principal: Principal) -> tuple[dict[str, Any], bool]:
    """Register the dataset that the request brings: its row, and whether it is new. Errors:
    `datasets.register`."""
    services: Services = request.app.state.services
    access.require(principal, "owner")
    with services.turns.turn(principal.tenant_id):
        asked = await registration(request)
        async with drafted(services, principal, asked.source) as source:
            return await datasets.register(services, principal, replace(asked, source=source))


@asynccontextmanager
async def drafted(
    services: Services, principal: Principal, source: Any
) -> AsyncGenerator[Any, None]:
    """The content that is registered; of a draft its file, which is erased once it is."""
    if not isinstance(source, Draft):
        yield source
        return
    if not services.settings.reads_names:  # it came while names were read here
        raise ReadsNoNames
    upload = await reads.open_draft(services, principal, source.id)
    try:
        yield upload
    finally:
        upload.close()
    with suppress(NotFound):  # registered by another request meanwhile, or its day is over
        await reads.erase(services, principal, source.id)


async def register_fields(
    services: Services, principal: Principal, fields: dict[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Register a dataset of such fields, with `content_from` or `draft`: its row, and whether it is
    new. Errors: `datasets.register`."""
    with services.turns.turn(principal.tenant_id):
        asked = _registration(await anyio.to_thread.run_sync(placed, fields))
        async with drafted(services, principal, asked.source) as source:
            return await datasets.register(services, principal, replace(asked, source=source))


async def add_block(
    request: Request,
    principal: Principal,
    source_id: str,
    said: Settled[BesideBlock] = block_of,
) -> tuple[dict[str, Any], bool]:
    """Register the block that the request brings: its row, and whether it is new. `said` reads
    what stands beside its content. Errors: `sources.add_block`."""
    services: Services = request.app.state.services
    source = await sources.find(services, principal, source_id)
    access.require(principal, "owner")
    described = is_described(source["public"])

    def settled(metadata: bytes, content: bool | None) -> BesideBlock:
        asked, where = said(metadata, content)
        if not isinstance(where, Located) and described and not asked.already_read:
            require_reads_names(services.settings, source["public"])
        return asked, where

    with services.turns.turn(principal.tenant_id):
        if _is_form(request):
            (asked, where), upload = await _multipart(request, services.settings, settled)
        else:
            coming = bodies.parts(
                request, Limit("json_body_bytes", "bytes", services.settings.json_body_bytes)
            )
            (asked, where), upload = await _large(services.settings, b"", coming, settled)
        if where is not None:
            upload.close()  # nothing came
        async with drafted(services, principal, where or upload) as content:
            return await sources.add_block(
                services,
                principal,
                source,
                asked.block,
                content,
                accept_doubts=asked.accept_doubts,
                already_read=asked.already_read,
                names=asked.names,
            )


async def correct(request: Request, principal: Principal, dataset_id: str) -> dict[str, Any]:
    """Correct the dataset as the request says: its row. Errors: `corrections.correct`."""
    services: Services = request.app.state.services
    row = await corrections.open_to(services, principal, dataset_id)  # before anything is received

    def settled(metadata: bytes, content: bool | None) -> Correction:
        patch, where, came, read = correction(metadata, content)
        if came or isinstance(where, Draft):
            public = corrections.merged_into(row["public"], patch)
            require_reads_names(services.settings, public, already_read=read)
        return patch, where, came, read

    with services.turns.turn(principal.tenant_id):
        if _is_form(request):
            given, upload = await _multipart(request, services.settings, settled)
        else:
            coming = bodies.parts(
                request, Limit("json_body_bytes", "bytes", services.settings.json_body_bytes)
            )
            given, upload = await _large(services.settings, b"", coming, settled)
        patch, where, came, read = given
        if not came:
            upload.close()
        source = where or (upload if came else None)
        async with drafted(services, principal, source) as content:
            return await corrections.correct(
                services, principal, dataset_id, patch, content, already_read=read
            )


async def correct_fields(
    services: Services, principal: Principal, dataset_id: str, patch: dict[str, Any], draft: str
) -> dict[str, Any]:
    """Correct a dataset by a file that is here: its row. Errors: `corrections.correct`."""
    with services.turns.turn(principal.tenant_id):
        async with drafted(services, principal, Draft(draft)) as content:
            return await corrections.correct(services, principal, dataset_id, patch, content)


async def read(
    request: Request, principal: Principal, said: Settled[ReadRequest] | None = None
) -> dict[str, Any]:
    """A look at the file that the request brings, or at one that came before. `said` reads what
    stands beside it. Errors: `reads.look`."""
    services: Services = request.app.state.services
    access.require(principal, "owner")
    if not services.settings.reads_names:
        raise ReadsNoNames
    with services.turns.turn(principal.tenant_id):
        if not _is_form(request):
            coming = bodies.parts(request, Limit("metadata_bytes", "bytes", METADATA_BYTES))
            value = bodies.value_of(b"".join([part async for part in coming]))
            return await look_again(request, principal, bodies.validate(_READ, value))
        least = max(0, bodies.declared(request) - METADATA_BYTES)  # what is certainly the file's
        await reads.require_room(services, principal, least)
        asked, upload = await _multipart(request, services.settings, said or _look)
        with upload.file:
            looking = reads.look(services, principal, asked, upload)
            return await bodies.while_there(request, looking)


async def look_again(request: Request, principal: Principal, asked: ReadRequest) -> dict[str, Any]:
    """A look at a file that is here, as long as whoever asked is there. Errors:
    `reads.look_again`."""
    looking = reads.look_again(request.app.state.services, principal, asked)
    return await bodies.while_there(request, looking)


def _look(metadata: bytes, content: bool | None) -> ReadRequest:
    return bodies.validate(_READ, bodies.value_of(metadata))


async def registration(request: Request) -> Registration:
    """What the request registers, validated up to its content's rows, which are read when
    registering."""
    settings = request.app.state.services.settings

    def settled(metadata: bytes, content: bool | None) -> Beside:
        given = settings_and_place(metadata, content)
        if not isinstance(given[3], Located):
            require_reads_names(settings, given[1], already_read=given[2].already_read)
        return given

    if _is_form(request):
        return _registration(*await _multipart(request, settings, settled))
    coming = bodies.parts(request, Limit("json_body_bytes", "bytes", settings.json_body_bytes))
    head = bytearray()
    async for part in coming:
        head += part
        if len(head) > bodies.THREAD_BYTES:
            return _registration(*await _large(settings, bytes(head), coming, settled))
    value = bodies.value_of(bytes(head))
    if isinstance(value, dict) and {"content_from", "draft"} & value.keys():
        return _registration(settled(bytes(head), "content" in value))
    if isinstance(value, dict) and is_described(value.get("public")):
        if value.get("already_read") is True:
            value["public"] = completed(str(value.get("kind")), value["public"])
        else:  # its content is a table of somebody's own, for the reader
            return _registration(*await _large(settings, bytes(head), coming, settled))
    return whole_registration(bodies.validate(_WHOLE, value).root)


def whole_registration(whole: Dataset) -> Registration:
    """The registration of a dataset that came in one JSON value."""
    return _registration((whole.kind, whole.public, whole, None), whole.rows)


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def _large(
    settings: Settings, head: bytes, coming: AsyncIterator[bytes], settled: Settled[Given]
) -> tuple[Given, Upload]:
    """The fields of a large JSON body, and its content, which is sealed to the disk as it
    arrives and read like an upload."""
    body = _Body(settings, settled)
    piece = bytearray(head)
    try:
        async for part in coming:
            piece += part
            if len(piece) >= PIECE_BYTES:
                await anyio.to_thread.run_sync(body.take, bytes(piece))
                piece.clear()
        await anyio.to_thread.run_sync(body.take, bytes(piece))
        return await anyio.to_thread.run_sync(body.end)
    except BaseException:
        body.close()
        raise


class _Body(Generic[Given]):
    """A JSON body that comes in parts: the value of its member `content` goes sealed to the disk,
    the rest to memory.

    Finds that member by the brackets, commas and colons that stand outside of strings. All else is
    for the strict readers of both: here only what lies where is decided.
    """

    def __init__(self, settings: Settings, settled: Settled[Given]) -> None:
        self._structure, self._settled = Structure(), settled
        self._upload = Upload(settings.spool_folder)
        self._upload.format = "json"
        self._metadata = bytearray()
        self._member = bytearray()
        """The text of the member at hand up to its colon,"""
        self._in_content = self._after_colon = False
        """whether its value is the content's, and whether that has begun."""
        self._contents = 0

    def take(self, data: bytes) -> None:
        """The next bytes of the body."""
        for first in range(0, len(data), PART_BYTES):
            self._part(data[first : first + PART_BYTES])

    def end(self) -> tuple[Given, Upload]:
        """What was said beside the content, and the content, after the last bytes."""
        if self._in_content:
            raise InvalidInput("not JSON: the body ends within its content", code="invalid_json")
        try:
            given = self._settled(bytes(self._metadata), self._contents > 0)
        except InvalidInput as error:
            if error.code == "invalid_json" and error.issues[0].pointer == "" and self._contents:
                raise InvalidInput(
                    f"beside the content, {error.issues[0].detail}", code=error.code
                ) from None
            raise
        self._upload.finish()
        return given, self._upload

    def close(self) -> None:
        self._upload.close()

    def _part(self, part: bytes) -> None:
        codes, levels = self._structure.take(part)
        # Where a member of the outermost object begins, has its colon, or ends.
        places = np.flatnonzero(
            ((levels == 1) & _BETWEEN[codes]) | ((levels == 0) & (codes == _END))
        )
        begun = 0
        for place in places.tolist():
            self._keep(part[begun:place])
            begun = place
            if codes[place] != _COLON:
                self._in_content = self._after_colon = False
                self._member.clear()
            elif not self._after_colon:
                self._after_colon = True
                if _is_content(self._member):
                    self._contents += 1
                    self._in_content = True
                    self._metadata += b":null"
                    begun = place + 1
        self._keep(part[begun:])

    def _keep(self, part: bytes) -> None:
        if self._in_content:
            if self._contents == 1:  # one that stands twice is refused
                self._upload.write(part)
            return
        if not self._after_colon and len(self._member) < MOST_OF_KEY:
            self._member += part
        self._metadata += part
        if len(self._metadata) > METADATA_BYTES:
            raise PayloadTooLarge(
                limit=Limit(
                    "metadata_bytes",
                    "bytes beside its content",
                    METADATA_BYTES,
                    len(self._metadata),
                )
            )


def _is_content(member: bytearray) -> bool:
    """Whether this, `{` or a comma and then a key, is the key `content`, in whatever escapes."""
    try:
        return bool(json.loads(member[1:]) == "content")
    except ValueError:
        return False


async def _multipart(
    request: Request, settings: Settings, settled: Settled[Given]
) -> tuple[Given, Upload]:
    most = settings.upload_bytes
    if (declared := bodies.declared(request)) > most:
        raise PayloadTooLarge(f"an upload may have {most} bytes, this one has {declared}")
    form = _Form(request.headers["content-type"], settings, settled)
    received, waiting, piece = 0, 0, list[bytes]()
    try:
        try:
            async for part in request.stream():
                received += len(part)
                if received > most:
                    raise PayloadTooLarge(f"an upload may have {most} bytes")
                piece.append(part)
                waiting += len(part)
                if waiting >= PIECE_BYTES:
                    await anyio.to_thread.run_sync(form.write, b"".join(piece))
                    waiting, piece = 0, []
        except ClientDisconnect as error:
            raise InvalidInput(
                "the client closed the connection before the whole body arrived",
                code="invalid_multipart",
            ) from error
        return await anyio.to_thread.run_sync(form.end, b"".join(piece))
    except BaseException:
        form.close()
        raise


class _Form(Multipart, Generic[Given]):
    """The two parts of the form as they come: `metadata` in memory, `content` sealed to the disk.

    What `metadata` says is checked as soon as it has come: where it stands first, nobody sends 2 GB
    for nothing.
    """

    def __init__(self, content_type: str, settings: Settings, settled: Settled[Given]) -> None:
        super().__init__(content_type)
        self._settings, self._settle = settings, settled
        self._into = ""
        self._metadata: bytearray | None = None
        self._given: Given | None = None
        self._upload: Upload | None = None

    def end(self, data: bytes) -> tuple[Given, Upload]:
        """What `metadata` says, and the content, after the last bytes."""
        self.write(data)
        self.close_form()
        missing = [
            FieldIssue(f"/{name}", f"the form needs a part `{name}`: {what}")
            for name, what, there in (
                ("metadata", "JSON text", self._given is not None),
                ("content", "a file", self._upload is not None),
            )
            if not there
        ]
        if missing:
            raise InvalidInput(missing)
        assert self._given is not None
        assert self._upload is not None
        return self._given, self._upload

    def close(self) -> None:
        if self._upload is not None:
            self._upload.close()

    def _part(self, name: str, filename: str | None, content_type: str) -> None:
        self._into = name
        if self._into == "metadata" and self._metadata is None:
            self._metadata = bytearray()
        elif self._into == "content" and self._upload is None and filename is not None:
            if self._given is None and not self._settings.reads_names:
                says = "the part `metadata` comes first: it says whether the file is read here"
                raise InvalidInput(says, pointer="/metadata")
            form = format_of(filename, content_type)
            if form in OWN_FORMS and not self._settings.reads_names:
                raise ReadsNoNames
            self._upload = Upload(self._settings.spool_folder)
            self._upload.format = form
        elif self._into in ("metadata", "content"):
            raise InvalidInput(
                f"one part `{self._into}` is needed, the content as a file",
                pointer=f"/{self._into}",
            )
        else:
            raise InvalidInput(
                "the form has the parts `metadata` and `content`", pointer=f"/{self._into[:100]}"
            )

    def _data(self, data: memoryview) -> None:
        if self._into == "metadata":
            assert self._metadata is not None
            self._metadata += data
            if len(self._metadata) > METADATA_BYTES:
                raise PayloadTooLarge(f"the metadata may have {METADATA_BYTES} bytes")
        else:
            assert self._upload is not None
            self._upload.write(data)
            most = self._settings.json_body_bytes
            if self._upload.format == "json" and self._upload.plain_bytes > most:
                raise PayloadTooLarge(f"JSON content may have {most} bytes; send Parquet or CSV")

    def _ended(self) -> None:
        if self._into == "metadata":
            assert self._metadata is not None
            self._given = self._settle(bytes(self._metadata), None)
        else:
            assert self._upload is not None
            self._upload.finish()


def _registration(
    given: Beside, source: Callable[[], Content] | Upload | None = None
) -> Registration:
    """Of a content that came (`source`), or that lies where `given` says."""
    kind, public, chosen, where = given
    if where is not None and isinstance(source, Upload):
        source.close()  # nothing came
    found: Any = source if where is None else where
    assert found is not None
    return Registration(
        name=chosen.name,
        kind=kind,
        public=public,
        mode=chosen.mode,
        cap=None if chosen.cap is None else units_of(chosen.cap),
        account=chosen.account,
        source=found,
        retention_days=chosen.retention_days,
        delete_after_job=chosen.delete_after_job,
        accept_doubts=chosen.accept_doubts,
        already_read=chosen.already_read,
    )
