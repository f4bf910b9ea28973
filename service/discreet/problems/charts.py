"""The charts of a result, and its picture, whatever its kind: `charts.py` of the kind's folder
draws them.

SHOWN                                          what there is to see, in a few words
charts_of(problem, plan, result)               the charts of its page
draw(problem, result, path, coordinates=…)     the picture of `discreet draw`, if there is one
row_names(problem, result, field)              how people call the rows of a field, where not by
                                               position
pairs(problem, result), pair_map, pair_paths   where the result has paths between pairs of zones
zone_names(problem, result)                    what these zones are called, where not by numbers
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.figures.charts import Chart
from discreet.figures.style import stamped
from discreet.problems import JOBS
from discreet_client import intervals


def charts_module(kind: str) -> Any:
    """What draws a kind, loaded when it is first asked for, so that no worker loads what it never
    draws; None for a kind that has nothing that draws."""
    known = JOBS.get(kind)
    if known is None:
        return None
    folder = known.__module__.rpartition(".")[0]
    whole = f"{folder}.charts"
    try:
        return import_module(whole)
    except ModuleNotFoundError as missing:
        if missing.name not in (whole, folder):
            raise
        return None


def result_charts(
    problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]
) -> list[Chart]:
    """The charts of a result. `problem` as stored with the job, `plan` and `result` as the API
    gives them; fields that the result names in `tables` are not drawn."""
    drawing = charts_module(problem["kind"])
    charts: list[Chart] = [] if drawing is None else drawing.charts_of(problem, plan, result)
    return charts


def draw_result(
    problem: dict[str, Any],
    result: dict[str, Any],
    path: Path,
    *,
    coordinates: ArrayLike | None = None,
) -> None:
    """Draw a result as a picture file. `problem`: the body it answers; `coordinates`: of a
    network's nodes.

    InvalidInput for kinds that have no picture, for fields that are too large for JSON, and for a
    problem that names a stored object, which a server alone knows.
    """
    kind = problem["kind"]
    for field, model in JOBS[kind].objects.items() if kind in JOBS else ():
        if isinstance(named := problem.get(field), str):
            says = f"{named} is known only to a server: put the {model.type} itself into this file"
            raise InvalidInput(
                f"{says} (`discreet {model.type} show {named} --json`)", pointer=f"/problem/{field}"
            )
    drawn = getattr(charts_module(kind), "draw", None)
    if drawn is None:
        raise InvalidInput(f"there is no picture of a result of kind {kind}")
    with stamped("mostly noise" if intervals.is_mostly_noise(result) else ""):
        drawn(problem, result, path, coordinates=coordinates)
