"""Contents that children read part by part, from an encrypted file without a name: this process
holds no more than a chunk of them in the clear.

Each chunk is decrypted once on its way there and dropped, so that an altered content is found
before anything is charged for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread
from anyio.lowlevel import checkpoint

from discreet.errors import Unavailable
from discreet.isolation.reading import target_bytes
from discreet.problems import DATASETS
from discreet.storage import datasets, sealing, sources, tamper_seals
from discreet.storage.database import SYSTEM
from discreet.storage.sealing import STREAM_CHUNK_BYTES
from discreet.usecases.content_sizes import ContentSizes
from discreet.usecases.datasets import MasterKeyUnknown
from discreet.usecases.places.staying import fetch_again
from discreet.usecases.services import Services
from discreet.usecases.uploads import NoRoom, SealedFile

PART_BYTES = 8 << 20
"""Contents above this size are read in parts of this size. The memory that a child needs besides
the part grows with it: arrays of the part's rows that a sum builds."""


@dataclass(frozen=True)
class Spooled:
    """Sealed contents, one after the other in a file."""

    file: SealedFile
    contents: tuple[Mapping[str, Any], ...] = field(repr=False)
    """What a child needs to read each, its data key included (`isolation.summing`)."""
    sampled: bool = False
    """One child samples them, instead of several that sum."""
    stored: bool = True
    """Whether all of them are kept by this installation, so that other workers can read them."""

    @property
    def sealed_bytes(self) -> int:
        return sum(content["sealed_bytes"] for content in self.contents)

    def close(self) -> None:
        self.file.close()


class NoRoomForJob(Unavailable):
    """The spool has no room for contents that may be too large to be read as a whole."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(
            f"the spool (DISCREET_SPOOL) has no room for contents of up to {most_bytes} bytes, by "
            "their public bounds"
        )


async def spool_large(
    services: Services,
    versions: Sequence[str],
    between: Callable[[], Awaitable[None]] = checkpoint,
    *,
    sampled: bool = False,
) -> Spooled | None:
    """Spool the contents of these datasets if together they are larger than one part. None, so that
    they are read as a whole, if they are smaller, if one was erased, or if the spool has no room.
    NoRoomForJob instead where by public bounds they may be too large for that: their room is taken
    first, all of it, and kept as long as theirs who are that large, so that whether there is
    enough, for this job or for another meanwhile, depends on these bounds alone. Other errors as of
    `datasets.open_content`; `between` as of `running.open_content`."""
    async with services.database.transaction(SYSTEM) as connection:
        rows = [await datasets.held(connection, version) for version in versions]
        known = [row for row in rows if row is not None and row["wrapped_key"] is not None]
        most = await _most_bytes(connection, services, known)
    if len(known) < len(rows):
        return None
    is_large = most > services.settings.whole_bytes
    if not is_large and sum(row["sealed_bytes"] for row in known) <= PART_BYTES:
        return None
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(SealedFile(services.settings.spool_folder))
            if is_large:
                room = target_bytes(most) + len(known) * STREAM_CHUNK_BYTES
                await anyio.to_thread.run_sync(file.reserve, room)
            contents, offset = list[Mapping[str, Any]](), 0
            for row in known:
                if contents:
                    await between()
                contents.append(await _spool(services, row, file, offset))
                offset += contents[-1]["sealed_bytes"]
            file.to_read()  # now, so that it fails, if at all, before anything is charged
        except NoRoom as error:
            if is_large:
                raise NoRoomForJob(most) from error
            return None
        stack.pop_all()
        stored = all(row["stays"] is None for row in known)
        return Spooled(file, tuple(contents), sampled, stored)


async def _most_bytes(
    connection: Any, services: Services, rows: Sequence[Mapping[str, Any]]
) -> int:
    """How large these contents may be in memory, together, by public bounds."""
    sizes, most = ContentSizes.of(services.settings), 0
    each: dict[str, int] = {}  # of a block of a source
    for row in rows:
        if (source_id := row["source_id"]) is not None and source_id not in each:
            source = await sources.find(connection, row["tenant_id"], source_id)
            each[source_id] = source["block_bytes"] if source is not None else sizes.whole_bytes
        public = DATASETS[row["kind"]].read_public(row["public"])
        most += sizes.max_bytes(row["kind"], public, each.get(source_id))
    return most


async def _spool(
    services: Services, row: Mapping[str, Any], file: SealedFile, offset: int
) -> Mapping[str, Any]:
    secrets, name, size = services.secrets, row["id"], row["sealed_bytes"]
    if row["content_key_id"] not in secrets.content_keys:
        raise MasterKeyUnknown()
    if row["stays"] is not None:
        return await _spool_fetched(services, row, file, offset)
    data_key = await anyio.to_thread.run_sync(tamper_seals.unwrap, secrets, row)
    opener = sealing.StreamOpener(data_key, name, size, lambda sealed, _: file.append(sealed))
    if row["object_name"] is None:
        async with services.database.transaction(SYSTEM) as connection:
            async for part in datasets.chunks(connection, name):
                await anyio.to_thread.run_sync(opener.write, part)
    elif services.objects is None:
        raise sealing.SealBroken(
            "the content is in object storage, and DISCREET_OBJECT_URL is not set"
        )
    else:
        stored = services.objects.read(row["object_name"])
        await anyio.to_thread.run_sync(_write_all, opener, stored)
    opener.finish()
    return {"name": name, "data_key": data_key.hex(), "offset": offset, "sealed_bytes": size}


async def _spool_fetched(
    services: Services, row: Mapping[str, Any], file: SealedFile, offset: int
) -> Mapping[str, Any]:
    """The content that stays at a place: it was compared there, and is copied as it is sealed."""
    fetched = await fetch_again(services, row)

    def copy() -> None:
        for part in fetched.file.parts(sealing.STREAM_CHUNK_BYTES):
            file.append(part)

    with fetched.file:
        await anyio.to_thread.run_sync(copy)
    size, key = fetched.sealed_bytes, fetched.data_key.hex()
    return {"name": row["id"], "data_key": key, "offset": offset, "sealed_bytes": size}


def _write_all(opener: sealing.StreamOpener, parts: Iterable[bytes]) -> None:
    for part in parts:
        opener.write(part)
