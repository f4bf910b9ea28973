"""Who is in a session, and the roster that its owner signs: with it the price is reserved on every
agent's account."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

import anyio.to_thread

from discreet.errors import Conflict, FieldIssue, Forbidden, InvalidInput, NotFound
from discreet.ledger import session_heads
from discreet.observability import faults
from discreet.problems.federation import FederatedProblem, FederationTerms, Member
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet.storage import audit_log, jobs, ledger, log_memory, sessions
from discreet.storage.tenants import Principal
from discreet.usecases import budgets
from discreet.usecases.access import require
from discreet.usecases.services import Services
from discreet.usecases.sessions import exposures, records
from discreet_agent.federation import signing, spoken
from discreet_agent.federation.rosters import VERSION as ROSTER_VERSION

_FINGERPRINT = re.compile("[0-9a-f]{64}")
READERS = ("owner", "analyst", "auditor")


async def show(
    services: Services, principal: Principal, job_id: str, *, to_sign: bool = False
) -> dict[str, Any]:
    """Who is there. `to_sign`: with parameters that follow from who has enrolled, where the owner
    is to sign such; with many agents they take seconds, once for the agents that are there."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        shown = await _show(connection, principal, job_id)
        session, job = await records.find(connection, principal, job_id)
        rows = await sessions.agents(connection, job_id)
    if not to_sign or job["state"] != "awaiting_agents" or session["roster"] is not None:
        return shown
    problem = records.read_problem(job)
    if problem.parameters_of_roster and rows:
        rows = sorted(rows, key=lambda one: str(one["fingerprint"]))
        plan = await plan_of(job, rows, _budget(session))
        # Where they can be on none together, a signature says why.
        shown["parameters"] = None if plan is None else plan.model_dump(mode="json")["parameters"]
    return shown


def _budget(session: Mapping[str, Any]) -> Budget:
    return Budget(epsilon=int(session["budget"]["epsilon"]), delta=int(session["budget"]["delta"]))


async def _show(connection: Any, principal: Principal, job_id: str) -> dict[str, Any]:
    session, job = await records.find(connection, principal, job_id)
    agents = await sessions.agents(connection, job_id)
    opened = await exposures.before(connection, job_id, _names(agents))
    shown = _view(session, job, agents, await sessions.tokens(connection, job_id))
    return {**shown, "opened_before": exposures.view(opened)}


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
    """Take the owner's signed roster: plan with the agents that are on it, reserve, and let the
    session begin.

    BudgetExhausted when a cap does not let the price pass; nothing is written then, and another
    roster may be signed.
    """
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        session, job = await records.find(connection, principal, job_id)
        enrolled = {row["fingerprint"]: row for row in await sessions.agents(connection, job_id)}
    if session["roster"] is not None and session["roster"] == roster:
        return await show(services, principal, job_id)
    records.refuse_unless_awaiting(job, session)
    rows = _check_roster(session, job, enrolled, roster, signature, owner_key)
    problem = records.read_problem(job)
    for one in rows:  # members of a group announced it for another job
        problem.check_announcement(one["announcement"])
    unspoken = [
        FieldIssue("/roster/agents", refusal)
        for one in rows
        if (refusal := spoken.refusal(one["name"], problem.needed, one["speaks"]))
    ]
    if unspoken:
        raise InvalidInput(unspoken)
    budget = _budget(session)
    plan = await plan_of(job, rows, budget)
    if plan is None:  # plan again: what is refused says why
        members = [records.member(row) for row in rows]
        plan = await anyio.to_thread.run_sync(problem.plan_federation, members, budget)
    if (
        problem.signs_parameters
        and json.loads(roster).get("parameters") != plan.model_dump(mode="json")["parameters"]
    ):
        raise InvalidInput(
            "the owner signs the parameters of this kind with the roster, as they follow from the "
            "agents on it",
            pointer="/roster/parameters",
        )
    total = plan.total
    if total.epsilon > budget.epsilon or total.delta > budget.delta:
        raise InvalidInput(
            "these agents' announcements cost more than the job's budget", pointer="/roster"
        )
    if plan.events and any(one["unit"] != plan.unit for one in rows):
        raise Conflict(
            f"this job counts in the unit {plan.unit}, an agent's account in another",
            code="unit_differs",
        )
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await jobs.lock(connection, job_id, principal.tenant_id)
        held = await sessions.lock(connection, job_id)
        assert row is not None
        assert held is not None
        records.refuse_unless_awaiting(row, held)
        now = {one["fingerprint"]: one for one in await sessions.agents(connection, job_id)}
        if any(_announced(now.get(one["fingerprint"])) != _announced(one) for one in rows):
            says = "an agent announced something else meanwhile, or was removed"
            raise Conflict(says, code="roster_stale")
        opened, *_ = await exposures.before(connection, job_id, now.keys() & {*_names(rows)})
        problem.refuse_exposed(plan, len(rows), opened)
        if charges(problem, plan):
            await log_memory.require(connection, services.database.log_memory.last)
            accounts = [one["account_id"] for one in rows]
            caps = await ledger.caps(connection, principal.tenant_id, row["principal"])
            balances = await ledger.reserve(
                connection,
                job_id,
                [*accounts, *caps],
                price=total.to_json(),
                events=[event.model_dump(mode="json") for event in plan.events],
                actor=row["principal"],
            )
            if not all(one.admitted for one in balances):
                raise budgets.refusal(balances, total, {})
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
        await audit_log.note(
            connection, principal, "roster.sign", job_id, agents=len(rows), save_as=save_as
        )
        faults.point("approve.written")
        # Here, and not afterwards: a refusal of the database then says truly that nothing was
        # changed.
        return await _show(connection, principal, job_id)


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(one["fingerprint"]) for one in rows]


