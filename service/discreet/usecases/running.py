"""A worker's steps, each one transaction under the job's fencing token.

    claim → open_content → touch → keep_release → publish   the way of a job that succeeds
    renew                                                   meanwhile: the lease, and whether the
                                                            job shall be cancelled
    count_failure, hand_back, cancel                        the other ends; what ends the job
                                                            settles it by the one rule

The rule: when any attempt has touched data the full price is committed, otherwise it is released in
full.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import anyio.to_thread
import structlog
from anyio.lowlevel import checkpoint
from pydantic import ValidationError

from discreet.errors import DiscreetError
from discreet.ledger.certificates import (
    FAILURE_ASSUMPTION,
    NOT_COVERED,
    TIMING_ASSUMPTION,
    certificate,
    digest_of_headline,
    sign,
)
from discreet.observability import faults
from discreet.privacy import filters
from discreet.privacy.units import Price
from discreet.problems import DATASETS, JOBS, read_as_one
from discreet.problems.base import Problem
from discreet.problems.contents import framed
from discreet.problems.plans import Plan
from discreet.problems.rehearsals.job import Rehearsal
from discreet.problems.reuse import ProblemOnData, weights
from discreet.storage import datasets as dataset_rows
from discreet.storage import (
    jobs,
    ledger,
    log_memory,
    queue,
    results,
    sealing,
    sources,
    tamper_seals,
)
from discreet.storage.database import SYSTEM
from discreet.storage.keys.provider import KeysUnavailable
from discreet.usecases import datasets, endings, naming, releases
from discreet.usecases.budgets import CAPS, cap_of
from discreet.usecases.releases import ReusedRelease
from discreet.usecases.rotation import sealing_step, still_known
from discreet.usecases.services import Services
from discreet.usecases.spooling import Spooled, spool_large
from discreet_client import canonical

# Claims -------------------------------------------------------------------------------------------
# A job claimed by a worker, and how the worker may lose it before its end.


class LostJob(DiscreetError):
    """The job was given to another worker, or ended."""

    code = "lost_job"


class CancelRequested(Exception):
    """Somebody asked for the job's end."""


class KeyUnknown(DiscreetError):
    """What the job had released is sealed under a master key that this machine does not know,
    perhaps not yet."""

    code = "master_key_unknown"

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__()
        self.job_id, self.attempt = job_id, attempt


class KeysAway(DiscreetError):
    """The place where keys lie does not answer, so that what the job had released cannot be opened.
    That is not a failure of the job."""

    code = "keys_unavailable"

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__()
        self.job_id, self.attempt = job_id, attempt


@dataclass(frozen=True)
class Claim:
    """A job in this worker's hands. `attempt` is the fencing token."""

    job_id: str
    attempt: int
    data: tuple[str, ...]
    """The dataset that it reads; or, with `block`, the versions of all blocks, in the order in
    which they are put."""
    simulation: bool
    seed: int | None
    problem: Problem
    public: Any
    plan: Plan
    released: bytes | None
    traceparent: str | None = None
    queued_at: datetime | None = None
    block: Any = None
    """The public part of one block, as the kind's model, where `public` is that of several as one
    dataset."""
    stays: int = 0
    """How many contents of that data stay at places, from which they are fetched."""
    terms: bytes = b""
    """What a release will be bound to: `tamper_seals.release_terms`."""
    objects: Mapping[str, Mapping[str, str]] | None = None
    asked: Mapping[str, Any] | None = None
    """The problem of a dataset as it is stored, with ids where it names public objects; None of any
    other, in which private data stand: those of a simulation, or an operator's."""
    firsts: tuple[ReusedRelease, ...] = ()
    """The jobs that are asked again: what these released is finished, and nothing else happens."""

    @property
    def keeps_release(self) -> bool:
        """Whether its release is kept after it ends. Without a dataset all data were in the
        problem, so there is nothing to ask again."""
        return bool(self.data) and not self.firsts

    @property
    def weights(self) -> list[float]:
        """Weights of the first jobs' releases."""
        return weights([Plan.model_validate(first.plan) for first in self.firsts])


Held = Claim | KeyUnknown | KeysAway
"""A job in this worker's hands; the last two: of which what was released does not open here."""


# Running ------------------------------------------------------------------------------------------

log = structlog.get_logger()

ACTOR = "worker"
_MOSTLY_NOISE = b'"mostly_noise":true'
"""In the canonical text of a result; no text within one holds quotes that are not escaped."""


