"""A program that decides who waits for budget, again and again, each time in a child that is killed
at the n-th point it comes to: after each statement, and wherever the code names one.

Reads n, a line each, and answers `killed`, or `done` where the child came to its end before.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from discreet.observability import faults
from discreet.settings import Settings
from discreet.usecases import waiting
from discreet.usecases.services import open_services


async def decide() -> None:
    async with open_services(Settings()) as services:
        await waiting.decide(services)


def die_at(number: int) -> None:
    """Let this process be killed at its n-th point."""
    left = [number]

    def point(name: str) -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.planned, faults.point = True, point


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os.dup2(2, 1)  # what it logs is no answer
            die_at(int(line))
            asyncio.run(decide())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, status
        print("killed" if killed else "done", flush=True)


if __name__ == "__main__":
    main()
