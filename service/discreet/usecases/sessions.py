"""Federated sessions: tokens, enrolment, the owner's roster, and the coordinator's steps.

    submit → create_tokens → enroll … → approve → (agents accept) → begin → touch → keep … → publish
                                                                      └ end: failed or cancelled

The price is reserved on every agent's account, and on the caps, when the owner approves the roster: all or none. From
the first message of an agent on it is charged in full.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets as random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import anyio.to_thread

from discreet import faults
from discreet.errors import Conflict, FieldIssue, Forbidden, InvalidInput, NotFound, Unauthenticated, Unavailable
from discreet.privacy.filters import Cap
from discreet.privacy.units import delta_units, epsilon_units
from discreet.problems import KINDS
from discreet.problems.federation import FederatedProblem, FederationTerms, Member
from discreet.problems.numbers import MAX_EPSILON, Budget
from discreet.problems.plans import Plan
from discreet.storage import jobs, ledger, sealing, sessions
from discreet.storage.database import SYSTEM
from discreet.storage.identifiers import new_id
from discreet.storage.tenants import Principal
from discreet.usecases import budgets, endings, rpc_tls
from discreet.usecases.access import require
from discreet.usecases.rotation import sealing_step, still_known
from discreet.usecases.running import CancelRequested, LostJob
from discreet.usecases.services import Services
from discreet_client.federation import signing
from discreet_client.federation.links import Link
from discreet_client.federation.rosters import VERSION as ROSTER_VERSION

ACTOR = "rpc"
TOKEN_BYTES = 24
TOKEN_HOURS = 24
MAX_TOKENS = 1000
MAX_ANNOUNCEMENT_BYTES = 4 << 10
_SESSION = re.compile(r"ses_[0-9a-z]{1,64}")
_DECIMAL = re.compile(r"[0-9]{1,4}(\.[0-9]{1,30})?")
READERS = ("owner", "analyst", "auditor")


# The owner's side ---------------------------------------------------------------------------------------------------


async def create_tokens(
    services: Services, principal: Principal, job_id: str, *, owner: str, count: int, group: str | None
) -> dict[str, Any]:
    """Links for agents, shown this once; with `group` the one link of a standing group, whose members need no token.

    `owner` is the fingerprint of the key that will sign the roster: every link of a session pins the same.
    """
    require(principal, "owner")
    where = _where(services)
    async with services.database.transaction(principal.tenant_id) as connection:
        session, job = await _find(connection, principal, job_id, hold=True)
        _refuse_unless_awaiting(job, session)
        if session["owner"] not in (None, owner):
            raise Conflict("the links of this session pin another owner's key", code="owner_pinned")
        await sessions.set_owner(connection, job_id, owner)
        link = Link(session=session["id"], owner=owner, **where)
        if group is not None:
            members = await sessions.group(connection, principal.tenant_id, group)
            if not members:
                raise NotFound(f"there is no group {group}", pointer="/group")
            await _refuse_too_many(connection, session, [member["fingerprint"] for member in members])
            columns = ("fingerprint", "name", "public_key", "account_id", "unit", "announcement")
            for member in members:
                await sessions.put_agent(connection, job_id=job_id, **{name: member[name] for name in columns})
            return {"session": session["id"], "link": str(link), "links": []}
        tokens = [random.token_urlsafe(TOKEN_BYTES) for _ in range(count)]
        expires = datetime.now(UTC) + timedelta(hours=TOKEN_HOURS)
        macs = [_mac(services.secrets.pepper, session["id"], token) for token in tokens]
        await sessions.add_tokens(connection, job_id, macs, expires)
    links = [str(Link(session=session["id"], owner=owner, token=token, **where)) for token in tokens]
    return {"session": session["id"], "links": links, "link": None, "expires_at": expires}


async def show(services: Services, principal: Principal, job_id: str) -> dict[str, Any]:
    """Who is there."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        return await _show(connection, principal, job_id)