async def claim(services: Services, job_id: str) -> Claim | None:
    """Claim the job; None if there is nothing to claim. KeyUnknown if this machine lacks its
    master key, KeysAway if the place of keys does not answer now."""
    async with services.database.transaction(SYSTEM) as connection:
        row = await jobs.claim(connection, job_id, services.settings.lease_seconds)
        if row is None:
            return None
        if row["cancel_requested"]:
            await _end_cancelled(connection, job_id)
            return None
        if row["failures"] >= services.settings.max_attempts:
            await endings.fail(connection, job_id, await lost_code(connection, row), ACTOR)
            return None
        data = await sources.of_job(connection, row)
        if not sources.are_there(row, data):
            await endings.fail(connection, job_id, "data_erased", ACTOR)
            return None
        try:
            known, said = True, tamper_seals.sealed_text(row)
            accepted = tamper_seals.is_accepted(
                services.secrets, row, row["tamper_seal"], said=said
            )
        except tamper_seals.JobKeyUnknown:  # the attempt is counted, as for a master key
            known = accepted = False
        if known and not accepted:
            log.error("the job is not as it was accepted", job=job_id)
            await endings.fail(connection, job_id, "job_altered", ACTOR)
            return None
        try:
            problem, plan = (
                JOBS[row["kind"]].model_validate(row["problem"]),
                Plan.model_validate(row["plan"]),
            )
        except (KeyError, ValidationError) as error:
            log.error("the job is not one of this version", job=job_id, error=type(error).__name__)
            await endings.fail(connection, job_id, "job_outdated", ACTOR)
            return None
        if data and not _is_described(row["kind"], data, plan):
            log.error("the data are not described as they were for the plan", job=job_id)
            await endings.fail(connection, job_id, "job_altered", ACTOR)
            return None
        stored = await jobs.find_release(connection, job_id)
    faults.point("claim.committed")
    if not known:
        raise KeyUnknown(job_id, row["attempt"])
    terms = tamper_seals.release_terms(said, data)
    released: bytes | None = None
    firsts: list[ReusedRelease] = []
    try:
        problem, held = await naming.opened(services.database, row["tenant_id"], problem)
        if stored is not None:
            released = releases.unseal(services.secrets, stored, terms)
        elif isinstance(problem, ProblemOnData) and problem.first_jobs:
            firsts, data = await releases.firsts(services, row["tenant_id"], problem.first_jobs)
            released = b"".join(first.released for first in firsts)
        elif (
            isinstance(problem, Rehearsal) and problem.around is not None
        ):  # of which nothing but figures is made
            (first,), _ = await releases.firsts(services, row["tenant_id"], [problem.around.job])
            released = first.released
    except releases.MasterKeyAbsent:
        raise KeyUnknown(job_id, row["attempt"]) from None
    except KeysUnavailable:
        raise KeysAway(job_id, row["attempt"]) from None
    except (sealing.SealBroken, releases.NotAsked, naming.ObjectAltered) as error:
        code = "release_unreadable" if isinstance(error, sealing.SealBroken) else error.code
        log.error("what the job needs cannot be used", job=job_id, code=code)
        async with services.database.transaction(SYSTEM) as connection:
            if await jobs.hold(connection, job_id, row["attempt"]) is not None:
                await endings.fail(connection, job_id, code, ACTOR)
        return None
    return Claim(
        job_id=job_id,
        attempt=row["attempt"],
        data=tuple(sources.versions_of(row)),
        # Without a dataset the data stand in the problem, which is refused unless they are public.
        simulation=all(one["mode"] == "simulation" for one in data),
        seed=row["seed"],
        problem=problem,
        public=read_as_one(row["kind"], [one["public"] for one in data]),
        block=_one_block(row["kind"], data),
        stays=sum(one["stays"] is not None for one in data),
        plan=plan,
        released=released,
        traceparent=row["traceparent"],
        queued_at=row["created_at"],
        terms=terms,
        asked=row["problem"] if data else None,
        firsts=tuple(firsts),
        objects=held,
    )


async def renew(services: Services, held: Claim) -> bool:
    """Extend the lease; True when the job shall be cancelled. LostJob when it is no longer ours."""
    async with services.database.transaction(SYSTEM) as connection:
        cancel = await jobs.renew(
            connection, held.job_id, held.attempt, services.settings.lease_seconds
        )
    if cancel is None:
        raise LostJob()
    return cancel


