"""Published results with their charts, drawn once for pages and for clients of the API."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import structlog

from discreet.figures.charts import Chart
from discreet.problems.charts import result_charts
from discreet.storage.tenants import Principal
from discreet.usecases import jobs, objects
from discreet.usecases.services import Services

log = structlog.get_logger()

KEPT_RESULTS = 8
"""Results whose charts stay in memory: a published result never changes."""

_kept: OrderedDict[str, Drawn] = OrderedDict()


@dataclass(frozen=True)
class Drawn:
    """A published result with its charts."""

    row: dict[str, Any]
    result: dict[str, Any]
    charts: tuple[Chart, ...]

    @property
    def plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = self.row["plan"]
        return plan


async def drawn(services: Services, principal: Principal, job_id: str) -> Drawn:
    """The result of a job with its charts. NotFound for another tenant's, Forbidden for who may not see results,
    Conflict when there is none yet."""
    row, text, _ = await jobs.result(services, principal, job_id)
    known = _kept.get(job_id)
    if known is None:
        problem = await objects.filled_text(services, principal, row["problem"])
        known = await anyio.to_thread.run_sync(_draw, {**row, "problem": problem}, text)
        _kept[job_id] = known
        while len(_kept) > KEPT_RESULTS:
            _kept.popitem(last=False)
    if job_id in _kept:
        _kept.move_to_end(job_id)
    return known


def _draw(row: dict[str, Any], text: bytes) -> Drawn:
    result = json.loads(text)
    try:
        charts = tuple(result_charts(row["problem"], row["plan"], result))
    except Exception:  # a picture that cannot be made is no reason to hide the result
        log.exception("a result could not be drawn", job=row["id"], kind=row["kind"])
        charts = ()
    return Drawn(row, result, charts)