async def _show(connection: Any, principal: Principal, job_id: str) -> dict[str, Any]:
    session, job = await _find(connection, principal, job_id)
    agents = await sessions.agents(connection, job_id)
    return _view(session, job, agents, await sessions.tokens(connection, job_id))


async def approve(
    services: Services,
    principal: Principal,
    job_id: str,
    *,
    roster: bytes,
    signature: bytes,
    owner_key: bytes,
    save_as: str | None = None,
) -> dict[str, Any]:
    """Take the owner's signed roster: plan with the agents that are on it, reserve, and let the session begin.

    BudgetExhausted when a cap does not let the price pass; nothing is written then, and another roster may be signed.
    """
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        session, job = await _find(connection, principal, job_id)
        enrolled = {row["fingerprint"]: row for row in await sessions.agents(connection, job_id)}
    if session["roster"] is not None and session["roster"] == roster:
        return await show(services, principal, job_id)
    _refuse_unless_awaiting(job, session)
    rows = _check_roster(session, job, enrolled, roster, signature, owner_key)
    problem = read_problem(job)
    for one in rows:  # members of a group announced it for another job
        problem.check_announcement(one["announcement"])
    budget = Budget(epsilon=int(session["budget"]["epsilon"]), delta=int(session["budget"]["delta"]))
    plan = await anyio.to_thread.run_sync(problem.plan_federation, [_member(row) for row in rows], budget)
    if problem.signs_parameters and json.loads(roster).get("parameters") != plan.model_dump(mode="json")["parameters"]:
        raise InvalidInput("the owner signs the parameters of this kind with the roster", pointer="/roster/parameters")
    total = plan.total
    if total.epsilon > budget.epsilon or total.delta > budget.delta:
        raise InvalidInput("these agents' announcements cost more than the job's budget", pointer="/roster")
    if plan.events and any(one["unit"] != plan.unit for one in rows):
        raise Conflict(f"this job counts in the unit {plan.unit}, an agent's account in another", code="unit_differs")
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await jobs.lock(connection, job_id, principal.tenant_id)
        held = await sessions.lock(connection, job_id)
        assert row is not None
        assert held is not None
        _refuse_unless_awaiting(row, held)
        now = {one["fingerprint"]: one for one in await sessions.agents(connection, job_id)}
        if any(now[one["fingerprint"]]["announcement"] != one["announcement"] for one in rows):
            raise Conflict("an agent announced something else meanwhile", code="roster_stale")
        if charges(problem, plan):
            accounts = [one["account_id"] for one in rows]
            caps = await ledger.caps(connection, principal.tenant_id, row["principal"])
            standings = await ledger.reserve(
                connection,
                job_id,
                [*accounts, *caps],
                price=total.to_json(),
                events=[event.model_dump(mode="json") for event in plan.events],
                actor=row["principal"],
            )
            if not all(one.admitted for one in standings):
                raise budgets.refusal(standings, total)
        await sessions.approve(
            connection,
            job_id,
            roster=roster,
            signature=signature,
            owner_key=owner_key,
            plan=plan.model_dump(mode="json"),
            price=total.to_json(),
            steps=plan.resources.steps,
        )
        if save_as is not None:
            await sessions.save_group(connection, principal.tenant_id, save_as, rows)
        faults.point("approve.written")
        # Here, and not afterwards: a refusal of the database then says truly that nothing was changed.
        return await _show(connection, principal, job_id)


def charges(problem: FederatedProblem, plan: Plan) -> bool:
    """Whether agents' accounts are charged: not in a simulation, and not where nothing is released by a mechanism."""
    return bool(plan.events) and getattr(problem, "mode", "private") != "simulation"


# Enrolment ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enrolment:
    """What an agent asks for; its signature was checked."""

    session_id: str
    fingerprint: str
    public_key: bytes
    token: str
    name: str
    unit: str
    cap_epsilon: str
    cap_delta: str
    announcement: bytes


