"""Datasets: register, look up, open for a job, erase."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio.to_thread

from discreet.errors import (
    DiscreetError,
    FieldIssue,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    Unavailable,
)
from discreet.observability import faults
from discreet.privacy.filters import Cap
from discreet.problems import DATASETS
from discreet.problems.contents import Content, canonical_bytes, pack
from discreet.problems.descriptions import holds_names, is_described, without_names
from discreet.storage import audit_log, datasets, jobs, ledger, sealing, tamper_seals
from discreet.storage.database import SYSTEM
from discreet.storage.datasets import content_digest
from discreet.storage.identifiers import new_id
from discreet.storage.objects import StorageTrouble
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.budgets import cap_amounts, filter_limits
from discreet.usecases.content_sizes import ContentSizes
from discreet.usecases.dataset_accounts import check_account, of_known
from discreet.usecases.descriptions import called, zone_names
from discreet.usecases.known_contents import require_same_use
from discreet.usecases.places.reading import tried
from discreet.usecases.places.rules import Located
from discreet.usecases.places.staying import Stay, keep_alike, open_again
from discreet.usecases.places.web import fetch
from discreet.usecases.rotation import still_known
from discreet.usecases.services import Services
from discreet.usecases.uploads import OWN_FORMS, Read, Upload, reading_job


class MasterKeyUnknown(Unavailable):
    """The content is sealed under a master key that this machine does not know, perhaps not yet."""

    code = "master_key_unknown"


@dataclass(frozen=True)
class Registration:
    """What an owner registers, with its content still to be read: from memory in a thread, or by
    the reader, who also reads what lies somewhere once it is fetched."""

    name: str
    kind: str
    public: Any
    mode: str
    cap: Cap | None
    account: str | None
    source: Callable[[], Content] | Upload | Located
    retention_days: int | None = None
    delete_after_job: bool = False
    block: Mapping[str, str] | None = None
    """Of a block of a source: what the reader is told of it (`isolation.reading`)."""
    most_bytes: int | None = None
    """That its content may take in memory, where it is fewer than of any."""
    accept_doubts: bool = False
    """Whether its owner insists on a content that cannot be right."""
    already_read: bool = False
    """Whether the content is what the description of its table has made of it at home."""


@dataclass(frozen=True)
class SealedContent:
    """A content, read and sealed under its data key."""

    dataset_id: str
    data_key: bytes
    digest: bytes
    public: dict[str, Any]
    sealed_bytes: int
    parts: Callable[[], Iterator[bytes]]
    stay: Stay | None = None
    """Where it stays, and then there are no parts of it to be stored."""
    notes: Sequence[str] = ()
    """What its reader left out or changed, for its owner alone; nothing of what lies at a place."""
    zone_names: bytes | None = None
    """The keyed digest of the names of its zones, in their order."""

    def columns(self) -> dict[str, Any]:
        """Of a dataset's row: those of its place and of its names."""
        stays = {} if self.stay is None else self.stay.columns(self.data_key, self.dataset_id)
        return {**stays, "zone_names": self.zone_names}


async def register(
    services: Services, principal: Principal, request: Registration
) -> tuple[dict[str, Any], bool]:
    """The dataset and whether it is new.

    The same content of the same tenant is the same dataset on the same account, in whatever order
    or format it comes, and a deleted dataset leaves its account behind, as one does that was
    corrected. With another kind, mode or account it is a Conflict: a second account for the same
    people would be a second budget. With another public part it is another dataset, on the same
    account where that is asked for. A deleted one of which nothing was ever released may come back
    with any public part, or on the account of other data of its people.
    """
    require(principal, "owner")
    try:
        if (request.cap is None) == (request.account is None):
            says = "either a cap is needed or the account of other data about the same people"
            raise InvalidInput([FieldIssue("/cap", says)])
        async with sealed_content(services, principal, request) as sealed:
            row, new = await keep(
                services, sealed, partial(_store, services, principal, request, sealed)
            )
            return {**row, "notes": sealed.notes}, new
    finally:
        if isinstance(request.source, Upload):
            request.source.close()


