"""The contract of kinds that agents solve together: the terms, the roster's members, the
session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from discreet.errors import InvalidInput
from discreet.intake.field_issues import FieldError
from discreet.privacy.noise import Noise
from discreet.problems.base import Problem
from discreet.problems.contents import Released
from discreet.problems.numbers import Budget, Frozen, Positive, Real
from discreet.problems.plans import Plan
from discreet_agent.exposure import NOTHING_OPENED, Opens

ROUNDS_ARE_SEEN = (
    "rounds are not padded: everybody in the session sees how long one took, which reveals how "
    "long the slowest agent's computation on its own data, its connection and the server's step "
    "took"
)
"""An assumption of every session, in its plan and in its certificate."""


class FederationTerms(Frozen):
    """How a session of agents is run; fixed with the job, before anybody joins."""

    agents: Positive = Field(le=1000, description="Most agents that may join")
    quorum: Positive | None = Field(
        default=None, description="Fewest agents that a round needs; all by default"
    )
    on_missing: Literal["abort", "finish"] = Field(
        default="abort",
        description="`abort`: an agent that misses a round ends the job; `finish`: rounds go on "
        "with a quorum",
    )
    round_seconds: Real = Field(
        default=30.0, gt=0, le=86400, description="Seconds from a broadcast to the round's deadline"
    )
    approve_seconds: Real = Field(
        default=604800.0,
        gt=0,
        le=7776000,
        description="Seconds from submission to the signed roster; later the job fails",
    )
    join_seconds: Real = Field(
        default=600.0,
        gt=0,
        le=604800,
        description="Seconds from the signed roster to the first round",
    )

    @property
    def least(self) -> int:
        """The fewest agents that a round needs."""
        return self.agents if self.quorum is None else min(self.quorum, self.agents)


def is_session(problem: Mapping[str, Any]) -> bool:
    """Whether a problem, as it is stored, is solved by agents apart: always where its protocol says
    `federated`, of another but `job` where it has the terms of a session."""
    protocol = problem.get("protocol", "job")
    return protocol == "federated" or (protocol != "job" and problem.get("federation") is not None)


@dataclass(frozen=True)
class Member:
    """An agent on the owner's signed roster."""

    fingerprint: str
    name: str
    key: bytes
    """Ed25519, 32 bytes."""
    announcement: Any
    """The public figures that it announced when it enrolled, as `check_announcement` let them
    pass."""


CAUSES: Mapping[str, str] = {
    # Nothing came
    "not_joined": "it had not accepted the roster when the time to join was over",
    "not_connected": "it was not connected at the round's deadline",
    "no_answer": "it was connected, and did not answer before the round's deadline",
    # What came cannot be used
    "wrong_form": "its answer was not of the form that the round asks for",
    "not_a_number": "its answer held a number that is not finite",
    "wrong_frame": "it sent a frame that was not due in this round, that was another agent's, or "
    "that says of the sums what most agents do not say",
    "bad_signature": "its answer was not signed with its key, or answered something else",
    "unreadable": "its answer was signed and could not be read",
    "contradiction": "it gave two different answers to one round",
    "refused": "the server refused what it sent on its stream, and nothing else came",
    "broken_off": "it broke off the computation between the agents",
    # It does not take part
    "declined": "it declined to take part",
    "limit_exceeded": "it declined: the price would pass its own limit",
    "unfit": "it declined: its data, or what it asks for, do not fit what the owner has signed",
    "folder_lost": "it declined: the folder with what it had answered was lost or put back",
}
"""Why a session could not go on without an agent, as the server sees it: fixed names and their
sentences, never made from what agents send."""

DECLINED = ("limit_exceeded", "unfit", "folder_lost")
"""The reasons that an agent may give."""


