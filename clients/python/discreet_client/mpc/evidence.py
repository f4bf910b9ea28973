"""What agents sign of a computation on shares, and what a reader of a certificate can check of
it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from discreet_client.federation import signing
from discreet_client.mpc.terms import PROTOCOL, STATISTICAL_BITS, Terms
from discreet_client.secure_sum.errors import Unacceptable

ENGINE = "mpyc"
SECURITY = "semi-honest parties, honest majority"


def assumptions(terms: Terms) -> tuple[str, ...]:
    """What the secrecy of a computation rests on; said wherever it is spoken of."""
    return (
        "semi-honest: every agent runs the program as it is. One that changes it can falsify the "
        "answers, and can find out data of others",
        f"honest majority: at most {terms.threshold} of the {terms.agents} agents, with or without "
        f"the server, pool what they see; {terms.threshold + 1} of them together can compute all "
        "agents' data",
        f"what is opened under masks tells the secret with a chance of 2^-{STATISTICAL_BITS} each "
        "time at most",
    )


def reveals(terms: Terms) -> dict[str, str]:
    """What is opened, to whom."""
    feasibility = (
        "and whether the limit could be kept in every hour, one bit; "
        if terms.limited and terms.tolerance is not None
        else ""
    )
    return {
        "agents": f"each its own x, {feasibility}who takes part and where they listen. Where an "
        "agent's own x lies inside its bounds it follows what the hour's price is, and with c the "
        "sum of all",
        "operator": "who takes part, where they listen, how long it took"
        + (", and whether the limit could be kept: one bit" if feasibility else ""),
        "listeners": "the traffic: its times and lengths, which do not depend on data",
    }


def context(terms: Terms, members: Sequence[tuple[bytes, Mapping[str, Any]]]) -> bytes:
    """SHA-256 of terms and members (key, announcement), in the order of the roster."""
    body = {
        "protocol": PROTOCOL,
        "terms": terms.fields,
        "members": [[key.hex(), dict(announced)] for key, announced in members],
    }
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).digest()


def statement(bound: bytes, broadcast: bytes, kept: bool | None) -> bytes:
    """By an agent, of a computation that it has come through: `bound` is its context, `broadcast`
    what brought the operator's parts, `kept` the bit that was opened to all."""
    return signing.computed(bound, hashlib.sha256(broadcast).digest(), _words(kept))


def evidence(
    terms: Terms,
    members: Sequence[tuple[bytes, Mapping[str, Any]]],
    broadcast: bytes,
    kept: bool | None,
    signatures: Mapping[str, str],
) -> dict[str, Any]:
    """The section `cryptographic` of a certificate. `signatures` by key, both in hex."""
    return {
        "type": "cryptographic",
        "protocol": PROTOCOL,
        "engine": ENGINE,
        "security": SECURITY,
        "agents": terms.agents,
        "threshold": terms.threshold,
        "assumptions": list(assumptions(terms)),
        "reveals": reveals(terms),
        "terms": terms.fields,
        "members": [
            {"key": key.hex(), "announcement": dict(announced)} for key, announced in members
        ],
        "rounds": 0,
        "transcript": hashlib.sha256(broadcast).hexdigest(),
        **({} if kept is None else {"settled": kept}),
        "signatures": dict(signatures),
    }


def unsigned(section: Mapping[str, Any]) -> list[str]:
    """Members (keys in hex) who have not signed what the evidence says. Raises Unacceptable when it
    cannot be read."""
    try:
        terms = Terms.read(section["terms"])
        members = [(bytes.fromhex(one["key"]), one["announcement"]) for one in section["members"]]
        transcript = bytes.fromhex(section["transcript"])
        kept = section.get("settled")
        signatures = {str(key): bytes.fromhex(one) for key, one in section["signatures"].items()}
        said = signing.computed(context(terms, members), transcript, _words(kept))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unacceptable(f"this is no evidence of a computation on shares: {error}") from error
    if len(members) != terms.agents or kept not in (None, True, False):
        raise Unacceptable(
            "this is no evidence of a computation on shares: members and terms do not agree"
        )
    return [
        key.hex()
        for key, _ in members
        if not signing.is_signed(key, said, signatures.get(key.hex(), b""))
    ]


def _words(kept: bool | None) -> str:
    return {None: "unsaid", True: "kept", False: "not kept"}[kept]
