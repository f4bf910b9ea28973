"""Charts of answers as plotly figures. The service has drawn them, as they are on the job's page;
nothing is drawn here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from discreet_client.errors import MissingExtra
from discreet_client.rest import models

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Charts = list[models.ChartAnswer]
Fetched = Charts | Awaitable[Charts]
Fetch = Callable[[str], Fetched]
"""Fetches the charts of a job: `Client.charts`, or `AsyncClient.charts`, which is awaited."""


def plotted(fetch: Fetch | None, job_id: str, name: str | None) -> Any:
    """The figure, or with the fetch of an AsyncClient an awaitable of it. MissingExtra without
    plotly, before anything is fetched."""
    try:
        import plotly.graph_objects  # noqa: F401, PLC0415 - optional
    except ImportError:
        raise MissingExtra("plotly", "plot", "a figure") from None
    if fetch is None:
        raise TypeError(
            "this answer did not come from a client; client.charts(job_id) returns a job's charts"
        )
    found = fetch(job_id)
    return _later(found, name) if isawaitable(found) else figure_of(found, name)


async def _later(found: Awaitable[Charts], name: str | None) -> Figure:
    return figure_of(await found, name)


def figure_of(charts: Sequence[models.ChartAnswer], name: str | None = None) -> Figure:
    """One of these charts, the first by default. KeyError, with their names, if none is called
    so."""
    from plotly.graph_objects import Figure  # noqa: PLC0415 - optional

    chosen = next((one for one in charts if name in (None, one["name"])), None)
    if chosen is None:
        raise KeyError(
            f"{name!r}; there are {', '.join(one['name'] for one in charts)}"
            if charts
            else "this job has no charts"
        )
    return Figure(chosen["figure"])
