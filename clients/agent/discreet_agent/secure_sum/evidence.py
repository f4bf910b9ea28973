"""What a run guarantees and reveals: the section `cryptographic` of a certificate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from discreet_agent import ed25519
from discreet_agent.secure_sum.errors import Unacceptable
from discreet_agent.secure_sum.frames import HEADER, PROTOCOL, Kind, Verdict
from discreet_agent.secure_sum.roster import Parameters, Roster


def guarantee(parameters: Parameters, agents: int, rounds: int) -> dict[str, Any]:
    """Scheme and protocol of a run with so many agents, in which `rounds` sums were opened, and
    what was revealed to whom."""
    reveals = {
        "agents": f"the sum of each round, noise included: {rounds} vectors of "
        f"{parameters.dimension} numbers; who takes part",
        "operator": "who takes part, when, and that the job went on: no value",
        "listeners": "the traffic: no value",
    }
    if parameters.tolerance is not None:
        reveals["operator"] = (
            "who takes part, when, that the job went on, and whether the sums settled: no value"
        )
    if parameters.allow_dropout:
        reveals["agents"] += (
            "; an agent that leaves, or is declared gone, is revealed up to the drift of one round"
        )
        if parameters.noise_sigma:
            reveals["agents"] += " and the noise"
    return {
        "type": "cryptographic",
        "protocol": PROTOCOL,
        "scheme": parameters.scheme,
        "key_bits": parameters.key_bits if parameters.scheme == "paillier" else None,
        "agents": agents,
        "colluding": parameters.colluding,
        "allow_dropout": parameters.allow_dropout,
        "noise_sigma": parameters.noise_sigma,
        "rounds": rounds,
        "reveals": reveals,
    }


def unsigned(evidence: Mapping[str, Any]) -> list[str]:
    """Members (Ed25519 keys in hex) of the roster in `Operator.certificate()` who have not signed
    its transcript.

    Empty when all have: then all agents have seen the same broadcasts, and `settled` is what they
    found, whatever the operator says. The caller must know whose keys these are. Raises
    Unacceptable when the evidence cannot be read.
    """
    try:
        roster = Roster.read(str(evidence["roster"]).encode())
        fingerprint, previous = bytes.fromhex(evidence["key"]), bytes.fromhex(evidence["last_sum"])
        settled = evidence.get("settled")
        said = (
            Verdict.UNSAID if settled is None else Verdict.SETTLED if settled else Verdict.UNSETTLED
        )
        transcript = hashlib.sha256(bytes.fromhex(evidence["transcript"]) + said.value).digest()
        signatures = {
            str(member): bytes.fromhex(one) for member, one in evidence["signatures"].items()
        }
        numbers = int(evidence["epoch"]), int(evidence["round"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unacceptable(f"the evidence of the run cannot be read: {error}") from error
    context = PROTOCOL.encode() + hashlib.sha256(roster.job.encode()).digest() + roster.hash
    missing = []
    for place, member in enumerate(roster.members):
        header = HEADER.pack(Kind.TRANSCRIPT, *numbers, place)
        statement = context + header + fingerprint + previous + transcript
        signature = signatures.get(member.hex(), b"")
        if not ed25519.is_signed(member, statement, signature):
            missing.append(member.hex())
    return missing
