"""The head of a session for strangers: how far it has got, and what owner and agents have
signed."""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from discreet.errors import Conflict
from discreet.ledger import session_heads
from discreet.storage import sessions
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.services import Services
from discreet.usecases.sessions import records
from discreet.usecases.sessions.rosters import READERS


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
