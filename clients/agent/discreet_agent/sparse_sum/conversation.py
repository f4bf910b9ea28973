"""A run as messages: those of the server to each agent, and the agents' answers.

This module is free of any transport. A message is `u8(step) ‖ u32(number) ‖ body`; an answer has no
header, since the message determines it. `number` is that of the setup up to JOIN, and that of the
round from then on. The table of bodies is in docs/protocol.md.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from enum import IntEnum

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from discreet_agent.packing import Integers
from discreet_agent.secure_sum.errors import Missing, Refused, Tampered
from discreet_agent.sparse_sum.agent import Agent
from discreet_agent.sparse_sum.durable import DurableAgent
from discreet_agent.sparse_sum.group import Group, Member
from discreet_agent.sparse_sum.plan import SETUPS, Plan
from discreet_agent.sparse_sum.roster import Roster
from discreet_agent.sparse_sum.server import Server
from discreet_agent.sparse_sum.wire import (
    CHECKS,
    KEY,
    MEMBER,
    PROOF,
    SEALED,
    SIGNATURE,
    members_from,
    members_of,
    members_to,
    pieces,
    some_from,
    some_to,
)

HEAD = struct.Struct(">BI")
LENGTH = struct.Struct(">I")
Values = Callable[[int], Integers]
"""Maps the number of a round to the vector that this agent adds to its sum."""


class Step(IntEnum):
    COMMIT = 1
    OPEN = 2
    JOIN = 3
    SHARES = 4
    CONTRIBUTE = 5
    VOTE = 6
    RELEASE = 7


SETTING_UP = (Step.COMMIT, Step.OPEN, Step.JOIN)


def answer(durable: DurableAgent, message: bytes, values: Values) -> bytes:
    """An agent's answer to a message of the server. Raises Refused or Tampered if it gives none,
    and whatever `values` raises; the next message can be answered all the same."""
    try:
        step, number = HEAD.unpack_from(message)
        step = Step(step)
    except (struct.error, ValueError):
        raise Refused("not a message of this protocol") from None
    body, agents = message[HEAD.size :], durable.roster.plan.agents
    if step is Step.COMMIT:
        _ended(body)
        return durable.commit(number)
    if step is Step.OPEN:
        return members_to([durable.open(pieces(body, KEY, agents))])
    if step is Step.JOIN:
        return durable.join(members_from(body, agents))
    if durable.agent is None:
        raise Refused("this agent has not joined a group yet")
    return _in_round(durable.agent, step, number, body, values)


def _in_round(agent: Agent, step: Step, number: int, body: bytes, values: Values) -> bytes:
    near = agent.group.neighbours(agent.place)
    if step is Step.SHARES:
        _ended(body)
        return agent.shares(number)
    if step is Step.CONTRIBUTE:
        boxes, rest = some_from(near, SEALED, body)
        _ended(rest)
        return agent.contribute(number, boxes, values(number))
    if step is Step.VOTE:
        return agent.vote(number, body)
    cut = (agent.plan.agents + 7) // 8
    votes, rest = some_from(sorted(agent.group.jury(number)), SIGNATURE, body[cut:])
    proofs, rest = some_from(near, PROOF, rest)
    _ended(rest)
    return agent.release(number, body[:cut], votes, proofs)


def _ended(rest: bytes) -> None:
    if rest:
        raise Refused(f"{len(rest)} bytes too many")


def longest_answer(plan: Plan) -> int:
    """Bytes of the longest honest answer."""
    k = plan.neighbours
    shares, vector = 2 * 32 + (SEALED + 32) * k, 8 * (plan.dimension + CHECKS) + PROOF * k
    return SIGNATURE + max(MEMBER, shares, vector)


def _agrees(exchange: bytes) -> bool:
    """Whether a secret can be agreed on with this X25519 key."""
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(exchange))
    except ValueError:
        return False
    return True


class Conductor:
    """The server's side of a whole run: send `messages` to the agents, by place, `take` their
    answers, and `advance` when no more are waited for.

    All agents must commit and open; if one does not, the next of at most 16 setups begins. An agent
    that does not join has dropped, as in a round. A round that cannot be opened is lost, and the
    next one begins. A restarted server continues at `first_round`, after the rounds that agents
    have answered. Agents trust nothing that it does.
    """

    step: Step

    def __init__(self, roster: Roster, first_round: int = 0) -> None:
        self.roster, self._round = roster, first_round
        self.group: Group | None = None
        self.summed: frozenset[int] = frozenset()
        """Places of the agents in the last sum."""
        self._setup, self._list = 0, list[bytes]()
        self._taken: list[tuple[Step, dict[int, bytes]]] = []
        """What was said in earlier steps of this round, or of this setup."""
        self._begin(Step.COMMIT)

    @property
    def progress(self) -> bytes:
        """What `resume` needs: members, the round, and what was said in each of its steps (or of
        those of the setup)."""
        steps = [*self._taken, (self.step, self._said)]
        members = b"" if self.group is None else members_to(self.group.members)
        if members:
            steps = [one for one in steps if one[0] not in SETTING_UP or one[0] is Step.JOIN]
        told = [(step, sorted(answers.items())) for step, answers in steps]
        head = {
            "setup": self._setup,
            "round": self._round,
            "members": len(members),
            "summed": sorted(self.summed),
            "said": [
                [int(step), [[place, len(said)] for place, said in answers]]
                for step, answers in told
            ],
        }
        text = json.dumps(head).encode()
        said = [said for _, answers in told for _, said in answers]
        return b"".join([LENGTH.pack(len(text)), text, members, *said])

    @classmethod
    def resume(cls, roster: Roster, progress: bytes) -> Conductor:
        """One that asks the same, as if nothing had happened: what was said is taken again, and so
        checked again."""
        (length,) = LENGTH.unpack_from(progress)
        at = LENGTH.size + length
        head = json.loads(progress[LENGTH.size : at])
        found = cls(roster, head["round"])
        found._setup, found.summed = head["setup"], frozenset(head["summed"])
        if head["members"]:
            at, begin = at + head["members"], at
            members = members_from(progress[begin:at], roster.plan.agents)
            found.group = Group(roster.plan, members, roster.digest)
            if head["said"][0][0] == Step.JOIN:
                found._begin(Step.JOIN)
            else:
                found._next_round(head["round"])
        for place, (step, answers) in enumerate(head["said"]):
            if place:
                found.advance()
            assert found.step == step
            for one, size in answers:
                found.take(one, progress[at : at + size])
                at += size
        return found

    @property
    def number(self) -> int:
        """Number of the setup, or of the round."""
        return self._setup if self.step in SETTING_UP else self._round

    @property
    def done(self) -> bool:
        return self._round >= self.roster.plan.rounds or self._setup >= SETUPS

    def joining(self) -> bytes:
        """The JOIN message again, for an agent that returns and may have missed it; empty while
        there is no group."""
        return (
            b"" if self.group is None else self._headed(Step.JOIN, members_to(self.group.members))
        )

    def take(self, place: int, said: bytes) -> None:
        """Take an answer to the message of this step. Raises Refused if it cannot be one."""
        if place not in self.messages:
            raise Refused(f"agent {place} was not asked")
        if self.step is Step.COMMIT:
            pieces(said, KEY, 1)
        elif self.step is Step.OPEN:
            self._check_opened(place, members_from(said, 1)[0])
        elif self.step is Step.JOIN:
            if self.group is None or said != self.group.context:
                raise Refused(f"agent {place} is in another group")
        else:
            taking = {
                Step.SHARES: self._server.take_shares,
                Step.CONTRIBUTE: self._server.take_contribution,
                Step.VOTE: self._server.take_vote,
                Step.RELEASE: self._server.take_release,
            }
            taking[self.step](place, said)
        self._said[place] = said
        self.waited_for.discard(place)

    def advance(self) -> Integers | None:
        """Go to the next step; returns the sum when a round is over. Raises Missing or Tampered
        when the setup or round is lost; the next one has then begun."""
        try:
            return self._advance()
        except (Missing, Tampered):
            if self.step in SETTING_UP:
                self._setup, self.group = self._setup + 1, None
                self._begin(Step.COMMIT)
            else:
                self._next_round()
            raise

    def _advance(self) -> Integers | None:
        found: Integers | None = None
        if self.step is Step.COMMIT:
            self._list = self._all_said()
            self._begin(Step.OPEN)
        elif self.step is Step.OPEN:
            members = members_from(b"".join(self._all_said()), self.roster.plan.agents)
            group = Group(self.roster.plan, members, self.roster.digest)
            for place in range(self.roster.plan.agents):
                group.check_member(place)
            self.group = group
            self._begin(Step.JOIN)
        elif self.step is Step.JOIN:
            self._next_round(self._round)
        elif self.step is Step.SHARES:
            self._begin(Step.CONTRIBUTE)
        elif self.step is Step.CONTRIBUTE:
            self._server.propose()
            self._begin(Step.VOTE)
        elif self.step is Step.VOTE:
            self._server.votes()
            self._begin(Step.RELEASE)
        else:
            found = self._server.open()
            self.summed = members_of(self._server.propose(), self.roster.plan.agents)
            self._next_round()
        return found

    def _next_round(self, number: int | None = None) -> None:
        assert self.group is not None
        self._round = self._round + 1 if number is None else number
        self._server = Server(self.group, self._round)
        self._begin(Step.SHARES)

    def _begin(self, step: Step) -> None:
        if step in (Step.COMMIT, Step.SHARES):  # which begin a setup, or a round
            self._taken = []
        else:
            self._taken.append((self.step, self._said))
        self.step = step
        self._said: dict[int, bytes] = {}
        bodies = self._bodies(step)
        headed = {body: self._headed(step, body) for body in set(bodies.values())}
        self.messages = {place: headed[body] for place, body in bodies.items()}
        self.waited_for = set(self.messages)
        """Places with a message of this step that have neither answered nor refused."""

    def _headed(self, step: Step, body: bytes) -> bytes:
        number = self._setup if step in SETTING_UP else self._round
        return HEAD.pack(step, number) + body

    def _bodies(self, step: Step) -> dict[int, bytes]:
        everybody = range(self.roster.plan.agents)
        if step is Step.OPEN:
            return dict.fromkeys(everybody, b"".join(self._list))
        if step is Step.JOIN and self.group is not None:
            return dict.fromkeys(everybody, members_to(self.group.members))
        if self.group is None or step is Step.SHARES:
            return dict.fromkeys(everybody, b"")
        near, server = self.group.neighbours, self._server
        if step is Step.CONTRIBUTE:
            return {place: some_to(near(place), server.delivery(place)) for place in server.sharing}
        survivors, jury = server.propose(), sorted(self.group.jury(self._round))
        if step is Step.VOTE:
            return dict.fromkeys(jury, survivors)
        signed = survivors + some_to(jury, server.votes())
        return {
            place: signed + some_to(near(place), server.proofs(place))
            for place in sorted(members_of(survivors, self.roster.plan.agents))
        }

    def _check_opened(self, place: int, member: Member) -> None:
        if member.identity != self.roster.keys[place] or member.commitment != self._list[place]:
            raise Refused(f"agent {place} has not opened its commitment")
        if not _agrees(member.exchange):  # its neighbours would refuse the group
            raise Refused(f"the X25519 key of agent {place} has small order")

    def _all_said(self) -> list[bytes]:
        """The answers of all agents, by place. Raises Missing if one is missing."""
        everybody = range(self.roster.plan.agents)
        if absent := set(everybody) - set(self._said):
            raise Missing(absent, f"setup {self._setup} needs all agents")
        return [self._said[place] for place in everybody]
