"""Tsao, Gopalakrishnan, Yang & Pavone 2022: private routing on Sioux Falls by projected gradient
steps.

The paper's Algorithm 1 as printed (its beta and C from the data, its formula for the noise, flows
without an upper bound), the corrected algorithm (`solvers.unit_flow_descent`), and the counts that
this service releases. Mornings are synthetic Poisson trips around the network's table, seed 1975,
as in the paper's Section 5.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.figures.curves import Curve, draw_curves
from discreet.privacy.attacks.printed import classic_gaussian_sigma
from discreet.privacy.mechanisms.gaussian import gaussian_mu
from discreet.privacy.noise import Noise
from discreet.problems.numbers import Privacy
from discreet.problems.road_networks.network import Link, RoadNetwork
from discreet.problems.routing.dataset import RoutingContent, RoutingDataset, Trip
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic
from discreet.reproduce.networks import MORNINGS, poisson_mornings, sioux_falls
from discreet.reproduce.report import Line, Report
from discreet.solvers.traffic import unit_flow_descent as descent
from discreet.solvers.traffic.traffic_assignment import Latency, assign
from discreet.solvers.traffic.unit_flow_projection import UnitFlows

Floats = NDArray[np.float64]

SOURCE = (
    "Tsao, Gopalakrishnan, Yang, Pavone: Differentially private stochastic convex optimization "
    "for network routing applications (2022)."
)
TABLE_1 = {
    (0.01, 0.1): 7.83e-2,
    (0.01, 0.5): 3.97e-3,
    (0.1, 0.1): 9.06e-3,
    (0.1, 0.5): 5.96e-3,
    (0.5, 0.1): 2.44e-3,
    (0.5, 0.5): 2.05e-3,
}
"""The paper's cost of noise in per cent of travel time, by epsilon and delta."""
PRINTED_BETA = 2.08e7
ALPHA = 1e4
PERIOD_MINUTES = 60.0
NOISE_SEEDS = 5
OPTIMUM_STEPS = 1500


@dataclass(frozen=True)
class Setting:
    """Mornings on the network: trips float64[N, pairs], the mean demand, and their public part."""

    flows: UnitFlows
    unbounded: UnitFlows
    terms: descent.Terms
    trips: Floats
    latency: Latency

    @classmethod
    def of(
        cls,
        mornings: int = MORNINGS,
        alpha: float = ALPHA,
        factor: float = 1.0,
        demand: float = 1.0,
    ) -> Setting:
        """`factor`: the ratio of travel times at capacity and in free flow, minus 1; `demand`: a
        multiple of the table's trips."""
        network, _ = sioux_falls()
        latency = Latency(factor, 1.0)
        flows = UnitFlows.of_pairs(network)
        trips = poisson_mornings(mornings, demand)[:, flows.origin, flows.destination].astype(float)
        # Public bounds a tenth above the values of the mornings.
        terms = descent.Terms.of(
            network, latency, alpha, 1.1 * trips.sum(axis=1).max(), 1.1 * trips.max()
        )
        return cls(flows, UnitFlows.of_pairs(network, upper=math.inf), terms, trips, latency)

    @property
    def mean(self) -> Floats:
        return np.asarray(self.trips.mean(axis=0))

    def travel_time(self, x: Floats) -> float:
        """F without its regularization, at the mean demand: circulating flow counts, as in the
        paper."""
        y = self.mean @ x
        return float(np.sum(y * (self.terms.slope * y + self.terms.constant)))

    def best(self) -> float:
        """The least travel time of the mean demand."""
        network, _ = sioux_falls()
        demand = np.zeros((24, 24))
        demand[self.flows.origin, self.flows.destination] = self.mean
        return assign(network, self.latency, demand, "system_optimum").total_travel_time

    @property
    def beta(self) -> float:
        """The paper's smoothness: the largest eigenvalue of B'QB of the mean demand, made from the
        data."""
        return float(self.terms.slope.max() * np.sum(self.mean**2))

    def printed_run(self, seed: int = 0) -> tuple[Floats, list[float]]:
        """x_N by line 6 with the sign that descends and the paper's steps, from a random routing;
        and the travel time after each step."""
        steps = np.minimum(
            1 / (self.terms.regularization * np.arange(1, len(self.trips) + 1)), 1 / self.beta
        )
        x = self.flows.project(np.random.default_rng(seed).random((self.flows.pairs, 76))).flow
        course = [self.travel_time(x)]
        for step, trips in zip(steps, self.trips, strict=True):
            x = self.flows.project(x - step * self.terms.gradient(x, trips)).flow
            course.append(self.travel_time(x))
        return x, course

    def regularized_optimum(self, alpha: float) -> Floats:
        """The minimum of F of the mean demand with alpha/2 |x|², by accelerated projected gradient
        (Nesterov 2004)."""
        smooth = 2 * self.beta + alpha
        root = math.sqrt(alpha / smooth)
        momentum = (1 - root) / (1 + root)
        terms = descent.Terms(
            self.terms.constant, self.terms.slope, alpha, self.terms.max_total, self.terms.max_pair
        )
        x = ahead = self.flows.cheapest(self.terms.constant)
        start = None
        for _ in range(OPTIMUM_STEPS):
            near = self.flows.project(ahead - terms.gradient(ahead, self.mean) / smooth, start)
            x, ahead, start = near.flow, near.flow + momentum * (near.flow - x), near.potentials
        return x


