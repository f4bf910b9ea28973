"""Coupled quadratic programs: agents that share a feeder, a link or a budget, and reveal only sums
to each other.

`min ½|Σ A_u,i x_i + c|² + Σ f_i(x_i)`, x_i in X_i, `Σ A_g,i x_i + d <= 0` (Huo & Liu, eq. 1), where
f_i is `|A_q,i x_i|² + a_l,i·x_i` (eq. 22 without the constants) and convex terms, and X_i a box or
a polytope within one. The two sums couple the agents; in each round every agent learns these and
nothing else, and the operator learns nothing: `discreet_client.secure_sum`. The guarantee is
cryptographic, so a job has no privacy budget, unless `noise` asks for differentially private sums.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from attrs import define
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discreet.errors import InvalidInput
from discreet.intake.items import InPieces
from discreet.privacy import calibration
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.privacy.noise import Noise
from discreet.problems.base import Neighbours
from discreet.problems.contents import Content, Mode, Progress, Released
from discreet.problems.coupled_qp import (
    checks,
    examples,
    exposure,
    methods,
    on_shares,
    shares_fields,
)
from discreet.problems.coupled_qp.data import (
    AgentData,
    Encryption,
    FederatedAgents,
    Floats,
    OperatorData,
    QpSteps,
    SumNoise,
    Tolerance,
    part_of,
    sides_of,
)
from discreet.problems.coupled_qp.result import CoupledQpResult, headlines, status_of
from discreet.problems.coupled_qp.session import SumSession
from discreet.problems.federation import ROUNDS_ARE_SEEN, FederatedProblem, Member, Session
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.plans import NoiseSummary, Plan, Resources
from discreet.problems.results import Output, Result
from discreet.solvers.saddle.spds import Part
from discreet_client import secure_sum
from discreet_client.best_responses import windows
from discreet_client.exposure import NOTHING_OPENED, Opens
from discreet_client.exposure import Exposure as Accepted
from discreet_client.federation import spoken
from discreet_client.packing import OutOfRange, box_bound
from discreet_client.paillier import SMALLEST_KEY_BITS
from discreet_client.prices import exponent

# Request ------------------------------------------------------------------------------------------
# The fields of a coupled quadratic program, and what follows from them alone.


class CoupledQpRequest(FederatedProblem):
    """The fields of `CoupledQp`, for its modules."""

    kind: Literal["coupled_qp"]
    mode: Mode = "private"
    operator: OperatorData
    agents: (
        Annotated[tuple[AgentData, ...], InPieces(max_length=checks.MAX_AGENTS)] | FederatedAgents
    )
    method: methods.Name | None = Field(default=None, description=methods.MEANING)
    steps: QpSteps | None = None
    encryption: Encryption = Encryption()
    noise: SumNoise | None = None
    exposure: Accepted | None = Field(default=None, description=exposure.MEANING)
    tolerance: Tolerance | None = 1e-3
    protocol: Literal["job", "federated", "mpc"] = "job"  # type: ignore[assignment]  # one more than other kinds
    mpc: shares_fields.ShareBounds | None = Field(
        default=None, description="Public bounds; required with protocol `mpc`"
    )

    @model_validator(mode="after")
    def _fields_of_the_protocol(self) -> Self:
        if not shares_fields.check_fields(self):
            _ = self.way  # the method fits the given fields
        return self

    @property
    def way(self) -> methods.Method:
        """The method that is named, or that follows from the given fields."""
        return methods.method_of(
            self.method,
            self.steps,
            noise=self.noise is not None,
            asks=self.tolerance is not None,
        )

    @property
    def needed(self) -> tuple[str, ...]:
        if self.protocol == shares_fields.PROTOCOL_NAME:
            return (spoken.SHARES,)
        return (spoken.SECURE_SUMS, self.encryption.scheme, self.way.name)

    def without_agents(self, left: int) -> Self:
        changed = super().without_agents(left)
        if isinstance(changed.agents, FederatedAgents):
            changed = changed._with(agents=changed.agents.model_dump() | {"count": left})
        return changed

    def rows(self) -> tuple[int, int]:
        return len(self.operator.c), len(self.operator.d)

    def dimension(self) -> int:
        return sum(self.rows()) + self.way.added

    def coefficients(self) -> int:
        if isinstance(self.agents, FederatedAgents):
            return self.agents.count * self.dimension()
        return sum(len(agent.a_l) * self.dimension() + agent.coefficients for agent in self.agents)


# Problem ------------------------------------------------------------------------------------------


class CoupledQp(CoupledQpRequest):
    """Agents minimize a joint quadratic cost under joint constraints, over sums that only they can
    open.

    `protocol: job` runs operator and agents in one process, with all data at the server: only for
    `mode: simulation`.
    """

    title: ClassVar[str] = "Coupled quadratic program"
    private: ClassVar[str] = (
        "each agent's variables and costs, from the server; from other agents only in a crowd"
    )
    published: ClassVar[str] = "nothing but encrypted sums; each agent learns its own optimum"
    seen_by_the_server: ClassVar[str] = (
        "What an agent sends is masked or encrypted: the server cannot open any single message."
    )
    Dataset: ClassVar[None] = None
    Fields: ClassVar[Any] = CoupledQpResult
    headlines: ClassVar[Any] = staticmethod(headlines)

    failures: ClassVar[dict[str, str]] = {
        "protocol_broken": "a message did not follow the protocol of the sums; nothing was opened "
        "of that round",
        "sum_out_of_bounds": "agents have signed that a sum was larger than the bounds that the "
        "owner has signed allow: an agent has contributed more than it may, or the server has "
        "added something; x of that round is no optimum",
        **on_shares.FAILURES,
    }

    @classmethod
    def example(cls) -> dict[str, Any]:
        return examples.example()

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        """None: no mechanism releases anything. tests/clients/attacks attacks what the sums
        reveal."""
        return ()

    def budget(self, privacy: Privacy | None) -> Budget:
        """The budget of the noise; a request has no `privacy`."""
        if privacy is not None:
            raise InvalidInput(
                "the guarantee of coupled_qp is cryptographic: leave privacy out; for sums with "
                "noise give problem.noise its epsilon and delta",
                pointer="/privacy",
            )
        if self.noise is None:
            return Budget(epsilon=0, delta=0)
        return Privacy(epsilon=self.noise.epsilon, delta=self.noise.delta).budget

    @property
    def signs_parameters(self) -> bool:
        return True

    # Planning

    @on_shares.instead(on_shares.plan)
    def plan(self, public: None, budget: Budget) -> Plan:
        """Raises InvalidInput for everything that prevents the agents from agreeing on these
        sums."""
        if self.protocol == "federated":
            raise InvalidInput(
                "a federated job is planned with its agents", pointer="/problem/protocol"
            )
        agents = self._data()
        if self.mode != "simulation":
            raise InvalidInput(
                "with protocol `job` all data are at the server: declare them public with mode "
                "`simulation`, or use protocol `federated`",
                pointer="/problem/mode",
            )
        checks.refuse_few(len(agents))
        # By counts alone, before sets are checked one by one, which takes long.
        checks.check_own_time(agents)
        checks.check_time(
            self.encryption,
            len(agents),
            self.dimension(),
            self.coefficients(),
            self.way.iterations,
            checks.own_seconds(agents),
        )
        checks.check_shapes(self.operator, agents, self.coefficients())
        self.way.check(len(agents), sum(self.rows()))
        parts = [part_of(agent) for agent in agents]
        reach = [
            box_bound(np.vstack([part.A_u, part.A_g]), *sides_of(agent))
            for part, agent in zip(parts, agents, strict=True)
        ]
        bound = max(
            float(np.max(np.abs([*self.operator.c, *self.operator.d]))),
            *(float(one.max()) for one in reach),
        )
        bound = self.way.bound(bound, of_slots(self.encryption, len(agents)))
        clip = max(float(np.linalg.norm(one)) for one in reach)
        units = None
        if self.way.scaled:
            units = units_of(self.operator, np.max(reach, axis=0).tolist(), bound)
        if self.noise is not None and self.noise.clip is not None:
            clip = min(clip, self.noise.clip)
        plan = sums_plan(self, len(agents), bound, clip, budget, units)
        checks.check_feasible(self.operator, parts, agents)
        self.way.check_parts(parts)
        if units is not None:
            sums = secure_sum.Parameters(**plan.parameters["sums"])
            figures = np.array(units.figures)
            taken = np.zeros(figures.size)
            for part in parts:
                A = np.vstack([part.A_u, part.A_g])
                taken += np.abs(A) @ windows(A, part.cost, part.domain, figures)[0]
            rounding = sums.rounding(len(agents))
            check_grid(self.operator, units, taken, rounding, self.tolerance)
        return plan

    # Federated

    def check_announcement(self, announcement: Any) -> None:
        of_shares = self.protocol == shares_fields.PROTOCOL_NAME
        (on_shares.check_announcement if of_shares else super().check_announcement)(announcement)

    @on_shares.instead(on_shares.plan_federation)
    def plan_federation(self, agents: Sequence[Member], budget: Budget) -> Plan:
        """The same plan with and without the roster: the sums are fixed with the job, and agents
        announce nothing."""
        terms, public = self.terms, self.agents
        assert terms is not None
        if not isinstance(public, FederatedAgents):
            says = (
                "with protocol `federated` agents keep their data: give {count, coupled, "
                "constraints}"
            )
            raise InvalidInput(says, pointer="/problem/agents")
        checks.refuse_few(public.count)
        if terms.agents != public.count or terms.least != public.count:
            says = (
                f"a sum is over all {public.count} agents: federation.agents is that number, "
                "without a smaller quorum"
            )
            raise InvalidInput(says, pointer="/problem/federation/agents")
        if terms.on_missing != "abort":
            raise InvalidInput(
                "a missing agent ends the job: the difference of a sum with it and the "
                "next one without it would nearly be its value",
                pointer="/problem/federation/on_missing",
            )
        checks.check_rows(self.operator, public)
        self.way.check_federated(public.count, sum(self.rows()))
        check_federated(self.operator, public, self.encryption, self.noise, scaled=self.way.scaled)
        bound = of_slots(self.encryption, public.count)
        reach = of_rows(public, sum(self.rows()))
        units = units_of(self.operator, reach, bound) if self.way.scaled else None
        clip = 0.0 if self.noise is None or self.noise.clip is None else self.noise.clip
        plan = sums_plan(self, public.count, bound, clip, budget, units)
        sums = secure_sum.Parameters(**plan.parameters["sums"])
        if units is not None and reach is not None:
            taken = [public.count * one for one in reach]
            rounding = sums.rounding(public.count)
            check_grid(self.operator, units, taken, rounding, self.tolerance)
        exposure.refuse_exposed(sums, public.count, prices=units is not None)
        return plan

    def opens(self, plan: Plan, agents: int, rounds: int | None = None) -> Opens:
        if "sums" not in plan.parameters:
            return NOTHING_OPENED
        sums = secure_sum.Parameters(**plan.parameters["sums"])
        numbers = sums.numbers
        if rounds is not None:  # the sum of round r is the broadcast of exchange r + 4
            opened = max(0, rounds - SETUP_EXCHANGES + 1)
            numbers = min(numbers, opened * sums.dimension)
        return Opens(numbers, agents)

    def refuse_exposed(self, plan: Plan, agents: int, before: Fraction) -> None:
        if "sums" in plan.parameters:
            sums = secure_sum.Parameters(**plan.parameters["sums"])
            exposure.refuse_exposed(sums, agents, before, prices="rows" in plan.parameters)

    @on_shares.instead(on_shares.answer_bytes)
    def answer_bytes(self, plan: Plan, agents: int) -> int:
        return secure_sum.longest_answer(secure_sum.Parameters(**plan.parameters["sums"]), agents)

    @on_shares.instead(on_shares.open_session)
    def open_session(self, plan: Plan, agents: Sequence[Member]) -> Session:
        return SumSession(plan, agents, self._own(plan))

    @classmethod
    def rehearse_session(cls) -> None:
        examples.rehearse_session(cls)

    # Checks of the request

    def _data(self) -> tuple[AgentData, ...]:
        if isinstance(self.agents, FederatedAgents):
            raise InvalidInput(
                "with protocol `job` the agents' data are needed, one object each",
                pointer="/problem/agents",
            )
        return self.agents

    def _own(self, plan: Plan) -> NDArray[np.float64]:
        return self.way.own(np.array([*self.operator.c, *self.operator.d]), plan.parameters)

    def plain_parts(self) -> list[Part]:
        """The agents' data as the plaintext solver reads them, with protocol `job`."""
        return [part_of(agent) for agent in self._data()]

    # Running

    @on_shares.instead(on_shares.release)
    def release(self, public: None, plan: Plan, content: Content, noise: Noise) -> Released:
        """The protocol itself, with operator and agents in this process; keys, masks and noise are
        drawn from the operating system, never from `noise`.
        """
        sums = secure_sum.Parameters(**plan.parameters["sums"])
        agents = self.way.updates(self.plain_parts(), plan.parameters)
        outcome = secure_sum.run_in_process(agents, self._own(plan), sums)
        evidence = outcome.certificate
        return {
            "x": np.concatenate([one.x for one in agents]),
            "multipliers": agents[0].multipliers,
            "rounds": np.array(evidence["rounds"]),
            "transcript": np.frombuffer(bytes.fromhex(evidence["transcript"]), dtype=np.uint8),
            "bytes_sent": np.array(outcome.sent),
            **{name: np.array(evidence[name]) for name in ("settled",) if name in evidence},
        }

    @on_shares.instead(on_shares.finish)
    def finish(self, public: None, plan: Plan, released: Released, progress: Progress) -> Result:
        if self.terms is not None:
            progress(plan.resources.steps, plan.resources.steps)
            evidence = json.loads(released["evidence"].tobytes())
            told = {
                "rounds": evidence["rounds"],
                "transcript": evidence["transcript"],
                "evidence": evidence,
            }
            return Result.of(self.Fields, told | status_of(evidence.get("settled")))
        parts = [part_of(agent) for agent in self._data()]
        ends = np.cumsum([part.A_u.shape[1] for part in parts])[:-1]
        x = np.split(released["x"], ends)
        coupled = sum(
            (part.A_u @ one for part, one in zip(parts, x, strict=True)), np.array(self.operator.c)
        )
        excess = sum(
            (part.A_g @ one for part, one in zip(parts, x, strict=True)), np.array(self.operator.d)
        )
        cost = sum(part.cost.value(one) for part, one in zip(parts, x, strict=True))
        violations = np.maximum(excess, 0.0)
        progress(1, 1)
        return Result.of(
            self.Fields,
            {
                **status_of(released.get("settled")),
                "x": Output(lambda: [one.tolist() for one in x], numbers=released["x"].size),
                "multipliers": released["multipliers"],
                "objective": float(coupled @ coupled) / 2 + cost,
                "violation": float(np.max(violations, initial=0.0)),
                "violations": np.broadcast_to(violations, len(self.operator.d)),
                "rounds": int(released["rounds"]),
                "transcript": released["transcript"].tobytes().hex(),
                "bytes_sent": int(released["bytes_sent"].max()),
            },
        )

    @on_shares.instead(on_shares.evidence_of)
    def evidence(self, plan: Plan, result: bytes) -> dict[str, Any]:
        published = json.loads(result)
        if self.terms is not None:
            return dict(published["evidence"])
        parameters = secure_sum.Parameters(**plan.parameters["sums"])
        return {
            **secure_sum.guarantee(parameters, plan.parameters["agents"], published["rounds"]),
            "transcript": published["transcript"],
        }


