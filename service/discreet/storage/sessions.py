"""Federated sessions: tokens, agents, groups, rosters, leases and the state between rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, LiteralString

from sqlalchemy import delete, func, insert, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import SYSTEM, Database, Row, one_of
from discreet.storage.tables import (
    FederatedSession,
    GroupMember,
    Job,
    SessionAgent,
    SessionToken,
)

OPEN = ("awaiting_agents", "running")
"""States of a job whose session may still go on."""

MOST_AT_ONCE = 100

MEMBER = ("fingerprint", "name", "public_key", "account_id", "unit", "announcement", "speaks")
"""What a session has of an agent that joins another one without a token."""


# Reading ------------------------------------------------------------------------------------------


async def find(connection: AsyncConnection, job_id: str) -> Row | None:
    """The session of a job."""
    return one_of(
        await connection.execute(select(FederatedSession).where(FederatedSession.job_id == job_id))
    )


async def find_by_id(connection: AsyncConnection, session_id: str) -> Row | None:
    return one_of(
        await connection.execute(select(FederatedSession).where(FederatedSession.id == session_id))
    )


async def agents(connection: AsyncConnection, job_id: str) -> list[Row]:
    """Enrolled agents, sorted by fingerprint."""
    statement = (
        select(SessionAgent).where(SessionAgent.job_id == job_id).order_by(SessionAgent.fingerprint)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def agent(connection: AsyncConnection, job_id: str, fingerprint: str) -> Row | None:
    statement = select(SessionAgent).where(
        SessionAgent.job_id == job_id, SessionAgent.fingerprint == fingerprint
    )
    return one_of(await connection.execute(statement))


async def tokens(connection: AsyncConnection, job_id: str) -> dict[str, int]:
    """The numbers of used and unused tokens, by `used` and `open`."""
    statement = select(func.count(SessionToken.used_by), func.count()).where(
        SessionToken.job_id == job_id
    )
    used, all_of_them = (await connection.execute(statement)).one()
    return {"used": used, "open": all_of_them - used}


# Enrolment ----------------------------------------------------------------------------------------


async def lock(connection: AsyncConnection, job_id: str) -> Row | None:
    """The session, locked until this transaction ends, so that enrolments and approval run one
    after another.

    A transaction that locks the job too must lock it before: `jobs.lock` or `hold`, then this.
    Their locks still allow new rows that refer to the job.
    """
    statement = select(FederatedSession).where(FederatedSession.job_id == job_id).with_for_update()
    return one_of(await connection.execute(statement))


async def set_owner(connection: AsyncConnection, job_id: str, owner: str) -> None:
    await connection.execute(
        update(FederatedSession).where(FederatedSession.job_id == job_id).values(owner=owner)
    )


async def add_tokens(
    connection: AsyncConnection,
    job_id: str,
    macs: Iterable[tuple[bytes, str | None]],
    expires_at: datetime,
) -> None:
    """Add tokens by their MAC, each with the agent's name that it is for, or None for any."""
    rows = [
        {"mac": mac, "job_id": job_id, "expires_at": expires_at, "name": name} for mac, name in macs
    ]
    await connection.execute(insert(SessionToken), rows)


async def use_token(connection: AsyncConnection, job_id: str, mac: bytes, fingerprint: str) -> str:
    """Use a token for an agent. `used` if it is this agent's now, or was before; otherwise the
    reason why not: `unknown`, `expired` or `taken`."""
    statement = (
        select(SessionToken)
        .where(SessionToken.mac == mac, SessionToken.job_id == job_id)
        .with_for_update()
    )
    row = one_of(await connection.execute(statement))
    if row is None:
        return "unknown"
    if row["used_by"] is not None:
        return "used" if row["used_by"] == fingerprint else "taken"
    free = update(SessionToken).where(SessionToken.mac == mac, SessionToken.expires_at > func.now())
    done = await connection.execute(free.values(used_by=fingerprint, used_at=func.now()))
    return "used" if done.rowcount else "expired"


