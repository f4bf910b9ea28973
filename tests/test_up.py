"""`discreet up`: what it makes, what it brings back, what it leaves behind."""

from __future__ import annotations

import base64
import errno
import http.client
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest

from discreet.errors import StateHeld
from discreet.installation import parts, ports, prepared
from discreet.installation.binaries import User
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.state import StateLock
from discreet.installation.supervisor import Supervisor
from discreet.isolation.processes import end
from discreet.settings import Settings
from discreet_client.client import Client
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, first_of
from tests.postgres_fixture import fresh_database
from tests.processes import alive, command, family, remembered, until

# A start waits for a warm worker: some ten seconds of processor time, which a busy machine may take
# minutes for.
pytestmark = pytest.mark.timeout(600)


def clean_environment(**more: str) -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")
    } | more


@dataclass
class Service:
    """A `discreet up` that a test may do anything to."""

    state: Path
    process: subprocess.Popen[str]

    @property
    def ready(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((self.state / "ready.json").read_text())
        return answer

    @property
    def is_ready(self) -> bool:
        with suppress(FileNotFoundError):
            return bool(self.ready["pid"] == self.process.pid)
        return False

    @property
    def port(self) -> int:
        return int(self.ready["api"].rpartition(":")[2])

    def part(self, name: str) -> int:
        """The pid of a part, 0 while it does not run."""
        for pid in family(self.process.pid):
            words = command(pid)
            if (name in words and "discreet" in words) or (
                name == "postgres" and words[0].endswith("/bin/postgres")
            ):
                return pid
        return 0

    @property
    def template(self) -> int:
        """The process that parts are forked from, 0 while there is none."""
        below = family(self.process.pid)
        return next((pid for pid in below if "discreet.installation.template" in command(pid)), 0)

    @property
    def fork_servers(self) -> list[int]:
        """What fork servers are forked from, and these."""
        return [
            pid for pid in family(self.process.pid) if "discreet.isolation.zygote" in command(pid)
        ]

    def get(self, path: str, **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def await_ready(self) -> None:
        until(lambda: self.is_ready or self.process.poll() is not None, seconds=400)
        assert self.process.poll() is None, self.process.communicate()[1]


def as_user(user: int | None) -> dict[str, Any]:
    """Arguments that start a process as this user; None: as the one who runs the tests."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@contextmanager
def started(
    state: Path, *arguments: str, user: int | None = None, **more: str
) -> Iterator[Service]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "discreet",
            "up",
            "--state",
            str(state),
            "--port",
            "0",
            "--rpc-port",
            "0",
            *arguments,
        ],
        env=clean_environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **as_user(user),
    )
    service = Service(state, process)
    try:
        yield service
    finally:
        processes = family(process.pid)
        end(process, (signal.SIGTERM, DEADLINE_SECONDS / 5))
        process.communicate()
        until(lambda: not any(alive(pid) for pid in processes))


STOPPING = "discreet up: stopping"


def refused(state: Path, *arguments: str, **more: str) -> str:
    """The one line of an `up` that cannot run."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "discreet",
            "up",
            "--state",
            str(state),
            "--port",
            "0",
            "--rpc-port",
            "0",
            *arguments,
        ],
        env=clean_environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    *before, line = done.stderr.splitlines(keepends=True)
    assert all(
        told.startswith("discreet up: still starting: ") for told in before
    )  # on a slow machine
    return line


def secrets_command(
    state: Path, *arguments: str, user: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "discreet", "secrets", *arguments, "--state", str(state)],
        env=clean_environment(**more),
        capture_output=True,
        text=True,
        check=False,
        **as_user(user),
    )


@pytest.fixture(params=["same", "nobody"])
def other_user(request: pytest.FixtureRequest) -> int | None:
    """The user of this test, and beside root an ordinary one who can reach the programs."""
    if request.param == "same":
        return None
    nobody = User(65534, 65534)
    if os.geteuid() != 0 or not all(
        nobody.reaches(Path(place)) for place in (sys.executable, prepared.__file__)
    ):
        pytest.skip("only root can be somebody else, and only where others can reach the code")
    return nobody.uid