# Sums plan ----------------------------------------------------------------------------------------
# The plan of sums that are opened round by round, and the parameters of the protocol.

MAX_KEY_BITS = 8192
LEAST_SHARE_VARIANCE = 100
"""Least variance of an agent's noise on the grid: then shares sum to a discrete Gaussian up to
e^-900 (Kairouz et al. 2021, Lemma 10)."""
SETUP_EXCHANGES = 4
"""Exchanges of a session in addition to one per round: HELLO, DEAL, ACK, and TRANSCRIPT at the
end."""

VERDICT = (
    "agents say of the sums whether they have settled: one that lies about its own part of them, "
    "or a server that adds to sums of the agents alone, can make that wrong"
)
"""Of sessions whose agents are asked; secrecy does not rest on it."""


def sums_plan(
    problem: CoupledQpRequest,
    count: int,
    bound: float,
    clip: float,
    budget: Budget,
    units: Units | None,
) -> Plan:
    """The plan of `count` agents whose contributions have entries up to `bound` and norms up to
    `clip`; `units` of the rows, of a method that scales them."""
    event = None
    if problem.noise is not None:
        event = noise_event(
            budget,
            agents=count,
            rounds=problem.way.iterations,
            dimension=problem.dimension(),
            clip=clip,
            fraction_bits=problem.encryption.fraction_bits,
        )
    sums = parameters_of(problem, count, bound, event, clip, units)
    shown = (
        None if problem.terms is None else exposure.of_sums(sums, count, prices=units is not None)
    )
    neighbours = exposure.HIDDEN if problem.terms is None else exposure.protects(sums, count)
    noise: tuple[NoiseSummary, ...] = ()
    if event is not None:
        neighbours = event.neighbours
        noise = (
            NoiseSummary.of(
                event, "each entry of each opened sum", 2.0**problem.encryption.fraction_bits
            ),
        )
    return Plan.priced(
        [] if event is None else [event],
        noise=noise,
        iterations={"rounds": problem.way.iterations},
        resources=Resources(
            release_quantum_seconds=0.5,
            memory_bytes=(1 << 28) + 8 * count * count * 200 + 64 * problem.coefficients(),
            steps=1 if problem.terms is None else SETUP_EXCHANGES + problem.way.iterations,
        ),
        unit="agent",
        neighbours=neighbours,
        exposure=shown,
        assumptions=(
            f"at least two agents are honest and at most {problem.encryption.colluding} pool what "
            "they know, with or without the operator",
            "the owner signs the right roster",
            "the sum of every round is seen by every agent",
            *([] if problem.terms is None else [ROUNDS_ARE_SEEN]),
        ),
        model=(
            *problem.way.model,
            *([] if problem.terms is None or sums.tolerance is None else [VERDICT]),
        ),
        parameters={
            "protocol": secure_sum.PROTOCOL,
            "agents": count,
            "coupled": problem.rows()[0],
            "constraints": problem.rows()[1],
            "sums": sums.fields,
            **problem.way.signed,
            **({} if units is None else {"rows": units.signed}),
        },
    )


