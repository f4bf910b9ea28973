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
from collections.abc import Awaitable, Callable, Collection, Mapping
from importlib.metadata import version
from typing import Any, TypeVar

import anyio.to_thread
import structlog
from prometheus_client import Counter

from discreet.observability import faults
from discreet.storage import jobs, sealing, shares
from discreet.storage.database import SYSTEM
from discreet.storage.secrets import Secrets
from discreet.usecases.claims import Claim, LostJob
from discreet.usecases.services import Services

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
            await shares.offer(
                connection, held.job_id, held.attempt, SHARES, keys.content_key_id, wrapped
            )
            faults.point("shares.offered")
        faults.point("shares.open")
        self._tell()

    async def _take(self) -> int | None:
        async with self._services.database.transaction(SYSTEM) as connection:
            return await shares.take_own(connection, self._held.job_id, self._held.attempt)

    async def _returned(self, wanted: Collection[int]) -> dict[int, bytes]:
        job_id, attempt = self._held.job_id, self._held.attempt
        async with self._services.database.transaction(SYSTEM) as connection:
            sealed = await shares.returned(
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
            await shares.close(connection, self._held.job_id, self._held.attempt)
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
