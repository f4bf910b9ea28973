"""The walls around a child, each tried by what it must hold back, and what holds where the kernel
lacks one of them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import os
import platform
import shutil
import signal
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation import children, sandbox, zygote
from discreet.isolation.children import Limits, NotIsolated, Zygote
from discreet.isolation.processes import keep_memory_private
from discreet.isolation.sandbox import ARCHITECTURES, LEVELS, WALLS, Isolation, Level, Sandbox, Wall
from discreet.problems import KINDS
from discreet.problems.base import read_example
from discreet.problems.contents import pack, unpack
from discreet.problems.numbers import Budget
from tests.isolation import hostile
from tests.isolation.test_isolation import LIMITS, become, in_confinement

SOMEBODY = 12345
"""An ordinary user, for tests that root runs."""

WITHOUT_LANDLOCK: tuple[Wall, ...] = ("filter", "user")
"""An old kernel, in a container that may make no namespaces."""
WITHOUT_FILTER: tuple[Wall, ...] = ("landlock", "namespaces", "user")

USERS = [None, SOMEBODY] if os.geteuid() == 0 else [None]


def _kernel_has_all() -> bool:
    prepared = Sandbox.prepare()
    if prepared.rules >= 0:
        os.close(prepared.rules)
    return prepared.landlock > 0 and zygote.measure(Sandbox.prepare(("filter",))).walls == (
        "seccomp filter",
    )


pytestmark = pytest.mark.skipif(
    "CI" not in os.environ and not _kernel_has_all(),
    reason="THIS KERNEL HAS NO LANDLOCK OR NO SECCOMP FILTERS",
)


@pytest.fixture
def aim(
    monkeypatch: pytest.MonkeyPatch, postgres: EmbeddedPostgres
) -> Iterator[tuple[dict[str, Any], socket.socket]]:
    """Things that a child may not reach, open to every user so that only the walls keep it off; and
    the datagrams' receiver."""
    monkeypatch.setenv("DISCREET_DATABASE_URL", "postgresql://secret@/")
    folder = Path(tempfile.mkdtemp())  # pytest's own are closed to other users
    folder.chmod(0o777)
    for name in ("secrets.json", "owner.key"):
        (folder / name).write_text("secret")
        (folder / name).chmod(0o666)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        unix, abstract = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        path, word = f"{folder}/socket", f"discreet-{os.getpid()}"
        unix.bind(path)
        Path(path).chmod(0o777)
        abstract.bind(f"\0{word}")
        for server in (unix, abstract):
            server.listen()
        yield (
            {
                "tcp": tcp.getsockname(),
                "udp": udp.getsockname(),
                "word": word,
                "unix": path,
                "postgres": str(next(Path(str(postgres._sockets)).glob(".s.PGSQL.*[0-9]"))),
                "abstract": word,
                "secrets": str(folder / "secrets.json"),
                "owner_key": str(folder / "owner.key"),
                "temporary": str(folder),
                "pids": [os.getpid()],
            },
            udp,
        )


def came_through(found: dict[str, str]) -> set[str]:
    return {name for name, answer in found.items() if answer == hostile.PAST}


def untouched(aim: dict[str, Any], udp: socket.socket) -> bool:
    """Whether the folder is as it was made, and no datagram came."""
    with pytest.raises(BlockingIOError):
        udp.recv(100)
    folder = Path(aim["temporary"])
    return (
        sorted(path.name for path in folder.iterdir()) == ["owner.key", "secrets.json", "socket"]
        and (folder / "secrets.json").read_text() == "secret"
        and (folder / "secrets.json").stat().st_mode & 0o777 == 0o666
    )


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("walls", [WALLS, WITHOUT_LANDLOCK])
def test_nothing_is_reached(aim: Any, walls: tuple[Wall, ...], user: int | None) -> None:
    target, udp = aim
    found = in_confinement(lambda: hostile.attempt_all(target), walls, user)
    assert found.keys() == hostile.ATTEMPTS.keys()
    assert came_through(found) == set()
    assert untouched(target, udp)


NEEDS_NO_FILTER = {
    *(
        "unix",
        "postgres",
        "netlink",
        "socketpair",
        "fork",
        "pidfd",
        "own limits",
        "signals by file",
        "dumps again",
    ),
    *(
        "message queue",
        "shared memory",
        "a timer's signal",
        "being traced",
        "inotify",
        "memfd",
        "priority",
        "affinity",
    ),
    *(
        "descriptors by message",
        "unshare",
        "chroot",
        "unlink",
        "rename",
        "chmod",
        "limits of others",
    ),
}
"""What only the filter holds back. Files and the network are not among it."""


