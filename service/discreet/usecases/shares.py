"""Shares of a large content's release: its worker offers them to idle ones, which hand back sums.

    offer → take, take, …    → close        by the worker that holds the job's lease
            take → hand_back                by any other (`helping`)

Sums of a share are as private as the content. They leave a worker sealed under a key that it makes
for this attempt and wraps by the master key, bound to the job's terms, so that processes with the
installation's secrets alone can read them. Each is bound to job, attempt, number of the share and
version of the software: another's, or an earlier attempt's, does not open. They are deleted as soon
as their worker has them.

Nothing here decides what is released or charged: a share that is not handed back, or does not
open, is read by the worker that offers it, which depends on nobody.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, TypeVar

import anyio.to_thread
import structlog
from prometheus_client import Counter

from discreet.observability import faults
from discreet.problems import JOBS, read_as_one
from discreet.problems.plans import Plan
from discreet.storage import datasets, jobs, sealing, sources, tamper_seals
from discreet.storage import jobs as stored
from discreet.storage.database import SYSTEM
from discreet.storage.sealing import STREAM_CHUNK_BYTES, SealBroken
from discreet.storage.secrets import Secrets
from discreet.usecases import naming, spooling
from discreet.usecases.running import Claim, LostJob
from discreet.usecases.services import Services
from discreet.usecases.uploads import SealedFile

log = structlog.get_logger()

SHARES = 16
"""Shares of a release that is offered: one number for all contents, so that it tells nothing of
any, and the sums of all are in memory at once."""

MOST_SUMS_BYTES = 64 << 20
"""Of a share. Larger ones are not handed back: to store them takes longer than to find them again,
and SHARES of them are more than one child can add."""

VERSION = version("discreet")
"""Another version may cut shares elsewhere, and a unit that two of them count moves a sum twice as
far as noise covers: sums of one release are found by workers of one version."""

SALT_BYTES = 32
Answer = TypeVar("Answer")

_refused = Counter(
    "discreet_shares_refused_total", "Sums in the database that no worker had sealed for this share"
)

_read = Counter(
    "discreet_shares_read_total",
    "Shares of releases that were offered to other workers, by who read them: the worker that has "
    "the job (`here`) or another (`elsewhere`)",
    ["where"],
)


class Offer:
    """The shares of one attempt, as its worker offers them. LostJob from `open` alone: whatever
    else goes wrong costs others' help and nothing more."""

    def __init__(
        self, services: Services, held: Claim, tell: Callable[[], None] = lambda: None
    ) -> None:
        """`tell` is called once shares may be taken."""
        self._services, self._held, self._tell = services, held, tell
        self._key = sealing.new_data_key()
        self._strange: set[int] = set()
        self.shares = SHARES
        self.read: Tally[str] = Tally()
        """How many shares were read `here` and `elsewhere`."""

    async def open(self) -> None:
        """Let idle workers take shares from now on. Nobody does where keys or the database are
        away."""
        await self._unless_away(self._open(), None)

    async def take(self) -> int | None:
        """A share that nobody has taken, now this worker's own; None where there is none, or nobody
        can tell."""
        return await self._unless_away(self._take(), None)

    async def returned(self, wanted: Collection[int]) -> dict[int, bytes]:
        """Sums that others have found of these shares. What does not open is left out."""
        return await self._unless_away(self._returned(wanted), {})

    async def close(self) -> None:
        """Delete what was found. Where the database is away it goes with the end of the attempt."""
        await self._unless_away(self._close(), None)

    def count(self) -> None:
        """Tell operators who read, once the time of the release is padded."""
        for where, many in self.read.items():
            _read.labels(where).inc(many)

    async def _open(self) -> None:
        held, keys = self._held, self._services.secrets
        wrapped = sealing.wrap(keys, _name(held.job_id, held.attempt), self._key, held.terms)
        async with self._services.database.transaction(SYSTEM) as connection:
            if await jobs.hold(connection, held.job_id, held.attempt) is None:
                raise LostJob()
            await jobs.offer(
                connection, held.job_id, held.attempt, SHARES, keys.content_key_id, wrapped
            )
            faults.point("shares.offered")
        faults.point("shares.open")
        self._tell()

    async def _take(self) -> int | None:
        async with self._services.database.transaction(SYSTEM) as connection:
            return await jobs.take_own(connection, self._held.job_id, self._held.attempt)

    async def _returned(self, wanted: Collection[int]) -> dict[int, bytes]:
        job_id, attempt = self._held.job_id, self._held.attempt
        async with self._services.database.transaction(SYSTEM) as connection:
            sealed = await jobs.returned(
                connection,
                job_id,
                attempt,
                [one for one in wanted if one not in self._strange],
                2 * MOST_SUMS_BYTES,
            )
        found = {}
        for number, one in sealed.items():
            name = share_name(job_id, attempt, number, SHARES)
            try:
                found[number] = await anyio.to_thread.run_sync(unseal, self._key, name, one)
            except sealing.SealBroken:
                self._strange.add(number)
                _refused.inc()
                log.error("the sums of a share are not what a worker sealed", share=number)
        return found

    async def _close(self) -> None:
        faults.point("shares.gathered")
        async with self._services.database.transaction(SYSTEM) as connection:
            await jobs.close(connection, self._held.job_id, self._held.attempt)
        faults.point("shares.closed")

    async def _unless_away(self, step: Awaitable[Answer], otherwise: Answer) -> Answer:
        try:
            return await step
        except LostJob:
            raise
        except Exception as error:
            log.warning("shares are read without help", error=type(error).__name__)
            return otherwise