async def invited_as(connection: AsyncConnection, job_id: str, fingerprint: str) -> str | None:
    """The name that this agent's token is for; None if it is for any."""
    statement = select(SessionToken.name).where(
        SessionToken.job_id == job_id, SessionToken.used_by == fingerprint
    )
    return (await connection.execute(statement.limit(1))).scalar_one_or_none()


async def remove_agent(connection: AsyncConnection, job_id: str, fingerprint: str) -> bool:
    """Remove an agent; False if it was not enrolled. Its token cannot be used again."""
    mine = SessionToken.job_id == job_id, SessionToken.used_by == fingerprint
    await connection.execute(update(SessionToken).where(*mine).values(used_by="removed"))
    gone = delete(SessionAgent).where(
        SessionAgent.job_id == job_id, SessionAgent.fingerprint == fingerprint
    )
    return bool((await connection.execute(gone)).rowcount)


async def put_agent(connection: AsyncConnection, **values: Any) -> None:
    """Add an agent, or replace what it announced."""
    statement = upsert(SessionAgent).values(**values)
    fields = ("name", "account_id", "unit", "announcement", "speaks")
    changed = {name: values[name] for name in fields}
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["job_id", "fingerprint"], set_=changed)
    )


async def group(connection: AsyncConnection, tenant_id: str, name: str) -> list[Row]:
    """The members of a standing group."""
    statement = select(GroupMember).where(
        GroupMember.tenant_id == tenant_id, GroupMember.group_name == name
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def save_group(
    connection: AsyncConnection, tenant_id: str, name: str, members: Iterable[Mapping[str, Any]]
) -> None:
    """Make these agents the members of a standing group, in place of its members so far."""
    await connection.execute(
        delete(GroupMember).where(
            GroupMember.tenant_id == tenant_id, GroupMember.group_name == name
        )
    )
    rows = [{column: one[column] for column in MEMBER} for one in members]
    await connection.execute(
        insert(GroupMember), [{"tenant_id": tenant_id, "group_name": name, **row} for row in rows]
    )


async def approve(
    connection: AsyncConnection,
    job_id: str,
    *,
    roster: bytes,
    signature: bytes,
    owner_key: bytes,
    plan: Mapping[str, Any],
    price: Mapping[str, str],
    steps: int,
) -> None:
    """Store the signed roster, and the plan that it makes final."""
    await connection.execute(
        update(FederatedSession)
        .where(FederatedSession.job_id == job_id)
        .values(
            roster=roster,
            roster_signature=signature,
            owner_key=owner_key,
            approved_at=func.clock_timestamp(),
        )
    )
    await connection.execute(
        update(Job).where(Job.id == job_id).values(plan=dict(plan), price=dict(price), total=steps)
    )


# The coordinator's steps --------------------------------------------------------------------------


async def take(
    connection: AsyncConnection, job_id: str, holder: str, lease_seconds: float
) -> tuple[Row, Row] | None:
    """Take the lease for `holder`: the session, and the job with a new fencing token in its
    `attempt`. None if another holder has the lease, who is then asked for it, or the job has ended.
    The job is locked before the session, as everywhere."""
    locked = (
        select(Job.id).where(Job.id == job_id, Job.state.in_(OPEN)).with_for_update(key_share=True)
    )
    if (await connection.execute(locked)).first() is None:
        return None
    free = or_(
        FederatedSession.holder == holder,
        FederatedSession.lease_until.is_(None),
        FederatedSession.lease_until < func.clock_timestamp(),
    )
    statement = (
        update(FederatedSession)
        .where(FederatedSession.job_id == job_id, free)
        .values(holder=holder, lease_until=_in_seconds(lease_seconds), wanted=None)
        .returning(FederatedSession)
    )
    session = one_of(await connection.execute(statement))
    if session is None:
        await connection.execute(
            update(FederatedSession).where(FederatedSession.job_id == job_id).values(wanted=holder)
        )
        return None
    fenced = update(Job).where(Job.id == job_id).values(attempt=Job.attempt + 1).returning(Job)
    job = one_of(await connection.execute(fenced))
    assert job is not None
    return session, job


async def renew(
    connection: AsyncConnection, job_id: str, holder: str, attempt: int, lease_seconds: float
) -> Row | None:
    """Extend the lease; returns `wanted`, `approved`, `state` and `cancel_requested`, or None if
    the lease is no longer the holder's."""
    statement = (
        update(FederatedSession)
        .where(
            FederatedSession.job_id == job_id,
            FederatedSession.holder == holder,
            Job.id == FederatedSession.job_id,
            Job.attempt == attempt,
        )
        .values(lease_until=_in_seconds(lease_seconds))
        .returning(
            FederatedSession.wanted,
            FederatedSession.approved_at.is_not(None).label("approved"),
            Job.state,
            Job.cancel_requested,
        )
    )
    return one_of(await connection.execute(statement))


async def give_back(connection: AsyncConnection, job_id: str, holder: str) -> None:
    """End the lease, so that the next coordinator to ask gets the session."""
    statement = update(FederatedSession).where(
        FederatedSession.job_id == job_id, FederatedSession.holder == holder
    )
    await connection.execute(statement.values(lease_until=None, holder=None, wanted=None))


async def hold(connection: AsyncConnection, job_id: str, attempt: int) -> Row | None:
    """Lock the job for this transaction; None if its fencing token is another one, or it has
    ended."""
    statement = select(Job).where(Job.id == job_id, Job.attempt == attempt, Job.state.in_(OPEN))
    return one_of(await connection.execute(statement.with_for_update(key_share=True)))


async def begin(connection: AsyncConnection, job_id: str) -> None:
    await connection.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(state="running", started_at=func.coalesce(Job.started_at, func.now()))
    )


