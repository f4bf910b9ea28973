"""Sums over masked contributions instead of states: what the owner signs of them, and what the
cloud knows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import Field, model_validator

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.field_issues import FieldError
from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.noise import Noise
from discreet.problems.contents import pack, unpack
from discreet.problems.federation import FederatedProblem, Member, SessionFailed
from discreet.problems.multi_agent.dataset import Floats, MultiAgentPublic, SessionAnnouncement
from discreet.problems.multi_agent.joint_noise import JointNoise
from discreet.problems.multi_agent.request import MultiAgentRequest
from discreet.problems.multi_agent.session import CloudSession, doubles
from discreet.problems.numbers import Budget, Positive
from discreet.problems.plans import Plan
from discreet.solvers.saddle import saddle_point
from discreet.solvers.saddle.intervals import Box
from discreet.solvers.saddle.saddle_point import Outputs
from discreet_agent import sparse_sum
from discreet_agent.exposure import MOST_ROUNDS
from discreet_agent.expressions import Expression, gradient, value
from discreet_agent.federation import history, signing, spoken
from discreet_agent.packing import Integers
from discreet_agent.secure_sum.errors import Missing, SecureSumError, Tampered, Unacceptable
from discreet_agent.secure_sum.noise import NOISE_TAIL
from discreet_agent.sparse_sum import exchanges
from discreet_agent.sparse_sum import exchanges as sparse
from discreet_agent.sparse_sum.conversation import SETTING_UP, Conductor, Step
from discreet_agent.sparse_sum.plan import SECURITY_BITS
from discreet_agent.sparse_sum.wire import bitmap

MOST_SUMS = 10_000
"""Steps of a job with masks: each is four exchanges of all agents."""
SEEN = (
    "The cloud sees the agents' sums with noise in them; an agent's own part is masked. The result "
    "says who was in each sum."
)
FAILURES = {
    "setup_incomplete": "an agent of the roster did not take part in setting up the masks: this "
    "takes all of them; no sum was opened",
    "sum_lost": "more agents dropped in one round than the masks allow, or one sent what does not "
    "fit: that sum cannot be opened, and agents answer in no round twice",
}


def demanded(steps: int) -> tuple[str, ...]:
    """What agents must be told to ask, for a job of so many steps."""
    if steps <= MOST_ROUNDS:
        return ()
    says = f"agents answer at most {MOST_ROUNDS:,} sums unless their demands allow more: {steps:,}"
    return (f"{says} need `rounds` there",)


def check_linear(constraints: Sequence[Expression]) -> None:
    """InvalidInput unless all derivatives are constants: then every agent can add its own part of a
    value, and knows its own derivatives."""
    issues = [
        FieldIssue(
            f"/problem/constraints/{k}",
            "must be linear in the states with masks `sparse`: agents add up their own parts of it",
        )
        for k, constraint in enumerate(constraints)
        if any(slope.names for slope in gradient(constraint).values())
    ]
    if issues:
        raise InvalidInput(issues)


def signed(
    constraints: Sequence[Expression],
    public: MultiAgentPublic,
    box: Box,
    joint: JointNoise,
    event: Gaussian,
    terms: tuple[int, int],
    steps: int,
) -> dict[str, Any]:
    """What the owner signs of the sums beside units and layout: their plan, the derivatives in the
    order of the layout, and grid and scale of the noise. `terms`: fewest agents of a round, and how
    many may collude with the cloud.

    The noise of an agent is in each sum in which it is; what the fewest honest ones add is that of
    the event. InvalidInput where no graph of masks bears these terms, or sums do not fit 64 bits.
    """
    agents, (least, colluding) = len(public.agents), terms
    slopes = [gradient(constraint) for constraint in constraints]
    derivatives = [
        value(slopes[k][name], {}) if name in slopes[k] else 0.0
        for k, name in joint.layout
        if name is not None
    ]
    try:
        plan = sparse_sum.Plan.of(
            agents,
            joint.width,
            steps,
            corrupt=colluding,
            dropping=max(0, agents - least),
            variance=(Fraction(event.scale) / Fraction(event.grid)) ** 2,
        )
    except Unacceptable as error:
        raise InvalidInput(
            f"masked sums of {agents} agents, {least} at least in each, of which {colluding} may "
            f"collude with the cloud: {error}",
            pointer="/problem/federation/quorum",
        ) from None
    sums = {
        **exchanges.signed_plan(plan),
        "derivatives": derivatives,
        "grid": event.grid,
        "scale": event.scale,
    }
    _check_size(box, joint, sums, plan)
    return sums


def _check_size(box: Box, joint: JointNoise, sums: dict[str, Any], plan: sparse_sum.Plan) -> None:
    count = sum(name is None for _, name in joint.layout)
    largest = np.zeros(count)
    for (k, name), entry in zip(joint.layout[count:], sums["derivatives"], strict=True):
        largest[k] += abs(entry) * max(map(abs, box[name]))
    units = joint.units[:count]
    used = units > 0
    words = np.max(largest[used] / (units[used] * sums["grid"]), initial=0.0)
    noise = NOISE_TAIL * plan.agents * math.sqrt(plan.variance)
    if not words + noise + plan.agents < 2.0**62:
        raise InvalidInput(
            "the sums do not fit into 64 bits: terms are too large for what agents change in them",
            pointer="/problem/constraints",
        )


@dataclass(frozen=True)
class Cloud:
    """What the cloud needs to make outputs of a sum. `at_zero`: float64[m], the constraints without
    any agent; `parts`: float64[m, n], their derivatives; `units`: float64[m], of the values, in
    which a sum counts; `derivatives`: as the outputs have them."""

    at_zero: Floats
    parts: Floats
    units: Floats
    derivatives: Floats

    @classmethod
    def of(cls, constraints: Sequence[Expression], names: Sequence[str], plan: Plan) -> Cloud:
        parameters = plan.parameters
        m, place = len(constraints), {name: at for at, name in enumerate(names)}
        parts = np.zeros((m, len(names)))
        derivatives = np.array(parameters["sums"]["derivatives"], dtype=np.float64)
        for (k, name), entry in zip(parameters["layout"][m:], derivatives.tolist(), strict=True):
            parts[k, place[name]] = entry
        zero = dict.fromkeys(names, 0.0)
        return cls(
            np.array([value(constraint, zero) for constraint in constraints]),
            parts,
            np.array(parameters["units"][:m]) * parameters["sums"]["grid"],
            derivatives,
        )

    def outputs(self, total: Any, absent: Floats) -> Floats:
        """float64[o]: the noised values and the derivatives. `total`: int64[dimension], the sum
        over those who were in it; `absent`: float64[n], the public states of those who were not, 0
        elsewhere."""
        values = self.at_zero + self.parts @ absent
        used = self.units > 0
        values[used] += self.units[used] * np.asarray(total, dtype=np.float64)
        return np.concatenate([values, self.derivatives])


def largest_noise(plan: Plan) -> float:
    """How much larger than the event's the noise is when all agents are in a sum, and honest."""
    if "sums" not in plan.parameters:
        return 1.0
    sums = plan.parameters["sums"]
    masks = exchanges.plan_of(sums)
    return math.sqrt(masks.variance * masks.agents) * float(sums["grid"]) / float(sums["scale"])