def _announced(agent: Mapping[str, Any] | None) -> Any:
    return None if agent is None else (agent["name"], agent["announcement"])


async def remove(services: Services, principal: Principal, job_id: str, fingerprint: str) -> None:
    """Send an agent away that has enrolled: before the roster is signed, and nothing was charged
    yet."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        session, job = await records.find(connection, principal, job_id, hold=True)
        records.refuse_unless_awaiting(job, session)
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise InvalidInput(
                "an agent is named by all 64 hexadecimal digits of its fingerprint",
                pointer="/fingerprint",
            )
        if not await sessions.remove_agent(connection, job_id, fingerprint):
            raise NotFound("no agent of this fingerprint has enrolled in this session")
        await audit_log.note(
            connection, principal, "roster.remove_member", job_id, fingerprint=fingerprint
        )


def charges(problem: FederatedProblem, plan: Plan) -> bool:
    """Whether agents' accounts are charged: not in a simulation, and not where nothing is released
    by a mechanism."""
    return bool(plan.events) and getattr(problem, "mode", "private") != "simulation"


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
            (
                str(one["fingerprint"]),
                one["name"],
                base64.b64decode(one["key"]),
                one["announcement"],
            )
            for one in read["agents"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput("this is not a roster", pointer="/roster") from error
    issues = []
    if head != (ROSTER_VERSION, session["id"], job["id"], job["kind"]):
        issues.append(FieldIssue("/roster", "it is that of another session"))
    names = [fingerprint for fingerprint, *_ in listed]
    if names != sorted(set(names)):
        issues.append(
            FieldIssue("/roster/agents", "each agent must be listed once, sorted by fingerprint")
        )
    terms = FederationTerms.model_validate(session["terms"])
    if not terms.least <= len(names) <= terms.agents:
        asked = (
            str(terms.agents) if terms.least == terms.agents else f"{terms.least} to {terms.agents}"
        )
        says = (
            f"the job's terms ask for {asked} agents, the roster names {len(names)}; who has "
            "enrolled can be named"
        )
        issues.append(FieldIssue("/roster/agents", says))
    for fingerprint, *figures in listed:
        row = enrolled.get(fingerprint)
        if row is None or [row["name"], bytes(row["public_key"]), row["announcement"]] != figures:
            issues.append(FieldIssue("/roster/agents", f"{fingerprint} did not enrol like this"))
    if issues:
        raise InvalidInput(issues)
    return [enrolled[name] for name in names]


def _view(
    session: Mapping[str, Any],
    job: Mapping[str, Any],
    agents: Sequence[Mapping[str, Any]],
    tokens: dict[str, int],
) -> dict[str, Any]:
    listed = records.listed_of(session["roster"]) if session["roster"] is not None else set()
    terms = FederationTerms.model_validate(session["terms"])
    waits = job["state"] == "awaiting_agents" and session["roster"] is None
    return {
        "id": session["id"],
        "job": job["id"],
        "kind": job["kind"],
        "state": job["state"],
        "terms": session["terms"],
        "parameters": _signed_parameters(session, job),
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
                "speaks": row["speaks"],
                "cause": row["cause"],
            }
            for row in agents
        ],
        "roster": None if session["roster"] is None else bytes(session["roster"]).decode(),
        "approve_by": job["created_at"] + timedelta(seconds=terms.approve_seconds)
        if waits
        else None,
        "approved_at": session["approved_at"],
        "round": session["round"],
        "error": None
        if job["error_code"] is None
        else {
            "code": job["error_code"],
            "detail": job["error_detail"],
            "agents": records.blame(agents),
        },
    }


def _signed_parameters(session: Mapping[str, Any], job: Mapping[str, Any]) -> Any:
    """What the owner has signed with the roster; or is to sign, where the job's plan says it. Else
    None."""
    if session["roster"] is not None:
        signed = json.loads(bytes(session["roster"])).get("parameters")
        return signed if isinstance(signed, dict) else None
    problem = records.stored_problem(job)
    if problem is None or not problem.signs_parameters or problem.parameters_of_roster:
        return None
    return job["plan"]["parameters"]


# Heads --------------------------------------------------------------------------------------------
# The head of a session for strangers: how far it has got, and what owner and agents have signed.


async def statement(services: Services, principal: Principal, job_id: str) -> dict[str, Any]:
    """The session as an in-toto statement in an envelope that the newest key signs. Conflict until
    a roster is signed: nobody has said anything of it before."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id, snapshot=True) as connection:
        session, job = await records.find(connection, principal, job_id)
        if session["roster"] is None:
            raise Conflict("nobody has signed the roster of this session", code="no_roster")
        agents = await sessions.agents(connection, job_id)
    head = session_heads.head_of(session, job, agents)
    return await anyio.to_thread.run_sync(
        session_heads.seal, head, services.secrets.signer
    )  # of thousands of agents