async def keep_round(
    database: Database,
    job_id: str,
    attempt: int,
    *,
    number: int,
    key_id: str,
    sealed: bytes,
    transcript: bytes,
) -> bool:
    """`hold` and `keep` in a transaction of their own and one round trip, because agents wait for
    it in every round.

    False if the job's fencing token is another one, or the job has ended.
    """
    values = {"number": number, "key_id": key_id, "sealed": sealed, "transcript": transcript}
    return bool(
        await database.change(SYSTEM, _KEEP_ROUND, {"job": job_id, "attempt": attempt, **values})
    )


async def keep(
    connection: AsyncConnection,
    job_id: str,
    *,
    number: int,
    key_id: str,
    sealed: bytes,
    transcript: bytes,
) -> None:
    """Store the sealed state after `number` steps, with the broadcast that follows from it."""
    await connection.execute(
        update(FederatedSession)
        .where(FederatedSession.job_id == job_id)
        .values(round=number, content_key_id=key_id, sealed=sealed, transcript=transcript)
    )


async def keep_receipt(
    connection: AsyncConnection, job_id: str, fingerprint: str, receipt: Mapping[str, Any]
) -> None:
    await connection.execute(
        update(SessionAgent)
        .where(SessionAgent.job_id == job_id, SessionAgent.fingerprint == fingerprint)
        .values(receipt=dict(receipt))
    )


async def blame(connection: AsyncConnection, job_id: str, fingerprint: str, cause: str) -> None:
    """Note why the session could not go on without an agent."""
    await connection.execute(
        update(SessionAgent)
        .where(SessionAgent.job_id == job_id, SessionAgent.fingerprint == fingerprint)
        .values(cause=cause)
    )


