"""Helpers on the nodes of a Dask cluster (`DISCREET_CLUSTER`): the bits of one process, whatever
becomes of the cluster, and what of a job the cluster is told: its name."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.isolation.children import Zygote
from discreet.isolation.processes import dies_with_parent
from discreet.isolation.sandbox import _landlock
from discreet.settings import Settings
from discreet.storage.tenants import Principal
from discreet.usecases import shares
from discreet.usecases.services import Services
from discreet.worker.cluster import asking, task
from discreet.worker.runner import Runner
from tests.conftest import eventually
from tests.processes import alive, family
from tests.reliability.test_parts import (
    Leader,
    Work,
    offered,
    released,
    seeded,
    settings,
    small_parts,
    stored_shares,
    trips_of_persons,
    with_children,
)
from tests.rpc.test_breaks import Authority
from tests.test_backup import register

__all__ = ["offered", "settings", "small_parts", "with_children"]

pytest.importorskip("distributed", reason="needs the extra `cluster`: nothing of Dask is tested")

ROOT = Path(__file__).resolve().parents[2]
JOB = "job_" + 26 * "0"


class Cluster:
    """A scheduler and nodes of one core each, which speak TLS with certificates of `authority`."""

    def __init__(self, folder: Path, settings: Settings, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        folder.mkdir()
        self.authority = Authority(folder / "ca", "cluster")
        self.files = (self.authority.path, *self.authority.issue("member"))
        self.record, self.faults = folder / "record", folder / "faults"
        self.faults.touch()
        self._environment = {
            **{name: value for name, value in os.environ.items() if name[:8] != "DISCREET"},
            "PYTHONPATH": str(ROOT),
            "RECORD": str(self.record),
            "FAULTS": str(self.faults),
            "DISCREET_DATABASE_URL": str(settings.database_url),
            "DISCREET_STATE": str(settings.state),
            "DISCREET_SPOOL": str(settings.spool),
            task.COMMAND: shlex.join([sys.executable, "-m", "tests.reliability.helper_program"]),
        }
        preload = ("--preload", "tests.reliability.scheduler_record")
        place = ("--host", "tls://127.0.0.1", "--port", "0")
        self.scheduler = self._start("scheduler", *place, "--no-show", *preload)
        eventually((folder / "place").exists, "the scheduler listens")
        self.address = json.loads((folder / "place").read_text())["address"]
        self.nodes = [self._start("worker", "--no-nanny", "--nthreads", "1") for _ in range(2)]

    def _start(self, part: str, *arguments: str) -> subprocess.Popen[bytes]:
        names = ("--tls-ca-file", "--tls-cert", "--tls-key")
        tls = [word for pair in zip(names, map(str, self.files), strict=True) for word in pair]
        command = [sys.executable, "-m", f"distributed.cli.dask_{part}", *arguments, *tls]
        command += ["--no-dashboard", "--scheduler-file", str(self._folder / "place")]
        if part == "worker":
            command += ["--local-directory", str(self._folder)]
        started = subprocess.Popen(
            command,
            env=self._environment,
            cwd=self._folder,
            preexec_fn=dies_with_parent(signal.SIGKILL),  # noqa: PLW1509
        )
        self._stack.callback(started.wait)
        self._stack.callback(started.kill)
        return started

    def settings(self, settings: Settings, **other: Any) -> Settings:
        authority, certificate, key = self.files
        values = {
            "cluster": self.address,
            "cluster_authority": authority,
            "cluster_certificate": certificate,
            "cluster_certificate_key": key,
            "share_processes": 1,
        }
        return settings.model_copy(update=values | other)

    def recorded(self, job: str) -> list[dict[str, Any]]:
        if not self.record.exists():
            return []
        lines = map(json.loads, self.record.read_text().splitlines())
        return [line for line in lines if job in line["task"]]

    def ended(self, job: str) -> int:
        """How many of the job's tasks have come to their own end."""
        return sum(line["from"] == "processing" for line in self.recorded(job))

    def helpers(self) -> list[int]:
        """Processes that the nodes have started."""
        return [pid for node in self.nodes for pid in family(node.pid)[1:]]


@pytest.fixture
def cluster(tmp_path: Path, settings: Settings) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path / "cluster", settings, stack)


