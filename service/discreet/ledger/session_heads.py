"""Federated sessions as in-toto statements: the head of a session, which the service signs, and
checks of it and of the receipts that agents sign themselves
(`discreet_agent.federation.receipts`).

The head says how far a session is and holds what others have signed of it: the owner's roster, and
for each agent the charge with the signature by which it booked it. Those signatures are the
protocol's own, over the protocol's own statements (docs/protocol.md): they stand inside as
evidence, and are looked at as what they are. Only the service's signature is one of the envelope.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.ledger import envelopes
from discreet.ledger.certificates import Check, public_key
from discreet.ledger.entries import Signer, is_hash
from discreet_agent import canonical, dsse
from discreet_agent.dsse import bytes_of
from discreet_agent.federation import receipts, signing

PREDICATE = "urn:discreet:session:v1"
NO_FORMAT = "it is not of the documented format"
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Beside:
    """What a reader holds beside the head of a session, or beside a receipt."""

    public_keys: Collection[str] = ()
    """Base64, of the service: one of them must have signed; where there is none, any may have."""
    owner: str | None = None
    """Fingerprint of the owner whose roster it must be."""
    agent: str | None = None
    """Fingerprint of the agent whose receipt it must be."""
    certificate: Json | None = None
    receipts: Sequence[Json] = field(default_factory=tuple)
    """Envelopes of agents."""


def _read(text: str) -> Any:
    """A JSON text that somebody has signed, where every reader takes it for the same; ValueError
    for one with a name twice, with NaN or half of a character."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a name appears twice")
        return dict(pairs)

    value = json.loads(text, object_pairs_hook=once)
    canonical.dumps(value)
    return value


def subject(predicate: Json) -> dict[str, str]:
    """The roster, and the transcript as far as it goes."""
    digests = {f"{predicate['job']}/roster": signing.digest(predicate["roster"].encode()).hex()}
    if predicate["transcript"] is not None:
        digests[f"{predicate['job']}/transcript"] = predicate["transcript"]
    return digests


def seal(head: Json, key: Signer) -> dict[str, Any]:
    """The signed envelope of a session's head, which gets the public key of its signature."""
    predicate = {**head, "public_key": public_key(key)}
    return envelopes.signed(dsse.statement(subject(predicate), PREDICATE, predicate), key)


def opened(envelope: Json) -> dict[str, Any]:
    """The head in an envelope; BadEnvelope. No signature is looked at."""
    return dsse.opened(envelope, PREDICATE, subject, "session")


def check(envelope: Json, beside: Beside) -> list[Check]:
    """All checks of a session's head, or of an agent's receipt, that need no server. BadEnvelope
    for anything else."""
    if dsse.type_of(envelope) == receipts.PREDICATE:
        return check_receipt(envelope, beside)
    head = opened(envelope)
    checks = [
        _check_signature(envelope, head.get("public_key"), beside.public_keys),
        _check_roster(head, beside.owner),
    ]
    if checks[-1].holds:
        checks.append(_check_receipts(head))
    if beside.certificate is not None:
        checks.append(_check_certificate(head, beside.certificate))
    for one in beside.receipts:
        checks += _check_beside(head, one, beside.public_keys)
    return checks


def check_receipt(envelope: Json, beside: Beside) -> list[Check]:
    """Whether an agent has signed the envelope, the server the charge in it, and the agent the
    entry of its ledger that holds this charge. BadEnvelope for what is no receipt."""
    receipt = receipts.opened(envelope)
    checks = [_check_signature(envelope, receipt.get("public_key"), ())]
    try:
        key, charge = bytes_of(receipt["public_key"]), receipt["charge"]
        own = signing.fingerprint(key) == receipt["agent"]
        if not own or beside.agent not in (None, receipt["agent"]):
            checks.append(Check("agent", False, "it is signed by another agent's key"))
        else:
            checks.append(Check("agent", True, f"of the agent {receipt['agent']}"))
        checks.append(_check_charge(receipt, beside.public_keys))
        if type(receipt["given_back"]) is not bool:
            raise ValueError("given back, or not")
        wrong = _wrong_entry(receipt["entry"], charge, key)
        held = "the agent's ledger holds the charge" + (
            ", and the agent says given back" * receipt["given_back"]
        )
        checks.append(
            Check("entry", wrong is None, wrong or f"{held}, as entry {receipt['entry']['seq']}")
        )
    except _UNREADABLE:
        checks.append(Check("receipt", False, NO_FORMAT))
    return checks