def assumptions(plan: sparse_sum.Plan) -> tuple[str, ...]:
    """What the guarantee takes for granted, for plan and certificate."""
    return (
        f"at most {plan.corrupt} of {plan.agents} agents, chosen before the masks are set up, pool "
        "what they know with the cloud, which may lie",
        f"the cloud opens sums of at least {plan.minimum} agents, each with its share of the "
        f"noise, and nothing of a single agent; that its graph of masks does not hide them has a "
        f"probability of at most 2^-{SECURITY_BITS}, which is in delta",
        "an agent's folder is not put back from a copy",
        "the owner signs the right roster",
    )


def certified_terms(plan: Plan) -> dict[str, Any]:
    """For the certificate."""
    masks = exchanges.plan_of(plan.parameters["sums"])
    return {
        "sums": {
            "protocol": plan.parameters["sums"]["protocol"],
            "agents": masks.agents,
            "least": masks.minimum,
            "colluding": masks.corrupt,
            "neighbours": masks.neighbours,
            "threshold": masks.threshold,
            "jurors": masks.jurors,
            "quorum": masks.quorum,
            "failure": f"2^-{SECURITY_BITS}",
        }
    }


# Masked request -----------------------------------------------------------------------------------
# The fields of masked sums, and what follows from them for a session.


