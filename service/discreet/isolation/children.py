"""The parent's side of its children: start them through the zygote, talk, wait, kill.

To run a function in a sandboxed child, with limits of memory and time and with descriptors of the
parent's:

    # a module of the process's programs (`Services.children`): imported by the zygote, so at the
    top level only what # it needs; `warm_up` rehearses the function, its refusals included, before
    rights go (see `zygote`, `reading`) def count(arguments, payload, descriptors):  # inside the
    walls; descriptors 4, 5, … are those that were given
        if not payload:
            raise InvalidInput("there is nothing to count", pointer="/content")
        return {"bytes": len(payload)}, b""

    STEPS = {"count": tasks.answers(count)}

    # in the parent, on its event loop
    limits = Limits(memory_bytes=1 << 30, cpu_seconds=10, wall_seconds=20.0)
    answer, payload = await services.children.call("count", {}, body, limits)

InvalidInput, PayloadTooLarge and Unavailable come out as they were raised; a child that ends
otherwise is a ChildFailed, which says why. A thread that is not the loop's uses
`asyncio.run_coroutine_threadsafe`.

A child that ends without a result does so for a reason, told by its wait status and never guessed:

    ChildFailed           nobody knows why
    ├── MemoryLimit       it asked for more memory than it may have
    ├── CpuLimit          it used up its processor time
    ├── WallLimit         it was not done in time, and was ended
    ├── Crashed           a signal ended it, which nobody here had sent
    ├── Raised            an error in our code or a library; in post-processing `trace` says where
    ├── NotStarted        there is no child: its fork server does not start or is gone, or the
    │                     system starts no process
    └── NotIsolated       there is no child: the walls on this machine are less than was asked for

What ended a child that works on private data may depend on these: it is for operators (logs,
metrics), never for a job's error. `worker.runner` decides who hears it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any

import structlog
from prometheus_client import Gauge

from discreet.errors import DiscreetError
from discreet.isolation.frames import HEADER, OUT_OF_MEMORY, frame, lengths
from discreet.isolation.processes import give_pages_back, is_over, plain_environment
from discreet.isolation.sandbox import Isolation, Level
from discreet.isolation.tasks import SOLVING, refusal

# Failures -----------------------------------------------------------------------------------------
# How a child may fail, each with its code and what is known of it, and the limits that it was
# given.


class ChildFailed(DiscreetError):
    """The child ended without a result, and it is not known why."""

    code = "child_failed"

    def __init__(self, detail: str | None = None, *, trace: str | None = None) -> None:
        super().__init__(detail)
        self.trace = trace
        """Where post-processing failed; there is none for work on private data."""


class MemoryLimit(ChildFailed):
    """The child asked for more memory than it may have."""

    code = "memory_limit"


class CpuLimit(ChildFailed):
    """The child used up its processor time."""

    code = "cpu_limit"


class WallLimit(ChildFailed):
    """The child was not done in time, and was ended."""

    code = "wall_limit"


class Crashed(ChildFailed):
    """A signal ended the child."""

    code = "child_crashed"


class Raised(ChildFailed):
    """An error ended the child."""

    code = "child_raised"


class NotStarted(ChildFailed):
    """No child can be started."""

    code = "child_not_started"


class NotIsolated(ChildFailed):
    """Children are isolated less on this machine than the settings demand."""

    code = "not_isolated"

    def __init__(self, isolation: Isolation, least: Level) -> None:
        super().__init__(
            f"a child is isolated at level {isolation.level} here, not {least}: it reaches "
            f"{', '.join(isolation.reached)} (DISCREET_LEAST_ISOLATION, docs/security.md)",
        )


@dataclass(frozen=True)
class Limits:
    """What one child may take. `file_bytes`: the length to which it may write files that it was
    given. `answer_bytes`: what it may say in all, which the parent holds in memory; a child sends
    more than it ever had. None: `memory_bytes`. `growth_bytes`: memory beyond what a child begins
    with; 0 where `memory_bytes` alone limits it.
    """

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: float
    file_bytes: int = 0
    answer_bytes: int | None = None
    growth_bytes: int = 0

    @property
    def most_said(self) -> int:
        return self.memory_bytes if self.answer_bytes is None else self.answer_bytes

    @property
    def most_memory(self) -> str:
        """The limit of memory in words."""
        beyond = " beyond what it begins with"
        return (
            f"{self.growth_bytes} bytes{beyond}"
            if self.growth_bytes
            else f"{self.memory_bytes} bytes"
        )


def cause(report: bytes, limits: Limits) -> ChildFailed:
    """Why a child ended without a result, from its fork server's report; empty if there is none."""
    if not report:
        return NotStarted("the process that starts children is gone, and its children with it")
    told = json.loads(report)
    status = os.waitstatus_to_exitcode(told["status"])
    if status == OUT_OF_MEMORY:
        return MemoryLimit(f"the child asked for more memory than {limits.most_memory}")
    # The kernel ends by SIGKILL what goes on after SIGXCPU.
    if status == -signal.SIGXCPU or (
        status == -signal.SIGKILL and told["cpu_seconds"] >= limits.cpu_seconds
    ):
        return CpuLimit(f"the child used up {limits.cpu_seconds} s of processor time")
    if status < 0:
        by_kernel = (
            ", perhaps by the kernel, for lack of memory on the machine"
            if status == -signal.SIGKILL
            else ""
        )
        return Crashed(f"the child was ended by {signal.Signals(-status).name}{by_kernel}")
    return Raised(f"the child ended by itself with status {status}")


def ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


# Children -----------------------------------------------------------------------------------------

# Conversations ------------------------------------------------------------------------------------
# Talking to a child: frames until the last one, or question by question.

REPORT_SECONDS = 10.0
"""How long to wait for the word how a child ended, whose stream has ended already."""
OnProgress = Callable[[int, int], Awaitable[None]]


@dataclass
class Output:
    """What a child sent: its last frame, and tables by name."""

    payload: bytes = b""
    tables: dict[str, bytes] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def headline(self) -> str | None:
        """Of a result: its answer in a sentence, where it has one."""
        said: str | None = self.header.get("headline")
        return said


class Conversation:
    """A child that lives for many questions. ChildFailed when it ends, or takes longer than
    `seconds` for an answer."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        report: int,
        limits: Limits,
    ) -> None:
        self._reader, self._writer, self._report, self._limits = reader, writer, report, limits

    async def ask(
        self, header: dict[str, Any], payload: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        await self.send(header, payload)
        return await self.receive()

    async def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        try:
            self._writer.write(frame(header, payload))
            await self._writer.drain()
        except OSError as error:
            raise await end_of(self._report, self._limits) from error

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        try:
            async with asyncio.timeout(self._limits.wall_seconds):
                prefix = await self._reader.readexactly(HEADER.size)
                header_size, payload_size = lengths(prefix, self._limits.most_said)
                header: dict[str, Any] = json.loads(await self._reader.readexactly(header_size))
                return header, await self._reader.readexactly(payload_size)
        except TimeoutError as error:
            raise WallLimit(
                f"the child did not answer within {self._limits.wall_seconds:g} s"
            ) from error
        except (EOFError, OSError) as error:
            raise await end_of(self._report, self._limits) from error
        except ValueError as error:
            raise Raised(
                "the child sent something that is not a frame, or more than it may"
            ) from error


async def end_of(report: int, limits: Limits) -> ChildFailed:
    """Why a child has ended; what closed its stream and lives on is ended by the wait for it, and
    not known."""

    def read() -> bytes | None:
        events = select.poll()
        events.register(report, select.POLLIN)
        return os.read(report, 4096) if events.poll(REPORT_SECONDS * 1000) else None

    told = await asyncio.to_thread(read)
    return ChildFailed() if told is None else cause(told, limits)


async def collect(
    reader: asyncio.StreamReader, on_progress: OnProgress | None, most: int
) -> Output:
    """Frames until the last one, ValueError when they are longer than `most` bytes in all.
    ChildFailed with its trace where the child tells of one."""
    output = Output()
    while True:
        header_size, payload_size = lengths(await reader.readexactly(HEADER.size), most)
        most -= HEADER.size + header_size + payload_size
        header = json.loads(await reader.readexactly(header_size))
        payload = await reader.readexactly(payload_size)
        if "progress" in header:
            if on_progress is not None:
                await on_progress(int(header["progress"][0]), int(header["progress"][1]))
        elif "table" in header:
            output.tables[str(header["table"])] = payload
        elif "error" in header:
            raise ChildFailed(trace=str(header["error"]))
        else:
            output.header, output.payload = header, payload
            return output


# Children -----------------------------------------------------------------------------------------

log = structlog.get_logger()

_isolation = Gauge("discreet_child_isolation", "Isolation level of children; always 1", ["level"])

ZYGOTE_MODULE = "discreet.isolation.zygote"

template: socket.socket | None = None
"""Where the template of fork servers takes orders, of which a part of `discreet up` is told;
elsewhere each zygote imports and rehearses for itself."""

START_SECONDS = 600.0
"""Seconds after which a zygote that is not warm counts as hung and is ended, enough to compile
everything anew on a busy machine."""
FORK_SECONDS = 60.0
"""Seconds after which a zygote that has not forked counts as hung: it is ended, and started
again when needed."""
END_SECONDS = 10.0
"""Wait for the end of a zygote that was killed."""


class Zygote:
    """One zygote process, started when needed and started again when it died.

    `programs` name the modules that say what its children do (see `zygote`). NotIsolated instead
    of any child if children are isolated less than `least`.
    """

    def __init__(self, least: Level = "none", programs: Sequence[str] = (SOLVING,)) -> None:
        self.isolation: Isolation | None = None
        """Isolation of children as tested by the current zygote; None before its start."""
        self.failure: ChildFailed | None = None
        """Why the last start failed; None when it did not, and before the first."""
        self._least, self._programs = least, tuple(programs)
        self._process: asyncio.subprocess.Process | None = None
        self._watch: int | None = None
        self._control: socket.socket | None = None
        self._lock = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether the process runs; one that has died is started again when it is needed."""
        return self._control is not None and self._watch is not None and not is_over(self._watch)

    async def start(self) -> None:
        """Start the process and wait until it has compiled and imported everything."""
        async with self._lock:
            await self._running()

    async def run(
        self,
        header: dict[str, Any],
        payload: bytes | bytearray,
        limits: Limits,
        on_progress: OnProgress | None = None,
        descriptors: Sequence[int] = (),
    ) -> Output:
        """Run one step in a child of its own. ChildFailed when it ends without a result or over its
        limits.

        `header["step"]` names the step, `descriptors` stay open in the child. When this is
        cancelled the child is killed first.
        """
        async with self._child(limits, descriptors) as (reader, writer, report):
            try:
                async with asyncio.timeout(limits.wall_seconds):
                    writer.write(frame(header, payload))
                    await writer.drain()
                    return await collect(reader, on_progress, limits.most_said)
            except TimeoutError as error:
                raise WallLimit(
                    f"the child was not done within {limits.wall_seconds:g} s"
                ) from error
            except (EOFError, OSError) as error:
                raise await end_of(report, limits) from error
            except ValueError as error:
                raise Raised(
                    "the child sent something that is not a frame, or more than it may"
                ) from error
            except ChildFailed as told:  # with its trace; its wait status says of what kind it is
                failure = await end_of(report, limits)
                failure.trace = told.trace
                raise failure from told

    async def call(
        self,
        step: str,
        arguments: dict[str, Any],
        payload: bytes | bytearray,
        limits: Limits,
        descriptors: Sequence[int] = (),
    ) -> tuple[dict[str, Any], bytes]:
        """What the function of that step answers in a child of its own (see above), or raises."""
        output = await self.run(
            {"step": step, "arguments": arguments}, payload, limits, None, descriptors
        )
        if "refused" in output.header:
            raise refusal(output.header["refused"])
        return output.header["answer"], output.payload

    @contextlib.asynccontextmanager
    async def converse(
        self,
        header: dict[str, Any],
        payload: bytes,
        limits: Limits,
        descriptors: Sequence[int] = (),
    ) -> AsyncIterator[Conversation]:
        """A child that answers frame by frame until the block ends, which kills it. `header` and
        `payload` come first, and their answer is the first to `receive`."""
        async with self._child(limits, descriptors) as (reader, writer, report):
            conversation = Conversation(reader, writer, report, limits)
            await conversation.send(header, payload)
            yield conversation

    async def stop(self) -> None:
        """End the zygote; its children die with it."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._watch is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._watch, signal.SIGKILL)
            await asyncio.to_thread(is_over, self._watch, END_SECONDS)
            os.close(self._watch)
        self._process = self._watch = self._control = None

    @contextlib.asynccontextmanager
    async def _child(
        self, limits: Limits, descriptors: Sequence[int] = ()
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, int]]:
        """A child's stream and the pipe that tells its end; killed when the block ends."""
        # Copies: who is cancelled closes its own while a thread may still be sending them.
        given = [os.dup(descriptor) for descriptor in descriptors]
        forking = asyncio.create_task(self._fork(limits, given))
        try:
            ours, watch, report = await asyncio.shield(forking)
        except asyncio.CancelledError:
            forking.add_done_callback(_discard)
            raise
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            try:
                yield reader, writer, report
            finally:
                writer.close()
        finally:
            with contextlib.suppress(OSError):  # it may have ended by itself
                signal.pidfd_send_signal(watch, signal.SIGKILL)
            os.close(watch)
            os.close(report)

    async def _fork(self, limits: Limits, given: Sequence[int]) -> tuple[socket.socket, int, int]:
        wanted = {
            name: getattr(limits, name)
            for name in ("memory_bytes", "cpu_seconds", "file_bytes", "growth_bytes")
        }
        request = json.dumps(wanted).encode()
        try:
            async with self._lock:
                for _ in range(
                    2
                ):  # one that has died a moment ago is seen to be dead when it is asked
                    control = await self._running()
                    ours, theirs = socket.socketpair()
                    ours.setblocking(False)
                    with theirs:
                        # In a thread for the time of a fork: the zygote does nothing else.
                        answer, descriptors = await asyncio.to_thread(
                            _exchange, control, request, [theirs.fileno(), *given]
                        )
                    if descriptors:
                        return ours, descriptors[0], descriptors[1]
                    ours.close()
                    if answer:
                        raise NotStarted(
                            f"the system starts no process for a child: {answer[1:].decode()}"
                        )
                    await self.stop()
                raise NotStarted("the process that starts children is gone")
        finally:
            for descriptor in given:
                os.close(descriptor)

    async def _running(self) -> socket.socket:
        if self.alive and self._control is not None:
            return self._control
        await self.stop()
        try:
            control = await self._start()
        except ChildFailed as failure:
            self.failure = failure
            raise
        self.failure = None
        return control

    async def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            found = await self._started(ours, theirs)
        except BaseException:
            ours.close()
            raise
        ours.settimeout(FORK_SECONDS)
        self._control = ours
        self.isolation = Isolation.of(found["reached"], found["walls"])
        _isolation.clear()
        _isolation.labels(self.isolation.level).set(1)
        if not self.isolation.suffices(self._least):
            await self.stop()
            raise NotIsolated(self.isolation, self._least)
        if structlog.is_configured():  # a program that keeps no log would print it
            tell = log.info if self.isolation.level == "full" else log.warning
            tell("isolation of children", **asdict(self.isolation))
        return ours

    async def _started(self, ours: socket.socket, theirs: socket.socket) -> dict[str, Any]:
        """What the process says of its children when it is ready."""
        with theirs:
            if template is not None:
                socket.send_fds(
                    template, [json.dumps(self._programs).encode()], [theirs.fileno(), 2]
                )
            else:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # a folder `numpy` where somebody started us is not ours
                    "-m",
                    ZYGOTE_MODULE,
                    str(theirs.fileno()),
                    str(os.getpid()),
                    *self._programs,
                    pass_fds=(theirs.fileno(),),
                    env=plain_environment(),
                    stdin=asyncio.subprocess.DEVNULL,
                )
        ours.settimeout(START_SECONDS)
        try:
            answer, watch, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 4096, 1)
        except TimeoutError:
            await self.stop()
            raise NotStarted(
                f"the process that starts children was not ready within {START_SECONDS:g} s of its "
                "start, and was ended"
            ) from None
        if not answer:
            ended = "" if self._process is None else f"{ending(await self._process.wait())}; "
            raise NotStarted(
                f"the process that starts children does not start ({ended}its words are in the log)"
            )
        self._watch = watch[0]
        told: dict[str, Any] = json.loads(answer)
        return told


