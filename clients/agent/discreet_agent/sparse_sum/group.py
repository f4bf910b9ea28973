"""The members of a group: keys, the seed that nobody chooses, and the graph and the juries that
follow from it."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from discreet_agent.secure_sum.errors import Refused, Tampered
from discreet_agent.sparse_sum.plan import Plan
from discreet_agent.sparse_sum.signing import Verify, verify

PROTOCOL = b"discreet/sparse-sum/v1"


def digest(*parts: bytes) -> bytes:
    """SHA-256 of the protocol's name and the parts, each prefixed with its length."""
    message = b"".join(struct.pack(">I", len(part)) + part for part in (PROTOCOL, *parts))
    return hashlib.sha256(message).digest()


@dataclass(frozen=True)
class Member:
    """The public entry of an agent: Ed25519 `identity`, X25519 `exchange`, the `nonce` that opens
    its commitment, and its `signature` over roster digest, plan, the digest of all commitments, its
    keys and the nonce; 160 bytes in all."""

    identity: bytes
    exchange: bytes
    nonce: bytes
    signature: bytes

    @property
    def commitment(self) -> bytes:
        return digest(b"commitment", self.identity, self.exchange, self.nonce)


class Candidate:
    """An agent during the setup of a group: it commits, then opens its commitment once.

    `run`: digest of the roster that the owner has signed; empty if there is no owner. `kept`: the
    X25519 key and the nonce of an earlier candidate; without it new ones are drawn."""

    def __init__(
        self,
        identity: Ed25519PrivateKey,
        run: bytes = b"",
        kept: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.identity, self.run = identity, run
        exchange = X25519PrivateKey.generate().private_bytes_raw()
        self.kept = kept or (exchange, secrets.token_bytes(32))
        self.exchange = X25519PrivateKey.from_private_bytes(self.kept[0])
        self._unsigned = Member(
            identity.public_key().public_bytes_raw(),
            self.exchange.public_key().public_bytes_raw(),
            self.kept[1],
            b"",
        )
        self.commitments = b""
        """Digest of the list of all commitments for which this agent has opened its own."""
        self.plan: Plan | None = None

    @property
    def commitment(self) -> bytes:
        return self._unsigned.commitment

    def open(self, plan: Plan, commitments: Sequence[bytes]) -> Member:
        """This agent's entry of the group. Raises Refused if its commitment is missing from the
        list, and for a second list or plan, since others who know its nonce could then choose the
        graph.

        The caller must demand that the plan tolerates enough corrupt agents."""
        plan.check()
        listed = digest(b"commitments", *commitments)
        if self.commitment not in commitments or len(commitments) != plan.agents:
            raise Refused("this is not a list of n commitments with this agent's own")
        if self.plan is not None and (self.commitments, self.plan) != (listed, plan):
            raise Refused("this agent has opened its commitment for another list or plan")
        self.commitments, self.plan = listed, plan
        mine = self._unsigned
        signature = self.identity.sign(
            _entry(self.run, plan, listed, mine.identity, mine.exchange, mine.nonce)
        )
        return Member(mine.identity, mine.exchange, mine.nonce, signature)


@dataclass(frozen=True)
class Group:
    """All members in the order of their places, the plan, and the digest of the owner's roster."""

    plan: Plan
    members: tuple[Member, ...]
    run: bytes = b""

    @cached_property
    def commitments(self) -> bytes:
        return digest(b"commitments", *(member.commitment for member in self.members))

    @cached_property
    def context(self) -> bytes:
        """Digest of the group, bound into every key and every signature: an agent that was shown
        another group shares no keys with the others."""
        entries = (member.identity + member.exchange for member in self.members)
        return digest(b"group", self.run, self.commitments, self.seed, _words(self.plan), *entries)

    @cached_property
    def seed(self) -> bytes:
        """Seed of graph and juries, which is random if one member is honest."""
        return digest(b"seed", *(member.nonce for member in self.members))

    @cached_property
    def _order(self) -> tuple[int, ...]:
        return _shuffled(self.seed, b"graph", self.plan.agents)

    @cached_property
    def _position(self) -> dict[int, int]:
        return {place: position for position, place in enumerate(self._order)}

    @cached_property
    def _near(self) -> dict[int, tuple[int, ...]]:
        return {}

    @cached_property
    def _juries(self) -> dict[int, frozenset[int]]:
        return {}

    def neighbours(self, place: int) -> tuple[int, ...]:
        """The k/2 nearest agents on either side on a circle of shuffled agents (a Harary graph), or
        all others if k = n - 1. In ascending order; neighbour number i, from 0, holds the share at
        point i + 1."""
        if place not in self._near:
            self._near[place] = self._neighbours(place)
        return self._near[place]

    def _neighbours(self, place: int) -> tuple[int, ...]:
        n, k = self.plan.agents, self.plan.neighbours
        if k == n - 1:
            return tuple(other for other in range(n) if other != place)
        at = self._position[place]
        near = (*range(-(k // 2), 0), *range(1, k // 2 + 1))
        return tuple(sorted(self._order[(at + step) % n] for step in near))

    def jury(self, round_: int) -> frozenset[int]:
        """The places of the jurors that sign the survivors of a round."""
        if round_ not in self._juries:
            label = b"jury" + struct.pack(">I", round_)
            order = _shuffled(self.seed, label, self.plan.agents)
            self._juries.clear()  # rounds only increase
            self._juries[round_] = frozenset(order[: self.plan.jurors])
        return self._juries[round_]

    def check(self) -> None:
        """Raises Unacceptable for a bad plan, Tampered unless there are n distinct keys. That they
        are the right ones only the owner's roster shows."""
        self.plan.check()
        if not len(self.members) == self._distinct == self.plan.agents:
            raise Tampered("the group does not have n members with distinct keys")

    @cached_property
    def _distinct(self) -> int:
        return len({member.identity for member in self.members})

    def check_member(self, place: int, verify: Verify = verify) -> None:
        """Raises Tampered unless this member has signed its keys, its nonce and the same list of
        commitments, as every neighbour and juror must."""
        member = self.members[place]
        message = _entry(
            self.run, self.plan, self.commitments, member.identity, member.exchange, member.nonce
        )
        if not verify(member.identity, member.signature, message):
            raise Tampered(f"agent {place} has not signed this group")


@lru_cache
def _words(plan: Plan) -> bytes:
    return json.dumps(asdict(plan), sort_keys=True, separators=(",", ":")).encode()


def _entry(run: bytes, plan: Plan, commitments: bytes, *parts: bytes) -> bytes:
    return digest(b"member", run, _words(plan), commitments, *parts)


def _shuffled(seed: bytes, label: bytes, agents: int) -> tuple[int, ...]:
    """A random order of all places: sorted by a hash of each."""
    keys = [
        hashlib.sha256(seed + label + struct.pack(">I", place)).digest() for place in range(agents)
    ]
    return tuple(sorted(range(agents), key=keys.__getitem__))
