"""When a step on private data ends, as others see it: whatever ends it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from discreet.errors import Unavailable
from discreet.isolation.children import Crashed
from discreet.storage.sealing import SealBroken
from discreet.usecases.places.staying import PlaceFails
from discreet.usecases.running import CancelRequested, LostJob, kept
from discreet.usecases.spooling import NoRoomForJob
from discreet.worker import runner
from discreet.worker.runner import STOPPING_SECONDS, Step, exit_seconds, padded_seconds

PLANNED = 0.5


@given(st.floats(0, 3600), st.sampled_from([0.0625, 0.25, 0.5, 3.25]))
def test_a_release_seems_to_take_its_quantum_or_a_doubling(elapsed: float, quantum: float) -> None:
    padded = padded_seconds(elapsed, quantum)
    assert padded >= elapsed
    assert padded == quantum or padded < 2 * elapsed
    assert math.log2(padded / quantum).is_integer()


def test_long_releases_show_few_figures() -> None:
    """Where a plan gave too little time, an analyst would see contents of 1,000 sizes apart in
    multiples of the quantum; in doublings four."""
    times = [10 + 0.1 * size for size in range(1000)]
    assert len({math.ceil(time / 0.5) for time in times}) > 190
    assert len({padded_seconds(time, 0.5) for time in times}) == 4


@pytest.mark.parametrize("quantum", [0.0, -0.5, math.nan])
def test_a_quantum_that_never_grows_is_refused_before_anything_runs(quantum: float) -> None:
    with pytest.raises(ValueError, match="longer than 0"):
        padded_seconds(1.0, quantum)
    with pytest.raises(ValueError, match="longer than 0"):
        Step(SimpleNamespace(), "release", quantum, stopping=1.0)  # type: ignore[arg-type]


@given(st.floats(0, 100), st.floats(0, 100), st.sampled_from([0.5, 2.0]))
def test_what_is_called_off_ends_a_public_time_later(
    called_off: float, more: float, stopping: float
) -> None:
    ends = exit_seconds(called_off + more, 1.0, called_off=called_off, stopping=stopping)
    assert ends >= (called_off + more) * (1 - 1e-12)
    assert math.log2((ends - called_off) / stopping) == pytest.approx(
        round(math.log2((ends - called_off) / stopping)), abs=1e-9
    )


# Every exit --------------------------------------------------------------------------------------

WORK = (0.0, 0.125, 0.25, 0.4375)
"""Real seconds of work within its plan."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A loop's clock that jumps to whatever comes next, as `clock.run(…)` runs it; the steps and
    leases see it."""

    class Loop(asyncio.SelectorEventLoop):
        now = 100.0

        def time(self) -> float:
            return self.now

        def _run_once(self) -> None:
            if not self._ready and self._scheduled:  # type: ignore[attr-defined]
                self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]
            super()._run_once()  # type: ignore[misc]

    loop = Loop()
    monkeypatch.setattr(
        runner,
        "time",
        SimpleNamespace(monotonic=loop.time, time_ns=lambda: round(loop.now * 1e9)),
    )
    yield SimpleNamespace(run=loop.run_until_complete, time=loop.time)
    loop.close()


def step(part: str = "release", *, simulation: bool = False, **given: Any) -> Step:
    held: Any = SimpleNamespace(simulation=simulation, problem=SimpleNamespace(kind="padded"))
    return Step(held, part, PLANNED, **{"stopping": 0.25, **given})


Exit = Callable[[SimpleNamespace, Step, float], Awaitable[None]]


def raising(error: BaseException | None) -> Exit:
    """The work ends by itself."""

    async def leave(_clock: SimpleNamespace, one: Step, seconds: float) -> None:
        async def work() -> None:
            await asyncio.sleep(seconds)
            if error is not None:
                raise error

        await one.run(work())

    return leave


def called_off(reason: Exception | None, *, again: bool = False) -> Exit:
    """Somebody ends it after .375 s, when some of the work is done and some is not, and what is not
    stops as a thread does that opens a content: when it is done. None: this worker stops."""

    async def leave(clock: SimpleNamespace, one: Step, seconds: float) -> None:
        async def work() -> None:
            await asyncio.shield(asyncio.sleep(seconds))

        async def stubborn() -> None:
            inner = asyncio.ensure_future(work())
            try:
                await asyncio.shield(inner)
            except asyncio.CancelledError:
                await inner
                raise

        async def under_lease() -> None:
            asked = clock.time()

            async def renew() -> Exception | None:
                return reason if clock.time() - asked >= 0.375 else None

            async with kept("job", renew, lambda: 0.125):
                await one.run(stubborn())

        running = asyncio.create_task(under_lease())
        if reason is None:
            await asyncio.sleep(0.375)
            running.cancel()
        if again:
            await asyncio.sleep(0.5)
            running.cancel()
        await running

    return leave


ROW = {"name": "trips", "id": "dst_x"}
BY_ITSELF: dict[str, BaseException | None] = {
    "success": None,
    "a child that failed": Crashed("signal 11"),
    "a content that does not open": SealBroken("altered"),
    "a storage that does not answer": Unavailable("no answer"),
    "no room": NoRoomForJob(1),
    "a place that does not answer": PlaceFails(ROW, "place_unreadable", passing=True),
    "a place that refuses": PlaceFails(ROW, "place_forbidden"),
    "a lease that an offer finds lost": LostJob(),
    "an error that nobody expects": RuntimeError("what is this"),
    "a child's own cancellation": asyncio.CancelledError(),
}
EXITS: dict[str, tuple[Exit, float]] = {
    **{name: (raising(error), PLANNED) for name, error in BY_ITSELF.items()},
    "a cancelled job": (called_off(CancelRequested()), 0.375 + STOPPING_SECONDS),
    "a lost lease": (called_off(LostJob()), 0.375 + STOPPING_SECONDS),
    "a worker that stops": (called_off(None), 0.375 + STOPPING_SECONDS),
    "a worker that stops while a job is cancelled": (
        called_off(CancelRequested(), again=True),
        0.375 + STOPPING_SECONDS,
    ),
}


@pytest.mark.parametrize("part", ["opening", "release"])
@pytest.mark.parametrize("name", EXITS)
def test_every_exit_is_at_a_time_that_the_work_does_not_change(
    clock: SimpleNamespace, name: str, part: str
) -> None:
    leave, expected = EXITS[name]
    before = overdue()
    for seconds in WORK:
        began = clock.time()
        raised = contextlib.nullcontext() if name == "success" else pytest.raises(BaseException)  # noqa: PT011
        with structlog.testing.capture_logs() as logs, raised:
            clock.run(leave(clock, step(part), seconds))
        assert clock.time() - began == pytest.approx(expected, abs=1e-9)
        assert logs == []
    assert overdue() == before


def test_the_figures_of_operators_are_padded_ones(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The histogram, the trace, and what is logged of a step that was overdue."""
    spans: list[float] = []
    noted = SimpleNamespace(note=lambda name, begun, end, **_: spans.append((end - begun) / 1e9))
    monkeypatch.setattr(runner, "telemetry", noted)
    labels = {"kind": "padded", "step": "release"}

    def total() -> float:
        return REGISTRY.get_sample_value("discreet_child_seconds_sum", labels) or 0.0

    before, counted = total(), overdue()
    with structlog.testing.capture_logs() as logs:
        for seconds in (*WORK, 0.75, 3.0):
            clock.run(EXITS["success"][0](clock, step(), seconds))
    assert total() - before == pytest.approx(4 * PLANNED + 1 + 4)
    assert spans == pytest.approx([PLANNED] * 4 + [1, 4])
    assert overdue() == counted + 2
    says = {"part": "release", "planned": PLANNED, "log_level": "info"}
    event = "a release took longer than its plan pads it to"
    assert logs == [{**says, "event": event}] * 2