Store = Callable[[str | None], Awaitable[tuple[dict[str, Any], bool]]]
"""Writes the row of a sealed content, with the name of its object or with the content itself: the
row, and whether it is new."""


async def keep(
    services: Services, sealed: SealedContent, store: Store, name: str | None = None
) -> tuple[dict[str, Any], bool]:
    """Store the content where it belongs by its size, with its row; an object under `name`, where
    that is not the dataset's id."""
    name = name or sealed.dataset_id
    objects = services.objects if sealed.sealed_bytes > services.settings.object_bytes else None
    if objects is None or sealed.stay is not None:
        return await store(None)
    # Before the row that names it: a crash between the two leaves an object that nobody can open.
    await anyio.to_thread.run_sync(objects.write, name, sealed.parts())
    faults.point("object.written")
    try:
        row, new = await store(name)
    except (
        DiscreetError
    ):  # refused, so not committed; after any other error that is open, and the sweep decides
        with suppress(
            StorageTrouble
        ):  # the sweep does it then, and the refusal is what the owner must hear
            await anyio.to_thread.run_sync(objects.erase, name)
        raise
    if not new:
        with suppress(StorageTrouble):
            await anyio.to_thread.run_sync(objects.erase, name)
    return row, new


@asynccontextmanager
async def sealed_content(
    services: Services, principal: Principal, request: Registration, known: str | None = None
) -> AsyncIterator[SealedContent]:
    """The content of a request, fetched from where it lies, read, checked and sealed; of a `known`
    dataset that gets it, or of a new one."""
    dataset_id, data_key = known or new_id("dst"), sealing.new_data_key()
    settings, digest_key = services.settings, services.secrets.digest_key
    source = request.source
    if isinstance(source, Located | Upload):
        stay = None
        if isinstance(source, Located):
            if request.already_read:
                says = "goes with a content that is sent: what lies at a place is read there"
                raise InvalidInput(says, pointer="/already_read")
            if source.stays and holds_names(request.public.model_dump(mode="json")):
                says = (
                    "names of zones and columns are not stored, and a content that stays is read "
                    'again: name a stored network, {"zones": {"network": "net_…"}}, or let the '
                    "content be stored"
                )
                raise InvalidInput(says, pointer="/public/reader")
            zones = await zone_names(services.database, principal.tenant_id, request.public)
            columns = called(request.public)
            async with tried(services, principal, source, request.kind, columns):
                upload = await fetch(services, principal, source.text)
                try:
                    read = await _read(
                        services, principal, request, upload, dataset_id, data_key, zones
                    )
                finally:
                    upload.close()
            if source.stays:
                stay = Stay(source.text, principal.name, request.block, request.most_bytes)
        else:
            zones = None
            if not request.already_read:
                zones = await zone_names(services.database, principal.tenant_id, request.public)
            read = await _read(services, principal, request, source, dataset_id, data_key, zones)
            source.close()  # its room on the disk is not needed any more
        with read.file as file:
            sealed = SealedContent(
                dataset_id,
                data_key,
                read.digest,
                read.public,
                read.sealed_bytes,
                lambda: file.parts(sealing.STREAM_CHUNK_BYTES),
                notes=() if isinstance(source, Located) else read.notes,
                zone_names=read.zone_names,
            )
            if stay is not None:  # with a key of its own: that one has sealed the content
                key = sealing.new_data_key()
                sealed = replace(sealed, data_key=key, parts=lambda: iter(()), stay=stay)
            yield sealed
        return

    def prepare() -> SealedContent:
        content = source()
        # A release that ran out of memory would tell how much there is; so its owner is told now.
        size = sum(array.nbytes for array in content.values())
        most = ContentSizes.of(settings).max_bytes(request.kind, request.public, request.most_bytes)
        if size > most:
            raise PayloadTooLarge(f"the content takes {size} bytes in memory, of at most {most}")
        digest = content_digest(digest_key, principal.tenant_id, canonical_bytes(content))
        kind = DATASETS[request.kind]
        kind.check_sizes(
            request.public, content, "simulation" if request.mode == "simulation" else "private"
        )
        described = kind.describe(request.public, content)
        if not request.accept_doubts:
            kind.require_plausible(kind.doubt_sums(request.public, content))
        chunks: list[bytes] = []
        writer = sealing.SealedWriter(sealing.ChunkCipher(data_key, dataset_id), chunks.append)
        writer.write(pack(content))
        writer.finish()
        return SealedContent(
            dataset_id,
            data_key,
            digest,
            without_names(described.model_dump(mode="json", exclude_none=True)),
            writer.sealed_bytes,
            lambda: iter(chunks),
        )

    yield await anyio.to_thread.run_sync(prepare)


