"""Coupled quadratic programs in an agent: its own steps on sums that only the agents can decrypt.

The state of the protocol (`discreet_client.secure_sum`) and of the optimizer is saved with every
answer, before it is sent: a new process goes on from there, and nobody has seen an answer that was
not saved. The session's folder therefore holds keys and x; only their owner can read its files. The
journal beside them detects an older copy of the state, which is refused.

An agent starts at a random point of its box. From a start that everybody knows, such as zero, the
first sum would be the operator's c and d whoever takes part. In the same job without one of the
agents the others would then send the same next, and the difference of the two sums would be what
that agent had sent.
"""

from __future__ import annotations

import base64
import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet_client import secure_sum
from discreet_client.agent import on_shares
from discreet_client.agent.demands import Demands
from discreet_client.agent.guarantees import check_gaussian
from discreet_client.agent.rounds import Party, Round
from discreet_client.best_responses import Responder, own_haze
from discreet_client.convex_sets import Box, BudgetedBox, Polytope
from discreet_client.cost_terms import LARGEST, small
from discreet_client.costs import ConvexCost, QuadraticCost, cost_of
from discreet_client.federation.errors import AgentError, NotTrusted
from discreet_client.packing import OutOfRange, box_bound
from discreet_client.priced_rounds import PricedRounds
from discreet_client.prices import Prices
from discreet_client.settling import SUMS
from discreet_client.updates import Participant, Rounds, Steps

Floats = NDArray[np.float64]
Domain = Box | BudgetedBox | Polytope

METHODS = ("spds", "rpds", "auto")
"""`rpds` makes the steps of `spds` with other signed step parameters: no step shrinks, and all are
regularized."""

WINDOW_BITS = 6
"""Window of the precomputed tables of powers: 6 MB for a key of 2048 bits, computed in a tenth of a
second at each start."""


@dataclass(frozen=True)
class Optimum:
    """x float64[k]; the multipliers of the coupling constraints, the same for all agents; the hash
    of the transcript that all have signed.

    `settled`: whether x is the optimum and the constraints are kept, within the tolerance that the
    owner has signed; all agents have signed it. None if the owner asks for no such check.
    `violations`: by how much each constraint was exceeded in the last sum, float64[m_g], in its
    own unit. `why`: why the sums had not settled, empty if they had.
    """

    x: Floats
    multipliers: Floats
    rounds: int
    transcript: str
    settled: bool | None = None
    violations: Floats = field(default_factory=lambda: np.zeros(0))
    why: str = ""


class NotSettled(UserWarning):
    """The session ended as planned, and its sums had not settled."""


class _Journal:
    """The records of a session: the file holds those of answers that may have been sent; those of
    the answer in progress are pending in the state until it is saved.

    `settled`: how many records the file held when the state was saved. Raises Reused when the file
    holds a record that the state does not know, since then the state is an older copy, and when it
    holds fewer than `settled`, since then the file is.
    """

    def __init__(self, file: secure_sum.MemoryJournal, settled: int, pending: list[str]) -> None:
        self.file, self.pending = file, pending
        held = file.records()
        if set(held[settled:]) - set(pending):
            raise secure_sum.Reused("the saved session is older than its journal")
        if len(held) < settled:
            raise secure_sum.Reused("the journal is older than the saved session")

    def claim(self, record: str) -> None:
        if record in self.records():
            raise secure_sum.Reused(f"{record} was claimed before")
        self.pending.append(record)

    def records(self) -> list[str]:
        return list(dict.fromkeys([*self.file.records(), *self.pending]))

    def settle(self) -> None:
        """Move the pending records to the file, once their answer is saved and before it is
        sent."""
        known = set(self.file.records())
        for record in self.pending:
            if record not in known:
                self.file.claim(record)
        self.pending = []


