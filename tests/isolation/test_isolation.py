"""What a solver's child can reach: nothing. Real children of a real zygote, with a kind that
tries."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from discreet.isolation import children as of_zygotes
from discreet.isolation.children import ChildFailed, Limits, Zygote
from discreet.isolation.frames import HEADER, frame, lengths
from discreet.isolation.sandbox import WALLS, Sandbox, Wall
from discreet.problems import KINDS
from discreet.problems.base import read_example
from discreet.problems.contents import pack

LIMITS = {"memory_bytes": 4 << 30, "cpu_seconds": 60}


def in_confinement(
    attempt: Callable[[], Any],
    walls: tuple[Wall, ...] = WALLS,
    user: int | None = None,
    kept: Sequence[int] = (),
    **limits: int,
) -> Any:
    """What `attempt` returns in a confined child, as JSON; `user`: started as this one, with the
    descriptors `kept`."""
    sandbox = Sandbox.prepare(walls)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # ends an attempt that hangs
        ours.close()
        try:
            if user is not None:
                become(user)
            memory = LIMITS["memory_bytes"] + address_space()
            sandbox.enter([theirs.fileno(), *kept], {**LIMITS, "memory_bytes": memory, **limits})
            found = attempt()
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        socket.socket(fileno=3).sendall(json.dumps(found).encode())
        os._exit(0)
    theirs.close()
    text = b"".join(iter(lambda: ours.recv(1 << 16), b""))
    os.waitpid(pid, 0)
    ours.close()
    if sandbox.rules >= 0:
        os.close(sandbox.rules)
    return json.loads(text)


def address_space() -> int:
    """Bytes that this process has mapped: the fork of one that has run many tests has as much."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def test_no_environment_and_no_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_DATABASE_URL", "postgresql://secret@/")

    def look() -> Any:
        descriptors = []
        for number in range(1024):
            try:
                os.fstat(number)
                descriptors.append(number)
            except OSError:
                pass
        return [dict(os.environ), descriptors, os.getcwd()]

    environment, descriptors, folder = in_confinement(look)
    assert environment == {}
    assert descriptors == [0, 1, 2, 3]
    assert folder == "/"


def test_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        socket.create_connection(address, timeout=5).close()

        def reach() -> str:
            socket.create_connection(address, timeout=5)
            return "reached"

        found = in_confinement(reach)
    assert found != "reached"
    assert "Error" in found


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no other user to become")
def test_another_user_without_powers() -> None:
    def look() -> Any:
        try:
            os.setuid(0)
            back = True
        except OSError:
            back = False
        return [os.getuid(), os.geteuid(), os.getgroups(), back, os.access("/root", os.R_OK)]

    assert in_confinement(look) == [65534, 65534, [], False, False]


def test_memory_has_a_limit() -> None:
    def fill() -> str:
        bytearray(2 * LIMITS["memory_bytes"])
        return "filled"

    assert in_confinement(fill).startswith("MemoryError")


def test_lengths_of_frames_are_bounded() -> None:
    assert lengths(frame({"a": 1}, b"xyz")[: HEADER.size]) == (len('{"a": 1}'), 3)
    with pytest.raises(ValueError, match="limit"):
        lengths(HEADER.pack(1 << 31, 0))
    with pytest.raises(ValueError, match="limit"):
        lengths(HEADER.pack(1, 1 << 60))


Run = Callable[..., list[bytes]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Payloads of so many children of one fork server, which starts by itself, as where a worker
    is started alone."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(of_zygotes, "template", None)
        children = Zygote()

        def go(
            header: dict[str, Any], payload: bytes, seconds: float = 600.0, times: int = 1
        ) -> list[bytes]:
            limits = Limits(memory_bytes=4 << 30, cpu_seconds=60, wall_seconds=seconds)

            async def all_of_them() -> list[bytes]:
                return [(await children.run(header, payload, limits)).payload for _ in range(times)]

            return runner.run(all_of_them())

        yield go
        runner.run(children.stop())


def release_header(kind: str = "routing") -> tuple[dict[str, Any], bytes]:
    problem, dataset, budget = read_example(KINDS[kind])
    header = {
        "step": "release",
        "kind": kind,
        "problem": problem.model_dump(mode="json"),
        "public": dataset.public.model_dump(mode="json"),
        "plan": problem.plan(dataset.public, budget).model_dump(mode="json"),
        "simulation": False,
        "seed": None,
    }
    return header, pack(dataset.read_rows(dataset.public, dataset.content))


def test_children_of_one_zygote_draw_different_noise(run: Run) -> None:
    """A fork copies memory: a generator that lived in the zygote would give every child the same
    noise.

    Of this kind 14 sums get noise of scale 3e7: two releases are equal by chance with probability
    1e-100.
    """
    header, content = release_header("off_policy_evaluation")
    released = run(header, content, times=4)
    assert len(set(released)) == 4


def test_a_child_that_fails_says_nothing_about_data(run: Run) -> None:
    header, _ = release_header()
    with pytest.raises(ChildFailed) as failed:
        run(header, b"these are no arrays")
    assert failed.value.trace is None


def test_post_processing_may_say_what_failed(run: Run) -> None:
    header, _ = release_header()
    with pytest.raises(ChildFailed) as failed:
        run({**header, "step": "finish"}, b"these are no arrays")
    assert failed.value.trace is not None
    assert "unpack" in failed.value.trace


def test_wall_time_has_a_limit(run: Run) -> None:
    header, content = release_header()
    with pytest.raises(ChildFailed):
        run(header, content, seconds=0.0)