def _exchange(
    control: socket.socket, request: bytes, given: Sequence[int]
) -> tuple[bytes, list[int]]:
    try:
        socket.send_fds(control, [request], list(given))
        answer, descriptors, _, _ = socket.recv_fds(control, 4096, 2)
    except OSError:
        return b"", []
    return answer, list(descriptors)


def _discard(forking: asyncio.Task[tuple[socket.socket, int, int]]) -> None:
    """End a child that nobody waits for any more."""
    if forking.cancelled() or forking.exception() is not None:
        return
    ours, watch, report = forking.result()
    ours.close()
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(watch, signal.SIGKILL)
    os.close(watch)
    os.close(report)


# Jobs ---------------------------------------------------------------------------------------------
# Reads the job in the header of a task.


def read_job(header: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Problem, public part and plan of a job."""
    from discreet.problems import DATASETS, JOBS  # noqa: PLC0415
    from discreet.problems.plans import Plan  # noqa: PLC0415

    kind = header["kind"]
    problem = JOBS[kind].model_validate(header["problem"])
    public = None if header["public"] is None else DATASETS[kind].read_public(header["public"])
    return problem, public, Plan.model_validate(header["plan"])


# Kernels ------------------------------------------------------------------------------------------
# Compiled kernels of children, which can open no file: neither numba's cache nor the compiler's
# modules.


def load_compiler() -> None:
    """Compile a function, which imports the compiler: children, which may open no file, can then
    compile kernels that no rehearsal met.

    Loading kernels from numba's cache does not import it.
    """
    import numba  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    def doubled(values: Any) -> Any:
        return values + values

    numba.njit(doubled)(np.arange(3))


def count_saved() -> Callable[[], int]:
    """From now on kernels are counted that are compiled and put into numba's cache on disk: how
    many that were."""
    from numba.core.caching import Cache  # noqa: PLC0415

    saved = count()
    save: Any = Cache.save_overload

    def counted(cache: Any, signature: Any, compiled: Any) -> None:
        save(cache, signature, compiled)
        next(saved)

    Cache.save_overload = counted  # type: ignore[method-assign]
    return lambda: next(copy(saved))


def keep_in_memory() -> None:
    """Turn off numba's cache on disk: children compile kernels that no rehearsal met in memory,
    where numba would fail to open the files of its cache."""
    from numba.core.caching import Cache  # noqa: PLC0415

    Cache.load_overload = lambda _cache, _signature, _context: None  # type: ignore[method-assign]
    Cache.save_overload = lambda _cache, _signature, _compiled: None  # type: ignore[method-assign]


# Settling -----------------------------------------------------------------------------------------
# Returns to the system the memory that a part needed only to start.

SETTLED_SECONDS = 2.0
"""Seconds after a part is ready: its supervisor has asked for its health by then, and its
connections are open."""


@contextlib.asynccontextmanager
async def trimming_memory() -> AsyncIterator[None]:
    """While a part runs: return pages of programs and libraries once. This holds the event loop for
    40 ms, so that meanwhile no library is loaded where another was unloaded."""
    later = asyncio.get_running_loop().call_later(SETTLED_SECONDS, give_pages_back)
    try:
        yield
    finally:
        later.cancel()