async def enroll(services: Services, request: Enrolment) -> dict[str, str]:
    """The agent's account and the job. The same agent may come again, with other figures until the roster is signed."""
    cap = _cap(request.cap_epsilon, request.cap_delta)
    announcement = _announcement(request.announcement)
    for text in (request.name, request.unit):
        # Printable: the owner compares fingerprints in a terminal, where a name could write over them.
        if not 0 < len(text) <= 200 or not text.isprintable():
            raise InvalidInput("name and unit have 1 to 200 printable characters")
    async with services.database.transaction(SYSTEM) as connection:
        found = await _by_id(connection, request.session_id)
        session = None if found is None else await sessions.lock(connection, found["job_id"])
        if session is None:
            raise NotFound("there is no such session")
        job = await jobs.find(connection, session["job_id"])
        assert job is not None
        known = await sessions.agent(connection, session["job_id"], request.fingerprint)
        if known is None:
            await _use_token(services, connection, session, request)
        if session["roster"] is not None or job["state"] != "awaiting_agents":
            if known is not None:  # its first answer was lost, or it comes back with an empty memory
                return {"job": job["id"], "account": known["account_id"]}
            raise Conflict("the roster is signed; nobody can join any more", code="roster_signed")
        # Where nothing is charged, as under cryptography alone, accounts of any unit will do.
        if job["plan"]["events"] and request.unit != job["plan"]["unit"]:
            raise Conflict(f"this job counts in the unit {job['plan']['unit']}", code="unit_differs")
        await _refuse_too_many(connection, session, [request.fingerprint])
        read_problem(job).check_announcement(announcement)
        account = await _agent_account(connection, session["tenant_id"], request, cap)
        await sessions.put_agent(
            connection,
            job_id=job["id"],
            fingerprint=request.fingerprint,
            name=request.name,
            public_key=request.public_key,
            account_id=account,
            unit=request.unit,
            announcement=announcement,
        )
    return {"job": job["id"], "account": account}


async def _use_token(services: Services, connection: Any, session: Mapping[str, Any], request: Enrolment) -> None:
    outcome = "unknown"
    for pepper in services.secrets.peppers:
        mac = _mac(pepper, session["id"], request.token)
        outcome = await sessions.use_token(connection, session["job_id"], mac, request.fingerprint)
        if outcome != "unknown":
            break
    if outcome == "taken":
        raise Forbidden("this token was used by another agent", code="token_used")
    if outcome == "expired":
        raise Forbidden("this token has expired", code="token_expired")
    if outcome != "used":
        raise Unauthenticated("this token does not open this session", code="wrong_token")


async def _agent_account(connection: Any, tenant_id: str, request: Enrolment, cap: Cap) -> str:
    """The account of this identity, opened at its first enrolment; the cap is what the agent announced last."""
    known = await ledger.accounts(connection, tenant_id, scope="agent", subject=request.fingerprint)
    amounts, limits = budgets.cap_amounts(cap), budgets.filter_limits(cap)
    if not known:
        account = new_id("acc")
        await ledger.open_account(
            connection,
            account,
            tenant_id=tenant_id,
            scope="agent",
            subject=request.fingerprint,
            unit=request.unit,
            cap=amounts,
            filters=limits,
            actor=request.fingerprint,
        )
        return account
    account = str(known[0]["id"])
    if known[0]["unit"] != request.unit:
        raise Conflict(f"the account of this agent counts in the unit {known[0]['unit']}", code="unit_differs")
    standing = (await ledger.standings(connection, [account]))[account]
    if budgets.cap_of(standing) != cap and not await ledger.grant(
        connection, account, cap=amounts, filters=limits, actor=request.fingerprint, reason="announced by the agent"
    ):
        raise Conflict("more than the announced cap is spent already", code="cap_below_spent")
    return account


# The coordinator's side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
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


@dataclass(frozen=True)
class Watched:
    """What has changed about a session that is held."""

    wanted: bool
    approved: bool
    ended: bool
    cancel_requested: bool


