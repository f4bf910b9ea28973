"""An agent's receipt: the charge that it accepted in one session, as an in-toto statement that it
signs itself.

The entry of the agent's ledger carries the protocol's signature, over other bytes, so this is a
second signature, made when the agent exports the receipt; the first is part of the predicate. The
predicate holds the server's charge with the server's signature, and of the agent's ledger only what
commits to that charge: it does not reveal what the agent has spent elsewhere.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from discreet_agent import dsse
from discreet_agent.federation import signing
from discreet_agent.federation.identity import Identity

PREDICATE = "urn:discreet:receipt:v1"


def subject(predicate: Mapping[str, Any]) -> dict[str, str]:
    """The digest of the charge, named after job and agent."""
    digest = signing.digest(predicate["charge"].encode()).hex()
    return {f"{predicate['job']}/charge/{predicate['agent']}": digest}


def receipt(identity: Identity, entry: Any, *, given_back: bool) -> dict[str, Any]:
    """The predicate of a receipt, from the ledger entry of a charge (`agent.ledger.Entry`).
    `given_back`: whether a later entry returns the charge; the agent alone vouches for that."""
    body = entry.body
    return {
        "session": json.loads(body["charge"])["session"],
        "job": body["job"],
        "agent": identity.fingerprint,
        "public_key": base64.b64encode(identity.public_key).decode(),
        "charge": body["charge"],
        "server_key": body["server_key"],
        "server_signature": body["server_signature"],
        "entry": {
            "seq": entry.seq,
            "link": entry.link.hex(),
            "hash": entry.hash.hex(),
            "signature": base64.b64encode(entry.signature).decode(),
        },
        "given_back": given_back,
    }


def seal(predicate: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
    """The envelope of a receipt, signed by its agent."""
    return dsse.signed(
        dsse.statement(subject(predicate), PREDICATE, predicate), identity.sign, identity.public_key
    )


def opened(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The receipt in an envelope; dsse.BadEnvelope if it holds none. No signature is checked."""
    return dsse.opened(envelope, PREDICATE, subject, "receipt")
