"""The fork server: a process with everything imported and compiled that forks one isolated child a
task.

    python -m discreet.isolation.zygote FD PARENT PROGRAM …

A fresh interpreter would spend seconds on imports for work of milliseconds. A *program* is a module
that says what children do: `STEPS`, a function for each step that a task may name, and `warm_up()`,
which imports, compiles and rehearses all that these will need, refusals included, for a child can
open no file any more. `solving` is the program of workers and sessions, `reading` the one of
uploads; several may share a fork server.

The zygote holds no data, no secrets, no database address and no random state: a child draws its own
from the operating system. Each child is confined before it reads its first byte, and dies with the
zygote, which dies with the process PARENT that started it.

With `--template` before the programs the process forks fork servers instead, for the parts of
`discreet up`, which so share one image: FD is then a socket of packets, each the programs of a fork
server as JSON, with its control socket and where its errors go. The programs are those that the
template has rehearsed, and nothing but that is ever done in it.

Protocol on the control socket FD: when it is ready the zygote says in one JSON message how well its
children are shut in, along with a descriptor of itself (pidfd). Then the parent sends limits as
JSON with descriptors, of which the first is the child's end of a socket pair and the others are
kept for it; the zygote answers `c` with two descriptors: of the child's process (pidfd), by which
the parent kills it, and of a pipe that tells how the child ended (JSON: wait status and processor
time); or `n` and a sentence when no process can be started.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from discreet.isolation.children import count_saved, keep_in_memory
from discreet.isolation.frames import OUT_OF_MEMORY, receive
from discreet.isolation.processes import ends_with_parent, give_back, keep_memory_private, title
from discreet.isolation.sandbox import (
    KEPT_AT,
    MOST_KEPT,
    NOBODY,
    Isolation,
    Sandbox,
    attempts,
    starts_a_shell,
)
from discreet.isolation.tasks import Step, Task

PROBE_LIMITS = {"memory_bytes": 1 << 40, "cpu_seconds": 10}
PROBE_SECONDS = 60.0
AGAIN = "DISCREET_KERNELS_COMPILED"
"""In the environment of a fork server that has begun anew, which it does once at most: kernels may
be of a cache that keeps none."""
UNASKED = frozenset({"pandas", "osqp", "highspy", "scs"})


def main(arguments: Sequence[str]) -> None:
    """Run a fork server, or a template of fork servers, until the parent closes the control
    socket."""
    descriptor, parent, *programs = arguments
    if is_template := programs[:1] == ["--template"]:
        del programs[0]
    if not ends_with_parent(signal.SIGKILL, int(parent)):
        return
    keep_memory_private()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # what ignores it never learns how a child ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    control = socket.socket(fileno=int(descriptor))
    sys.meta_path.insert(0, Unasked())
    saved = count_saved()
    steps: dict[str, Mapping[str, Step]] = {}
    for name in programs:
        program = importlib.import_module(name)
        program.warm_up()
        steps[name] = program.STEPS
    if saved() and AGAIN not in os.environ:
        # What the compiler has used stays with a process (300 MB), and with all its children: with
        # the kernels in the cache this one begins anew, and loads them.
        arguments = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, AGAIN: "1"})  # noqa: S606  itself
    keep_in_memory()
    gc.collect()
    give_back()
    gc.freeze()
    if is_template:
        control, programs = fork_servers(control)
    sandbox = Sandbox.prepare()
    ready = json.dumps(asdict(measure(sandbox))).encode()
    socket.send_fds(control, [ready], [os.pidfd_open(os.getpid())])
    serve(control, sandbox, {step: run for name in programs for step, run in steps[name].items()})


class Unasked:
    """Keeps out what libraries import unasked because it is installed: Arrow looks for pandas, 25
    MB, and CVXPY for every solver that it knows, of which it is asked for Clarabel alone."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in UNASKED:
            raise ModuleNotFoundError(name)


def fork_servers(orders: socket.socket) -> tuple[socket.socket, list[str]]:
    """Fork for every order, until the supervisor is gone. Comes back only in a fork, with its
    control socket and the names of its programs."""
    signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # how a fork server ends is for the one that ordered it to see
    template = os.getpid()
    while True:
        order, given, _, _ = socket.recv_fds(orders, 4096, 2)
        if not order:
            sys.exit()
        if os.fork() == 0:
            break
        for one in given:
            os.close(one)
    if not ends_with_parent(signal.SIGKILL, template):
        sys.exit()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    orders.close()
    control, errors = given
    os.dup2(errors, 2)
    os.close(errors)
    programs = json.loads(order)
    title([*sys.orig_argv[:4], *programs])
    return socket.socket(fileno=control), programs