@pytest.mark.parametrize("user", USERS)
def test_files_and_network_are_closed_without_the_filter(aim: Any, user: int | None) -> None:
    target, udp = aim
    found = in_confinement(lambda: hostile.attempt_all(target), WITHOUT_FILTER, user)
    assert came_through(found) <= NEEDS_NO_FILTER
    assert came_through(found) >= {"fork", "socketpair"}
    with pytest.raises(BlockingIOError):
        udp.recv(100)


CONTROLS = (
    *(
        "tcp",
        "udp",
        "unix",
        "abstract",
        "socketpair",
        "secrets",
        "owner key",
        "passwd",
        "a device",
        "the top folder",
    ),
    *(
        "write to the temporary folder",
        "a temporary file",
        "a folder",
        "link",
        "a program",
        "fork",
        "many threads",
    ),
    *(
        "pidfd",
        "memfd",
        "inotify",
        "own limits",
        "unlink",
        "dumps again",
        "message queue",
        "a timer's signal",
    ),
)


def test_the_attempts_succeed_where_nothing_holds_them_back(aim: Any) -> None:
    """Else their failure inside the walls would show nothing."""
    target, udp = aim
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os.dup2(theirs.fileno(), 3)
        found = hostile.attempt_all(target, CONTROLS)
        theirs.sendall(json.dumps(found).encode())
        os._exit(0)
    theirs.close()
    found = json.loads(b"".join(iter(lambda: ours.recv(1 << 16), b"")))
    os.waitpid(pid, 0)
    ours.close()
    assert {name: answer for name, answer in found.items() if answer != hostile.PAST} == {}
    assert udp.recv(100) == target["word"].encode()


# The filter ---------------------------------------------------------------------------------------


def column() -> int:
    return ARCHITECTURES[platform.machine()][0]


def listed(side: int) -> set[int]:
    """Numbers of all system calls that the filter lets pass, perhaps by their arguments."""
    calls = [*sandbox.ALLOWED.values(), *sandbox.OPEN.values()]
    calls += [
        sandbox.CLONE,
        sandbox.CLONE3,
        sandbox.TGKILL,
        sandbox.FCNTL,
        sandbox.IOCTL,
        sandbox.PRLIMIT,
    ]
    return {number for call in calls if (number := call[side]) is not None}


def test_every_other_system_call_is_refused() -> None:
    probes = {335, 336}  # uretprobe, uprobe: the kernel's own, which end whoever else calls them
    others = sorted(set(range(600)) - listed(column()) - probes)

    def ask() -> list[int]:
        answers = []
        for number in others:
            sandbox._libc.syscall(number, 0, 0, 0, 0, 0, 0)
            answers.append(sandbox.ctypes.get_errno())
        return answers

    assert set(in_confinement(ask)) == {errno.EPERM}


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="x32 is a second set of calls on x86_64 only"
)
def test_calls_of_another_kind_end_the_child() -> None:
    prepared = Sandbox.prepare(("filter",))
    pid = os.fork()
    if pid == 0:
        prepared.enter([socket.socketpair()[0].fileno()], LIMITS)
        sandbox._libc.syscall(0x40000000 + 39)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGSYS


def decide(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What a filter answers: an interpreter of the part of BPF that filters are made of."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("=HBBI", program))
    place = held = 0
    while True:
        operation, yes, no, value = code[place]
        place += 1
        match operation:
            case 0x20:
                (held,) = struct.unpack_from("=I", data, value)
            case 0x15:
                place += yes if held == value else no
            case 0x45:
                place += yes if held & value else no
            case 0x35:
                place += yes if held >= value else no
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"no such operation: {operation:#x}")