async def _read(
    services: Services,
    principal: Principal,
    request: Registration,
    upload: Upload,
    dataset_id: str,
    data_key: bytes,
    zones: Sequence[str] | None,
) -> Read:
    settings = services.settings
    described = upload.format in OWN_FORMS or (
        is_described(request.public) and not request.already_read
    )
    job = reading_job(
        settings,
        services.secrets.digest_key,
        tenant=principal.tenant_id,
        kind=request.kind,
        public=request.public,
        mode=request.mode,
        name=dataset_id,
        data_key=data_key,
        block=request.block,
        most_bytes=request.most_bytes,
        accept_doubts=request.accept_doubts,
        described=described,
        zones=zones,
    )
    return await services.reader.read(
        upload,
        settings.spool_folder,
        job,
        settings.job_memory_bytes,
        logged=not isinstance(request.source, Located),
    )


async def _store(
    services: Services,
    principal: Principal,
    request: Registration,
    sealed: SealedContent,
    object_name: str | None,
) -> tuple[dict[str, Any], bool]:
    expires_at = expiry(services, request)
    secrets = services.secrets
    async with services.database.transaction(principal.tenant_id) as connection:
        await datasets.lock_digest(connection, sealed.digest)
        rows = await datasets.of_digest(connection, principal.tenant_id, sealed.digest)
        require_same_use(rows, request.kind, request.mode)
        known, account_id = await of_known(connection, rows, sealed.public, request.account)
        if known is not None and known["deleted_at"] is None:
            offered = await datasets.find(connection, principal.tenant_id, known["id"]) is not None
            needed = offered or await jobs.active_of_dataset(connection, known["id"])
            if needed:
                await keep_alike(connection, services, principal, known, sealed.stay)
            if offered and request.retention_days is None and not request.delete_after_job:
                return await datasets.held(connection, known["id"]) or known, False
            if needed:
                # Its owner has it still, or will until a job ends: from now on as this request
                # says.
                await audit_log.note(connection, principal, "dataset.retention", known["id"])
                return await datasets.set_retention(
                    connection, known["id"], expires_at, request.delete_after_job
                ), False
            await datasets.erase(connection, principal.tenant_id, known["id"])  # its time was over
        if account_id is None:
            account_id = new_id("acc")
            assert request.cap is not None
            await ledger.open_account(
                connection,
                account_id,
                tenant_id=principal.tenant_id,
                scope="data",
                subject=account_id,
                unit=sealed.public["unit"],
                cap=cap_amounts(request.cap),
                filters=filter_limits(request.cap),
                actor=principal.name,
            )
        else:
            await check_account(connection, principal, account_id, request.kind, sealed.public)
        decided = {
            "id": sealed.dataset_id,
            "tenant_id": principal.tenant_id,
            "account_id": account_id,
            "kind": request.kind,
            "public": sealed.public,
            "mode": request.mode,
            "digest": sealed.digest,
        }
        row = await datasets.add(
            connection,
            sealed.parts() if object_name is None else (),
            **decided,
            name=request.name,
            content_key_id=secrets.content_key_id,
            wrapped_key=tamper_seals.wrap(secrets, decided, sealed.data_key),
            sealed_bytes=sealed.sealed_bytes,
            object_name=object_name,
            expires_at=expires_at,
            delete_after_job=request.delete_after_job,
            **sealed.columns(),
        )
        still_known(services, secrets)
        await audit_log.note(
            connection,
            principal,
            "dataset.register",
            row["id"],
            account=account_id,
            kind=request.kind,
        )
        faults.point("dataset.written")
    return row, True


