"""Coupled quadratic programs: agents that share a feeder, a link, a budget, and show each other
nothing but sums.

`min ½|Σ A_u,i x_i + c|² + Σ (|A_q,i x_i|² + a_l,i·x_i)`, `lower_i <= x_i <= upper_i`, `Σ A_g,i x_i
+ d <= 0` (Huo & Liu, eqs 1 and 22 without the constants). What couples the agents are the two sums;
in each round every agent learns these and nothing else, the operator nothing at all:
`discreet_client.secure_sum`. The guarantee is cryptographic, so a job has no privacy budget, unless
`noise` asks for sums that are private in themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discreet.errors import InvalidInput
from discreet.intake.items import InPieces
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.privacy.noise import Noise
from discreet.problems.base import Neighbours
from discreet.problems.contents import Content, Mode, Progress, Released
from discreet.problems.coupled_qp import bounds, checks, examples, exposure, methods, on_shares
from discreet.problems.coupled_qp.data import (
    AgentData,
    Encryption,
    FederatedAgents,
    OperatorData,
    QpSteps,
    SumNoise,
    Tolerance,
    part_of,
    sides_of,
)
from discreet.problems.coupled_qp.noise import noise_event
from discreet.problems.coupled_qp.result import CoupledQpResult, status_of
from discreet.problems.coupled_qp.session import SumSession
from discreet.problems.federation import ROUNDS_ARE_SEEN, FederatedProblem, Member, Session
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.plans import NoiseSummary, Plan, Resources
from discreet.problems.results import Output, Result
from discreet.solvers.saddle.spds import Part
from discreet_client import secure_sum
from discreet_client.exposure import Exposure as Accepted
from discreet_client.packing import OutOfRange, box_bound
from discreet_client.paillier import SMALLEST_KEY_BITS

MAX_KEY_BITS = 8192
LEAST_SHARE_VARIANCE = 100
"""Of an agent's noise on the grid: shares sum to a discrete Gaussian but for e^-900 (Kairouz et al.
2021, Lemma 10)."""

SETUP_EXCHANGES = 4
"""Of a session, beside one a round: HELLO, DEAL, ACK, and TRANSCRIPT at the end."""


class CoupledQp(FederatedProblem):
    """Agents minimize a joint quadratic cost under joint constraints, over sums that only they can
    open.

    `protocol: job` runs operator and agents in one process, with all data at the server: for `mode:
    simulation` alone.
    """

    title: ClassVar[str] = "Coupled quadratic program"
    private: ClassVar[str] = (
        "each agent's variables and costs, from the server; from other agents in a crowd only"
    )
    published: ClassVar[str] = "nothing but encrypted sums; each agent learns its own optimum"
    seen_by_the_server: ClassVar[str] = (
        "What an agent sends is masked or encrypted: the server opens no single message."
    )
    Dataset: ClassVar[None] = None
    Fields: ClassVar[Any] = CoupledQpResult

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
    mpc: on_shares.ShareBounds | None = Field(
        default=None, description="Public bounds, needed with protocol `mpc`"
    )
    signs_parameters: ClassVar[bool] = True
    failures: ClassVar[dict[str, str]] = {
        "protocol_broken": "a message did not follow the protocol of the sums; nothing was opened "
        "of that round",
        "sum_out_of_bounds": "agents have signed that a sum was larger than the bounds that the owner "
        "has signed let it be: an agent has contributed more than it may, or the server has added "
        "something; x of that round is no optimum",
        **on_shares.FAILURES,
    }

    @model_validator(mode="after")
    def _fields_of_the_protocol(self) -> Self:
        if not on_shares.check_fields(self):
            _ = self.way  # the method fits what is given
        return self

    @classmethod
    def example(cls) -> dict[str, Any]:
        return examples.example()

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        """None: nothing is released by a mechanism. What the sums show is attacked in
        tests/clients/attacks."""
        return ()

    def budget(self, privacy: Privacy | None) -> Budget:
        """The budget of the noise; a request has no `privacy`."""
        if privacy is not None:
            raise InvalidInput(
                "the guarantee of coupled_qp is cryptographic: leave privacy out; for sums with "
                "noise give "
                "problem.noise its epsilon and delta",
                pointer="/privacy",
            )
        if self.noise is None:
            return Budget(epsilon=0, delta=0)
        return Privacy(epsilon=self.noise.epsilon, delta=self.noise.delta).budget

    @property
    def way(self) -> methods.Method:
        """The method that is named, or that follows from what is given."""
        return methods.method_of(self.method, self.steps, noise=self.noise is not None)

    # Planning

    @on_shares.instead(on_shares.plan)
    def plan(self, public: None, budget: Budget) -> Plan:
        """Raises InvalidInput for everything that keeps the agents from agreeing on these sums."""
        if self.protocol == "federated":
            raise InvalidInput(
                "a federated job is planned with its agents", pointer="/problem/protocol"
            )
        agents = self._data()
        if self.mode != "simulation":
            raise InvalidInput(
                "with protocol `job` all data lie at the server: declare them public with mode "
                "`simulation`, or use "
                "protocol `federated`",
                pointer="/problem/mode",
            )
        checks.refuse_few(len(agents))
        checks.check_shapes(self.operator, agents, self._coefficients())
        self.way.check(len(agents), sum(self._rows()))
        parts = [part_of(agent) for agent in agents]
        reach = [
            box_bound(np.vstack([part.A_u, part.A_g]), *sides_of(agent))
            for part, agent in zip(parts, agents, strict=True)
        ]
        bound = max(
            float(np.max(np.abs([*self.operator.c, *self.operator.d]))),
            *(float(one.max()) for one in reach),
        )
        bound = self.way.bound(bound, bounds.of_slots(self.encryption, len(agents)))
        clip = max(float(np.linalg.norm(one)) for one in reach)
        if self.noise is not None and self.noise.clip is not None:
            clip = min(clip, self.noise.clip)
        plan = self._plan(len(agents), bound, clip, budget)
        checks.check_feasible(self.operator, parts, agents)
        self.way.check_parts(parts)
        checks.check_time(
            self.encryption,
            len(agents),
            self._dimension(),
            self._coefficients(),
            self.way.iterations,
        )
        return plan

    def _plan(self, count: int, bound: float, clip: float, budget: Budget) -> Plan:
        """The plan of `count` agents whose contributions have entries up to `bound` and norms up to
        `clip`."""
        event = None
        if self.noise is not None:
            event = noise_event(
                budget,
                agents=count,
                rounds=self.way.iterations,
                dimension=self._dimension(),
                clip=clip,
                fraction_bits=self.encryption.fraction_bits,
            )
        sums = self._parameters(count, bound, event, clip)
        shown = None if self.terms is None else exposure.of_sums(sums, count)
        neighbours = exposure.HIDDEN if self.terms is None else exposure.protects(sums, count)
        noise: tuple[NoiseSummary, ...] = ()
        if event is not None:
            neighbours = event.neighbours
            noise = (
                NoiseSummary.of(
                    event, "each entry of each opened sum", 2.0**self.encryption.fraction_bits
                ),
            )
        return Plan.priced(
            [] if event is None else [event],
            noise=noise,
            iterations={"rounds": self.way.iterations},
            resources=Resources(
                release_quantum_seconds=0.5,
                memory_bytes=(1 << 28) + 8 * count * count * 200 + 64 * self._coefficients(),
                steps=1 if self.terms is None else SETUP_EXCHANGES + self.way.iterations,
            ),
            unit="agent",
            neighbours=neighbours,
            exposure=shown,
            assumptions=(
                f"at least two agents are honest and at most {self.encryption.colluding} pool what "
                "they know, with or "
                "without the operator",
                "the owner signs the right roster",
                "the sum of every round is seen by every agent",
                *([] if self.terms is None else [ROUNDS_ARE_SEEN]),
            ),
            parameters={
                "protocol": secure_sum.PROTOCOL,
                "agents": count,
                "coupled": self._rows()[0],
                "constraints": self._rows()[1],
                "sums": sums.fields,
                **self.way.signed,
            },
        )

    def _parameters(
        self, count: int, bound: float, event: DiscreteGaussian | None, clip: float
    ) -> secure_sum.Parameters:
        encryption = self.encryption
        if encryption.colluding > count - 2:
            says = f"of {count} agents 1 to {count - 2} may collude, not {encryption.colluding}"
            raise InvalidInput(says, pointer="/problem/encryption/colluding")
        if encryption.scheme == "masking" and encryption.slot_bits != 64:
            raise InvalidInput(
                "masking adds modulo 2^64: slot_bits is 64", pointer="/problem/encryption/slot_bits"
            )
        if encryption.fraction_bits >= encryption.slot_bits:
            raise InvalidInput(
                "fraction_bits is below slot_bits", pointer="/problem/encryption/fraction_bits"
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
            dimension=self._dimension(),
            operator_from=self.way.operator_from,
            rounds=self.way.iterations,
            bound=bound,
            scheme=encryption.scheme,
            key_bits=encryption.key_bits,
            fraction_bits=encryption.fraction_bits,
            slot_bits=encryption.slot_bits,
            colluding=encryption.colluding,
            noise_sigma=0.0 if event is None else event.scale * 2.0**-encryption.fraction_bits,
            clip=0.0 if event is None else clip,
            exposure=None if self.terms is None or event is not None else self.exposure,
            tolerance=None if event is not None else self.tolerance,
            **self._bounds_of_sums(),
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

    def _bounds_of_sums(self) -> dict[str, Any]:
        public = self.agents
        if not isinstance(public, FederatedAgents) or public.reach is None:
            return {}
        return {
            "reach": bounds.of_rows(public, sum(self._rows())),
            "most": bounds.of_sums(self.operator, public),
        }

    # Federated

    def check_announcement(self, announcement: Any) -> None:
        of_shares = self.protocol == on_shares.PROTOCOL_NAME
        (on_shares.check_announcement if of_shares else super().check_announcement)(announcement)

    @on_shares.instead(on_shares.plan_federation)
    def plan_federation(self, agents: Sequence[Member], budget: Budget) -> Plan:
        """The same plan with and without the roster: what is summed is fixed with the job, agents
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
                "an agent that is missing ends the job: the sum with it less the next one without "
                "it would nearly be "
                "its value",
                pointer="/problem/federation/on_missing",
            )
        checks.check_rows(self.operator, public)
        self.way.check_federated(public.count, sum(self._rows()))
        bounds.check_federated(self.operator, public, self.encryption, self.noise)
        bound = bounds.of_slots(self.encryption, public.count)
        clip = 0.0 if self.noise is None or self.noise.clip is None else self.noise.clip
        plan = self._plan(public.count, bound, clip, budget)
        exposure.refuse_exposed(secure_sum.Parameters(**plan.parameters["sums"]), public.count)
        return plan

    @on_shares.instead(on_shares.answer_bytes)
    def answer_bytes(self, plan: Plan, agents: int) -> int:
        return secure_sum.longest_answer(secure_sum.Parameters(**plan.parameters["sums"]), agents)

    @on_shares.instead(on_shares.open_session)
    def open_session(self, plan: Plan, agents: Sequence[Member]) -> Session:
        return SumSession(plan, agents, self._own())

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

    def _rows(self) -> tuple[int, int]:
        return len(self.operator.c), len(self.operator.d)

    def _dimension(self) -> int:
        return sum(self._rows()) + self.way.added

    def _own(self) -> NDArray[np.float64]:
        return self.way.own(np.array([*self.operator.c, *self.operator.d]))

    def _coefficients(self) -> int:
        if isinstance(self.agents, FederatedAgents):
            return self.agents.count * self._dimension()
        return sum(len(agent.a_l) * (self._dimension() + len(agent.A_q)) for agent in self.agents)

    def plain_parts(self) -> list[Part]:
        """The agents' data as the plaintext solver reads them, with protocol `job`."""
        return [part_of(agent) for agent in self._data()]

    # Running

    @on_shares.instead(on_shares.release)
    def release(self, public: None, plan: Plan, content: Content, noise: Noise) -> Released:
        """The protocol itself, operator and agents in this process; keys, masks and noise are drawn
        from the operating system, never from `noise`.
        """
        sums = secure_sum.Parameters(**plan.parameters["sums"])
        agents = self.way.updates(self.plain_parts(), sums)
        outcome = secure_sum.run_in_process(agents, self._own(), sums)
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
        violation = float(np.max(excess, initial=0.0))
        progress(1, 1)
        return Result.of(
            self.Fields,
            {
                **status_of(released.get("settled")),
                "x": Output(lambda: [one.tolist() for one in x], numbers=released["x"].size),
                "multipliers": released["multipliers"],
                "objective": float(coupled @ coupled) / 2 + cost,
                "violation": violation,
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
