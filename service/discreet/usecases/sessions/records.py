"""Sessions as the database has them, and what every step asks of them first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from discreet.errors import Conflict, NotFound
from discreet.problems import KINDS
from discreet.problems.federation import CAUSES, FederatedProblem, Member
from discreet.storage import jobs, sessions
from discreet.storage.tenants import Principal

_SESSION = re.compile(r"ses_[0-9a-z]{1,64}")


def read_problem(job: Mapping[str, Any]) -> FederatedProblem:
    problem = KINDS[job["kind"]].model_validate(job["problem"])
    assert isinstance(problem, FederatedProblem)
    return problem


def stored_problem(job: Mapping[str, Any]) -> FederatedProblem | None:
    """The same for what is shown of a job; None for one that only an earlier version could read."""
    try:
        return read_problem(job)
    except (KeyError, ValidationError):
        return None


async def by_id(connection: Any, session_id: str) -> dict[str, Any] | None:
    """None also for text that is not an id, since anybody may send any text."""
    return (
        await sessions.find_by_id(connection, session_id)
        if _SESSION.fullmatch(session_id)
        else None
    )


async def find(
    connection: Any, principal: Principal, job_id: str, *, hold: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    job = await jobs.find(connection, job_id, principal.tenant_id)
    if job is None:
        raise NotFound("there is no such job")
    session = await (sessions.lock if hold else sessions.find)(connection, job_id)
    if session is None:
        raise NotFound("this job has no session: it is not federated")
    return session, job


def refuse_unless_awaiting(job: Mapping[str, Any], session: Mapping[str, Any]) -> None:
    if job["state"] != "awaiting_agents":
        raise Conflict(f"this job is {job['state']}", code="not_awaiting_agents")
    if session["roster"] is not None:
        raise Conflict("the roster is signed already", code="roster_signed")


async def refuse_too_many(
    connection: Any, session: Mapping[str, Any], fingerprints: Sequence[str]
) -> None:
    there = {row["fingerprint"] for row in await sessions.agents(connection, session["job_id"])}
    if len(there | set(fingerprints)) > session["terms"]["agents"]:
        raise Conflict("as many agents as the job's terms allow have joined", code="session_full")


def blame(agents: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Without whom a session could not go on, and why: of the agents of these rows."""
    return [
        {
            "fingerprint": row["fingerprint"],
            "cause": row["cause"],
            "detail": CAUSES.get(row["cause"], ""),
        }
        for row in agents
        if row["cause"] is not None
    ]


def listed_of(roster: bytes) -> set[str]:
    return {agent["fingerprint"] for agent in json.loads(roster)["agents"]}


def member(row: Mapping[str, Any]) -> Member:
    return Member(row["fingerprint"], row["name"], bytes(row["public_key"]), row["announcement"])