def test_what_began_before_has_the_rest_of_its_time(clock: SimpleNamespace) -> None:
    began = clock.time()
    clock.run(raising(None)(clock, step(behind=0.125), 0.25))
    assert clock.time() - began == pytest.approx(PLANNED - 0.125)


def test_large_contents_have_the_time_of_their_plan_to_stop(clock: SimpleNamespace) -> None:
    began = clock.time()
    with pytest.raises(CancelRequested):
        clock.run(called_off(CancelRequested())(clock, step(stopping=7.0), 6.5))
    assert clock.time() - began == pytest.approx(0.375 + 7.0)


def test_public_data_need_no_padding(clock: SimpleNamespace) -> None:
    before, began = overdue(), clock.time()
    for seconds in (0.125, 3.0):
        clock.run(raising(None)(clock, step(simulation=True), seconds))
    assert clock.time() - began == pytest.approx(3.125)
    assert overdue() == before


def test_answers_come_through() -> None:
    async def work() -> str:
        return "answer"

    started = time.monotonic()
    assert asyncio.run(step(simulation=True).run(work())) == "answer"
    assert time.monotonic() - started < PLANNED


def overdue() -> float:
    name = "discreet_releases_overdue_total"
    labels = [{"kind": "padded", "part": part} for part in ("opening", "release")]
    return sum(REGISTRY.get_sample_value(name, one) or 0.0 for one in labels)
