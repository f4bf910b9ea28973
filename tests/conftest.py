"""Fixtures: one PostgreSQL a session, a fresh migrated database and real processes where a test
asks for them."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest

# What computes for the service has one thread, and so do tests of it: of small matrices, threads of
# BLAS only wait for each other, and take the processor from the other process of `make test`. Read
# when NumPy is imported.
os.environ.update(
    {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")}
)

from httpx._transports import default as transports
from hypothesis import HealthCheck
from hypothesis.internal.conjecture import providers

from discreet import problems
from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation import children
from discreet.private_files import forget_other_kernels
from discreet.problems.base import Neighbours
from discreet.settings import Settings
from discreet.storage import secrets
from discreet.storage.migrations import migrate
from discreet_client.client import Client
from tests.postgres_fixture import Database, fresh_database, make_template, postgres
from tests.templates import Orders, Process, stop_templates, templates

__all__ = ["postgres"]

# How long an example takes depends on the machine; what a test may take is pytest-timeout's to say.
UNHURRIED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# `make test` says whether a change is right, so it tries the same examples every time; `make fuzz`
# looks for new ones.
hypothesis.settings.register_profile("repeated", derandomize=True, **UNHURRIED)
hypothesis.settings.register_profile("search", max_examples=2000, **UNHURRIED)
hypothesis.settings.load_profile("repeated")

DEADLINE_SECONDS = 400.0
"""How long tests wait for what must come. It only ends a broken test, before pytest-timeout does: a
machine that is busy with other things may be ten times slower than a quiet one."""
SETTINGS = frozenset(f"DISCREET_{name.upper()}" for name in Settings.model_fields)
"""What an environment may hold that no program reads while it is imported."""
LONG_SECONDS = 300.0
"""A run of so many seconds of tests ends with the list of its slowest modules."""
TURNS = {"reliability": -1, "problems": 1, "solvers": 2, "privacy": 3}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shuffle",
        metavar="SEED",
        help="run modules, and the tests of each, in the order of this seed",
    )


def pytest_configure(config: pytest.Config) -> None:
    forget_other_kernels(Path(problems.__file__).parents[1])
    if config.getoption("--hypothesis-profile", None) in (None, "repeated"):
        # Hypothesis also tries constants of whatever modules are loaded: examples would follow the
        # order of tests.
        assert providers.is_local_module_file
        providers.is_local_module_file = lambda path: False
    # Otherwise every API of a test in this process, and every worker, would start a fork server of
    # its own: 11 s of processor time. Tests of how these start take this away.
    children.template = Orders()  # type: ignore[assignment]
    # Every client of httpx reads the authorities of the world, 20 ms, also to ask http://127.0.0.1.
    transports.create_ssl_context = cache(transports.create_ssl_context)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = (
            False  # pytest-xdist would begin with the modules of most tests, not of most time
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle modules and the tests of each; a module stays together, for its fixtures and for
    `--dist loadfile`.

    Otherwise what kills and loads whole services comes first, and what only computes comes last,
    for at the end one process waits for the other.
    """
    if (seed := config.getoption("--shuffle")) is None:
        items.sort(key=lambda item: _turn(item.path.parts))
    else:
        place = {
            item.nodeid: (_digest(seed, str(item.path)), _digest(seed, item.nodeid))
            for item in items
        }
        items.sort(key=lambda item: place[item.nodeid])


