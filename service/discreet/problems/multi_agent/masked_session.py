"""The cloud of a session whose agents add masked contributions: it opens their sums alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.federation import Member, SessionFailed
from discreet.problems.multi_agent.masked import Cloud
from discreet.problems.multi_agent.session import CloudSession, doubles
from discreet.problems.plans import Plan
from discreet.solvers.saddle import saddle_point
from discreet.solvers.saddle.saddle_kernels import Outputs
from discreet_client.expressions import Expression
from discreet_client.federation import history
from discreet_client.packing import Integers
from discreet_client.secure_sum.errors import Missing, SecureSumError, Tampered
from discreet_client.sparse_sum import exchanges
from discreet_client.sparse_sum.conversation import SETTING_UP, Conductor, Step
from discreet_client.sparse_sum.wire import bitmap

SETTING_UP_SAYS = b"masks"
"""The broadcast of an exchange of the setup: shorter than any of a session without masks, so an
agent that knows only those stops."""


class MaskedSession(CloudSession):
    """The cloud of masked sums: four exchanges a step, in which single agents are delivered what
    `discreet_client.sparse_sum.Conductor` has for them.

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
