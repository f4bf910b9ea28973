"""The simulated study of Hassan et al. (2020), section VI, on SYNTHETIC buildings: tables of
`study()`.

Nothing here is released: transitions are those of the data, and all four policies are functions of
them. The study shows the policies and their costs. `hassan_privacy` gives the exact epsilon of a
Dirichlet draw. The paper says that Taylor, digamma and average policies are as private as one draw;
that is true only of a policy made FROM one draw, such as the policy "one draw", which costs more
than any of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from discreet.figures.curves import Curve, draw_curves
from discreet.problems.dr_ensemble.measurements import state_sequences, tariff_utility
from discreet.reproduce import event_capacity, hassan_figures
from discreet.reproduce.hassan_figures import drawn
from discreet.reproduce.hassan_privacy import DELTA, PAPER_EPSILON, H, epsilons, orderings
from discreet.reproduce.load_ensemble import (
    EVENT_PAYMENT,
    STEP_HOURS,
    TARIFF,
    Floats,
    LoadEnsemble,
    generate,
)
from discreet.reproduce.report import Line, Report
from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control.control_policies import TabulatedPolicy

CONCENTRATIONS = (20, 50, 100, 200, 500, 1000)
PAPER_K = 50
PAPER_L1 = {
    ("taylor", 50): 0.0493,
    ("taylor", 200): 0.0482,
    ("digamma", 50): 0.0494,
    ("digamma", 200): 0.0482,
    ("average", 50): 0.0479,
    ("average", 200): 0.0476,
}
STATE, ROW = 18, 17
"""The paper's state, counted from 1, and its row, from 0."""
CLOCK = 12.75
DRAWS = 1000
TARIFFS = ((TARIFF, EVENT_PAYMENT), (0.10, 0.30), (0.05, 0.15))
"""Dollars per kWh at all times, and in addition in the event: the ensemble's own, and milder ones
under which the orderings change."""


def study(seed: int = 0) -> dict[str, Any]:
    """All tables, as plain lists and numbers; a function of `seed`. It takes some 20 seconds.

    "policies": at 12:45 from state 18, for its row and the adjacent one. "load": kW a building, by
    time. "cost": dollars a building from the start of control, by k. "epsilon": of one row, and of
    all, by k and floor. "orderings": which of the paper's hold, by tariff and k. "day",
    "transitions", "dots": Figures 3, 4 and 6.
    """
    ensemble = generate(seed=seed)
    P = transition_matrix(ensemble)
    step = int(np.flatnonzero(ensemble.clock == CLOCK)[0])
    costs = [cost_row(ensemble, P, tariff, k, seed) for tariff in TARIFFS for k in CONCENTRATIONS]
    return {
        "policies": policies(ensemble, P, seed),
        "load": load_curves(ensemble, P, PAPER_K, seed),
        "cost": costs,
        "epsilon": [epsilons(k) for k in CONCENTRATIONS],
        "orderings": orderings(costs),
        "day": hassan_figures.day(ensemble),
        "transitions": P,
        "dots": hassan_figures.dots(ensemble, P, adjacent(P), ROW, step, seed),
    }


def transition_matrix(ensemble: LoadEnsemble) -> Floats:
    """float64[20, 20]: frequencies of all transitions. A state in which no building was is never
    left."""
    states = np.array(state_sequences(ensemble.power, ensemble.edges))
    n = ensemble.bin_power.size
    counts = np.zeros((n, n))
    np.add.at(counts, (states[:, :-1], states[:, 1:]), 1)
    unseen = counts.sum(axis=1) == 0
    counts[unseen, unseen] = 1
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def adjacent(P: Floats) -> Floats:
    """`P` with h/2 in the row of state 18 moved from entry 18 to entry 19."""
    moved = P.copy()
    moved[ROW, ROW] -= H / 2
    moved[ROW, ROW + 1] += H / 2
    return moved


def made(P: Floats, utility: Floats, gamma: float, k: float, seed: int) -> dict[str, lsmdp.Policy]:
    """The policies of the study. "average of solves" is eqs 28 and 29: a whole problem solved for
    each draw of P."""
    rng = np.random.default_rng(seed)
    draws = lsmdp.solve_many(drawn(P, k, DRAWS, rng), utility, gamma)
    mean = np.mean([policy.transitions for policy in draws], axis=0)
    return {
        "exact": lsmdp.solve(P, utility, gamma),
        "taylor": lsmdp.solve(P, utility, gamma, weights="taylor", concentration=k),
        "digamma": lsmdp.solve(P, utility, gamma, weights="digamma", concentration=k),
        "average": lsmdp.average_policy(P, utility, gamma, k),
        "average, sampled": lsmdp.average_policy(
            P, utility, gamma, k, samples=DRAWS, generator=rng
        ),
        "average of solves": TabulatedPolicy.of(mean),
    }