def parameters_of(
    problem: CoupledQpRequest,
    count: int,
    bound: float,
    event: DiscreteGaussian | None,
    clip: float,
    units: Units | None,
) -> secure_sum.Parameters:
    encryption = problem.encryption
    if encryption.colluding > count - 2:
        says = f"of {count} agents 1 to {count - 2} may collude, not {encryption.colluding}"
        raise InvalidInput(says, pointer="/problem/encryption/colluding")
    if encryption.scheme == "masking" and encryption.slot_bits != 64:
        raise InvalidInput(
            "masking adds modulo 2^64: slot_bits must be 64",
            pointer="/problem/encryption/slot_bits",
        )
    needed = problem.way.slot_bits
    if needed is not None and encryption.slot_bits != needed:
        raise InvalidInput(
            f"method {problem.way.name} needs slots of {needed} bits, not {encryption.slot_bits}",
            pointer="/problem/encryption/slot_bits",
        )
    if encryption.fraction_bits >= encryption.slot_bits:
        raise InvalidInput(
            "fraction_bits must be below slot_bits", pointer="/problem/encryption/fraction_bits"
        )
    if encryption.scheme == "paillier":
        bits = encryption.key_bits
        if not SMALLEST_KEY_BITS <= bits <= MAX_KEY_BITS or bits % 16:
            raise InvalidInput(
                f"a Paillier key has {SMALLEST_KEY_BITS} to {MAX_KEY_BITS} bits, a multiple of "
                f"16; found {bits}",
                pointer="/problem/encryption/key_bits",
            )
    parameters = secure_sum.Parameters(
        dimension=problem.dimension(),
        rounds=problem.way.iterations,
        bound=bound,
        scheme=encryption.scheme,
        key_bits=encryption.key_bits,
        fraction_bits=encryption.fraction_bits,
        slot_bits=encryption.slot_bits,
        colluding=encryption.colluding,
        noise_sigma=0.0 if event is None else event.scale * 2.0**-encryption.fraction_bits,
        clip=0.0 if event is None else clip,
        exposure=None if problem.terms is None or event is not None else problem.exposure,
        tolerance=None if event is not None else problem.tolerance,
        **_bounds_of_sums(problem, units),
    )
    try:
        parameters.fixed_point(count)
    except OutOfRange as error:
        raise InvalidInput(
            f"the sums do not fit their slots, whatever the data: {error}",
            pointer="/problem/encryption/slot_bits",
        ) from None
    parameters.check(count)
    if event is not None and parameters.share_variance(count) < LEAST_SHARE_VARIANCE:
        says = "the noise is too small for the grid; more fraction_bits are needed"
        raise InvalidInput(says, pointer="/problem/encryption/fraction_bits")
    return parameters


