"""Returns to the system the memory that a part needed only to start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from discreet.isolation.processes import give_pages_back

SETTLED_SECONDS = 2.0
"""Seconds after a part is ready: its supervisor has asked for its health by then, and its
connections are open."""


@contextlib.asynccontextmanager
async def settling() -> AsyncIterator[None]:
    """While a part runs: return pages of programs and libraries once. This holds the event loop for
    40 ms, so that meanwhile no library is loaded where another was unloaded."""
    later = asyncio.get_running_loop().call_later(SETTLED_SECONDS, give_pages_back)
    try:
        yield
    finally:
        later.cancel()
