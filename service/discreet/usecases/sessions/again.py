"""A session that has failed, started again without the agents that it could not go on without."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from discreet.errors import Conflict, InvalidInput
from discreet.problems.federation import FederatedProblem
from discreet.problems.numbers import Privacy
from discreet.storage import audit_log, sessions
from discreet.storage.jobs import FINAL
from discreet.storage.tenants import Principal
from discreet.usecases import jobs
from discreet.usecases.access import require
from discreet.usecases.services import Services
from discreet.usecases.sessions import enrolment, records


async def start(
    services: Services, principal: Principal, job_id: str, without: Sequence[str] | None
) -> dict[str, Any]:
    """Submit the problem of a job that has ended once more, for the agents of its roster but
    `without` (fingerprints; by default those whom its error names), who are enrolled with what they
    had announced: they come back with the one link and their own keys. The owner compares and signs
    the new roster as every roster.

    Asked twice, it answers the same job. Conflict unless the session has failed or was cancelled
    with a signed roster. What was opened before it failed stays opened: the sums of both jobs
    together tell about who is left out (docs/opened-sums.md).
    """
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        session, job = await records.find(connection, principal, job_id)
        agents = await sessions.agents(connection, job_id)
    if job["state"] not in FINAL or job["state"] == "succeeded" or session["roster"] is None:
        raise Conflict(
            "only a session with a signed roster that has failed or was cancelled is started again",
            code="not_failed",
        )
    listed = records.listed_of(session["roster"])
    blamed = {one["fingerprint"] for one in records.blame(agents)}
    leave = blamed if without is None else set(without)
    if unknown := leave - listed:
        raise InvalidInput(
            f"{sorted(unknown)[0]} is not on the roster of this session", pointer="/without"
        )
    staying = [row for row in agents if row["fingerprint"] in listed - leave]
    if not staying:
        raise InvalidInput("no agent would be left", pointer="/without")
    problem = records.read_problem(job).without_agents(len(staying))
    names = sorted(row["fingerprint"] for row in staying)
    request = json.dumps({"again": job_id, "agents": names}).encode()
    made = await jobs.submit(
        services,
        principal,
        idempotency_key=f"again-{hashlib.sha256(request).hexdigest()}",
        request=request,
        problem=problem,
        privacy=_privacy(problem, session["budget"]),
        seed=job["seed"],
        name=job["name"],
    )
    async with services.database.transaction(principal.tenant_id) as connection:
        fresh, begun = await records.find(connection, principal, made["id"], hold=True)
        if begun["state"] == "awaiting_agents" and fresh["roster"] is None:
            await sessions.set_owner(connection, made["id"], session["owner"])
            known = {row["fingerprint"] for row in await sessions.agents(connection, made["id"])}
            for row in staying:
                if row["fingerprint"] not in known:
                    fields = {name: row[name] for name in sessions.MEMBER}
                    await sessions.put_agent(connection, job_id=made["id"], **fields)
            await audit_log.note(
                connection, principal, "session.again", made["id"], before=job_id, agents=len(names)
            )
    link = enrolment.link_of(services, fresh["id"], session["owner"])
    return {"job": made["id"], "session": fresh["id"], "link": str(link), "agents": names}


def _privacy(problem: FederatedProblem, budget: dict[str, str]) -> Privacy | None:
    """The budget as it was asked for; None for a kind whose requests have none."""
    try:
        problem.budget(None)
    except InvalidInput:
        return Privacy(
            epsilon=Decimal(budget["epsilon"]).scaleb(-9),
            delta=Decimal(budget["delta"]).scaleb(-18),
        )
    return None
