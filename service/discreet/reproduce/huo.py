"""Huo & Liu: the example of Section V of the encrypted protocol for coupled quadratic programs.

Three agents with two variables each, two coupled terms and two constraints (eq. 21). The iteration
is `solvers.spds`, the plaintext counterpart of the encrypted run; with `resolution` contributions
are rounded as the encryption rounds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.figures.curves import Curve, draw_curves
from discreet.reproduce.report import Line, Report
from discreet.solvers.saddle.spds import Part, Solution, solve
from discreet_agent.convex_sets import Box
from discreet_agent.costs import QuadraticCost
from discreet_agent.updates import Participant, Steps

Floats = NDArray[np.float64]

C, D = np.array([1.0, 1.0]), np.array([-1.0, 1.0])
PRINTED_X = ("(0, 0.5258)", "(0.4347, 0.0621)", "(0.1016, 0)")
PRINTED_STEPS = Steps(0.016, 0.8)
TUNED_STEPS = (Steps(0.1, 0.8, 0.99), Steps(0.016, 0.8, 0.99), Steps(0.1, 0.8, 0.99))
REGULARIZATION = 1e-4
REGULARIZED_STEPS = Steps(0.016, 0.8, regularization=REGULARIZATION)
OWN_REGULARIZED_STEPS = tuple(
    Steps(step.primal, step.dual, regularization=REGULARIZATION) for step in TUNED_STEPS
)
WITHIN = 1e-3
ITERATIONS = (25, 50, 100, 150, 200, 300, 400, 500, 700, 1000)


def parts() -> list[Part]:
    """The agents' data as printed."""
    A_u = [[[-0.2, 0], [1, -0.5]], [[0, -2], [0, -10]], [[1, 0], [0, 1]]]
    A_g = [[[0, 1], [1, -1]], [[0, 1], [-1, 1]], [[0, 0], [-1, 1]]]
    A_q = [[[1, 0], [1, 1]], [[0, 1], [1, 1]], [[-1, 1], [-2, 1]]]
    a_l = [[1, 1], [1, 0], [0, 1]]
    each = (np.array(rows, dtype=float) for rows in (A_u, A_g, A_q, a_l))
    return [Part(u, g, QuadraticCost(q, a), Box(0, 1)) for u, g, q, a in zip(*each, strict=True)]


def apart(one: Solution, other: Solution) -> float:
    """The largest difference of a variable or a multiplier."""
    flat = [np.concatenate([*found.x, found.multipliers]) for found in (one, other)]
    return float(np.abs(flat[0] - flat[1]).max())


def course(
    steps: Steps | Sequence[Steps], optimum: Solution, iterations: int = 1000
) -> tuple[Floats, Floats]:
    """After each step, float64[iterations] each: the largest difference of a variable or multiplier
    from the optimum, and the l2 length of the variables' step."""
    exact = np.concatenate([*optimum.x, optimum.multipliers])
    points = [np.zeros(exact.size)]

    def watch(agents: Sequence[Participant]) -> None:
        points.append(np.concatenate([*(agent.x for agent in agents), agents[0].multipliers]))

    solve(parts(), C, D, steps=steps, iterations=iterations, watch=watch)
    path = np.array(points)
    moved = np.linalg.norm(np.diff(path[:, : -len(optimum.multipliers)], axis=0), axis=1)
    return np.abs(path[1:] - exact).max(axis=1), moved


def needed(errors: Floats) -> float:
    """Iterations until the difference stays within 1e-3."""
    return float(np.flatnonzero(errors > WITHIN)[-1] + 2)