class SessionFailed(Exception):
    """A session cannot go on. `code` is one of the kind's `failures`: a fixed name, never made from
    messages. `blamed`: causes (`CAUSES`) by agent, where it is known whose message it was."""

    def __init__(self, code: str, blamed: Mapping[str, str] | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.blamed = dict(blamed or {})


class Session(ABC):
    """The operator's side of one federated job: a state machine, deterministic apart from noise.

    It lives in a child process without network. Agents are named by their fingerprints. The
    coordinator calls

        opening(noise)                        the broadcast of round 0
        step(0, {agent: message}, noise)      its answers come in; returns the broadcast of round 1
        …
        step(rounds - 1, …)                   returns the last broadcast, which ends the session for
                                              the agents
        released()                            what `finish` makes the result of

    A protocol of several phases a round counts every exchange as a round. After each step `state()`
    and the broadcast are on disk before any agent sees the broadcast. A step that was lost with its
    process is done again, with new noise, since nobody saw the first; `restore(state())` on a new
    object goes on as if nothing had happened. Under `on_missing: finish` `messages` may lack
    agents, but holds at least the quorum, and noise must suffice for that.
    """

    rounds: int
    roster_digest: bytes = b""
    """SHA-256 of the roster that the owner has signed; whoever opens the session sets it."""
    done: bool = False
    """Set by a step that ends the session before `rounds`: only by what every agent may know."""

    def deliveries(self) -> Mapping[str, bytes]:
        """What goes to single agents, by fingerprint, beside the last broadcast: such as what they
        have sealed for each other. Follows from the state alone: a round that is asked again asks
        for the same."""
        return {}

    @abstractmethod
    def opening(self, noise: Noise) -> bytes:
        """The broadcast of round 0."""

    def fault(self, number: int, agent: str, message: bytes) -> str:
        """Why this message, looked at alone, cannot be used, as one of `CAUSES`: then it counts as
        missing. Empty if it can."""
        return ""

    def accepts(self, number: int, agent: str, message: bytes) -> bool:
        """Whether this message can be used."""
        return not self.fault(number, agent, message)

    @abstractmethod
    def step(self, number: int, messages: Mapping[str, bytes], noise: Noise) -> bytes:
        """The broadcast that follows from a round's messages. SessionFailed ends the job."""

    @abstractmethod
    def state(self) -> bytes:
        """Everything that `restore` needs."""

    @abstractmethod
    def restore(self, state: bytes) -> None:
        """Continue from what `state` returned."""

    @abstractmethod
    def released(self) -> Released:
        """What was broadcast in all, as far as `finish` needs it; nothing that agents have not
        seen."""


class FederatedProblem(Problem):
    """A kind that agents can solve together: `protocol: federated` runs a session instead of
    `release`."""

    seen_by_the_server: ClassVar[str] = ""
    """For people, in a sentence: what the server sees of what agents send."""
    failures: ClassVar[dict[str, str]] = {}
    """Fixed texts by code of what may end its sessions."""

    protocol: Literal["job", "federated"] = "job"
    federation: FederationTerms | None = Field(
        default=None, description="Needed with protocol `federated`"
    )

    @property
    def server_sees(self) -> str:
        """The same of this request's session."""
        return self.seen_by_the_server

    @property
    def signs_parameters(self) -> bool:
        """Whether the owner's signature over the roster covers the plan's parameters too: then
        agents believe no others."""
        return False

    @property
    def parameters_of_roster(self) -> bool:
        """Whether the parameters follow from what the agents of a roster announce, so that they are
        known only once it is."""
        return False

    @property
    def begins_with_all(self) -> bool:
        """Whether the first round needs everybody on the roster, also under `on_missing:
        finish`."""
        return False

    @property
    def first_round_with_data(self) -> int:
        """Answers to earlier rounds hold nothing of agents' data: a session that ends before is not
        charged, and agents who know that take the charge off their ledgers."""
        return 0

    @property
    def needed(self) -> Sequence[str]:
        """What its agents must speak (`discreet_agent.federation.spoken`)."""
        return ()

    def without_agents(self, left: int) -> Self:
        """The same problem for the `left` agents of a session that goes on without the others.
        InvalidInput where it cannot be."""
        assert self.federation is not None
        terms = self.federation.model_dump()
        quorum = terms["quorum"]
        terms |= {"agents": left, "quorum": None if quorum is None else min(quorum, left)}
        return self._with(federation=terms)

    def _with(self, **changes: Any) -> Self:
        return self.model_validate(self.model_dump() | changes)

    def opens(self, plan: Plan, agents: int, rounds: int | None = None) -> Opens:
        """The numbers that a session of so many agents opens to them without noise; so far, where
        `rounds` are those that it has completed."""
        return NOTHING_OPENED

    def refuse_exposed(self, plan: Plan, agents: int, before: Fraction) -> None:
        """Exposed where an agent on the roster has had numbers opened in jobs before (`before`, for
        each of its agents), so that this job opens too many."""

    def enough(self, number: int, plan: Plan) -> int | None:
        """Of how many agents answers that are not empty are enough for a round, so that it does not
        wait for those whose stream has ended; a drop costs the others nothing then. None: it waits
        for them until its deadline, unless they missed the round before."""
        return None

    def certified_terms(self, plan: Plan) -> Mapping[str, Any]:
        """What a certificate says of the session beside roster and transcript, by name."""
        return {}

    @property
    def terms(self) -> FederationTerms | None:
        """The session's terms; None in job mode."""
        return None if self.protocol == "job" else self.federation

    def units(self, public: Any) -> int | None:
        return super().units(public) if self.terms is None else self.terms.agents

    def check_announcement(self, announcement: Any) -> None:
        """InvalidInput with pointers into what an agent announced about itself when it enrolled. By
        default it is nothing: `{}`."""
        if announcement != {}:
            raise InvalidInput("agents of this kind announce no public figures")

    def draft(self, public: Any, budget: Budget) -> Plan:
        return self.plan(public, budget) if self.terms is None else self.plan_federation((), budget)

    @abstractmethod
    def plan_federation(self, agents: Sequence[Member], budget: Budget) -> Plan:
        """What a session would do and cost each agent. Asked twice: with no agents when the job is
        submitted, and with the roster when the owner has signed it; the second plan replaces the
        first and must not cost more."""

    @abstractmethod
    def answer_bytes(self, plan: Plan, agents: int) -> int:
        """The longest answer that an honest agent gives to any round, of a roster of so many: rpc
        lets no longer one in."""

    @abstractmethod
    def open_session(self, plan: Plan, agents: Sequence[Member]) -> Session:
        """The session of a signed roster."""

    @classmethod
    @abstractmethod
    def rehearse_session(cls) -> None:
        """Run a small session from opening to released, in this process: loads and compiles all
        that a session's child will need, which can open no files any more."""

    @model_validator(mode="after")
    def _terms_are_there(self) -> Self:
        if self.protocol == "federated" and self.federation is None:
            raise FieldError(
                "federation", "protocol `federated` needs it: the terms of the session"
            )
        return self