async def blamed(connection: AsyncConnection, job_id: str) -> list[Row]:
    """Fingerprint and cause of each agent without whom the session could not go on."""
    statement = (
        select(SessionAgent.fingerprint, SessionAgent.cause)
        .where(SessionAgent.job_id == job_id, SessionAgent.cause.is_not(None))
        .order_by(SessionAgent.fingerprint)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def earlier(
    connection: AsyncConnection, job_id: str, fingerprints: Iterable[str]
) -> list[Row]:
    """The other sessions of the tenant with a signed roster in which one of these agents takes
    part: the job's kind, problem, plan and state, the completed rounds, the number of agents on the
    roster, and which of these agents are."""
    rows = await connection.execute(_EARLIER, {"job": job_id, "agents": list(fingerprints)})
    return [dict(row) for row in rows.mappings()]


async def abandoned(connection: AsyncConnection) -> list[str]:
    """Up to MOST_AT_ONCE jobs with a signed roster whose session no coordinator runs."""
    rows = await connection.execute(_ABANDONED, {"most": MOST_AT_ONCE})
    return [row[0] for row in rows]


async def overdue(connection: AsyncConnection, default_seconds: float) -> list[str]:
    """Up to MOST_AT_ONCE jobs whose roster was not signed within the time in their terms, or
    `default_seconds` if the terms, as those of older jobs, name no time."""
    rows = await connection.execute(_OVERDUE, {"most": MOST_AT_ONCE, "default": default_seconds})
    return [row[0] for row in rows]


async def seconds_since_approval(connection: AsyncConnection, job_id: str) -> float:
    seconds = func.extract("epoch", func.clock_timestamp() - FederatedSession.approved_at)
    return float(
        (
            await connection.execute(select(seconds).where(FederatedSession.job_id == job_id))
        ).scalar_one()
    )


def _in_seconds(seconds: float) -> Any:
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


# The job's row is locked, so that it is read again after a wait for the next holder's transaction.
# Joined without the lock, the statement would still see the old attempt.
_KEEP_ROUND: LiteralString = """
    WITH held AS MATERIALIZED (
      SELECT id FROM jobs
      WHERE id = %(job)s AND attempt = %(attempt)s AND state IN ('awaiting_agents', 'running')
      FOR UPDATE
    )
    UPDATE sessions
    SET round = %(number)s, content_key_id = %(key_id)s, sealed = %(sealed)s,
      transcript = %(transcript)s
    FROM held WHERE sessions.job_id = held.id
    """

# Sessions that wait for the owner's signature, and have waited longer than the terms say.
_OVERDUE = text(
    """
    SELECT s.job_id FROM sessions AS s JOIN jobs AS j ON j.id = s.job_id
    WHERE j.state = 'awaiting_agents' AND s.approved_at IS NULL
      AND clock_timestamp() > j.created_at
        + make_interval(secs => coalesce((s.terms->>'approve_seconds')::double precision, :default))
    ORDER BY j.created_at LIMIT :most
    """
)

# The other jobs of the same tenant in whose signed rosters some of these agents are.
_EARLIER = text(
    """
    SELECT j.kind, j.problem, j.plan, j.state, s.round, s.roster,
      array_agg(a.fingerprint) AS agents
    FROM sessions AS own
    JOIN sessions AS s ON s.tenant_id = own.tenant_id AND s.job_id <> own.job_id
    JOIN jobs AS j ON j.id = s.job_id
    JOIN session_agents AS a ON a.job_id = s.job_id
    WHERE own.job_id = :job AND s.approved_at IS NOT NULL AND a.fingerprint = ANY (:agents)
    GROUP BY j.id, s.job_id
    """
)

_ABANDONED = text(
    """
    SELECT s.job_id FROM sessions AS s JOIN jobs AS j ON j.id = s.job_id
    WHERE j.state IN ('awaiting_agents', 'running') AND s.approved_at IS NOT NULL
      AND (s.lease_until IS NULL OR s.lease_until < clock_timestamp())
    ORDER BY s.approved_at LIMIT :most
    """
)
