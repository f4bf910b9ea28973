"""How long a release seems to take."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from discreet.worker import padding
from discreet.worker.padding import Pad, padded_seconds


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The pads' clock, which goes on when somebody sleeps."""
    time = SimpleNamespace(
        now=100.0, monotonic=lambda: time.now, time_ns=lambda: round(time.now * 1e9)
    )

    async def sleep(seconds: float) -> None:
        time.now += seconds

    monkeypatch.setattr(padding, "time", time)
    monkeypatch.setattr(padding, "asyncio", SimpleNamespace(sleep=sleep))
    return time


def waited(
    clock: SimpleNamespace, elapsed: float, *, simulation: bool = False, **given: Any
) -> float:
    held: Any = SimpleNamespace(simulation=simulation, problem=SimpleNamespace(kind="padded"))
    started = clock.now
    pad = Pad(held, "release", 0.5, **given)
    clock.now += elapsed
    asyncio.run(pad.wait())
    return float(clock.now - started)


def test_work_within_its_time_shows_that_time_alone(clock: SimpleNamespace) -> None:
    before = overdue()
    assert {waited(clock, elapsed) for elapsed in (0.0, 0.125, 0.25, 0.5)} == {0.5}
    assert waited(clock, 0.25, behind=0.125) == 0.375  # the rest of what began before
    assert overdue() == before


def test_releases_that_take_longer_are_counted(clock: SimpleNamespace) -> None:
    before = overdue()
    assert waited(clock, 0.75) == 1
    assert waited(clock, 3) == 4
    assert overdue() == before + 2


def test_public_data_need_no_padding(clock: SimpleNamespace) -> None:
    before = overdue()
    assert [waited(clock, elapsed, simulation=True) for elapsed in (0.125, 3)] == [0.125, 3]
    assert overdue() == before


def overdue() -> float:
    labels = {"kind": "padded", "part": "release"}
    return REGISTRY.get_sample_value("discreet_releases_overdue_total", labels) or 0.0