class _Run:
    """One agent's protocol state machine and optimizer, new or resumed from the saved state."""

    def __init__(
        self,
        agent: Party,
        data: tuple[Floats, Floats, QuadraticCost | ConvexCost, Domain],
        primal: float | None,
        demands: Demands | None = None,
    ) -> None:
        self._agent, self._data, self._primal = agent, data, primal
        self._demands = demands or Demands()
        self._machine: secure_sum.Agent | None = None
        self._rounds: Rounds | PricedRounds | None = None
        self._journal: _Journal | None = None

    def leave(self) -> None:
        """Release the journal to other processes."""
        if self._journal is not None and isinstance(self._journal.file, secure_sum.FileJournal):
            self._journal.file.close()

    @property
    def complaint(self) -> str:
        """The fault of a sum that this agent has found and signed; empty if none."""
        return "" if self._machine is None else self._machine.complaint

    def step(self, current: Round) -> bytes:
        if not current.state:
            check_price(_signed_sums(_signed_parameters(current.roster)), current.price)
        machine = self._open(current.roster, current.state)
        assert self._journal is not None
        self._journal.settle()
        answer = machine.answer(current.broadcast)
        current.state = self._state()
        current.on_saved = self._journal.settle
        return answer

    def close(self, roster: dict[str, Any], state: bytes, broadcast: bytes) -> Optimum:
        """The result, once all agents have signed the same transcript."""
        machine = self._open(roster, state)
        if not machine.finished:
            machine.answer(broadcast)
        assert self._rounds is not None
        rounds, said = self._rounds, machine.verdict
        return Optimum(
            rounds.x,
            rounds.multipliers,
            rounds.opened,
            machine.transcript.hex(),
            None if said is secure_sum.Verdict.UNSAID else said is secure_sum.Verdict.SETTLED,
            rounds.violations,
            rounds.why,
        )

    def _open(self, roster: dict[str, Any], state: bytes) -> secure_sum.Agent:
        if self._machine is not None:
            return self._machine
        parameters = _signed_parameters(roster)
        sums = _signed_sums(parameters)
        members = [base64.b64decode(one["key"]) for one in roster["agents"]]
        self._demands.check(sums, members)

        def signed_by_owner(document: bytes) -> bool:
            """Whether members and parameters are those that the owner has signed; the operator's
            job and key are signed by the pinned server."""
            read = secure_sum.Roster.read(document)
            return list(read.members) == members and read.parameters == sums

        self._rounds = self._optimizer(parameters, sums, members)
        saved: dict[str, Any] = json.loads(state) if state else {"settled": 0, "pending": []}
        path = self._agent.journal_path
        file = secure_sum.MemoryJournal() if path is None else secure_sum.FileJournal(path)
        try:
            self._journal = _Journal(file, saved["settled"], saved["pending"])
        except secure_sum.Reused:
            if isinstance(file, secure_sum.FileJournal):
                file.close()
            raise
        self._machine = secure_sum.Agent(
            self._agent.identity.private_key,
            signed_by_owner,
            self._rounds,
            self._journal,
            window=WINDOW_BITS,
        )
        if state:
            self._machine.resume(saved["machine"].encode())
            self._rounds.resume(saved)
        return self._machine

    def _optimizer(
        self, parameters: dict[str, Any], sums: secure_sum.Parameters, members: list[bytes]
    ) -> Rounds | PricedRounds:
        A_u, A_g, cost, domain = self._data
        rows = (parameters["coupled"], parameters["constraints"])
        method = parameters.get("method", "spds")
        if method not in METHODS:
            raise AgentError(f"the owner has signed method {method}, which this version lacks")
        auto = method == "auto"
        if auto is not (sums.operator_from == 1):
            raise AgentError(f"the sums that the owner has signed do not fit method {method}")
        if (A_u.shape[0], A_g.shape[0]) != rows or sum(rows) + auto != sums.dimension:
            raise AgentError(
                f"A_u and A_g have {A_u.shape[0]} and {A_g.shape[0]} rows; the owner has signed "
                f"{rows}"
            )
        entries = box_bound(np.vstack([A_u, A_g]), *domain.sides)
        reach = float(np.max(entries, initial=0.0))
        # With noise, contributions are clipped to what the slots hold, and a refusal would leak
        # information about the data.
        if not sums.noise_sigma and not reach <= sums.bound:
            raise AgentError(
                f"a contribution can reach {reach:g}, the slots hold {sums.bound:g}: the box is "
                "too large"
            )
        if sums.reach is not None:
            _check_reach(entries, sums)
        steps = parameters["steps"]
        if auto:
            secret = self._agent.identity.private_key.private_bytes_raw()
            own = own_haze(secret, cost, domain, members)
            responder = Responder(np.vstack([A_u, A_g]), cost, domain, sums.bound, own=own)
            prices = Prices(rows[0], sum(rows), sums.rounding(len(members)))
            return PricedRounds(responder, prices, steps["iterations"])
        asked = sums.asked(len(members))
        most = steps["iterations"] + (SUMS if asked else 0)
        until = steps["iterations"] if asked else None
        if (sums.rounds, sums.operator_until) != (most, until):
            raise AgentError(f"the sums that the owner has signed do not fit method {method}")
        chosen = Steps(
            self._primal or steps["primal"], steps["dual"], steps["shrink"], steps["regularization"]
        )
        participant = Participant(A_u, A_g, cost, domain, chosen)
        participant.x = _somewhere(domain, participant.x)
        return Rounds(participant, steps["iterations"], asked)

    def _state(self) -> bytes:
        assert self._machine is not None
        assert self._journal is not None
        assert self._rounds is not None
        saved = {
            "machine": self._machine.state().decode(),
            **self._rounds.state(),
            "settled": len(self._journal.file.records()),
            "pending": self._journal.pending,
        }
        return json.dumps(saved).encode()


