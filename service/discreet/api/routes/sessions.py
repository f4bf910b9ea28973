"""Sessions of federated jobs: links for agents, who has joined, the owner's roster."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import Response

from discreet.api import examples
from discreet.api.operations import operation
from discreet.api.routes.ledger import EnvelopeAnswer
from discreet.api.schemas import JobError
from discreet.errors import InvalidInput
from discreet.storage.tables import JobState
from discreet.usecases.requests import (
    RosterRequest,
    SessionAgainRequest,
    SessionTokensRequest,
)
from discreet.usecases.sessions import again, enrolment, rosters
from discreet.web.bodies import ROSTER_BYTES, json_body
from discreet.web.responses import answer
from discreet.web.security import CurrentPrincipal, CurrentServices

# Session schemas ----------------------------------------------------------------------------------
# Answers about federated sessions.


class SessionTokensAnswer(BaseModel):
    """Links for agents, shown only once."""

    session: str
    links: list[str] = Field(
        description="One for each agent, good for one enrolment; in the order of `names`"
    )
    link: str | None = Field(description="The one link of a standing group, which holds no token")
    expires_at: datetime | None = None


class SessionAgentAnswer(BaseModel):
    """An agent that has enrolled."""

    name: str
    fingerprint: str
    key: str
    unit: str
    account: str
    announcement: dict[str, Any]
    enrolled_at: datetime
    on_roster: bool
    accepted: bool = Field(
        description="True if it has the roster and has recorded its charge in its own ledger"
    )
    receipt: dict[str, Any] | None = Field(description="Its signed receipt for that")
    speaks: list[str] = Field(
        description="Versions of protocols, methods and encryptions that it speaks, as it says"
    )
    cause: str | None = Field(
        description="Why the session could not go on without it; null if it could"
    )


class OpenedBefore(BaseModel):
    """What was opened of sums with an agent in them: chances to find it out add up over jobs."""

    for_each_agent: float = Field(
        description="Opened numbers for each agent among whom they were, summed over jobs"
    )
    numbers: int
    jobs: int


class SessionAnswer(BaseModel):
    """The session of a federated job."""

    id: str
    job: str
    kind: str
    state: JobState
    terms: dict[str, Any]
    parameters: dict[str, Any] | None = Field(
        description="What the owner signs with the roster besides the agents"
    )
    owner: str | None
    tokens: dict[str, int]
    agents: list[SessionAgentAnswer]
    roster: str | None
    approve_by: datetime | None = Field(
        description="When the session stops waiting for the signed roster; null if it does not wait"
    )
    approved_at: datetime | None
    round: int = Field(description="Completed rounds")
    opened_before: OpenedBefore = Field(
        description="Of the enrolled agent of whom most was opened without noise in other jobs"
    )
    error: JobError | None = Field(description="Why it failed, and what was charged")


class SessionAgainAnswer(BaseModel):
    """A job like one that has failed, without some of its agents."""

    job: str
    session: str
    link: str = Field(
        description="For all agents that remain: they start again with it and their own keys"
    )
    agents: list[str] = Field(description="Fingerprints of those")


# Sessions -----------------------------------------------------------------------------------------

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


@router.post(
    "/{job_id}/tokens",
    **operation(
        "invite_agents",
        roles=["owner"],
        answers={201: SessionTokensAnswer},
        codes=[
            "not_found",
            "not_awaiting_agents",
            "owner_pinned",
            "roster_signed",
            "session_full",
            "no_rpc",
        ],
        body=SessionTokensRequest,
        examples=examples.INVITATIONS,
    ),
)
async def invite_agents(
    job_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[SessionTokensRequest, Depends(json_body(SessionTokensRequest))],
) -> Response:
    """Create links that let agents join, one each, or the link of a standing group."""
    made = await enrolment.create_tokens(
        services,
        principal,
        job_id,
        owner=request.owner,
        count=request.count,
        names=request.names,
        group=request.group,
    )
    return answer(made, 201)


@router.get(
    "/{job_id}",
    **operation(
        "get_session", roles=rosters.READERS, answers={200: SessionAnswer}, codes=["not_found"]
    ),
)
async def get_session(
    job_id: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Who has joined a federated job, and how far it has got."""
    return answer(await rosters.show(services, principal, job_id, to_sign=True))


@router.get(
    "/{job_id}/statement",
    **operation(
        "get_session_statement",
        roles=rosters.READERS,
        answers={200: EnvelopeAnswer},
        codes=["not_found", "no_roster"],
    ),
)
async def get_session_statement(
    job_id: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """The head of a session as an in-toto statement in a signed envelope (DSSE): how far it has
    got, the roster that its owner signed, and each agent's signed receipt; 409 `no_roster`
    until there is a roster."""
    return answer(await rosters.statement(services, principal, job_id))


@router.post(
    "/{job_id}/again",
    **operation(
        "start_session_again",
        roles=["owner"],
        answers={201: SessionAgainAnswer},
        codes=["not_found", "not_failed", "no_rpc", "exposed", "budget_exhausted"],
        body=SessionAgainRequest,
        examples=examples.AGAIN,
    ),
)
async def start_session_again(
    job_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[SessionAgainRequest, Depends(json_body(SessionAgainRequest))],
) -> Response:
    """Submit the problem of a failed session again without the agents that it could not go on
    without: the others are enrolled, and come back with the one link. Asked twice, it answers the
    same job."""
    made = await again.start(services, principal, job_id, request.without)
    return answer(made, 201)


@router.delete(
    "/{job_id}/agents/{fingerprint}",
    **operation(
        "remove_agent",
        roles=["owner"],
        answers={204: None},
        codes=["not_found", "not_awaiting_agents", "roster_signed"],
    ),
)
async def remove_agent(
    job_id: str, fingerprint: str, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Remove an agent that has enrolled, before the roster is signed; its token cannot be used
    again."""
    await rosters.remove(services, principal, job_id, fingerprint)
    return Response(status_code=204)


@router.put(
    "/{job_id}/roster",
    **operation(
        "approve_roster",
        roles=["owner"],
        answers={200: SessionAnswer},
        codes=[
            "not_found",
            "not_awaiting_agents",
            "roster_signed",
            "roster_stale",
            "roster_signature",
            "owner_differs",
            "session_full",
            "unit_differs",
            "exposed",
            "budget_exhausted",
        ],
        body=RosterRequest,
        examples=examples.ROSTERS,
    ),
)
async def approve_roster(
    job_id: str,
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[RosterRequest, Depends(json_body(RosterRequest, ROSTER_BYTES))],
) -> Response:
    """Submit the roster that the owner signed: the price is reserved on every agent's account or
    on none, and the session begins. 409 `budget_exhausted` if a cap does not allow it; another
    roster may then be signed."""
    done = await rosters.approve(
        services,
        principal,
        job_id,
        roster=request.roster.encode(),
        signature=_base64("/signature", request.signature),
        owner_key=_base64("/owner_key", request.owner_key),
        save_as=request.save_as,
    )
    return answer(done)


def _base64(pointer: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("must be base64", pointer=pointer) from None