class MaskedRequest(MultiAgentRequest):
    """A multi-agent problem whose agents may mask what they send."""

    masks: Literal["none", "sparse"] = Field(
        default="none",
        exclude_if=lambda value: value == "none",
        description="With protocol `federated`: `none`: agents send the cloud their states. "
        "`sparse`: they send masked parts of the constraints' values with noise in them, of which "
        "the cloud opens the sums alone, also when agents drop; constraints are linear then",
    )
    colluding: Positive | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="With masks: the most agents that may pool what they know with the cloud; 1 by "
        "default",
    )

    @model_validator(mode="after")
    def _masks_are_of_sessions(self) -> Self:
        if self.masks == "none" and self.colluding is not None:
            raise FieldError("colluding", "goes with masks `sparse`")
        if self.masks == "sparse" and self.protocol != "federated":
            raise FieldError("masks", "go with protocol `federated`: agents mask what they send")
        if self.masks == "sparse" and self.schedule.iterations > MOST_SUMS:
            raise FieldError(
                "schedule/iterations",
                f"at most {MOST_SUMS} with masks: each is a sum",
            )
        return self

    failures: ClassVar[dict[str, str]] = FAILURES

    @property
    def exchanges(self) -> int:
        """Broadcasts and their answers before the agents sign."""
        steps = self.schedule.iterations
        return sparse.exchanges(steps) if self.masks == "sparse" else steps

    @property
    def server_sees(self) -> str:
        return self.seen_by_the_server if self.masks == "none" else SEEN

    @property
    def needed(self) -> tuple[str, ...]:
        return (spoken.SPARSE_SUMS if self.masks == "sparse" else spoken.MULTI_AGENT,)

    @property
    def signs_parameters(self) -> bool:
        return self.masks == "sparse"

    @property
    def parameters_of_roster(self) -> bool:
        return self.masks == "sparse"

    @property
    def begins_with_all(self) -> bool:
        return self.masks == "sparse"

    @property
    def first_round_with_data(self) -> int:
        return sparse.SETTING_UP if self.masks == "sparse" else 0

    def enough(self, number: int, plan: Plan) -> int | None:
        if self.masks == "none" or not sparse.SETTING_UP <= number < self.exchanges:
            return None
        step, _ = sparse.step_of(number)
        masks = sparse.plan_of(plan.parameters["sums"])
        return masks.quorum if step is Step.VOTE else masks.minimum

    def certified_terms(self, plan: Plan) -> Mapping[str, Any]:
        return certified_terms(plan) if self.masks == "sparse" else {}

    def check_masks(self, announced: SessionAnnouncement) -> None:
        """FieldError unless the agent speaks as this job does: one that knows no masks would send
        its states."""
        if (announced.masks == "sparse") is (self.masks == "sparse"):
            return
        if self.masks == "sparse":
            raise FieldError(
                "masks",
                'the sums of this job are masked: an agent announces `"masks": "sparse"`, which '
                "Python agents can from this version on; others cannot take part",
            )
        raise FieldError(
            "masks",
            "this agent takes part in masked sums alone, and in this job the cloud would see its "
            "states",
        )


# Masked session -----------------------------------------------------------------------------------
# The cloud of a session whose agents add masked contributions: it opens their sums alone.

SETTING_UP_SAYS = b"masks"
"""The broadcast of an exchange of the setup: shorter than any of a session without masks, so an
agent that knows only those stops."""


