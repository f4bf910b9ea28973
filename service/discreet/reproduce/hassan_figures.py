"""Figures 3, 4, 6 and today's practice of Figure 7 of Hassan et al. (2021), on SYNTHETIC buildings.

As in `hassan`, transitions are those of the data. The dots of Figures 4 and 6 are Dirichlet draws,
each of which costs epsilon anew; the paper shows 1,000 of them as if they cost as much as one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from discreet.figures.curves import Curve, draw_curves
from discreet.figures.simplexes import Triangle, draw_matrix, draw_simplexes
from discreet.reproduce.load_ensemble import STEP_HOURS, STEPS_A_DAY, Floats, LoadEnsemble
from discreet.reproduce.report import Line
from discreet.solvers.control import linearly_solvable_mdp as lsmdp

PAPER_L1_OF_DRAWS = {50: "0.0479", 200: "0.0476"}
NEAREST = (16, 17, 18)
"""The paper's states 17, 18 and 19, counted from 1, the most likely ones in the row of state 18."""
DOTS = 1000
SHOWN_KS = (50, 200)
STATES_SHED = 1
"""How far every building is below its usual load during the event, in states, as our assumption of
today's practice. The paper does not define its practice."""


def day(ensemble: LoadEnsemble) -> dict[str, list[float]]:
    """Figure 3 (a): MW of all buildings by the time of day: mean, minimum and maximum over the
    days."""
    total = ensemble.power.sum(axis=0).reshape(-1, STEPS_A_DAY) / 1e3
    clock = np.arange(STEPS_A_DAY) * STEP_HOURS
    figures = {
        "clock": clock,
        "mean": total.mean(axis=0),
        "least": total.min(axis=0),
        "most": total.max(axis=0),
    }
    return {name: values.tolist() for name, values in figures.items()}


def drawn(P: Floats, k: float, count: int, rng: np.random.Generator) -> Floats:
    """float64[count, n, n]: transition matrices with rows from Dir(k P), on the support of P."""
    matrices = np.zeros((count, *P.shape))
    for row, probabilities in enumerate(P):
        to = np.flatnonzero(probabilities)
        matrices[:, row, to] = rng.dirichlet(k * probabilities[to], count)
    return matrices


def dots(
    ensemble: LoadEnsemble, P: Floats, other: Floats, row: int, step: int, seed: int
) -> list[dict[str, Any]]:
    """Figures 4 and 6 by k: draws from Dir(k p) of the row and of the adjacent one, and the
    policy's row at a step of the problem solved for each draw of all rows; each float[DOTS, 3], the
    probabilities of `NEAREST`. And `apart`, the l1 distance of the means of both, of the whole
    row, with its standard error, in which the signs of the differences count as known."""
    utility = -np.outer(ensemble.price, ensemble.bin_power)
    found = []
    for k in SHOWN_KS:
        one: dict[str, Any] = {"k": k}
        rows, policies = [], []
        for matrix in (P, other):
            draws = drawn(matrix, k, DOTS, np.random.default_rng(seed))
            solved = lsmdp.solve_many(draws, utility, ensemble.discomfort_weight)
            rows.append(draws[:, row])
            policies.append(np.array([policy.at(step)[row] for policy in solved]))
        for name, pair in (("draws", rows), ("policies", policies)):
            one[name] = [part[:, NEAREST] for part in pair]
            change = pair[0] - pair[1]
            signed = change @ np.sign(change.mean(axis=0))
            one[f"{name} apart"] = float(signed.mean())
            one[f"{name} apart, error"] = float(signed.std(ddof=1) / np.sqrt(DOTS))
        found.append(one)
    return found


def practice(ensemble: LoadEnsemble, default: Floats) -> Floats:
    """kW per building by time, of buildings with their usual loads, float64[T, n], reduced by
    `STATES_SHED` states during the event."""
    shed = ensemble.bin_power[np.maximum(np.arange(ensemble.bin_power.size) - STATES_SHED, 0)]
    power: Floats = np.where(ensemble.event, default @ shed, default @ ensemble.bin_power)
    return power


def capacity(load: dict[str, Any]) -> dict[str, float]:
    """The reduction of each curve of `load_curves` from the one without control, in kW per
    building, at the time of the event at which the exact policy reduces most."""
    event = np.array(load["event"])
    less = {
        name: np.subtract(load["default"], curve)
        for name, curve in load.items()
        if name not in ("clock", "event", "k", "default")
    }
    peak = int(np.argmax(np.where(event, less["exact"], -np.inf)))
    return {name: float(curve[peak]) for name, curve in less.items()}


def lines(found: dict[str, Any]) -> list[Line]:
    """The statements of Figures 6 and 7 from the tables of `study`."""
    taken, k = capacity(found["load"]), found["load"]["k"]
    others = min(one for name, one in taken.items() if name != "practice")
    return [
        *(
            Line(
                "Figure 6: l1 of the mean policies of 1,000 draws of adjacent rows, k = "
                f"{one['k']}",
                PAPER_L1_OF_DRAWS[one["k"]],
                one["policies apart"],
                None,
                "other data; the order of these two is within the Monte Carlo error",
                error=one["policies apart, error"],
            )
            for one in found["dots"]
        ),
        Line(
            "Figure 7: every policy reduces more than today's practice",
            "all MDP-based policies",
            "yes" if taken["practice"] < others else "no",
            None,
            f"at the event's peak, kW per building: exact {taken['exact']:.0f}, practice "
            f"{taken['practice']:.0f}; the paper does not define its practice: here one state "
            "(14 kW) less",
        ),
        Line(
            "Figure 7: reduction of the average policy at the peak below Taylor's",
            "15%",
            f"{100 * (1 - taken['average'] / taken['taylor']):.1f} %",
            None,
            f"k = {k:g}; one draw {100 * (1 - taken['one draw'] / taken['taylor']):.1f} %",
        ),
    ]


def plots(
    day_found: dict[str, list[float]], P: Floats, found: list[dict[str, Any]], folder: Path
) -> list[Path]:
    """Pictures dr-day, dr-transitions, dr-draws and dr-policies-of-draws; the files written."""
    files = [
        folder / f"dr-{name}.png" for name in ("day", "transitions", "draws", "policies-of-draws")
    ]
    draw_curves(
        [
            Curve(
                "mean of the days",
                day_found["clock"],
                day_found["mean"],
                day_found["least"],
                day_found["most"],
            )
        ],
        files[0],
        x="hour of the day",
        y="power of 100 buildings, MW",
        title="Figure 3 (a), synthetic buildings: mean, least and most of 20 working days",
    )
    draw_matrix(
        P,
        files[1],
        x="to state",
        y="from state",
        title="Figure 3 (b), synthetic buildings",
        label="probability",
    )
    corners = [f"state {state + 1}" for state in NEAREST]
    names = ("row 18", "the adjacent row, h = 0.03")
    draw_simplexes(
        [Triangle(f"k = {one['k']}", dict(zip(names, one["draws"], strict=True))) for one in found],
        files[2],
        corners=corners,
    )
    panels = [
        Triangle(f"k = {one['k']}", dict(zip(names, one["policies"], strict=True))) for one in found
    ]
    panels += [
        Triangle(
            f"means, k = {one['k']}",
            {
                name: part.mean(axis=0)[None]
                for name, part in zip(names, one["policies"], strict=True)
            },
            large=True,
        )
        for one in found
    ]
    draw_simplexes(panels, files[3], corners=corners)
    return files