def solve(
    agent: Party,
    *,
    A_u: ArrayLike,
    A_g: ArrayLike,
    cost: QuadraticCost | ConvexCost,
    lower: ArrayLike = 0.0,
    upper: ArrayLike,
    budget: tuple[float, float] | None = None,
    polytope: tuple[ArrayLike, ArrayLike] | None = None,
    primal: float | None = None,
    demands: Demands | None = None,
) -> Optimum:
    """Take part in the session until it ends; see `Agent.solve`."""
    k = cost.size
    try:
        matrices = [np.asarray(matrix, dtype=np.float64).reshape(-1, k) for matrix in (A_u, A_g)]
        low, high = (np.asarray(side, dtype=np.float64) for side in (lower, upper))
        domain = _domain(np.broadcast_to(low, k), np.broadcast_to(high, k), budget, polytope)
        # Before the session is joined: leaving during a round would show when the data failed.
        cost.check(domain)
        if not all(map(small, matrices)):
            raise ValueError(f"entries of A_u and A_g must be from -{LARGEST:g} to {LARGEST:g}")
        if primal is not None and not 0 < primal < math.inf:
            raise ValueError(f"primal must be a finite step size above 0, not {primal}")
    except (TypeError, ValueError, OverflowError) as error:
        raise AgentError(f"{type(error).__name__}: {error}") from error
    run = None
    try:
        run = _Run(agent, (matrices[0], matrices[1], cost, domain), primal, demands)
        outcome = agent.participate(run.step)
        if not outcome.succeeded:
            code, found = outcome.code, run.complaint
            raise AgentError(
                f"the session {outcome.state}"
                + (f": {code}" if code else "")
                + (f"; {found}" if found else "")
            )
        return run.close(agent.roster, outcome.final_state, outcome.broadcast)
    except (secure_sum.SecureSumError, OutOfRange, ValueError) as error:
        raise AgentError(f"{type(error).__name__}: {error}") from error
    finally:
        if run is not None:
            run.leave()


def _domain(
    lower: Floats,
    upper: Floats,
    budget: tuple[float, float] | None,
    polytope: tuple[ArrayLike, ArrayLike] | None,
) -> Domain:
    """The feasible set of x; ValueError if it is empty."""
    if polytope is not None:
        A, b = (np.asarray(one, dtype=np.float64) for one in polytope)
        return Polytope.within(lower, upper, A, b, budget)
    return Box(lower, upper) if budget is None else BudgetedBox(lower, upper, *budget)