def policies(ensemble: LoadEnsemble, P: Floats, seed: int) -> list[dict[str, Any]]:
    """The row of state 18 at 12:45 in both policies, and their l1 distance next to the paper's."""
    utility = tariff_utility(ensemble.price, ensemble.bin_power)
    step = int(np.flatnonzero(ensemble.clock == CLOCK)[0])
    other = adjacent(P)
    rows = []
    for k in (50, 200):
        pairs = [
            made(matrix, utility, ensemble.discomfort_weight, k, seed) for matrix in (P, other)
        ]
        for method in pairs[0]:
            first, second = (pair[method].at(step)[ROW] for pair in pairs)
            to = np.flatnonzero(P[ROW])
            rows.append(
                {
                    "method": method,
                    "k": k,
                    "to_states": (to + 1).tolist(),
                    "policy": first[to].tolist(),
                    "adjacent_policy": second[to].tolist(),
                    "l1": float(np.abs(first - second).sum()),
                    "paper_l1": PAPER_L1.get((method, k)),
                }
            )
    return rows


def load_curves(ensemble: LoadEnsemble, P: Floats, k: float, seed: int) -> dict[str, Any]:
    """Expected kW a building, by time: uncontrolled, and under each policy on the true transitions
    of the ensemble.

    "one draw": the exact policy of one P~ ~ Dir(k P), mean over 200 draws.
    """
    utility, gamma = tariff_utility(ensemble.price, ensemble.bin_power), ensemble.discomfort_weight
    horizon = ensemble.price.size

    def load(policy: lsmdp.Policy | Floats) -> Floats:
        return lsmdp.expected_power(
            lsmdp.propagate(ensemble.initial, policy, horizon), ensemble.bin_power
        )

    curves = {
        "default": load(P),
        **{name: load(policy) for name, policy in made(P, utility, gamma, k, seed).items()},
    }
    draws = lsmdp.solve_many(drawn(P, k, 200, np.random.default_rng(seed)), utility, gamma)
    curves["one draw"] = np.mean([load(policy) for policy in draws], axis=0)
    curves["practice"] = hassan_figures.practice(
        ensemble, lsmdp.propagate(ensemble.initial, P, horizon)
    )
    return {
        "clock": ensemble.clock.tolist(),
        "event": ensemble.event.tolist(),
        "k": k,
        **{name: curve.tolist() for name, curve in curves.items()},
    }


def cost_row(
    ensemble: LoadEnsemble, P: Floats, tariff: tuple[float, float], k: float, seed: int
) -> dict[str, Any]:
    """Expected cost of privacy of each policy from the start of control, in dollars a building.

    "one draw": the exact policy of one P~ ~ Dir(k P), mean over 200 draws and its standard error.
    """
    price = (tariff[0] + tariff[1] * ensemble.event) * STEP_HOURS
    utility, gamma = tariff_utility(price, ensemble.bin_power), ensemble.discomfort_weight

    def cost(policy: lsmdp.Policy) -> float:
        return float(ensemble.initial @ lsmdp.cost_of_privacy(policy, P, utility, gamma)[0])

    found = {name: cost(policy) for name, policy in made(P, utility, gamma, k, seed).items()}
    draws = lsmdp.solve_many(drawn(P, k, 200, np.random.default_rng(seed)), utility, gamma)
    once = np.array([cost(policy) for policy in draws])
    error = float(once.std() / np.sqrt(once.size))
    return {
        "tariff": tariff,
        "k": k,
        **found,
        "one draw": float(once.mean()),
        "one draw, error": error,
    }


def plots(found: dict[str, Any], folder: Path) -> list[Path]:
    """The tables of `study` as pictures dr-*.png; the files written."""
    files = [
        folder / f"dr-{name}.png"
        for name in ("event-load", "cost-of-privacy", "epsilon", "adjacent-policies")
    ]
    load = found["load"]
    shown = {
        "default": "without control",
        "exact": "exact",
        "taylor": "Taylor",
        "digamma": "digamma",
        "average": "average",
        "one draw": "one draw, mean of 200",
        "practice": "a state less in the event (practice)",
    }
    draw_curves(
        [
            Curve(label, load["clock"], load[name], dashed=name == "default")
            for name, label in shown.items()
        ],
        files[0],
        x="hour of the day",
        y="expected power of a building, kW",
        shade=(11.0, 15.0),
        shaded="event",
        title=f"synthetic buildings, k = {load['k']:g}",
    )
    costs = [row for row in found["cost"] if row["tariff"] == TARIFFS[0]]
    exact = [row["floor 0.1"] for row in found["epsilon"]]
    draw_curves(
        [
            Curve(label, exact, [row[name] for row in costs], dashed=name != "one draw")
            for name, label in shown.items()
            if name not in ("default", "exact", "practice")
        ],
        files[1],
        x=f"epsilon of one row at delta {DELTA:g}: exact, h = {H:g}, floor 0.1, k from 20 to 1000",
        y="cost of privacy, $ a building",
        title="dashed: deterministic functions of the private matrix, which no noise protects",
        scale="loglog",
    )
    draw_curves(
        [
            *(
                Curve(
                    name,
                    [row["k"] for row in found["epsilon"]],
                    [row[name] for row in found["epsilon"]],
                )
                for name in found["epsilon"][0]
                if name.startswith("floor")
            ),
            Curve("the paper", [*PAPER_EPSILON], [*PAPER_EPSILON.values()], dashed=True),
        ],
        files[2],
        x="concentration k",
        y=f"epsilon at delta {DELTA:g}",
        title=f"one Dirichlet draw, h = {H:g}: the exact curve",
        scale="loglog",
    )
    rows = [row for row in found["policies"] if row["k"] == PAPER_K and row["method"] in shown]
    states = np.arange(13, 21)  # entries off the support stay 0

    def change(row: dict[str, Any]) -> Floats:
        difference = np.zeros(states.size)
        difference[np.array(row["to_states"]) - states[0]] = np.subtract(
            row["adjacent_policy"], row["policy"]
        )
        return difference

    draw_curves(
        [Curve(shown[row["method"]], states, change(row)) for row in rows],
        files[3],
        x=f"to state (from state {STATE}, at 12:45)",
        y="change of the policy's probability",
        title=f"h/2 = {H / 2:g} moved from entry {STATE} to {STATE + 1} of the row, k = {PAPER_K}",
    )
    return files + hassan_figures.plots(found["day"], found["transitions"], found["dots"], folder)