def report(full: bool = False) -> Report:
    """Table 1, Figures 2 and 3 and Table 2."""
    setting = Setting.of()
    best = setting.best()
    x, course = setting.printed_run()
    printed_s = PRINTED_BETA / PERIOD_MINUTES * min(1 / PRINTED_BETA, 1 / (ALPHA * MORNINGS))
    true_steps = setting.terms.step_sizes(MORNINGS)
    true_s = descent.sensitivity(setting.terms, true_steps, setting.flows.error_bound(1e-11))
    costs = noise_costs(setting, x, printed_s, true_s, best)
    regularized = {
        alpha: setting.travel_time(setting.regularized_optimum(alpha)) / best - 1
        for alpha in (1e3, 1e4)
    }
    gap = 100 * (course[-1] / best - 1)
    lines = [
        Line(
            "pairs with a unit flow",
            528.0,
            552.0,
            552.0,
            "only the pairs with trips: this reveals which have any",
        ),
        Line(
            "beta at the mean demand",
            PRINTED_BETA,
            setting.beta,
            None,
            "twice it is the smoothness, of these data alone",
        ),
        Line(
            "L of all allowed data",
            None,
            setting.terms.smoothness,
            None,
            "with public bounds 10 % above the data's",
        ),
        Line(
            "C, the effect of one trip on the gradient",
            PRINTED_BETA,
            setting.terms.gradient_change,
            None,
            "C = beta is not justified",
        ),
        Line(
            "sensitivity of x_N",
            printed_s,
            true_s,
            None,
            "the paper divides by T = 60; C = beta more than makes up for it",
        ),
        Line(
            "sigma at (.1, .1)",
            printed_s * classic_gaussian_sigma(0.1, 0.1),
            true_s / gaussian_mu(0.1, 0.1),
            None,
            "its own formulas; the exact curve on the true sensitivity",
        ),
        Line(
            "Figure 2: x_50 above the optimum, %",
            2.0,
            gap,
            0.0,
            "from a random routing, before any noise",
        ),
        Line(
            "regularized optimum above the optimum, alpha 1e4, %",
            None,
            100 * regularized[1e4],
            None,
            "the limit of Algorithm 1 with ever more data",
        ),
        Line(
            "Table 2, error 3: the same at alpha 1e3, %",
            0.01,
            100 * regularized[1e3],
            None,
            "8.17e-3 is printed, as a fraction or in %",
        ),
        *(
            Line(
                f"Table 1: noise at ({epsilon}, {delta}), %",
                TABLE_1[epsilon, delta],
                row["honest"],
                row["ours"],
                f"with sigma by its own formula {row['by its formula']:,.3g} %",
            )
            for (epsilon, delta), row in costs.items()
        ),
    ]
    figure_3 = sensitivities(full)
    return Report(
        paper="tsao",
        source=SOURCE,
        seeds="mornings RandomState(1975), starting routing 0, noise 0 to 4 (median)",
        lines=tuple(lines),
        unreproduced=(
            (
                "Table 1",
                "its formulas give a sigma that costs thousands of per cent, not hundredths of a "
                "per cent",
            ),
            ("the 2 % of Figure 2", "N = 50 steps of at most 1/beta move a random routing less"),
        ),
        tables={
            "figure-2": [
                {"step": step, "above the optimum, %": 100 * (t / best - 1)}
                for step, t in enumerate(course)
            ],
            "figure-3": figure_3,
        },
        draw=lambda folder: draw(folder, course, best),
    )


