"""The broadcasts of a session as a hash chain: each begins with the digest of the one before.

Agents who sign the same last digest have seen the same broadcasts as far as each has seen them
without a gap: a different broadcast for one of them would change the digest. An agent that missed a
round continues the chain from the next one. Before a gap a server that lies may have shown it
others, unless its step compares them (sessions with masks do).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from discreet_agent.federation import signing
from discreet_agent.federation.errors import NotTrusted

DIGEST_BYTES, SIGNATURE_BYTES = 32, 64
BEGINNING = bytes(DIGEST_BYTES)
"""The digest before the first broadcast."""
_ENTRY = DIGEST_BYTES + SIGNATURE_BYTES


def after(broadcast: bytes) -> bytes:
    """The digest that the next broadcast begins with."""
    return hashlib.sha256(broadcast).digest()


def split(broadcast: bytes) -> tuple[bytes, bytes]:
    """The digest of the broadcast before, and the content. ValueError if it is too short."""
    if len(broadcast) < DIGEST_BYTES:
        raise ValueError("a broadcast begins with the digest of the one before")
    return broadcast[:DIGEST_BYTES], broadcast[DIGEST_BYTES:]


def packed(signatures: Mapping[str, bytes]) -> bytes:
    """Signatures by fingerprint (hex), as the last broadcast carries them."""
    return b"".join(bytes.fromhex(agent) + signatures[agent] for agent in sorted(signatures))


def unpacked(data: bytes) -> dict[str, bytes]:
    """The inverse of `packed`. ValueError for any other length."""
    if len(data) % _ENTRY:
        raise ValueError("this is not a list of signatures")
    entries = [data[place : place + _ENTRY] for place in range(0, len(data), _ENTRY)]
    return {entry[:DIGEST_BYTES].hex(): entry[DIGEST_BYTES:] for entry in entries}


def unsigned(
    roster_digest: bytes,
    agents: Iterable[Mapping[str, Any]],
    end: bytes,
    signatures: Mapping[str, bytes],
) -> list[str]:
    """Fingerprints of the agents (of a roster, with `fingerprint` and `key` as 32 raw bytes) who
    have not signed `end` as the last digest of this session's chain."""
    statement = signing.history(roster_digest, end)
    return [
        one["fingerprint"]
        for one in agents
        if not signing.is_signed(one["key"], statement, signatures.get(one["fingerprint"], b""))
    ]


def unsigned_of_result(
    agreement: Mapping[str, Any], certificate: Mapping[str, Any], roster: bytes
) -> list[str]:
    """Like `unsigned`, from published documents: a result's `agreement`, its certificate, and the
    roster (`GET /v1/sessions/{job}`), whose digest the certificate names. NotTrusted if they do not
    belong together or cannot be read."""
    digest = signing.digest(roster)
    try:
        if certificate["federation"]["roster"] != digest.hex():
            raise NotTrusted("the certificate names another roster")
        agents = [
            {"fingerprint": one["fingerprint"], "key": base64.b64decode(one["key"])}
            for one in json.loads(roster)["agents"]
        ]
        signatures = {agent: bytes.fromhex(one) for agent, one in agreement["signatures"].items()}
        return unsigned(digest, agents, bytes.fromhex(agreement["history"]), signatures)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise NotTrusted(f"the agreement of the agents cannot be read: {error}") from error
