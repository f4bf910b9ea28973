"""A kind for tests only: every round the agents send an integer, and the noised sum goes to all."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from discreet import problems
from discreet.errors import InvalidInput
from discreet.privacy.calibration import discrete_laplace
from discreet.privacy.noise import Noise
from discreet.problems.base import Neighbours
from discreet.problems.contents import Content, Progress, Released, pack, unpack
from discreet.problems.federation import (
    FederatedProblem,
    FederationTerms,
    Member,
    Session,
    SessionFailed,
)
from discreet.problems.numbers import Budget, Positive
from discreet.problems.plans import Plan, Resources
from discreet.problems.results import Output, Result

NUMBER = struct.Struct("!q")
MOST = 1000
"""An agent's message is within ±MOST."""


class NoisySum(FederatedProblem):
    """Sums of the agents' integers. `forbidden`: a sum that ends the job, as a kind's own failure;
    `crash_at`: the round whose step ends by a signal; `exact`: no noise, as a kind whose guarantee
    is cryptographic."""

    title = "Noisy sum"
    kind: Literal["noisy_sum"] = "noisy_sum"
    failures = {"forbidden_sum": "the sum is not allowed"}  # noqa: RUF012
    mode: Literal["private", "simulation"] = "private"
    rounds: Positive = 3
    forbidden: int | None = None
    crash_at: int | None = None
    exact: bool = False

    @classmethod
    def example(cls) -> dict[str, Any]:
        """For the API's documentation."""
        problem = {"kind": "noisy_sum", "protocol": "federated", "federation": {"agents": 2}}
        return {"problem": problem, "privacy": {"epsilon": 0.5}}

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        raise NotImplementedError

    def plan(self, public: Any, budget: Budget) -> Plan:
        raise NotImplementedError

    def release(self, public: Any, plan: Plan, content: Content, noise: Noise) -> Released:
        raise NotImplementedError

    def check_announcement(self, announcement: Any) -> None:
        if set(announcement) - {"zone"}:
            raise InvalidInput("only `zone` is asked for")

    def plan_federation(self, agents: Sequence[Member], budget: Budget) -> Plan:
        event = discrete_laplace(2 * MOST, budget.epsilon, neighbours="replace", count=self.rounds)
        return Plan.priced(
            () if self.exact else (event,),
            noise=(),
            iterations={"rounds": self.rounds},
            resources=Resources(release_quantum_seconds=1, memory_bytes=1 << 20, steps=self.rounds),
            unit="trajectory",
            neighbours="one agent's integers differ",
            parameters={"rounds": self.rounds, "agents": len(agents)},
        )

    @classmethod
    def rehearse_session(cls) -> None:
        terms = FederationTerms(agents=1)
        problem = cls(protocol="federated", federation=terms, rounds=1)
        member = Member("00" * 32, "a", bytes(32), {})
        plan = problem.plan_federation([member], Budget(epsilon=10**9, delta=0))
        session = problem.open_session(plan, [member])
        session.opening(Noise.secure())
        session.step(0, {member.fingerprint: NUMBER.pack(1)}, Noise.secure())
        session.restore(session.state())
        released = unpack(pack(session.released()))
        problem.finish(
            None,
            Plan.model_validate_json(plan.model_dump_json()),
            released,
            lambda step, total: None,
        )

    def answer_bytes(self, plan: Plan, agents: int) -> int:
        return NUMBER.size

    def open_session(self, plan: Plan, agents: Sequence[Member]) -> Session:
        return Sums(self, plan, agents)

    def finish(self, public: Any, plan: Plan, released: Released, progress: Progress) -> Result:
        sums = released["sums"].tolist()
        return Result(
            {"sums": Output(lambda: sums), "agents": Output(lambda: plan.parameters["agents"])}
        )


class Sums(Session):
    def __init__(self, problem: NoisySum, plan: Plan, agents: Sequence[Member]) -> None:
        self._problem, self._plan = problem, plan
        self.rounds = problem.rounds
        self._sums: list[int] = []

    def opening(self, noise: Noise) -> bytes:
        return b"begin"

    def fault(self, number: int, agent: str, message: bytes) -> str:
        sound = len(message) == NUMBER.size and abs(NUMBER.unpack(message)[0]) <= MOST
        return "" if sound else "wrong_form"

    def step(self, number: int, messages: Mapping[str, bytes], noise: Noise) -> bytes:
        assert number == len(self._sums)
        if number == self._problem.crash_at:
            ctypes.string_at(0)
        total = np.array([sum(NUMBER.unpack(message)[0] for message in messages.values())])
        if total[0] == self._problem.forbidden:
            raise SessionFailed("forbidden_sum")
        if self._problem.mode == "private" and not self._problem.exact:
            total = noise.add(self._plan.events[0], total)
        self._sums.append(int(total[0]))
        return NUMBER.pack(self._sums[-1])

    def state(self) -> bytes:
        return b"".join(NUMBER.pack(one) for one in self._sums)

    def restore(self, state: bytes) -> None:
        self._sums = [one for (one,) in NUMBER.iter_unpack(state)]

    def released(self) -> Released:
        return {"sums": np.array(self._sums, dtype=np.int64)}


def register() -> None:
    """For a process of its own; a test's process is shared with tests that walk all kinds:
    `registered`."""
    problems.KINDS["noisy_sum"] = NoisySum


@contextmanager
def registered() -> Iterator[None]:
    """The kind is known inside."""
    register()
    try:
        yield
    finally:
        del problems.KINDS["noisy_sum"]
