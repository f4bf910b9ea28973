"""What agents sign about a computation on shares, and how the reader of a certificate checks it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from discreet_agent.federation import signing
from discreet_agent.mpc.terms import OPENED_BITS, PROTOCOL, STATISTICAL_BITS, Terms
from discreet_agent.secure_sum.errors import Unacceptable

ENGINE = "mpyc"
SECURITY = "semi-honest parties, honest majority"


def assumptions(terms: Terms) -> tuple[str, ...]:
    """The assumptions under which a computation is secret; certificates and results state them."""
    together = ""
    if terms.iterations is not None:
        count = terms.masked_values
        left = math.floor(STATISTICAL_BITS - math.log2(count))
        together = f"; of all steps there are up to {count}, together at most 2^-{left}"
    some = terms.parties < terms.agents
    return (
        "semi-honest: every agent runs the unmodified program. One that changes it can falsify the "
        "answers, and can find out data of others",
        f"honest majority: at most {terms.threshold} of the {terms.parties} agents"
        + (" that compute for all" if some else "")
        + f", with or without the server{' and all others' if some else ''}, pool what they see; "
        f"{terms.threshold + 1} of them together can compute all agents' data"
        + (
            f". They are the first {terms.parties} of {terms.agents} on the signed roster, by "
            "fingerprint; each other agent sends each of them one share of its data"
            if some
            else ""
        ),
        "statistical masking: each value that is opened under a mask reveals the secret under it "
        f"with a probability of at most 2^-{STATISTICAL_BITS}{together}",
    )


def reveals(terms: Terms) -> dict[str, str]:
    """What each side learns."""
    over_time = terms.iterations is not None
    asked = terms.asks
    bit = (
        "whether the last step still moved anything, or a limit was not kept, one bit"
        if over_time
        else "whether x is within the tolerance, the limit cannot be kept in every hour, or the "
        "bounds are too wide to tell"
    )
    price = (
        f" x is what {terms.iterations} steps have come to: by how much it differs from the "
        f"optimum, up to 2^-{OPENED_BITS} of the reach, depends on all agents' data, too. An agent "
        "whose own x lies strictly inside its bounds can compute the hour's price from it, with a "
        "budget the differences between hours' prices, "
        if over_time
        else " An agent whose own x lies strictly inside its bounds can compute the hour's price "
        "from it, "
    )
    return {
        "agents": f"each its own x, {f'and {bit}; ' if asked else ''}who takes part and "
        f"where they listen.{price}and from the price and c the sum of all",
        "operator": "who takes part, where they listen, how long it took"
        + (f", and {bit}" if asked else ""),
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
    """The statement that an agent signs about a computation that it has finished: `bound` is its
    `context`, `broadcast` the one with the operator's parts, `kept` the bit that was opened to
    all."""
    return signing.computed(bound, hashlib.sha256(broadcast).digest(), _words(kept))


def evidence(
    terms: Terms,
    members: Sequence[tuple[bytes, Mapping[str, Any]]],
    broadcast: bytes,
    kept: bool | None,
    signatures: Mapping[str, str],
) -> dict[str, Any]:
    """The section `cryptographic` of a certificate. `signatures`: by public key, both in hex."""
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
    """Members (keys in hex) who have not signed what the section says. Raises Unacceptable if it
    cannot be read."""
    try:
        terms = Terms.read(section["terms"])
        members = [(bytes.fromhex(one["key"]), one["announcement"]) for one in section["members"]]
        transcript = bytes.fromhex(section["transcript"])
        kept = section.get("settled")
        signatures = {str(key): bytes.fromhex(one) for key, one in section["signatures"].items()}
        said = signing.computed(context(terms, members), transcript, _words(kept))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unacceptable(f"the evidence of the computation cannot be read: {error}") from error
    if len(members) != terms.agents or kept not in (None, True, False):
        raise Unacceptable("the evidence of the computation: members and terms do not agree")
    return [
        key.hex()
        for key, _ in members
        if not signing.is_signed(key, said, signatures.get(key.hex(), b""))
    ]


def _words(kept: bool | None) -> str:
    return {None: "unsaid", True: "kept", False: "not kept"}[kept]
