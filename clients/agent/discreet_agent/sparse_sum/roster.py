"""The roster that an owner signs before a run, and what an agent demands of it before it takes
part."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_agent.exposure import ACCEPTED, Exposure
from discreet_agent.secure_sum.errors import Tampered, Unacceptable
from discreet_agent.sparse_sum.group import PROTOCOL, digest
from discreet_agent.sparse_sum.plan import Plan
from discreet_agent.sparse_sum.signing import verify


@dataclass(frozen=True)
class Roster:
    """The agents of a run, and its plan. `run`: its name, which the owner uses only once. `keys`:
    Ed25519 public keys of all agents, by place."""

    run: str
    plan: Plan
    keys: tuple[bytes, ...]

    @cached_property
    def content(self) -> bytes:
        """The bytes whose digest is signed: JSON with sorted names and no spaces."""
        read = {
            "keys": [key.hex() for key in self.keys],
            "plan": asdict(self.plan),
            "protocol": PROTOCOL.decode(),
            "run": self.run,
        }
        return json.dumps(read, sort_keys=True, separators=(",", ":")).encode()

    @cached_property
    def digest(self) -> bytes:
        """Digest of the roster, bound into everything that members sign and all keys of masks."""
        return digest(b"roster", self.content)

    def signed_by(self, owner: Ed25519PrivateKey) -> bytes:
        """The owner's signature. Raises Unacceptable for a roster that no agent should accept."""
        self.check()
        return owner.sign(self.digest)

    def check(self) -> None:
        """Raises Unacceptable for a bad plan, or unless there is one key for each agent."""
        self.plan.check()
        if not len(self.keys) == len(set(self.keys)) == self.plan.agents:
            raise Unacceptable("a roster must have one distinct key for each agent of the plan")

    @classmethod
    def read(cls, content: bytes, signature: bytes, owner: bytes) -> Roster:
        """A roster that the owner of this key has signed. Raises Tampered for any other,
        Unacceptable if it is not a roster of this version."""
        if not verify(owner, signature, digest(b"roster", content)):
            raise Tampered("the owner has not signed this roster")
        try:
            read = json.loads(content)
            figures = {name: _whole(figure) for name, figure in read["plan"].items()}
            keys = tuple(bytes.fromhex(key) for key in read["keys"])
            roster = cls(str(read["run"]), Plan(**figures), keys)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Unacceptable(f"this is not a roster of this version: {error}") from None
        if roster.content != content:
            raise Unacceptable("the roster holds more than one of this version does")
        roster.check()
        return roster


def _whole(figure: object) -> int:
    if not isinstance(figure, int) or isinstance(figure, bool):
        raise ValueError(f"{figure!r} is not a whole number")
    return figure


@dataclass(frozen=True)
class Demands:
    """What an agent demands of a roster; no default weakens its protection.

    `corrupt`: least fraction of agents that the plan must tolerate to collude with the server.
    `sigma`: least standard deviation, on the grid of integers, of the honest survivors' noise in
    each entry of a sum; with 0 `exposure` must be "accepted", since the server sees the sums, and
    sums alone can reveal an agent's values. `rounds`: most sums of the run, over all setups.
    `crowd`: fewest honest survivors of a sum.
    """

    corrupt: float
    sigma: float
    rounds: int
    crowd: int = 2
    exposure: Exposure | None = None

    def check(self, roster: Roster) -> None:
        """Raises Unacceptable if the roster falls short, with the figures."""
        plan = roster.plan
        roster.check()
        if not (0 <= self.corrupt < 1 and math.isfinite(self.sigma) and self.sigma >= 0):
            raise Unacceptable("corrupt must be at least 0 and below 1, sigma finite and >= 0")
        colluding = math.floor(self.corrupt * plan.agents)
        if plan.corrupt < colluding:
            raise Unacceptable(
                f"the plan tolerates {plan.corrupt} corrupt agents of {plan.agents}; this one asks "
                f"for {colluding}"
            )
        honest = plan.minimum - plan.corrupt
        if honest < self.crowd:
            raise Unacceptable(
                f"a sum may have {honest} honest survivors; this agent asks for {self.crowd}"
            )
        if plan.rounds > self.rounds:
            raise Unacceptable(
                f"{plan.rounds} sums would be opened; this agent allows {self.rounds}"
            )
        if plan.variance * honest < Fraction(self.sigma) ** 2:
            raise Unacceptable(
                f"noise of {honest} honest survivors has a standard deviation of "
                f"{math.sqrt(plan.variance * honest):g} on the grid; this agent asks for "
                f"{self.sigma:g}"
            )
        if not self.sigma and self.exposure != ACCEPTED:
            raise Unacceptable(
                "the server sees the sums, this agent asks for no noise in them, and has not "
                f"accepted that (exposure: {ACCEPTED!r})"
            )
