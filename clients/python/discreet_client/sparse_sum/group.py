"""Who takes part: keys, the seed that nobody chooses, the graph and the juries that follow."""

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

from discreet_client.secure_sum.errors import Refused, Tampered
from discreet_client.sparse_sum.plan import Plan
from discreet_client.sparse_sum.signing import Verify, verify

PROTOCOL = b"discreet/sparse-sum/v1"


def digest(*parts: bytes) -> bytes:
    """SHA-256 over the protocol and parts, each with its length before it."""
    message = b"".join(struct.pack(">I", len(part)) + part for part in (PROTOCOL, *parts))
    return hashlib.sha256(message).digest()


@dataclass(frozen=True)
class Member:
    """An agent as all see it: Ed25519 `identity`, X25519 `exchange`, the `nonce` that opens its
    commitment, and its `signature` over key, nonce, plan and the digest of all commitments: 160
    bytes."""

    identity: bytes
    exchange: bytes
    nonce: bytes
    signature: bytes

    @property
    def commitment(self) -> bytes:
        return digest(b"commitment", self.identity, self.exchange, self.nonce)


class Candidate:
    """An agent that sets a group up: it commits, then it opens its commitment once.

    `run`: digest of the roster that the owner has signed; empty where there is no owner. `kept`:
    the secrets of a candidate before, its X25519 key and its nonce; new ones are drawn without."""

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
        """Digest of the commitments of all, on which this agent has opened its own."""
        self.plan: Plan | None = None

    @property
    def commitment(self) -> bytes:
        return self._unsigned.commitment

    def open(self, plan: Plan, commitments: Sequence[bytes]) -> Member:
        """The own entry of the group. Raises Refused when the own commitment is missing, or at a
        second list or plan: nonces that others saw would let them choose the graph.

        That the plan bounds enough corrupt agents is for the caller to demand."""
        plan.check()
        listed = digest(b"commitments", *commitments)
        if self.commitment not in commitments or len(commitments) != plan.agents:
            raise Refused("not a list of n commitments with this agent's own")
        if self.plan is not None and (self.commitments, self.plan) != (listed, plan):
            raise Refused("this agent has opened its commitment on another list, or plan")
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
        """Stands in every key and every signature: who was shown another group speaks to nobody."""
        entries = (member.identity + member.exchange for member in self.members)
        return digest(b"group", self.run, self.commitments, self.seed, _words(self.plan), *entries)

    @cached_property
    def seed(self) -> bytes:
        """Uniform if one honest agent's nonce is in it."""
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
        """The k/2 nearest on either side of a circle (Harary's graph) of shuffled agents, or all
        others. In ascending order; the share of neighbour number i is that of point i + 1."""
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
        """Who signs the survivors of a round."""
        if round_ not in self._juries:
            label = b"jury" + struct.pack(">I", round_)
            order = _shuffled(self.seed, label, self.plan.agents)
            self._juries.clear()  # rounds go up
            self._juries[round_] = frozenset(order[: self.plan.jurors])
        return self._juries[round_]

    def check(self) -> None:
        """Raises Unacceptable or Tampered. The keys themselves are the owner's to vouch for."""
        self.plan.check()
        if not len(self.members) == self._distinct == self.plan.agents:
            raise Tampered("not n members with keys of their own")

    @cached_property
    def _distinct(self) -> int:
        return len({member.identity for member in self.members})

    def check_member(self, place: int, verify: Verify = verify) -> None:
        """That this member has signed its key, its nonce and the same list of commitments, as a
        neighbour or a juror must have. Raises Tampered."""
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
    """A uniform order of all places: by a hash of each."""
    keys = [
        hashlib.sha256(seed + label + struct.pack(">I", place)).digest() for place in range(agents)
    ]
    return tuple(sorted(range(agents), key=keys.__getitem__))
