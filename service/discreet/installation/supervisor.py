"""`discreet up`: one command that owns a state folder and keeps every part of the service running
in it.

    discreet up ── postgres          stopped last, by a fast shutdown
                ├─ api --fd N        inherits the listening socket: a restart keeps the port and
                │                    the connections that wait there
                ├─ rpc               its port is held for it by a socket that does not listen
                └─ worker × n        stopped first: they requeue their jobs

A part that ends is started again, after a pause that doubles while it keeps failing; so is a part
that runs and does not answer. When the supervisor ends, by SIGTERM or by `kill -9`, everything ends
with it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

from rich.console import Console
from rich.text import Text

from discreet.errors import DiscreetError, Unavailable
from discreet.installation.part_specs import specs_of_parts
from discreet.installation.parts import (
    Part,
    PartSpec,
    Pause,
    Probe,
    Pulse,
    Signals,
    start_part,
    why_not,
)
from discreet.installation.ports import listen, patiently, reachable, reserve
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.prepared import (
    READY_FILE,
    ensure_secrets,
    environment_of,
    schema_digest,
    template_environment,
    with_database,
)
from discreet.installation.state import LogFile, StateLock, claim_format
from discreet.installation.template import Template
from discreet.isolation.processes import Process, end, give_back, plain_environment
from discreet.isolation.tasks import READING, SOLVING
from discreet.private_files import kernel_cache, private_folder, write_private
from discreet.settings import Settings

FAILED_STARTS = 3  # of one part before the service was ever ready: then `up` gives up
GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL
LAST_WORDS_SECONDS = 1.0  # from SIGABRT, on which a part logs its stacks, to SIGKILL
TELL_SECONDS = 10.0  # a start that takes longer says what it waits for
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
    """Run everything until SIGTERM, SIGINT or SIGHUP; returns 0 after an orderly stop, and 1, with
    the reason in one line on standard error, if it could not run.

    Port 0 takes a free one. `verbose` copies the logs of all parts to standard error; `as_json`
    prints the content of `ready.json` instead of a table. Must be called from the main thread.
    """
    try:
        with Signals() as signals:
            Supervisor(
                settings, host, port, rpc_port, signals, verbose=verbose, as_json=as_json
            ).run()
    except (DiscreetError, OSError) as error:
        say(f"discreet up: {error}")
        return 1
    return 0


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
        """Run until a signal asks to stop; whatever happens, nothing is left running."""
        with self.lock, ExitStack() as stack:
            claim_format(self.state)
            self.template = Template(template_environment(self.settings), self._log("template"))
            self.orders, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.children = self._children(takes)
            stack.callback(self._stop)
            predecessor = self._ready_file.exists()
            self._ready_file.unlink(missing_ok=True)
            patience = PREDECESSOR_SECONDS if predecessor else 0.0
            listener = stack.enter_context(
                patiently(lambda: listen(self.host, self.port), self.signals, patience)
            )
            reserved = stack.enter_context(
                patiently(lambda: reserve(self.host, self.rpc_port), self.signals, patience)
            )
            self.rpc_port = reserved.getsockname()[1]
            # Agents connect at this address; behind a gateway the operator sets it.
            if self.settings.rpc_address is None:
                self.settings = self.settings.model_copy(update={"rpc_address": self._rpc_address})
            self.lock.announce(self._url(listener))
            self.template.start()  # it imports while the database starts
            self.children.tend()
            ensure_secrets(self.settings)
            try:
                self._start_database()
                self._prepare_database()
                self._watch(listener)
            except Unavailable:
                if not self.signals.stops:
                    raise

    # -- up ----------------------------------------------------------------------------------------

    def _start_database(self) -> None:
        if self.settings.database_url is not None:
            return
        self.postgres = EmbeddedPostgres(self.state, lock=self.lock)
        self.logs.append(self.postgres.log)
        self.postgres_pause.started(time.monotonic())
        self.postgres.start(give_up=self._asked_to_stop)
        self.settings = with_database(self.settings, self.postgres)

    def _prepare_database(self) -> None:
        """Migrations, and on the first start the key of the default tenant's owner."""
        environment = environment_of(self.settings)
        if self.postgres is None:
            self._do("migrate", ("migrate",), environment)
        elif self.postgres.mark != (schema := schema_digest()):
            self._do("migrate", ("migrate",), environment)
            self.postgres.mark = schema
        key = self.state / OWNER_KEY_FILE
        if not key.exists():
            self._do("bootstrap", ("bootstrap", "--owner-key", str(key)), environment)

    def _do(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run one command to its end; `Unavailable` when it fails or a signal ends it."""
        log = self._log(name)
        process = start_part(PartSpec(name, tuple(arguments)), environment, log, self.template)
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
        # The owner role's password is for migrations only; no part learns it.
        environment = environment_of(
            self.settings.model_copy(update={"migration_database_url": None})
        )
        workers = self.settings.workers
        specs = specs_of_parts(
            listener, self.orders, self.host, self.rpc_port, workers, self.monitors
        )
        self.parts = [
            Part(spec, environment, self._log(spec.name), self.template) for spec in specs
        ]
        self.pulses = {part.spec.name: Pulse(self._probe(part, listener)) for part in self.parts}
        waiting = {part.spec.name: self._probe(part, listener) for part in self.parts}
        told, tell_at = "", time.monotonic() + TELL_SECONDS
        ready = False
        try:
            while not self.signals.stops:
                self._tend_postgres()
                for part in (self.children, *self.parts):
                    self._tend(part, ready)
                self._follow()
                if not ready:
                    missing = self._missing(waiting)
                    if not missing:
                        ready = True
                        give_back()
                        self._announce(self._url(listener))
                    elif missing != told and time.monotonic() >= tell_at:
                        told = missing
                        self._note(f"still starting: {missing}")
                due = [
                    part.pause.until - time.monotonic()
                    for part in self.parts
                    if part.process is None
                ]
                asked: list[Probe | Pulse] = [*waiting.values(), *self.pulses.values()]
                sockets = [each for asker in asked for each in asker.sockets]
                self.signals.sleep(
                    min([1.0 if ready and not self.verbose else 0.1, *due]), *sockets
                )
        finally:
            for probe in waiting.values():
                probe.close()
            for pulse in self.pulses.values():
                pulse.close()

    def _probe(self, part: Part, listener: socket.socket) -> Probe:
        """A probe of the API's own socket, or of the socket of another part's metrics."""
        if part.spec.name == "api":
            return Probe(listener, reachable(self.host))
        return Probe(self.monitors[part.spec.name], "127.0.0.1")

    def _missing(self, waiting: dict[str, Probe]) -> str:
        """The parts that are not ready yet, each with the reason; a worker is ready once its fork
        server is warm."""
        for part in self.parts:
            name = part.spec.name
            if (
                name in waiting
                and part.running
                and (answer := waiting[name].ask("/readyz")) is not None
            ):
                if answer[0] == HTTPStatus.OK:
                    waiting.pop(name).close()
                    self.pulses[name].heard()
                    self._reasons.pop(name, None)
                else:
                    self._reasons[name] = why_not(answer[1])
        return ", ".join(f"{name} ({self._reasons.get(name, 'it starts')})" for name in waiting)

    def _children(self, takes: socket.socket) -> Part:
        """The template of all fork servers. It receives no settings, because what it forks works on
        untrusted data."""
        self._takes = takes  # kept open, so that orders wait while the template starts again
        arguments = (str(takes.fileno()), str(os.getpid()), "--template", SOLVING, READING)
        spec = PartSpec("children", arguments, (takes.fileno(),), "discreet.isolation.zygote")
        return Part(spec, kernel_cache(self.state) | plain_environment(), self._log("children"))

    def _tend(self, part: Part, ready: bool) -> None:
        now = time.monotonic()
        status = part.tend()
        if status is None:
            pulse = self.pulses.get(part.spec.name)
            if pulse is None:
                return
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
        """End a part that runs and does not answer. Another worker claims a worker's jobs when
        their leases end; fencing tokens refuse whatever this one would still write."""
        assert part.process is not None
        self._note(f"{part.spec.name} runs but does not answer: {reason}; starting it again")
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
        except (DiscreetError, OSError) as error:  # for want of room it comes later
            self._note(str(error))

    def _announce(self, url: str) -> None:
        """Tell programs (`ready.json`) and people that the service is ready."""
        write_targets(self.state, self.monitors)
        answer = {"api": url, "rpc": self._rpc_address, "dashboard": f"{url}/", "pid": os.getpid()}
        text = json.dumps(answer)
        write_private(self._ready_file, text)
        if self.as_json:
            print(text, flush=True)
        else:
            show_ready(self.state, url, self._rpc_address)

    # -- down --------------------------------------------------------------------------------------

    def _stop(self) -> None:
        """Stop the workers, then the API and gRPC, then the template of children and the database.
        A second signal ends them without waiting."""
        if self.signals.stops:
            say(
                f"discreet up: stopping; everything is kept in {self.state}, jobs go on with the "
                "next start"
            )
        self._ready_file.unlink(missing_ok=True)
        workers = [part for part in self.parts if part.spec.arguments[0] == "worker"]
        for group in (
            workers,
            [part for part in self.parts if part not in workers],
            [self.children],
        ):
            self._end([part.process for part in group if part.process is not None])
        self.template.stop()
        if self.postgres is not None:
            self.postgres.stop()
        for monitor in self.monitors.values():
            monitor.close()
        self._follow()

    def _end(self, processes: Sequence[Process]) -> None:
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

    # -- small things ------------------------------------------------------------------------------

    @property
    def _ready_file(self) -> Path:
        return self.state / READY_FILE

    def _url(self, listener: socket.socket) -> str:
        host = reachable(self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"

    @property
    def _rpc_address(self) -> str:
        host = reachable(self.host)
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
            say(f"discreet up: {text}")


# Announcing ---------------------------------------------------------------------------------------
# What `discreet up` announces: to Prometheus where metrics are, to people that the service is
# ready.

OWNER_KEY_FILE = "owner.key"
METRICS_FILE = "metrics.json"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show_ready(state: Path, url: str, rpc_address: str) -> None:
    """Show a table of the service's addresses."""
    console = Console(soft_wrap=True, highlight=False)
    console.print("discreet is ready", style="bold green")
    for label, value in (
        ("address", url),
        ("dashboard", f"{url}/ (`discreet login` prints a link that logs in)"),
        ("gRPC", rpc_address),
        ("owner's key", str(state / OWNER_KEY_FILE)),
        ("logs", str(state / "logs")),
        ("stop", "Ctrl-C"),
    ):
        console.print(Text(f"  {label:<12}", style="dim").append(value, style="default not dim"))


def write_targets(state: Path, monitors: Mapping[str, socket.socket]) -> None:
    """Where metrics are, as Prometheus reads it (`file_sd_configs`)."""
    targets = [
        {"targets": [f"127.0.0.1:{listener.getsockname()[1]}"], "labels": {"part": name}}
        for name, listener in monitors.items()
    ]
    write_private(state / METRICS_FILE, json.dumps(targets))