async def session_of(services: Services, session_id: str, fingerprint: str) -> str:
    """The job of a session that this agent is enrolled in. NotFound and Forbidden otherwise."""
    async with services.database.transaction(SYSTEM) as connection:
        session = await _by_id(connection, session_id)
        if session is None:
            raise NotFound("there is no such session")
        if await sessions.agent(connection, session["job_id"], fingerprint) is None:
            raise Forbidden("this agent is not enrolled in this session", code="not_enrolled")
    return str(session["job_id"])


async def take(services: Services, job_id: str, holder: str) -> Held | None:
    """Run the session from here on, or None: another process runs it (and is asked for it), or it has ended."""
    async with services.database.transaction(SYSTEM) as connection:
        taken = await sessions.take(connection, job_id, holder, services.settings.lease_seconds)
    if taken is None:
        return None
    async with services.database.transaction(SYSTEM) as connection:
        session, job = taken
        agents = await sessions.agents(connection, job_id)
        entries = await ledger.reservation(connection, job_id)
        stored = await jobs.find_release(connection, job_id)
        traceparent = await jobs.find_trace(connection, job_id)
    faults.point("session.taken")
    listed = set() if session["roster"] is None else _listed(session["roster"])
    rows = [row for row in agents if row["fingerprint"] in listed]
    state = broadcast = released = None
    if session["sealed"] is not None:
        plain = sealing.unseal_whole(
            services.secrets, session["content_key_id"], _sealed_name(job_id), bytes(session["sealed"])
        )
        size = int.from_bytes(plain[:8], "big")
        state, broadcast = plain[8 : 8 + size], plain[8 + size :]
    if stored is not None:
        released = sealing.unseal_whole(services.secrets, stored[0], f"release/{job_id}", stored[1])
    return Held(
        job_id=job_id,
        session_id=session["id"],
        tenant_id=session["tenant_id"],
        attempt=job["attempt"],
        holder=holder,
        state=job["state"],
        seed=job["seed"],
        problem=read_problem(job),
        plan=Plan.model_validate(job["plan"]),
        terms=FederationTerms.model_validate(session["terms"]),
        roster=_bytes(session["roster"]),
        roster_signature=_bytes(session["roster_signature"]),
        owner_key=_bytes(session["owner_key"]),
        members=tuple(_member(row) for row in rows),
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
        transcript=_bytes(session["transcript"]) or hashlib.sha256(_bytes(session["roster"]) or b"").digest(),
        touched=any(entry["kind"] == "data_touched" for entry in entries),
        released=released,
        traceparent=traceparent,
    )


async def renew(services: Services, held: Held) -> Watched:
    """Extend the lease. LostJob when the session is another's by now."""
    async with services.database.transaction(SYSTEM) as connection:
        row = await sessions.renew(connection, held.job_id, held.holder, held.attempt, services.settings.lease_seconds)
    if row is None:
        raise LostJob()
    wanted = row["wanted"] not in (None, held.holder)
    return Watched(wanted, row["approved"], row["state"] in jobs.FINAL, row["cancel_requested"])


async def give_back(services: Services, held: Held) -> None:
    """This process stops, or nobody is connected to it."""
    async with services.database.transaction(SYSTEM) as connection:
        await sessions.give_back(connection, held.job_id, held.holder)


async def abandoned(services: Services) -> list[str]:
    """Sessions that must go on and that nobody runs."""
    async with services.database.transaction(SYSTEM) as connection:
        return await sessions.abandoned(connection)


async def end_unsigned(services: Services) -> int:
    """End the sessions whose roster nobody signed in time, and how many these were. Nothing is reserved before the
    signature, and what is settled is read from the ledger all the same. A signature that comes at this moment is first
    or too late: both lock job and session."""
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


async def seconds_to_join(services: Services, held: Held) -> float:
    """What is left of the time to join; may be negative."""
    async with services.database.transaction(SYSTEM) as connection:
        return held.terms.join_seconds - await sessions.seconds_since_approval(connection, held.job_id)


