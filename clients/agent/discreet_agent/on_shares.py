"""`Agent.solve` with `listen`: a coupled quadratic program on secret shares between the agents
(protocol `mpc`).

There is one round with the server: its broadcast holds the operator's figures, split into one
additive share for each agent and encrypted to the agent's key. The agents compute among themselves
(`discreet_agent.mpc`), and each answers with its signature under the outcome. The last broadcast
brings all signatures. Beyond that, each agent learns its own x.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet_agent.convex_sets import Box, BudgetedBox
from discreet_agent.costs import ConvexCost, QuadraticCost
from discreet_agent.demands import Demands
from discreet_agent.federation import signing
from discreet_agent.federation.errors import AgentError, NotTrusted, Unfit
from discreet_agent.federation.links import Link
from discreet_agent.ledger import Ledger
from discreet_agent.mpc import evidence, keys, member, party
from discreet_agent.mpc.inputs import input_of
from discreet_agent.mpc.terms import PROTOCOL, Terms
from discreet_agent.rounds import Party, Program, Round

Floats = NDArray[np.float64]
MARGIN_SECONDS = 6.0
"""Part of a round's time that is left for the engine to start and the answer to arrive."""

Data = tuple[Floats, Floats, QuadraticCost, Box | BudgetedBox]


class ShareParty(Party, Protocol):
    """The interface that this protocol needs of an agent; `Agent` has it."""

    link: Link

    def announce(self, figures: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class ShareOptimum:
    """This agent's own result. `kept`: whether x is within the tolerance and the limit kept in
    every hour, as all agents have signed (`prices.verdict_of`); None if nobody can tell, or the
    owner has not asked. `terms.threshold` of those that compute may collude; see
    `evidence.assumptions`."""

    x: Floats
    kept: bool | None
    terms: Terms
    seconds: float
    sent_bytes: int

    @property
    def settled(self) -> bool | None:
        """Whether x is within the tolerance; None if the owner has not asked."""
        return bool(self.kept) if self.terms.asks else None

    @property
    def why(self) -> str:
        """Why x is no optimum; empty if it is one, or nobody asked."""
        if self.settled is not False:
            return ""
        if self.terms.iterations is not None:
            return (
                f"the computation had not settled after {self.terms.iterations} steps: the limit "
                "cannot be kept, more steps are needed, or the signed bounds are too wide for what "
                "agents use; x is not an optimum"
            )
        if self.kept is None:
            return (
                "the signed bounds are too wide for what agents use: x may differ from the optimum "
                "by more than the tolerance"
            )
        return "the limit cannot be kept in every hour, whatever the agents do: x is not an optimum"


class _Run(Program):
    def __init__(
        self, agent: ShareParty, data: Data, listen: tuple[str, int], demands: Demands
    ) -> None:
        self._agent, self._data, self._listen, self._demands = agent, data, listen, demands

    def check(
        self, roster: dict[str, Any], price: Mapping[str, str], ledger: Ledger, state: bytes
    ) -> None:
        terms, members = signed(roster)
        if terms.computing is None:
            raise NotTrusted(
                "the owner has signed terms of an earlier version, in which all agents compute; a "
                "service of this version makes others"
            )
        names = [key for key, _ in members]
        mine = self._agent.identity.public_key
        others = [key for key in names[: terms.parties] if key != mine]
        self._demands.check_shares(terms.threshold, names, others)
        try:
            input_of(terms, *self._data)
        except ValueError as error:
            raise Unfit(f"{error}") from error

    def __call__(self, current: Round) -> bytes:
        terms, members = signed(current.roster)
        names = [key for key, _ in members]
        mine = self._agent.identity.public_key
        found = input_of(terms, *self._data)
        private, session = self._agent.identity.private_key, self._agent.link.session
        bound = evidence.context(terms, members)
        try:
            sealed = member.sealed_parts(current.broadcast)[self._agent.identity.fingerprint]
            part = keys.unseal(keys.exchange_key(private, session), bound, sealed)
        except (ValueError, KeyError) as error:
            raise NotTrusted(f"the operator's part cannot be read: {error}") from None
        rows = int(terms.coupled) + int(terms.limited)
        if len(part) != rows * terms.hours:
            raise NotTrusted("the operator's part has another length than the signed terms")
        order = party.order_of(
            terms,
            names.index(mine),
            member.places(members),
            listen=self._listen,
            pem=keys.pem(private, keys.certificate(private, session)),
            rows=found.rows,
            summands=[
                part[place * terms.hours : (place + 1) * terms.hours] for place in range(rows)
            ],
            seconds=max(1.0, current.seconds - MARGIN_SECONDS),
        )
        try:
            computed = party.compute(order)
        except party.BrokenOff as broken:
            current.state = json.dumps({"broken": str(broken)}).encode()
            return json.dumps({"broken": broken.code}).encode()
        signature = self._agent.identity.sign(
            evidence.statement(bound, current.broadcast, computed.kept)
        )
        saved = {
            "x": found.x_of(computed.quantities).tolist(),
            "kept": computed.kept,
            "broadcast": current.broadcast.hex(),
            "seconds": computed.seconds,
            "bytes": computed.sent_bytes,
        }
        current.state = json.dumps(saved).encode()
        return json.dumps({"kept": computed.kept, "signature": signature.hex()}).encode()

    def close(self, roster: dict[str, Any], state: bytes, broadcast: bytes) -> ShareOptimum:
        """The result, once all agents have signed that they finished, with the same finding about
        the limit."""
        terms, members = signed(roster)
        saved = json.loads(state)
        try:
            signatures = json.loads(broadcast)["signatures"]
            section = evidence.evidence(
                terms, members, bytes.fromhex(saved["broadcast"]), saved["kept"], signatures
            )
            missing = evidence.unsigned(section)
        except (ValueError, KeyError, TypeError) as error:
            raise NotTrusted(f"the server's last broadcast cannot be read: {error}") from None
        if missing:
            raise NotTrusted(f"{len(missing)} agents have not signed the outcome of this agent")
        return ShareOptimum(
            np.array(saved["x"]), saved["kept"], terms, saved["seconds"], saved["bytes"]
        )


def signed(roster: Mapping[str, Any]) -> tuple[Terms, list[tuple[bytes, dict[str, Any]]]]:
    """Terms and members (key, announcement) of a roster that the owner has signed. NotTrusted if it
    is not that of a computation on shares, or names a certificate that is not of the member's
    key."""
    parameters = roster.get("parameters")
    if not isinstance(parameters, Mapping) or parameters.get("protocol") != PROTOCOL:
        raise NotTrusted("the owner has signed no computation on shares")
    try:
        terms = Terms.read(parameters["shares"])
        members = [(base64.b64decode(one["key"]), one["announcement"]) for one in roster["agents"]]
        member.places(members)
    except (ValueError, KeyError, TypeError) as error:
        raise NotTrusted(f"the owner has signed invalid terms or members: {error}") from None
    names = [signing.fingerprint(key) for key, _ in members]
    if any(one >= other for one, other in pairwise(names)):  # who computes follows from the order
        raise NotTrusted("the owner has signed a roster that is not sorted by fingerprint")
    if len(members) != terms.agents:
        raise NotTrusted(f"the owner has signed {len(members)} agents on terms for {terms.agents}")
    return terms, members


def solve(
    agent: ShareParty,
    *,
    A_u: ArrayLike,
    A_g: ArrayLike,
    cost: QuadraticCost | ConvexCost,
    lower: ArrayLike = 0.0,
    upper: ArrayLike,
    budget: tuple[float, float] | None = None,
    polytope: tuple[ArrayLike, ArrayLike] | None = None,
    listen: str,
    address: str | None = None,
    demands: Demands | None = None,
) -> ShareOptimum:
    """Take part until the session ends. `listen`: host:port of this machine, open while the agents
    compute; `address`: the host:port at which other agents reach it, if that differs. AgentError
    for a polytope, which this protocol does not have, and for a budget, or a cost that couples
    hours, if the owner has signed no iterations."""
    if not isinstance(cost, QuadraticCost):
        raise AgentError("protocol mpc only takes quadratic costs")
    if polytope is not None:
        raise AgentError("protocol mpc takes no polytopes: a set is a box, and a budget within it")
    try:
        k = cost.size
        matrices = [np.asarray(matrix, dtype=np.float64).reshape(-1, k) for matrix in (A_u, A_g)]
        low, high = (np.asarray(side, dtype=np.float64) for side in (lower, upper))
        own = (
            Box(low, high)
            if budget is None
            else BudgetedBox(np.broadcast_to(low, k), np.broadcast_to(high, k), *map(float, budget))
        )
        party.require_engine()
        here = member.host_and_port(listen)
        figures = member.announcement(agent.identity, agent.link.session, address or listen)
    except (TypeError, ValueError, party.NotInstalled) as error:
        raise AgentError(str(error)) from error
    try:
        run = _Run(agent, (matrices[0], matrices[1], cost, own), here, demands or Demands())
        agent.announce(figures)
        outcome = agent.participate(run)
        if not outcome.succeeded:
            own = json.loads(outcome.final_state or b"{}").get("broken", "")
            raise AgentError(f"{outcome.failure}; {own}" if own else outcome.failure)
        return run.close(agent.roster, outcome.final_state, outcome.broadcast)
    except ValueError as error:
        raise AgentError(str(error)) from error


def run(agent: ShareParty, problem: Mapping[str, Any], **data: Any) -> dict[str, Any]:
    """Solve the problem file of `discreet-agent --problem agent.json` with `protocol: "mpc"`,
    `listen`, and `address` if it differs. Returns the result as JSON."""
    if "listen" not in problem:
        raise AgentError(
            "protocol mpc needs `listen`, host:port, in the problem file: agents compute among "
            "themselves"
        )
    found = solve(agent, listen=problem["listen"], address=problem.get("address"), **data)
    return {
        "x": found.x.tolist(),
        **({} if found.settled is None else {"settled": found.settled}),
        **({"why": found.why} if found.why else {}),
        "security": evidence.SECURITY,
        "threshold": found.terms.threshold,
        "computing": found.terms.parties,
        "assumptions": list(evidence.assumptions(found.terms)),
        "reveals": evidence.reveals(found.terms)["agents"],
        "seconds": found.seconds,
        "bytes_sent": found.sent_bytes,
    }
