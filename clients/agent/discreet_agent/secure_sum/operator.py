"""The operator's state machine."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_agent import paillier
from discreet_agent.packing import Floats, Integers
from discreet_agent.secure_sum.errors import (
    Complained,
    Ended,
    Missing,
    Refused,
    Tampered,
    Unacceptable,
)
from discreet_agent.secure_sum.evidence import guarantee
from discreet_agent.secure_sum.frames import (
    HEADER,
    OPERATOR,
    OUT_OF_BOUNDS,
    SIGNATURE,
    Kind,
    Verdict,
    bitmap,
    parse,
)
from discreet_agent.secure_sum.masks import MaskingScheme, PaillierScheme, deal_sizes
from discreet_agent.secure_sum.party import Party
from discreet_agent.secure_sum.roster import Roster, Trust

if TYPE_CHECKING:
    from phe import PaillierPublicKey


class Operator(Party):
    """The system operator in one epoch: it holds v_0 (`own`, float64[dimension]), and neither the
    agents' decryption key nor an unmasked value.

    `identity` is its Ed25519 key on the roster. Raises what `Roster.verified` raises, OutOfRange
    when v_0 exceeds the bound, ValueError when it has another dimension.
    """

    def __init__(
        self,
        identity: Ed25519PrivateKey,
        owner: Trust,
        signed_roster: bytes,
        own: Floats,
        *,
        epoch: int = 0,
        first_round: int = 0,
        previous: bytes | None = None,
        _smallest_key_bits: int = paillier.SMALLEST_KEY_BITS,
    ) -> None:
        super().__init__(identity, epoch, first_round, previous)
        roster = Roster.verified(signed_roster, owner, _smallest_key_bits=_smallest_key_bits)
        if identity.public_key().public_bytes_raw() != roster.operator:
            raise Unacceptable("the roster names another operator")
        self._begin(roster)
        self._signed_roster = signed_roster
        own = np.asarray(own, dtype=np.float64)
        if own.shape != (roster.parameters.dimension,):
            raise ValueError(
                f"the operator's vector must have {roster.parameters.dimension} entries, not "
                f"{own.shape}"
            )
        self._own = self._point.encode(own)
        self._scheme: PaillierScheme | MaskingScheme | None = None
        self._public: PaillierPublicKey | None = None
        self._from: tuple[int, ...] = ()
        self._known = b""
        self._collected: dict[int, tuple[Kind, bytes, bytes]] = {}
        self._contributions: dict[int, Any] = {}
        self._alone = False
        """Whether the sum that is due is of the agents alone."""
        self.opened = 0
        """Number of sums broadcast so far."""
        self.signatures: dict[int, bytes] = {}
        """Each agent's signature over the transcript hash, at the end."""
        self.verdict = Verdict.UNSAID
        self._phases: Mapping[Kind, Callable[[], bytes | None]] = {
            Kind.HELLO: self._after_hello,
            Kind.DEAL: self._after_deal,
            Kind.ACK: self._after_ack,
            Kind.CONTRIBUTION: self._after_contribution,
            Kind.AGREEMENT: self._after_agreement,
            Kind.RELEASE: self._broadcast_sum,
        }

    @property
    def waiting(self) -> tuple[int, ...]:
        """The agents whose answers have not arrived."""
        return tuple(agent for agent in self._from if agent not in self._collected)

    def open(self) -> bytes:
        """The first broadcast."""
        payload = self._signed_roster + self._exchange.public_key().public_bytes_raw()
        return self._broadcast(Kind.OPEN, payload, (Kind.HELLO,), self._active)

    def collect(self, answer: bytes) -> None:
        """Take an agent's answer; a repeated or an empty one changes nothing.

        Raises Refused, without a change, when it is not authentic or not due, or differs from the
        agent's earlier answer. A contribution that cannot be read, though authentic, raises
        Tampered and ends the machine.
        """
        if self.ended is not None:
            raise Ended(f"the operator has ended: {self.ended}")
        if not answer:
            return
        kind, epoch, round_, sender, payload = parse(answer)
        if (
            kind not in self._expected
            or sender not in self._from
            or (epoch, round_) != (self.epoch, self.round)
        ):
            raise Refused(
                f"a {kind.name} of epoch {epoch}, round {round_} from {sender} is not due"
            )
        implied = kind in (Kind.ACK, Kind.AGREEMENT, Kind.TRANSCRIPT, Kind.COMPLAINT)
        if implied and payload:
            raise Refused(f"a {kind.name} must not have a payload")
        signature = answer[-SIGNATURE:]
        if kind == Kind.TRANSCRIPT:
            payload = self._said(sender, signature)
        else:
            known = OUT_OF_BOUNDS if kind == Kind.COMPLAINT else self._known
            self._verify(kind, sender, known if implied else payload, signature)
        if sender in self._collected:
            if self._collected[sender] != (kind, payload, signature):
                raise Refused(
                    f"agent {sender} has given a different answer before", "contradiction"
                )
            return
        if kind in (Kind.CONTRIBUTION, Kind.ALONE):
            assert self._scheme is not None
            try:
                self._contributions[sender] = self._scheme.accept(payload)
            except paillier.InvalidCiphertext as error:
                self.ended = Tampered(
                    f"the contribution of agent {sender} cannot be read: {error}", None, sender
                )
                raise self.ended from None
        self._collected[sender] = kind, payload, signature

    def advance(self) -> bytes | None:
        """The next broadcast, or None at the end; to be called when all answers are in, or no more
        are waited for. Raises Missing if the run cannot go on without the missing agents."""
        if self.ended is not None:
            raise Ended(f"the operator has ended: {self.ended}")
        if self.finished:
            return None
        try:
            return self._phases[self._expected[0]]()
        except Exception as error:
            self.ended = error
            raise

    def _broadcast(
        self, kind: Kind, payload: bytes, expected: tuple[Kind, ...], of: tuple[int, ...]
    ) -> bytes:
        frame = self._frame(kind, OPERATOR, payload)
        if kind != Kind.CLOSE:
            self._hear(frame)
        self._expected, self._from, self._collected = expected, of, {}
        return frame

    def _complete(self, why: str) -> None:
        if self.waiting:
            raise Missing(self.waiting, why)

    def _signatures(self) -> bytes:
        return b"".join(self._collected[agent][2] for agent in self._from)

    def _after_hello(self) -> bytes:
        self._complete("a job starts with the whole roster")
        for agent in self._active:
            self._agree_with(agent, self._collected[agent][1])
        keys = b"".join(
            self._collected[agent][1] + self._collected[agent][2] for agent in self._active
        )
        return self._broadcast(Kind.KEYS, keys, (Kind.DEAL,), (self._who.parameters.dealer,))

    def _after_deal(self) -> bytes:
        self._complete("only the dealer makes the key")
        parameters, dealer = self._who.parameters, self._who.parameters.dealer
        _, payload, signature = self._collected[dealer]
        width, size = deal_sizes(parameters)
        public = payload[:width]
        if len(payload) != width + size * (len(self._active) - 1):
            raise Tampered("the dealer has not dealt to every agent", None, dealer)
        frame = HEADER.pack(Kind.DEAL, self.epoch, self.round, dealer) + payload + signature
        broadcast = self._broadcast(Kind.DEALT, frame, (Kind.ACK,), self._active)
        self._fingerprint = hashlib.sha256(public).digest()
        self._known = hashlib.sha256(frame).digest()
        if parameters.scheme == "paillier":
            key, bits = int.from_bytes(public, "big"), parameters.key_bits
            if key.bit_length() != bits or key % 2 == 0:
                raise Tampered(
                    f"the dealer's key has {key.bit_length()} bits or is even; an odd one of "
                    f"{bits} is agreed",
                    None,
                    dealer,
                )
            self._public = paillier.public_key(key)
        self._scheme = self._make_scheme()
        return broadcast

    def _make_scheme(self) -> PaillierScheme | MaskingScheme:
        if self._public is None:
            return MaskingScheme(self._who.parameters, None, b"")
        # Tables with 64 entries per row: the operator encrypts once per round, and agents wait for
        # that.
        return PaillierScheme(
            self._who.parameters, self._public, None, paillier.Obfuscators(self._public, window=6)
        )

    def _after_ack(self) -> bytes:
        self._complete("every agent must have the key")
        frame = self._broadcast(
            Kind.START, self._signatures(), (Kind.CONTRIBUTION, Kind.ALONE), self._active
        )
        self._bound = self._transcript
        return frame

    def _after_contribution(self) -> bytes:
        kinds = {kind for kind, _, _ in self._collected.values()}
        if Kind.COMPLAINT in kinds:
            raise Complained(
                agent for agent, said in self._collected.items() if said[0] == Kind.COMPLAINT
            )
        if len(kinds) > 1:
            raise self._differ(
                "what they answer (an end, a contribution, or one to a sum of the agents alone)",
                {agent: kind for agent, (kind, _, _) in self._collected.items()},
            )
        if kinds == {Kind.TRANSCRIPT}:
            self._complete("every agent signs the transcript")
            said = {payload for _, payload, _ in self._collected.values()}
            if len(said) > 1:
                raise self._differ(
                    "whether the sums have settled",
                    {agent: payload for agent, (_, payload, _) in self._collected.items()},
                )
            self.verdict = Verdict(said.pop())
            self.signatures = {agent: self._collected[agent][2] for agent in self._active}
            close = self._broadcast(Kind.CLOSE, self._signatures(), (), ())
            self.finished = True
            return close
        parameters = self._who.parameters
        self._alone = kinds == {Kind.ALONE}
        if not parameters.allow_dropout:
            self._complete("the job sums over all agents")
            return self._broadcast_sum()
        chosen = tuple(agent for agent in self._active if agent in self._collected)
        if len(chosen) < parameters.quorum(len(self._who.members)):
            raise Missing(self.waiting, f"{len(chosen)} summands are too few to hide one of them")
        self._known = bitmap(chosen)
        return self._broadcast(Kind.PROPOSAL, self._known, (Kind.AGREEMENT,), chosen)

    def _differ(self, what: str, said: Mapping[int, object]) -> Tampered:
        """All have been sent the same sum, from which the answer's kind and the verdict follow: who
        answers as fewer than half do is named."""
        counted = Counter(said.values()).most_common()
        few = [agent for agent, one in said.items() if one != counted[0][0]]
        named = sorted(few) if 2 * len(few) < len(said) else []
        return Tampered(
            f"agents differ in {what}, which follows from the sums: one has seen other sums, or "
            "lies",
            "wrong_frame",
            *named,
        )

    def _said(self, sender: int, signature: bytes) -> bytes:
        """The bytes of the verdict that the agent's signature covers after the transcript."""
        asked = self._who.parameters.tolerance is not None
        words = [one.value for one in Verdict if (one is not Verdict.UNSAID) == asked]
        for said in words[:-1]:
            with contextlib.suppress(Refused):
                self._verify(Kind.TRANSCRIPT, sender, self._transcript + said, signature)
                return said
        self._verify(Kind.TRANSCRIPT, sender, self._transcript + words[-1], signature)
        return words[-1]

    def _after_agreement(self) -> bytes:
        self._complete("all summands agree on their set, or none is unmasked")
        return self._broadcast(Kind.AGREED, self._signatures(), (Kind.RELEASE,), self._from)

    def _broadcast_sum(self) -> bytes:
        """Broadcast the sum: combine the contributions, remove the masks, add v_0, rerandomize."""
        chosen, plus, minus = self._from, list[bytes](), list[bytes]()
        plus += [self._mask_key(OPERATOR, agent) for agent in chosen]
        if self._who.parameters.allow_dropout:
            self._complete("without the seeds of all summands the sum stays masked")
            missing = [agent for agent in self._active if agent not in chosen]
            for agent in chosen:
                payload = self._collected[agent][1]
                if len(payload) != 32 * (1 + len(missing)):
                    raise Tampered(
                        f"agent {agent} has not released exactly the due keys", None, agent
                    )
                plus.append(payload[:32])
                for place, other in enumerate(missing, 1):
                    (plus if other > agent else minus).append(
                        payload[32 * place : 32 * (place + 1)]
                    )
            self._active = chosen
        scheme: Any = self._scheme
        payload = scheme.combine(
            [self._contributions[agent] for agent in chosen], self._due, scheme.masks(plus, minus)
        )
        frame = self._broadcast(
            Kind.SUM,
            payload,
            (Kind.CONTRIBUTION, Kind.ALONE, Kind.TRANSCRIPT, Kind.COMPLAINT),
            self._active,
        )
        self._previous, self._bound = self._heard, self._transcript
        self.round += 1
        self.opened += 1
        self._contributions = {}
        return frame

    @property
    def _due(self) -> Integers:
        """v_0 on the grid, or zeros in a sum of the agents alone."""
        return np.zeros_like(self._own) if self._alone else self._own

    def state(self) -> bytes:
        """All that `resume` needs, to be saved after each broadcast: answers that were collected
        since are not part of it. Secret: the link masks can be computed from it.
        """
        saved = {
            **self._saved(),
            "from": self._from,
            "known": self._known.hex(),
            "modulus": None if self._public is None else str(self._public.n),
            "ready": self._scheme is not None,
            "opened": self.opened,
            "signatures": {
                str(agent): signature.hex() for agent, signature in self.signatures.items()
            },
            "verdict": self.verdict.name,
        }
        return json.dumps(saved).encode()

    def resume(self, state: bytes) -> None:
        """Go on from `state` of a machine with the same identity, roster and vector."""
        saved = json.loads(state)
        self._resume(saved)
        self._from, self._known = tuple(saved["from"]), bytes.fromhex(saved["known"])
        self._public = (
            None if saved["modulus"] is None else paillier.public_key(int(saved["modulus"]))
        )
        self._scheme = self._make_scheme() if saved["ready"] else None
        self.opened = saved["opened"]
        self.signatures = {
            int(agent): bytes.fromhex(one) for agent, one in saved["signatures"].items()
        }
        self.verdict = Verdict[saved.get("verdict", Verdict.UNSAID.name)]

    def certificate(self) -> dict[str, Any]:
        """The section `cryptographic` of a certificate: what the run guarantees and reveals, and
        the signed transcript hash."""
        roster = self._who
        return {
            **guarantee(roster.parameters, len(roster.members), self.opened),
            "roster": roster.document.decode(),
            "epoch": self.epoch,
            "round": self.round,
            "key": self._fingerprint.hex(),
            "last_sum": self.last_broadcast.hex(),
            "transcript": self.transcript.hex(),
            "signatures": {
                roster.members[agent].hex(): s.hex() for agent, s in self.signatures.items()
            },
            **(
                {}
                if self.verdict is Verdict.UNSAID
                else {"settled": self.verdict is Verdict.SETTLED}
            ),
        }
