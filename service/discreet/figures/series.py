"""Charts that several kinds share: multipliers step by step, and the slack of constraints.

All charts are plotly's figures as plain dictionaries, each with a caption and a table. Only what
was released is drawn. Where the dataset is public (`mode: simulation`) the truth is drawn beside
it, and named so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.figures.charts import Chart, Table
from discreet.figures.traces import bars, curve, figure, plain

Floats = NDArray[np.float64]
MAX_TEXT = 28
"""Letters of a constraint in a legend."""
MAX_FRAME_NUMBERS = 60_000
"""Numbers in all frames of a policy: more are merged into blocks of states."""
MAX_CURVES = 12
MAX_POINTS = 5000


def convergence(
    steps: Sequence[int], path: Floats, constraints: Sequence[str], caption: str
) -> Chart:
    """The chart of multipliers float64[points, m]; of many constraints, those whose multipliers
    rise highest. `constraints`: their texts."""
    chosen = np.sort(np.argsort(-path.max(axis=0), kind="stable")[:MAX_CURVES])
    more = (
        ""
        if chosen.size == path.shape[1]
        else f" Shown are the {chosen.size} that rise highest of {path.shape[1]}."
    )
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
        table=Table.of(
            ("step", *names),
            [(step, *row) for step, row in zip(steps, path[:, chosen], strict=True)],
        ),
    )


def _constraint(number: int, text: str) -> str:
    """A constraint by its number and as much of its text as a legend has room for."""
    short = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    return f"{number}: {short}" if text else f"constraint {number}"


def mean_noise(plan: dict[str, Any], constraints: int) -> Floats | None:
    """float64[constraints]: two standard deviations of the noise in the mean of a constraint's
    values over the second half of the steps; None where the plan names no noise."""
    told = {one["quantity"]: one["standard_deviation"] for one in plan.get("noise", ())}
    steps = plan.get("iterations", {}).get("steps", 0)
    if not told or not steps:
        return None
    each = np.array(
        [told.get(f"value of constraint {k} in each step", 0.0) for k in range(constraints)]
    )
    return np.asarray(2 * each / np.sqrt(steps - steps // 2))


def slack(slack: Floats, constraints: Sequence[str], error: Floats | None) -> Chart:
    """The chart of float64[m], the slack of each constraint; of many, the tightest. `error`: half
    the length of their whiskers."""
    chosen = np.sort(np.argsort(slack, kind="stable")[:60])
    names = [f"{k}" for k in chosen.tolist()]
    trace = bars("slack", names, slack[chosen], error=None if error is None else error[chosen])
    trace |= {
        "text": [plain(constraints[k])[:120] for k in chosen.tolist()],
        "textposition": "none",
        "hovertemplate": "constraint %{x} (%{text}): %{y:.4g} left<extra></extra>",
    }
    noise = (
        ""
        if error is None
        else " Whiskers are two standard deviations of the noise in these means."
    )
    few = (
        ""
        if chosen.size == slack.size
        else f" Shown are the {chosen.size} tightest of {slack.size}."
    )
    columns: tuple[str, ...] = ("constraint", "expression", "slack")
    rows: list[tuple[Any, ...]] = [(k, constraints[k], float(slack[k])) for k in range(slack.size)]
    if error is not None:
        columns = (*columns, "two deviations of noise")
        rows = [(*row, float(error[row[0]])) for row in rows]
    return Chart(
        name="slack",
        title="Slack of the constraints",
        caption="What is left of each constraint: 0 or more when it holds, below 0 by how much it "
        "is violated." + noise + few,
        figure=figure([trace], x="constraint", y="slack", height=320, xaxis={"type": "category"}),
        table=Table.of(columns, rows),
    )


def field(result: dict[str, Any], name: str) -> Any:
    """A field of a result to draw. InvalidInput where it is too large for JSON."""
    if name not in result:
        raise InvalidInput(f"{name} of this result is a table; get it as Parquet")
    return result[name]