def _bounds_of_sums(problem: CoupledQpRequest, units: Units | None) -> dict[str, Any]:
    """The limits of contributions and sums that the owner signs, in the units of the sums, if the
    request sets them."""
    public = problem.agents
    if not isinstance(public, FederatedAgents) or public.reach is None:
        return {}
    limits = {
        "reach": of_rows(public, sum(problem.rows())),
        "most": of_sums(problem.operator, public),
    }
    if units is None:
        return limits
    return {name: units.scaled(limit or ()) for name, limit in limits.items()}


# Bounds -------------------------------------------------------------------------------------------
# Limits of entries of contributions and sums: those of the slots, and those that the owner sets.
#
# Slots hold far more than any honest sum, so a number that one agent invents fits in. If the owner
# bounds one agent's entries by `agents.reach`, agents check every opened sum against the bounds of
# all together, and sign a complaint about one that is larger.

WIDER = 2.0**20
"""By how much an agent may reach beyond the operator's figure of a row, where `agents.reach` does
not say how far."""


@define(frozen=True)
class Units:
    """How the rows of `method: auto` travel, which the owner signs: times `2^exponents`, int[m].
    `figures`: |c| and |d| up to a power of two, 0 of 0."""

    exponents: tuple[int, ...]
    figures: tuple[float, ...]

    @property
    def signed(self) -> dict[str, Any]:
        return {"exponents": list(self.exponents), "figures": list(self.figures)}

    def scaled(self, figures: Sequence[float]) -> tuple[float, ...]:
        """Natural figures of the rows in the units of the sums."""
        return tuple(math.ldexp(one, k) for one, k in zip(figures, self.exponents, strict=True))


