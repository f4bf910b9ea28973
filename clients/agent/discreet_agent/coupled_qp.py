"""Coupled quadratic programs in an agent: its own steps on sums that only the agents can decrypt.

The state of the protocol (`discreet_agent.secure_sum`) and of the optimizer is saved with every
answer, before it is sent: a new process goes on from there, and nobody has seen an answer that was
not saved. The session's folder therefore holds keys and x; only their owner can read its files, and
the keys are erased when the session ends. The journal beside them detects an older copy of the
state, which is refused. Where the whole folder is put back from one copy, nothing can tell: but
what the agent sends is a function of the session's key, its data and all broadcasts so far
(`secure_sum.Draws`), so that it says what it has said before, or something under other masks.

An agent starts at a random point of its box. From a start that everybody knows, such as zero, the
first sum would be the operator's c and d whoever takes part. In the same job without one of the
agents the others would then send the same next, and the difference of the two sums would be what
that agent had sent.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet_agent import secure_sum
from discreet_agent.convex_sets import Box, BudgetedBox, Polytope
from discreet_agent.cost_terms import LARGEST, small
from discreet_agent.costs import ConvexCost, QuadraticCost, cost_of
from discreet_agent.demands import Demands
from discreet_agent.exposure import Opens
from discreet_agent.federation.errors import AgentError, FolderLost, NotTrusted, Unfit
from discreet_agent.guarantees import check_gaussian
from discreet_agent.ledger import Ledger
from discreet_agent.packing import OutOfRange, box_bound
from discreet_agent.rounds import Party, Program, Round

if TYPE_CHECKING:
    from discreet_agent.on_shares import ShareParty
    from discreet_agent.priced_rounds import PricedRounds
    from discreet_agent.updates import Rounds

Floats = NDArray[np.float64]
Domain = Box | BudgetedBox | Polytope

METHODS = ("auto", "rpds", "spds")
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


SECRETS = ("exchange", "shared", "primes", "group_key", "draws")
"""Of the machine's saved state: what a session that has ended needs no more."""


