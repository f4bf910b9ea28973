"""A session in a coordinator's hands: its lease, its rounds as they are kept, and its end."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.errors import Gone
from discreet.observability import faults
from discreet.problems.federation import FederatedProblem, FederationTerms, Member
from discreet.problems.plans import Plan
from discreet.storage import jobs, ledger, log_memory, sealing, sessions
from discreet.storage.database import SYSTEM
from discreet.usecases import endings, published
from discreet.usecases.rotation import sealing_step, still_known
from discreet.usecases.running import CancelRequested, LostJob
from discreet.usecases.services import Services
from discreet.usecases.sessions import records

ACTOR = "rpc"


@dataclass(frozen=True)
class SessionLease:
    """A session in this process's hands. `attempt` is the fencing token."""

    job_id: str
    session_id: str
    tenant_id: str
    attempt: int
    holder: str
    state: str
    seed: int | None
    problem: FederatedProblem
    plan: Plan
    terms: FederationTerms
    roster: bytes | None
    roster_signature: bytes | None
    owner_key: bytes | None
    members: tuple[Member, ...]
    """The roster; empty until it is signed."""
    accounts: dict[str, str]
    charges: dict[str, dict[str, Any]]
    """By agent: the ledger entry that reserved on its account."""
    receipts: frozenset[str]
    round: int
    session_state: bytes | None
    broadcast: bytes | None
    transcript: bytes
    touched: bool
    released: bytes | None
    traceparent: str | None = None

    @property
    def simulation(self) -> bool:
        return getattr(self.problem, "mode", "private") == "simulation"


@dataclass(frozen=True)
class Farewell:
    """How a session ended."""

    state: str
    code: str
    broadcast: bytes
    transcript: bytes
    rounds: int
    charged: bool
    blamed: tuple[tuple[str, str], ...] = ()
    """Fingerprint and cause of who was missing."""


@dataclass(frozen=True)
class Watched:
    """What has changed about a leased session."""

    wanted: bool
    approved: bool
    ended: bool
    cancel_requested: bool


async def take(services: Services, job_id: str, holder: str) -> SessionLease | None:
    """Run the session from here on, or None: another process runs it (and is asked for it), or it
    has ended."""
    async with services.database.transaction(SYSTEM) as connection:
        taken = await sessions.take(connection, job_id, holder, services.settings.lease_seconds)
    if taken is None:
        return None
    async with services.database.transaction(SYSTEM) as connection:
        session, job = taken
        agents = await sessions.agents(connection, job_id)
        entries = await ledger.reservation(connection, job_id)
        stored = await jobs.find_release(connection, job_id)
    faults.point("session.taken")
    listed = set() if session["roster"] is None else records.listed_of(session["roster"])
    rows = [row for row in agents if row["fingerprint"] in listed]
    state = broadcast = released = None
    if session["sealed"] is not None:
        plain = sealing.unseal_whole(
            services.secrets,
            session["content_key_id"],
            _sealed_name(job_id),
            bytes(session["sealed"]),
        )
        size = int.from_bytes(plain[:8], "big")
        state, broadcast = plain[8 : 8 + size], plain[8 + size :]
    if stored is not None:
        key_id, sealed = stored["content_key_id"], bytes(stored["sealed"])
        released = sealing.unseal_whole(services.secrets, key_id, f"release/{job_id}", sealed)
    return SessionLease(
        job_id=job_id,
        session_id=session["id"],
        tenant_id=session["tenant_id"],
        attempt=job["attempt"],
        holder=holder,
        state=job["state"],
        seed=job["seed"],
        problem=records.read_problem(job),
        plan=Plan.model_validate(job["plan"]),
        terms=FederationTerms.model_validate(session["terms"]),
        roster=_bytes(session["roster"]),
        roster_signature=_bytes(session["roster_signature"]),
        owner_key=_bytes(session["owner_key"]),
        members=tuple(records.member(row) for row in rows),
        accounts={row["fingerprint"]: row["account_id"] for row in rows},
        charges={
            entry["account_id"]: {"seq": entry["seq"], "hash": bytes(entry["hash"]).hex()}
            for entry in entries
            if entry["kind"] == "reserve"
        },
        receipts=frozenset(row["fingerprint"] for row in rows if row["receipt"] is not None),
        round=session["round"],
        session_state=state,
        broadcast=broadcast,
        transcript=_bytes(session["transcript"])
        or hashlib.sha256(_bytes(session["roster"]) or b"").digest(),
        touched=any(entry["kind"] == "data_touched" for entry in entries),
        released=released,
        traceparent=job["traceparent"],
    )


