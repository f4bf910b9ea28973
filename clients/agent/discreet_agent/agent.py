"""An agent: it keeps its data to itself, answers rounds, and trusts only the keys that its token
pins.

    agent = Agent.from_token("dsc://…", identity="agent.key", limit_epsilon="1")
    outcome = agent.participate(lambda round: …)

Every kind of problem is built on `participate`: its function is given a `Round` and returns the
bytes of the answer. The answer and the function's state are on disk before the answer is sent; a
new process goes on from there and sends the same bytes again. `kinds` finds the module of a kind.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import queue
import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from discreet_agent.connection import Tls, connect
from discreet_agent.federation import signing, spoken
from discreet_agent.federation.errors import (
    AgentError,
    Declined,
    FolderLost,
    LimitExceeded,
    Lost,
    NotTrusted,
    Refused,
    Unfit,
)
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.links import Link
from discreet_agent.ledger import Ledger
from discreet_agent.memory import Ended, Memory, Sent, refused
from discreet_agent.rounds import Outcome, Plain, Program, Round, Step
from discreet_agent.stream import SendingStream
from discreet_agent.stubs import federation_pb2 as pb
from discreet_agent.stubs import federation_pb2_grpc as rpc

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from discreet_agent.costs import ConvexCost, QuadraticCost
    from discreet_agent.demands import Demands

LOG = logging.getLogger("discreet_agent")
SKEW_SECONDS = 30.0
"""Largest difference between the server's clock and this one; the server allows the agent as
much."""

ENROLL_SECONDS = 60.0
"""Enrolments of a session come one after the other: of hundreds at once the last waits long."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0
LONGEST_CROWDED = 20.0
"""The longest pause after a refusal because of the crowd: others get in meanwhile."""
CODE_KEY = "discreet-code"
"""Trailing metadata that holds the stable code of a refusal."""

PASSING = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
"""Statuses after which the same call may succeed."""

CROWDED = ("too_many_streams",)
"""Codes of refusals after which it may as well: others have the places at this moment."""


def state_folder(identity: str | Path, state: str | Path | None = None) -> Path:
    """Where what must survive an agent's process lies: beside its key file unless named."""
    return Path(state) if state is not None else Path(identity).with_suffix(".state")