async def keep_receipt(services: Services, held: Held, fingerprint: str, receipt: Mapping[str, Any]) -> None:
    """The agent's countersignature of its charge."""
    async with services.database.transaction(SYSTEM) as connection:
        await sessions.keep_receipt(connection, held.job_id, fingerprint, receipt)


async def begin(services: Services, held: Held) -> None:
    """The agents are there: the job runs."""
    async with services.database.transaction(SYSTEM) as connection:
        job = await _hold(connection, held)
        if job["state"] == "awaiting_agents":
            await sessions.begin(connection, held.job_id)
            await jobs.add_event(connection, held.job_id, "state", {"state": "running"})


async def touch(services: Services, held: Held) -> None:
    """Commit `data_touched`; falls before the first message of any agent is accepted."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, held)
        if held.charges:
            await ledger.touch(connection, held.job_id, ACTOR)
    faults.point("session.touched")


@sealing_step
async def keep(
    services: Services, held: Held, *, number: int, state: bytes, broadcast: bytes, transcript: bytes
) -> None:
    """State and broadcast after `number` steps, sealed, before any agent sees the broadcast.

    In one round trip, for the agents wait for it: where the key was retired meanwhile, the row is written once more.
    """
    plain = len(state).to_bytes(8, "big") + state + broadcast
    keys = services.secrets
    key_id, sealed = keys.content_key_id, sealing.seal_whole(keys, _sealed_name(held.job_id), plain)
    if not await sessions.keep_round(
        services.database,
        held.job_id,
        held.attempt,
        number=number,
        key_id=key_id,
        sealed=sealed,
        transcript=transcript,
    ):
        raise LostJob()
    still_known(services, keys)


@sealing_step
async def keep_last(
    services: Services, held: Held, *, number: int, broadcast: bytes, transcript: bytes, released: bytes
) -> None:
    """The end of the last step: what was released, and the broadcast for agents that come late. No state is left.

    CancelRequested when the job shall be cancelled.
    """
    keys = services.secrets
    sealed = sealing.seal_whole(keys, _sealed_name(held.job_id), bytes(8) + broadcast)
    key_id, sealed_release = keys.content_key_id, sealing.seal_whole(keys, f"release/{held.job_id}", released)
    async with services.database.transaction(SYSTEM) as connection:
        if (await _hold(connection, held))["cancel_requested"]:
            raise CancelRequested
        await sessions.keep(connection, held.job_id, number=number, key_id=key_id, sealed=sealed, transcript=transcript)
        await jobs.store_release(connection, held.job_id, held.attempt, key_id, sealed_release)
        still_known(services, keys)
        faults.point("session.released")


async def farewell(services: Services, session_id: str) -> Farewell | None:
    """How a session ended, for agents that come late; None while it goes on."""
    async with services.database.transaction(SYSTEM) as connection:
        session = await sessions.find_by_id(connection, session_id)
        job = None if session is None else await jobs.find(connection, session["job_id"])
        if session is None or job is None or job["state"] not in jobs.FINAL:
            return None
        entries = await ledger.reservation(connection, job["id"])
    broadcast = b""
    if session["sealed"] is not None:
        plain = sealing.unseal_whole(
            services.secrets, session["content_key_id"], _sealed_name(job["id"]), bytes(session["sealed"])
        )
        broadcast = plain[8 + int.from_bytes(plain[:8], "big") :]
    return Farewell(
        state=job["state"],
        code=job["error_code"] or "",
        broadcast=broadcast if job["state"] == "succeeded" else b"",
        transcript=_bytes(session["transcript"]) or b"",
        rounds=session["round"],
        charged=any(entry["kind"] == "commit" for entry in entries),
    )


async def fail(services: Services, held: Held, code: str) -> bool:
    """End the job with a fixed code; whether agents were charged."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, held)
        return await endings.fail(connection, held.job_id, code, ACTOR)


