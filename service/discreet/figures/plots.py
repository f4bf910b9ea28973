"""Charts of results for pages: plotly's figures as plain dictionaries, each with a caption and a table.

Only what was released is drawn. Where the dataset is public (`mode: simulation`) the truth is drawn beside it, and
named so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.figures.charts import Blocks, Chart, Table, largest, noise_of
from discreet.figures.road_map import routing_charts
from discreet.figures.timelines import session_chart, spending_chart
from discreet.figures.traces import bars, curve, figure, heat, matrix_axes, plain, rounded
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.solvers import spds
from discreet.solvers.saddle_point import thinned
from discreet.solvers.value_features import Fourier
from discreet_client.updates import Steps

__all__ = ["Chart", "Table", "result_charts", "session_chart", "spending_chart"]

Floats = NDArray[np.float64]

MAX_PERIODS = 96
MAX_TEXT = 28
"""Letters of a constraint in a legend."""
MAX_FRAME_NUMBERS = 60_000
"""Numbers in all frames of a policy: more are merged into blocks of states."""
MAX_CURVES = 12
MAX_POINTS = 5000
MAX_BARS = 200
MAX_REPEATED_UPDATES = 20_000
"""Agents times iterations up to which a run on public data is done again to draw it."""
GRID = 41


def result_charts(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    """The charts of a result. `problem` as stored with the job, `plan` and `result` as the API gives them; fields that
    the result names in `tables` are not drawn."""
    drawn = {
        "routing": routing_charts,
        "dr_ensemble": _dr_charts,
        "off_policy_evaluation": _off_policy_charts,
        "multi_agent": _multi_agent_charts,
        "coupled_qp": _coupled_qp_charts,
    }
    return drawn[problem["kind"]](problem, plan, result)


# Demand response ----------------------------------------------------------------------------------------------------


def _dr_charts(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    charts = [_load(problem, plan, result)] if {"default_power", "expected_power"} <= result.keys() else []
    if "transitions" in result:
        matrix = np.array(result["transitions"])
        blocks = Blocks.of(len(matrix))
        trace = heat(
            blocks.moves(matrix),
            x=blocks.labels,
            y=blocks.labels,
            hover="from %{y} to %{x}: %{z}",
            title="probability",
        )
        charts.append(
            Chart(
                name="transitions",
                title="Transitions without control",
                caption="How likely a load moves from one state (row) to another (column) in a step, as released. "
                f"Faint cells may be noise alone.{noise_of(plan)}{blocks.says}",
                figure=figure([trace], x="to state", y="from state", height=440, **matrix_axes()),
                table=Table.of(("from", "to", "probability"), largest(matrix)),
            )
        )
    if result.get("policy"):
        charts.append(_policy(np.array(result["policy"])))
    if "cost_to_go" in result:
        cost = np.array(result["cost_to_go"])
        states = list(range(len(cost)))
        charts.append(
            Chart(
                name="cost",
                title="Expected cost by first state",
                caption="Power and discomfort over all steps under the policy, for a load that begins in each state; "
                "by the released transitions.",
                figure=figure([bars("cost to go", states, cost)], x="state", y="cost to go", height=300),
                table=Table.of(("state", "cost to go"), list(zip(states, cost, strict=True))),
            )
        )
    if "cost_of_privacy" in result:
        cost = np.array(result["cost_of_privacy"])
        steps = list(range(len(cost)))
        sides = [("mean over states", cost.mean(axis=1)), ("worst state", cost.max(axis=1))]
        charts.append(
            Chart(
                name="privacy",
                title="Cost of privacy (simulation)",
                caption="What the released policy costs more than the best one, by the true transitions. Only shown "
                "because this dataset is declared public.",
                figure=figure(
                    [curve(name, steps, values, place) for place, (name, values) in enumerate(sides)],
                    x="step",
                    y="extra cost to go",
                    hover="x unified",
                ),
                table=Table.of(
                    ("step", *(name for name, _ in sides)), list(zip(steps, *(side for _, side in sides), strict=True))
                ),
            )
        )
    return charts


def _load(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> Chart:
    names = {
        "default_power": "without control",
        "expected_power": "with control",
        "true_default_power": "without control, true (simulation)",
        "true_expected_power": "with control, true (simulation)",
    }
    horizon = len(result["expected_power"])
    steps = list(range(horizon)) if horizon <= MAX_POINTS else [0, *(thinned(horizon - 1, MAX_POINTS)).tolist()]
    shown = {name: np.array(result[field])[steps] for field, name in names.items() if field in result}
    traces = [curve(name, steps, values, place) for place, (name, values) in enumerate(shown.items())]
    more: dict[str, Any] = {}
    columns, extra = ["step", *shown], []
    if problem.get("price") is not None:
        tariff = np.array(problem["price"])[steps]
        price = curve("price (right)", steps, tariff, 5, steps=True, dashed=False, yaxis="y2", opacity=0.35)
        traces.insert(0, {**price, "fill": "tozeroy", "fillcolor": "rgba(123, 135, 148, 0.16)"})
        right = {"side": "right", "title": {"text": "price"}, "showgrid": False, "tickmode": "auto", "nticks": 5}
        more["yaxis2"] = {**right, "overlaying": "y", "rangemode": "tozero"}
        more["margin"] = {"l": 60, "r": 60, "t": 20, "b": 50}
        columns, extra = [*columns, "price"], [tariff]
    return Chart(
        name="load",
        title="Load with and without control",
        caption="Expected power of one load in each step. Both curves follow from the same released transitions: what "
        f"noise moves, it moves in both.{noise_of(plan)}",
        figure=figure(traces, x="step", y="expected power of a load", hover="x unified", **more),
        table=Table.of(columns, list(zip(steps, *shown.values(), *extra, strict=True))),
    )


def _policy(policy: Floats) -> Chart:
    """float64[T - 1, n, n], one frame a period."""
    periods = np.arange(len(policy)) if len(policy) <= MAX_PERIODS else thinned(len(policy), MAX_PERIODS) - 1
    blocks = Blocks.of(policy.shape[1], most=max(2, int((MAX_FRAME_NUMBERS / len(periods)) ** 0.5)))
    frames = [blocks.moves(policy[period]) for period in periods.tolist()]
    top = max(float(frame.max()) for frame in frames)
    trace = heat(
        frames[0],
        x=blocks.labels,
        y=blocks.labels,
        hover="from %{y} to %{x}: %{z}",
        title="probability",
        top=top,
    )
    drawn = figure([trace], x="to state", y="from state", height=440, **matrix_axes())
    drawn["frames"] = [
        {"name": str(period), "data": [{"z": rounded(frame, 4)}]}
        for period, frame in zip(periods.tolist(), frames, strict=True)
    ]
    stays = [float(np.trace(policy[period])) / policy.shape[1] for period in periods.tolist()]
    likely = policy.argmax(axis=2)
    rows = [
        (period, state, int(likely[period, state]), float(policy[period, state, likely[period, state]]))
        for period in periods.tolist()
        for state in range(policy.shape[1])
    ]
    return Chart(
        name="policy",
        title="Control policy by period",
        caption="The probability with which the control moves a load from a state (row) to another (column) in the "
        f"chosen period. A load stays where it is with probability {min(stays):.2f} to {max(stays):.2f} in the mean "
        f"over states. The policy follows from the released transitions and the tariff.{blocks.says}",
        figure=drawn,
        table=Table.of(("period", "from", "most likely to", "probability"), rows),
        control="Period",
    )


# Off-policy evaluation ----------------------------------------------------------------------------------------------


def _off_policy_charts(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    charts = []
    features = problem["features"]
    told = (
        f"Expected discounted return (discount {problem['discount']:g}) under the evaluated policy, from noised "
        f"statistics alone. Noise moves neighbouring values together, most where people rarely came.{noise_of(plan)}"
    )
    if "values" in result:
        values = np.array(result["values"])
        states = list(range(len(values)))
        drawn = figure([curve("value", states, values)], x="state", y="value")
        table = Table.of(("state", "value"), list(zip(states, values, strict=True)))
        charts.append(Chart("values", "Value of each state", told, drawn, table))
        return charts
    if "weights" not in result:
        return charts
    weights = np.array(result["weights"])
    if features["type"] == "fourier" and len(features["low"]) <= 2:
        charts.append(_surface(features, weights, told))
    numbers = list(range(len(weights)))
    charts.append(
        Chart(
            name="weights",
            title="Weights of the features",
            caption="The released weights of the linear value function, one a feature.",
            figure=figure([bars("weight", numbers, weights)], x="feature", y="weight", height=300),
            table=Table.of(("feature", "weight"), list(zip(numbers, weights, strict=True))),
        )
    )
    return charts


def _surface(features: dict[str, Any], weights: Floats, told: str) -> Chart:
    """The value over the public box of states, of one or two coordinates."""
    low, high = tuple(features["low"]), tuple(features["high"])
    basis = Fourier(features["order"], low, high)
    if len(low) == 1:
        points = np.linspace(low[0], high[0], 4 * GRID + 1)
        values = basis(points[:, None]) @ weights
        drawn = figure([curve("value", rounded(points), values)], x="x", y="value")
        table = Table.of(("x", "value"), list(zip(points, values, strict=True)))
        return Chart("values", "Value function", told, drawn, table)
    axes = [np.linspace(bottom, top, GRID) for bottom, top in zip(low, high, strict=True)]
    x, y = np.meshgrid(*axes, indexing="xy")
    values = (basis(np.stack([x.ravel(), y.ravel()], axis=1)) @ weights).reshape(x.shape)
    trace = heat(values, x=rounded(axes[0]), y=rounded(axes[1]), hover="x %{x}, y %{y}: %{z}", title="value")
    trace |= {"zmin": float(values.min()), "zmax": float(values.max())}
    every = slice(None, None, 10)
    table = Table.of(
        ("x", "y", "value"),
        list(zip(x[every, every].ravel(), y[every, every].ravel(), values[every, every].ravel(), strict=True)),
    )
    return Chart("values", "Value function", told, figure([trace], x="x", y="y", height=440), table)


# Agents through a cloud ---------------------------------------------------------------------------------------------


def _multi_agent_charts(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    charts = []
    constraints = [str(text) for text in problem["constraints"]]
    if result.get("multiplier_path"):
        steps = [row["step"] for row in result["multiplier_path"]]
        path = np.array([row["multipliers"] for row in result["multiplier_path"]])
        charts.append(
            _convergence(
                steps,
                path,
                constraints,
                "The price that each constraint puts on the agents, step by step. It follows from the noised outputs "
                f"of the cloud, which every agent sees: the unrest that stays is noise.{noise_of(plan)}",
            )
        )
    if "noisy_values" in result:
        values = np.array(result["noisy_values"])
        charts.append(_slack(-values, constraints, _mean_noise(plan, len(values)), plan))
    if result.get("noisy_gradients"):
        rows = [(one["constraint"], one["agent"], float(one["value"])) for one in result["noisy_gradients"]]
        steepest = sorted(sorted(rows, key=lambda row: -abs(row[2]))[:MAX_BARS], key=rows.index)
        charts.append(
            Chart(
                name="gradients",
                title="Gradients of the constraints",
                caption="Means of the noised derivatives over the second half of the steps: how much each agent moves "
                "each constraint where the agents stand. A derivative that is constant has no noise."
                + ("" if len(steepest) == len(rows) else f" The {MAX_BARS} steepest of {len(rows)}."),
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
                caption="Where the agents stood. Only shown because this dataset is declared public: in a private job "
                "states are the protected data.",
                figure=figure(
                    [
                        curve(name, points, column, place)
                        for place, (name, column) in enumerate(zip(names, states.T, strict=False))
                    ],
                    x="recorded step",
                    y="state",
                    hover="x unified",
                ),
                table=Table.of(("point", *names[:MAX_CURVES]), [(k, *row) for k, row in enumerate(states)]),
            )
        )
    return charts


def _convergence(steps: Sequence[int], path: Floats, constraints: Sequence[str], caption: str) -> Chart:
    """Multipliers float64[points, m] of constraints that have texts; of many those that ever are largest."""
    chosen = np.sort(np.argsort(-path.max(axis=0), kind="stable")[:MAX_CURVES])
    more = "" if chosen.size == path.shape[1] else f" The {chosen.size} that rise highest of {path.shape[1]}."
    names = [_constraint(k, constraints[k]) for k in chosen.tolist()]
    return Chart(
        name="convergence",
        title="Multipliers, step by step",
        caption=caption + more,
        figure=figure(
            [
                curve(name, steps, column, place)
                for place, (name, column) in enumerate(zip(names, path[:, chosen].T, strict=True))
            ],
            x="step",
            y="multiplier",
            hover="x unified",
        ),
        table=Table.of(("step", *names), [(step, *row) for step, row in zip(steps, path[:, chosen], strict=True)]),
    )


def _constraint(number: int, text: str) -> str:
    """A constraint by its number and as much of its text as a legend has room for."""
    short = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    return f"{number}: {short}" if text else f"constraint {number}"


def _mean_noise(plan: dict[str, Any], constraints: int) -> Floats | None:
    """Twice the deviation of the noise in the mean of a constraint's values, over the second half of the steps."""
    told = {one["quantity"]: one["standard_deviation"] for one in plan.get("noise", ())}
    steps = plan.get("iterations", {}).get("steps", 0)
    if not told or not steps:
        return None
    each = np.array([told.get(f"value of constraint {k} in each step", 0.0) for k in range(constraints)])
    return np.asarray(2 * each / np.sqrt(steps - steps // 2))


def _slack(slack: Floats, constraints: Sequence[str], error: Floats | None, plan: dict[str, Any]) -> Chart:
    chosen = np.sort(np.argsort(slack, kind="stable")[:60])
    names = [f"{k}" for k in chosen.tolist()]
    trace = bars("slack", names, slack[chosen], error=None if error is None else error[chosen])
    trace |= {
        "text": [plain(constraints[k])[:120] for k in chosen.tolist()],
        "textposition": "none",
        "hovertemplate": "constraint %{x} (%{text}): %{y:.4g} left<extra></extra>",
    }
    noise = "" if error is None else " Whiskers are two standard deviations of the noise in these means."
    few = "" if chosen.size == slack.size else f" The {chosen.size} tightest of {slack.size}."
    columns: tuple[str, ...] = ("constraint", "expression", "slack")
    rows: list[tuple[Any, ...]] = [(k, constraints[k], float(slack[k])) for k in range(slack.size)]
    if error is not None:
        columns = (*columns, "two deviations of noise")
        rows = [(*row, float(error[row[0]])) for row in rows]
    return Chart(
        name="slack",
        title="Slack of the constraints",
        caption="What is left of each constraint: 0 or more when it holds, below 0 by how much it is violated."
        + noise
        + few,
        figure=figure([trace], x="constraint", y="slack", height=320, xaxis={"type": "category"}),
        table=Table.of(columns, rows),
    )


# Encrypted sums -----------------------------------------------------------------------------------------------------


def _coupled_qp_charts(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    """Nothing of a federated run: the result has nothing of the agents; `session_chart` tells who was there."""
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
        drawn = figure(traces, x="", y="value", height=340, barmode="group", xaxis={"type": "category"})
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
        drawn = figure([trace], x="variable", height=max(340, min(900, 120 + 16 * len(agents))), **matrix_axes())
    charts.append(
        Chart(
            name="agents",
            title="What each agent does (simulation)",
            caption="The variables of each agent at the end. In a federated run only the agent itself knows its own; "
            f"here all data stood at the server, declared public.{few}",
            figure=drawn,
            table=Table.of(
                ("agent", "variable", "value"),
                [(place, k, float(value)) for place, one in enumerate(x) for k, value in enumerate(one)],
            ),
        )
    )
    parts, steps = read.plain_parts()
    excess = np.array(read.operator.d)
    for part, one in zip(parts, x, strict=True):
        excess = excess + part.A_g @ one
    if excess.size:
        names = [f"row {k} of the coupling constraints" for k in range(excess.size)]
        charts.append(_slack(-excess, names, None, plan))
        path = _repeated(read, parts, steps)
        if path is not None:
            charts.append(
                _convergence(
                    *path,
                    [""] * excess.size,
                    "The multipliers of the coupling constraints, step by step: the plaintext twin of the encrypted "
                    "run, done again on the public data of this simulation; the encrypted run rounds to 2^-"
                    f"{read.encryption.fraction_bits}.",
                )
            )
    return charts


def _repeated(
    problem: CoupledQp, parts: Sequence[spds.Part], steps: Sequence[Steps]
) -> tuple[list[int], Floats] | None:
    """Steps and multipliers of the same run without encryption; None where that takes long, or sums have noise."""
    iterations = problem.steps.iterations
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
