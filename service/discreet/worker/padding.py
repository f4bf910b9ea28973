"""Padding of the time of work on private data: what shows is a time of the plan, or that time
doubled where it did not suffice."""

from __future__ import annotations

import asyncio
import time

import structlog
from prometheus_client import Counter, Histogram

from discreet.observability import telemetry
from discreet.usecases.claims import Claim

log = structlog.get_logger()

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


class Pad:
    """Pads the time of work on data to a time in the plan, which depends on public figures alone;
    if the work took longer, to that time doubled as often as needed. A simulation's data are
    public, so its time is not padded.

    The wait is a sleep: it occupies one of the worker's places for jobs, but no core.
    """

    def __init__(self, held: Claim, part: str, seconds: float, *, behind: float = 0.0) -> None:
        """Starts now, or `behind` seconds ago. `part` is `opening` or `release`."""
        self.seconds = seconds
        self._held, self._part = held, part
        self._began, self._started = time.time_ns() - round(behind * 1e9), time.monotonic() - behind

    async def wait(self) -> None:
        """Wait until the padded time is over. Only then traces and metrics are written, with padded
        durations too."""
        elapsed = time.monotonic() - self._started
        padded = elapsed if self._held.simulation else padded_seconds(elapsed, self.seconds)
        kind = self._held.problem.kind
        await asyncio.sleep(padded - elapsed)
        if not self._held.simulation and padded > self.seconds:
            _overdue.labels(kind, self._part).inc()
            log.info(
                "a release took longer than its plan pads it to",
                part=self._part,
                planned=self.seconds,
            )
        if self._part == "release":
            child_seconds.labels(kind, "release").observe(padded)
            telemetry.note("release", self._began, self._began + round(padded * 1e9), problem=kind)


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


def padded_seconds(elapsed: float, quantum: float) -> float:
    """The quantum in seconds, doubled until it is no less than `elapsed`.

    Multiples of the quantum would reveal the time of an overdue release almost exactly; there are
    only a dozen doublings between a quantum and any limit.
    """
    while quantum < elapsed:
        quantum *= 2
    return quantum
