"""Why a child ended, as its worker is told: every fault is real, and each has a name of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from discreet.isolation import children
from discreet.isolation.children import (
    ChildFailed,
    CpuLimit,
    Crashed,
    Limits,
    MemoryLimit,
    NotStarted,
    Raised,
    WallLimit,
    Zygote,
    cause,
)
from discreet.problems import KINDS
from discreet.problems.base import read_example
from discreet.problems.contents import pack
from tests.conftest import eventually
from tests.processes import family, pid_of
from tests.templates import FAULTY, programs_of_children, templates

GENEROUS = Limits(memory_bytes=2 << 30, cpu_seconds=600, wall_seconds=600.0)


Work = Callable[[Zygote], Awaitable[None]]
Faults = Callable[[str], object]


@pytest.fixture
def faults() -> Faults:
    """Names the fault of the children that are forked from now on."""
    return templates().faults.write_text


@pytest.fixture(scope="module")
def with_zygote() -> Iterator[Callable[[Work], None]]:
    """Runs work on one fork server whose children meet the faults."""
    with asyncio.Runner() as runner:
        zygote = Zygote()

        async def started(work: Work) -> None:
            await zygote.start()
            await work(zygote)

        def go(work: Work) -> None:
            templates().faults.write_text("")
            with pytest.MonkeyPatch.context() as patch:
                programs_of_children(patch, FAULTY)
                runner.run(started(work))

        yield go
        runner.run(zygote.stop())


def step(name: str) -> tuple[dict[str, Any], bytes]:
    problem, dataset, budget = read_example(KINDS["routing"])
    plan = problem.plan(dataset.public, budget)
    header = {
        "step": name,
        "kind": "routing",
        "problem": problem.model_dump(mode="json"),
        "public": dataset.public.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "simulation": False,
        "seed": None,
    }
    return header, pack(dataset.read_rows(dataset.public, dataset.content))


async def failure(zygote: Zygote, name: str, limits: Limits = GENEROUS) -> ChildFailed:
    with pytest.raises(ChildFailed) as failed:
        await zygote.run(*step(name), limits)
    return failed.value


def test_every_cause_is_told_by_its_name(
    faults: Faults, with_zygote: Callable[[Work], None]
) -> None:
    async def work(zygote: Zygote) -> None:
        assert zygote._watch is not None
        process = pid_of(zygote._watch)
        for fault, limits, kind, words in (
            ("memory", GENEROUS, MemoryLimit, "more memory than 2147483648 bytes"),
            ("memory-numpy", GENEROUS, MemoryLimit, "more memory than 2147483648 bytes"),
            ("memory-numba", GENEROUS, MemoryLimit, "more memory than 2147483648 bytes"),
            ("cpu", Limits(2 << 30, 1, 600.0), CpuLimit, "used up 1 s of processor time"),
            ("wall", Limits(2 << 30, 600, 1.0), WallLimit, "not done within 1 s"),
            ("segv", GENEROUS, Crashed, "SIGSEGV"),
            ("abort", GENEROUS, Crashed, "SIGABRT"),
            ("raise", GENEROUS, Raised, "ended by itself with status 1"),
            ("leave", GENEROUS, Raised, "ended by itself with status 0"),
        ):
            faults(f"release {fault}")
            found = await failure(zygote, "release", limits)
            assert type(found) is kind, (fault, found)
            assert words in found.detail
            assert found.trace is None, "work on private data leaves no trace"
        faults("")
        assert (await zygote.run(*step("release"), GENEROUS)).payload, (
            "and children go on to be made"
        )
        assert pid_of(zygote._watch) == process, "one fork server has seen all of it"
        await asyncio.to_thread(
            eventually, lambda: len(family(process)) == 1, "every child was waited for"
        )

    with_zygote(work)


def test_a_child_says_no_more_than_it_may(
    faults: Faults, with_zygote: Callable[[Work], None]
) -> None:
    """The parent holds what a child says, and a child says more than it ever had in memory."""

    async def work(zygote: Zygote) -> None:
        few = Limits(
            memory_bytes=2 << 30, cpu_seconds=600, wall_seconds=600.0, answer_bytes=2 << 20
        )
        for fault in ("flood", "claim"):
            faults(f"release {fault}")
            assert isinstance(await failure(zygote, "release", few), Raised), fault
        faults("release flood")
        assert (await zygote.run(*step("release"), GENEROUS)).payload, "who may say so much goes on"

    with_zygote(work)


def test_a_trace_of_post_processing_comes_with_its_cause(
    faults: Faults, with_zygote: Callable[[Work], None]
) -> None:
    async def work(zygote: Zygote) -> None:
        released = (await zygote.run(*step("release"), GENEROUS)).payload
        for fault, kind in (("raise", Raised), ("memory", MemoryLimit)):
            faults(f"finish {fault}")
            with pytest.raises(ChildFailed) as failed:
                await zygote.run(step("finish")[0], released, GENEROUS)
            assert type(failed.value) is kind
            assert failed.value.trace is not None
            assert "faulty.py" in failed.value.trace

    with_zygote(work)


def test_a_child_that_somebody_kills_and_a_fork_server_that_dies(
    faults: Faults, with_zygote: Callable[[Work], None]
) -> None:
    async def killed(zygote: Zygote, which: Callable[[int], int | None]) -> ChildFailed:
        faults("release wall")
        assert zygote._watch is not None
        number = pid_of(zygote._watch)
        await asyncio.to_thread(
            eventually, lambda: len(family(number)) == 1, "what it was tried with has ended"
        )
        running = asyncio.create_task(failure(zygote, "release"))
        pid = await asyncio.to_thread(eventually, lambda: which(number), "the child runs")
        os.kill(pid, signal.SIGKILL)
        return await running

    async def work(zygote: Zygote) -> None:
        found = await killed(zygote, lambda pid: next(iter(family(pid)[1:]), None))
        assert zygote._watch is not None
        number = pid_of(zygote._watch)
        await asyncio.to_thread(eventually, lambda: len(family(number)) == 1, "it was waited for")
        assert type(found) is Crashed
        assert "SIGKILL" in found.detail
        found = await killed(zygote, lambda pid: pid if family(pid)[1:] else None)
        assert type(found) is NotStarted
        assert "is gone" in found.detail
        faults("")
        assert (await zygote.run(*step("release"), GENEROUS)).payload, "a new one is started"

    with_zygote(work)


def test_a_fork_server_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "discreet").mkdir()
    (tmp_path / "discreet" / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(children, "template", None)

    async def go() -> None:
        with pytest.raises(NotStarted, match="does not start \\(status 3"):
            await Zygote().start()

    asyncio.run(go())


def test_what_is_not_known_is_not_guessed() -> None:
    assert type(cause(b"", GENEROUS)) is NotStarted
    killed = b'{"status": 9, "cpu_seconds": %f}'
    assert type(cause(killed % 599.0, GENEROUS)) is Crashed
    assert type(cause(killed % 600.5, GENEROUS)) is CpuLimit