@pytest.mark.long
def test_master_keys_rotate_beside_a_running_service(made: Path, other_user: int | None) -> None:
    """Of root's service PostgreSQL's own note of its socket is a path of its process: nobody
    else's."""
    place = Path(tempfile.mkdtemp(prefix="discreet-test-"))  # pytest's folders are closed to others
    state, home = (
        place / "state",
        {"HOME": str(place), "DISCREET_WORKERS": "0"},
    )  # nothing to warm up
    copied(made, state)
    if other_user is not None:
        for path in (place, *place.rglob("*")):
            os.chown(path, other_user, other_user)
    try:
        with started(state, user=other_user, **home) as service:
            service.await_ready()
            before = (state / "secrets.json").read_bytes()
            for url in (
                "postgresql://discreet_app@127.0.0.1:1/discreet",
                "postgresql://a@/b?host=/nowhere",
            ):
                lost = secrets_command(
                    state, "rotate", "content", user=other_user, DISCREET_DATABASE_URL=url, **home
                )
                assert (lost.returncode, lost.stdout) == (1, "")
                assert "no key was made" in lost.stderr
                assert lost.stderr.count("\n") == 1, lost.stderr
                assert (state / "secrets.json").read_bytes() == before
            done = secrets_command(state, "rotate", "content", "--json", user=other_user, **home)
            assert done.returncode == 0, done.stderr
            keys = json.loads((state / "secrets.json").read_text())["content_keys"]
            assert [keys[0]["id"], len(keys)] == [json.loads(done.stdout)["used"], 2]
            assert (
                secrets_command(
                    state, "retire", "content", keys[1]["id"], user=other_user, **home
                ).returncode
                == 0
            )
            assert service.get("/readyz") == 200
    finally:
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder after its first start and stop."""
    state = tmp_path_factory.mktemp("made") / "state"
    with started(state, "--json", DISCREET_WORKERS="0") as service:  # nothing to warm up
        assert service.process.stdout is not None
        assert json.loads(service.process.stdout.readline()) == service.ready
        service.process.send_signal(signal.SIGTERM)
        _, errors = service.process.communicate(timeout=DEADLINE_SECONDS)
        assert service.process.returncode == 0, errors
    return state


def copied(made: Path, place: Path) -> Path:
    """A copy of it, of any owner: quicker than another first start."""
    subprocess.run(["/bin/cp", "-a", str(made), str(place)], check=True)
    return place


@pytest.fixture(scope="module")
def shared(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for the tests that leave it as they found it."""
    with started(copied(made, tmp_path_factory.mktemp("up") / "shared state")) as service:
        service.await_ready()
        yield service


@pytest.fixture
def service(made: Path, tmp_path: Path) -> Iterator[Service]:
    """A service of one test."""
    with started(copied(made, tmp_path / "a state")) as service:
        service.await_ready()
        yield service


def test_ready_file_and_owner_key(shared: Service) -> None:
    answer = shared.ready
    assert answer.keys() >= {"api", "rpc", "dashboard", "pid"}
    assert answer["pid"] == shared.process.pid
    assert answer["api"].startswith("http://127.0.0.1:")
    assert answer["dashboard"].startswith(answer["api"])
    host, _, port = answer["rpc"].rpartition(":")
    socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS).close()
    assert shared.get("/readyz") == 200
    for name in ("ready.json", "owner.key", "secrets.json", "postgres.json", "lock"):
        assert stat.S_IMODE((shared.state / name).stat().st_mode) == 0o600, name
    key = (shared.state / "owner.key").read_text().strip()
    assert shared.get("/v1/datasets", Authorization=f"Bearer {key}") == 200
    assert shared.get("/v1/datasets", Authorization="Bearer dsc_wrong") == 401