class MaskedSession(CloudSession):
    """The cloud of masked sums: four exchanges a step, in which single agents are delivered what
    `discreet_agent.sparse_sum.Conductor` has for them.

    It never has a state, nor a value without noise: what it opens is the sum over an exchange's
    survivors, noise included. Who is not in a sum counts with its public middle, as in
    `CloudSession`. The first broadcast of a round has outputs, multipliers and the bitmap of those
    in the sum, in the order of the roster; the others have nothing but the chain.

    A sum that cannot be opened ends the session: agents answer a round once, and another sum of the
    same states would be one more than was priced.
    """

    def __init__(
        self,
        form: saddle_point.SaddleProblem,
        outputs: Outputs,
        schedule: saddle_point.Schedule,
        plan: Plan,
        agents: Sequence[Member],
        constraints: Sequence[Expression],
    ) -> None:
        super().__init__(form, outputs, schedule, plan, agents)
        self.masks = exchanges.plan_of(plan.parameters["sums"])
        self.rounds = exchanges.exchanges(self._steps) + 1
        self._agents = [agent.fingerprint for agent in agents]
        self._keys = [agent.key for agent in agents]
        self._place = {agent: place for place, agent in enumerate(self._agents)}
        self._cloud = Cloud.of(constraints, form.names, plan)
        self._joined: set[int] = set()
        self._conductor: Conductor | None = None
        size = (self.masks.agents + 7) // 8
        self._now["survivors"] = np.zeros((self._steps, size), dtype=np.uint8)
        self._told = SETTING_UP_SAYS

    @property
    def conductor(self) -> Conductor:
        """It begins when the roster's digest is known."""
        if self._conductor is None:
            self._conductor = Conductor(self._roster)
        return self._conductor

    @property
    def _roster(self) -> Any:
        return exchanges.roster_of(self.roster_digest, self.masks, self._keys)

    def opening(self, noise: Noise) -> bytes:
        return self._told

    def deliveries(self) -> Mapping[str, bytes]:
        conductor = self.conductor
        if conductor.done:
            return {}
        messages = dict(conductor.messages)
        if conductor.step is Step.SHARES:
            # Who has missed the group hears of it once more, and is in the next round.
            late = messages.keys() - self._joined
            messages |= dict.fromkeys(late, conductor.joining())
        return {self._agents[place]: message for place, message in messages.items()}

    def fault(self, number: int, agent: str, message: bytes) -> str:
        """Of a message that is not signed by this agent, or not due. An empty one says that the
        agent is there, and has dropped from this round, or was asked for nothing."""
        if number == self.rounds - 1:
            return "" if len(message) == history.SIGNATURE_BYTES else "wrong_form"
        return self._fault(self._place[agent], message) if message else ""

    def _fault(self, place: int, message: bytes) -> str:
        conductor = self.conductor
        group = conductor.group
        if conductor.step is Step.SHARES and place not in self._joined:
            return "" if group is not None and message == group.context else "wrong_form"
        try:
            conductor.take(place, message)
        except SecureSumError as error:
            return error.cause
        return ""

    def step(self, number: int, messages: Mapping[str, bytes], noise: Noise) -> bytes:
        if number == self.rounds - 1:
            return self._agreed(messages)
        conductor = self.conductor
        said = {self._place[agent]: body for agent, body in messages.items() if body}
        taken = {place for place, body in said.items() if not self._fault(place, body)}
        # In SHARES this is the answer of those who have missed JOIN.
        joined = taken if conductor.step in (Step.JOIN, Step.SHARES) else set()
        setting_up = conductor.step in SETTING_UP
        try:
            total = conductor.advance()
        except (Missing, Tampered) as error:
            raise SessionFailed("setup_incomplete" if setting_up else "sum_lost") from error
        self._joined |= joined
        if number == exchanges.SETTING_UP - 1 and len(self._joined) < self.masks.minimum:
            raise SessionFailed("setup_incomplete")  # the first sum would be lost, and charged
        if total is not None:
            return self._opened(exchanges.step_of(number)[1] + 1, total)
        if number + 1 < exchanges.SETTING_UP:
            return self._told
        before = history.BEGINNING
        if number + 1 > exchanges.SETTING_UP:
            before = history.after(self._told)
        self._told = before
        return self._told

    def _opened(self, k: int, total: Integers) -> bytes:
        """The sum of step k, as the first broadcast of the next round, or of the signatures."""
        summed = self.conductor.summed
        survivors = bitmap(summed, self.masks.agents)
        absent = np.zeros(len(self._form.names))
        for place, agent in enumerate(self._agents):
            if place not in summed:
                absent[self._span[agent]] = self._absent[self._span[agent]]
        self._now["survivors"][k - 1] = np.frombuffer(survivors, dtype=np.uint8)
        released = self._cloud.outputs(total, absent)
        self._follow(k, released)
        m = self._form.constraints
        figures = np.concatenate([released[:m], self._now["current"]])
        self._told = history.after(self._told) + doubles(figures) + survivors
        return self._told

    def state(self) -> bytes:
        progress = np.frombuffer(self.conductor.progress, dtype=np.uint8)
        self._now |= {
            "progress": progress,
            "joined": np.array(sorted(self._joined), dtype=np.int64),
        }
        state = super().state()
        del self._now["progress"], self._now["joined"]
        return state

    def restore(self, state: bytes) -> None:
        super().restore(state)
        self._conductor = Conductor.resume(self._roster, self._now.pop("progress").tobytes())
        self._joined = set(self._now.pop("joined").tolist())


