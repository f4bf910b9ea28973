"""An agent's receipt: what it let itself be charged in one session, as an in-toto statement that it
signs itself.

The entry of the agent's ledger is signed for the protocol, over other bytes; so this signature is a
second one, made when the agent exports the receipt, and the first stands inside. The predicate
holds the server's charge with the server's signature, and of the agent's ledger what commits to
that charge and nothing else: what the agent has spent elsewhere cannot be seen.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from discreet_client import dsse
from discreet_client.federation import signing
from discreet_client.federation.identity import Identity

PREDICATE = "urn:discreet:receipt:v1"


def subject(predicate: Mapping[str, Any]) -> dict[str, str]:
    """The charge, by job and agent."""
    digest = signing.digest(predicate["charge"].encode()).hex()
    return {f"{predicate['job']}/charge/{predicate['agent']}": digest}


def receipt(identity: Identity, entry: Any, *, given_back: bool) -> dict[str, Any]:
    """What an entry of the agent's ledger (`agent.ledger.Entry`, of a charge) proves to others.
    given_back: a later entry takes the charge back; that it does so is the agent's word."""
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
    """The receipt in an envelope; dsse.BadEnvelope. No signature is looked at."""
    return dsse.opened(envelope, PREDICATE, subject, "receipt")