def units_of(operator: OperatorData, reach: Sequence[float] | None, bound: float) -> Units:
    """Such that an agent's reach, float[m], and the operator's figure fit below `bound`."""
    figures = tuple(map(_rounded_up, (*operator.c, *operator.d)))
    if reach is None:
        # The rows of the objective share a unit, so that one without a figure has that of others.
        coupled = max(figures[: len(operator.c)], default=0.0)
        reach = [
            WIDER * (one or (coupled if row < len(operator.c) else 0.0))
            for row, one in enumerate(figures)
        ]
    largest = map(max, zip(reach, figures, strict=True))
    return Units(tuple(exponent(bound, one) for one in largest), figures)


def check_grid(
    operator: OperatorData,
    units: Units,
    taken: Sequence[float] | Floats,
    rounding: float,
    tolerance: float | None,
) -> None:
    """InvalidInput that names a row whose sums are too coarse for what the agents are likely to
    take of it, float[m]; `rounding` of an entry of a sum."""
    if tolerance is None:
        return
    for row, (k, largest) in enumerate(zip(units.exponents, taken, strict=True)):
        step = math.ldexp(rounding, -k)
        if largest > 0 and step > tolerance * largest:
            coupled = row < len(operator.c)
            place = row if coupled else row - len(operator.c)
            raise InvalidInput(
                f"the slots hold what an agent can reach in this row, or this figure, only in "
                f"steps of {step:.3g}, and all agents take about {largest:.3g} of it: make boxes "
                "narrower, take what is fixed out of the row, or add it to what agents take",
                pointer=f"/problem/operator/{'c' if coupled else 'd'}/{place}",
            )


