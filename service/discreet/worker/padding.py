"""When a step on private data ends, as everybody else sees it: one rule for every exit.

A step that ends by itself, with an answer or an error, ends at a time of the plan, or at that time
doubled where it did not suffice. A step that is called off (its job is cancelled or was given to
another worker, or this worker stops) ends a public time after that moment, doubled likewise: the
work has to stop first, which takes longer for a larger content.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter, Histogram

from discreet.observability import telemetry
from discreet.usecases.claims import Claim

log = structlog.get_logger()

STOPPING_SECONDS = 1.0
"""Until work that is called off has stopped, at least: an opening whose content is larger has the
time of the plan. Children are killed, and their memory is freed, in less."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)

_overdue = Counter(
    "discreet_releases_overdue_total",
    "Releases that took longer than their plan pads them to, so that the padded time was doubled",
    ["kind", "part"],
)
child_seconds = Histogram(
    "discreet_child_seconds",
    "Time of a step in a child process; that of a release is padded",
    ["kind", "step"],
    buckets=SECONDS,
)
Answer = TypeVar("Answer")


def padded_seconds(elapsed: float, quantum: float) -> float:
    """The quantum in seconds, doubled until it is no less than `elapsed`.

    Multiples of the quantum would reveal the time of an overdue release almost exactly; there are
    only a dozen doublings between a quantum and any limit. ValueError for a quantum that
    no doubling makes longer.
    """
    if not quantum > 0:
        raise ValueError(f"a quantum is longer than 0, not {quantum}")
    while quantum < elapsed:
        quantum *= 2
    return quantum


def exit_seconds(
    elapsed: float, planned: float, *, called_off: float | None, stopping: float
) -> float:
    """When a step that has taken `elapsed` seconds ends, in seconds after its beginning. `planned`
    and `stopping` follow from public figures; `called_off` is when the step was called off, None
    where it ended by itself."""
    if called_off is None:
        return padded_seconds(elapsed, planned)
    return called_off + padded_seconds(elapsed - called_off, stopping)


class Step:
    """One step on private data, `opening` or `release`, whose end is that of `exit_seconds`. A
    simulation's data are public, so its steps end when they end.

    The wait is a sleep: it occupies one of the worker's places for jobs, but no core.
    """

    def __init__(
        self, held: Claim, part: str, seconds: float, *, stopping: float, behind: float = 0.0
    ) -> None:
        """Begins now, or began `behind` seconds ago, and is planned to take `seconds`; once called
        off it takes `stopping`, or STOPPING_SECONDS if that is longer."""
        self.seconds = padded_seconds(0.0, seconds)
        self.part = part
        self._held = held
        self._stopping = max(stopping, STOPPING_SECONDS)
        self._began, self._started = time.time_ns() - round(behind * 1e9), time.monotonic() - behind

    async def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What `work` answers or raises, once the step may end. Whoever cancels this waits until
        then as well, however often they cancel it."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task})
            await self._end(None)
        except asyncio.CancelledError:
            stopping = asyncio.create_task(self._stop(task, self._elapsed()))
            while not stopping.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(stopping)
            raise
        return task.result()

    async def _stop(self, task: asyncio.Task[Any], called_off: float) -> None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # nobody asks for it any more
        await self._end(called_off)

    async def _end(self, called_off: float | None) -> None:
        """Wait for the end. Only then traces and metrics are written, with padded durations."""
        elapsed, held, kind = self._elapsed(), self._held, self._held.problem.kind
        ends = exit_seconds(elapsed, self.seconds, called_off=called_off, stopping=self._stopping)
        if held.simulation:
            ends = elapsed
        await asyncio.sleep(ends - elapsed)
        if not held.simulation and ends > self.seconds and called_off is None:
            _overdue.labels(kind, self.part).inc()
            log.info(
                "a release took longer than its plan pads it to",
                part=self.part,
                planned=self.seconds,
            )
        if self.part == "release":
            child_seconds.labels(kind, "release").observe(ends)
            telemetry.note("release", self._began, self._began + round(ends * 1e9), problem=kind)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started


class Between:
    """Pads each of several contents that are fetched one after the other: the place of the next
    sees when it is asked, and whoever keeps it is not to learn from that how long the one before
    took. It has an equal share of the time that is planned for all, so nothing takes longer."""

    def __init__(self, held: Claim, seconds: float) -> None:
        """`seconds` for all contents. The first is fetched now."""
        self._none = held.simulation or not held.stays
        self._share = seconds / max(1, len(held.data))
        self._started = time.monotonic()

    async def __call__(self) -> None:
        """Wait until the time of this content is over."""
        if self._none:
            return
        elapsed = time.monotonic() - self._started
        await asyncio.sleep(padded_seconds(elapsed, self._share) - elapsed)
        self._started = time.monotonic()
