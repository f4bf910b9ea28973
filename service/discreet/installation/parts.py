"""The processes of `discreet up`: how each is started, started again, and asked whether it still
answers."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Self

from discreet.installation.state import LogFile
from discreet.installation.template import Forked, Template
from discreet.isolation.processes import dies_with_parent

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # between restarts
SETTLED_SECONDS = 30.0  # a part that lived so long starts again without delay
PROBE_SECONDS = 10.0  # for an answer
PULSE_SECONDS = 5.0  # between an answer and the next probe of a part that runs
MISSED_PROBES = 3  # in a row: the part runs but does not answer, and is started again
START_SECONDS = 300.0  # a part that runs for so long and never answered hangs


class Signals:
    """Requests to stop, and a sleep that they and children's ends cut short."""

    def __init__(self) -> None:
        self.stops = 0  # the second one means: at once
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._stop)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._wake.close()
        self._waker.close()

    def sleep(self, seconds: float, *sockets: socket.socket) -> None:
        """Until a signal comes, one of `sockets` can be read, or the time is over."""
        select.select([self._wake, *sockets], [], [], max(0.0, seconds))
        with suppress(BlockingIOError):
            self._wake.recv(4096)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stops += 1


class Pause:
    """How long to wait before the next start of something that has ended."""

    def __init__(self) -> None:
        self.until = 0.0
        self._seconds = FIRST_PAUSE
        self._started = 0.0

    def started(self, now: float) -> None:
        self._started = now

    def ended(self, now: float) -> None:
        if now - self._started >= SETTLED_SECONDS:
            self._seconds = FIRST_PAUSE
        self.until = now + self._seconds
        self._seconds = min(2 * self._seconds, LONGEST_PAUSE)


@dataclass(frozen=True)
class PartSpec:
    """One process that must run: `python -m <module> <arguments>` with the descriptors it
    inherits."""

    name: str
    arguments: tuple[str, ...]
    files: tuple[int, ...] = ()
    module: str = "discreet"


class Part:
    """A part and its process of the moment."""

    def __init__(
        self,
        spec: PartSpec,
        environment: Mapping[str, str],
        log: LogFile,
        template: Template | None = None,
    ) -> None:
        self.spec = spec
        self.log = log
        self.failures = 0
        self.pause = Pause()
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self.started_at: float | None = None
        self._environment = environment
        self._template = template

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tend(self) -> int | None:
        """Start the process if it is due; returns the exit status once when it has ended."""
        now = time.monotonic()
        self.log.rotate()
        if self.process is None:
            if now >= self.pause.until:
                self.pause.started(now)
                self.started_at = now
                self.process = start_part(self.spec, self._environment, self.log, self._template)
            return None
        status = self.process.poll()
        if status is not None:
            self.process = None
            self.failures += 1
            self.pause.ended(now)
        return status


class Probe:
    """Asks one process over HTTP, again and again, without ever making the supervisor wait."""

    def __init__(self, listener: socket.socket, host: str) -> None:
        self._listener = listener
        self._host = host
        self._asked = 0.0
        self._answer = b""
        self._socket: socket.socket | None = None

    @property
    def sockets(self) -> list[socket.socket]:
        return [self._socket] if self._socket else []

    def ask(self, path: str) -> tuple[int, str] | None:
        """None while the answer is out; then, once, its status and body. Status 0: no answer within
        PROBE_SECONDS. The next call asks anew."""
        now = time.monotonic()
        if self._socket is None:
            self._asked, self._answer = now, b""
            return None if self._send(path) else (0, "")
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            if now - self._asked < PROBE_SECONDS:
                return None
            self.close()
            return 0, ""
        except OSError:
            data = b""
        self._answer += data
        if data:
            return None
        self.close()
        head, _, body = self._answer.partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        return status, body.decode(errors="replace")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, path: str) -> bool:
        # The listening socket is ours: the kernel accepts for the part, also while that still
        # starts.
        port = self._listener.getsockname()[1]
        try:
            self._socket = socket.create_connection((self._host, port), timeout=1.0)
            host = f"[{self._host}]" if ":" in self._host else self._host
            self._socket.sendall(
                f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
            )
            self._socket.setblocking(False)
        except OSError:
            self.close()
            return False
        return True


class Pulse:
    """Whether a part that runs is also there: it answers `/healthz` from its event loop, rpc after
    it has asked gRPC's own port. Silence counts from the first answer on, in probes and not in
    seconds: a machine that slept is forgiven."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._next = 0.0
        self._heard = False
        self._missed = 0

    @property
    def sockets(self) -> list[socket.socket]:
        return self._probe.sockets

    def started(self, now: float) -> None:
        """The part was started anew."""
        self._probe.close()
        self._since, self._next = now, now + PULSE_SECONDS
        self._heard, self._missed = False, 0

    def heard(self) -> None:
        """The part has answered a request: from now on silence counts."""
        self._heard, self._missed = True, 0

    def lost(self, now: float) -> str | None:
        """Why the part is to be started again; None while it lives, or while that is not known."""
        if now < self._next:
            return None
        answer = self._probe.ask("/healthz")
        if answer is None:
            return None
        self._next = now + PULSE_SECONDS
        status, body = answer
        if status not in (0, 500):
            self.heard()
            return None
        self._missed += 1
        if self._heard and self._missed >= MISSED_PROBES:
            why = "it gave no answer" if status == 0 else body[:200]
            return f"{MISSED_PROBES} probes in a row failed: {why}"
        if not self._heard and now - self._since > START_SECONDS:
            return f"it did not answer within {START_SECONDS:g} s of its start"
        return None

    def close(self) -> None:
        self._probe.close()


def command(*arguments: str, module: str = "discreet") -> list[str]:
    # -P: a folder named like a package in the user's working directory must not be imported.
    return [sys.executable, "-P", "-m", module, *arguments]


def start_part(
    spec: PartSpec, environment: Mapping[str, str], log: LogFile, template: Template | None = None
) -> subprocess.Popen[bytes] | Forked:
    """The part's process, forked from the template where there is one that answers."""
    output = log.open()
    try:
        if template is not None and (
            forked := template.fork(spec.arguments, environment, output, spec.files)
        ):
            return forked
        return subprocess.Popen(
            command(*spec.arguments, module=spec.module),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=spec.files,
            start_new_session=True,  # a terminal's Ctrl-C is ours to answer
            preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509  it calls prctl and getppid, nothing else
        )
    finally:
        os.close(output)


def why_not(body: str) -> str:
    """The first check that fails, of an answer of /readyz."""
    with suppress(ValueError, AttributeError):
        answer = json.loads(body)
        failed = [f"{name}: {why}" for name, why in answer.get("checks", {}).items() if why != "ok"]
        return str(failed[0] if failed else answer.get("detail", "not ready"))
    return "not ready"
