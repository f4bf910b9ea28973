"""The worker's side of its children: start them through the zygote, talk, wait, kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import structlog

from discreet.errors import DiscreetError
from discreet.isolation.frames import HEADER, frame, lengths
from discreet.isolation.sandbox import Isolation, Level

log = structlog.get_logger()

ZYGOTE_MODULE = "discreet.isolation.zygote"

OnProgress = Callable[[int, int], Awaitable[None]]


class ChildFailed(DiscreetError):
    """The child ended without a result. `trace` is there for post-processing only."""

    code = "child_failed"

    def __init__(self, trace: str | None = None) -> None:
        super().__init__()
        self.trace = trace


class NotIsolated(ChildFailed):
    """Children are less shut in on this machine than the settings ask for."""

    code = "not_isolated"

    def __init__(self, isolation: Isolation, least: Level) -> None:
        DiscreetError.__init__(
            self,
            f"a solver's child is shut in to level {isolation.level} here, not {least}: it reaches "
            f"{', '.join(isolation.reached)} (DISCREET_LEAST_ISOLATION, docs/security.md)",
        )
        self.trace = None


@dataclass(frozen=True)
class Limits:
    """What one child may take."""

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: float


@dataclass
class Output:
    """What a child sent: its last payload, and tables by name."""

    payload: bytes = b""
    tables: dict[str, bytes] = field(default_factory=dict)


class Conversation:
    """A child that lives for many questions. ChildFailed when it ends, or takes longer than `seconds` for an answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        self._reader, self._writer, self._seconds = reader, writer, seconds

    async def ask(self, header: dict[str, Any], payload: bytes = b"") -> tuple[dict[str, Any], bytes]:
        await self.send(header, payload)
        return await self.receive()

    async def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        try:
            self._writer.write(frame(header, payload))
            await self._writer.drain()
        except OSError as error:
            raise ChildFailed() from error

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        try:
            async with asyncio.timeout(self._seconds):
                header_size, payload_size = lengths(await self._reader.readexactly(HEADER.size))
                header: dict[str, Any] = json.loads(await self._reader.readexactly(header_size))
                return header, await self._reader.readexactly(payload_size)
        except (EOFError, OSError, ValueError, TimeoutError) as error:
            raise ChildFailed() from error


class Zygote:
    """One zygote process, started when needed and started again when it died.

    NotIsolated instead of any child when these are shut in less than `least`.
    """

    def __init__(self, least: Level = "none") -> None:
        self.isolation: Isolation | None = None
        """How well children are shut in, as tried by the zygote of the moment; None before its start."""
        self._least = least
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._lock = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether the process runs; one that has died is started again when it is needed."""
        return self._control is not None and self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process and wait until it has compiled and imported everything."""
        async with self._lock:
            await self._running()

    async def run(
        self, header: dict[str, Any], payload: bytes | bytearray, limits: Limits, on_progress: OnProgress | None = None
    ) -> Output:
        """Run one step in a child of its own. ChildFailed when it ends without a result or over its limits.

        When this is cancelled the child is killed first.
        """
        ours, watch = await self._fork(limits)
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            try:
                async with asyncio.timeout(limits.wall_seconds):
                    writer.write(frame(header, payload))
                    await writer.drain()
                    return await _collect(reader, on_progress)
            finally:
                writer.close()
        except (EOFError, OSError, ValueError, TimeoutError) as error:
            raise ChildFailed() from error
        finally:
            with contextlib.suppress(OSError):  # it may have ended by itself, or be the null device
                signal.pidfd_send_signal(watch, signal.SIGKILL)
            os.close(watch)

    @contextlib.asynccontextmanager
    async def converse(self, header: dict[str, Any], payload: bytes, limits: Limits) -> AsyncIterator[Conversation]:
        """A child that answers frame by frame until the block ends, which kills it. `header` and `payload` come first,
        and their answer is the first to `receive`."""
        ours, watch = await self._fork(limits)
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            try:
                conversation = Conversation(reader, writer, limits.wall_seconds)
                await conversation.send(header, payload)
                yield conversation
            finally:
                writer.close()
        finally:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(watch, signal.SIGKILL)
            os.close(watch)

    async def stop(self) -> None:
        """End the zygote; its children die with it."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._process = self._control = None

    async def _fork(self, limits: Limits) -> tuple[socket.socket, int]:
        request = json.dumps({"memory_bytes": limits.memory_bytes, "cpu_seconds": limits.cpu_seconds}).encode()
        async with self._lock:
            control = await self._running()
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            with theirs:
                # Blocking for the time of a fork: the zygote does nothing else.
                answer, descriptors = await asyncio.to_thread(_exchange, control, request, theirs.fileno())
            if not answer:
                ours.close()
                await self.stop()
                raise ChildFailed()
        return ours, descriptors[0]

    async def _running(self) -> socket.socket:
        if self.alive and self._control is not None:
            return self._control
        await self.stop()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # a folder `numpy` where somebody started us is not ours
                "-m",
                ZYGOTE_MODULE,
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
            )
        answer = await asyncio.to_thread(ours.recv, 4096)
        if not answer:
            ours.close()
            await self._process.wait()
            raise ChildFailed("the zygote did not start")
        found = json.loads(answer)
        self.isolation = Isolation.of(found["reached"], found["walls"])
        self._control = ours
        if not self.isolation.suffices(self._least):
            await self.stop()
            raise NotIsolated(self.isolation, self._least)
        if structlog.is_configured():  # a program that keeps no log would print it
            tell = log.info if self.isolation.level == "full" else log.warning
            tell("isolation of children", **asdict(self.isolation))
        return ours


def _exchange(control: socket.socket, request: bytes, descriptor: int) -> tuple[bytes, list[int]]:
    try:
        socket.send_fds(control, [request], [descriptor])
        answer, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    except OSError:
        return b"", []
    return (answer, descriptors) if descriptors else (b"", [])


async def _collect(reader: asyncio.StreamReader, on_progress: OnProgress | None) -> Output:
    output = Output()
    while True:
        header_size, payload_size = lengths(await reader.readexactly(HEADER.size))
        header = json.loads(await reader.readexactly(header_size))
        payload = await reader.readexactly(payload_size)
        if "progress" in header:
            if on_progress is not None:
                await on_progress(int(header["progress"][0]), int(header["progress"][1]))
        elif "table" in header:
            output.tables[str(header["table"])] = payload
        elif "error" in header:
            raise ChildFailed(str(header["error"]))
        else:
            output.payload = payload
            return output


def _environment() -> dict[str, str]:
    """What the zygote may know of the environment: no database address, no secrets file."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "NUMBA_CACHE_DIR", "VIRTUAL_ENV", "PYTHONPATH")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    # One thread a child: forks of a process with a thread pool hang, and the machine is shared between jobs.
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")}
    return {**environment, **single, "MPLBACKEND": "Agg"}
