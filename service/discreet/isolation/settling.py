"""A part that has started gives back what it took to start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from discreet.isolation.processes import give_pages_back

SETTLED_SECONDS = 2.0
"""After a part is ready: its supervisor has asked it for its health by then, and it has opened its
connections."""


@contextlib.asynccontextmanager
async def settling() -> AsyncIterator[None]:
    """While a part runs: give pages of programs and libraries back once. It takes the loop 40 ms,
    in which no library can be loaded where one was unloaded."""
    later = asyncio.get_running_loop().call_later(SETTLED_SECONDS, give_pages_back)
    try:
        yield
    finally:
        later.cancel()