@pytest.mark.skipif(os.geteuid() != 0, reason="parts close their memory to their own user")
def test_parts_know_only_the_application_role_and_what_forks_knows_nothing(shared: Service) -> None:
    """Searched in the memory of the processes: also a password that nobody holds any more would be
    found."""
    passwords = json.loads((shared.state / "postgres.json").read_text())
    words = {
        role: passwords[role].encode() for role in ("discreet_app", "discreet_owner", "postgres")
    }
    secrets = json.loads((shared.state / "secrets.json").read_text())
    key = secrets["content_keys"][0]["key"]
    words |= {"content key": key.encode(), "raw content key": base64.urlsafe_b64decode(key)}
    keys = {"content key", "raw content key"}
    for name in ("api", "rpc", "worker"):
        known = remembered(shared.part(name), words)
        assert known - keys == {"discreet_app"}, name
        assert known & keys, name
    children, *fork_servers = shared.fork_servers
    # One of solvers, and one of uploads, which a killed one begins with the next upload.
    assert fork_servers
    for pid in (shared.template, children, *fork_servers):
        assert remembered(pid, words) == set(), command(pid)


@pytest.mark.long
def test_killed_template_and_killed_fork_servers_come_back(shared: Service) -> None:
    rpc, template, (children, *servers) = shared.part("rpc"), shared.template, shared.fork_servers
    os.kill(template, signal.SIGKILL)
    until(lambda: not alive(template))
    assert alive(rpc)
    os.kill(rpc, signal.SIGKILL)
    until(lambda: shared.part("rpc") not in (0, rpc))
    assert shared.template not in (0, template)

    os.kill(children, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in (children, *servers)))
    key = (shared.state / "owner.key").read_text().strip()
    with Client(f"http://127.0.0.1:{shared.port}", key) as client:
        job = client.submit(bodies.job(client.register(bodies.dataset())["id"]))["id"]
        assert client.wait(job)["state"] == "succeeded"
    assert not set(shared.fork_servers) & {children, *servers}


def test_second_up_is_told_who_holds_the_state(shared: Service) -> None:
    line = refused(shared.state)
    assert f"process {shared.process.pid} ({shared.ready['api']})" in line
    assert shared.get("/readyz") == 200


def test_port_that_is_taken(shared: Service, tmp_path: Path) -> None:
    line = refused(tmp_path / "state", "--port", str(shared.port))
    assert f"port {shared.port} of 127.0.0.1 is taken" in line
    assert not (tmp_path / "state" / "postgres").exists()


def test_killed_api_keeps_its_port_and_its_callers(shared: Service) -> None:
    before, port = shared.part("api"), shared.port
    with ThreadPoolExecutor() as pool:
        os.kill(before, signal.SIGKILL)
        answers = [
            pool.submit(shared.get, "/readyz") for _ in range(5)
        ]  # wait in the backlog of the socket
        assert {answer.result() for answer in answers} == {200}
    assert shared.part("api") not in (0, before)
    assert shared.port == port


def test_grpc_comes_back_on_its_port(shared: Service) -> None:
    before, address = shared.part("rpc"), shared.ready["rpc"]
    host, _, port = address.rpartition(":")
    os.kill(before, signal.SIGKILL)

    def answers() -> bool:
        with suppress(OSError):
            socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS).close()
            return shared.part("rpc") not in (0, before)
        return False

    until(answers)
    assert shared.ready["rpc"] == address


def test_killed_worker_is_replaced(shared: Service) -> None:
    children, *_ = shared.fork_servers

    def solving() -> list[int]:
        return [
            pid
            for pid in shared.fork_servers
            if pid != children and "discreet.isolation.solving" in command(pid)
        ]

    until(
        lambda: len(solving()) == 1
    )  # of the worker that is there, whatever the test before has killed
    before, own = shared.part("worker"), solving()
    os.kill(before, signal.SIGKILL)
    until(lambda: shared.part("worker") not in (0, before))
    until(lambda: not alive(own[0]))
    assert alive(children)  # another's is not touched
    assert shared.get("/readyz") == 200


