"""What an idle worker does of another's release: it takes a share, reads the chunks that it lies in
from where the content is stored, and hands back the sums, sealed.

It looks at what was accepted as the worker that claims a job does (`running.claim`): no content is
opened for a job or a dataset whose rows were changed. It charges nothing: data were touched before
the share was offered. Whatever it cannot do is the other worker's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread

from discreet.observability import faults
from discreet.problems import JOBS, read_as_one
from discreet.problems.plans import Plan
from discreet.storage import datasets, jobs, sources, tamper_seals
from discreet.storage import shares as stored
from discreet.storage.database import SYSTEM
from discreet.storage.sealing import STREAM_CHUNK_BYTES, SealBroken
from discreet.usecases import naming, shares, spooling
from discreet.usecases.services import Services
from discreet.usecases.uploads import SealedFile

CHUNKS_AT_ONCE = 8
"""Sealed chunks that are fetched from the database by one statement, and held in memory."""


class CannotHelp(Exception):
    """This worker cannot read shares of that job: it is not as it was accepted, or this machine
    lacks a key or room."""


@dataclass(frozen=True)
class Share:
    """A share in this worker's hands."""

    job_id: str
    attempt: int
    number: int
    of: int
    worker: int
    row: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class HelpedJob:
    """A job of which this worker reads shares, with the chunks that it has fetched until now, in an
    encrypted file without a name."""

    job_id: str
    attempt: int
    seconds: float
    """What its plan gives a release."""
    header: Mapping[str, Any] = field(repr=False)
    key: bytes = field(repr=False)
    versions: tuple[Mapping[str, Any], ...] = field(repr=False)
    file: SealedFile
    there: set[tuple[int, int]] = field(default_factory=set)

    def close(self) -> None:
        self.file.close()

    def is_of(self, share: Share) -> bool:
        return (self.job_id, self.attempt) == (share.job_id, share.attempt)


async def take(
    services: Services, worker: int, not_of: Collection[str], of: str | None = None
) -> Share | None:
    """A share that is open, of any job but these, or of the job `of`; None if there is none. The
    longest waiting job's first."""
    async with services.database.transaction(SYSTEM) as connection:
        row = await stored.take(connection, worker, not_of, of)
    faults.point("share.taken")
    if row is None:
        return None
    return Share(row["job_id"], row["attempt"], row["number"], row["shares"], worker, row)


async def are_wanted(services: Services, job_id: str, attempt: int) -> bool:
    """Whether shares of this attempt may still be needed: until what they are for is kept, at a
    time that is padded, or the attempt has ended."""
    async with services.database.transaction(SYSTEM) as connection:
        return await stored.are_wanted(connection, job_id, attempt)


async def job_of(services: Services, share: Share) -> HelpedJob:
    """The job of a share, as it was accepted. CannotHelp where this machine cannot read it."""
    async with services.database.transaction(SYSTEM) as connection:
        row = await jobs.find(connection, share.job_id)
        data = [] if row is None else await sources.of_job(connection, row)
    if row is None or not data or row["tamper_seal"] is None:
        raise CannotHelp("its rows are not there")
    if not sources.are_there(row, data):
        raise CannotHelp("its data were erased")
    said = tamper_seals.said_of(row)
    keys = services.secrets
    if not tamper_seals.is_accepted(keys, row, row["tamper_seal"], said=said):
        raise CannotHelp("it is not as it was accepted")
    plan = Plan.model_validate(row["plan"])
    if plan.parts_by is None or len(plan.events) > 1:
        raise CannotHelp("it is not read by parts alone")
    if any(one["wrapped_key"] is None or one["stays"] is not None for one in data):
        raise CannotHelp("its data are not stored here")
    problem = JOBS[row["kind"]].model_validate(row["problem"])
    problem, _ = await naming.opened(services.database, row["tenant_id"], problem)
    key = shares.unwrap(keys, share.row, tamper_seals.release_terms(said, data))
    public = read_as_one(row["kind"], [one["public"] for one in data])
    header = {
        "step": "share",
        "fetched": True,
        "kind": row["kind"],
        "problem": problem.model_dump(mode="json"),
        "public": public.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "simulation": all(one["mode"] == "simulation" for one in data),
        "contents": [*_contents(await anyio.to_thread.run_sync(_data_keys, services, data), data)],
        "part_bytes": spooling.PART_BYTES,
    }
    seconds = plan.resources.release_quantum_seconds
    file = SealedFile(services.settings.spool_folder)
    return HelpedJob(share.job_id, share.attempt, seconds, header, key, tuple(data), file)


