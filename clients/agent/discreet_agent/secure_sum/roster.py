"""Who takes part in a secure sum, and under which parameters: what the owner signs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discreet_agent import ed25519, paillier
from discreet_agent.exposure import ACCEPTED, Exposure, crowd
from discreet_agent.packing import FixedPoint
from discreet_agent.secure_sum.errors import Refused, Unacceptable
from discreet_agent.secure_sum.frames import OPERATOR, PROTOCOL, SIGNATURE
from discreet_agent.secure_sum.noise import NOISE_TAIL

if TYPE_CHECKING:
    from discreet_agent.settling import Asked

Scheme = Literal["paillier", "masking"]
LATER = ("exposure", "tolerance", "reach", "most")
"""Parameters that came later than the first rosters."""


@dataclass(frozen=True)
class Parameters:
    """What all parties agree on, signed with the roster.

    `dimension`: entries of a vector. `rounds`: sums that may be opened at most, in all epochs.
    `bound`: the largest magnitude of an entry of any v_i and of v_0, from public boxes and
    coefficients. `colluding`: t. `dealer`: the agent that makes the key. `noise_sigma` > 0 asks for
    discrete Gaussian noise of at least that standard deviation in each opened sum, in the unit of
    the values, and then `clip` is the Euclidean norm that a contribution is scaled down to.
    `exposure`: "accepted" where the owner has said that the agents are few for what is opened
    (`discreet_agent.exposure`). `tolerance`: agents say at the end whether the sums have settled
    within it.

    `reach`: the largest magnitude of the first entries of any v_i, one an entry. `most`: that of
    the same entries of a sum in which v_0 is. Entries behind them (`method: auto` has one) and
    sums of the agents alone are bounded by the slots alone.
    """

    dimension: int
    rounds: int
    bound: float
    scheme: Scheme = "paillier"
    key_bits: int = 3072
    fraction_bits: int = 32
    slot_bits: int = 64
    colluding: int = 1
    allow_dropout: bool = False
    dealer: int = 0
    noise_sigma: float = 0.0
    clip: float = 0.0
    exposure: Exposure | None = None
    tolerance: float | None = None
    reach: tuple[float, ...] | None = None
    most: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("reach", "most"):
            figures = getattr(self, name)
            if figures is not None:  # a list, where they were read
                object.__setattr__(self, name, tuple(figures))

    @property
    def fields(self) -> dict[str, Any]:
        """As they are signed. Fields that came later are left out where nothing was said: such
        parameters are the same bytes as before there were the fields. Agents of a version without
        them refuse parameters with them."""
        said = asdict(self)
        return {
            name: value for name, value in said.items() if value is not None or name not in LATER
        }

    @property
    def numbers(self) -> int:
        """How many numbers are opened without noise, at most."""
        return 0 if self.noise_sigma else self.rounds * self.dimension

    def crowd(self, before: Fraction = Fraction(0)) -> int | None:
        """The fewest agents among whom these sums are opened without being accepted by name, after
        what jobs before have opened; see `exposure.crowd`."""
        return crowd(self.numbers, before)

    def crowded(self, agents: int, before: Fraction = Fraction(0)) -> bool:
        """Whether so many agents are enough."""
        needed = self.crowd(before)
        return needed is not None and agents >= needed

    def quorum(self, agents: int) -> int:
        """The least number of summands: n, or with dropout `max(t + 2, floor((n + t)/2) + 1)`.

        Two honest ones remain hidden in each other, and two sets of that size share more than t
        agents, one of them honest, who signs one set a round only.
        """
        if not self.allow_dropout:
            return agents
        return max(self.colluding + 2, (agents + self.colluding) // 2 + 1)

    def share_variance(self, agents: int) -> int:
        """Variance of an agent's noise on the grid, rounded up: the honest ones of the smallest set
        make up sigma²."""
        if self.noise_sigma == 0:
            return 0
        honest = self.quorum(agents) - self.colluding
        return int(
            np.ceil(np.ldexp(self.noise_sigma, self.fraction_bits) ** 2 / honest * (1 + 1e-12))
        )

    def fixed_point(self, agents: int) -> FixedPoint:
        """n contributions and the operator's, noise included, in a slot. Raises OutOfRange when
        they do not fit."""
        tail = NOISE_TAIL * (int(self.share_variance(agents) ** 0.5) + 1) if self.noise_sigma else 0
        return FixedPoint(self.bound, agents + 1, self.fraction_bits, self.slot_bits, tail)

    def rounding(self, agents: int) -> float:
        """How far the grid may move an entry of a sum of so many contributions and v_0, without
        noise."""
        return (agents + 1) * 2.0 ** -(self.fraction_bits + 1)

    def asked(self, agents: int) -> Asked | None:
        """What agents that make short steps are asked at the end; None if nothing."""
        if self.tolerance is None:
            return None
        from discreet_agent.settling import Asked  # noqa: PLC0415 - of short steps alone

        ceiling = None if self.reach is None else agents * np.array(self.reach)
        return Asked(self.tolerance, agents, self.bound, self.rounding(agents), ceiling)

    def check(self, agents: int, *, _smallest_key_bits: int = paillier.SMALLEST_KEY_BITS) -> None:
        """Raises Unacceptable with the figures."""
        if agents < 3:
            raise Unacceptable(
                f"{agents} agents: with fewer than three, a sum reveals the other agent's value"
            )
        if agents >= OPERATOR:
            raise Unacceptable(f"at most {OPERATOR - 1} agents, not {agents}")
        if not 1 <= self.colluding <= agents - 2:
            raise Unacceptable(
                f"of {agents} agents 1 to {agents - 2} may collude, not {self.colluding}"
            )
        if self.dimension < 1 or self.rounds < 1 or not 0 <= self.dealer < agents:
            raise Unacceptable(
                "dimension and rounds are at least 1, the dealer is one of the agents"
            )
        if self.scheme not in ("paillier", "masking"):
            raise Unacceptable(f"no scheme {self.scheme}")
        if self.exposure not in (None, ACCEPTED):
            raise Unacceptable(f"exposure is {ACCEPTED} or left out")
        if self.tolerance is not None and not (0 < self.tolerance < 1 and not self.noise_sigma):
            raise Unacceptable(
                "the tolerance lies between 0 and 1, and sums with noise have none: they never "
                "settle"
            )
        if self.tolerance is not None and not self.bound > 0:  # a vote against is the bound
            raise Unacceptable("with a tolerance the bound is above 0: agents could not say no")
        if self.scheme == "masking" and self.slot_bits != 64:
            raise Unacceptable("masking adds modulo 2^64: slot_bits must be 64")
        if not (
            np.isfinite(self.noise_sigma)
            and self.noise_sigma >= 0
            and (self.clip > 0) == (self.noise_sigma > 0)
        ):
            raise Unacceptable("noise needs a standard deviation and a clip, both positive")
        try:
            if self.scheme == "paillier":
                paillier.check_size(self.key_bits, _smallest_key_bits)
            self.fixed_point(agents)
        except ValueError as error:
            raise Unacceptable(str(error)) from error


@dataclass(frozen=True)
class Roster:
    """Who takes part in a job under which parameters. `members`, `operator`: Ed25519 public keys,
    32 bytes each."""

    job: str
    members: tuple[bytes, ...]
    operator: bytes
    parameters: Parameters

    @cached_property
    def document(self) -> bytes:
        """Canonical JSON: what the owner signs."""
        fields = {
            "protocol": PROTOCOL,
            "job": self.job,
            "members": [member.hex() for member in self.members],
            "operator": self.operator.hex(),
            "parameters": self.parameters.fields,
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    @cached_property
    def hash(self) -> bytes:
        return hashlib.sha256(self.document).digest()

    def signed(self, owner: Ed25519PrivateKey) -> bytes:
        """The document and the owner's signature."""
        return self.document + owner.sign(b"discreet/roster/v1" + self.document)

    @classmethod
    def read(cls, document: bytes) -> Roster:
        """The roster that a document says, nothing of it verified. Raises Unacceptable when it says
        none."""
        try:
            fields = json.loads(document)
            roster = cls(
                str(fields["job"]),
                tuple(bytes.fromhex(member) for member in fields["members"]),
                bytes.fromhex(fields["operator"]),
                Parameters(**fields["parameters"]),
            )
            sound = fields["protocol"] == PROTOCOL and roster.document == document
            sound = sound and all(map(ed25519.is_key, (*roster.members, roster.operator)))
        except (ValueError, KeyError, TypeError) as error:
            raise Unacceptable(f"the roster cannot be read: {error}") from error
        if not sound:
            raise Unacceptable(
                "the roster is of another protocol, not in canonical form, or holds what is no key"
            )
        return roster

    @classmethod
    def verified(
        cls, signed: bytes, owner: Trust, *, _smallest_key_bits: int = paillier.SMALLEST_KEY_BITS
    ) -> Roster:
        """The roster in `signed`. Raises Refused when the owner has not signed it, Unacceptable
        when it is unsound."""
        if isinstance(owner, Ed25519PublicKey):
            document, signature = signed[:-SIGNATURE], signed[-SIGNATURE:]
            statement = b"discreet/roster/v1" + document
            if not ed25519.is_signed(owner.public_bytes_raw(), statement, signature):
                raise Refused("the roster is not signed by the owner")
        else:
            document = signed
            if not owner(document):
                raise Refused("the roster is not the one that the owner has signed")
        roster = cls.read(document)
        if len({*roster.members, roster.operator}) != len(roster.members) + 1:
            raise Unacceptable("the same key stands twice in the roster")
        try:
            roster.parameters.check(len(roster.members), _smallest_key_bits=_smallest_key_bits)
        except TypeError as error:  # a figure is given as text, say
            raise Unacceptable(f"the parameters cannot be read: {error}") from error
        return roster


Trust = Ed25519PublicKey | Callable[[bytes], bool]
"""Who says that a roster is right: the owner's key, or a function of the document, where the owner
has signed members and parameters in another form; the document then travels without a signature."""
