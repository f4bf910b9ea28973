"""Charts of encrypted sums, only for simulations: the agents' variables, slack, multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.figures.charts import Chart, Table
from discreet.figures.series import MAX_CURVES, MAX_FRAME_NUMBERS, Floats, convergence, slack
from discreet.figures.traces import bars, figure, heat, matrix_axes
from discreet.problems.coupled_qp import checks, methods
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.solvers.saddle import spds
from discreet.solvers.saddle.saddle_point import thinned

SHOWN = "simulation: what each agent does, slack, multipliers step by step"
MAX_REPEATED_UPDATES = 20_000
"""The most agents times iterations for which a run on public data is repeated to draw it."""


def charts_of(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    """None for a federated run: the result has nothing from the agents; `session_chart` shows who
    took part."""
    if "x" not in result:
        return []
    read = CoupledQp.model_validate(problem)
    x = [np.array(one) for one in result["x"]]
    widest = max(len(one) for one in x)
    drawn_agents = x[: max(1, MAX_FRAME_NUMBERS // widest)]
    padded = np.full((len(drawn_agents), widest), np.nan)
    for row, one in zip(padded, drawn_agents, strict=True):
        row[: len(one)] = one
    agents, variables = [f"agent {k}" for k in range(len(padded))], list(range(widest))
    few = "" if len(agents) == len(x) else f" The first {len(agents)} of {len(x)} agents."
    charts = []
    if len(agents) <= 3 * MAX_CURVES and widest <= 4:
        traces = [bars(f"variable {k}", agents, padded[:, k], k) for k in variables]
        drawn = figure(
            traces, x="", y="value", height=340, barmode="group", xaxis={"type": "category"}
        )
    else:
        trace = heat(
            padded,
            x=list(map(str, variables)),
            y=agents,
            hover="%{y}, variable %{x}: %{z}",
            title="value",
            top=float(np.nanmax(padded)),
        )
        trace["zmin"] = float(min(0.0, np.nanmin(padded)))
        drawn = figure(
            [trace],
            x="variable",
            height=max(340, min(900, 120 + 16 * len(agents))),
            **matrix_axes(),
        )
    charts.append(
        Chart(
            name="agents",
            title="What each agent does (simulation)",
            caption="The variables of each agent at the end. In a federated run only the agent "
            f"itself knows its own; here all data stood at the server, declared public.{few}",
            figure=drawn,
            table=Table.of(
                ("agent", "variable", "value"),
                [
                    (place, k, float(value))
                    for place, one in enumerate(x)
                    for k, value in enumerate(one)
                ],
            ),
        )
    )
    parts = read.plain_parts()
    excess = np.array(read.operator.d)
    for part, one in zip(parts, x, strict=True):
        excess = excess + part.A_g @ one
    if excess.size:
        names = [f"row {k} of the coupling constraints" for k in range(excess.size)]
        charts.append(slack(-excess, names, None))
        path = _repeated(read, parts)
        if path is not None:
            charts.append(
                convergence(
                    *path,
                    [""] * excess.size,
                    "The multipliers of the coupling constraints, step by step: the plaintext "
                    "twin of the encrypted run, done again on the public data of this simulation; "
                    f"the encrypted run rounds to 2^-{read.encryption.fraction_bits}.",
                )
            )
    return charts


def _repeated(problem: CoupledQp, parts: Sequence[spds.Part]) -> tuple[list[int], Floats] | None:
    """Steps and multipliers of the same run without encryption; None if that takes too long, if
    sums have noise, for method auto, whose agents add random haze, and if nothing was summed."""
    if problem.protocol == "mpc":
        return None
    way = problem.way
    if not isinstance(way, methods.Spds):
        return None
    iterations, steps = way.iterations, checks.steps_of(way.steps, parts)
    if len(parts) * iterations > MAX_REPEATED_UPDATES or problem.noise is not None:
        return None
    path = [np.zeros(len(problem.operator.d))]
    spds.solve(
        parts,
        np.array(problem.operator.c),
        np.array(problem.operator.d),
        steps=steps,
        iterations=iterations,
        resolution=2.0**-problem.encryption.fraction_bits,
        watch=lambda agents: path.append(agents[0].multipliers.copy()),
    )
    shown = [0, *thinned(iterations, 100).tolist()]
    return shown, np.array([path[step] for step in shown])