def report(full: bool = False) -> Report:
    """The optimum, the number of iterations, and the effect of rounding before encryption."""
    best = solve(parts(), C, D, iterations=4000)
    (printed, moved), (tuned, _), (plain, _), (plain_tuned, _) = (
        course(steps, best)
        for steps in (PRINTED_STEPS, TUNED_STEPS, REGULARIZED_STEPS, OWN_REGULARIZED_STEPS)
    )
    regularized = solve(parts(), C, D, steps=REGULARIZED_STEPS, iterations=4000)
    rounded = {
        digits: apart(
            solve(parts(), C, D, steps=PRINTED_STEPS, iterations=1000, resolution=10.0**-digits),
            solve(parts(), C, D, steps=PRINTED_STEPS, iterations=1000),
        )
        for digits in ((2, 3, 4, 6, 8) if full else (2, 4, 8))
    }
    ours = apart(
        solve(parts(), C, D, steps=PRINTED_STEPS, iterations=1000, resolution=2.0**-32),
        solve(parts(), C, D, steps=PRINTED_STEPS, iterations=1000),
    )
    lines = [
        Line(f"Section V-A: x_{agent + 1}", PRINTED_X[agent], str(tuple(x.round(5).tolist())))
        for agent, x in enumerate(best.x)
    ]
    lines += [
        Line("multipliers", None, str(tuple(best.multipliers.round(5).tolist()))),
        Line("objective (22) without its constants", None, best.objective),
        Line(
            "Figure 2: iterations until the variables' step is shorter than 1e-3",
            "about 200",
            float(np.flatnonzero(moved < WITHIN)[0] + 1),
            None,
            "alpha .016, beta .8; the paper does not say what its error measures: this fits",
        ),
        Line(
            "iterations until all is within 1e-3 of the optimum",
            None,
            needed(printed),
            needed(tuned),
            "alpha .016, beta .8; ours alpha (.1, .016, .1) and tau .99",
        ),
        Line(
            "RPDS, regularization 1e-4: iterations to 1e-3",
            None,
            needed(plain),
            needed(plain_tuned),
            "alpha .016, beta .8; alpha (.1, .016, .1)",
        ),
        Line(
            "RPDS, regularization 1e-4: final distance from the optimum",
            None,
            apart(regularized, best),
            apart(solve(parts(), C, D, steps=TUNED_STEPS, iterations=4000), best),
            "RPDS; SPDS with its own steps",
        ),
        *(
            Line(
                f"Figure 3: gap by rounding to {digits} digits",
                None,
                gap,
                ours,
                "ours: 32 fraction bits",
            )
            for digits, gap in rounded.items()
        ),
    ]
    table = [
        {
            "iterations": count,
            "as printed": float(printed[count - 1]),
            "shrunken, own steps": float(tuned[count - 1]),
            "regularized 1e-4": float(plain[count - 1]),
        }
        for count in ITERATIONS
    ]
    return Report(
        paper="huo",
        source="Huo, Liu: Privacy-Preserving Decentralized Multi-Agent Cooperative Optimization – "
        "Paradigm Design and Privacy Analysis.",
        seeds="none: nothing is random",
        lines=tuple(lines),
        unreproduced=(
            (
                "the protocol's secrecy, Theorems 1 and 2",
                "shares of c tell every agent c, against Theorem 2. Of eight attacks "
                "(`tests/clients/attacks`) the others are by parties that the paper does not "
                "consider (one common key, replays), on what it leaves open (c in the clear, float "
                "exponents, overflow), or with two agents alone; all fail on the protocol of this "
                "service",
            ),
            (
                "Figures 4 and 5",
                "they are of the authors' Raspberry Pi boards, of which no time is printed; `make "
                "arm` runs an agent on emulated 64-bit ARM, `make bench ARGS=paillier` measures "
                "ours",
            ),
        ),
        tables={"convergence": table},
        draw=lambda folder: draw(folder, table),
    )


def draw(folder: Path, table: list[dict[str, Any]]) -> list[Path]:
    """Figure 2, as a distance from the optimum."""
    path = folder / "huo-convergence.png"
    at = [row["iterations"] for row in table]
    curves = [
        Curve(name, at, [row[name] for row in table]) for name in table[0] if name != "iterations"
    ]
    draw_curves(curves, path, x="iterations", y="largest difference from the optimum", scale="log")
    return [path]