async def open_content(
    services: Services, held: Claim, between: Callable[[], Awaitable[None]] = checkpoint
) -> bytes | bytearray | Spooled:
    """The content, opened by this process, which shows nobody anything: one that does not open
    charges nothing. A large one that is read by parts was opened and lies sealed again.

    Nothing may be done with it before `touch`. SealBroken when it is not what was stored;
    StorageTrouble when it does not come now, MasterKeyUnknown when it is sealed for another
    installation; PlaceFails when it stays at a place and is not to be had from there. Empty without
    a dataset. `between` is awaited after each of several contents but the last.
    """
    sampled = held.plan.sampled_by is not None
    if held.data and (sampled or held.plan.parts_by is not None):
        spooled = await spool_large(services, held.data, between, sampled=sampled)
        if spooled is not None:
            return spooled
    found = list[bytes | bytearray]()
    for one in held.data:
        if found:
            await between()
        found.append(await datasets.open_content(services, one))
    return framed(found) if held.block is not None else found[0] if found else b""


async def touch(services: Services, held: Claim) -> None:
    """Commit `data_touched`, before content is handed over: from then on the job is charged.

    CancelRequested instead when the job shall be cancelled: who asked for that was told that
    nothing will be charged.
    """
    async with services.database.transaction(SYSTEM) as connection:
        await _hold_wanted(connection, held)
        if not held.simulation:
            await log_memory.require(connection, services.database.log_memory.last)
            await ledger.touch(connection, held.job_id, ACTOR)
            faults.point("touch.written")
        if held.stays:  # after the padding: everybody sees the time, which tells how long it took
            await dataset_rows.seen(connection, held.data)
    faults.point("touch.committed")


@sealing_step
async def keep_release(services: Services, held: Claim, released: bytes) -> Claim:
    """Store what was released, sealed: from here on no attempt touches data again, and none is
    cancelled. The claim with it.

    CancelRequested instead when the job shall be cancelled.
    """
    keys = services.secrets
    columns = releases.seal(keys, held.job_id, held.terms, released, kept=held.keeps_release)
    async with services.database.transaction(SYSTEM) as connection:
        await _hold_wanted(connection, held)
        await jobs.store_release(
            connection, held.job_id, held.attempt, keys.content_key_id, **columns
        )
        await jobs.forget(connection, held.job_id)
        still_known(services, keys)
        faults.point("release.written")
    faults.point("release.committed")
    return replace(held, released=released)


async def report(services: Services, held: Claim, step: int, total: int) -> None:
    async with services.database.transaction(SYSTEM) as connection:
        await jobs.report(connection, held.job_id, held.attempt, step, total)


async def publish(
    services: Services,
    held: Claim,
    result: bytes,
    tables: Mapping[str, bytes],
    *,
    headline: str | None = None,
    assumptions: Sequence[str] | None = None,
    federation: Mapping[str, Any] | None = None,
) -> None:
    """Result, certificate and ledger commit in one transaction; the certificate binds the very
    bytes of `result`, canonical JSON (RFC 8785), of `tables`, Parquet, and of `headline`, which is
    for lists. `assumptions` stand in for a `release`'s, `federation` is a session's part of the
    certificate. CancelRequested when it shall be cancelled."""
    digests = await anyio.to_thread.run_sync(digests_of, result, tables)
    release_digest = await anyio.to_thread.run_sync(_release_digest, held)
    problem_digest = await anyio.to_thread.run_sync(_problem_digest, held)
    said = (
        None
        if headline is None
        else await anyio.to_thread.run_sync(digest_of_headline, headline, result)
    )
    async with services.database.transaction(SYSTEM) as connection:
        await _hold_wanted(connection, held)
        passed = await filters_passed(connection, held)
        settled = await ledger.settle(connection, held.job_id, ACTOR)
        faults.point("publish.settled")
        body = certificate(
            simulation=held.simulation,
            price=held.plan.total,
            unit=held.plan.unit,
            neighbours=held.plan.neighbours,
            events=[]
            if held.firsts
            else [event.model_dump(mode="json") for event in held.plan.events],
            filters=passed,
            assumptions=[
                *held.plan.assumptions,
                *(release_assumptions(held) if assumptions is None else assumptions),
            ],
            not_covered=[
                *held.plan.not_covered,
                *(
                    NOT_COVERED
                    if assumptions is None and not (held.firsts or held.simulation)
                    else ()
                ),
            ],
            model=held.plan.model,
            versions={name: version(name) for name in ("discreet", "numpy", "scipy")},
            ledger_entries=[entry.place for entry in settled],
            job=held.job_id,
            result_digest=digests[0],
            tables=digests[1],
            headline_digest=said,
            problem_digest=problem_digest,
            release_digest=release_digest,
            objects=held.objects or {},
            follows_from=[first.certificate for first in held.firsts],
            federation=federation,
            cryptographic=held.problem.evidence(held.plan, result),
            source=None if held.plan.source is None else held.plan.source.model_dump(mode="json"),
            public_digest=held.plan.public_digest,
            exposure=None
            if held.plan.exposure is None
            else held.plan.exposure.model_dump(mode="json"),
        )
        await results.publish(
            connection, held.job_id, result, sign(body, services.secrets.signer), tables
        )
        faults.point("publish.written")
        await jobs.end(
            connection,
            held.job_id,
            "succeeded",
            mostly_noise=_MOSTLY_NOISE in result,
            headline=headline,
        )
        faults.point("publish.ended")
    faults.point("publish.committed")