async def cancel(services: Services, held: Held) -> bool:
    """End the job as somebody asked for; whether agents were charged."""
    async with services.database.transaction(SYSTEM) as connection:
        await _hold(connection, held)
        settled = await ledger.settle(connection, held.job_id, ACTOR)
        await jobs.end(connection, held.job_id, "cancelled")
    return any(entry.kind == "commit" for entry in settled)


async def _hold(connection: Any, held: Held) -> dict[str, Any]:
    row = await sessions.hold(connection, held.job_id, held.attempt)
    if row is None:
        raise LostJob()
    return row


# Small things -------------------------------------------------------------------------------------------------------


def read_problem(job: Mapping[str, Any]) -> FederatedProblem:
    problem = KINDS[job["kind"]].model_validate(job["problem"])
    assert isinstance(problem, FederatedProblem)
    return problem


async def _by_id(connection: Any, session_id: str) -> dict[str, Any] | None:
    """None also for what is no id: anybody may send any text."""
    return await sessions.find_by_id(connection, session_id) if _SESSION.fullmatch(session_id) else None


async def _find(
    connection: Any, principal: Principal, job_id: str, *, hold: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    job = await jobs.find(connection, job_id, principal.tenant_id)
    if job is None:
        raise NotFound("there is no such job")
    session = await (sessions.lock if hold else sessions.find)(connection, job_id)
    if session is None:
        raise NotFound("this job has no session: it is not federated")
    return session, job


def _refuse_unless_awaiting(job: Mapping[str, Any], session: Mapping[str, Any]) -> None:
    if job["state"] != "awaiting_agents":
        raise Conflict(f"this job is {job['state']}", code="not_awaiting_agents")
    if session["roster"] is not None:
        raise Conflict("the roster is signed already", code="roster_signed")


async def _refuse_too_many(connection: Any, session: Mapping[str, Any], fingerprints: Sequence[str]) -> None:
    there = {row["fingerprint"] for row in await sessions.agents(connection, session["job_id"])}
    if len(there | set(fingerprints)) > session["terms"]["agents"]:
        raise Conflict("as many agents as the job's terms allow have joined", code="session_full")


def _check_roster(
    session: Mapping[str, Any],
    job: Mapping[str, Any],
    enrolled: Mapping[str, Mapping[str, Any]],
    roster: bytes,
    signature: bytes,
    owner_key: bytes,
) -> list[Mapping[str, Any]]:
    """The enrolled agents that the roster names, sorted; InvalidInput names what does not fit."""
    if session["owner"] is None or signing.fingerprint(owner_key) != session["owner"]:
        raise Forbidden("the links of this session pin another owner's key", code="owner_differs")
    if not signing.is_signed(owner_key, signing.roster(roster), signature):
        raise Forbidden("the roster is not signed by this key", code="roster_signature")
    try:
        read = json.loads(roster)
        head = (read["version"], read["session"], read["job"], read["kind"])
        listed = [
            (str(one["fingerprint"]), one["name"], base64.b64decode(one["key"]), one["announcement"])
            for one in read["agents"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput("this is not a roster", pointer="/roster") from error
    issues = []
    if head != (ROSTER_VERSION, session["id"], job["id"], job["kind"]):
        issues.append(FieldIssue("/roster", "it is that of another session"))
    names = [fingerprint for fingerprint, *_ in listed]
    if names != sorted(set(names)):
        issues.append(FieldIssue("/roster/agents", "agents stand once each, sorted by fingerprint"))
    terms = FederationTerms.model_validate(session["terms"])
    if not terms.least <= len(names) <= terms.agents:
        asked = str(terms.agents) if terms.least == terms.agents else f"{terms.least} to {terms.agents}"
        says = f"the job's terms ask for {asked} agents, the roster names {len(names)}; who has enrolled can be named"
        issues.append(FieldIssue("/roster/agents", says))
    for fingerprint, *figures in listed:
        row = enrolled.get(fingerprint)
        if row is None or [row["name"], bytes(row["public_key"]), row["announcement"]] != figures:
            issues.append(FieldIssue("/roster/agents", f"{fingerprint} did not enrol like this"))
    if issues:
        raise InvalidInput(issues)
    return [enrolled[name] for name in names]


def _view(
    session: Mapping[str, Any], job: Mapping[str, Any], agents: Sequence[Mapping[str, Any]], tokens: dict[str, int]
) -> dict[str, Any]:
    listed = _listed(session["roster"]) if session["roster"] is not None else set()
    terms = FederationTerms.model_validate(session["terms"])
    waits = job["state"] == "awaiting_agents" and session["roster"] is None
    return {
        "id": session["id"],
        "job": job["id"],
        "kind": job["kind"],
        "state": job["state"],
        "terms": session["terms"],
        "parameters": job["plan"]["parameters"] if _signs_parameters(job) else None,
        "owner": session["owner"],
        "tokens": tokens,
        "agents": [
            {
                "name": row["name"],
                "fingerprint": row["fingerprint"],
                "key": base64.b64encode(row["public_key"]).decode(),
                "unit": row["unit"],
                "account": row["account_id"],
                "announcement": row["announcement"],
                "enrolled_at": row["enrolled_at"],
                "on_roster": row["fingerprint"] in listed,
                "accepted": row["receipt"] is not None,
                "receipt": row["receipt"],
            }
            for row in agents
        ],
        "roster": None if session["roster"] is None else bytes(session["roster"]).decode(),
        "approve_by": job["created_at"] + timedelta(seconds=terms.approve_seconds) if waits else None,
        "approved_at": session["approved_at"],
        "round": session["round"],
    }


def _signs_parameters(job: Mapping[str, Any]) -> bool:
    kind = KINDS[job["kind"]]
    return issubclass(kind, FederatedProblem) and kind.signs_parameters


def _listed(roster: bytes) -> set[str]:
    return {agent["fingerprint"] for agent in json.loads(roster)["agents"]}


def _member(row: Mapping[str, Any]) -> Member:
    return Member(row["fingerprint"], row["name"], bytes(row["public_key"]), row["announcement"])


def _where(services: Services) -> dict[str, Any]:
    """What every link says of the server."""
    settings = services.settings
    if settings.rpc_address is None:
        raise Unavailable("this API does not know where gRPC is: set DISCREET_RPC_ADDRESS", code="no_rpc")
    host, _, port = settings.rpc_address.rpartition(":")
    key = services.secrets.signer.public_key().public_bytes_raw()
    host = host.strip("[]")
    return {"host": host, "port": int(port), "server": signing.fingerprint(key), "tls": rpc_tls.pin(settings, host)}


def _mac(pepper: bytes, session_id: str, token: str) -> bytes:
    return hmac.digest(pepper, f"session/{session_id}/{token}".encode(), hashlib.sha256)


def _cap(epsilon: str, delta: str) -> Cap:
    if not _DECIMAL.fullmatch(epsilon) or not _DECIMAL.fullmatch(delta):
        raise InvalidInput("the cap is two decimals")
    figures = Decimal(epsilon), Decimal(delta)
    if figures[0] > MAX_EPSILON or figures[1] >= 1:
        raise InvalidInput(f"a cap has epsilon <= {MAX_EPSILON} and delta < 1")
    return Cap(epsilon_units(figures[0], "down"), delta_units(figures[1], "down"))


def _announcement(data: bytes) -> Any:
    if len(data) > MAX_ANNOUNCEMENT_BYTES:
        raise InvalidInput("the announcement is too long")
    try:
        read = json.loads(data or b"{}", parse_constant=_no_constant)
        # What the database would not take: 1e999, half a surrogate pair, the character 0.
        if "\\u0000" in json.dumps(read, ensure_ascii=False, allow_nan=False).encode().decode():
            raise ValueError
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the announcement is not JSON") from error
    if not isinstance(read, dict):
        raise InvalidInput("the announcement is a JSON object")
    return read


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _sealed_name(job_id: str) -> str:
    return f"session/{job_id}"