def expiry(services: Services, request: Registration) -> datetime | None:
    """When the content is erased; None if only on request."""
    days = (
        services.settings.retention_days
        if request.retention_days is None
        else request.retention_days
    )
    return None if days is None else datetime.now(UTC) + timedelta(days=days)


async def open_content(services: Services, dataset_id: str) -> bytes | bytearray:
    """The packed content, for a job. SealBroken if it is not what was stored, StorageTrouble if
    it cannot be read, MasterKeyUnknown."""
    async with services.database.transaction(SYSTEM) as connection:
        row = await datasets.held(connection, dataset_id)
        if row is None or row["wrapped_key"] is None:
            raise sealing.SealBroken("the content does not exist")
        chunks = (
            []
            if row["object_name"]
            else [part async for part in datasets.chunks(connection, dataset_id)]
        )
    secrets = services.secrets
    if (
        row["content_key_id"] not in secrets.content_keys
    ):  # in a rotation that has not reached this machine
        raise MasterKeyUnknown()
    if row["stays"] is not None:
        return await open_again(services, row)
    parts: Iterator[bytes] = iter(chunks)
    if row["object_name"] is not None:
        if services.objects is None:
            raise sealing.SealBroken(
                "the content is in object storage, and DISCREET_OBJECT_URL is not set"
            )
        parts = services.objects.read(row["object_name"])

    def opened() -> bytearray:
        data_key = tamper_seals.unwrap(secrets, row)
        return sealing.open_stream(data_key, dataset_id, row["sealed_bytes"], parts)

    return await anyio.to_thread.run_sync(opened)


async def find(services: Services, principal: Principal, dataset_id: str) -> dict[str, Any]:
    require(principal, "owner", "analyst", "auditor")
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await datasets.find(connection, principal.tenant_id, dataset_id)
    if row is None:
        raise NotFound("there is no such dataset")
    return row


async def page(
    services: Services, principal: Principal, after: tuple[Any, str] | None, size: int
) -> list[dict[str, Any]]:
    require(principal, "owner", "analyst", "auditor")
    async with services.database.transaction(principal.tenant_id) as connection:
        return await datasets.page(connection, principal.tenant_id, after, size)


def view(row: dict[str, Any]) -> dict[str, Any]:
    """A dataset as it is published: never its content, never its digest."""
    return {
        "id": row["id"],
        "name": row["name"],
        "kind": row["kind"],
        "public": row["public"],
        "mode": row["mode"],
        "account": row["account_id"],
        "created_at": row["created_at"],
        "expires_at": row["expires_at"],
        "delete_after_job": row["delete_after_job"],
        "revision": row["revision"],
        "undeclared": DATASETS[row["kind"]].undeclared(row["public"]),
        **place_view(row),
        **({"notes": list(row["notes"])} if row.get("notes") else {}),
        **({} if row["source_id"] is None else {"source": row["source_id"], "block": row["block"]}),
    }


def place_view(row: Mapping[str, Any]) -> dict[str, Any]:
    """In what kind of place a content stays and when it was last found there unchanged, under
    `place`; nothing for one that is stored."""
    if row["stays"] is None:
        return {}
    return {"place": {"at": row["stays"], "unchanged_at": row["seen_at"]}}
