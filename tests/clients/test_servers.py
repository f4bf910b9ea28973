"""Which server a program finds: one that still starts is told from one that is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.installation.state import StateLock
from discreet_client import servers
from discreet_client.errors import Unreachable
from tests.processes import until

ADDRESS = "http://127.0.0.1:8299"


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateLock]:
    """A state folder as `discreet up` holds it from its first moment on."""
    monkeypatch.delenv("DISCREET_URL", raising=False)
    monkeypatch.delenv("DISCREET_KEY", raising=False)
    with StateLock(tmp_path) as lock:
        lock.announce(ADDRESS)
        yield lock


def be_ready(state: Path) -> None:
    (state / "owner.key").write_text("a key")
    (state / "ready.json").write_text(json.dumps({"api": ADDRESS, "pid": os.getpid()}))


def test_a_server_that_starts_is_told_from_none(held: StateLock, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="is still starting: wait until it says that it is ready"):
        servers.found(None, None, tmp_path)
    be_ready(tmp_path)
    assert servers.found(None, None, tmp_path) == (ADDRESS, "a key")
    assert not servers.starting(tmp_path)
    (tmp_path / "ready.json").unlink()
    held.release()
    with pytest.raises(Unreachable, match="no server: set DISCREET_URL"):
        servers.found(None, None, tmp_path)


def test_a_folder_that_serves_no_requests_is_not_waited_for(tmp_path: Path) -> None:
    with StateLock(tmp_path):  # `discreet solve` holds it, and answers nowhere
        servers.await_ready(tmp_path, 60, lambda: pytest.fail("there is nothing to wait for"))


def test_it_is_waited_for_until_it_is_ready_or_ends(held: StateLock, tmp_path: Path) -> None:
    told = list[str]()

    def waits(then: threading.Timer) -> None:
        then.start()
        servers.await_ready(tmp_path, 60, lambda: told.append("waits"))
        assert not then.is_alive() or not servers.starting(tmp_path)
        then.join()

    waits(threading.Timer(0.3, be_ready, [tmp_path]))
    assert servers.running(tmp_path) == ADDRESS
    (tmp_path / "ready.json").unlink()
    waits(threading.Timer(0.3, held.release))
    assert servers.running(tmp_path) is None
    assert told == ["waits"] * 2


def test_it_is_not_waited_for_longer_than_was_said(held: StateLock, tmp_path: Path) -> None:
    servers.await_ready(tmp_path, 0.1, lambda: None)
    assert servers.starting(tmp_path)


def test_a_command_waits_and_says_so(held: StateLock, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "discreet", "dataset", "list", "--state", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "is still starting" in process.stderr.readline()
        assert process.poll() is None
        held.release()
        _, error = process.communicate()
    assert "no server: set DISCREET_URL" in error
    until(lambda: process.returncode == 1)
