"""The statements that are signed in a federation: one form for each purpose, with length-prefixed
fields, so that two statements of different meaning never have the same bytes.

All signatures are Ed25519 (`discreet_agent.ed25519`). A key is known by its fingerprint, the
SHA-256 of its 32 raw bytes in hex.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable

from discreet_agent import ed25519

PREFIX = b"discreet/federation/v1"

_TURN = struct.Struct(">LQLQLQL")
"""Sequence, round and time of a message with their lengths, and the length of the digest that
follows."""


def fingerprint(public_key: bytes) -> str:
    """The name of a key for people and in tokens."""
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
    """The agent signs this for its request to `Enroll`."""
    return _statement(b"Enroll", session, nonce, timestamp_ms, digest(content))


def enrolled(session: str, content: bytes) -> bytes:
    """The server signs this for its answer to `Enroll`."""
    return _statement(b"Enrolled", session, digest(content))


def message(
    session: str, nonce: bytes, sequence: int, round_number: int, timestamp_ms: int, content: bytes
) -> bytes:
    """What makes a message of `Participate` the agent's: its key signs this; of a contribution it
    is the text of the MAC (`stream_keys`). `nonce` is the stream's challenge, so that no message
    fits another stream; `sequence` counts the messages of the stream, so that none can be replayed
    in it."""
    return _statement(
        b"Participate", session, nonce, sequence, round_number, timestamp_ms, digest(content)
    )


def messages(session: str, nonce: bytes) -> Callable[[int, int, int, bytes], bytes]:
    """`message` for one stream, as a function of (sequence, round_number, timestamp_ms, content):
    the part that all its statements share is computed once."""
    head = _statement(b"Participate", session, nonce)

    def statement(sequence: int, round_number: int, timestamp_ms: int, content: bytes) -> bytes:
        return (
            head
            + _TURN.pack(8, sequence, 8, round_number, 8, timestamp_ms, 32)
            + hashlib.sha256(content).digest()
        )

    return statement


def contribution_key(session: str, challenge: bytes, hello: bytes) -> bytes:
    """What binds the key of a stream's contributions to the contents of its Challenge and Hello:
    the info of HKDF. Nobody signs it."""
    return _statement(b"ContributionKey", session, digest(challenge), digest(hello))


def operator(session: str, content: bytes) -> bytes:
    """The server signs this for every message of `Participate`; for the challenge, which comes
    before the session is named, `session` is empty."""
    return _statement(b"Operator", session, digest(content))


def roster(document: bytes) -> bytes:
    """The owner signs this for the roster; the server never holds the owner's key."""
    return _statement(b"Roster", digest(document))


def charge(document: bytes) -> bytes:
    """The server signs this for the charge to one agent's account."""
    return _statement(b"Charge", digest(document))


def booked(link: bytes, seq: int, charge_digest: bytes) -> bytes:
    """Hash of an entry of an agent's ledger that holds a charge.

    `link` (32 bytes) commits to the entries before and the rest of this one. Whoever has it and the
    agent's signature on the hash can prove what was charged, and learns nothing about what else the
    agent has spent.
    """
    return hashlib.sha256(link + seq.to_bytes(8, "big") + charge_digest).digest()


def ledger_entry(entry_hash: bytes) -> bytes:
    """The agent signs this for each entry of its own ledger."""
    return _statement(b"LedgerEntry", entry_hash)


def history(roster_digest: bytes, end: bytes) -> bytes:
    """An agent signs this for the chain of all broadcasts in the session of this roster; `end` is
    the last digest."""
    return _statement(b"History", roster_digest, end)


def computed(context: bytes, broadcast_digest: bytes, said: str) -> bytes:
    """An agent signs this for a computation on shares that it has finished: `context` commits to
    the members and the terms, `broadcast_digest` to the operator's figures, and `said` is the
    result that was opened to all."""
    return _statement(b"Computed", context, broadcast_digest, said)


def _statement(purpose: bytes, *fields: str | bytes | int) -> bytes:
    parts = [PREFIX, purpose]
    for field in fields:
        if isinstance(field, int):
            parts.append(field.to_bytes(8, "big"))
        else:
            parts.append(field.encode() if isinstance(field, str) else field)
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