async def fail(services: Services, held: Claim, code: str, *, about: str | None = None) -> None:
    """No further attempt can help. Charged only if an earlier attempt has touched data. `about` as
    of `endings.fail`."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, held)
        await endings.fail(connection, held.job_id, code, ACTOR, about=about)


async def count_failure(
    services: Services, held: Claim | KeyUnknown, code: str, *, about: str | None = None
) -> None:
    """This attempt ended without a result: the job waits for the next one, or fails if it was
    the last."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, held)
        row = await jobs.release(connection, held.job_id, failed=True)
        if row["cancel_requested"]:
            await _end_cancelled(connection, held.job_id)
        elif row["failures"] >= services.settings.max_attempts:
            await endings.fail(connection, held.job_id, code, ACTOR, about=about)
    faults.point("failure.committed")


async def hand_back(services: Services, held: Held) -> None:
    """Return the job for another worker, since this one stops or has no keys now; the attempt
    does not count."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, held)
        row = await jobs.release(connection, held.job_id, failed=False)
        if row["cancel_requested"]:
            await _end_cancelled(connection, held.job_id)
        elif not await queue.waits(connection, held.job_id):
            await queue.enqueue(connection, held.job_id, priority=-row["fair_tag"])


async def cancel(services: Services, held: Claim) -> None:
    """End the job as cancelled, after its child has gone."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, held)
        await _end_cancelled(connection, held.job_id)


def _one_block(kind: str, data: Sequence[Mapping[str, Any]]) -> Any:
    """The public part of one of the blocks that a job reads; None where it reads none."""
    return (
        DATASETS[kind].read_public(data[0]["public"])
        if data and data[0]["source_id"] is not None
        else None
    )


def _is_described(kind: str, data: Sequence[Mapping[str, Any]], plan: Plan) -> bool:
    """Whether the public part is that of which the plan was made. No job is accepted that was
    planned for another revision, and none of the data is corrected while it waits or runs."""
    public = read_as_one(kind, [one["public"] for one in data])
    digest = canonical.digest(public.model_dump(mode="json", exclude_none=True))
    return plan.public_digest == digest


def _release_digest(held: Claim) -> str | None:
    """SHA-256, hexadecimal, of what this job released, where that is kept; of these bytes, whatever
    a row says."""
    return (
        sha256(held.released).hexdigest()
        if held.released is not None and held.keeps_release
        else None
    )


async def _hold(connection: Any, held: Held) -> None:
    if await jobs.hold(connection, held.job_id, held.attempt) is None:
        raise LostJob()


async def _hold_wanted(connection: Any, held: Claim) -> None:
    """The same for a step that a job which shall be cancelled takes no more: what was said to
    whoever cancelled it holds, however the two meet."""
    wanted = await jobs.hold(connection, held.job_id, held.attempt)
    if wanted is None:
        raise LostJob()
    if not wanted:
        raise CancelRequested


async def _end_cancelled(connection: Any, job_id: str) -> None:
    await ledger.settle(connection, job_id, ACTOR)
    await jobs.end(connection, job_id, "cancelled")


def _problem_digest(held: Claim) -> str | None:
    """SHA-256, hexadecimal, of what was asked, where that is public: of private data it would let
    others guess."""
    return None if held.asked is None else canonical.digest(held.asked)