def _check_signature(envelope: Json, own: Any, given: Collection[str]) -> Check:
    if given and own not in given:
        return Check("envelope", False, "signed by another key than the one that was given")
    found = envelopes.signature(envelope, [own])
    return (
        found
        if found.holds is not None
        else Check("envelope", False, "not signed by the key that it names")
    )


def _check_roster(head: Json, owner: str | None) -> Check:
    """Whether the owner has signed who takes part in this session of this job."""
    name = "roster"
    try:
        roster, key = _read(head["roster"]), bytes_of(head["owner_key"])
        if not signing.is_signed(
            key, signing.roster(head["roster"].encode()), bytes_of(head["roster_signature"])
        ):
            return Check(name, False, "the owner has not signed this roster")
        if owner not in (None, signing.fingerprint(key)):
            return Check(name, False, "it is signed by another owner than the one that was given")
        if any(roster[one] != head[one] for one in ("session", "job", "kind")):
            return Check(name, False, "it is the roster of another session")
        keys = _keys(roster)
        if any(signing.fingerprint(one) != agent for agent, one in keys.items()):
            return Check(name, False, "an agent's key is not the one of its fingerprint")
    except _UNREADABLE:
        return Check(name, False, NO_FORMAT)
    return Check(name, True, f"{len(keys)} agents, signed by the owner {signing.fingerprint(key)}")


def _keys(roster: Json) -> dict[str, bytes]:
    """By fingerprint. ValueError where one appears twice."""
    keys = {one["fingerprint"]: bytes_of(one["key"]) for one in roster["agents"]}
    if len(keys) < len(roster["agents"]):
        raise ValueError("an agent appears twice")
    return keys


def _check_receipts(head: Json) -> Check:
    """Whether every agent of the roster has signed that it booked what is said to be charged; open
    while some have not, and for receipts that commit to nothing which could be seen here."""
    name = "receipts"
    try:
        keys, left, old = _keys(_read(head["roster"])), [], []
        found = {one["agent"]: one for one in head["receipts"]}
        if len(found) < len(head["receipts"]) or not found.keys() <= keys.keys():
            return Check(
                name,
                False,
                "a receipt appears twice, or belongs to an agent that is not on the roster",
            )
        for agent, key in keys.items():
            receipt = found.get(agent)
            if receipt is None:
                left.append(agent)
            elif "link" not in receipt:
                old.append(agent)
            elif (wrong := _wrong_receipt(receipt, head, key)) is not None:
                return Check(name, False, f"of {agent}: {wrong}")
    except _UNREADABLE:
        return Check(name, False, NO_FORMAT)
    if left or old:
        missing = [f"none of {', '.join(left)}"] * bool(left) + [
            f"of an older version: {', '.join(old)}"
        ] * bool(old)
        return Check(
            name,
            None,
            f"{len(keys) - len(left) - len(old)} of {len(keys)} hold; {'; '.join(missing)}",
        )
    return Check(name, True, f"all {len(keys)} agents have signed that they booked their charge")


def _wrong_receipt(receipt: Json, head: Json, key: bytes) -> str | None:
    """What is wrong with an agent's receipt in the head of a session."""
    charge = _read(receipt["charge"])
    if (charge["session"], charge["job"], charge["agent"]) != (
        head["session"],
        head["job"],
        receipt["agent"],
    ):
        return "the charge is of another session, or another agent"
    return _wrong_entry(receipt, receipt["charge"], key)