def _rounded_up(value: float) -> float:
    """The next power of two: agents are told it."""
    if not value:
        return 0.0
    mantissa, power = math.frexp(abs(value))
    return math.ldexp(1.0, power - (mantissa == 0.5))


def of_slots(encryption: Encryption, count: int) -> float:
    """The largest entry that the slots can hold from each of this many agents and the operator."""
    spare = 3 + math.ceil(math.log2(count + 1))
    return 2.0 ** (encryption.slot_bits - spare - encryption.fraction_bits)


def check_federated(
    operator: OperatorData,
    public: FederatedAgents,
    encryption: Encryption,
    noise: SumNoise | None,
    *,
    scaled: bool,
) -> None:
    """InvalidInput for entries that the slots cannot hold, and for bounds that do not fit the
    problem. `scaled`: rows travel in units in which they fit."""
    largest = math.inf if scaled else of_slots(encryption, public.count)
    beyond = f"is beyond {largest:g}, which the slots hold of {public.count} agents"
    for name in ("c", "d"):
        for place, value in enumerate(getattr(operator, name)):
            if abs(value) > largest:
                raise InvalidInput(
                    f"{value:g} {beyond}", pointer=f"/problem/operator/{name}/{place}"
                )
    if noise is not None:
        if noise.clip is None:
            says = "needed: nobody sees the boxes to derive it from"
            raise InvalidInput(says, pointer="/problem/noise/clip")
        # An agent with a longer contribution would have to give up, which would reveal something
        # about its data.
        if noise.clip > largest:
            raise InvalidInput(f"{noise.clip:g} {beyond}", pointer="/problem/noise/clip")
        if public.reach is not None:
            says = "with noise in the sums noise.clip bounds what an agent contributes"
            raise InvalidInput(says, pointer="/problem/agents/reach")
    rows = len(operator.c) + len(operator.d)
    if isinstance(public.reach, tuple) and len(public.reach) != rows:
        says = f"{len(public.reach)} numbers for {rows} rows: give one a row, or one for all"
        raise InvalidInput(says, pointer="/problem/agents/reach")
    for place, value in enumerate(of_rows(public, rows) or ()):
        if value > largest:
            where = f"/{place}" if isinstance(public.reach, tuple) else ""
            raise InvalidInput(f"{value:g} {beyond}", pointer=f"/problem/agents/reach{where}")


