"""The encoding of a round's messages: payloads, each followed by a signature."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from discreet_agent.secure_sum.errors import Refused
from discreet_agent.secure_sum.masks import stream
from discreet_agent.sparse_sum.group import Group, Member, digest
from discreet_agent.sparse_sum.signing import verify

SIGNATURE = 64
NONCE = 12
SEALED = NONCE + 32 + 32 + 16
"""A nonce, two shares and the tag of ChaCha20-Poly1305."""
PROOF = 16
CHECKS = 2
"""Words of 1 after each vector: in the sum they are the number of summands."""
Words = NDArray[np.uint64]


class Kind(IntEnum):
    SHARES = 1
    CONTRIBUTION = 2
    VOTE = 3
    RELEASE = 4


def statement(group: Group, kind: Kind, round_: int, place: int, payload: bytes) -> bytes:
    """The statement that an agent signs. Those of jurors differ only in their places."""
    head = struct.pack(">BII", kind, round_, place)
    return group.context + head + digest(b"payload", payload)


def opened(group: Group, kind: Kind, round_: int, place: int, frame: bytes) -> bytes:
    """The payload of a frame. Raises Refused unless its sender has signed it."""
    payload, signature = frame[:-SIGNATURE], frame[-SIGNATURE:]
    if not 0 <= place < group.plan.agents or not verify(
        group.members[place].identity, signature, statement(group, kind, round_, place, payload)
    ):
        raise Refused(f"a {kind.name} of round {round_} is not signed by agent {place}")
    return payload


def bitmap(places: Iterable[int], agents: int) -> bytes:
    flags = np.zeros(agents, dtype=np.uint8)
    flags[list(places)] = 1
    return np.packbits(flags).tobytes()


def members_of(bits: bytes, agents: int) -> frozenset[int]:
    """The places in a bitmap. Raises Refused for another length, or bits beyond the agents."""
    flags = np.unpackbits(np.frombuffer(bits, dtype=np.uint8))
    if len(bits) != (agents + 7) // 8 or flags[agents:].any():
        raise Refused(f"this is not a bitmap of {agents} agents")
    return frozenset(np.flatnonzero(flags).tolist())


def words(key: bytes, dimension: int) -> Words:
    """A mask: the ChaCha20 key stream as words modulo 2^64."""
    return np.frombuffer(stream(key, 8 * (dimension + CHECKS)), dtype="<u8")


KEY = 32
MEMBER = 3 * KEY + SIGNATURE


def members_to(members: Iterable[Member]) -> bytes:
    """The members as bytes, 160 each: identity, exchange, nonce, signature."""
    return b"".join(
        member.identity + member.exchange + member.nonce + member.signature for member in members
    )


def members_from(data: bytes, agents: int) -> tuple[Member, ...]:
    """The inverse of `members_to`. Raises Refused for another length."""
    return tuple(
        Member(part[:KEY], part[KEY : 2 * KEY], part[2 * KEY : 3 * KEY], part[3 * KEY :])
        for part in pieces(data, MEMBER, agents)
    )


def pieces(data: bytes, size: int, count: int) -> list[bytes]:
    """`count` pieces of `size` bytes. Raises Refused for another length."""
    if len(data) != size * count:
        raise Refused(f"{len(data)} bytes are not {count} pieces of {size}")
    return [data[at : at + size] for at in range(0, len(data), size)]


def some_to(of: Sequence[int], told: Mapping[int, bytes]) -> bytes:
    """A bitmap over the places `of` that have an entry in `told`, then these entries in order."""
    there = [at for at, place in enumerate(of) if place in told]
    return bitmap(there, len(of)) + b"".join(told[of[at]] for at in there)


def some_from(of: Sequence[int], size: int, data: bytes) -> tuple[dict[int, bytes], bytes]:
    """The inverse of `some_to` for entries of `size` bytes, and the remaining bytes. Raises Refused
    when `data` is too short."""
    cut = (len(of) + 7) // 8
    there = sorted(members_of(data[:cut], len(of)))
    end = cut + size * len(there)
    parts = pieces(data[cut:end], size, len(there))
    return dict(zip((of[at] for at in there), parts, strict=True)), data[end:]