# Certifying ---------------------------------------------------------------------------------------
# What the certificate of a job says besides its price: digests, assumptions, and the filters that
# hold.


def digests_of(result: bytes, tables: Mapping[str, bytes]) -> tuple[str, dict[str, str]]:
    """SHA-256 of the result and of each table, hexadecimal."""
    return sha256(result).hexdigest(), {
        name: sha256(parquet).hexdigest() for name, parquet in tables.items()
    }


def release_assumptions(held: Claim) -> tuple[str, ...]:
    """The assumptions on which the price of a job rests; none if it releases nothing itself."""
    if held.firsts:  # it reuses what earlier jobs released
        return ()
    timing = TIMING_ASSUMPTION.format(quantum=held.plan.resources.release_quantum_seconds)
    return (FAILURE_ASSUMPTION,) if held.simulation else (FAILURE_ASSUMPTION, timing)


async def filters_passed(connection: Any, held: Claim) -> list[str]:
    """Filters that hold on every account of the data with this job's price counted; caps are left
    out, because they guarantee nothing more."""
    if held.simulation:
        return []
    accounts = await ledger.charged_accounts(connection, held.job_id)
    if not accounts:
        return []
    balances = await ledger.balances(connection, accounts)
    return [
        one.name
        for one in filters.FILTERS
        if all(
            filters.holds(one, balance.totals, Price.zero(), cap_of(balance))
            for balance in balances.values()
            if balance.scope not in CAPS
        )
    ]


# Leases -------------------------------------------------------------------------------------------
# Keeping a lease while the work under it is done, for jobs in a worker and sessions in an rpc
# process. The database decides whether a lease still holds, by its own clock and the fencing token;
# here is only the task that asks, and ends the work if it is lost.

RENEWALS = 4
"""Renewals in the time of one lease, at least: some may be lost."""
LONGEST_PAUSE_SECONDS = 1.0
"""So soon a wish to cancel is noticed, however long the lease."""


def pause_seconds(lease_seconds: float) -> float:
    """How long to wait between two renewals."""
    return min(LONGEST_PAUSE_SECONDS, lease_seconds / RENEWALS)


@contextlib.asynccontextmanager
async def kept(
    job_id: str, renew: Callable[[], Awaitable[Exception | None]], pause: Callable[[], float]
) -> AsyncIterator[None]:
    """Renew every `pause()` seconds while the body runs.

    What `renew` returns interrupts the body, which then raises it; so does LostJob. Any other error
    is logged and nothing more: a database that does not answer for a moment is no reason to lose
    the work, publishing decides.
    """
    body = asyncio.current_task()
    assert body is not None
    reason: Exception | None = None

    async def keep() -> None:
        nonlocal reason
        while reason is None:
            await asyncio.sleep(pause())
            try:
                reason = await renew()
            except LostJob as lost:
                reason = lost
            except Exception as error:
                log.warning("lease not renewed", job=job_id, error=type(error).__name__)
        body.cancel()

    keeper = asyncio.create_task(keep())
    try:
        yield
    except asyncio.CancelledError:
        if reason is None:
            raise
        body.uncancel()
        raise reason from None
    finally:
        keeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeper


# Repairs ------------------------------------------------------------------------------------------
# Jobs whose worker is gone: they are put on the queue again, or ended.


async def repair(services: Services) -> int:
    """Put jobs back on the queue that no worker would take; returns their number.

    Reaper and reconciler in one: a running job whose lease ran out, and a queued one whose queue
    entry is gone. What killed workers left of shares goes too.
    """
    async with services.database.transaction(SYSTEM) as connection:
        if not await jobs.hold_repair(connection):
            return 0
        found = await jobs.stranded(connection, queued_seconds=2 * services.settings.lease_seconds)
        repaired = 0
        for job_id, tag in found:
            if not await queue.waits(connection, job_id):
                await queue.enqueue(connection, job_id, priority=-tag)
                repaired += 1
        await jobs.forget_left(connection)
        await queue.forget_dead(connection)
        await jobs.forget_requests(connection, hours=48)
    return repaired


async def lost_code(connection: Any, row: Mapping[str, Any]) -> str:
    """The code of a job whose last worker was lost. While it worked on the data, what ended it may
    depend on them."""
    touched = any(
        entry["kind"] == "data_touched" for entry in await ledger.reservation(connection, row["id"])
    )
    hidden = touched and await jobs.find_release(connection, row["id"]) is None
    return "solver_failed" if hidden else "worker_lost"
