"""A process that imports once what all parts of `discreet up` need, and forks each part.

    discreet up ── template          only imports: it has no setting, secret, connection or thread
                ├─ api               forked by the template, and then a child of the supervisor like
                │                    any other
                ├─ rpc
                └─ worker × n

The imported memory is shared until a process writes to it. The template never reads what it is
asked to start: settings with their passwords go to the new process alone, through a pipe, and only
once the supervisor knows that process; a process that the supervisor never learned of gets no
order, and ends. So a part knows no more than one that was started by itself. The fork servers of
sandboxed children come from another template (`isolation.zygote`): forks of one process share its
memory layout, stack canary and hash seed, and a sandboxed child works on hostile input.

Protocol on the control socket: the supervisor sends one byte with descriptors. From the first the
new process reads its order as JSON, the second is its output, and the others become its own under
the numbers that the order names. The template answers with the process's pid as JSON.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from discreet.installation.state import LogFile
from discreet.isolation.processes import (
    FORKING,
    adopting,
    dies_with_parent,
    ends_with_parent,
    give_back,
    keep_memory_private,
    title,
)

PROGRAM = "discreet.cli"
GROUND = (
    PROGRAM,
    *(
        f"discreet.api.routes.{room}"
        for room in ("budgets", "datasets", "jobs", "ledger", "sessions", "tenants", "webhooks")
    ),
    "discreet.dashboard.app",
    "discreet.observability.heartbeat",
    "discreet.observability.telemetry",
    "discreet.rpc.session_child",
    "discreet.usecases.keyring",
    "discreet.usecases.metrics",
    "discreet.usecases.rotation",
    "discreet.usecases.rpc_tls",
    "discreet.usecases.running",
    "discreet.usecases.sessions.rounds",
    "anyio._backends._asyncio",
    "fastapi.openapi.utils",
    "grpc.aio",
    "grpc_health.v1.health",
    "grpc_reflection.v1alpha.reflection",
    "procrastinate.worker",
    "sqlalchemy.dialects.postgresql.psycopg",
    "uvicorn.lifespan.off",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.h11_impl",
)
"""Modules that the parts import. Those with metrics of one part (HTTP, gRPC, the worker) are left
out, because a part shows the metrics of every module that it has imported."""

ANSWER_SECONDS = 60.0
"""If the template has not forked by then, the part is started without it."""
MOST_FILES = 16
TITLE_BYTES = 1024
"""Room in the template's own arguments for those of parts, which `ps` shows."""


# In the supervisor --------------------------------------------------------------------------------


class Template:
    """The template of one supervisor, started when it is needed, and again if it has ended."""

    def __init__(self, environment: Mapping[str, str], log: LogFile) -> None:
        """`environment`: variables that libraries may read when they are imported, without any
        setting of discreet."""
        self._environment = {**environment, **FORKING}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        """Start the process, which begins to import; returns at once."""
        self.stop()
        output = self._log.open()
        ours, theirs = socket.socketpair()
        with theirs, open(output, "wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    __name__,
                    str(theirs.fileno()),
                    str(os.getpid()),
                    " " * TITLE_BYTES,
                ],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGKILL),  # noqa: PLW1509  it calls prctl and getppid, nothing else
            )
        ours.settimeout(ANSWER_SECONDS)
        self._control = ours

    def fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: int,
        files: Sequence[int],
    ) -> Forked | None:
        """Start `discreet <arguments>` with this environment, whose output goes to the descriptor
        `output`, and which inherits `files`; None if the template does not answer."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        assert self._control is not None
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "files": list(files),
        }
        read, write = os.pipe()
        with open(read, "rb") as theirs, open(write, "wb", buffering=0) as ours:
            try:
                with theirs, adopting():
                    socket.send_fds(self._control, [b"f"], [theirs.fileno(), output, *files])
                    forked = Forked(json.loads(self._control.recv(64)))
            except (OSError, ValueError):
                self.stop()
                return None
            with suppress(BrokenPipeError):  # it has ended already, which `poll` will report
                ours.write(json.dumps(order | {"parent": os.getpid()}).encode())
            return forked

    def stop(self) -> None:
        """End the template; the parts that it has forked go on."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None


class Forked:
    """A child of this process that the template has forked, with those methods of
    `subprocess.Popen` that a supervisor needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(0.01)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # until it was waited for, no other process can have its pid
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


# In the template ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """What the supervisor tells a new process to become."""

    parent: int
    arguments: list[str]
    environment: dict[str, str]
    files: list[int]


def main(arguments: Sequence[str]) -> list[str]:
    """Fork parts until the supervisor is gone. Returns only in a part, with its arguments."""
    descriptor, parent = (int(argument) for argument in arguments[:2])
    if not ends_with_parent(signal.SIGKILL, parent):
        sys.exit()
    keep_memory_private()
    title([*sys.orig_argv[:4]])
    gc.disable()  # what is imported stays: a sixth of the time went to looking for garbage in it
    for name in GROUND:
        importlib.import_module(name)
    importlib.import_module(PROGRAM).program()
    gc.collect()
    give_back()
    gc.freeze()
    gc.enable()
    control = socket.socket(fileno=descriptor)
    while True:
        asked, given, _, _ = socket.recv_fds(control, 1, MOST_FILES)
        if not asked:
            sys.exit()
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            try:
                pid = os.fork()
            except OSError:
                os._exit(1)
            if pid != 0:
                os.write(tell, json.dumps(pid).encode())
                os._exit(0)
            for one in (told, tell, control.detach()):
                os.close(one)
            return become(given)
        os.close(tell)
        # Waited for before the answer, because the supervisor adopts orphans only until that comes.
        os.waitpid(between, 0)
        answer = os.read(told, 64)
        for one in (told, *given):
            os.close(one)
        if not answer:
            sys.exit("the machine could not start a process")
        control.sendall(answer)


def become(given: Sequence[int]) -> list[str]:
    """Turn this new fork into what the supervisor ordered, as if it had been started that way;
    returns its arguments."""
    described, *kept = given
    with open(described, "rb") as stream:
        said = stream.read()  # empty unless the supervisor has adopted this process
    if not said:
        os._exit(127)
    order = Order(**json.loads(said))
    if not ends_with_parent(signal.SIGTERM, order.parent):
        os._exit(127)
    os.setsid()  # Ctrl-C at a terminal is for the supervisor alone
    # Moved above all numbers that are asked for, since one may have what another is to get.
    above = max((2, *order.files)) + 1
    aside = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, above) for one in kept]
    for one in kept:
        os.close(one)
    for one, number in zip(aside, (1, *order.files), strict=True):
        os.dup2(one, number, inheritable=number == 1)
        os.close(one)
    os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(order.environment)
    title([*sys.orig_argv[:3], "discreet", *order.arguments])
    return order.arguments


if __name__ == "__main__":
    part = main(sys.argv[1:])
    sys.exit(importlib.import_module(PROGRAM).run(part))
