"""Real API, rpc and agent processes on loopback, with a kind of problem that only tests know."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation.processes import end
from discreet.problems.numbers import Privacy
from discreet.settings import Settings
from discreet.storage.tenants import Principal
from discreet.usecases import access, jobs
from discreet.usecases.services import open_services
from discreet_client.agent.cli import NOT_SETTLED
from discreet_client.federation.identity import Identity
from tests.cli.test_cli import discreet
from tests.conftest import DEADLINE_SECONDS, Installation, eventually, settings_for
from tests.postgres_fixture import fresh_database
from tests.rpc import kinds
from tests.templates import templates

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


@dataclass
class AgentProcess:
    """One `discreet-agent`, in a folder of its own."""

    folder: Path
    token: str
    problem: dict[str, Any]
    options: tuple[str, ...] = ()
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True, parents=True)
        (self.folder / "problem.json").write_text(
            json.dumps({**self.problem, "folder": str(self.folder)})
        )
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")
        }
        # A problem file that names its kind needs no program.
        program = () if "kind" in self.problem else ("--program", "tests.rpc.agents:add")
        arguments = [
            *(*program, "--problem", str(self.folder / "problem.json")),
            *("--identity", str(self.folder / "agent.key"), *self.options),
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "discreet_client.agent.cli", *arguments],
            env={**environment, "DISCREET_TOKEN": self.token},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self) -> None:
        """End it, if it lives, and close its pipes."""
        assert self.process is not None
        self.process.kill()
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.process.communicate()

    def ended(self, seconds: float = DEADLINE_SECONDS) -> tuple[int, str, str]:
        """Exit status, output and errors."""
        assert self.process is not None
        output, errors = self.process.communicate(timeout=seconds)
        return self.process.returncode, output, errors

    def outcome(self) -> dict[str, Any]:
        status, output, errors = self.ended()
        assert status in (0, NOT_SETTLED), errors
        answer: dict[str, Any] = json.loads(output)
        return answer

    @property
    def fingerprint(self) -> str:
        return Identity.open(self.folder / "agent.key").fingerprint

    @property
    def greeting(self) -> str:
        """What it says first, on standard error."""
        says = "this agent's fingerprint, for the owner to compare before signing"
        return f"discreet-agent: {says}: {self.fingerprint}\n"

    @property
    def answers(self) -> list[tuple[int, int, str]]:
        """Round, size of the state before, broadcast: of each decision that was taken."""
        try:
            lines = (self.folder / "answers").read_text().splitlines()
        except FileNotFoundError:
            return []
        words = [line.split(" ") for line in lines]
        return [(int(number), int(size), broadcast) for number, size, broadcast in words]


@dataclass
class Federation(Installation):
    """An installation with rpc processes."""

    rpc_port: int = 0
    rpcs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    agents: list[AgentProcess] = field(default_factory=list)
    folder: Path = Path()

    def environment(self) -> dict[str, str]:
        known = super().environment()
        path = os.pathsep.join(filter(None, [known.get("PYTHONPATH"), str(ROOT)]))
        here = {"DISCREET_RPC_ADDRESS": f"127.0.0.1:{self.rpc_port}", "PYTHONPATH": path}
        return {**known, **here, **self.extra}

    def program(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.rpc.program", *arguments]
        return subprocess.Popen(command, env=self.environment(), cwd=ROOT, **more)

    def spawn_api(self) -> None:
        files: Sequence[int] = self.listen()
        arguments: Sequence[str] = ("api", "--fd", str(files[0]), "--metrics-fd", str(files[1]))
        if not self.alone:  # nobody uploads contents of the tests' kind
            arguments, files = templates().sharing(arguments, files)
        self.api = self.program(*arguments, pass_fds=files)

    def start_rpc(self, port: int | None = None) -> subprocess.Popen[bytes]:
        port = port or self.rpc_port
        arguments: Sequence[str] = ("rpc", "--port", str(port))
        files: Sequence[int] = ()
        if not self.alone:
            arguments, files = templates().sharing(arguments, files)
        process = self.program(*arguments, pass_fds=files)
        self.rpcs.append(process)
        eventually(lambda: _listens(port) or process.poll() is not None, "gRPC answers")
        assert process.poll() is None
        return process

    @property
    def owner_identity(self) -> Path:
        return self.folder / "owner.pem"

    def submit(self, *, agents: int, epsilon: str = "0.5", **fields: Any) -> str:
        """A federated job; over the use case, since the API knows no test kind. Terms begin with
        `on_` or end in `_seconds`."""
        names = ("quorum", "on_missing", "round_seconds", "join_seconds", "approve_seconds")
        terms = {name: fields.pop(name) for name in names if name in fields}
        problem = kinds.NoisySum.model_validate(
            {
                "protocol": "federated",
                "federation": {"agents": agents, "join_seconds": 1000.0, **terms},
                **fields,
            }
        )

        async def go() -> str:
            async with open_services(self.settings) as services:
                owner: Principal = await access.authenticate(services, self.owner_key)
                row = await jobs.submit(
                    services,
                    owner,
                    idempotency_key=str(uuid.uuid4()),
                    request=problem.model_dump_json().encode(),
                    problem=problem,
                    privacy=Privacy(epsilon=Decimal(epsilon)),
                    seed=None,
                )
                return str(row["id"])

        with kinds.registered():
            return asyncio.run(go())

    def cli(self, *arguments: str) -> dict[str, Any]:
        """`discreet session …` as the owner runs it."""
        signs = arguments[0] not in ("show", "again")
        done = discreet(
            *("session", *arguments, "--json", "--server", self.url, "--key", self.owner_key),
            *(("--owner-identity", str(self.owner_identity)) if signs else ()),
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def invite(self, job: str, count: int = 1, names: Sequence[str] | None = None) -> list[str]:
        with self.client() as client:
            owner = Identity.open(self.owner_identity).fingerprint
            return list(client.session_tokens(job, owner=owner, count=count, names=names)["links"])

    def agent(
        self, token: str, *options: str, name: str | None = None, **problem: Any
    ) -> AgentProcess:
        """A new agent process; it sends `value` + round."""
        folder = self.folder / (name or f"agent-{len(self.agents)}")
        made = AgentProcess(folder, token, {"value": 1, **problem}, options)
        self.agents.append(made)
        made.start()
        return made

    def joined(self, job: str, count: int) -> None:
        with self.client() as client:
            eventually(
                lambda: len(client.session(job)["agents"]) >= count, f"{count} agents have enrolled"
            )

    def approve(self, job: str, **more: Any) -> dict[str, Any]:
        from discreet_client.federation.rosters import roster_document

        with self.client() as client:
            found = client.session(job)
        document = roster_document(
            found["id"], job, found["kind"], found["agents"], found["parameters"]
        )
        return self.hand_in(job, document, **more)

    def hand_in(self, job: str, document: bytes, **more: Any) -> dict[str, Any]:
        """A roster, signed by the owner."""
        from discreet_client.federation import signing

        owner = Identity.open(self.owner_identity)
        with self.client() as client:
            return client.approve_session(
                job,
                roster=document.decode(),
                signature=_base64(owner.sign(signing.roster(document))),
                owner_key=_base64(owner.public_key),
                **more,
            )

    def round_of(self, job: str) -> int:
        with self.client() as client:
            assert (ended := client.job(job))["state"] != "failed", (
                ended
            )  # or who waits for a round waits in vain
        return self.rounds_of(job)

    def rounds_of(self, job: str) -> int:
        """Also of a job that has failed."""
        with self.client() as client:
            return int(client.session(job)["round"])

    def job(self, job: str) -> dict[str, Any]:
        with self.client() as client:
            return client.job(job)

    def stop(self) -> None:
        for agent in self.agents:
            agent.kill()
        for process in self.rpcs:
            end(process, (signal.SIGTERM, DEADLINE_SECONDS / 5))
        super().stop()


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except OSError:
        return False
    return True


@contextmanager
def federation(
    postgres: EmbeddedPostgres,
    template: str,
    state: Path,
    extra: dict[str, str] | None = None,
    **values: Any,
) -> Iterator[Federation]:
    with fresh_database(postgres, template) as database:
        settings: Settings = settings_for(database, state, lease_seconds=5.0, **values)
        running = Federation(settings, extra=extra or {}, rpc_port=free_port(), folder=state)
        try:
            running.make_keys()
            running.start_api()
            running.start_rpc()
            yield running
        finally:
            running.stop()


@pytest.fixture(scope="session")
def shared(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """One installation for all tests that leave its processes alone; not encrypted, on loopback."""
    slow = {
        "DISCREET_RPC_MESSAGES_PER_SECOND": "300"
    }  # no agent of these tests comes near it, but the one that floods
    with federation(postgres, template, tmp_path_factory.mktemp("federation"), slow) as running:
        yield running


class Proxy:
    """Forwards one port of loopback to another, until it is cut: then all bytes vanish, as in a
    dead network."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            try:
                theirs = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                ours.close()
                continue
            self._sockets += [ours, theirs]
            for source, sink in ((ours, theirs), (theirs, ours)):
                thread = threading.Thread(target=self._pump, args=(source, sink), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.cut:
                    sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS / 5)
        for one in self._sockets:
            one.close()