@pytest.mark.parametrize(("machine", "files"), [*itertools.product(ARCHITECTURES, [True, False])])
def test_filters_of_every_architecture(machine: str, files: bool) -> None:
    side, architecture = ARCHITECTURES[machine]
    program = sandbox.program_of(side, architecture, files=files, pid=77)
    allow, refuse, kill = (
        sandbox.RET_ALLOW,
        sandbox.RET_ERRNO,
        sandbox.RET_KILL_PROCESS,
    )

    def ask(number: int, *arguments: int) -> int:
        return decide(program, architecture, number, *arguments)

    for name, call in sandbox.ALLOWED.items():
        if (number := call[side]) is not None:
            assert ask(number) == allow, name
    for call in sandbox.OPEN.values():
        if (number := call[side]) is not None:
            assert ask(number) == (allow if files else refuse | errno.EACCES)
    assert ask(sandbox.CLONE[side], 0x3D0F00) == allow  # a thread
    assert ask(sandbox.CLONE[side], 0x1200011) == refuse | errno.EPERM  # a process
    assert ask(sandbox.CLONE3[side], 0x3D0F00) == refuse | errno.ENOSYS
    assert ask(sandbox.TGKILL[side], 77, 78, 6) == allow
    assert ask(sandbox.TGKILL[side], 76, 76, 9) == refuse | errno.EPERM
    assert ask(sandbox.FCNTL[side], 3, 4) == allow
    assert ask(sandbox.FCNTL[side], 3, 8) == refuse | errno.EPERM
    assert ask(sandbox.PRLIMIT[side], 0, 7, 0) == allow
    assert ask(sandbox.PRLIMIT[side], 0, 7, 1) == refuse | errno.EPERM
    assert ask(sandbox.PRLIMIT[side], 0, 7, 1 << 40) == refuse | errno.EPERM
    assert {ask(number) for number in set(range(600)) - listed(side)} == {refuse | errno.EPERM}
    assert decide(program, 0x40000003, 0) == kill  # 32-bit calls have other numbers


def _threads(wanted: int) -> int:
    """How many of so many threads can be started and stay. Their stacks are small: threads are to
    be counted, and not what this process, with all that tests have loaded, has left of its
    memory."""
    threading.stack_size(1 << 18)
    stay, started = threading.Event(), 0
    with contextlib.suppress(RuntimeError):
        for _ in range(wanted):
            threading.Thread(target=stay.wait, daemon=True).start()
            started += 1
    return started


@contextlib.contextmanager
def crowd(user: int, threads: int) -> Iterator[None]:
    """A process of the user with so many threads."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(user)
        os.write(write, struct.pack("=i", _threads(threads)))
        signal.pause()
    try:
        assert struct.unpack("=i", os.read(read, 4)) == (threads,)
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
        os.close(write)


@pytest.mark.skipif(
    os.geteuid() != 0, reason="an ordinary user has no other user's processes to be counted with"
)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("walls", [WALLS, WITHOUT_FILTER, WITHOUT_LANDLOCK])
def test_others_of_the_same_user_take_no_threads(walls: tuple[Wall, ...], user: int | None) -> None:
    with crowd(sandbox.NOBODY if user is None else user, 150):
        started = in_confinement(lambda: _threads(1000), walls, user)
    assert started >= 8  # what Arrow's reader of CSV starts
    if "namespaces" in walls:
        assert started == sandbox.MOST_THREADS - 1
    else:  # they are counted together: there is a limit all the same
        assert started < 4 * sandbox.MOST_THREADS


def test_own_thread_signals_pass() -> None:
    """abort() in native code must end the child as what it is."""
    pid = os.fork()
    if pid == 0:
        Sandbox.prepare(("filter",)).enter([socket.socketpair()[0].fileno()], LIMITS)
        os.abort()
    status = os.waitpid(pid, 0)[1]
    assert os.WTERMSIG(status) == signal.SIGABRT
    assert not os.WCOREDUMP(status)


# What must keep working ---------------------------------------------------------------------------


@numba.njit(cache=True)
def _doubled(values: Any) -> Any:
    return values + values


@pytest.mark.parametrize("walls", [WALLS, WITHOUT_LANDLOCK])
def test_what_nobody_rehearsed_is_compiled(walls: tuple[Wall, ...]) -> None:
    def compile_it() -> list[float]:
        children.keep_in_memory()
        return [float(one) for one in _doubled(np.arange(3, dtype=np.float32))]

    children.load_compiler()  # and `_doubled` is not
    assert in_confinement(compile_it, walls) == [0, 2, 4]


def with_zygote(monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    """Zygotes of this test are those of tests.isolation.zygote."""
    made = children.plain_environment()
    monkeypatch.setattr(children, "template", None)
    monkeypatch.setattr(children, "ZYGOTE_MODULE", "tests.isolation.zygote")
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, made.get("PYTHONPATH")]))
    monkeypatch.setattr(
        children, "plain_environment", lambda: {**made, "PYTHONPATH": path, **environment}
    )


@pytest.mark.long
def test_every_kind_works_without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """There a child can open no file at all: all that it needs is loaded before."""
    with_zygote(monkeypatch, WALLS=" ".join(WITHOUT_LANDLOCK))
    limits = Limits(memory_bytes=4 << 30, cpu_seconds=60, wall_seconds=600)

    async def go() -> dict[str, set[str]]:
        results = {}
        forks = Zygote("full")
        try:
            for name, kind in KINDS.items():
                problem, dataset, budget = read_example(kind)
                public = None if dataset is None else dataset.public
                header = {
                    "step": "release",
                    "kind": name,
                    "problem": problem.model_dump(mode="json"),
                    "public": None if public is None else public.model_dump(mode="json"),
                    "plan": problem.plan(public, budget).model_dump(mode="json"),
                    "simulation": dataset is None,
                    "seed": None,
                }
                content = b"" if dataset is None else pack(dataset.rows())
                released = await forks.run(header, content, limits)
                finished = await forks.run({**header, "step": "finish"}, released.payload, limits)
                results[name] = set(json.loads(finished.payload))
            assert forks.isolation is not None
            assert not any("Landlock" in wall for wall in forks.isolation.walls)
        finally:
            await forks.stop()
        return results

    results = asyncio.run(go())
    assert results.keys() == KINDS.keys()
    assert all(len(fields) >= 2 for fields in results.values())


# The whole way ------------------------------------------------------------------------------------


def test_a_hostile_kind_in_a_worker(aim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `test_nothing_is_reached`, from worker through zygote to child; aimed at the zygote
    too."""
    target, udp = aim
    with_zygote(monkeypatch, REHEARSE="0")
    monkeypatch.setitem(KINDS, "hostile", hostile.Hostile)

    async def go() -> tuple[dict[str, str], Isolation | None]:
        forks = Zygote("full")
        assert forks.isolation is None
        assert not forks.alive
        await forks.start()
        assert forks.alive
        assert forks._process is not None
        problem = hostile.Hostile(aim={**target, "pids": [os.getpid(), forks._process.pid]})
        header = {
            "step": "release",
            "kind": "hostile",
            "problem": problem.model_dump(mode="json"),
            "public": None,
            "plan": problem.plan(None, Budget(epsilon=1, delta=0)).model_dump(mode="json"),
            "simulation": False,
            "seed": None,
        }
        try:
            output = await forks.run(
                header, b"", Limits(memory_bytes=4 << 30, cpu_seconds=60, wall_seconds=600)
            )
        finally:
            await forks.stop()
        return {
            name: bytes(answer).decode() for name, answer in unpack(output.payload).items()
        }, forks.isolation

    found, isolation = asyncio.run(go())
    assert found.keys() == hostile.ATTEMPTS.keys()
    assert came_through(found) == set()
    assert untouched(target, udp)
    assert isolation is not None
    assert (isolation.level, isolation.reached) == ("full", ())