def noise_costs(
    setting: Setting, x: Floats, printed_s: float, true_s: float, best: float
) -> dict[tuple[float, float], dict[str, float]]:
    """Per cent of extra travel time by (epsilon, delta), medians over seeds.

    "by its formula": the paper's x_alg against x_N, unbounded flows with cycles. "honest": the
    service's gradient method, its policy against the optimum. "ours": the service's counts against
    the optimum.
    """
    found = {}
    before = setting.travel_time(x)
    for epsilon, delta in TABLE_1:
        sigma = printed_s * classic_gaussian_sigma(epsilon, delta)
        printed = []
        for seed in range(NOISE_SEEDS):
            noisy = x + np.random.default_rng(seed).normal(scale=sigma, size=x.shape)
            printed.append(setting.travel_time(setting.unbounded.project(noisy).flow) / before - 1)
        found[epsilon, delta] = {
            "by its formula": 100 * float(np.median(printed)),
            "honest": 100 * served(setting, "gradient", epsilon, delta, best),
            "ours": 100 * served(setting, "counts", epsilon, delta, best),
        }
    return found


def served(setting: Setting, method: str, epsilon: float, delta: float, best: float) -> float:
    """How far above the optimum the policy of a job is at the true mean demand; median over
    seeds."""
    network, _ = sioux_falls()
    links = [
        Link(
            tail=int(tail) + 1,
            head=int(head) + 1,
            free_flow_time=float(time),
            capacity=float(capacity),
        )
        for tail, head, time, capacity in zip(
            network.tail, network.head, network.free_flow_time, network.capacity, strict=True
        )
    ]
    job = Routing(
        kind="routing",
        dataset="sioux falls",
        network=RoadNetwork(nodes=24, links=tuple(links)),
        method="gradient" if method == "gradient" else "counts",
        regularization=ALPHA if method == "gradient" else None,
    )
    public = RoutingPublic(
        unit="request",
        zones=24,
        periods=len(setting.trips),
        period_minutes=PERIOD_MINUTES,
        max_total=math.floor(setting.terms.max_total),
        max_pair=math.floor(setting.terms.max_pair),
    )
    trips = [
        Trip(
            period=int(period),
            origin=int(setting.flows.origin[pair]) + 1,
            destination=int(setting.flows.destination[pair]) + 1,
            count=int(setting.trips[period, pair]),
        )
        for period, pair in np.argwhere(setting.trips)
    ]
    content = RoutingDataset.read_rows(public, RoutingContent(trips=trips))
    plan = job.plan(public, Privacy(epsilon=epsilon, delta=delta).budget)
    demand = np.zeros((24, 24))
    demand[setting.flows.origin, setting.flows.destination] = setting.mean
    found = []
    for seed in range(NOISE_SEEDS):
        released = job.release(public, plan, content, Noise.seeded(seed))
        found.append(_policy_time(job, public, plan, released, demand) / best - 1)
    return float(np.median(found))


def _policy_time(
    job: Routing, public: RoutingPublic, plan: Any, released: Any, demand: Floats
) -> float:
    result = job.finish(
        public, plan, {**released, "true_trips": demand * public.periods}, lambda *_: None
    )
    time: float = result.to_json()["true_total_travel_time"]
    return time


def sensitivities(full: bool) -> list[dict[str, Any]]:
    """Figure 3: x_50 above the optimum before any noise, by alpha, slope and demand."""
    cases: list[tuple[str, dict[str, float]]] = [
        ("alpha 1e2", {"alpha": 1e2}),
        ("alpha 1e3", {"alpha": 1e3}),
        ("alpha 1e4", {"alpha": 1e4}),
    ]
    if full:
        cases += [
            ("travel time at capacity 1.5 times free flow", {"factor": 0.5}),
            ("travel time at capacity 5 times free flow", {"factor": 4.0}),
            ("demand halved", {"demand": 0.5}),
            ("demand 1.5 times", {"demand": 1.5}),
        ]
    rows = []
    for name, changed in cases:
        setting = Setting.of(**changed)  # type: ignore[arg-type]
        _, course = setting.printed_run()
        best = setting.best()
        rows.append(
            {
                "case": name,
                "start, %": 100 * (course[0] / best - 1),
                "x_50, %": 100 * (course[-1] / best - 1),
            }
        )
    return rows


def draw(folder: Path, course: list[float], best: float) -> list[Path]:
    """Figure 2."""
    path = folder / "tsao-convergence.png"
    curve = Curve(
        "Algorithm 1 before noise, N = 50",
        np.arange(len(course)),
        100 * (np.array(course) / best - 1),
    )
    draw_curves(
        [curve, Curve("the paper's 2 %", [0, len(course) - 1], [2.0, 2.0], dashed=True)],
        path,
        x="step",
        y="travel time above the optimum, %",
        scale="log",
        title="Sioux Falls, 50 synthetic mornings, from a random routing",
    )
    return [path]
