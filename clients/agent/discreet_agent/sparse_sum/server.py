"""The server's side of a round: it relays the agents' messages and opens the sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from discreet_agent.packing import Integers
from discreet_agent.secure_sum.errors import Missing, Refused, Tampered
from discreet_agent.secure_sum.masks import stream
from discreet_agent.sparse_sum import shamir
from discreet_agent.sparse_sum.agent import own_key, secret_digest
from discreet_agent.sparse_sum.group import Group, digest
from discreet_agent.sparse_sum.signing import verify
from discreet_agent.sparse_sum.wire import (
    CHECKS,
    PROOF,
    SEALED,
    Kind,
    Words,
    bitmap,
    members_of,
    opened,
    statement,
    words,
)


@dataclass(frozen=True)
class _Shares:
    own: bytes
    masks: bytes
    sealed: bytes
    escrow: bytes


class Server:
    """One round. The `take_…` methods verify and keep what agents have sent, in any order until the
    next step; what arrives later is refused, and its sender has dropped."""

    def __init__(self, group: Group, round_: int) -> None:
        self.group, self.plan, self.round = group, group.plan, round_
        self._shares: dict[int, _Shares] = {}
        self._vectors: dict[int, Words] = {}
        self._proofs: dict[int, bytes] = {}
        self._votes: dict[int, bytes] = {}
        self._given: dict[int, dict[int, int]] = {}
        self._survivors = b""
        self._delivered = False

    def take_shares(self, place: int, frame: bytes) -> None:
        """Raises Refused for shares that are late, not signed or of another length."""
        payload = opened(self.group, Kind.SHARES, self.round, place, frame)
        k = self.plan.neighbours
        if len(payload) != 64 + (SEALED + 32) * k or self._delivered:
            raise Refused(f"shares of agent {place} are late, or of another length")
        boxes = 64 + SEALED * k
        self._shares[place] = _Shares(
            payload[:32], payload[32:64], payload[64:boxes], payload[boxes:]
        )

    @property
    def sharing(self) -> list[int]:
        """Places whose shares have arrived."""
        return sorted(self._shares)

    def delivery(self, place: int) -> dict[int, bytes]:
        """The shares that the neighbours have sealed to this agent. From now on shares are late."""
        self._delivered = True
        boxes = {}
        for other in self.group.neighbours(place):
            if other in self._shares:
                at = SEALED * (self._point(other, place) - 1)
                boxes[other] = self._shares[other].sealed[at : at + SEALED]
        return boxes

    def take_contribution(self, place: int, frame: bytes) -> None:
        """Raises Refused for a contribution that is late, not signed, without shares before it, or
        of another length."""
        payload = opened(self.group, Kind.CONTRIBUTION, self.round, place, frame)
        size = 8 * (self.plan.dimension + CHECKS)
        if place not in self._shares or self._survivors:
            raise Refused(f"the contribution of agent {place} is late")
        if len(payload) != size + PROOF * self.plan.neighbours:
            raise Refused(f"the contribution of agent {place} has another length")
        self._vectors[place] = np.frombuffer(payload[:size], dtype="<u8")
        self._proofs[place] = payload[size:]

    def propose(self) -> bytes:
        """The bitmap of survivors, for the jury. Raises Missing when they are too few."""
        if not self._survivors:
            if len(self._vectors) < self.plan.minimum:
                absent = set(range(self.plan.agents)) - set(self._vectors)
                raise Missing(absent, f"the sum needs {self.plan.minimum} agents")
            self._survivors = bitmap(self._vectors, self.plan.agents)
        return self._survivors

    def take_vote(self, place: int, signature: bytes) -> None:
        message = statement(self.group, Kind.VOTE, self.round, place, self._survivors)
        if place not in self.group.jury(self.round) or not verify(
            self.group.members[place].identity, signature, message
        ):
            raise Refused(f"not a vote of juror {place}")
        self._votes[place] = signature

    def votes(self) -> dict[int, bytes]:
        """The votes of a quorum. Raises Missing when there are fewer."""
        if len(self._votes) < self.plan.quorum:
            raise Missing(self.group.jury(self.round) - set(self._votes), "no quorum of the jury")
        return dict(sorted(self._votes.items())[: self.plan.quorum])

    def proofs(self, place: int) -> dict[int, bytes]:
        """The proofs of surviving neighbours for this agent."""
        found = {}
        for other in self.group.neighbours(place):
            if other in self._proofs:
                at = PROOF * (self._point(other, place) - 1)
                found[other] = self._proofs[other][at : at + PROOF]
        return found

    def take_release(self, place: int, frame: bytes) -> None:
        """Raises Refused for a release that is not signed, not of a survivor, or of another
        length."""
        payload = opened(self.group, Kind.RELEASE, self.round, place, frame)
        near = self.group.neighbours(place)
        cut = (len(near) + 7) // 8
        of = [near[at] for at in sorted(members_of(payload[:cut], len(near)))]
        if place not in self._vectors or len(payload) != cut + shamir.SIZE * len(of):
            raise Refused(f"the release of agent {place} is not due, or has another length")
        for number, other in enumerate(of):
            at = cut + shamir.SIZE * number
            value = int.from_bytes(payload[at : at + shamir.SIZE], "big")
            self._given.setdefault(other, {})[self._point(other, place)] = value

    def open(self) -> Integers:
        """The sum over the survivors. Raises Missing if too few shares have arrived, Tampered if
        they do not yield the announced secret or the result is not the sum of all survivors."""
        dimension = self.plan.dimension
        total = np.zeros(dimension + CHECKS, dtype=np.uint64)
        for place, vector in self._vectors.items():
            total += vector
            total -= words(own_key(self.group, self._secret(place)), dimension)
        for place in self._shares.keys() - self._vectors.keys():
            near = self.group.neighbours(place)
            if any(other in self._vectors for other in near):
                self._lift(total, place, near)
        opened_ = total.view(np.int64)
        if np.any(opened_[-CHECKS:] != len(self._vectors)):
            raise Tampered("what was opened is not the sum of all survivors")
        return opened_[:-CHECKS]

    def _lift(self, total: Words, place: int, near: Iterable[int]) -> None:
        """Remove the masks that survivors share with an agent that has dropped."""
        escrow = self._shares[place].escrow
        pad = stream(digest(b"escrow", self.group.context, self._secret(place)), len(escrow))
        keys = np.frombuffer(escrow, np.uint8) ^ np.frombuffer(pad, np.uint8)
        for number, other in enumerate(near):
            if other in self._vectors:
                mask = words(keys[32 * number : 32 * (number + 1)].tobytes(), self.plan.dimension)
                if other < place:
                    total -= mask
                else:
                    total += mask

    def _secret(self, place: int) -> bytes:
        given, alive = self._given.get(place, {}), place in self._vectors
        if len(given) < self.plan.threshold:
            raise Missing([place], f"{len(given)} shares of a secret, not {self.plan.threshold}")
        announced = self._shares[place].own if alive else self._shares[place].masks
        for shares in _without_a_liar(given, self.plan.threshold):
            secret = shamir.recover(shares, self.plan.threshold).to_bytes(shamir.SIZE, "big")
            if secret_digest(self.group, secret) == announced:
                return secret
        raise Tampered(f"the shares of agent {place} do not yield its secret")

    def _point(self, owner: int, holder: int) -> int:
        return bisect_left(self.group.neighbours(owner), holder) + 1


def _without_a_liar(given: Mapping[int, int], threshold: int) -> Iterator[Mapping[int, int]]:
    """All shares; then, where those left are enough, all but that of each holder: one of them that
    gives nonsense spoils no sum."""
    yield given
    if len(given) > threshold:
        for liar in given:
            yield {holder: share for holder, share in given.items() if holder != liar}