def run(agent: on_shares.ShareParty, problem: dict[str, Any]) -> dict[str, Any]:
    """Solve the problem file of `discreet-agent --problem agent.json`: fields A_u, A_g, A_q, a_l,
    terms (`discreet_client.cost_terms`), lower, upper, budget ({lower, upper} of the sum of x),
    polytope ({A, b}: A x <= b), primal, demands; with `protocol: "mpc"` also listen and address.
    Returns the result as JSON."""
    try:
        a_l = np.array(problem["a_l"], dtype=np.float64)
        A_q = np.array(problem.get("A_q", []), dtype=np.float64).reshape(-1, a_l.size)
        data = {name: problem[name] for name in ("A_u", "A_g", "upper")}
        demands = Demands(**problem.get("demands", {}))
        given = problem.get("budget")
        budget = None if given is None else (float(given["lower"]), float(given["upper"]))
        primal = None if problem.get("primal") is None else float(problem["primal"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise AgentError(
            "the problem file needs A_u, A_g, a_l and upper, and a budget, primal or demands must "
            f"have the documented form: {error}"
        ) from error
    try:
        cost = cost_of(A_q, a_l, problem.get("terms", ()))
    except ValueError as error:
        raise AgentError(f"terms of the problem file: {error}") from error
    cut = problem.get("polytope")
    if cut is not None and not (isinstance(cut, Mapping) and cut.keys() == {"A", "b"}):
        raise AgentError('polytope of the problem file: {"A": …, "b": …} is needed, for A x <= b')
    polytope = None if cut is None else (cut["A"], cut["b"])
    data |= {
        "lower": problem.get("lower", 0.0),
        "cost": cost,
        "demands": demands,
        "budget": budget,
        "polytope": polytope,
    }
    if problem.get("protocol") == "mpc":
        return on_shares.run(agent, problem, **data)
    found = solve(agent, primal=primal, **data)
    return {
        "x": found.x.tolist(),
        "multipliers": found.multipliers.tolist(),
        "rounds": found.rounds,
        "transcript": found.transcript,
        **({} if found.settled is None else {"settled": found.settled}),
        **({"why": found.why} if found.settled is False else {}),
    }


def _signed_parameters(roster: dict[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] | None = roster.get("parameters")
    if parameters is None:
        raise NotTrusted("the owner has not signed the parameters of the sums")
    return parameters


def _signed_sums(parameters: dict[str, Any]) -> secure_sum.Parameters:
    """AgentError if there are none, or if they hold a parameter of another version, whose meaning
    is not known here."""
    try:
        return secure_sum.Parameters(**parameters["sums"])
    except KeyError:
        raise AgentError(
            "the owner has signed no sums; for protocol mpc an agent needs an address to listen at"
        ) from None
    except TypeError as error:
        raise AgentError(
            f"the owner has signed parameters that this version does not know: {error}"
        ) from None


def _check_reach(entries: Floats, sums: secure_sum.Parameters) -> None:
    """AgentError if this agent's entries (their largest magnitudes, float64[m]) can exceed the
    bounds that the owner has signed: the other agents would reject sums with its contributions."""
    assert sums.reach is not None
    if len(sums.reach) != entries.size or sums.most is None or len(sums.most) != entries.size:
        raise AgentError("the owner has signed bounds for another number of rows")
    beyond = np.flatnonzero(~(entries <= np.array(sums.reach) * (1 + 1e-12)))
    if beyond.size:
        row = int(beyond[0])
        raise AgentError(
            f"this agent's row {row} can reach {entries[row]:g}; the owner has signed "
            f"{sums.reach[row]:g} as the bound for every agent"
        )


def _somewhere(domain: Domain, otherwise: Floats) -> Floats:
    """A random point of the set: the projection of a uniform point of its box, drawn with the
    operating system's randomness; a coordinate whose range is not finite is taken from
    `otherwise`."""
    low, high = (np.broadcast_to(side, otherwise.shape) for side in domain.sides)
    drawn = np.array([secrets.randbits(53) for _ in range(otherwise.size)]) * 2.0**-53
    with np.errstate(over="ignore", invalid="ignore"):
        found = low + (high - low) * drawn
    return domain.project(np.where(np.isfinite(found), np.clip(found, low, high), otherwise))


def check_price(sums: secure_sum.Parameters, price: Mapping[str, str]) -> None:
    """NotTrusted if the charged price (units of the ledger) is below what the signed noise costs.

    With noise of standard deviation sigma in each sum from the honest agents, `rounds` sums and
    contributions of norm at most the clip: `mu = 2 clip sqrt(rounds)/sigma`.
    """
    if sums.noise_sigma:
        check_gaussian(2 * sums.clip * math.sqrt(sums.rounds) / sums.noise_sigma, price)