def of_rows(public: FederatedAgents, rows: int) -> tuple[float, ...] | None:
    """The largest magnitude of each entry of a contribution; None if the owner sets none."""
    if public.reach is None or isinstance(public.reach, tuple):
        return public.reach
    return (public.reach,) * rows


def of_sums(operator: OperatorData, public: FederatedAgents) -> tuple[float, ...] | None:
    """The largest magnitude of each entry of a sum, including the operator's part, float[rows]."""
    own = (*operator.c, *operator.d)
    reach = of_rows(public, len(own))
    if reach is None:
        return None
    return tuple(
        public.count * most + _rounded_up(value) for most, value in zip(reach, own, strict=True)
    )


# Noise --------------------------------------------------------------------------------------------
# Noise inside the sums: its amount for a budget, and the number of agents from which on it leaves
# an answer.


def noise_event(
    budget: Budget, *, agents: int, rounds: int, dimension: int, clip: float, fraction_bits: int
) -> DiscreteGaussian:
    """The noise of all rounds together. Contributions of one agent are vectors of l2 norm at most
    the clip, on the grid (rounded toward zero): replacing them by another agent's moves a sum by at
    most twice that. This holds whatever the agent's cost and set: x is a point of its box, found by
    the agent itself, and the contribution is scaled to the clip afterwards. A steep cost moves x
    farther within the box but does not change the sensitivity, so no Lipschitz constant is needed;
    a cost only must have a slope everywhere in the box, or x would not be a number
    (`discreet_client.cost_terms`). What an agent sends depends on its data and on the opened sums,
    noise included, so the rounds compose adaptively.
    """
    if clip == 0:
        raise InvalidInput(
            "contributions that are always zero need no noise", pointer="/problem/noise"
        )
    try:
        event = calibration.discrete_gaussian(
            2 * math.ldexp(clip, fraction_bits) * (1 + 1e-12),
            budget.epsilon,
            budget.delta,
            neighbours="one agent's data replaced by any other, and with them its contributions to "
            "all rounds",
            count=rounds,
        )
    except ValueError as error:
        raise InvalidInput(str(error), pointer="/problem/noise/epsilon") from None
    deviation = event.scale * 2.0**-fraction_bits
    length = deviation * math.sqrt(dimension)
    needed = math.ceil(length / (exposure.USEFUL_NOISE * clip))
    if agents < needed:
        raise InvalidInput(
            f"with {agents} agents the answer would be noise: over {rounds} rounds each of the "
            f"{dimension} entries of a sum gets noise of standard deviation {deviation:.3g}, and "
            f"{agents} contributions of norm at most {clip:.3g} sum to at most "
            f"{agents * clip:.3g}; at least {needed} agents are needed, or fewer iterations, or a "
            "larger epsilon",
            pointer="/problem/noise",
        )
    return event
