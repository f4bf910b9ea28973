"""Agents of small coupled problems, and all parties of a computation on shares as processes on
loopback."""

from __future__ import annotations

import base64
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from discreet_agent.convex_sets import Box
from discreet_agent.costs import QuadraticCost
from discreet_agent.mpc import keys, party
from discreet_agent.mpc.own_programs import OwnProgram
from discreet_agent.mpc.prices import FloatArithmetic, Responses, optimum, verdict_of
from discreet_agent.mpc.responses import Response, response
from discreet_agent.mpc.terms import Terms
from tests.clients.mpc.over_time import FixedPointArithmetic, OverTime

Floats = NDArray[np.float64]
SECONDS = 300.0
TERMS_ASKED = (
    "reach",
    "price",
    "least_curvature",
    "most_curvature",
    "iterations",
    "typical_curvature",
)


def asked(instance: Instance | OverTime) -> dict[str, Any]:
    """`operator` and `mpc` of a problem with these terms."""
    return {
        "operator": {
            "c": [] if instance.cost is None else instance.cost.tolist(),
            "d": [] if instance.limit is None else instance.limit.tolist(),
        },
        "mpc": {name: getattr(instance.terms, name) for name in TERMS_ASKED},
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Instance:
    """Agents of an hourly problem: [agents, hours] each. `cost`, `limit`: c and d, None where there
    is none."""

    bend: Floats
    slope: Floats
    lower: Floats
    upper: Floats
    effect: Floats
    cost: Floats | None
    limit: Floats | None
    threshold: int = 1
    tolerance: float | None = 1e-3

    @classmethod
    def draw(
        cls, seed: int, agents: int, hours: int, *, cost: bool = True, limit: bool = True
    ) -> Instance:
        """Boxes with either sign, some of them a point; agents that a sum takes with a factor, some
        not at all."""
        rng = np.random.default_rng(seed)
        shape = agents, hours
        lower, width = (
            rng.uniform(-2, 1, shape),
            rng.uniform(0, 3, shape) * (rng.random(shape) < 0.9),
        )
        effect = rng.choice([1.0, 1.0, 0.5, -1.0, 0.0], shape)
        ends = np.sort([lower * effect, (lower + width) * effect], axis=0).sum(axis=1)
        share = rng.uniform(0.1, 1.1, hours)
        return cls(
            bend=rng.uniform(0.5, 3, shape),
            slope=rng.normal(0, 3, shape),
            lower=lower,
            upper=lower + width,
            effect=effect,
            cost=rng.normal(0, 2, hours) if cost else None,
            limit=-(ends[0] + share * (ends[1] - ends[0])) if limit else None,
        )

    @property
    def terms(self) -> Terms:
        """With bounds that just hold."""
        coupled = self.effect != 0
        safe = np.where(coupled, self.effect, 1.0)
        bend, slope = (self.bend / safe**2)[coupled], (self.slope / safe)[coupled]
        ends = np.stack([self.lower * self.effect, self.upper * self.effect])
        marginal = np.abs(slope + bend * ends[:, coupled])
        return Terms(
            agents=len(self.bend),
            hours=self.bend.shape[1],
            threshold=self.threshold,
            computing=2 * self.threshold + 1,
            coupled=self.cost is not None,
            limited=self.limit is not None,
            reach=float(np.abs(ends).max()),
            price=float(marginal.max()),
            least_curvature=float(bend.min()),
            most_curvature=float(bend.max()),
            tolerance=None if self.limit is None else self.tolerance,
        )

    def agent(self, place: int) -> dict[str, Any]:
        """The data of one agent, as it gives them to `Agent.solve`."""
        effect = np.diag(self.effect[place])
        none = np.zeros((0, effect.shape[0]))
        return {
            "A_u": none if self.cost is None else effect,
            "A_g": none if self.limit is None else effect,
            "A_q": np.diag(np.sqrt(self.bend[place] / 2)),
            "a_l": self.slope[place],
            "lower": self.lower[place],
            "upper": self.upper[place],
        }

    def responses(self, terms: Terms | None = None) -> list[Response]:
        terms, found = terms or self.terms, []
        for place in range(terms.agents):
            data = self.agent(place)
            cost = QuadraticCost(data["A_q"], data["a_l"])
            box = Box(data["lower"], data["upper"])
            found.append(response(terms, data["A_u"], data["A_g"], cost, box))
        return found

    def in_the_clear(self) -> tuple[Floats, bool | None]:
        """x [agents, hours] by the same algorithm on floats, and whether the limit is kept."""
        terms, responses = self.terms, self.responses()
        rows = np.stack([one.rows for one in responses], axis=2)
        scaled = [None if one is None else one / terms.reach for one in (self.cost, self.limit)]
        found = optimum(terms, Responses(*rows), scaled[0], scaled[1], FloatArithmetic())
        x = np.stack([one.x_of(found.quantities[:, place]) for place, one in enumerate(responses)])
        return x, None if found.kept is None else verdict_of(found.kept[0])

    def on_shares(self, terms: Terms) -> tuple[Floats, bool | None]:
        """The same in the bits of shares, under other terms, and what is told of it."""
        arithmetic, responses = FixedPointArithmetic(terms), self.responses(terms)
        rows = [arithmetic.made(one) for one in np.stack([one.rows for one in responses], axis=2)]
        c, d = (
            None if one is None else arithmetic.made(one / terms.reach)
            for one in (self.cost, self.limit)
        )
        found = optimum(terms, Responses(*rows), c, d, arithmetic)
        place = 2.0**-terms.fraction_bits
        quantities = np.asarray(found.quantities, dtype=np.float64) * place
        x = np.stack([one.x_of(quantities[:, agent]) for agent, one in enumerate(responses)])
        return x, verdict_of(float(np.asarray(found.kept, dtype=np.float64)[0]) * place)

    def objective(self, x: Floats) -> float:
        return float(self.hourly(x).sum())

    def hourly(self, x: Floats) -> Floats:
        own: Floats = (self.bend * x**2 / 2 + self.slope * x).sum(axis=0)
        return (
            own
            if self.cost is None
            else np.asarray(own + ((self.effect * x).sum(axis=0) + self.cost) ** 2 / 2)
        )

    def violation(self, x: Floats) -> float:
        assert self.limit is not None
        return float(np.max((self.effect * x).sum(axis=0) + self.limit, initial=0.0))

    def by_clarabel(self) -> Floats:
        """x by an interior point method."""
        x = cp.Variable(self.bend.shape)
        sums = cp.sum(cp.multiply(self.effect, x), axis=0)
        goal = cp.sum(cp.multiply(self.bend / 2, cp.square(x)) + cp.multiply(self.slope, x))
        if self.cost is not None:
            goal += cp.sum_squares(sums + self.cost) / 2
        limits = [x >= self.lower, x <= self.upper]
        if self.limit is not None:
            limits.append(sums + self.limit <= 0)
        cp.Problem(cp.Minimize(goal), limits).solve(solver=cp.CLARABEL)
        assert x.value is not None
        return np.asarray(x.value)


@dataclass
class Parties:
    """Keys and places of an instance's parties, and their processes."""

    instance: Instance | OverTime
    session: str = "ses_test"
    seconds: float = SECONDS
    orders: list[dict[str, Any]] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        terms = self.instance.terms
        count = terms.agents
        self.keys = [Ed25519PrivateKey.generate() for _ in range(count)]
        self.certificates = [keys.certificate(one, self.session) for one in self.keys]
        self.ports = [free_port() for _ in range(count)]
        figures = [
            one / terms.reach
            for one in (self.instance.cost, self.instance.limit)
            if one is not None
        ]
        parts = [
            keys.summands([round(v * 2**terms.fraction_bits) for v in row.tolist()], count)
            for row in figures
        ]
        responses = self.instance.responses()
        self.orders = [
            party.order_of(
                terms,
                place,
                self.places(),
                listen=("127.0.0.1", self.ports[place]),
                pem=keys.pem(self.keys[place], self.certificates[place]),
                rows=responses[place].rows,
                summands=[row[place] for row in parts],
                seconds=self.seconds,
            )
            for place in range(count)
        ]

    def places(self) -> list[party.Place]:
        shown = [base64.b64encode(one).decode() for one in self.certificates]
        return [
            party.Place("127.0.0.1", port, one) for port, one in zip(self.ports, shown, strict=True)
        ]

    def start(
        self, which: Sequence[int] | None = None, program: Sequence[str] = party.ENGINE
    ) -> None:
        for place in range(len(self.orders)) if which is None else which:
            self.processes.append(party.start(self.orders[place], program))

    def answers(self) -> list[party.Computed | party.BrokenOff]:
        """Of the processes that were started, in this order."""
        found: list[party.Computed | party.BrokenOff] = []
        for process in self.processes:
            try:
                found.append(party.answer(process, self.seconds))
            except party.BrokenOff as broken:
                found.append(broken)
        return found

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def x(self) -> Floats:
        """[agents, hours], of a computation that came to its end."""
        rows = []
        owns: Sequence[Response | OwnProgram] = self.instance.responses()
        for place, (one, own) in enumerate(zip(self.answers(), owns, strict=True)):
            assert isinstance(one, party.Computed), (place, one)
            rows.append(own.x_of(one.quantities))
        return np.stack(rows)