def report(full: bool = False) -> Report:
    """Figures 3 to 8 on synthetic buildings, and what is left of an event if the matrix is really
    released."""
    found = study()
    distance = {(row["method"], row["k"]): row["l1"] for row in found["policies"]}
    epsilon = {row["k"]: row for row in found["epsilon"]}
    cost = {row["k"]: row for row in found["cost"] if row["tariff"] == TARIFFS[0]}
    lines = [
        Line(
            f"Figures 5, 6: l1 of policies of adjacent rows, {method}, k = {k}",
            printed,
            distance[method, k],
            None,
            "other data: only the order can be compared",
        )
        for (method, k), printed in PAPER_L1.items()
    ]
    for k, printed in PAPER_EPSILON.items():
        exact = epsilon[k]
        lines.append(
            Line(
                f"Figure 4: epsilon of one row, k = {k}, delta {DELTA:g}",
                printed,
                exact["floor 0.1"],
                None,
                f"exact at floor .1; {exact['floor 0.05']:.2f} at .05, {exact['floor 0.2']:.2f} at "
                f".2; all 20 rows at .1: {exact['floor 0.1, 20 rows']:.1f}",
            )
        )
    for k in CONCENTRATIONS:
        row = cost[k]
        lines.append(
            Line(
                f"Figure 8: cost of privacy, $ per building, k = {k}",
                None,
                row["one draw"],
                None,
                f"the paper plots functions of the private matrix: Taylor {row['taylor']:.3g}, "
                f"digamma {row['digamma']:.3g}, average {row['average']:.3g}",
            )
        )
    lines += hassan_figures.lines(
        found, {k: PAPER_L1["average", k] for k in hassan_figures.SHOWN_KS}
    )
    sizes = event_capacity.SIZES if full else event_capacity.SIZES[:2]
    capacity = [event_capacity.survival(size) for size in sizes]
    lines += [
        Line(
            f"remaining net benefit of the event, {row['participants']:,} participants, epsilon 1",
            None,
            None,
            f"{100 * row['benefit share']:.1f} %",
            "counts, delta 1e-5, median of 20 releases",
        )
        for row in capacity
    ]
    digamma = all(row["digamma above taylor"] for row in found["orderings"])
    dearest = sum(row["average dearest"] for row in found["orderings"])
    lines += [
        Line(
            "Figure 8: digamma is dearer than Taylor",
            "always",
            "always" if digamma else "not always",
        ),
        Line(
            "Figure 8: the average is dearest",
            "always",
            f"in {dearest} of {len(found['orderings'])} cases",
            None,
            "3 tariffs, 6 values of k",
        ),
    ]
    return Report(
        paper="hassan",
        source="Hassan et al.: Privacy-aware load ensemble control: a linearly-solvable MDP "
        "approach (2020).",
        seeds="buildings and draws 0, releases 0 to 19",
        lines=tuple(lines),
        unreproduced=(
            (
                "Figures 3, 6 and 7 to the digit",
                "the building's data are not public; synthetic buildings of its size are used",
            ),
            (
                "(.88, .05) and (5.45, .05) of Figure 4",
                "no one floor gives both: at one floor the exact epsilon grows at most 3.3-fold; "
                "two floors may give both",
            ),
            (
                "15 % less capacity of the average policy at the peak (Figure 7)",
                "the building's data are not public; with synthetic buildings it is .2 % more",
            ),
        ),
        tables={
            "cost": found["cost"],
            "epsilon": found["epsilon"],
            "orderings": found["orderings"],
            "capacity": capacity,
        },
        draw=lambda folder: plots(found, folder),
    )