def serve(control: socket.socket, sandbox: Sandbox, steps: Mapping[str, Step]) -> None:
    """Fork a child for every request, and tell how each ended."""
    children: dict[int, tuple[int, int]] = {}  # pidfd: process, pipe to tell its end
    events = select.poll()
    events.register(control, select.POLLIN)
    while True:
        for descriptor, _ in events.poll():
            if descriptor in children:
                events.unregister(descriptor)
                _tell_end(descriptor, *children.pop(descriptor))
                continue
            limits, given, _, _ = socket.recv_fds(control, 4096, MOST_KEPT)
            if not limits:
                return
            started = _start(control, sandbox, steps, json.loads(limits), given)
            for one in given:
                os.close(one)
            if started is not None:
                watch, pid, report = started
                children[watch] = (pid, report)
                events.register(watch, select.POLLIN)


def _start(
    control: socket.socket,
    sandbox: Sandbox,
    steps: Mapping[str, Step],
    limits: dict[str, Any],
    given: list[int],
) -> tuple[int, int, int] | None:
    """Fork a child and answer the parent: pidfd, process and pipe; None when there is no process to
    be had."""
    told, report = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(told)
        os.close(report)
        control.sendall(b"n" + str(error.strerror).encode())
        return None
    if pid == 0:
        _child(sandbox, steps, limits, given)
    watch = os.pidfd_open(pid)  # it is there until this process has waited for it
    socket.send_fds(control, [b"c"], [watch, told])
    os.close(told)
    return watch, pid, report


def _tell_end(watch: int, pid: int, report: int) -> None:
    """Report how a child ended; there may be no listener any more."""
    _, status, used = os.wait4(pid, 0)
    with contextlib.suppress(OSError):
        os.write(
            report,
            json.dumps({"status": status, "cpu_seconds": used.ru_utime + used.ru_stime}).encode(),
        )
    os.close(report)
    os.close(watch)


def _child(
    sandbox: Sandbox, steps: Mapping[str, Step], limits: dict[str, Any], given: Sequence[int]
) -> None:
    """Do one task and leave; never returns."""
    code = 1
    try:
        sandbox.enter(given, limits)
        channel = socket.socket(fileno=KEPT_AT)
        header, payload = receive(channel)
        kept = tuple(range(KEPT_AT + 1, KEPT_AT + len(given)))
        steps[header["step"]](Task(channel, header, payload, kept))
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    finally:
        os._exit(code)


def measure(sandbox: Sandbox) -> Isolation:
    """How well a child is shut in, as tried by one that then ends."""
    ours, theirs = socket.socketpair()
    with _own_file() as path:
        pid = os.fork()
        if pid == 0:
            try:
                walls = sandbox.enter([theirs.fileno()], PROBE_LIMITS)
                with socket.socket(fileno=KEPT_AT) as channel:
                    channel.sendall(json.dumps([attempts(path), walls]).encode() + b"\n")
                    starts_a_shell(KEPT_AT)
            finally:
                os._exit(0)
        theirs.close()
        with ours:
            ours.settimeout(PROBE_SECONDS)
            try:
                answer = b"".join(iter(lambda: ours.recv(4096), b""))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            finally:
                os.waitpid(pid, 0)
    said, _, shell = answer.partition(b"\n")
    if not said:
        raise RuntimeError("a child cannot be isolated")
    reached, walls = json.loads(said)
    return Isolation.of([*reached, *(["a shell"] if shell else [])], walls)


@contextlib.contextmanager
def _own_file() -> Iterator[str | None]:
    """A file that only its owner may read, who is the user that children become; None where none
    can be made."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="discreet-walls-")
    except OSError:
        yield None
        return
    try:
        os.fchmod(descriptor, 0o400)
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):
                os.fchown(descriptor, NOBODY, NOBODY)
        os.close(descriptor)
        yield path
    finally:
        os.unlink(path)


if __name__ == "__main__":
    main(sys.argv[1:])
