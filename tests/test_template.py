"""The template of parts when it dies, or is given no process, while it forks one."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.installation import template
from discreet.installation.state import LogFile

SMALL = """
import importlib, os, sys
from discreet.installation import template

class Dying(template.socket.socket):
    def sendall(self, answer):  # between the fork and the word of it
        open("forked", "wb").write(answer)
        os.kill(os.getpid(), 9)

fork = os.fork

def no_process():
    if os.getpid() == first:
        return fork()
    raise BlockingIOError

first = os.getpid()
template.GROUND, template.PROGRAM = (), "part"
if "dying" in os.environ:
    template.socket.socket = Dying
if "poor" in os.environ:
    os.fork = no_process
importlib.import_module("part").run(template.main(sys.argv[1:]))
"""
PART = """
import os, sys
def program():
    pass

def run(arguments):
    open("ran", "w").write(" ".join([*arguments, *os.environ]))
    for number in arguments[1:]:
        os.write(int(number), b"inherited")
    os._exit(int(arguments[0]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small.py").write_text(SMALL)
    (tmp_path / "part.py").write_text(PART)
    monkeypatch.setattr(template, "__name__", "small")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(folder: Path) -> LogFile:
    return LogFile(folder / "template.log")


def started(folder: Path, log: LogFile, fault: str) -> template.Template:
    return template.Template({**os.environ, "PYTHONPATH": str(folder), fault: "1"}, log)


@pytest.fixture
def output(log: LogFile) -> Iterator[int]:
    descriptor = log.open()
    yield descriptor
    os.close(descriptor)


def test_a_part_gets_its_order_through_a_pipe_whatever_its_size(
    folder: Path, log: LogFile, output: int
) -> None:
    forking = started(folder, log, "sound")
    read, write = os.pipe()
    try:
        forked = forking.fork(
            ["7", str(write)], {"LARGE": "x" * 100_000, "SMALL": "y"}, output, [write]
        )
        assert forked is not None
        assert forked.wait() == 7
        assert (folder / "ran").read_text() == f"7 {write} LARGE SMALL"
        assert os.read(read, 64) == b"inherited"
    finally:
        forking.stop()
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("lowest", [3, 11, 255, 256, 257, 258, 259])
def test_a_part_gets_its_files_under_whatever_numbers_they_have(
    folder: Path, log: LogFile, output: int, lowest: int
) -> None:
    """One number of a supervisor with many files was that at which another one waited, and was
    closed."""
    forking = started(folder, log, "sound")
    read, write = os.pipe()
    forking.start()
    numbers = [fcntl.fcntl(write, fcntl.F_DUPFD, lowest + i) for i in range(4)]
    try:
        forked = forking.fork(["0", *map(str, numbers)], {}, output, numbers)
        assert forked is not None
        assert forked.wait() == 0
        assert os.read(read, 64) == b"inherited" * 4
    finally:
        forking.stop()
        for one in (read, write, *numbers):
            os.close(one)


def test_a_part_that_nobody_was_told_of_never_begins(
    folder: Path, log: LogFile, output: int
) -> None:
    """Nobody would watch it, or end it, and a second one is started in its place."""
    forking = started(folder, log, "dying")
    assert forking.fork(["0"], {}, output, []) is None
    _, status = os.waitpid(json.loads((folder / "forked").read_bytes()), 0)
    assert os.waitstatus_to_exitcode(status) == 127
    assert not (folder / "ran").exists()


def test_a_template_without_a_process_for_a_part_says_so_at_once(
    folder: Path, log: LogFile, output: int
) -> None:
    assert started(folder, log, "poor").fork(["0"], {}, output, []) is None
    assert "the machine could not start a process" in (folder / "template.log").read_text()


def test_a_part_that_ends_before_its_order_has_come_is_one_that_ended(
    folder: Path, log: LogFile, output: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    forking = started(folder, log, "sound")

    class Killed(template.Forked):
        def __init__(self, pid: int) -> None:
            super().__init__(pid)
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            forking.stop()  # which holds the other end of the order for a moment

    monkeypatch.setattr(template, "Forked", Killed)
    forked = forking.fork(["0"], {}, output, [])
    assert forked is not None
    assert forked.poll() == -signal.SIGKILL
