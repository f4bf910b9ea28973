"""Frames (a header, a payload, a signature), and sets of agents as bitmaps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum, IntEnum

from discreet_agent.federation import spoken
from discreet_agent.secure_sum.errors import Refused, Tampered

PROTOCOL = spoken.SECURE_SUMS
OPERATOR = 0xFFFF
"""The operator's number; agents are numbered by their place in the roster."""

HEADER = struct.Struct(">BIIH")
SIGNATURE = 64
NOTHING = bytes(32)


class Kind(IntEnum):
    """Broadcasts of the operator are odd, answers of agents even."""

    OPEN = 1  # the signed roster, the operator's X25519 key
    HELLO = 2  # an agent's X25519 key
    KEYS = 3  # all X25519 keys and the signatures of their HELLOs
    DEAL = 4  # the dealer's public key and the sealed secrets
    DEALT = 5  # the DEAL frame
    ACK = 6  # signature over the DEAL frame
    START = 7  # all signatures over the DEAL frame
    CONTRIBUTION = 8  # the masked vector
    PROPOSAL = 9  # the set U
    AGREEMENT = 10  # signature over U
    AGREED = 11  # all signatures over U
    RELEASE = 12  # the seed of the own mask, keys of masks with the missing
    SUM = 13  # the sum
    TRANSCRIPT = 14  # signature over the transcript hash
    CLOSE = 15  # all signatures over the transcript hash
    COMPLAINT = 16  # signature over OUT_OF_BOUNDS
    ALONE = 18  # the masked vector of a sum that is of the agents alone, without the operator's


class Verdict(Enum):
    """What agents state about the iteration when they sign its transcript; the signature covers
    these bytes after the hash.

    All agents see the same sums and therefore state the same; UNSAID if the owner has not asked.
    """

    UNSAID = b""
    SETTLED = b"settled"
    UNSETTLED = b"unsettled"


OUT_OF_BOUNDS = b"out of bounds"
"""What an agent signs, in a COMPLAINT, about a sum that exceeds the bounds that the owner has
signed. The signature covers the sum's frame, the same for all: either all honest agents complain or
none does."""


def parse(frame: bytes) -> tuple[Kind, int, int, int, bytes]:
    """Kind, epoch, round, sender and payload of a frame, none of them verified. Raises Refused if
    it is not a frame."""
    if len(frame) < HEADER.size + SIGNATURE:
        raise Refused("a frame is too short")
    number, epoch, round_, sender = HEADER.unpack_from(frame)
    try:
        kind = Kind(number)
    except ValueError:
        raise Refused(f"there is no kind of frame {number}") from None
    return kind, epoch, round_, sender, frame[HEADER.size : -SIGNATURE]


def bitmap(members: Sequence[int]) -> bytes:
    number = sum(1 << member for member in members)
    return number.to_bytes(-(-number.bit_length() // 8), "little")


def members_of(written: bytes, among: Sequence[int]) -> tuple[int, ...]:
    number = int.from_bytes(written, "little")
    members = tuple(member for member in among if number >> member & 1)
    if bitmap(members) != written:
        raise Tampered("a set names agents that do not take part")
    return members
