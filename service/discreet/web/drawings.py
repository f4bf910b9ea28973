"""Published results with their charts, drawn once for pages and for clients of the API."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
import structlog
from anyio.lowlevel import RunVar

from discreet.figures.charts import Chart
from discreet.problems.charts import result_charts
from discreet.storage.tenants import Principal
from discreet.usecases import objects, published
from discreet.usecases.services import Services

log = structlog.get_logger()

DRAWN_AT_ONCE = 2
"""Results that one process draws at once: each takes many times its size in memory."""
KEPT_RESULTS = 8
"""Results whose charts stay in memory: a published result never changes."""
KEPT_SECONDS = 600.0
"""How long they stay there at most: a result may be deleted at the end of its retention period."""

_kept: OrderedDict[str, Drawn] = OrderedDict()
_asked: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
"""Locks by job, while somebody waits for its charts."""
_LIMITER: RunVar[anyio.CapacityLimiter] = RunVar("drawings")


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
    """The result of a job with its charts. NotFound for another tenant's, Forbidden for who may not
    see results, Conflict when there is none yet, Gone when it was deleted."""
    row, text, _ = await published.result(services, principal, job_id)
    if job_id not in _kept:
        async with _asked.setdefault(job_id, anyio.Lock()):
            if job_id not in _kept:  # nobody has drawn it while this one waited
                async with turns():
                    problem = await objects.filled_text(services, principal, row["problem"])
                    _kept[job_id] = await anyio.to_thread.run_sync(
                        _draw, {**row, "problem": problem}, text
                    )
                    asyncio.get_running_loop().call_later(KEPT_SECONDS, _kept.pop, job_id, None)
    known = _kept[job_id]
    _kept.move_to_end(job_id)
    while len(_kept) > KEPT_RESULTS:
        _kept.popitem(last=False)
    return known


def charts_text(charts: Sequence[Chart]) -> bytes:
    """Charts as clients of the API read them, JSON."""
    listed = [
        {"name": one.name, "title": one.title, "caption": one.caption, "figure": one.standalone()}
        for one in charts
    ]
    return json.dumps({"charts": listed}, allow_nan=False, separators=(",", ":")).encode()


def turns() -> anyio.CapacityLimiter:
    """Of those who draw, or open what a problem names, in this process."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(DRAWN_AT_ONCE)
        _LIMITER.set(limiter)
        return limiter


def _draw(row: dict[str, Any], text: bytes) -> Drawn:
    result = json.loads(text)
    try:
        charts = tuple(result_charts(row["problem"], row["plan"], result))
    except Exception:  # a picture that cannot be made is no reason to hide the result
        log.exception("a result could not be drawn", job=row["id"], kind=row["kind"])
        charts = ()
    return Drawn(row, result, charts)