def unwrap(secrets: Secrets, row: Mapping[str, Any], terms: bytes) -> bytes:
    """The key of an offer, by whoever takes a share. SealBroken unless a worker of this version
    offered it for these terms."""
    name, wrapped = _name(row["job_id"], row["attempt"]), bytes(row["wrapped_key"])
    return sealing.unwrap(secrets, row["content_key_id"], name, wrapped, terms)


def share_name(job_id: str, attempt: int, number: int, of: int) -> str:
    """What the sums of a share are bound to."""
    return f"{_name(job_id, attempt)}/{number}/{of}"


def seal(key: bytes, name: str, sums: bytes) -> bytes:
    """Sums under the key of their offer, each time with another key made of it: one key seals one
    stream."""
    salt = sealing.new_data_key()
    return salt + sealing.seal_stream(_of_share(key, name, salt), name, sums)


def unseal(key: bytes, name: str, sealed: bytes) -> bytes:
    """What `seal` sealed under this name; SealBroken for anything else."""
    salt, stream = sealed[:SALT_BYTES], sealed[SALT_BYTES:]
    opened = sealing.open_stream(_of_share(key, name, salt), name, len(stream), [stream])
    return bytes(opened)


def _of_share(key: bytes, name: str, salt: bytes) -> bytes:
    return hmac.digest(key, b"discreet/share/v1\0" + salt + name.encode(), hashlib.sha256)


def _name(job_id: str, attempt: int) -> str:
    return f"shares/{VERSION}/{job_id}/{attempt}"


# Helping ------------------------------------------------------------------------------------------
# What an idle worker does of another's release: it takes a share, reads the chunks that it lies in
# from where the content is stored, and hands back the sums, sealed.
#
# It looks at what was accepted as the worker that claims a job does (`running.claim`): no content
# is opened for a job or a dataset whose rows were changed. It charges nothing: data were touched
# before the share was offered. Whatever it cannot do is the other worker's.

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
    said = tamper_seals.sealed_text(row)
    keys = services.secrets
    if not tamper_seals.is_accepted(keys, row, row["tamper_seal"], said=said):
        raise CannotHelp("it is not as it was accepted")
    plan = Plan.model_validate(row["plan"])
    if plan.parts_by is None:
        raise CannotHelp("it is not read by parts alone")
    if any(one["wrapped_key"] is None or one["stays"] is not None for one in data):
        raise CannotHelp("its data are not stored here")
    problem = JOBS[row["kind"]].model_validate(row["problem"])
    problem, _ = await naming.opened(services.database, row["tenant_id"], problem)
    key = unwrap(keys, share.row, tamper_seals.release_terms(said, data))
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
    if len(sums) > MOST_SUMS_BYTES:
        raise CannotHelp("its sums are too many")
    name = share_name(share.job_id, share.attempt, share.number, share.of)
    sealed = await anyio.to_thread.run_sync(seal, job.key, name, sums)
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
