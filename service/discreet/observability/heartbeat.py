"""A process that says that its event loop turns: to systemd (sd_notify), and to a timer of its own.

The beat is a task of the loop that answers requests. Where that loop is blocked no beat comes, and
whoever waits for it ends the process: systemd after `WatchdogSec=`, the process itself after
DISCREET_WATCHDOG_SECONDS, for places where nobody else would (a container that is unhealthy is not
started again by Docker). Both write to the log where every thread stood.
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
    """Tell systemd, where it asked for it (sd_notify(3)): one datagram to the socket named by
    NOTIFY_SOCKET."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    place = "\0" + address[1:] if address.startswith("@") else address  # an abstract socket
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(message.encode(), place)


@contextlib.asynccontextmanager
async def beating(watchdog_seconds: float | None) -> AsyncIterator[None]:
    """Say that this process is ready, then beat from its loop until the block ends;
    `watchdog_seconds` without a beat end the process with status 1."""
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
                # A thread of C, which does not need the interpreter that may be what is blocked.
                faulthandler.dump_traceback_later(watchdog_seconds, exit=True)
            await asyncio.sleep(pause)
    finally:
        if watchdog_seconds is not None:
            faulthandler.cancel_dump_traceback_later()
