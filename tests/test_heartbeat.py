"""The beat of an event loop: what systemd hears, and what a blocked process does to itself."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.observability.heartbeat import beating

BLOCKED = """
import asyncio, time
from discreet.observability.heartbeat import beating

async def go():
    async with beating(0.2):
        await asyncio.sleep(1)  # five beats
        print("alive", flush=True)
        time.sleep(600)

asyncio.run(go())
"""


def test_systemd_hears_ready_beats_and_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "40000")

        async def go() -> list[bytes]:
            async with beating(None):
                return [await asyncio.to_thread(listener.recv, 100) for _ in range(4)]

        assert asyncio.run(go()) == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"]
        said = listener.recv(100)
        while said == b"WATCHDOG=1":
            said = listener.recv(100)
        assert said == b"STOPPING=1"


def test_a_blocked_loop_ends_its_process_and_says_where_it_stood() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 1
    assert done.stdout == "alive\n"
    assert 'File "<string>", line 9 in go' in done.stderr