async def fetch(services: Services, job: HelpedJob, content: int, first: int, last: int) -> None:
    """Put the sealed chunks first..last of one of the job's contents into its file, unless they are
    there. Nothing is opened: whoever reads a chunk does, and an altered one opens nowhere."""
    version = job.versions[content]
    size, offset = version["sealed_bytes"], job.header["contents"][content]["offset"]
    if not 0 <= first <= last <= (size - 1) // STREAM_CHUNK_BYTES:
        raise CannotHelp("no such chunk")
    while first <= last and (content, first) in job.there:
        first += 1
    while first <= last and (content, last) in job.there:
        last -= 1
    if first > last:
        return
    wanted = min(size, (last + 1) * STREAM_CHUNK_BYTES) - first * STREAM_CHUNK_BYTES
    place = offset + first * STREAM_CHUNK_BYTES
    if version["object_name"] is None:
        written = 0
        for some in range(first, last + 1, CHUNKS_AT_ONCE):
            upper = min(last, some + CHUNKS_AT_ONCE - 1)
            async with services.database.transaction(SYSTEM) as connection:
                found = await datasets.chunks_between(connection, version["id"], some, upper)
            written += await anyio.to_thread.run_sync(_write, job, place + written, found)
    elif services.objects is None:
        raise CannotHelp("DISCREET_OBJECT_URL is not set")
    else:
        start = first * STREAM_CHUNK_BYTES
        parts = services.objects.between(version["object_name"], start, start + wanted)
        written = await anyio.to_thread.run_sync(_write, job, place, parts)
    if written != wanted:
        raise SealBroken("the content is not as long as when it was sealed")
    job.there.update((content, chunk) for chunk in range(first, last + 1))


async def hand_back(services: Services, job: HelpedJob, share: Share, sums: bytes) -> bool:
    """Store the sums of a share, sealed; False if nobody needs them any more."""
    if len(sums) > shares.MOST_SUMS_BYTES:
        raise CannotHelp("its sums are too many")
    name = shares.share_name(share.job_id, share.attempt, share.number, share.of)
    sealed = await anyio.to_thread.run_sync(shares.seal, job.key, name, sums)
    return await _return(services, share, sealed)


async def give_up(services: Services, share: Share) -> None:
    """Leave a share to whoever takes it."""
    await _return(services, share, None)


async def _return(services: Services, share: Share, sealed: bytes | None) -> bool:
    async with services.database.transaction(SYSTEM) as connection:
        stored_now = await stored.hand_back(
            connection, share.job_id, share.attempt, share.number, share.worker, sealed
        )
        faults.point("share.returned")
    return stored_now


def _data_keys(services: Services, data: Iterable[Mapping[str, Any]]) -> list[bytes]:
    return [tamper_seals.unwrap(services.secrets, one) for one in data]


def _contents(
    data_keys: Iterable[bytes], data: Iterable[Mapping[str, Any]]
) -> Iterable[dict[str, Any]]:
    offset = 0
    for key, one in zip(data_keys, data, strict=True):
        size = one["sealed_bytes"]
        yield {"name": one["id"], "data_key": key.hex(), "offset": offset, "sealed_bytes": size}
        offset += size


def _write(job: HelpedJob, place: int, parts: Iterable[bytes]) -> int:
    """How many bytes were written."""
    written = 0
    for part in parts:
        job.file.write_at(place + written, part)
        written += len(part)
    return written