def _turn(parts: Sequence[str]) -> int:
    """When the modules of a folder are run; the last folder is that of the shortest modules."""
    return next((turn for folder, turn in TURNS.items() if folder in parts), 0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Where the time of a long run went, and how long one process had nothing to do at the end."""
    seconds, ends = Counter[str](), dict[str, float]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if worker := getattr(report, "worker_id", None):
                seconds[report.nodeid.partition("::")[0]] += report.duration
                ends[worker] = max(ends.get(worker, 0.0), report.stop)
    if sum(seconds.values()) > LONG_SECONDS:
        terminalreporter.section("slowest modules")
        for module, duration in seconds.most_common(40):
            terminalreporter.write_line(f"{duration:7.1f} s  {module}")
        for worker, end in sorted(ends.items()):
            terminalreporter.write_line(
                f"{worker} ended {max(ends.values()) - end:.0f} s before the last"
            )


def pytest_unconfigure() -> None:
    stop_templates()


def _digest(*words: str) -> bytes:
    return hashlib.sha256("\0".join(words).encode()).digest()


def eventually(what: Callable[[], Any], why: str) -> Any:
    """The first true value of `what()`."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        if value := what():
            return value
        time.sleep(0.05)
    raise AssertionError(f"never happened: {why}")


@cache
def worst_cases(kind: str) -> tuple[Neighbours, ...]:
    """Of a kind, made once for all tests: each has a plan, and some take seconds."""
    return problems.KINDS[kind].worst_cases()


def first_of(values: Iterable[Any], often: int = 1) -> list[Any]:
    """Values of a parameter: `make test` tries the first of them, `make test-all` the others."""
    return [
        pytest.param(value, marks=pytest.mark.long) if place >= often else value
        for place, value in enumerate(values)
    ]


@pytest.fixture(scope="module", autouse=True)
def kinds_stay() -> Iterator[None]:
    """A test module leaves the registry of kinds as it was: others walk it, in the same process and
    any order."""
    before = dict(problems.KINDS)
    yield
    assert before == problems.KINDS


@pytest.fixture(scope="session")
def template(postgres: EmbeddedPostgres) -> str:
    """The name of a migrated database to copy."""

    def fill(database: Database) -> None:
        migrate(Settings(database_url=database.app_url, migration_database_url=database.owner_url))

    return make_template(postgres, fill)


@pytest.fixture
def database(postgres: EmbeddedPostgres, template: str) -> Iterator[Database]:
    with fresh_database(postgres, template) as fresh:
        yield fresh


def settings_for(database: Database, state: Path, **values: Any) -> Settings:
    """Settings of an installation on this database, with secrets of its own."""
    state.mkdir(exist_ok=True, parents=True)
    if not (state / "secrets.json").exists():
        secrets.create(state / "secrets.json")
    return Settings(
        state=state,
        database_url=database.app_url,
        migration_database_url=database.owner_url,
        **values,
    )


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> Settings:
    return settings_for(database, tmp_path / "state")


@dataclass
class Installation:
    """Real API and worker processes on one database."""

    settings: Settings
    url: str = ""
    owner_key: str = ""
    operator_key: str = ""
    workers: list[Process] = field(default_factory=list)
    api: Process | None = None
    extra: dict[str, str] = field(default_factory=dict)
    """Further environment of the processes that are started from now on."""
    api_command: tuple[str, ...] = ("-m", "discreet")
    worker_command: tuple[str, ...] = ("-m", "discreet")
    """How Python starts the API."""
    alone: bool = False
    """Whether each process imports and rehearses for itself, as on a machine of its own. Otherwise
    it shares what is rehearsed, unless its code is another's, and is forked, as by `discreet up`,
    unless its environment holds more than settings: that is read while programs are imported."""
    _listener: socket.socket | None = None
    _monitor: socket.socket | None = None

    def environment(self) -> dict[str, str]:
        names = (
            "database_url",
            "state",
            "lease_seconds",
            "max_attempts",
            "worker_concurrency",
            "job_wall_seconds",
            "json_body_bytes",
        )
        chosen = {f"DISCREET_{name.upper()}": str(getattr(self.settings, name)) for name in names}
        chosen["DISCREET_MIGRATION_DATABASE_URL"] = self.settings.migration_database_url or ""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")
        }
        return {**kept, **chosen, **self.extra}

    def make_keys(self) -> None:
        """The first keys of tenant `default`."""
        place = self.settings.state / "owner.key"
        made = self._started(Installation.api_command, "bootstrap", "--owner-key", str(place))
        assert made.wait(DEADLINE_SECONDS) == 0
        self.owner_key = place.read_text().strip()
        self.operator_key = place.with_name("operator.key").read_text().strip()

    def listen(self) -> tuple[int, int]:
        """Take an address for the API, and one for its metrics, which it keeps; the sockets."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self._listener.set_inheritable(True)
            self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
            self._monitor = socket.create_server(("127.0.0.1", 0))
            self._monitor.set_inheritable(True)
        assert self._monitor is not None
        return self._listener.fileno(), self._monitor.fileno()

    def spawn_api(self) -> None:
        """Start the API without waiting for it; its address stays what it was."""
        numbers = self.listen()
        sockets = ("--fd", str(numbers[0]), "--metrics-fd", str(numbers[1]))
        self.api = self._started(self.api_command, "api", *sockets, files=numbers)

    @property
    def metrics_url(self) -> str:
        """Where the API's metrics are."""
        assert self._monitor is not None
        return f"http://127.0.0.1:{self._monitor.getsockname()[1]}"

    def metrics(self) -> str:
        return httpx.get(f"{self.metrics_url}/metrics", timeout=60, trust_env=False).text

    def _started(
        self, command: Sequence[str], *arguments: str, files: Sequence[int] = ()
    ) -> Process:
        if not self.alone and "PYTHONPATH" not in self.extra:
            arguments, files = templates().sharing(arguments, files)
            if command == Installation.api_command and SETTINGS.issuperset(self.extra):
                return templates().start(arguments, self.environment(), files)
        return subprocess.Popen(
            [sys.executable, *command, *arguments], env=self.environment(), pass_fds=files
        )

    def start_api(self) -> None:
        self.spawn_api()
        eventually(self._ready, "the API is ready")

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=60, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def start_worker(self) -> Process:
        process = self._started(self.worker_command, "worker")
        self.workers.append(process)
        return process

    def client(self, key: str | None = None) -> Client:
        return Client(self.url, key or self.owner_key, timeout_seconds=DEADLINE_SECONDS)

    def http(self, key: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key or self.owner_key}"}
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=DEADLINE_SECONDS, trust_env=False
        )

    def key_of(self, role: str, tenant: str | None = None) -> str:
        """A new key; with a tenant's name, of that tenant."""
        with self.client(self.operator_key) as operator:
            return str(operator.create_key(role=role, principal=role, tenant=tenant)["key"])

    def owner_of(self, tenant: str) -> str:
        """The key of an owner of a new tenant: what happens there binds no other test, and is seen
        by none."""
        with self.client(self.operator_key) as operator:
            operator.create_tenant(tenant)
        return self.key_of("owner", tenant)

    def stop_workers(self) -> None:
        _end(self.workers)
        self.workers.clear()

    def stop(self) -> None:
        _end([process for process in [*self.workers, self.api] if process is not None])
        for listener in (self._listener, self._monitor):
            if listener is not None:
                listener.close()


def _end(processes: list[Process]) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(timeout=DEADLINE_SECONDS / 5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def installation(
    postgres: EmbeddedPostgres, template: str, state: Path, *, workers: int, **values: Any
) -> Iterator[Installation]:
    """An API and workers on a fresh database, stopped at the end."""
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres, template))
        running = Installation(settings_for(database, state, **values))
        stack.callback(running.stop)
        running.make_keys()
        running.start_api()
        for _ in range(workers):
            running.start_worker()
        yield running


@pytest.fixture(scope="session")
def service(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """One API and one worker for all tests that only use the service."""
    state = tmp_path_factory.mktemp("service")
    with installation(postgres, template, state, workers=1) as running:
        yield running


@pytest.fixture(scope="session")
def api_only(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """An API without a worker: what is submitted stays queued."""
    state = tmp_path_factory.mktemp("api-only")
    with installation(postgres, template, state, workers=0) as running:
        yield running
