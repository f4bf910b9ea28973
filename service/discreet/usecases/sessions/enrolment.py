"""Links for agents, and how an agent joins a session."""

from __future__ import annotations

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

from discreet.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from discreet.privacy.filters import Cap
from discreet.privacy.units import delta_units, epsilon_units
from discreet.problems.numbers import MAX_EPSILON
from discreet.storage import audit_log, jobs, ledger, sessions
from discreet.storage.database import SYSTEM
from discreet.storage.identifiers import new_id
from discreet.storage.tenants import Principal
from discreet.usecases import budgets, rpc_tls
from discreet.usecases.access import require
from discreet.usecases.services import Services
from discreet.usecases.sessions import records
from discreet_agent.federation import signing, spoken
from discreet_agent.federation.links import Link

TOKEN_BYTES = 24
TOKEN_HOURS = 24
MAX_ANNOUNCEMENT_BYTES = 4 << 10
_DECIMAL = re.compile(r"[0-9]{1,4}(\.[0-9]{1,30})?")


async def create_tokens(
    services: Services,
    principal: Principal,
    job_id: str,
    *,
    owner: str,
    count: int = 1,
    names: Sequence[str] | None = None,
    group: str | None = None,
) -> dict[str, Any]:
    """Links for agents, shown only once; with `names` each for an agent of that name alone, in
    their order; with `group` the one link of a standing group, whose members need no token.

    `owner` is the fingerprint of the key that will sign the roster: every link of a session pins
    the same.
    """
    require(principal, "owner")
    link_of(services, job_id, owner)  # refuses where nobody could use a link
    async with services.database.transaction(principal.tenant_id) as connection:
        session, job = await records.find(connection, principal, job_id, hold=True)
        records.refuse_unless_awaiting(job, session)
        if session["owner"] not in (None, owner):
            raise Conflict("the links of this session pin another owner's key", code="owner_pinned")
        await sessions.set_owner(connection, job_id, owner)
        link = link_of(services, session["id"], owner)
        if group is not None:
            members = await sessions.group(connection, principal.tenant_id, group)
            if not members:
                raise NotFound(f"there is no group {group}", pointer="/group")
            await records.refuse_too_many(
                connection, session, [member["fingerprint"] for member in members]
            )
            for member in members:
                await sessions.put_agent(
                    connection, job_id=job_id, **{name: member[name] for name in sessions.MEMBER}
                )
            await audit_log.note(connection, principal, "session.tokens", job_id, group=group)
            return {"session": session["id"], "link": str(link), "links": []}
        of = [None] * count if names is None else list(names)
        tokens = [random.token_urlsafe(TOKEN_BYTES) for _ in of]
        expires = datetime.now(UTC) + timedelta(hours=TOKEN_HOURS)
        macs = [_mac(services.secrets.pepper, session["id"], token) for token in tokens]
        await sessions.add_tokens(connection, job_id, zip(macs, of, strict=True), expires)
        await audit_log.note(connection, principal, "session.tokens", job_id, count=len(of))
    links = [str(link_of(services, session["id"], owner, token)) for token in tokens]
    return {"session": session["id"], "links": links, "link": None, "expires_at": expires}


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
    speaks: tuple[str, ...] = ()