def _wrong_entry(entry: Json, charge: str, key: bytes) -> str | None:
    """What is wrong with the entry by which an agent's ledger is said to hold a charge."""
    if not is_hash(entry["link"]) or type(entry["seq"]) is not int:
        return NO_FORMAT
    booked = signing.booked(
        bytes.fromhex(entry["link"]), entry["seq"], signing.digest(charge.encode())
    )
    if booked.hex() != entry["hash"]:
        return "the entry holds another charge"
    if not signing.is_signed(key, signing.ledger_entry(booked), bytes_of(entry["signature"])):
        return "the agent has not signed the entry"
    return None


def _check_charge(receipt: Json, public_keys: Collection[str]) -> Check:
    name, charge = "charge", _read(receipt["charge"])
    if any(charge[one] != receipt[one] for one in ("session", "job", "agent")):
        return Check(name, False, "it is the charge of another session, or of another agent")
    statement, by_server = (
        signing.charge(receipt["charge"].encode()),
        bytes_of(receipt["server_signature"]),
    )
    if not signing.is_signed(bytes_of(receipt["server_key"]), statement, by_server):
        return Check(name, False, "the server has not signed it")
    if public_keys and receipt["server_key"] not in public_keys:
        return Check(name, None, "signed by a server's key that was not given")
    return Check(name, True, f"{receipt['job']}, signed by the server {receipt['server_key']}")


def _check_certificate(head: Json, certificate: Json) -> Check:
    """Whether a certificate is of this session: of its roster, owner and transcript, and of what
    was charged."""
    name = "certificate"
    try:
        said = certificate["federation"]
        expected = {
            "session": head["session"],
            "roster": signing.digest(head["roster"].encode()).hex(),
            "owner": signing.fingerprint(bytes_of(head["owner_key"])),
            "agents": len(_read(head["roster"])["agents"]),
            "rounds": head["rounds"],
            "transcript": head["transcript"],
        }
        wrong = [one for one, figure in expected.items() if said[one] != figure]
        if certificate["job"] != head["job"] or wrong:
            return Check(name, False, f"it belongs to another session: {', '.join(wrong) or 'job'}")
        for receipt in head["receipts"]:
            charge = _read(receipt["charge"])
            charged = charge["entry"] is not None
            if charged and any(
                charge["price"][one] != certificate["price"][one] for one in ("epsilon", "delta")
            ):
                return Check(
                    name, False, f"it has another price than the charge of {receipt['agent']}"
                )
            if charged and charge["account"] not in {
                one["account"] for one in certificate["ledger_entry"]
            }:
                return Check(name, False, f"it names no entry on the account of {receipt['agent']}")
    except _UNREADABLE:
        return Check(name, False, "it is not the certificate of a federated job")
    return Check(name, True, "it names this session's roster, owner, transcript and price")


def _check_beside(head: Json, envelope: Json, public_keys: Collection[str]) -> list[Check]:
    """A receipt that an agent has given out itself, and whether it is the one that the head
    holds."""
    checks = check_receipt(envelope, Beside(public_keys=public_keys))
    if any(one.holds is False for one in checks):
        return checks
    receipt = receipts.opened(envelope)
    held = [one for one in head["receipts"] if one.get("agent") == receipt["agent"]]
    entry = receipt["entry"]
    own = {**entry, "agent": receipt["agent"], "charge": receipt["charge"]}
    same = held == [own]
    return [
        *checks,
        Check(
            "receipt",
            same,
            f"the session holds {'it' if same else 'another'} of {receipt['agent']}",
        ),
    ]


def head_of(session: Json, job: Json, agents: Sequence[Json]) -> dict[str, Any]:
    """What the service says of a session, from its row, the job's and the agents', whose roster is
    signed."""
    return {
        "session": session["id"],
        "job": job["id"],
        "kind": job["kind"],
        "state": job["state"],
        "code": job["error_code"],
        "rounds": session["round"],
        "transcript": None if session["transcript"] is None else bytes(session["transcript"]).hex(),
        "roster": bytes(session["roster"]).decode(),
        "roster_signature": base64.b64encode(session["roster_signature"]).decode(),
        "owner_key": base64.b64encode(session["owner_key"]).decode(),
        "receipts": [
            {"agent": row["fingerprint"], **row["receipt"]}
            for row in agents
            if row["receipt"] is not None
        ],
    }