class _Run(Program):
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
        self._draws = secure_sum.Draws()
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

    def check(
        self, roster: dict[str, Any], price: Mapping[str, str], ledger: Ledger, state: bytes
    ) -> None:
        if self._machine is not None:
            return
        sums = _signed_sums(_signed_parameters(roster))
        check_price(sums, price)
        self._demands.check(sums, _members(roster), ledger.exposed(but=roster["job"]))
        if state:
            self._open(roster, state)
        else:
            self._rounds = self._optimizer(roster, sums)

    def opens(self, roster: dict[str, Any]) -> Opens:
        return Opens(_signed_sums(_signed_parameters(roster)).numbers, len(roster["agents"]))

    def opened(self, state: bytes) -> int:
        return json.loads(json.loads(state)["machine"])["numbers"] if state else 0

    def without_secrets(self, state: bytes) -> bytes:
        if not state:
            return state
        saved = json.loads(state)
        machine = json.loads(saved["machine"])
        for name in SECRETS:
            machine.pop(name, None)
        return json.dumps(saved | {"machine": json.dumps(machine)}).encode()

    def __call__(self, current: Round) -> bytes:
        if current.number and not current.state:
            raise FolderLost(
                f"this agent is asked for round {current.number}, and its folder holds nothing of "
                "the rounds before: it was lost, and the agent cannot answer again"
            )
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
            rounds.why if said is secure_sum.Verdict.UNSETTLED else "",
        )

    def _open(self, roster: dict[str, Any], state: bytes) -> secure_sum.Agent:
        if self._machine is not None:
            return self._machine
        sums, members = _signed_sums(_signed_parameters(roster)), _members(roster)

        def signed_by_owner(document: bytes) -> bool:
            """Whether members and parameters are those that the owner has signed; the operator's
            job and key are signed by the pinned server."""
            read = secure_sum.Roster.read(document)
            return list(read.members) == members and read.parameters == sums

        if self._rounds is None:
            self._rounds = self._optimizer(roster, sums)
        saved: dict[str, Any] = json.loads(state) if state else {"settled": 0, "pending": []}
        path = self._agent.journal_path
        file = secure_sum.MemoryJournal() if path is None else secure_sum.FileJournal(path)
        try:
            self._journal = _Journal(file, saved["settled"], saved["pending"])
        except secure_sum.Reused as error:
            if isinstance(file, secure_sum.FileJournal):
                file.close()
            raise FolderLost(
                f"the folder of this session was put back from an older copy: {error}"
            ) from error
        machine = secure_sum.Agent(
            self._agent.identity.private_key,
            signed_by_owner,
            self._rounds,
            self._journal,
            window=WINDOW_BITS,
            draws=self._draws,
        )
        if state:
            machine.resume(saved["machine"].encode())
            self._rounds.resume(saved)
            if self._draws.key and not hmac.compare_digest(saved["data"], self._data_digest()):
                raise Unfit(
                    "this agent's data are not those with which it began this session: its next "
                    "answer would not follow from those before"
                )
        self._machine = machine
        return machine

    def _data_digest(self) -> str:
        """Keyed, so that nobody finds the data by it; the key ends with the session."""
        A_u, A_g, cost, domain = self._data
        digest = hashlib.sha256(f"{type(cost).__name__} {type(domain).__name__}".encode())
        for one in (A_u, A_g, *cost.figures, *domain.figures, self._primal or 0.0):
            part = np.ascontiguousarray(one, dtype="<f8")
            digest.update(repr(part.shape).encode() + part.tobytes())
        return hmac.digest(self._draws.key, digest.digest(), "sha256").hex()

    def _optimizer(
        self, roster: dict[str, Any], sums: secure_sum.Parameters
    ) -> Rounds | PricedRounds:
        """Unfit where the data do not fit what the owner has signed."""
        parameters, members = _signed_parameters(roster), _members(roster)
        try:
            sums.check(len(members))
        except secure_sum.Unacceptable as error:
            raise Unfit(f"the owner has signed what this agent does not accept: {error}") from error
        A_u, A_g, cost, domain = self._data
        rows = (parameters["coupled"], parameters["constraints"])
        method = parameters.get("method", "spds")
        if method not in METHODS:
            raise Unfit(f"the owner has signed method {method}, which this version lacks")
        auto = method == "auto"
        if auto is not ("rows" in parameters):
            raise Unfit(f"the sums that the owner has signed do not fit method {method}")
        if (A_u.shape[0], A_g.shape[0]) != rows or sum(rows) + auto != sums.dimension:
            raise Unfit(
                f"A_u and A_g have {A_u.shape[0]} and {A_g.shape[0]} rows; the owner has signed "
                f"{rows}"
            )
        exponents, figures = np.zeros(sum(rows), int), None
        if auto:
            from discreet_agent.prices import signed_rows  # noqa: PLC0415 - of this method alone

            exponents, figures = signed_rows(parameters)
        natural = box_bound(np.vstack([A_u, A_g]), *domain.sides)
        entries = np.ldexp(natural, exponents)
        reach = float(np.max(entries, initial=0.0))
        # With noise, contributions are clipped to what the slots hold, and a refusal would leak
        # information about the data.
        if not sums.noise_sigma and not reach <= sums.bound:
            row = int(np.argmax(entries))
            held = math.ldexp(sums.bound, -int(exponents[row]))
            raise Unfit(
                f"this agent's row {row} can reach {natural[row]:g}, the slots hold {held:g}: the "
                "box is too large"
            )
        if sums.reach is not None:
            _check_reach(natural, exponents, sums)
        steps = parameters["steps"]
        if figures is not None:
            return self._priced(sums, members, steps["iterations"], rows[0], exponents, figures)
        from discreet_agent.settling import SUMS  # noqa: PLC0415 - of these methods alone
        from discreet_agent.updates import Participant, Rounds, Steps  # noqa: PLC0415

        asked = sums.asked(len(members))
        most = steps["iterations"] + (SUMS if asked else 0)
        if sums.rounds != most:
            raise Unfit(f"the sums that the owner has signed do not fit method {method}")
        chosen = Steps(
            self._primal or steps["primal"], steps["dual"], steps["shrink"], steps["regularization"]
        )
        participant = Participant(A_u, A_g, cost, domain, chosen)
        participant.x = _somewhere(domain, participant.x, self._draws)
        return Rounds(participant, steps["iterations"], asked, self._draws.uniform)

    def _priced(
        self,
        sums: secure_sum.Parameters,
        members: list[bytes],
        iterations: int,
        coupled: int,
        exponents: NDArray[np.int64],
        figures: Floats,
    ) -> PricedRounds:
        """The optimizer of method `auto`."""
        from discreet_agent.best_responses import Responder, own_haze  # noqa: PLC0415
        from discreet_agent.priced_rounds import PricedRounds  # noqa: PLC0415
        from discreet_agent.prices import MOST_AGENTS, Prices  # noqa: PLC0415

        A_u, A_g, cost, domain = self._data
        secret = self._agent.identity.private_key.private_bytes_raw()
        own = own_haze(secret, cost, domain, members)
        if sums.rounds != iterations:
            raise Unfit("the sums that the owner has signed do not fit method auto")
        if len(members) > MOST_AGENTS:
            raise Unfit(f"method auto sums over at most {MOST_AGENTS} agents")
        responder = Responder(
            np.vstack([A_u, A_g]), cost, domain, coupled, figures, self._draws.uniform, own
        )
        grid = 2.0**-sums.fraction_bits
        prices = Prices(coupled, figures, sums.bound, grid, len(members), exponents, sums.tolerance)
        return PricedRounds(responder, prices, iterations)

    def _state(self) -> bytes:
        assert self._machine is not None
        assert self._journal is not None
        assert self._rounds is not None
        saved = {
            "machine": self._machine.state().decode(),
            **self._rounds.state(),
            "data": self._data_digest(),
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
    try:
        if not isinstance(cost, QuadraticCost | ConvexCost):
            raise ValueError(f"cost must be a QuadraticCost or a ConvexCost, not {cost!r}")
        k = cost.size
        matrices = [np.asarray(matrix, dtype=np.float64).reshape(-1, k) for matrix in (A_u, A_g)]
        low, high = (np.asarray(side, dtype=np.float64) for side in (lower, upper))
        domain = _domain(np.broadcast_to(low, k), np.broadcast_to(high, k), budget, polytope)
        # Before the session is joined: leaving during a round would show when the data failed.
        cost.check(domain)
        _try_cost(cost, domain)
        if not all(map(small, matrices)):
            raise ValueError(f"entries of A_u and A_g must be from -{LARGEST:g} to {LARGEST:g}")
        if primal is not None and not 0 < (primal := float(primal)) < math.inf:
            raise ValueError(f"primal must be a finite step size above 0, not {primal}")
        if demands is not None and not isinstance(demands, Demands):
            raise ValueError(f"demands must be Demands(…), not {demands!r}")
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise AgentError(f"{type(error).__name__}: {error}") from error
    run = None
    try:
        run = _Run(agent, (matrices[0], matrices[1], cost, domain), primal, demands)
        outcome = agent.participate(run)
        if not outcome.succeeded:
            found = run.complaint
            raise AgentError(outcome.failure + (f"; {found}" if found else ""))
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
    if budget is None:
        return Box(lower, upper)
    least, most = map(float, budget)
    return BudgetedBox(lower, upper, least, most)


def _try_cost(cost: QuadraticCost | ConvexCost, domain: Domain) -> None:
    """One step of each kind in the middle of the set: what raises here would do so in a round.
    ValueError for what is no number."""
    low, high = (np.broadcast_to(side, (cost.size,)) for side in domain.sides)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = (low + high) / 2
    x = domain.project(np.where(np.isfinite(middle), middle, 0.0))
    found = [cost.gradient(x), cost.proximal(domain, x, 1e-3)]
    if np.all(np.isfinite(low)) and np.all(np.isfinite(high)):
        found.append(cost.minimum(domain, np.zeros(cost.size), np.ones(cost.size), x, x))
    if not all(one.shape == (cost.size,) and np.all(np.isfinite(one)) for one in found):
        raise ValueError("the cost has no step in the middle of the box")


def run(agent: ShareParty, problem: dict[str, Any]) -> dict[str, Any]:
    """Solve the problem file of `discreet-agent --problem agent.json`: fields A_u, A_g, A_q, a_l,
    terms (`discreet_agent.cost_terms`), lower, upper, budget ({lower, upper} of the sum of x),
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
        from discreet_agent import on_shares  # noqa: PLC0415 - of this protocol alone

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


def _members(roster: Mapping[str, Any]) -> list[bytes]:
    """Ed25519 keys, in the roster's order."""
    return [base64.b64decode(one["key"]) for one in roster["agents"]]


def _signed_parameters(roster: dict[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] | None = roster.get("parameters")
    if parameters is None:
        raise NotTrusted("the owner has not signed the parameters of the sums")
    return parameters


def _signed_sums(parameters: dict[str, Any]) -> secure_sum.Parameters:
    """Unfit if there are none, or if they hold a parameter of another version, whose meaning
    is not known here."""
    try:
        return secure_sum.Parameters(**parameters["sums"])
    except KeyError:
        raise Unfit(
            "the owner has signed no sums; for protocol mpc an agent needs an address to listen at"
        ) from None
    except TypeError as error:
        raise Unfit(
            f"the owner has signed parameters that this version does not know: {error}"
        ) from None


def _check_reach(
    natural: Floats, exponents: NDArray[np.int64], sums: secure_sum.Parameters
) -> None:
    """Unfit if this agent's entries (their largest magnitudes, float64[m]) can exceed the
    bounds that the owner has signed: the other agents would reject sums with its contributions.
    Bounds are signed in the units of the sums."""
    assert sums.reach is not None
    if len(sums.reach) != natural.size or sums.most is None or len(sums.most) != natural.size:
        raise Unfit("the owner has signed bounds for another number of rows")
    signed = np.ldexp(np.array(sums.reach), -exponents)
    beyond = np.flatnonzero(~(natural <= signed * (1 + 1e-12)))
    if beyond.size:
        row = int(beyond[0])
        raise Unfit(
            f"this agent's row {row} can reach {natural[row]:g}; the owner has signed "
            f"{signed[row]:g} as the bound for every agent"
        )


def _somewhere(domain: Domain, otherwise: Floats, draws: secure_sum.Draws) -> Floats:
    """A random point of the set: the projection of a uniform point of its box; a coordinate whose
    range is not finite is taken from `otherwise`."""
    low, high = (np.broadcast_to(side, otherwise.shape) for side in domain.sides)
    drawn = draws.uniform(otherwise.size)
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