async def renew(services: Services, lease: SessionLease) -> Watched:
    """Extend the lease. LostJob when the session is another's by now."""
    async with services.database.transaction(SYSTEM) as connection:
        row = await sessions.renew(
            connection, lease.job_id, lease.holder, lease.attempt, services.settings.lease_seconds
        )
    if row is None:
        raise LostJob()
    wanted = row["wanted"] not in (None, lease.holder)
    return Watched(wanted, row["approved"], row["state"] in jobs.FINAL, row["cancel_requested"])


async def give_back(services: Services, lease: SessionLease) -> None:
    """This process stops, or nobody is connected to it."""
    async with services.database.transaction(SYSTEM) as connection:
        await sessions.give_back(connection, lease.job_id, lease.holder)


async def abandoned(services: Services) -> list[str]:
    """Sessions that must go on and that nobody runs."""
    async with services.database.transaction(SYSTEM) as connection:
        return await sessions.abandoned(connection)


async def end_unsigned(services: Services) -> int:
    """End the sessions whose roster nobody signed in time, and how many these were. Nothing is
    reserved before the signature, and what is settled is read from the ledger all the same. A
    signature that comes at this moment is first or too late: both lock job and session."""
    default = FederationTerms.model_fields["approve_seconds"].default
    async with services.database.transaction(SYSTEM) as connection:
        overdue = await sessions.overdue(connection, default)
    count = 0
    for job_id in overdue:
        async with services.database.transaction(SYSTEM) as connection:
            found = await sessions.find(connection, job_id)
            assert found is not None
            job = await jobs.lock(connection, job_id, found["tenant_id"])
            session = await sessions.lock(connection, job_id)
            assert job is not None
            assert session is not None
            if job["state"] != "awaiting_agents" or session["approved_at"] is not None:
                continue
            await endings.fail(connection, job_id, "roster_unsigned", ACTOR)
            count += 1
    return count


async def seconds_to_join(services: Services, lease: SessionLease) -> float:
    """What is left of the time to join; may be negative."""
    async with services.database.transaction(SYSTEM) as connection:
        return lease.terms.join_seconds - await sessions.seconds_since_approval(
            connection, lease.job_id
        )


async def keep_receipt(
    services: Services, lease: SessionLease, fingerprint: str, receipt: Mapping[str, Any]
) -> None:
    """The agent's countersignature of its charge."""
    async with services.database.transaction(SYSTEM) as connection:
        await sessions.keep_receipt(connection, lease.job_id, fingerprint, receipt)


async def begin(services: Services, lease: SessionLease) -> None:
    """Begin the rounds: the agents have joined, and the job runs."""
    async with services.database.transaction(SYSTEM) as connection:
        job = await _hold(connection, lease)
        if job["state"] == "awaiting_agents":
            await sessions.begin(connection, lease.job_id)
            await jobs.add_event(connection, lease.job_id, "state", {"state": "running"})


