"""What signatures of the federation cover: one statement a purpose, its fields length-prefixed, so
that no two differ in meaning and agree in bytes.

Ed25519 throughout (`discreet_client.ed25519`). A key is known by its fingerprint, the SHA-256 of
its 32 raw bytes in hex.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable

from discreet_client import ed25519

PREFIX = b"discreet/federation/v1"

_TURN = struct.Struct(">LQLQLQL")
"""Sequence, round and time of a message with their lengths, and the length of the digest that
follows."""


def fingerprint(public_key: bytes) -> str:
    """How people and tokens name a key."""
    return hashlib.sha256(public_key).hexdigest()


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def answers(broadcast: bytes, delivery: bytes) -> bytes:
    """What a contribution says it answers: the digest of the broadcast; where something was
    delivered to this agent alone, the digest of both digests."""
    if not delivery:
        return digest(broadcast)
    return digest(digest(broadcast) + digest(delivery))


def is_signed(public_key: bytes, statement: bytes, signature: bytes) -> bool:
    """Whether `signature` is that of `public_key` (32 raw bytes) on `statement`."""
    return ed25519.is_signed(public_key, statement, signature)


def enrolment(session: str, nonce: bytes, timestamp_ms: int, content: bytes) -> bytes:
    """By the agent, of its request to `Enroll`."""
    return _statement(b"Enroll", session, nonce, timestamp_ms, digest(content))


def enrolled(session: str, content: bytes) -> bytes:
    """By the server, of its answer to `Enroll`."""
    return _statement(b"Enrolled", session, digest(content))


def message(
    session: str, nonce: bytes, sequence: int, round_number: int, timestamp_ms: int, content: bytes
) -> bytes:
    """By the agent, of every message of `Participate`. `nonce` is the stream's challenge: no
    message fits another stream; `sequence` counts the messages of the stream: none fits it
    twice."""
    return _statement(
        b"Participate", session, nonce, sequence, round_number, timestamp_ms, digest(content)
    )


def messages(session: str, nonce: bytes) -> Callable[[int, int, int, bytes], bytes]:
    """`message` for one stream, of (sequence, round_number, timestamp_ms, content): what its
    statements have in common is written once."""
    head = _statement(b"Participate", session, nonce)

    def statement(sequence: int, round_number: int, timestamp_ms: int, content: bytes) -> bytes:
        return (
            head
            + _TURN.pack(8, sequence, 8, round_number, 8, timestamp_ms, 32)
            + hashlib.sha256(content).digest()
        )

    return statement


def operator(session: str, content: bytes) -> bytes:
    """By the server, of every message of `Participate`; the challenge comes before any session is
    named ("")."""
    return _statement(b"Operator", session, digest(content))


def roster(document: bytes) -> bytes:
    """By the owner, whose key the server never holds."""
    return _statement(b"Roster", digest(document))


def charge(document: bytes) -> bytes:
    """By the server, of what it charges to one agent's account."""
    return _statement(b"Charge", digest(document))


def booked(link: bytes, seq: int, charge_digest: bytes) -> bytes:
    """Hash of the entry by which an agent's ledger holds a charge.

    `link` (32 bytes) stands for the entries before and the rest of this one. Who has it, and the
    agent's signature on the hash, can prove what was booked, and learns nothing of what else the
    agent has spent.
    """
    return hashlib.sha256(link + seq.to_bytes(8, "big") + charge_digest).digest()


def ledger_entry(entry_hash: bytes) -> bytes:
    """By the agent, of one entry of its own ledger."""
    return _statement(b"LedgerEntry", entry_hash)


def history(roster_digest: bytes, end: bytes) -> bytes:
    """By an agent, of how the chain of all broadcasts ends that it was shown in the session of this
    roster."""
    return _statement(b"History", roster_digest, end)


def computed(context: bytes, broadcast_digest: bytes, said: str) -> bytes:
    """By an agent, of a computation on shares that it has come through: with whom and on what terms
    (`context`), on which parts of the operator's, and what was opened to all of them."""
    return _statement(b"Computed", context, broadcast_digest, said)


def _statement(purpose: bytes, *fields: str | bytes | int) -> bytes:
    parts = [PREFIX, purpose]
    for field in fields:
        if isinstance(field, int):
            parts.append(field.to_bytes(8, "big"))
        else:
            parts.append(field.encode() if isinstance(field, str) else field)
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