class Agent:
    """One identity in one session."""

    def __init__(
        self,
        link: Link,
        identity: Identity,
        memory: Memory,
        ledger: Ledger,
        *,
        name: str,
        unit: str,
        cap: tuple[Decimal, Decimal],
        announcement: Mapping[str, Any],
        tls: Tls,
        patience_seconds: float,
        answer_seconds: float = 0.0,
    ) -> None:
        self.link = link
        self.identity = identity
        self.ledger = ledger
        self._memory = memory
        self.name = name
        self._unit, self._cap = unit, cap
        self.announce(announcement)
        self._tls = tls
        self._patience = patience_seconds
        self._answer_seconds = answer_seconds
        self._heard = time.monotonic()
        self._program: Program = Program()
        self.speaks: tuple[str, ...] = spoken.AGENT
        """What it says that it speaks when it enrols (`federation.spoken`)."""

    @classmethod
    def from_token(
        cls,
        token: str,
        identity: str | Path = "agent.key",
        *,
        ledger: str | Path | None = None,
        state: str | Path | None = None,
        name: str | None = None,
        unit: str = "trajectory",
        limit_epsilon: Decimal | str | float = "1",
        limit_delta: Decimal | str | float = "0",
        announcement: Mapping[str, Any] | None = None,
        tls: Tls | None = None,
        patience_seconds: float = 600.0,
        answer_seconds: float = 0.0,
        durable: bool = True,
    ) -> Agent:
        """An agent for the session that `token` names.

        The key file is made on first use; the ledger and the folder for the state that must
        survive the process lie beside it unless named: `agent.ledger` and `agent.state` for
        `agent.key`. `limit_epsilon` and `limit_delta` bound what this identity spends over all its
        sessions: they are announced to the server as the cap of its account, and checked here.
        `unit` is the privacy unit of that account. `announcement` holds the public figures that the
        kind asks for. `patience_seconds` is how long to wait for a server that does not answer. A
        new answer is sent at the earliest `answer_seconds` after its round arrived, so that the
        server does not see how long it took to compute; a longer computation shows.
        `durable=False` keeps the session's state in memory only (benchmarks).
        """
        link = Link.parse(token)
        place = Path(identity)
        key = Identity.open(place)
        limits = (Decimal(str(limit_epsilon)), Decimal(str(limit_delta)))
        memory = Memory.load(state_folder(place, state) / f"{link.session}.json")
        memory.durable = durable
        book = Ledger(
            Path(ledger) if ledger is not None else place.with_suffix(".ledger"),
            key,
            limit_epsilon=limits[0],
            limit_delta=limits[1],
        )
        return cls(
            link,
            key,
            memory,
            book,
            name=name or place.stem,
            unit=unit,
            cap=limits,
            announcement=announcement or {},
            tls=tls or Tls(),
            patience_seconds=patience_seconds,
            answer_seconds=answer_seconds,
        )

    def announce(self, figures: Mapping[str, Any]) -> None:
        """Set the public figures to enrol with; the roster names them."""
        self._announcement = json.dumps(figures, sort_keys=True, separators=(",", ":")).encode()

    @property
    def announcement(self) -> dict[str, Any]:
        """The public figures to enrol with."""
        announced: dict[str, Any] = json.loads(self._announcement)
        return announced

    def enroll(self) -> str:
        """Enrol this agent in the session, once; returns the id of its account."""
        with self._memory.alone():
            return str(self._patiently(self._enroll))

    def participate(self, step: Step) -> Outcome:
        """Answer rounds until the session ends, through broken connections and restarts of either
        side.

        Raises Refused when the server refuses for good; LimitExceeded or Unfit, before any answer
        is sent, when the charge would exceed the limit, or the owner has signed what this agent
        does not take part in; FolderLost when it has answered in this session and the folder that
        says what is gone: it has declined then, and everybody is told. NotTrusted when the server
        is not the pinned one or contradicts itself; Lost when it stays silent; AgentError when
        another process takes part with the same files, or one of them cannot be read or written. An
        exception of `step` ends the call: call again to go on.

        A step that is a `Program` says more of itself: what it checks before it accepts a roster,
        and what is kept of a session that has ended.
        """
        self._program = step if isinstance(step, Program) else Plain(step)
        with self._memory.alone():
            self._patiently(self._enroll)
            if self._memory.ended is None:
                try:
                    self._patiently(self._follow)
                except _StepRaised as raised:
                    raise raised.error from None
        ended = self._memory.ended
        assert ended is not None
        return Outcome(
            ended.state,
            ended.code,
            ended.rounds,
            ended.broadcast,
            ended.transcript,
            self._memory.state,
            ended.charged,
            ended.blamed,
        )

    def solve(
        self,
        *,
        A_u: ArrayLike,  # the paper's names
        A_g: ArrayLike,
        cost: QuadraticCost | ConvexCost,
        lower: ArrayLike = 0.0,
        upper: ArrayLike,
        budget: tuple[float, float] | None = None,
        polytope: tuple[ArrayLike, ArrayLike] | None = None,
        primal: float | None = None,
        demands: Demands | None = None,
        listen: str | None = None,
        address: str | None = None,
    ) -> NDArray[np.float64]:
        """This agent's optimum of a coupled quadratic program (kind `coupled_qp`), found together
        with the others.

        A_u float64[coupled, k], A_g float64[constraints, k]; `lower` and `upper`: one number, or
        one per variable. `cost`: a `QuadraticCost`, or a `ConvexCost` with more terms
        (`discreet_agent.cost_terms`); a term whose slope is unbounded on the box is refused before
        the server is contacted. `budget`: lower and upper bound of the sum of x, such as the energy
        that a vehicle needs by the morning. `polytope`: (A, b), with A x <= b. `primal`: this
        agent's own step size instead of the job's. `demands`: the least agents, most rounds and so
        on with which this agent takes part. Only masked and encrypted contributions to sums leave
        this process. Raises AgentError when the session fails, or the data do not fit the
        parameters that the owner has signed; warns `NotSettled` when all agents have signed that
        the sums had not settled, so that x is not an optimum.

        With `listen`, host:port, it takes part in a job of `protocol: mpc`: the agents compute on
        secret shares among themselves, over TLS, and each learns its own x and nothing else
        (semi-honest agents, honest majority). `address`: the host:port at which other agents reach
        this one, if that differs from `listen`. Needs `discreet-agent[mpc]`. `NotSettled` then
        says that the limit cannot be kept, or with budgets and costs over time (iterations that
        the owner has signed) that the steps had not settled.
        """
        from discreet_agent import coupled_qp  # noqa: PLC0415 - of this kind alone

        data: dict[str, Any] = {
            "A_u": A_u,
            "A_g": A_g,
            "cost": cost,
            "lower": lower,
            "upper": upper,
            "budget": budget,
            "polytope": polytope,
            "demands": demands,
        }
        if listen is not None:
            from discreet_agent import on_shares  # noqa: PLC0415 - of this protocol alone

            shared = on_shares.solve(self, **data, listen=listen, address=address)
            if shared.settled is False:
                warnings.warn(coupled_qp.NotSettled(shared.why), stacklevel=2)
            return shared.x
        found = coupled_qp.solve(self, **data, primal=primal)
        if found.settled is False:
            warnings.warn(coupled_qp.NotSettled(found.why), stacklevel=2)
        return found.x

    @property
    def roster(self) -> dict[str, Any]:
        """The roster that the owner has signed, once it has arrived."""
        read: dict[str, Any] = json.loads(self._memory.roster)
        return read

    @property
    def roster_digest(self) -> bytes:
        """SHA-256 of the roster's bytes, as they were signed."""
        return signing.digest(self._memory.roster)

    @property
    def journal_path(self) -> Path | None:
        """The file that records what this session must never do twice; None if not `durable`."""
        return self._memory.path.with_suffix(".journal") if self._memory.durable else None

    # -- breaks ------------------------------------------------------------------------------------

    def _patiently(self, what: Callable[[], Any]) -> Any:
        """Call `what()`, and again after a broken connection, with pauses that double while the
        server sends nothing."""
        self._heard = time.monotonic()
        pause = FIRST_PAUSE
        while True:
            before = self._heard
            try:
                return what()
            except grpc.RpcError as error:
                refusal = _refusal(error)
                LOG.info("the connection broke: %s", refusal)
                if error.code() not in PASSING and refusal.code not in CROWDED:
                    raise refusal from None
            except OSError as error:
                if error.filename is not None:  # a file of this agent: that of a certificate
                    raise AgentError(f"{error.filename}: {error.strerror}") from error
                refusal = Refused(
                    "UNAVAILABLE",
                    "",
                    f"{self.link.address} does not answer: {error.strerror or error}",
                )
            if time.monotonic() - self._heard > self._patience:
                raise Lost(f"no answer for {self._patience:g} s; the last error: {refusal}")
            crowded = refusal.code in CROWDED or "too_many_pings" in str(refusal)
            longest = LONGEST_CROWDED if crowded else LONGEST_PAUSE
            pause = FIRST_PAUSE if self._heard != before else min(2 * pause, longest)
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  so that agents do not come back all at once

    # -- enrolment ---------------------------------------------------------------------------------

    def _enroll(self) -> str:
        if self._memory.account and self._memory.roster:
            # Without a roster it enrols again, since its figures may have changed.
            return self._memory.account
        content = pb.Enrolment(
            token=self.link.token,
            name=self.name,
            unit=self._unit,
            cap_epsilon=format(self._cap[0], "f"),
            cap_delta=format(self._cap[1], "f"),
            announcement=self._announcement,
            speaks=self.speaks,
        ).SerializeToString()
        nonce, now = os.urandom(16), _now_ms()
        request = pb.EnrollRequest(
            session=self.link.session,
            public_key=self.identity.public_key,
            nonce=nonce,
            timestamp_ms=now,
            content=content,
            signature=self.identity.sign(signing.enrolment(self.link.session, nonce, now, content)),
        )
        with closing(connect(self.link, self._tls)) as channel:
            stub = rpc.FederationStub(channel)
            self._meet(stub)  # only the pinned server may see the token
            answer = stub.Enroll(request, timeout=ENROLL_SECONDS)
        self._check_server(answer.public_key)
        statement = signing.enrolled(self.link.session, answer.content)
        enrolled = pb.Enrolled.FromString(answer.content)
        if (
            not signing.is_signed(answer.public_key, statement, answer.signature)
            or enrolled.nonce != nonce
        ):
            raise NotTrusted("the answer to the enrolment is not signed by the server")
        self._memory.keep(account=enrolled.account)
        return str(enrolled.account)

    # -- one stream --------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Answer rounds on one stream until the session ends; raises grpc.RpcError or OSError if
        the stream breaks first."""
        outgoing: queue.SimpleQueue[pb.AgentMessage | None] = queue.SimpleQueue()
        with closing(connect(self.link, self._tls)) as channel:
            call = rpc.FederationStub(channel).Participate(
                iter(outgoing.get, None), wait_for_ready=False
            )
            try:
                for kind, content in self._received(call, outgoing):
                    if kind == "end":
                        self._end(content)
                        return
                    self._answer(kind, content)
            except (LimitExceeded, Unfit, Declined, FolderLost) as error:
                self._stream.send(decline=pb.Decline(code=error.cause))
                time.sleep(0.5)  # so that the message goes out before the stream is closed
                raise
            finally:
                outgoing.put(None)
                call.cancel()
        raise ConnectionResetError("the stream ended before the session")

    def _received(
        self, call: Any, outgoing: queue.SimpleQueue[pb.AgentMessage | None]
    ) -> Iterator[tuple[str, Any]]:
        """The server's messages after the challenge, by kind, with their signatures checked."""
        messages = iter(call)
        first = next(messages, None)
        if first is None:
            return
        challenge = self._challenge(first)
        self._server_key = challenge.public_key
        self._stream = SendingStream(
            self.identity, self.link.session, challenge, first.content, outgoing
        )
        self._start: pb.Start | None = None
        for message in messages:
            statement = signing.operator(self.link.session, message.content)
            if not signing.is_signed(self._server_key, statement, message.signature):
                raise NotTrusted("a message is not signed by the server")
            self._heard = time.monotonic()
            content = _parsed(message.content)
            kind = content.WhichOneof("kind")
            yield str(kind), getattr(content, str(kind), None)

    def _answer(self, kind: str, content: Any) -> None:
        if kind == "start":
            self._accept(content)
        elif kind == "round":
            self._contribute(content)
        elif kind != "waiting":
            raise NotTrusted(f"the server sent {kind}, which does not belong here")

    def _accept(self, start: pb.Start) -> None:
        """Check the owner's roster, enter the charge in the ledger, and tell the server."""
        if signing.fingerprint(start.owner_key) != self.link.owner:
            raise NotTrusted(
                "the roster is signed by another owner than the one that the token pins"
            )
        if not signing.is_signed(
            start.owner_key, signing.roster(start.roster), start.roster_signature
        ):
            raise NotTrusted("the roster is not signed by the owner")
        if self._memory.roster not in (b"", start.roster):
            raise NotTrusted("the roster is not the one that was sent before")
        try:
            roster = json.loads(start.roster)
            self._check_own_entry(roster)
            charge = json.loads(start.charge)
            meant_for = charge["session"], charge["job"], charge["agent"]
            json.loads(start.parameters or b"{}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise NotTrusted("the server's roster, charge or parameters cannot be read") from None
        # The job too: if it ends uncharged, the ledger returns the charge by the id that the owner
        # has signed.
        if meant_for != (self.link.session, roster["job"], self.identity.fingerprint):
            raise NotTrusted("the charge is for another agent, session or job")
        if not signing.is_signed(
            self._server_key, signing.charge(start.charge), start.charge_signature
        ):
            raise NotTrusted("the charge is not signed by the server")
        before = self._memory.roster
        named = {roster["job"], self.link.session}
        if not before and named & refused(self._memory.path.parent):
            raise Declined(f"{roster['job']} is refused (`discreet-agent refuse`)")
        LOG.info("%s is signed; %d agents take part", roster["job"], len(roster["agents"]))
        with self._writing() as ledger:
            if not before and ledger.has(roster["job"]):
                raise FolderLost(
                    f"this agent has taken part in this session, and {self._memory.path} holds "
                    "nothing of it: the folder was lost, and the agent cannot answer again"
                )
            self._program.check(roster, charge["price"], ledger, self._memory.state)
            # The roster first: a ledger with the charge and a folder without the roster mean that
            # the folder was lost.
            self._memory.keep(roster=start.roster)
            try:
                entry = ledger.charge(
                    start.charge,
                    start.charge_signature,
                    self._server_key,
                    self._program.opens(roster),
                )
            except LimitExceeded:
                self._memory.keep(roster=before)
                raise
        self._start, self._roster, self._charge = start, roster, charge
        self._stream.send(
            accept=pb.Accept(
                roster_digest=signing.digest(start.roster),
                charge_digest=signing.digest(start.charge),
                ledger_seq=entry.seq,
                ledger_link=entry.link,
                ledger_signature=entry.signature,
            )
        )

    def _check_own_entry(self, roster: dict[str, Any]) -> None:
        """Raises NotTrusted unless the roster is of this session and lists this agent with its own
        key, name and figures."""
        own: dict[str, Any]
        for own in roster["agents"]:
            if own["fingerprint"] == self.identity.fingerprint:
                break
        else:
            raise NotTrusted("this agent is not on the roster")
        if roster["session"] != self.link.session:
            raise NotTrusted("the roster is that of another session")
        if base64.b64decode(own["key"]) != self.identity.public_key:
            raise NotTrusted("the roster has another key under this agent's name")
        announced = json.loads(
            json.dumps(own["announcement"]), parse_int=float
        )  # 1 and 1.0 are the same figure
        if own["name"] != self.name or announced != json.loads(self._announcement, parse_int=float):
            raise NotTrusted(
                "the owner has signed another name, or other figures, than those that this agent "
                "announces"
            )

    def _contribute(self, message: pb.Round) -> None:
        if self._start is None:
            raise NotTrusted("a round came before the roster")
        if message.number >= self._start.rounds:
            raise NotTrusted(f"the server asks for round {message.number} of {self._start.rounds}")
        memory, answers = self._memory, signing.answers(message.broadcast, message.delivery)
        last = memory.sent
        if last is None or message.number > last.number:
            current = Round(
                number=message.number,
                rounds=self._start.rounds,
                broadcast=message.broadcast,
                state=memory.state,
                seconds=message.milliseconds / 1000,
                agent=self.identity.fingerprint,
                roster=self._roster,
                parameters=json.loads(self._start.parameters),
                transcript=message.transcript,
                roster_digest=signing.digest(self._start.roster),
                job=self._charge["job"],
                identity=self.identity,
                price=self._charge["price"],
                delivery=message.delivery,
            )
            due = time.monotonic() + self._answer_seconds
            try:
                body = self._program(current)
            except (OSError, grpc.RpcError) as error:  # of the step, not of this connection
                raise _StepRaised(error) from error
            memory.keep(sent=Sent(message.number, body, answers), state=current.state)
            if current.on_saved is not None:
                current.on_saved()
            time.sleep(max(0.0, due - time.monotonic()))
        elif message.number < last.number:
            raise NotTrusted(f"the server went back from round {last.number} to {message.number}")
        elif answers != last.answers:
            raise NotTrusted(f"the server sent two different broadcasts for round {message.number}")
        assert memory.sent is not None
        contribution = pb.Contribution(body=memory.sent.body, answers=memory.sent.answers)
        self._stream.contribute(message.number, contribution)
        LOG.info("round %d of %d answered", message.number + 1, self._start.rounds)

    def _end(self, end: pb.End) -> None:
        sent = self._memory.sent
        told_nothing = sent is None or sent.number < self._program.first_round_with_data
        if self._memory.roster:
            job = json.loads(self._memory.roster)["job"]
            with self._writing() as ledger:
                if not end.charged and told_nothing:
                    ledger.release(job)
                ledger.opened(job, self._program.opened(self._memory.state))
        ended = Ended(
            end.state,
            end.code,
            end.rounds,
            end.broadcast,
            end.transcript,
            end.charged,
            tuple((one.fingerprint, one.cause) for one in end.blamed),
        )
        LOG.info("the session %s%s", end.state, f": {end.code}" if end.code else "")
        # What only rounds needed is erased: nobody learns later from this folder what was drawn.
        self._memory.keep(ended=ended, state=self._program.without_secrets(self._memory.state))

    @contextmanager
    def _writing(self) -> Iterator[Ledger]:
        """The ledger; AgentError where it cannot be written, which is not a broken connection."""
        try:
            yield self.ledger
        except OSError as error:
            why = error.strerror or error
            raise AgentError(f"{self.ledger.path} cannot be written: {why}") from error

    def _meet(self, stub: Any) -> None:
        """Check the server's challenge before it is told anything."""
        silent: queue.SimpleQueue[None] = queue.SimpleQueue()
        call = stub.Participate(iter(silent.get, None), timeout=ENROLL_SECONDS)
        try:
            first = next(iter(call), None)
        finally:
            silent.put(None)
            call.cancel()
        if first is None:
            raise ConnectionResetError("the server closed the stream")
        self._challenge(first)

    def _challenge(self, message: pb.OperatorMessage) -> pb.Challenge:
        """The first message of a stream; NotTrusted unless it is fresh and of the pinned server."""
        challenge: pb.Challenge = _parsed(message.content).challenge
        self._check_server(challenge.public_key)
        if not signing.is_signed(
            challenge.public_key, signing.operator("", message.content), message.signature
        ):
            raise NotTrusted("the challenge is not signed by the server")
        if abs(challenge.timestamp_ms - _now_ms()) > SKEW_SECONDS * 1000:
            raise NotTrusted("the server's clock and this one differ by more than 30 s")
        if not challenge.exchange:
            raise NotTrusted(
                "the server's challenge has no X25519 key: it speaks an older version of the "
                "protocol"
            )
        return challenge

    def _check_server(self, public_key: bytes) -> None:
        if signing.fingerprint(public_key) != self.link.server:
            raise NotTrusted("this is not the server that the token pins")


class _StepRaised(Exception):
    """Wraps an exception of a step that a broken connection raises as well."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _parsed(data: bytes) -> pb.OperatorContent:
    try:
        content: pb.OperatorContent = pb.OperatorContent.FromString(data)
    except DecodeError:
        raise NotTrusted("the server sent a message that cannot be read") from None
    return content


def _refusal(error: grpc.RpcError) -> Refused:
    trailing = dict(error.trailing_metadata() or ())
    return Refused(error.code().name, str(trailing.get(CODE_KEY, "")), str(error.details()))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
