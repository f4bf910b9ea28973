"""What travels in a round: payloads, and the signature behind each."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from discreet_client.secure_sum.errors import Refused
from discreet_client.secure_sum.masks import stream
from discreet_client.sparse_sum.group import Group, digest
from discreet_client.sparse_sum.signing import verify

SIGNATURE = 64
SEALED = 32 + 32 + 16
"""Two shares and the tag of ChaCha20-Poly1305."""
PROOF = 16
CHECKS = 2
"""Words of 1 behind each vector: the sum has the number of summands there."""
Words = NDArray[np.uint64]


class Kind(IntEnum):
    SHARES = 1
    CONTRIBUTION = 2
    VOTE = 3
    RELEASE = 4


def statement(group: Group, kind: Kind, round_: int, place: int, payload: bytes) -> bytes:
    """What an agent signs. Jurors all sign the same but for their place."""
    head = struct.pack(">BII", kind, round_, place)
    return group.context + head + digest(b"payload", payload)


def opened(group: Group, kind: Kind, round_: int, place: int, frame: bytes) -> bytes:
    """The payload of a frame. Raises Refused where its sender has not signed it."""
    payload, signature = frame[:-SIGNATURE], frame[-SIGNATURE:]
    if not 0 <= place < group.plan.agents or not verify(
        group.members[place].identity, signature, statement(group, kind, round_, place, payload)
    ):
        raise Refused(f"not a {kind.name} of round {round_} by agent {place}")
    return payload


def bitmap(places: Iterable[int], agents: int) -> bytes:
    flags = np.zeros(agents, dtype=np.uint8)
    flags[list(places)] = 1
    return np.packbits(flags).tobytes()


def members_of(bits: bytes, agents: int) -> frozenset[int]:
    """Raises Refused when it is not the one bitmap of its set."""
    flags = np.unpackbits(np.frombuffer(bits, dtype=np.uint8))
    if len(bits) != (agents + 7) // 8 or flags[agents:].any():
        raise Refused(f"not a bitmap of {agents} agents")
    return frozenset(np.flatnonzero(flags).tolist())


def words(key: bytes, dimension: int) -> Words:
    """A mask: a stream of ChaCha20 as words modulo 2^64."""
    return np.frombuffer(stream(key, 8 * (dimension + CHECKS)), dtype="<u8")