def test_killed_postgres_comes_back(shared: Service) -> None:
    before, api = shared.part("postgres"), shared.part("api")
    os.kill(before, signal.SIGKILL)
    until(lambda: shared.part("postgres") not in (0, before))
    until(lambda: shared.get("/readyz") == 200)
    assert shared.part("api") == api


def test_sigterm_leaves_nothing_running(service: Service) -> None:
    processes, port = family(service.process.pid), service.port
    assert len(processes) > 6
    os.kill(service.part("worker"), signal.SIGSTOP)  # nor does a part that does not move
    service.process.send_signal(signal.SIGTERM)
    out, errors = service.process.communicate(timeout=DEADLINE_SECONDS)
    assert service.process.returncode == 0, errors
    assert f"http://127.0.0.1:{port}" in out
    assert "owner.key" in out
    # A start that takes long tells what it waits for, and a busy machine makes it long.
    *before, last = errors.splitlines()
    assert [line for line in before if not line.startswith("discreet up: still starting: ")] == []
    assert last.startswith(f"{STOPPING}; everything is kept in {service.state}")
    assert not any(alive(pid) for pid in processes)
    assert not (service.state / "ready.json").exists()
    with socket.create_server(("127.0.0.1", port)):
        pass
    log = (service.state / "logs" / "postgres.log").read_text()
    assert log.rstrip().endswith("database system is shut down")


@pytest.mark.long
def test_killed_supervisor_takes_all_with_it_and_loses_nothing(service: Service) -> None:
    processes, port, key = (
        family(service.process.pid),
        service.port,
        (service.state / "owner.key").read_text(),
    )
    service.process.kill()
    until(lambda: not any(alive(pid) for pid in processes))
    assert (service.state / "ready.json").exists()
    with started(service.state, "--port", str(port)) as again:
        again.await_ready()
        assert again.port == port
        assert again.get("/v1/datasets", Authorization=f"Bearer {key.strip()}") == 200
        assert (service.state / "owner.key").read_text() == key