# Masked example -----------------------------------------------------------------------------------
# A small session of masked sums, in one process: for rehearsals.


class _Agent:
    """An agent of the sums that keeps nothing: what `sparse_sum.answer` needs of one."""

    def __init__(self) -> None:
        self.identity = Ed25519PrivateKey.generate()
        self.member = Member(
            signing.fingerprint(self.public),
            "",
            self.public,
            {"lower": 0, "upper": 1, "radius": 1, "masks": "sparse"},
        )
        self.agent: sparse_sum.Agent | None = None

    @property
    def public(self) -> bytes:
        return self.identity.public_key().public_bytes_raw()

    def begin(self, roster: sparse_sum.Roster) -> None:
        self.roster = roster
        self._candidate = sparse_sum.Candidate(self.identity, roster.digest)

    def commit(self, number: int) -> bytes:
        return self._candidate.commitment

    def open(self, commitments: list[bytes]) -> sparse_sum.Member:
        return self._candidate.open(self.roster.plan, commitments)

    def join(self, members: tuple[sparse_sum.Member, ...]) -> bytes:
        group = sparse_sum.Group(self.roster.plan, members, self.roster.digest)
        self.agent = sparse_sum.Agent(self._candidate, self.roster.keys.index(self.public), group)
        return group.context


def rehearse(kind: type[FederatedProblem], schedule: dict[str, Any]) -> None:
    """From the opening to what `finish` makes of it, and back from each state."""
    agents = {one.member.fingerprint: one for one in (_Agent() for _ in range(4))}
    names = ["a", "b", "c", "d"]
    members = [
        Member(agent, name, agents[agent].public, agents[agent].member.announcement)
        for agent, name in zip(sorted(agents), names, strict=True)
    ]
    problem = kind.model_validate(
        {
            "kind": "multi_agent",
            "constraints": [" + ".join(names) + " - 2"],
            "schedule": {**schedule, "iterations": 1},
            "protocol": "federated",
            "federation": {"agents": 4},
            "masks": "sparse",
        }
    )
    plan = problem.plan_federation(members, Budget(epsilon=10**9, delta=10**15))
    session = problem.open_session(plan, members)
    assert isinstance(session, MaskedSession)
    session.opening(Noise.secure())
    for agent in agents.values():
        agent.begin(session.conductor.roster)

    def values(number: int) -> Integers:
        return np.zeros(1, dtype=np.int64)

    durable: dict[str, Any] = dict(agents)
    for number in range(session.rounds):
        told: dict[str, Any] = dict(session.deliveries())
        answers = {
            name: sparse_sum.answer(durable[name], told[name], values) if name in told else b""
            for name in agents
        }
        if number == session.rounds - 1:
            answers = dict.fromkeys(agents, bytes(history.SIGNATURE_BYTES))
        usable = {
            name: said for name, said in answers.items() if session.accepts(number, name, said)
        }
        session.step(number, usable, Noise.secure())
        session.restore(session.state())
    problem.finish(
        None,
        Plan.model_validate_json(plan.model_dump_json()),
        unpack(pack(session.released())),
        lambda step, total: None,
    )