# Roster plans -------------------------------------------------------------------------------------
# Plans of rosters. With sparse masks and a thousand agents one takes seconds, and every look at a
# session before its owner signs needs it: the last few are kept.

PLANS_KEPT = 4
"""In one process; a plan with a thousand agents and what it was made from take about a megabyte."""


async def plan_of(
    job: Mapping[str, Any], agents: Sequence[Mapping[str, Any]], budget: Budget
) -> Plan | None:
    """The plan of the job with the agents of these rows, in this order; None where they can be on
    no roster together."""
    told = [
        [one["fingerprint"], one["name"], bytes(one["public_key"]).hex(), one["announcement"]]
        for one in agents
    ]
    return await anyio.to_thread.run_sync(
        _planned, job["kind"], json.dumps(job["problem"]), json.dumps(told), budget
    )


@lru_cache(maxsize=PLANS_KEPT)
def _planned(kind: str, problem: str, agents: str, budget: Budget) -> Plan | None:
    """A function of its arguments alone, and they hold all that the plan is made from: what is kept
    is never of another roster than the one asked for."""
    members = [
        Member(fingerprint, name, bytes.fromhex(key), announcement)
        for fingerprint, name, key, announcement in json.loads(agents)
    ]
    found = records.read_problem({"kind": kind, "problem": json.loads(problem)})
    try:
        return found.plan_federation(members, budget)
    except InvalidInput:
        return None