def test_a_database_that_finds_no_room_when_it_starts_again_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its server ended; to write its settings there is no room for a moment."""
    starts = []

    def no_room(server: EmbeddedPostgres, name: str, text: str) -> None:
        starts.append(name)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    settings = Settings(state=tmp_path / "state")
    with parts.Signals() as signals, EmbeddedPostgres(tmp_path / "state", durable=False) as server:
        one = Supervisor(settings, "127.0.0.1", 0, 0, signals, verbose=False, as_json=False)
        one.postgres = server
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        server.wait()

        def tended_until(condition: Callable[[], bool]) -> None:
            def tended() -> bool:
                one._tend_postgres()
                return condition()

            until(tended)

        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedPostgres, "_write_data", no_room)
            tended_until(lambda: len(starts) > 1)
        assert os.strerror(errno.ENOSPC) in capsys.readouterr().err
        tended_until(lambda: server.poll() is None)
        with psycopg.connect(server.superuser_url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def ran(pid: int) -> tuple[float, float]:
    """Seconds in which the process had a processor, and in which it could have used one."""
    with suppress(OSError):
        had, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return int(had) / 1e9, (int(had) + int(waited)) / 1e9
    return 0.0, 0.0


@pytest.mark.long
def test_after_kill_9_of_everything_a_start_waits_for_nothing_but_its_own_work(
    made: Path, tmp_path: Path
) -> None:
    """No lease, lock, port or pid file of the killed ones, PostgreSQL's included, is waited for:
    until `/healthz` answers, some process on the way to it runs or wants to. (On a quiet machine
    that is the time to import what the API is made of, some five seconds.)"""
    state = copied(made, tmp_path / "a state")
    with started(state, DISCREET_WORKERS="0") as service:
        service.await_ready()
        port, killed = service.port, family(service.process.pid)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        service.process.wait()
        until(lambda: not any(alive(pid) for pid in killed))
    began = time.monotonic()
    with started(state, "--port", str(port), DISCREET_WORKERS="0") as again:

        def healthy() -> bool:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
            with suppress(OSError, http.client.HTTPException), closing(connection):
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            return False

        until(healthy)
        took = time.monotonic() - began
        way = [again.process.pid, again.template, again.part("postgres"), again.part("api")]
        assert 0 not in way
        worked, wanted = (sum(seconds) for seconds in zip(*map(ran, way), strict=True))
        assert took - wanted < 5, "it waited"
        assert worked < 15  # 5 to 7 here; more where a busy machine shares its cores and caches
        log = (state / "logs" / "postgres.log").read_text()
        assert "automatic recovery in progress" in log  # it was killed, and not stopped


@pytest.mark.parametrize("number", first_of([signal.SIGTERM, signal.SIGINT]))
def test_asked_to_stop_while_it_starts(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path / "state") as service:
        until(
            lambda: (
                (tmp_path / "state" / "lock").exists() and (tmp_path / "state" / "lock").read_text()
            )
        )
        processes = family(service.process.pid)
        service.process.send_signal(number)
        _, errors = service.process.communicate(timeout=DEADLINE_SECONDS)
        assert service.process.returncode == 0, errors
        assert not any(alive(pid) for pid in processes)
    with EmbeddedPostgres(tmp_path / "state"):
        pass


@pytest.mark.long
def test_part_that_never_starts_ends_the_attempt(made: Path, tmp_path: Path) -> None:
    state = copied(made, tmp_path / "state")
    wrong = {"DISCREET_RPC_CERTIFICATE": str(tmp_path / "none.pem"), "DISCREET_RPC_TLS": "always"}
    assert "does not start (status" in refused(state, **wrong)
    (state / "owner.key").unlink()
    (state / "keys.draft").write_text("{")
    assert "bootstrap failed with status 1" in refused(state)
    (state / "secrets.json").write_text("{}")
    assert "secrets.json" in refused(state)
    StateLock(state).acquire()  # nothing is left, not even the lock


@pytest.mark.long
def test_database_of_ones_own(postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    with fresh_database(postgres, None) as database:
        more = {
            "DISCREET_DATABASE_URL": database.app_url,
            "DISCREET_MIGRATION_DATABASE_URL": database.owner_url,
            "DISCREET_WORKERS": "2",
        }
        with started(tmp_path / "state", **more) as service:
            service.await_ready()
            workers = [pid for pid in family(service.process.pid) if "worker" in command(pid)]
            assert len(workers) == 2
            assert not (tmp_path / "state" / "postgres").exists()
            assert service.part("postgres") == 0
            if os.geteuid() == 0:  # parts close their memory to their own user
                words = {"known": database.app_url.encode(), "owner": database.owner_url.encode()}
                assert remembered(workers[0], words) == {"known"}
            service.process.send_signal(signal.SIGTERM)
            service.process.communicate(timeout=DEADLINE_SECONDS)
            assert service.process.returncode == 0
    line = refused(tmp_path / "state", DISCREET_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert "migrate failed" in line


def test_embedded_database_for_one_program(tmp_path: Path) -> None:
    settings = Settings(
        state=tmp_path / "state", database_url=None, migration_database_url=None, secrets_file=None
    )
    for _ in range(2):
        with prepared.embedded(settings) as ready:
            assert ready.state == settings.state
            assert ready.secrets_path.exists()
            assert ready.database_url is not None
            with psycopg.connect(ready.database_url) as connection:
                assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("CREATE TABLE mine (x int)")
            with (
                pytest.raises(StateHeld, match=f"process {os.getpid()}"),
                prepared.embedded(settings),
            ):
                pass


@pytest.mark.long
def test_up_for_a_demonstration(made: Path, tmp_path: Path) -> None:
    settings = Settings(state=copied(made, tmp_path / "state"), workers=0)
    with prepared.running(settings) as ready:
        assert alive(ready["pid"])
        connection = http.client.HTTPConnection(
            ready["api"].removeprefix("http://"), timeout=DEADLINE_SECONDS
        )
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == 200
        connection.close()
    assert not alive(ready["pid"])


# -- the pieces ------------------------------------------------------------------------------------


def test_pauses_double_up_to_a_limit_and_are_forgotten() -> None:
    pause, now, waits = parts.Pause(), 1000.0, []
    for _ in range(8):
        pause.started(now)
        now += 1.0
        pause.ended(now)
        waits.append(round(pause.until - now, 6))
        now = pause.until
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    pause.started(now)
    now += parts.SETTLED_SECONDS
    pause.ended(now)
    assert pause.until - now == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("no such host", 0, "'no such host' is not an address"),
        ("192.0.2.1", 0, "cannot listen on port 0 of 192.0.2.1"),
        ("127.0.0.1", 70000, "70000 is not a port"),
    ],
)
def test_bad_addresses(tmp_path: Path, host: str, port: int, message: str) -> None:
    assert message in refused(tmp_path / "state", "--host", host, "--port", str(port))


@pytest.mark.parametrize(
    ("host", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("127.0.0.1", "127.0.0.1")],
)
def test_wildcard_addresses_are_reached_on_loopback(host: str, reached: str) -> None:
    assert ports.reachable(host) == reached


def test_children_get_exactly_these_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DISCREET_MIGRATION_DATABASE_URL", "postgresql://owner:secret@/x")
    monkeypatch.setenv("DISCREET_WORKERS", "7")
    settings = Settings(state=tmp_path, migration_database_url=None, workers=3, lease_seconds=2.5)
    given = prepared.environment_of(settings)
    assert "DISCREET_MIGRATION_DATABASE_URL" not in given
    for name in list(os.environ):
        if name.startswith("DISCREET_"):
            monkeypatch.delenv(name)
    for name, value in given.items():
        if name.startswith("DISCREET_"):
            monkeypatch.setenv(name, value)
    assert Settings() == settings.model_copy(update={"secrets_file": tmp_path / "secrets.json"})


def test_kernels_are_cached_in_the_state_where_the_package_is_read_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    for writable, cache in ((True, None), (False, str(tmp_path / "cache"))):
        monkeypatch.setattr(os, "access", lambda _path, _mode, answer=writable: answer)
        assert prepared.environment_of(Settings(state=tmp_path)).get("NUMBA_CACHE_DIR") == cache


def test_state_in_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = refused(tmp_path / "file" / "state")
    assert "cannot make the folder" in line


@pytest.mark.long
def test_parts_that_are_alive_and_silent_are_replaced(service: Service) -> None:
    """API, rpc and worker are stopped while there is a job to do; it is done once."""
    key = (service.state / "owner.key").read_text().strip()
    names = ("api", "rpc", "worker")
    with Client(f"http://127.0.0.1:{service.port}", key) as client:
        job = client.submit(bodies.job(client.register(bodies.dataset())["id"]))["id"]
        before = {name: service.part(name) for name in names}
        for pid in before.values():
            os.kill(pid, signal.SIGSTOP)
        until(lambda: all(service.part(name) not in (0, before[name]) for name in names))
        assert not any(alive(pid) for pid in before.values())
        until(lambda: service.get("/readyz") == 200)
        until(lambda: client.job(job)["finished_at"] is not None)
        assert client.job(job)["state"] == "succeeded"
    for name in ("api", "rpc", "worker-1"):
        assert (
            "discreet up: ended, 3 probes in a row failed"
            in (service.state / "logs" / f"{name}.log").read_text()
        )


def test_silence_counts_from_the_first_answer_whoever_asked() -> None:
    class Silent:
        sockets: ClassVar[list[Any]] = []

        def ask(self, path: str) -> tuple[int, str]:
            return 0, ""

        def close(self) -> None: ...

    def found(pulse: parts.Pulse) -> list[str | None]:
        return [pulse.lost(parts.PULSE_SECONDS * count) for count in (1, 2, 3)]

    pulse = parts.Pulse(Silent())  # type: ignore[arg-type]
    pulse.started(0)
    assert found(pulse) == [None, None, None]
    pulse.started(0)
    pulse.heard()  # by who waited for it to be ready
    assert found(pulse) == [None, None, "3 probes in a row failed: it gave no answer"]