async def touch(services: Services, lease: SessionLease) -> None:
    """Commit `data_touched`; falls before the first message of any agent is accepted."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, lease)
        if lease.charges:
            await log_memory.require(connection, services.database.log_memory.last)
            await ledger.touch(connection, lease.job_id, ACTOR)
    faults.point("session.touched")


@sealing_step
async def keep(
    services: Services,
    lease: SessionLease,
    *,
    number: int,
    state: bytes,
    broadcast: bytes,
    transcript: bytes,
) -> None:
    """State and broadcast after `number` steps, sealed, before any agent sees the broadcast.

    In one round trip, for the agents wait for it: where the key was retired meanwhile, the row is
    written once more.
    """
    plain = len(state).to_bytes(8, "big") + state + broadcast
    keys = services.secrets
    key_id, sealed = (
        keys.content_key_id,
        sealing.seal_whole(keys, _sealed_name(lease.job_id), plain),
    )
    if not await sessions.keep_round(
        services.database,
        lease.job_id,
        lease.attempt,
        number=number,
        key_id=key_id,
        sealed=sealed,
        transcript=transcript,
    ):
        raise LostJob()
    still_known(services, keys)


@sealing_step
async def keep_last(
    services: Services,
    lease: SessionLease,
    *,
    number: int,
    broadcast: bytes,
    transcript: bytes,
    released: bytes,
) -> None:
    """The end of the last step: what was released, and the broadcast for agents that come late. No
    state is left.

    CancelRequested when the job shall be cancelled.
    """
    keys = services.secrets
    sealed = sealing.seal_whole(keys, _sealed_name(lease.job_id), bytes(8) + broadcast)
    key_id, sealed_release = (
        keys.content_key_id,
        sealing.seal_whole(keys, f"release/{lease.job_id}", released),
    )
    async with services.database.transaction(SYSTEM) as connection:
        if (await _hold(connection, lease))["cancel_requested"]:
            raise CancelRequested
        await sessions.keep(
            connection,
            lease.job_id,
            number=number,
            key_id=key_id,
            sealed=sealed,
            transcript=transcript,
        )
        await jobs.store_release(connection, lease.job_id, lease.attempt, key_id, sealed_release)
        still_known(services, keys)
        faults.point("session.released")


async def farewell(services: Services, session_id: str) -> Farewell | None:
    """How a session ended, for agents that come late; None while it continues. Gone where its last
    message was deleted."""
    async with services.database.transaction(SYSTEM) as connection:
        session = await sessions.find_by_id(connection, session_id)
        job = None if session is None else await jobs.find(connection, session["job_id"])
        if session is None or job is None or job["state"] not in jobs.FINAL:
            return None
        if job["state"] == "succeeded" and job["result_gone_at"] is not None:
            raise Gone(published.gone(job), code="result_gone")
        entries = await ledger.reservation(connection, job["id"])
        blamed = await sessions.blamed(connection, job["id"])
    broadcast = b""
    if session["sealed"] is not None:
        plain = sealing.unseal_whole(
            services.secrets,
            session["content_key_id"],
            _sealed_name(job["id"]),
            bytes(session["sealed"]),
        )
        broadcast = plain[8 + int.from_bytes(plain[:8], "big") :]
    return Farewell(
        state=job["state"],
        code=job["error_code"] or "",
        broadcast=broadcast if job["state"] == "succeeded" else b"",
        transcript=_bytes(session["transcript"]) or b"",
        rounds=session["round"],
        charged=any(entry["kind"] == "commit" for entry in entries),
        blamed=tuple((one["fingerprint"], one["cause"]) for one in blamed),
    )


async def fail(
    services: Services, lease: SessionLease, code: str, blamed: Mapping[str, str] | None = None
) -> bool:
    """End the job with a fixed code; whether agents were charged. `blamed`: by agent the cause for
    which it could not go on without it."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, lease)
        for fingerprint, cause in sorted((blamed or {}).items()):
            await sessions.blame(connection, lease.job_id, fingerprint, cause)
        return await endings.fail(connection, lease.job_id, code, ACTOR)


async def cancel(services: Services, lease: SessionLease) -> bool:
    """Cancel the job as requested; returns whether agents were charged."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, lease)
        settled = await ledger.settle(connection, lease.job_id, ACTOR)
        await jobs.end(connection, lease.job_id, "cancelled")
    return any(entry.kind == "commit" for entry in settled)


async def _hold(connection: Any, lease: SessionLease) -> dict[str, Any]:
    row = await sessions.hold(connection, lease.job_id, lease.attempt)
    if row is None:
        raise LostJob()
    return row


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _sealed_name(job_id: str) -> str:
    return f"session/{job_id}"