@pytest.mark.long
def test_one_result_whatever_becomes_of_the_cluster(
    settings: Settings,
    offered: None,
    with_children: Callable[[Settings, Work], None],
    cluster: Cluster,
) -> None:
    """Its nodes read all shares; a stranger's certificate is refused, so one process reads all; a
    node and the scheduler are killed amid shares; there is no scheduler."""
    body, digests, jobs = trips_of_persons(mode="simulation"), set(), list[str]()

    async def until(condition: Callable[[], object], why: str) -> None:
        await asyncio.to_thread(eventually, condition, why)

    async def start(
        patch: pytest.MonkeyPatch, services: Services, owner: Principal, zygote: Zygote
    ) -> Leader:
        dataset = await register(services, owner, body)
        jobs.append(await seeded(services, owner, body, dataset))
        leader = Leader(patch, Runner(services, zygote), jobs[-1])
        await leader.has_offered()
        return leader

    async def all_elsewhere(services: Services, owner: Principal, zygote: Zygote) -> None:
        with pytest.MonkeyPatch.context() as patch:
            leader = await start(patch, services, owner, zygote)
            read = partial(all_read, settings)
            await until(read, "nodes read all shares")
            # Though they have nothing left to do.
            assert cluster.ended(jobs[-1]) == 0
            assert await leader.ends() == {"elsewhere": shares.SHARES}
        digests.add(await released(services, jobs[-1]))
        await until(lambda: cluster.ended(jobs[-1]) == 2, "tasks end when the release is over")
        await until(lambda: cluster.helpers() == [], "and so do helpers")
        sent = [line for line in cluster.recorded(jobs[-1]) if "runs" in line]
        assert [line["arguments"] for line in sent] == 2 * [[jobs[-1], 1, shares.VERSION]]
        assert {line["runs"] for line in sent} == {"discreet.worker.cluster.task.help_with"}
        assert all(line["named"] == line["annotations"] == {} for line in sent)
        assert all(line["bytes"] < 300 for line in sent)
        results = {line["result"] for line in cluster.recorded(jobs[-1]) if "result" in line}
        assert results <= {"NoneType"}

    async def refused(services: Services, owner: Principal, zygote: Zygote) -> None:
        with pytest.MonkeyPatch.context() as patch:
            before = answers("away")
            leader = await start(patch, services, owner, zygote)
            await until(lambda: answers("away") > before, "it does not get in")
            assert await leader.ends() == {"here": shares.SHARES}
        digests.add(await released(services, jobs[-1]))
        assert cluster.recorded(jobs[-1]) == []

    async def killed(services: Services, owner: Principal, zygote: Zygote) -> None:
        cluster.faults.write_text("part_sums wall")
        with pytest.MonkeyPatch.context() as patch:
            leader = await start(patch, services, owner, zygote)
            await until(lambda: len(taken(settings)) == 2, "both nodes read")
            first, second = (family(node.pid) for node in cluster.nodes)
            assert min(len(first), len(second)) > 2
            cluster.nodes[0].kill()
            await until(lambda: not any(map(alive, first)), "what it had started has ended")
            cluster.scheduler.kill()
            assert await leader.ends() == {"here": shares.SHARES}
        await until(lambda: not any(map(alive, second[2:])), "a helper ends amid its share")
        digests.add(await released(services, jobs[-1]))

    async def gone(services: Services, owner: Principal, zygote: Zygote) -> None:
        with pytest.MonkeyPatch.context() as patch:
            leader = await start(patch, services, owner, zygote)
            assert await leader.ends() == {"here": shares.SHARES}
        digests.add(await released(services, jobs[-1]))

    asked = cluster.settings(settings)
    with_children(asked, all_elsewhere)
    stranger = Authority(settings.state / "stranger", "stranger")
    certificate, key = stranger.issue("a-stranger")
    names = ("cluster_authority", "cluster_certificate", "cluster_certificate_key")
    files = dict(zip(names, (stranger.path, certificate, key), strict=True))
    with_children(cluster.settings(settings, **files), refused)
    with_children(asked, killed)
    with_children(asked, gone)
    assert len(jobs) == 4
    assert len({digest.split()[0] for digest in digests}) == 1


def all_read(settings: Settings) -> bool:
    found = stored_shares(settings)
    return len(found) == shares.SHARES and all(row[3] is not None for row in found)


def taken(settings: Settings) -> list[int]:
    """Who has taken shares."""
    return [row[2] for row in stored_shares(settings) if row[2] is not None]


def answers(word: str) -> float:
    return asking._asked.labels(word)._value.get()


