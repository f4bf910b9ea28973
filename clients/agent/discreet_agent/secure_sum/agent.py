"""The agent's state machine."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_agent import paillier
from discreet_agent.packing import Floats, Integers, NotPacked, OutOfRange
from discreet_agent.secure_sum.draws import Draws
from discreet_agent.secure_sum.errors import (
    Ended,
    Excluded,
    Refused,
    Reused,
    Tampered,
    Unacceptable,
)
from discreet_agent.secure_sum.frames import (
    OPERATOR,
    OUT_OF_BOUNDS,
    SIGNATURE,
    Kind,
    Verdict,
    bitmap,
    members_of,
    parse,
)
from discreet_agent.secure_sum.masks import (
    MaskingScheme,
    PaillierScheme,
    commitment,
    deal_sizes,
    expand,
    extract,
)
from discreet_agent.secure_sum.noise import NOISE_TAIL, discrete_gaussian
from discreet_agent.secure_sum.party import Journal, Party
from discreet_agent.secure_sum.roster import Roster, Trust

if TYPE_CHECKING:
    from phe import PaillierPrivateKey

Update = Callable[[Floats | None], Floats | None]
"""An agent's optimizer: maps the last sums (None at the start of an epoch) to its next
contribution, or to None to end. All agents see the same sums and must decide the end by these
alone."""

SLACK = 2.0**-30
"""Relative slack on the bounds of sums, far above the rounding errors of doubles."""

MakeObfuscators = Callable[["PaillierPrivateKey"], paillier.Obfuscators]


@runtime_checkable
class Settling(Protocol):
    """An optimizer that can say whether the sums have settled; it decides by these alone, so that
    all agents say the same."""

    def settled(self, tolerance: float) -> bool: ...


@runtime_checkable
class Scaled(Protocol):
    """An optimizer some of whose sums are of the agents alone, without the operator's part, and
    whose entries have units of their own; both follow from the sums alone."""

    @property
    def alone(self) -> bool:
        """Whether the sum of its last contribution is."""

    def natural(self, entry: int, value: float) -> float:
        """A value of an entry in the unit of the problem."""


class Agent(Party):
    """One agent in one epoch of one job.

    `owner` is the key that signs rosters. `update` is called once for each opened sum. `accept` may
    refuse a roster by raising. `draws` is what it draws from, and `update` as well: then what it
    sends is a function of their key, the roster and all broadcasts so far, up to the randomness of
    encryption. A later epoch begins at `first_round` with `previous`, the `last_broadcast` of the
    epoch before, and the same `draws`; its first contribution must differ from all that this agent
    has sent, or the difference of two sums over different sets would reveal a value. `window`
    trades memory for speed: the tables of a 2048-bit key take 20 MB with 8 bits, 2.5 MB with 4.
    `key` is what it deals where it is the dealer, in the place of a new one: all agents of the
    session learn its primes, so it must have no other use.
    """

    def __init__(
        self,
        identity: Ed25519PrivateKey,
        owner: Trust,
        update: Update,
        journal: Journal,
        *,
        epoch: int = 0,
        first_round: int = 0,
        previous: bytes | None = None,
        accept: Callable[[Roster], None] | None = None,
        draws: Draws | None = None,
        window: int = paillier.WINDOW_BITS,
        make_obfuscators: MakeObfuscators | None = None,
        key: PaillierPrivateKey | None = None,
        _smallest_key_bits: int = paillier.SMALLEST_KEY_BITS,
    ) -> None:
        super().__init__(identity, epoch, first_round, previous)
        self._owner, self._update, self._journal, self._accept = owner, update, journal, accept
        self.draws = Draws() if draws is None else draws
        self.draws.place = lambda: self._transcript
        self._make_obfuscators = make_obfuscators or (lambda key: paillier.Obfuscators(key, window))
        self._smallest_key_bits, self._own_key = _smallest_key_bits, key
        self._expected = (Kind.OPEN,)
        self._scheme: PaillierScheme | MaskingScheme | None = None
        self._private: PaillierPrivateKey | None = None
        self._group_key = b""
        self._deal_digest = b""
        self._own_seed = b""
        self._opened = 0
        self._contributed = 0
        self._alone = False
        """Whether the sum of the last contribution is of the agents alone."""
        self.verdict = Verdict.UNSAID
        self.complaint = ""
        """The fault of the sum about which this agent has complained; empty if it has not."""
        self._proposed: tuple[int, ...] = ()
        self._handlers: Mapping[Kind, Callable[[bytes], bytes]] = {
            Kind.KEYS: self._on_keys,
            Kind.DEALT: self._on_dealt,
            Kind.START: self._on_start,
            Kind.PROPOSAL: self._on_proposal,
            Kind.AGREED: self._on_agreed,
            Kind.SUM: self._on_sum,
            Kind.CLOSE: self._on_close,
        }

    def answer(self, broadcast: bytes) -> bytes:
        """The answer to a broadcast; empty if the protocol expects none from this agent.

        Raises Refused for a frame that is not the operator's or not due, after which the right one
        may still come; every other error ends the machine.
        """
        if self.ended is not None:
            raise Ended(f"this agent has ended: {self.ended}")
        kind, epoch, round_, sender, payload = parse(broadcast)
        if (
            sender != OPERATOR
            or kind not in self._expected
            or (epoch, round_) != (self.epoch, self.round)
        ):
            raise Refused(
                f"a {kind.name} of epoch {epoch}, round {round_} from {sender} is not due"
            )
        if kind == Kind.OPEN:
            return self._on_open(broadcast, payload)
        self._verify(kind, OPERATOR, payload, broadcast[-SIGNATURE:])
        try:
            if kind != Kind.CLOSE:  # it carries the signatures over the transcript
                self._hear(broadcast)
            return self._handlers[kind](payload)
        except Exception as error:
            self.ended = error
            raise

    def state(self) -> bytes:
        """All that `resume` needs except for the optimizer's own state; to be saved after each
        answer, before it is sent. Secret: it holds the keys.
        """
        saved = {
            **self._saved(),
            "index": self.index,
            "primes": None
            if self._private is None
            else [str(self._private.p), str(self._private.q)],
            "group_key": self._group_key.hex(),
            "draws": self.draws.key.hex(),
            "deal": self._deal_digest.hex(),
            "dealt": bool(self._deal_digest),
            "opened": self._opened,
            "contributed": self._contributed,
            "numbers": self.numbers,
            "alone": self._alone,
            "verdict": self.verdict.name,
            "complaint": self.complaint,
        }
        return json.dumps(saved).encode()

    def resume(self, state: bytes) -> None:
        """Go on from `state` of a machine with the same identity and journal; without its keys, to
        close a run that has ended.

        An answer that was computed but not saved is not computed again: the journal holds its
        record, so that round raises Reused.
        """
        saved = json.loads(state)
        self._resume(saved)
        self.draws.key = bytes.fromhex(saved.get("draws", ""))
        self.index, self._opened = saved["index"], saved["opened"]
        self._contributed = saved["contributed"]
        self._alone = saved["alone"]
        self.verdict = Verdict[saved.get("verdict", Verdict.UNSAID.name)]
        self.complaint = saved.get("complaint", "")
        self._group_key, self._deal_digest = (
            bytes.fromhex(saved.get("group_key", "")),
            bytes.fromhex(saved["deal"]),
        )
        if saved.get("primes") is not None:
            p, q = saved["primes"]
            self._private = paillier.private_key(int(p), int(q))
        if saved["dealt"]:
            self._make_paillier()
            if self._who.parameters.scheme == "masking":
                self._scheme = self._masking()

    # Setting up

    def _on_open(self, broadcast: bytes, payload: bytes) -> bytes:
        signed, key = payload[:-32], payload[-32:]
        roster = Roster.verified(signed, self._owner, _smallest_key_bits=self._smallest_key_bits)
        public = self.identity.public_key().public_bytes_raw()
        if public not in roster.members:
            raise Unacceptable("this agent is not in the roster")
        if roster.parameters.tolerance is not None and not isinstance(self._update, Settling):
            raise Unacceptable(
                "the owner asks whether the sums have settled, which this update cannot tell"
            )
        before = self._previous
        self._begin(roster)
        try:
            self._verify(Kind.OPEN, OPERATOR, payload, broadcast[-SIGNATURE:])
        except Refused:
            self._previous = before
            raise
        self.index = roster.members.index(public)
        try:
            if self._accept is not None:
                self._accept(roster)
            self._claim_epoch()
            self._agree_with(OPERATOR, key)
        except Exception as error:
            self.ended = error
            raise
        self._hear(broadcast)
        self._expected = (Kind.KEYS,)
        return self._frame(Kind.HELLO, self.index, self._exchange.public_key().public_bytes_raw())

    def _record(self, what: str) -> str:
        return f"{self._job} {self.epoch} {self.round} {what}"

    @property
    def _job(self) -> str:
        return hashlib.sha256(self._who.job.encode()).hexdigest()

    def _sent_before(self) -> list[list[str]]:
        """The fields of this job's records, whatever the roster was."""
        return [
            fields
            for record in self._journal.records()
            if (fields := record.split())[0] == self._job
        ]

    def _claim_epoch(self) -> None:
        """Claim this epoch. Epochs and rounds only increase, so neither is answered twice, whatever
        was lost in a crash.

        A round that failed is not repeated in the next epoch, since its sum may have been opened.
        """
        for _, epoch, round_, what, *_ in self._sent_before():
            if int(epoch) >= self.epoch:
                raise Reused(f"epoch {self.epoch} of this job, or a later one, was begun before")
            if what == "contribution" and int(round_) >= self.round:
                raise Reused(f"round {self.round} of this job, or a later one, was answered before")
        self._journal.claim(self._record("epoch"))

    def _on_keys(self, payload: bytes) -> bytes:
        size = 32 + SIGNATURE
        if len(payload) != size * len(self._active):
            raise Tampered("KEYS does not hold one key and one signature of each agent")
        for other in self._active:
            entry = payload[size * other : size * (other + 1)]
            try:
                self._verify(Kind.HELLO, other, entry[:32], entry[32:])
            except Refused:
                raise Tampered(f"the X25519 key of agent {other} is not signed by it") from None
            if other != self.index:
                self._agree_with(other, entry[:32])
            elif entry[:32] != self._exchange.public_key().public_bytes_raw():
                raise Tampered("the X25519 key of this agent was replaced")
        self._bound = self._transcript
        self._expected = (Kind.DEALT,)
        if self._who.parameters.dealer != self.index:
            return b""
        self._journal.claim(self._record("deal"))  # the keys that seal it are for one use
        return self._deal()

    def _deal(self) -> bytes:
        """The DEAL frame: the public part, then the secret sealed to each other agent in order."""
        parameters = self._who.parameters
        if parameters.scheme == "paillier":
            self._private = self._dealt_key()
            public = self._private.public_key.n.to_bytes(parameters.key_bits // 8, "big")
            half = parameters.key_bits // 16
            secret = b"".join(x.to_bytes(half, "big") for x in (self._private.p, self._private.q))
        else:
            self._group_key = secret = self.draws.bytes(32)
            public = commitment(secret)
        sealed = b""
        for other in self._active:
            if other != self.index:
                cipher, context = self._sealing(self.index, other)
                sealed += cipher.encrypt(
                    bytes(12), secret, context + hashlib.sha256(public).digest()
                )
        return self._frame(Kind.DEAL, self.index, public + sealed)

    def _dealt_key(self) -> PaillierPrivateKey:
        """The key of one's own, or a new one. InvalidKey."""
        bits, key = self._who.parameters.key_bits, self._own_key
        if key is None:
            return paillier.generate(bits, self.draws.bits, _smallest_bits=self._smallest_key_bits)
        if paillier.bits_of(key.public_key) != bits:
            found = paillier.bits_of(key.public_key)
            raise paillier.InvalidKey(f"a key of {bits} bits is agreed, this one has {found}")
        return paillier.private_key(key.p, key.q)

    def _on_dealt(self, frame: bytes) -> bytes:
        parameters, dealer = self._who.parameters, self._who.parameters.dealer
        kind, epoch, round_, sender, payload = parse(frame)
        if (kind, epoch, round_, sender) != (Kind.DEAL, self.epoch, self.round, dealer):
            raise Tampered("DEALT does not hold the dealer's frame")
        try:
            self._verify(Kind.DEAL, dealer, payload, frame[-SIGNATURE:])
        except Refused:
            raise Tampered("the DEAL frame is not signed by the dealer") from None
        width, size = deal_sizes(parameters)
        public, sealed = payload[:width], payload[width:]
        if len(sealed) != size * (len(self._active) - 1):
            raise Tampered("the dealer has not dealt to every agent")
        if dealer != self.index:
            place = self.index - (self.index > dealer)
            cipher, context = self._sealing(dealer, self.index)
            try:
                secret = cipher.decrypt(
                    bytes(12),
                    sealed[size * place : size * (place + 1)],
                    context + hashlib.sha256(public).digest(),
                )
            except InvalidTag:
                raise Tampered("the dealer's secret for this agent cannot be opened") from None
            self._take(secret, public)
        elif public != self._dealt_public():
            raise Tampered("the key of this dealer was replaced")
        self._fingerprint = hashlib.sha256(public).digest()
        self._deal_digest = hashlib.sha256(frame).digest()
        self._make_paillier()
        self._expected = (Kind.START,)
        return self._frame(Kind.ACK, self.index, self._deal_digest, known=True)

    def _make_paillier(self) -> None:
        if self._private is not None:
            obfuscators = self._make_obfuscators(self._private)
            self._scheme = PaillierScheme(
                self._who.parameters, self._private.public_key, self._private, obfuscators
            )

    def _dealt_public(self) -> bytes:
        if self._private is None:
            return commitment(self._group_key)
        return int(self._private.public_key.n).to_bytes(self._who.parameters.key_bits // 8, "big")

    def _take(self, secret: bytes, public: bytes) -> None:
        """Check and keep the dealer's secret: it must be the same for all agents, and a key of the
        agreed size."""
        parameters = self._who.parameters
        if parameters.scheme == "masking":
            if commitment(secret) != public:
                raise Tampered("the group key is not the one that the dealer has committed to")
            self._group_key = secret
            return
        half = parameters.key_bits // 16
        p, q = int.from_bytes(secret[:half], "big"), int.from_bytes(secret[half:], "big")
        n = int.from_bytes(public, "big")
        if p * q != n or n.bit_length() != parameters.key_bits or p.bit_length() != q.bit_length():
            raise Tampered("the public key is not the product of the dealer's p and q")
        try:
            self._private = paillier.private_key(p, q)
        except paillier.InvalidKey as error:
            raise Tampered(f"the dealer's key is invalid: {error}") from None

    def _on_start(self, payload: bytes) -> bytes:
        self._verify_all(Kind.ACK, self._active, payload, self._deal_digest)
        return self._contribute(None)

    # Rounds

    def _pads(self, agents: Iterable[int]) -> list[bytes]:
        """Keys of these agents' pads in this round (`scheme="masking"`)."""
        base = b"discreet/pad/v1" + self._context + struct.pack(">II", self.epoch, self.round)
        key = extract(self._group_key)
        return [expand(key, base + struct.pack(">H", agent)) for agent in agents]

    def _contribute(self, sums: Floats | None) -> bytes:
        values = self._update(sums)
        if values is None:
            if self._opened == 0:
                raise Unacceptable("an agent must not end before the first sum")
            self._expected = (Kind.CLOSE,)
            self.verdict = self._judge()
            return self._frame(
                Kind.TRANSCRIPT, self.index, self._transcript + self.verdict.value, known=True
            )
        parameters = self._who.parameters
        if self.round >= parameters.rounds:
            raise Unacceptable(f"this job opens at most {parameters.rounds} sums")
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (parameters.dimension,):
            raise Unacceptable(
                f"a contribution must have {parameters.dimension} entries, not {values.shape}"
            )
        encoded = self._encoded(values)
        # A keyed digest, so that the journal reveals nothing about the values, with a key that ends
        # with the session.
        digest = hmac.digest(self.draws.key, encoded.tobytes(), "sha256").hex()
        if sums is None and any(fields[-1] == digest for fields in self._sent_before()):
            raise Reused("an epoch must not begin with a contribution that was sent before")
        self._journal.claim(self._record(f"contribution {digest}"))
        self._contributed += 1
        self._bound = self._transcript
        others = [other for other in self._active if other != self.index]
        plus = [self._mask_key(self.index, other) for other in others if other > self.index]
        plus.append(self._mask_key(self.index, OPERATOR))
        if parameters.allow_dropout:
            self._own_seed = self.draws.bytes(32)
            plus.append(self._own_seed)
        if parameters.scheme == "masking":
            self._scheme = self._masking()
        scheme: Any = self._scheme
        masks = scheme.masks(
            plus, [self._mask_key(self.index, other) for other in others if other < self.index]
        )
        self._expected = (Kind.PROPOSAL,) if parameters.allow_dropout else (Kind.SUM,)
        self._alone = isinstance(self._update, Scaled) and self._update.alone
        kind = Kind.ALONE if self._alone else Kind.CONTRIBUTION
        return self._frame(kind, self.index, scheme.contribute(encoded, masks))

    def _judge(self) -> Verdict:
        tolerance = self._who.parameters.tolerance
        if tolerance is None:
            return Verdict.UNSAID
        assert isinstance(self._update, Settling)
        return Verdict.SETTLED if self._update.settled(tolerance) else Verdict.UNSETTLED

    def _masking(self) -> MaskingScheme:
        """The masking scheme with the pads of this round."""
        return MaskingScheme(
            self._who.parameters, lambda: self._pads(self._active), self._pads([self.index])[0]
        )

    def _encoded(self, values: Floats) -> Integers:
        """The contribution on the grid of integers. With noise it is clipped, rounded toward zero
        so that its norm does not grow, and noised; entries that are not finite count as 0, since
        leaving because of them would leak what the noise does not cover."""
        parameters = self._who.parameters
        if not parameters.noise_sigma:
            return self._point.encode(values)
        values = np.where(np.isfinite(values), values, 0.0)
        norm = float(np.linalg.norm(values))
        if norm > parameters.clip:
            values = values * (parameters.clip / norm * (1 - 1e-15))
        variance = parameters.share_variance(len(self._who.members))
        noise = discrete_gaussian(variance, values.size, self.draws.below)
        if max(abs(z) for z in noise) ** 2 > NOISE_TAIL**2 * variance:
            raise OutOfRange(f"noise beyond {NOISE_TAIL} standard deviations")
        return self._point.encode(values, toward_zero=True) + np.array(noise, dtype=np.int64)

    def _on_proposal(self, payload: bytes) -> bytes:
        chosen = members_of(payload, self._active)
        if len(chosen) < self._who.parameters.quorum(len(self._who.members)):
            raise Tampered(f"{len(chosen)} summands are too few to hide one of them")
        self._journal.claim(self._record("set"))
        if self.index not in chosen:
            raise Excluded("the operator goes on without this agent")
        self._proposed = chosen
        self._expected = (Kind.AGREED,)
        return self._frame(Kind.AGREEMENT, self.index, payload, known=True)

    def _on_agreed(self, payload: bytes) -> bytes:
        self._verify_all(Kind.AGREEMENT, self._proposed, payload, bitmap(self._proposed))
        missing = [other for other in self._active if other not in self._proposed]
        keys = b"".join(self._mask_key(self.index, other) for other in missing)
        self._active = self._proposed
        self._expected = (Kind.SUM,)
        seed, self._own_seed = self._own_seed, b""
        return self._frame(Kind.RELEASE, self.index, seed + keys)

    def _on_sum(self, payload: bytes) -> bytes:
        if isinstance(self._scheme, MaskingScheme):
            self._scheme.summands = len(self._active)
        assert self._scheme is not None
        try:
            opened = self._scheme.open(payload)
            sums = self._point.decode(opened, len(self._active) + 1)
        except (NotPacked, OutOfRange, paillier.InvalidCiphertext) as error:
            raise Tampered(f"the sum of round {self.round} is wrong: {error}") from None
        too_large = self._beyond(sums)
        self._opened += 1
        self._previous = self._heard
        self.round += 1
        return self._complain(too_large) if too_large else self._contribute(sums)

    @property
    def numbers(self) -> int:
        """How many numbers of sums with this agent in them, and without noise, may be open: a sum
        may be even where this agent was not told."""
        parameters = self._who.parameters
        return 0 if parameters.noise_sigma else self._contributed * parameters.dimension

    def _beyond(self, sums: Floats) -> str:
        """The entry of this round's sum that exceeds the bounds that the owner has signed; empty if
        none does."""
        parameters = self._who.parameters
        if parameters.most is None or self._alone:
            return ""
        signed = np.array(parameters.most)
        # Contributions at their bound are only as exact as doubles and the grid.
        most = signed * (1 + SLACK) + parameters.rounding(len(self._who.members))
        found = np.flatnonzero(np.abs(sums[: most.size]) > most)
        if not found.size:
            return ""
        first = int(found[0])
        value, largest = float(sums[first]), parameters.most[first]
        if isinstance(self._update, Scaled):
            value, largest = (self._update.natural(first, one) for one in (value, largest))
        return (
            f"its entry {first} is {value:g}, and with what the owner has signed it is at most "
            f"{largest:g}"
        )

    def _complain(self, why: str) -> bytes:
        """The signed complaint, sent instead of an answer; this agent answers nothing more."""
        self.complaint = f"the sum of round {self.round - 1} is wrong: {why}"
        self._expected = ()
        return self._frame(Kind.COMPLAINT, self.index, OUT_OF_BOUNDS, known=True)

    def _on_close(self, payload: bytes) -> bytes:
        self._verify_all(
            Kind.TRANSCRIPT, self._active, payload, self._transcript + self.verdict.value
        )
        self.finished = True
        self._expected = ()
        return b""
