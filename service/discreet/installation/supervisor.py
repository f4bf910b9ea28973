"""`discreet up`: one command that owns a state folder and keeps every part of the service running in it.

    discreet up ── postgres          fast shutdown, last
                ├─ api --fd N        the listening socket is ours: a restart keeps the port and who waits at it
                ├─ rpc               its port is held for it by a socket that does not listen
                └─ worker × n        stopped first: they give their jobs back

Parts that end are started again, after a pause that doubles while they keep failing; so is a part that lives and does
not answer. When the supervisor ends, by SIGTERM or by `kill -9`, everything ends with it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from discreet.errors import DiscreetError, Unavailable
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.state import LogFile, StateLock, claim_format, kernel_cache, private_folder, write_private
from discreet.isolation.processes import dies_with_parent, end
from discreet.settings import CREDENTIALS, Settings

READY_FILE = "ready.json"
OWNER_KEY_FILE = "owner.key"
METRICS_FILE = "metrics.json"

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # between restarts
SETTLED_SECONDS = 30.0  # a part that lived so long starts again without delay
FAILED_STARTS = 3  # of one part before the service was ever ready: it will not become so
GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL
PROBE_SECONDS = 10.0  # for an answer
PULSE_SECONDS = 5.0  # between an answer and the next probe of a part that runs
MISSED_PROBES = 3  # in a row: the part is alive but silent, and is started again
START_SECONDS = 300.0  # a part that runs for so long and never answered hangs
LAST_WORDS_SECONDS = 1.0  # from SIGABRT, which writes where it stands into its log, to SIGKILL
TELL_SECONDS = 10.0  # a start that takes so long says what it waits for
PREDECESSOR_SECONDS = 15.0  # the API of a killed supervisor needs a moment to give its port back


def run(
    settings: Settings,
    host: str,
    port: int,
    rpc_port: int,
    *,
    verbose: bool = False,
    as_json: bool = False,
) -> int:
    """Run everything until SIGTERM, SIGINT or SIGHUP; 0 after an orderly stop, 1 with one line why it could not run.

    `port` 0 takes a free one. `verbose` copies the logs of all parts to stderr; `as_json` prints the content of
    `ready.json` instead of a table. To be called from the main thread.
    """
    try:
        with Signals() as signals:
            Supervisor(settings, host, port, rpc_port, signals, verbose=verbose, as_json=as_json).run()
    except (DiscreetError, OSError) as error:
        _say(f"discreet up: {error}")
        return 1
    return 0


@contextmanager
def embedded(settings: Settings) -> Iterator[Settings]:
    """The state folder for one program, with no service: its lock, its secrets and its migrated database.

    Yields settings with the URLs set. A database that `settings` names already is used instead of the embedded one.
    """
    # Loaded here: the supervisor itself stays small, its parts do the work.
    from discreet.storage.migrations import migrate  # noqa: PLC0415

    state = private_folder(settings.state)
    with StateLock(state) as lock, ExitStack() as stack:
        claim_format(state)
        settings = settings.model_copy(update={"state": state})
        _ensure_secrets(settings)
        if settings.database_url is None:
            server = stack.enter_context(EmbeddedPostgres(state, lock=lock))
            settings = _with_database(settings, server)
            if server.mark != (schema := _schema_digest()):
                migrate(settings)
                server.mark = schema
        else:
            migrate(settings)
        yield settings


@contextmanager
def running(settings: Settings, host: str = "127.0.0.1", port: int = 0, rpc_port: int = 0) -> Iterator[dict[str, Any]]:
    """`discreet up` as a child process, for demonstrations and tests; yields the content of `ready.json`."""
    ready = settings.state / READY_FILE
    process = subprocess.Popen(
        _command("up", "--host", host, "--port", str(port), "--rpc-port", str(rpc_port)),
        env=_environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509  it calls prctl and getppid, nothing else
    )
    try:
        while True:
            if process.poll() is not None:
                raise Unavailable("discreet up ended before it was ready")
            with suppress(OSError, ValueError):
                answer: dict[str, Any] = json.loads(ready.read_text(encoding="utf-8"))
                if answer["pid"] == process.pid:
                    break
            time.sleep(0.05)
        yield answer
    finally:
        end(process, (signal.SIGTERM, 120.0))


class Signals:
    """Requests to stop, and a sleep that they and ended children cut short."""

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
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
    """One process that must run: `python -m discreet <arguments>` with the descriptors it inherits."""

    name: str
    arguments: tuple[str, ...]
    files: tuple[int, ...] = ()


class Part:
    """A part and its process of the moment."""

    def __init__(self, spec: PartSpec, environment: Mapping[str, str], log: LogFile) -> None:
        self.spec = spec
        self.log = log
        self.failures = 0
        self.pause = Pause()
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at: float | None = None
        self._environment = environment

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
                self.process = _start(self.spec.arguments, self._environment, self.log, self.spec.files)
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
        """None while the answer is out; then, once, its status and body. Status 0: no answer within PROBE_SECONDS. The
        next call asks anew."""
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
        # The listening socket is ours: the kernel accepts for the part, also while that still starts.
        port = self._listener.getsockname()[1]
        try:
            self._socket = socket.create_connection((self._host, port), timeout=1.0)
            host = f"[{self._host}]" if ":" in self._host else self._host
            self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            self._socket.setblocking(False)
        except OSError:
            self.close()
            return False
        return True


class Pulse:
    """Whether a part that runs is also there: it answers `/healthz` from its event loop, rpc after it has asked
    gRPC's own port. Silence counts from the first answer on, in probes and not in seconds: a machine that slept is
    forgiven."""

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
        """The part has answered somebody: from now on silence counts."""
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


class Supervisor:
    """The life of one `discreet up`."""

    def __init__(
        self,
        settings: Settings,
        host: str,
        port: int,
        rpc_port: int,
        signals: Signals,
        *,
        verbose: bool,
        as_json: bool,
    ) -> None:
        self.state = private_folder(settings.state)
        self.settings = settings.model_copy(update={"state": self.state})
        self.host, self.port, self.rpc_port = host, port, rpc_port
        self.signals = signals
        self.verbose, self.as_json = verbose, as_json
        self.lock = StateLock(self.state)
        self.logs: list[LogFile] = []
        self.parts: list[Part] = []
        self.monitors: dict[str, socket.socket] = {}
        self.pulses: dict[str, Pulse] = {}
        self._pulse_of: dict[str, float | None] = {}
        self._reasons: dict[str, str] = {}
        self.postgres: EmbeddedPostgres | None = None
        self.postgres_pause = Pause()

    def run(self) -> None:
        """Until a signal asks to stop; whatever happens, nothing is left running."""
        with self.lock, ExitStack() as stack:
            claim_format(self.state)
            stack.callback(self._stop)
            predecessor = self._ready_file.exists()
            self._ready_file.unlink(missing_ok=True)
            patience = PREDECESSOR_SECONDS if predecessor else 0.0
            listener = stack.enter_context(self._patiently(lambda: _listen(self.host, self.port), patience))
            reserved = stack.enter_context(self._patiently(lambda: _reserve(self.host, self.rpc_port), patience))
            self.rpc_port = reserved.getsockname()[1]
            if self.settings.rpc_address is None:  # where agents find it; behind a gateway it is set from outside
                self.settings = self.settings.model_copy(update={"rpc_address": self._rpc_address})
            self.lock.announce(self._url(listener))
            _ensure_secrets(self.settings)
            try:
                self._start_database()
                self._prepare_database()
                self._watch(listener)
            except Unavailable:
                if not self.signals.stops:
                    raise

    # -- up -----------------------------------------------------------------------------------------------------------

    def _patiently(self, take: Callable[[], socket.socket], patience: float) -> socket.socket:
        deadline = time.monotonic() + patience
        while True:
            try:
                return take()
            except PortTaken:
                if self.signals.stops or time.monotonic() >= deadline:
                    raise
            self.signals.sleep(0.1)

    def _start_database(self) -> None:
        if self.settings.database_url is not None:
            return
        self.postgres = EmbeddedPostgres(self.state, lock=self.lock)
        self.logs.append(self.postgres.log)
        self.postgres_pause.started(time.monotonic())
        self.postgres.start(give_up=self._asked_to_stop)
        self.settings = _with_database(self.settings, self.postgres)

    def _prepare_database(self) -> None:
        """Migrations, and on the first start the key of the default tenant's owner."""
        environment = _environment(self.settings)
        if self.postgres is None:
            self._do("migrate", ("migrate",), environment)
        elif self.postgres.mark != (schema := _schema_digest()):
            self._do("migrate", ("migrate",), environment)
            self.postgres.mark = schema
        key = self.state / OWNER_KEY_FILE
        if not key.exists():
            self._do("bootstrap", ("bootstrap", "--owner-key", str(key)), environment)

    def _do(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run one command to its end; `Unavailable` when it fails or a signal ends it."""
        log = self._log(name)
        process = _start(arguments, environment, log)
        try:
            while process.poll() is None and not self.signals.stops:
                self.signals.sleep(0.2)
                self._follow()
        finally:
            end(process, (signal.SIGTERM, GRACE_SECONDS))
        self._follow()
        if process.returncode != 0:
            raise Unavailable(f"{name} failed with status {process.returncode}: {log.last}")

    def _watch(self, listener: socket.socket) -> None:
        """Start the parts and keep them running."""
        # The owner role's password is for migrations; no part that runs gets to know it.
        environment = _environment(self.settings.model_copy(update={"migration_database_url": None}))
        self.parts = [Part(spec, environment, self._log(spec.name)) for spec in self._specs(listener)]
        self.pulses = {part.spec.name: Pulse(self._probe(part, listener)) for part in self.parts}
        waiting = {part.spec.name: self._probe(part, listener) for part in self.parts}
        told, tell_at = "", time.monotonic() + TELL_SECONDS
        ready = False
        try:
            while not self.signals.stops:
                self._tend_postgres()
                for part in self.parts:
                    self._tend(part, ready)
                self._follow()
                if not ready:
                    missing = self._missing(waiting)
                    if not missing:
                        ready = True
                        self._announce(self._url(listener))
                    elif missing != told and time.monotonic() >= tell_at:
                        told = missing
                        self._note(f"waiting for {missing}")
                due = [part.pause.until - time.monotonic() for part in self.parts if part.process is None]
                asked: list[Probe | Pulse] = [*waiting.values(), *self.pulses.values()]
                sockets = [each for asker in asked for each in asker.sockets]
                self.signals.sleep(min([1.0 if ready and not self.verbose else 0.1, *due]), *sockets)
        finally:
            for probe in waiting.values():
                probe.close()
            for pulse in self.pulses.values():
                pulse.close()

    def _probe(self, part: Part, listener: socket.socket) -> Probe:
        """Over the socket that callers use, where it speaks HTTP; else over that of its metrics."""
        monitor = self.monitors.get(part.spec.name)
        return Probe(listener, _reachable(self.host)) if monitor is None else Probe(monitor, "127.0.0.1")

    def _missing(self, waiting: dict[str, Probe]) -> str:
        """The parts that have not said yet that they are ready, a worker once its fork server is warm; and why not."""
        for part in self.parts:
            name = part.spec.name
            if name in waiting and part.running and (answer := waiting[name].ask("/readyz")) is not None:
                if answer[0] == HTTPStatus.OK:
                    waiting.pop(name).close()
                    self.pulses[name].heard()
                    self._reasons.pop(name, None)
                else:
                    self._reasons[name] = _why_not(answer[1])
        return ", ".join(f"{name} ({self._reasons.get(name, 'it starts')})" for name in waiting)

    def _specs(self, listener: socket.socket) -> list[PartSpec]:
        """What has to run. Stopped from the last to the first kind."""
        file = listener.fileno()
        specs = [
            PartSpec("api", ("api", "--fd", str(file)), (file,)),
            PartSpec("rpc", ("rpc", "--host", self.host, "--port", str(self.rpc_port))),
            *(PartSpec(f"worker-{number}", ("worker",)) for number in range(1, self.settings.workers + 1)),
        ]
        # The API has its metrics among its pages; the others get a port of loopback, the same when they start again.
        for number in range(1, len(specs)):
            monitor = self.monitors[specs[number].name] = _listen("127.0.0.1", 0)
            more = ("--metrics-fd", str(monitor.fileno()))
            specs[number] = PartSpec(specs[number].name, (*specs[number].arguments, *more), (monitor.fileno(),))
        return specs

    def _tend(self, part: Part, ready: bool) -> None:
        now = time.monotonic()
        status = part.tend()
        if status is None:
            pulse = self.pulses[part.spec.name]
            if part.started_at != self._pulse_of.get(part.spec.name):
                self._pulse_of[part.spec.name] = part.started_at
                pulse.started(now)
            elif part.running and (reason := pulse.lost(now)) is not None:
                self._replace(part, reason)
            return
        if not ready and part.failures >= FAILED_STARTS:
            raise Unavailable(f"{part.spec.name} does not start (status {status}): {part.log.last}")
        if ready:
            self._note(f"{part.spec.name} ended with status {status}; starting it again")

    def _replace(self, part: Part, reason: str) -> None:
        """End a part that runs and does not answer. A worker's jobs go on with the next one to claim them, when the
        lease is over; what this one would still write is refused by its fencing token."""
        assert part.process is not None
        self._note(f"{part.spec.name} is alive but silent: {reason}; starting it again")
        part.log.write(f"discreet up: ended, {reason}\n")
        part.process.send_signal(signal.SIGABRT)
        deadline = time.monotonic() + LAST_WORDS_SECONDS
        while part.process.poll() is None and time.monotonic() < deadline:
            self.signals.sleep(deadline - time.monotonic())
        part.process.kill()
        part.process.wait()

    def _tend_postgres(self) -> None:
        now = time.monotonic()
        if self.postgres is None or self.postgres.poll() is None or now < self.postgres_pause.until:
            return
        self._note("postgres ended; starting it again")
        self.postgres_pause.ended(now)
        try:
            self.postgres_pause.started(now)
            self.postgres.start(give_up=self._asked_to_stop)
        except DiscreetError as error:
            self._note(error.detail)

    def _announce(self, url: str) -> None:
        """Tell programs (`ready.json`) and people that the service is ready."""
        answer = {"api": url, "rpc": self._rpc_address, "dashboard": f"{url}/", "pid": os.getpid()}
        text = json.dumps(answer)
        write_private(self.state / METRICS_FILE, json.dumps(self._targets(url)))
        write_private(self._ready_file, text)
        if self.as_json:
            print(text, flush=True)
            return
        console = Console(soft_wrap=True, highlight=False)
        console.print("discreet is ready", style="bold green")
        for label, value in (
            ("address", url),
            ("dashboard", f"{url}/ (`discreet login` prints a link that logs in)"),
            ("gRPC", self._rpc_address),
            ("owner's key", str(self.state / OWNER_KEY_FILE)),
            ("logs", str(self.state / "logs")),
            ("stop", "Ctrl-C"),
        ):
            console.print(Text(f"  {label:<12}", style="dim").append(value, style="default not dim"))

    # -- down ---------------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Workers, then whoever answers requests, then the database. Asked twice, nobody gets time."""
        self._ready_file.unlink(missing_ok=True)
        workers = [part for part in self.parts if part.spec.arguments[0] == "worker"]
        for group in (workers, [part for part in self.parts if part not in workers]):
            self._end([part.process for part in group if part.process is not None])
        if self.postgres is not None:
            self.postgres.stop()
        for monitor in self.monitors.values():
            monitor.close()
        self._follow()

    def _end(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        deadline = time.monotonic() + GRACE_SECONDS
        for process in processes:
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        while any(process.poll() is None for process in processes):
            if time.monotonic() > deadline or self.signals.stops > 1:
                break
            self.signals.sleep(0.1)
            self._follow()
        for process in processes:
            process.kill()
            process.wait()

    # -- small things -------------------------------------------------------------------------------------------------

    @property
    def _ready_file(self) -> Path:
        return self.state / READY_FILE

    def _url(self, listener: socket.socket) -> str:
        host = _reachable(self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"

    def _targets(self, url: str) -> list[dict[str, Any]]:
        """Where metrics are, as Prometheus reads it (`file_sd_configs`)."""
        ports = {name: listener.getsockname()[1] for name, listener in self.monitors.items()}
        places = {"api": url.removeprefix("http://")} | {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        return [{"targets": [place], "labels": {"part": name}} for name, place in places.items()]

    @property
    def _rpc_address(self) -> str:
        host = _reachable(self.host)
        return f"{f'[{host}]' if ':' in host else host}:{self.rpc_port}"

    def _log(self, name: str) -> LogFile:
        log = LogFile(private_folder(self.state / "logs") / f"{name}.log")
        self.logs.append(log)
        return log

    def _follow(self) -> None:
        if self.verbose:
            for log in self.logs:
                log.follow(sys.stderr.buffer)

    def _asked_to_stop(self) -> bool:
        return self.signals.stops > 0

    def _note(self, text: str) -> None:
        if not self.signals.stops:
            _say(f"discreet up: {text}")


class PortTaken(DiscreetError):
    """The port is taken by another program."""

    code = "port_taken"


def _listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket; failures name address and port in one line."""
    if not 0 <= port < 1 << 16:  # getaddrinfo would cut the upper bits off
        raise DiscreetError(f"{port} is not a port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (socket.gaierror, UnicodeError) as error:
        raise DiscreetError(f"{host!r} is not an address of this machine") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} of {host} is taken by another program; --port chooses another") from error
        raise DiscreetError(f"cannot listen on port {port} of {host}: {error.strerror}") from error
    return listener


def _reserve(host: str, port: int) -> socket.socket:
    """A port for gRPC, which cannot be given a socket: bound here with SO_REUSEPORT and never listened on, so that the
    kernel keeps it for this user and gives its connections to whoever does listen."""
    with _listen(host, port) as free:  # without SO_REUSEPORT: another program's port is refused here
        address = free.getsockname()
    reserved = socket.socket(free.family, socket.SOCK_STREAM)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(address)
    except OSError as error:
        reserved.close()
        raise PortTaken(f"port {address[1]} of {host} is taken by another program") from error
    return reserved


def _reachable(host: str) -> str:
    """Where a program on this machine finds a server that listens on `host`."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  compared, not bound


def _why_not(body: str) -> str:
    """The first check that fails, of an answer of /readyz."""
    with suppress(ValueError, AttributeError):
        answer = json.loads(body)
        failed = [f"{name}: {why}" for name, why in answer.get("checks", {}).items() if why != "ok"]
        return str(failed[0] if failed else answer.get("detail", "not ready"))
    return "not ready"


def _ensure_secrets(settings: Settings) -> None:
    from discreet.storage import secrets  # noqa: PLC0415  cryptography is not needed by most of this module's users

    if not settings.secrets_path.exists():
        secrets.create(settings.secrets_path)
    else:
        secrets.upgrade(settings.secrets_path)


def _with_database(settings: Settings, server: EmbeddedPostgres) -> Settings:
    return settings.model_copy(update={"database_url": server.app_url, "migration_database_url": server.owner_url})


def _schema_digest() -> str:
    """Names what `discreet migrate` would do. A database that bears this mark needs no migration, which saves the
    second that the tools for it take to load."""
    package = resources.files("discreet")
    scripts = Path(str(package)) / "_migrations"  # in a wheel
    if not scripts.is_dir():
        scripts = Path(__file__).parents[2] / "migrations"  # in a source tree
    files = sorted(path for path in scripts.rglob("*") if path.suffix in (".py", ".sql", ".mako"))
    digest = hashlib.sha256(version("procrastinate").encode())  # its schema is in its package
    for path in (*files, Path(str(package / "storage" / "migrations.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _environment(settings: Settings) -> dict[str, str]:
    """This process's environment with exactly these settings in it."""
    environment = dict(os.environ)
    for name, value in settings.model_dump(mode="json").items():
        variable = f"DISCREET_{name.upper()}"
        environment.pop(variable, None)
        if value is not None:
            environment[variable] = value if isinstance(value, str) else json.dumps(value)
    environment["DISCREET_SECRETS_FILE"] = str(settings.secrets_path)
    for variable in CREDENTIALS:  # what is in there and not in these settings is not for the child
        environment.pop(variable, None)
    return kernel_cache(settings.state) | environment


def _command(*arguments: str) -> list[str]:
    # -P: a folder named like a package in the user's working directory must not be imported.
    return [sys.executable, "-P", "-m", "discreet", *arguments]


def _start(
    arguments: Sequence[str], environment: Mapping[str, str], log: LogFile, files: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    output = log.open()
    try:
        return subprocess.Popen(
            _command(*arguments),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=files,
            start_new_session=True,  # a terminal's Ctrl-C is ours to answer
            preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509  it calls prctl and getppid, nothing else
        )
    finally:
        os.close(output)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
