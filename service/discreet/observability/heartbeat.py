"""Heartbeats of a process's event loop, for systemd (sd_notify) and for a timer of its own.

The heartbeat is a task of the loop that answers requests. If that loop is blocked, no heartbeat
comes and the process is ended: by systemd after `WatchdogSec=`, or by itself after
DISCREET_WATCHDOG_SECONDS, where nothing else would do it (Docker does not restart an unhealthy
container). Either way the stack of every thread is written to the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import socket
from collections.abc import AsyncIterator

LONGEST_PAUSE = 5.0


def notify(message: str) -> None:
    """Notify systemd, if it started this process and asked for it (sd_notify(3)): one datagram to
    the socket that NOTIFY_SOCKET names."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    place = "\0" + address[1:] if address.startswith("@") else address  # an abstract socket
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(message.encode(), place)


@contextlib.asynccontextmanager
async def beating(watchdog_seconds: float | None) -> AsyncIterator[None]:
    """Report that this process is ready, then send heartbeats from its loop until the block ends.
    After `watchdog_seconds` without one the process ends with status 1."""
    notify("READY=1")
    beats = asyncio.create_task(_beat(watchdog_seconds))
    try:
        yield
    finally:
        notify("STOPPING=1")
        beats.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beats


async def _beat(watchdog_seconds: float | None) -> None:
    limits = [float(os.environ.get("WATCHDOG_USEC", "0")) / 1e6, watchdog_seconds or 0.0]
    pause = min([LONGEST_PAUSE, *(limit / 4 for limit in limits if limit > 0)])
    try:
        while True:
            notify("WATCHDOG=1")
            if watchdog_seconds is not None:
                # A thread in C, which works even while the interpreter itself is blocked.
                faulthandler.dump_traceback_later(watchdog_seconds, exit=True)
            await asyncio.sleep(pause)
    finally:
        if watchdog_seconds is not None:
            faulthandler.cancel_dump_traceback_later()
