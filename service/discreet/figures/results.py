"""The result of a job as a picture, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.figures.curves import Curve, draw_curves
from discreet.figures.network import draw_link_flows
from discreet.problems.routing.network import RoadNetwork


def draw_result(
    problem: dict[str, Any], result: dict[str, Any], path: Path, *, coordinates: ArrayLike | None = None
) -> None:
    """Draw a result as a picture file. `problem`: the body it answers; `coordinates`: of a network's nodes.

    routing: link flows on a map. dr_ensemble: expected power with and without control. off_policy_evaluation: the value
    of each state. Raises InvalidInput for other kinds, and for fields that are too large for JSON.
    """
    kind = problem["kind"]
    if kind == "routing":
        if "unit_flows" in result or "unit_flows" in result.get("tables", ()):
            raise InvalidInput("the method gradient releases a routing without demand: there are no flows to draw")
        network = RoadNetwork.model_validate(problem["network"])
        flows = _field(result, "link_flows")
        draw_link_flows(network.arrays(network.nodes), flows, path, coordinates=coordinates)
    elif kind == "dr_ensemble":
        curves = [
            Curve(name, np.arange(len(result[field])), _field(result, field), dashed=field.startswith("true"))
            for field, name in (
                ("default_power", "without control"),
                ("expected_power", "with control"),
                ("true_default_power", "without control, by the true matrix"),
                ("true_expected_power", "with control, by the true matrix"),
            )
            if field in result
        ]
        draw_curves(curves, path, x="step", y="expected power of a load")
    elif kind == "off_policy_evaluation":
        name = "values" if "values" in result else "weights"
        numbers = _field(result, name)
        axis = "state" if name == "values" else "feature"
        draw_curves([Curve(name, np.arange(len(numbers)), numbers)], path, x=axis, y=name.removesuffix("s"))
    else:
        raise InvalidInput(f"there is no picture of a result of kind {kind}")


def _field(result: dict[str, Any], name: str) -> Any:
    if name not in result:
        raise InvalidInput(f"{name} of this result is a table; get it as Parquet")
    return result[name]