@pytest.mark.parametrize(
    ("walls", "level"),
    [
        (WALLS, "full"),
        (WITHOUT_LANDLOCK, "full"),
        (("filter",), "full"),
        (WITHOUT_FILTER, "partial"),
        (("user",), "none"),
    ],
)
def test_levels_are_found_by_trying(walls: tuple[Wall, ...], level: Level) -> None:
    prepared = Sandbox.prepare(walls)
    found = zygote.measure(prepared)
    if prepared.rules >= 0:
        os.close(prepared.rules)
    assert found.level == level
    assert ("local sockets" in found.reached) == (level != "full")
    assert [least for least in LEVELS if found.suffices(least)] == list(
        LEVELS[: LEVELS.index(level) + 1]
    )


def test_a_worker_refuses_less_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    with_zygote(monkeypatch, REHEARSE="0", WALLS=" ".join(WITHOUT_FILTER))
    forks = Zygote("full")
    with pytest.raises(NotIsolated, match="level partial here, not full: it reaches local sockets"):
        asyncio.run(forks.start())
    assert not forks.alive


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user to become")
def test_memory_of_processes_is_closed_to_their_own_user() -> None:
    """A child of a worker that is no root has the worker's user: where it could open files it still
    reads nothing."""

    def reads(private: bool) -> bool:
        ours, theirs = socket.socketpair()
        first = os.fork()
        if first == 0:
            become(SOMEBODY)
            sandbox._libc.prctl(sandbox.PR_SET_DUMPABLE, 1, 0, 0, 0)  # what a program starts with
            if private:
                keep_memory_private()
            theirs.send(b"x")
            theirs.recv(1)
            os._exit(0)
        ours.recv(1)
        second = os.fork()
        if second == 0:
            become(SOMEBODY)
            try:
                os.open(f"/proc/{first}/environ", os.O_RDONLY)
            except OSError:
                os._exit(1)
            os._exit(0)
        seen = os.WEXITSTATUS(os.waitpid(second, 0)[1]) == 0
        ours.send(b"x")
        os.waitpid(first, 0)
        ours.close()
        theirs.close()
        return seen

    assert reads(private=False)
    assert not reads(private=True)
