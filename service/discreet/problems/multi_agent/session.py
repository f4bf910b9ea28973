"""The cloud of a session of agents: it receives states and sends noised outputs."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.noise import Noise
from discreet.problems.contents import Released, pack, unpack
from discreet.problems.federation import Member, Session
from discreet.problems.multi_agent.dataset import Floats, coordinates_of
from discreet.problems.plans import Plan
from discreet.solvers.saddle import saddle_point
from discreet.solvers.saddle.saddle_point import Outputs
from discreet.solvers.saddle.set_kernels import in_closed_form
from discreet_agent.federation import history

PATH_POINTS = 100
"""Length of the multiplier path that is published; a public figure."""


STATE = struct.Struct("!d")
"""An agent's message: its state, one such double for each coordinate; after the last step its
signature of the chain of broadcasts."""


class CloudSession(Session):
    """The cloud of a federated run: it sees the states, and replies with noised outputs and
    multipliers.

    Round k - 1 brings the states x_k; the reply is the noised outputs at x_k and the multipliers of
    the next step, as big-endian doubles. The opening has only the first multipliers. Every
    broadcast begins with the digest of the one before (`discreet_agent.federation.history`). The
    round after the last step collects the agents' signatures of the end of this chain; the last
    broadcast repeats the previous one and contains all signatures, for all agents.

    A state is projected on the agent's box, budget or ball, which never increases the distance of
    two states. On polytopes only agents project: the noise covers the whole box.

    If rounds may lack agents, a missing agent's state is taken to be the midpoint of its range, or
    the point of its set nearest to that, which is public. (Its last state is secret: every round
    that used it again would increase the distance of neighbours, while the price is for using a
    state once.)
    """

    def __init__(
        self,
        form: saddle_point.SaddleProblem,
        outputs: Outputs,
        schedule: saddle_point.Schedule,
        plan: Plan,
        agents: Sequence[Member],
    ) -> None:
        self._form, self._outputs, self._schedule = form, outputs, schedule
        (event,) = plan.events
        assert isinstance(event, Gaussian)
        self._event = event
        self._steps = plan.iterations["steps"]
        self.rounds = self._steps + 1
        place = {name: position for position, name in enumerate(self._form.names)}
        self._span: dict[str, slice] = {}
        for agent in agents:
            own = coordinates_of(agent.name, agent.announcement.get("dimension"))
            self._span[agent.fingerprint] = slice(place[own[0]], place[own[0]] + len(own))
        middle = (self._form.lower + self._form.upper) / 2
        self._absent = self._form.projected(middle)
        self._closed = replace(self._form, sets=in_closed_form(self._form.sets))
        recorded = saddle_point.thinned(self._steps, PATH_POINTS)
        m, o = self._form.constraints, len(self._outputs.register)
        self._now: dict[str, NDArray[Any]] = {
            "current": np.zeros(m),
            "steps": recorded,
            "multipliers": np.zeros((len(recorded), m)),
            "outputs": np.zeros((len(recorded), o)),
            "mean_multipliers": np.zeros(m),
            "mean_outputs": np.zeros(o),
        }
        self._told = b""

    def opening(self, noise: Noise) -> bytes:
        return self._tell(history.BEGINNING, self._now["current"])

    def fault(self, number: int, agent: str, message: bytes) -> str:
        if number == self._steps:
            return "" if len(message) == history.SIGNATURE_BYTES else "wrong_form"
        span = self._span[agent]
        if len(message) != STATE.size * (span.stop - span.start):
            return "wrong_form"
        return "" if np.isfinite(state_of(message)).all() else "not_a_number"

    def step(self, number: int, messages: Mapping[str, bytes], noise: Noise) -> bytes:
        """Neighbours and sensitivity: see `MultiAgent.release`. A state outside its budget or ball
        counts as the nearest one in it, one outside its polytope's box as the nearest in that
        box."""
        k = number + 1
        if k > self._steps:
            return self._agreed(messages)
        states = self._absent.copy()
        for agent, message in messages.items():
            states[self._span[agent]] = state_of(message)
        states = self._closed.projected(states)
        drawn = grid_noise(noise, self._event, 1, saddle_point.noise_width(self._outputs))[0]
        released = saddle_point.cloud_outputs(self._form, self._outputs, states, drawn)
        self._follow(k, released)
        figures = np.concatenate([released, self._now["current"]])
        return self._tell(history.after(self._told), figures)

    def _agreed(self, messages: Mapping[str, bytes]) -> bytes:
        """The last broadcast, once more and with what agents have signed of it."""
        signatures = {agent: message.hex() for agent, message in messages.items()}
        agreement = {"history": history.after(self._told).hex(), "signatures": signatures}
        self._now["agreement"] = np.frombuffer(
            json.dumps(agreement, sort_keys=True).encode(), dtype=np.uint8
        )
        return self._told + history.packed(messages)

    def _follow(self, k: int, released: Floats) -> None:
        """Step k of the cloud, from its noised outputs."""
        now = self._now
        gamma, alpha = self._schedule.at(k)
        m = self._form.constraints
        now["current"] = np.array(
            saddle_point.cloud_step(now["current"].tolist(), released[:m].tolist(), gamma, alpha)
        )
        row = np.searchsorted(now["steps"], k)
        if now["steps"][row] == k:
            now["multipliers"][row], now["outputs"][row] = now["current"], released
        if k > self._steps // 2:
            share = 1 / (k - self._steps // 2)
            now["mean_multipliers"] += share * (now["current"] - now["mean_multipliers"])
            now["mean_outputs"] += share * (released - now["mean_outputs"])

    def _tell(self, before: bytes, figures: Floats) -> bytes:
        self._told = before + doubles(figures)
        return self._told

    def state(self) -> bytes:
        return pack({**self._now, "told": np.frombuffer(self._told, dtype=np.uint8)})

    def restore(self, state: bytes) -> None:
        self._now = unpack(state)
        self._told = self._now.pop("told").tobytes()

    def released(self) -> Released:
        """Noised outputs and multipliers, and what the agents signed about them."""
        return {
            name: array for name, array in self._now.items() if name not in ("states", "current")
        }


def grid_noise(noise: Noise, event: Gaussian, count: int, width: int) -> Floats:
    """float64[count, width]: discrete Gaussian noise in whole steps of the event's grid."""
    return noise.discrete_gaussian(event.scale / event.grid, (count, width)).astype(np.float64)


def state_of(message: bytes) -> Floats:
    """float64[coordinates], of an agent's message."""
    return np.frombuffer(message, dtype=">f8").astype(np.float64)


def doubles(values: Floats) -> bytes:
    """Big-endian doubles, as they are broadcast."""
    return values.astype(">f8").tobytes()