async def enroll(services: Services, request: Enrolment) -> dict[str, str]:
    """The agent's account and the job. The same agent may come again, with other figures until the
    roster is signed."""
    cap = _cap(request.cap_epsilon, request.cap_delta)
    announcement = _announcement(request.announcement)
    for text in (request.name, request.unit):
        # Printable: the owner compares fingerprints in a terminal, where a name could write over
        # them.
        if not 0 < len(text) <= 200 or not text.isprintable():
            raise InvalidInput("name and unit have 1 to 200 printable characters")
    if len(request.speaks) > spoken.MOST or not all(
        0 < len(one) <= spoken.LONGEST and one.isprintable() for one in request.speaks
    ):
        raise InvalidInput(
            f"what an agent speaks has at most {spoken.MOST} names of 1 to {spoken.LONGEST} "
            "printable characters"
        )
    async with services.database.transaction(SYSTEM) as connection:
        found = await records.by_id(connection, request.session_id)
        session = None if found is None else await sessions.lock(connection, found["job_id"])
        if session is None:
            raise NotFound("there is no such session")
        job = await jobs.find(connection, session["job_id"])
        assert job is not None
        known = await sessions.agent(connection, session["job_id"], request.fingerprint)
        if known is None:
            await _use_token(services, connection, session, request)
        invited = await sessions.invited_as(connection, session["job_id"], request.fingerprint)
        if invited not in (None, request.name):
            raise Forbidden("this token is for an agent of another name", code="name_differs")
        if session["roster"] is not None or job["state"] != "awaiting_agents":
            if (
                known is not None
            ):  # its first answer was lost, or it comes back with an empty memory
                return {"job": job["id"], "account": known["account_id"]}
            raise Conflict("the roster is signed; nobody can join any more", code="roster_signed")
        # Where nothing is charged, as under cryptography alone, accounts of any unit will do.
        if job["plan"]["events"] and request.unit != job["plan"]["unit"]:
            raise Conflict(
                f"this job counts in the unit {job['plan']['unit']}", code="unit_differs"
            )
        await records.refuse_too_many(connection, session, [request.fingerprint])
        problem = records.read_problem(job)
        if refusal := spoken.refusal(request.name, problem.needed, request.speaks):
            raise Conflict(refusal, code="not_spoken")
        problem.check_announcement(announcement)
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
            speaks=list(request.speaks),
        )
    return {"job": job["id"], "account": account}


async def session_of(services: Services, session_id: str, fingerprint: str) -> str:
    """The job of a session that this agent is enrolled in. NotFound and Forbidden otherwise."""
    async with services.database.transaction(SYSTEM) as connection:
        session = await records.by_id(connection, session_id)
        if session is None:
            raise NotFound("there is no such session")
        if await sessions.agent(connection, session["job_id"], fingerprint) is None:
            raise Forbidden("this agent is not enrolled in this session", code="not_enrolled")
    return str(session["job_id"])


async def _use_token(
    services: Services, connection: Any, session: Mapping[str, Any], request: Enrolment
) -> None:
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
    """The account of this identity, opened at its first enrolment; the cap is what the agent
    announced last."""
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
        raise Conflict(
            f"the account of this agent counts in the unit {known[0]['unit']}", code="unit_differs"
        )
    balance = (await ledger.balances(connection, [account]))[account]
    if budgets.cap_of(balance) != cap and not await ledger.grant(
        connection,
        account,
        cap=amounts,
        filters=limits,
        actor=request.fingerprint,
        reason="announced by the agent",
    ):
        raise Conflict("more than the announced cap is spent already", code="cap_below_spent")
    return account


def link_of(services: Services, session_id: str, owner: str, token: str = "") -> Link:
    """The link of a session; with a token for one agent, without one for those who are in it."""
    settings = services.settings
    if settings.rpc_address is None:
        raise Unavailable(
            "this API does not know where gRPC is: set DISCREET_RPC_ADDRESS", code="no_rpc"
        )
    host, _, port = settings.rpc_address.rpartition(":")
    key = services.secrets.signer.public_key().public_bytes_raw()
    host = host.strip("[]")
    return Link(
        session=session_id,
        owner=owner,
        token=token,
        host=host,
        port=int(port),
        server=signing.fingerprint(key),
        tls=rpc_tls.pin(settings, host),
    )


def _mac(pepper: bytes, session_id: str, token: str) -> bytes:
    return hmac.digest(pepper, f"session/{session_id}/{token}".encode(), hashlib.sha256)


def _cap(epsilon: str, delta: str) -> Cap:
    if not _DECIMAL.fullmatch(epsilon) or not _DECIMAL.fullmatch(delta):
        raise InvalidInput("the cap must be two decimal numbers")
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
        raise InvalidInput("the announcement must be JSON") from error
    if not isinstance(read, dict):
        raise InvalidInput("the announcement must be a JSON object")
    return read


def _no_constant(text: str) -> Any:
    raise ValueError(text)
