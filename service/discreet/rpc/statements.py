"""What the operator tells agents under its signature, roster and charge at the start and how the
session ended; and what a certificate says of a session."""

from __future__ import annotations

import json
from typing import Any

from discreet.ledger.entries import Signer
from discreet.rpc.authentication import signed
from discreet.usecases.sessions.rounds import Farewell, SessionLease
from discreet_agent.federation import signing
from discreet_agent.stubs import federation_pb2 as pb


def start_message(lease: SessionLease, signer: Signer, fingerprint: str) -> bytes:
    """The owner's roster, what this agent is charged, and the parameters of the rounds."""
    charge = charge_of(lease, fingerprint)
    start = pb.Start(
        roster=lease.roster,
        roster_signature=lease.roster_signature,
        owner_key=lease.owner_key,
        charge=charge,
        charge_signature=signer.sign(signing.charge(charge)),
        parameters=json.dumps(lease.plan.parameters).encode(),
        rounds=lease.plan.resources.steps,
    )
    return signed(signer, lease.session_id, start=start)


def charge_of(lease: SessionLease, fingerprint: str) -> bytes:
    """The charge on this agent's account, in a format that never changes."""
    account = lease.accounts[fingerprint]
    entry = lease.charges.get(account)
    free = dict.fromkeys(lease.plan.price, "0")
    body = {
        "version": 1,
        "session": lease.session_id,
        "job": lease.job_id,
        "agent": fingerprint,
        "account": account,
        "entry": entry,
        "price": free if entry is None else lease.plan.price,
        "events": [event.model_dump(mode="json") for event in lease.plan.events],
        "unit": lease.plan.unit,
        "neighbours": lease.plan.neighbours,
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def end_message(found: Farewell) -> pb.End:
    return pb.End(
        state=found.state,
        code=found.code,
        broadcast=found.broadcast,
        transcript=found.transcript,
        rounds=found.rounds,
        charged=found.charged,
        blamed=[pb.Blamed(fingerprint=name, cause=cause) for name, cause in found.blamed],
    )


def certified(held: SessionLease) -> dict[str, Any]:
    """Roster and transcript of a session that has ended, and what its kind adds."""
    return {
        "session": held.session_id,
        "roster": signing.digest(held.roster or b"").hex(),
        "owner": signing.fingerprint(held.owner_key or b""),
        "agents": len(held.members),
        "least": held.terms.least,
        "rounds": held.round,
        "transcript": held.transcript.hex(),
        **held.problem.certified_terms(held.plan),
    }
