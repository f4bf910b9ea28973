"""Charts of agents through a cloud: multipliers, slack, gradients, and in simulations states."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.figures.charts import Chart, Table, noise_of
from discreet.figures.series import MAX_CURVES, convergence, mean_noise, slack
from discreet.figures.traces import bars, curve, figure, plain

SHOWN = (
    "multipliers step by step, slack of the constraints with its noise, gradients; simulation: "
    "states"
)
MAX_BARS = 200


def charts_of(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    charts = []
    constraints = [str(text) for text in problem["constraints"]]
    if result.get("multiplier_path"):
        steps = [row["step"] for row in result["multiplier_path"]]
        path = np.array([row["multipliers"] for row in result["multiplier_path"]])
        charts.append(
            convergence(
                steps,
                path,
                constraints,
                "The price that each constraint puts on the agents, step by step. It follows from "
                "the noised outputs of the cloud, which every agent sees: the remaining "
                f"fluctuation is noise.{noise_of(plan)}",
            )
        )
    if "noisy_values" in result:
        values = np.array(result["noisy_values"])
        charts.append(slack(-values, constraints, mean_noise(plan, len(values))))
    if result.get("noisy_gradients"):
        rows = [
            (one["constraint"], one["agent"], float(one["value"]))
            for one in result["noisy_gradients"]
        ]
        steepest = sorted(sorted(rows, key=lambda row: -abs(row[2]))[:MAX_BARS], key=rows.index)
        charts.append(
            Chart(
                name="gradients",
                title="Gradients of the constraints",
                caption="Means of the noised derivatives over the second half of the steps: how "
                "much each agent moves each constraint where the agents stand. A derivative that "
                "is constant has no noise."
                + (
                    ""
                    if len(steepest) == len(rows)
                    else f" Shown are the {MAX_BARS} steepest of {len(rows)}."
                ),
                figure=figure(
                    [
                        bars(
                            "derivative",
                            [f"{k} in {plain(name)}" for k, name, _ in steepest],
                            [row[2] for row in steepest],
                        )
                    ],
                    x="constraint in agent",
                    y="mean noised derivative",
                    height=320,
                    xaxis={"type": "category"},
                ),
                table=Table.of(("constraint", "agent", "mean noised derivative"), rows),
            )
        )
    if "state_path" in result:
        names = list(result["state"])
        states = np.array(result["state_path"])[:, :MAX_CURVES]
        points = list(range(len(states)))
        charts.append(
            Chart(
                name="states",
                title="States of the agents, true (simulation)",
                caption="Where the agents stood. Only shown because this dataset is declared "
                "public: in a private job states are the protected data.",
                figure=figure(
                    [
                        curve(name, points, column, place)
                        for place, (name, column) in enumerate(zip(names, states.T, strict=False))
                    ],
                    x="recorded step",
                    y="state",
                    hover="x unified",
                ),
                table=Table.of(
                    ("point", *names[:MAX_CURVES]), [(k, *row) for k, row in enumerate(states)]
                ),
            )
        )
    return charts