def test_a_node_refuses_what_is_no_job_and_other_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started. A helper that does not run is told to Dask as a failure."""
    started = tmp_path / "started"
    monkeypatch.setenv(task.COMMAND, shlex.join(["touch", str(started)]))
    for job, attempt, version in (
        ("--state=/", 1, shares.VERSION),
        (JOB + "\n", 1, shares.VERSION),
        (JOB, 0, shares.VERSION),
        (JOB, "1", shares.VERSION),
        (JOB, 1, "0.0.1"),
    ):
        with pytest.raises(ValueError, match=r"this is no attempt|whoever asks has 0\.0\.1"):
            task.help_with(job, attempt, version)  # type: ignore[arg-type]
    assert not started.exists()
    monkeypatch.chdir(tmp_path)
    task.help_with(JOB, 1, shares.VERSION)
    assert started.exists()
    assert (tmp_path / JOB).exists()
    monkeypatch.setenv(task.COMMAND, "false")
    with pytest.raises(RuntimeError):
        task.help_with(JOB, 1, shares.VERSION)


def test_a_cluster_needs_tls_and_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the clear it is on this machine."""
    for address in (
        *("tcp://10.0.0.1:8786", "tcp://localhost:8786", "tcp://127.0.0.1.example.org:8786"),
        *("tls://scheduler", "ucx://127.0.0.1:8786", "tls://user@scheduler:8786", "127.0.0.1:8786"),
    ):
        with pytest.raises(ValidationError):
            Settings(cluster=address)
    asking.Cluster(Settings(cluster="tcp://127.0.0.1:8786"))
    asking.Cluster(Settings(cluster="tcp://[::1]:8786"))
    with pytest.raises(InvalidInput, match="DISCREET_CLUSTER_AUTHORITY"):
        asking.Cluster(Settings(cluster="tls://scheduler:8786"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match="the extra `cluster`"):
        asking.Cluster(Settings(cluster="tcp://127.0.0.1:8786"))


@pytest.mark.long
def test_what_a_scheduler_runs_in_a_client_reaches_nothing(tmp_path: Path) -> None:
    """Neither files, nor named sockets, nor other ports, also not by MPTCP or a first message that
    connects, which Landlock does not see; it starts no process that would outlive it. Nor the
    worker, as far as this kernel's Landlock knows it. The port and files that it needs it does
    reach, and it has threads."""
    rules, version = _landlock([])
    if rules < 0:
        pytest.skip("this kernel has no Landlock, so clients of Dask are not run")
    os.close(rules)
    secret, allowed = tmp_path / "secrets.json", tmp_path / "authority.pem"
    secret.write_text("{}")
    allowed.write_text("certificate")
    program = f"""
import os, signal, socket, threading
from pathlib import Path
from discreet.isolation.sandbox import keep_to
AROUND = socket.SOCK_STREAM, 262  # IPPROTO_MPTCP
open_port, other = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
port = open_port.getsockname()[1]
named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
named.bind({str(tmp_path / "named")!r})
assert keep_to([Path({str(allowed)!r})], port)
import colorsys  # code that comes later
def tried(step):
    try:
        step()
    except OSError as error:
        return type(error).__name__
    return "done"
connect = lambda place: socket.create_connection(("127.0.0.1", place.getsockname()[1]))
def fork():
    if os.fork() == 0:
        os._exit(0)
def thread():
    other_thread = threading.Thread(target=os.getpid)
    other_thread.start()
    other_thread.join()
print([tried(step) for step in (
    lambda: Path({str(allowed)!r}).read_text(), lambda: connect(open_port), thread,
    lambda: socket.socketpair(), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    lambda: Path({str(secret)!r}).read_text(), lambda: Path({str(secret)!r}).write_text(""),
    lambda: Path("/proc/%d/environ" % os.getppid()).read_bytes(), lambda: os.listdir("/"),
    fork, lambda: os.execv("/bin/true", ["true"]), lambda: socket.socket(socket.AF_UNIX),
    lambda: socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b"", named.getsockname()),
    lambda: socket.socket(socket.AF_INET, *AROUND).connect(other.getsockname()),
    lambda: socket.socket().sendto(b"", socket.MSG_FASTOPEN, other.getsockname()),
    lambda: socket.socket().sendmsg([b""], [], socket.MSG_FASTOPEN, other.getsockname()),
    lambda: connect(other), lambda: os.kill(os.getppid(), 0),
)])
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    refused = 11 * ["PermissionError"]
    refused += ["PermissionError" if version >= since else "done" for since in (4, 6)]
    assert found.stdout.strip() == str([*(5 * ["done"]), *refused])
