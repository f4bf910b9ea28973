"""The agent's state machine: one setup, many rounds."""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Mapping

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from discreet_agent.packing import Integers
from discreet_agent.secure_sum.errors import Refused, Tampered
from discreet_agent.secure_sum.masks import expand, extract, stream
from discreet_agent.secure_sum.noise import discrete_gaussian
from discreet_agent.secure_sum.party import Journal, MemoryJournal
from discreet_agent.sparse_sum import shamir
from discreet_agent.sparse_sum.group import Candidate, Group, digest
from discreet_agent.sparse_sum.signing import Verify, verify
from discreet_agent.sparse_sum.wire import (
    CHECKS,
    NONCE,
    PROOF,
    SEALED,
    Kind,
    bitmap,
    members_of,
    statement,
    words,
)

ROUND, VOTE = "round", "vote"
"""The kinds of records in an agent's journal, each followed by the number of the round."""


class Agent:
    """One agent of a group. Its rounds only increase, and each of its four steps is done once per
    round: `shares`, `contribute`, `vote` (jurors only) and `release`.

    Nothing that the server says is trusted: every step raises Refused for an invalid request, and
    then changes nothing. A step that is not done costs only that round.

    `journal` records the rounds that were begun and those that were voted in, before anything of
    them is sent. A new agent with the journal of an earlier one takes part from the next round on,
    since the secrets of a round end with their process. The default journal ends with it, too.
    """

    def __init__(
        self,
        candidate: Candidate,
        place: int,
        group: Group,
        *,
        verify: Verify = verify,
        journal: Journal | None = None,
    ) -> None:
        group.check()
        if group.members[place].exchange != candidate.exchange.public_key().public_bytes_raw() or (
            (group.commitments, group.plan, group.run)
            != (candidate.commitments, candidate.plan, candidate.run)
        ):
            raise Tampered("this is not the group in which this agent has opened its commitment")
        group.check_member(place, verify)
        self.place, self.group, self.plan = place, group, group.plan
        self._identity: Ed25519PrivateKey = candidate.identity
        self._verify = verify
        self._neighbours = group.neighbours(place)
        self._shared: dict[int, bytes] = {}
        for other in self._neighbours:
            group.check_member(other, verify)
            public = X25519PublicKey.from_public_bytes(group.members[other].exchange)
            try:
                secret = candidate.exchange.exchange(public)
            except ValueError:
                raise Tampered(f"the X25519 key of agent {other} has small order") from None
            self._shared[other] = extract(secret)
        self._journal: Journal = MemoryJournal() if journal is None else journal
        self.round, self._voted = (_last(self._journal, what) for what in (ROUND, VOTE))
        self._own = b""
        self._masks: dict[int, bytes] = {}
        self._held: dict[int, bytes] = {}
        self._began = self._contributed = False

    def shares(self, round_: int) -> bytes:
        """Begin a round. Returns the digests of two fresh secrets; for each neighbour in order a
        sealed pair of shares; for each the key of the mask with it, encrypted under the second
        secret; and the signature."""
        if not self.round < round_ < self.plan.rounds:
            raise Refused(f"round {round_} is over, or not a round of this group")
        self._journal.claim(f"{ROUND} {round_}")
        self.round = round_
        self._forget()
        own, masks = shamir.draw(), shamir.draw()
        self._own = own.to_bytes(shamir.SIZE, "big")
        count, threshold = len(self._neighbours), self.plan.threshold
        pairs = zip(
            shamir.share(own, threshold, count), shamir.share(masks, threshold, count), strict=True
        )
        sealed = b"".join(
            self._sealed(
                other, first.to_bytes(shamir.SIZE, "big") + second.to_bytes(shamir.SIZE, "big")
            )
            for other, (first, second) in zip(self._neighbours, pairs, strict=True)
        )
        self._masks = {other: self._mask_key(other) for other in self._neighbours}
        keys = b"".join(self._masks.values())
        second = masks.to_bytes(shamir.SIZE, "big")
        escrow = _xor(keys, stream(digest(b"escrow", self.group.context, second), len(keys)))
        head = secret_digest(self.group, self._own) + secret_digest(self.group, second)
        self._began = True
        return self._signed(Kind.SHARES, head + sealed + escrow)

    def contribute(self, round_: int, sealed: Mapping[int, bytes], values: Integers) -> bytes:
        """The masked vector, and for each neighbour whose shares have come a proof that the mask
        with it is in the vector.

        `sealed`: the neighbours' sealed pairs of shares, by place. `values`: `dimension` integers,
        to which the noise is added here. Raises Refused with fewer than t neighbours.
        """
        if round_ != self.round or not self._began or self._contributed:
            raise Refused(f"no contribution of round {round_} is due")
        if values.shape != (self.plan.dimension,) or values.dtype != np.int64:
            raise ValueError(f"a contribution must be {self.plan.dimension} integers of 64 bits")
        held: dict[int, bytes] = {}
        for other, box in sealed.items():
            if other not in self._shared or len(box) != SEALED:
                raise Refused(
                    f"agent {other} is not a neighbour, or its shares have another length"
                )
            try:
                cipher = ChaCha20Poly1305(self._key(b"seal", self.place, other))
                held[other] = cipher.decrypt(box[:NONCE], box[NONCE:], b"")
            except InvalidTag:
                raise Refused(f"the shares are not agent {other}'s of this round") from None
        if len(held) < self.plan.threshold:
            raise Refused(f"{len(held)} neighbours take part, fewer than {self.plan.threshold}")
        self._held, self._contributed = held, True
        if self.plan.variance:
            drawn = discrete_gaussian(self.plan.variance, self.plan.dimension)
            values = values + np.array(drawn, dtype=np.int64)
        total = np.concatenate([values, np.ones(CHECKS, dtype=np.int64)]).view(np.uint64)
        total = total + words(own_key(self.group, self._own), self.plan.dimension)
        for other in held:
            mask = words(self._masks[other], self.plan.dimension)
            total = total + mask if self.place < other else total - mask
        proofs = b"".join(
            self._proof(other, self.place) if other in held else bytes(PROOF)
            for other in self._neighbours
        )
        return self._signed(Kind.CONTRIBUTION, total.astype("<u8").tobytes() + proofs)

    def vote(self, round_: int, survivors: bytes) -> bytes:
        """A juror's signature over a set of survivors, one per round, whether the juror itself is
        among them or not. `survivors`: a bitmap of places."""
        if not self._voted < round_ < self.plan.rounds or round_ < self.round:
            raise Refused(f"this juror has voted in round {round_}, or it is over")
        if self.place not in self.group.jury(round_):
            raise Refused("this agent is not on the jury")
        if len(members_of(survivors, self.plan.agents)) < self.plan.minimum:
            raise Refused(f"fewer survivors than {self.plan.minimum}")
        self._journal.claim(f"{VOTE} {round_}")
        self._voted = round_
        return self._identity.sign(statement(self.group, Kind.VOTE, round_, self.place, survivors))

    def release(
        self, round_: int, survivors: bytes, votes: Mapping[int, bytes], proofs: Mapping[int, bytes]
    ) -> bytes:
        """For each neighbour whose shares this agent holds ONE of the two: that of the neighbour's
        own mask if it survives, else that of its masks with others. Then the secrets of the round
        are erased.

        `votes`: signatures of jurors, by place. `proofs`: those of surviving neighbours, by place.
        Raises Refused unless a quorum of the jury has signed these survivors, there are as many as
        the plan demands, this agent and t of its neighbours are among them, and each of those
        neighbours has given its shares and proved that its mask with this agent is in its vector.
        """
        if round_ != self.round or not self._contributed:
            raise Refused(f"no release of round {round_} is due")
        alive = members_of(survivors, self.plan.agents)
        if len(alive) < self.plan.minimum:
            raise Refused(f"{len(alive)} survivors, fewer than {self.plan.minimum}")
        if self.place not in alive:
            raise Refused("this agent is not among the survivors")
        near = [other for other in self._neighbours if other in alive]
        if len(near) < self.plan.threshold:
            raise Refused(f"{len(near)} neighbours survive, fewer than {self.plan.threshold}")
        for other in near:
            proof = self._proof(self.place, other)
            if other not in self._held or not hmac.compare_digest(proof, proofs.get(other, b"")):
                raise Refused(f"agent {other} survives, but has not proved its mask with this one")
        self._check_votes(round_, survivors, votes)
        size = shamir.SIZE
        given = b"".join(
            self._held[other][:size] if other in alive else self._held[other][size:]
            for other in self._neighbours
            if other in self._held
        )
        present = bitmap(
            (at for at, other in enumerate(self._neighbours) if other in self._held),
            len(self._neighbours),
        )
        frame = self._signed(Kind.RELEASE, present + given)
        self._forget()
        return frame

    def _check_votes(self, round_: int, survivors: bytes, votes: Mapping[int, bytes]) -> None:
        jury, sound = self.group.jury(round_), 0
        for juror, signature in votes.items():
            if juror not in jury:
                raise Refused(f"agent {juror} is not on the jury")
            key = self.group.members[juror].identity
            message = statement(self.group, Kind.VOTE, round_, juror, survivors)
            if not self._verify(key, signature, message):
                raise Refused(f"juror {juror} has not signed these survivors")
            sound += 1
        if sound < self.plan.quorum:
            raise Refused(f"{sound} jurors have signed, fewer than {self.plan.quorum}")

    def _forget(self) -> None:
        """Erase the secrets of the round, so that no later request can use them."""
        self._own, self._masks, self._held = b"", {}, {}
        self._began = self._contributed = False

    def _sealed(self, other: int, pair: bytes) -> bytes:
        """A pair of shares, sealed to a neighbour. The key is that of this round; the nonce is
        random, since an agent whose journal was restored from a copy would seal another pair under
        the same key."""
        nonce = secrets.token_bytes(NONCE)
        cipher = ChaCha20Poly1305(self._key(b"seal", other, self.place))
        return nonce + cipher.encrypt(nonce, pair, b"")

    def _key(self, use: bytes, recipient: int, sender: int) -> bytes:
        """A key for this round, one use and one direction: HKDF of the secret shared with the other
        agent."""
        other = recipient if sender == self.place else sender
        where = struct.pack(">III", self.round, sender, recipient)
        return expand(self._shared[other], use + self.group.context + where)

    def _mask_key(self, other: int) -> bytes:
        return self._key(b"mask", max(self.place, other), min(self.place, other))

    def _proof(self, recipient: int, sender: int) -> bytes:
        return self._key(b"in", recipient, sender)[:PROOF]

    def _signed(self, kind: Kind, payload: bytes) -> bytes:
        message = statement(self.group, kind, self.round, self.place, payload)
        return payload + self._identity.sign(message)


def _last(journal: Journal, what: str) -> int:
    """The last round in the journal's records of this kind, or -1."""
    claimed = (record.partition(" ") for record in journal.records())
    return max(
        (int(number) for kind, _, number in claimed if kind == what and number.isdigit()),
        default=-1,
    )


def secret_digest(group: Group, secret: bytes) -> bytes:
    return digest(b"secret", group.context, secret)


def own_key(group: Group, secret: bytes) -> bytes:
    return digest(b"own", group.context, secret)


def _xor(data: bytes, pad: bytes) -> bytes:
    return (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(len(data), "big")
