"""Every process of the service reports itself for operators: that it runs, its version, and the
isolation of its children."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Literal

import structlog

from discreet.isolation.children import Zygote
from discreet.storage import operations
from discreet.storage.database import SYSTEM
from discreet.storage.schema import revisions
from discreet.usecases.services import Services

log = structlog.get_logger()

Part = Literal["api", "rpc", "worker"]

EVERY_SECONDS = 10.0
GOODBYE_SECONDS = 2.0
"""How long a process that ends waits for the database."""


@asynccontextmanager
async def present(
    services: Services,
    part: Part,
    children: Zygote,
    *,
    places: int | None = None,
    queue_worker: Callable[[], int | None] = lambda: None,
) -> AsyncIterator[None]:
    """Report this process while the block runs, and remove it from the list afterwards. `children`:
    the fork server whose isolation is reported; for a worker `places` is how many jobs it runs at
    once, and `queue_worker` its number in the queue."""
    process = f"prc_{secrets.token_hex(16)}"
    about = {
        "part": part,
        "host": socket.gethostname(),
        "version": version("discreet"),
        "schema": revisions()[-1],
        "places": places,
    }
    task = asyncio.create_task(_say(services, process, about, children, queue_worker))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with contextlib.suppress(Exception):
            async with (
                asyncio.timeout(GOODBYE_SECONDS),
                services.database.transaction(SYSTEM) as connection,
            ):
                await operations.gone(connection, process)


async def _say(
    services: Services,
    process: str,
    about: dict[str, Any],
    children: Zygote,
    queue_worker: Callable[[], int | None],
) -> None:
    last: object = None
    pause = 0.0
    while True:
        isolation = children.isolation
        number = queue_worker()
        # What becomes known only some seconds after the start is reported at once, not ten seconds
        # later.
        if (number, isolation) != last or pause >= EVERY_SECONDS:
            walls = (
                (None, None, None)
                if isolation is None
                else (isolation.level, list(isolation.reached), list(isolation.walls))
            )
            said = {
                **about,
                "queue_worker": number,
                **dict(zip(("isolation", "reached", "walls"), walls, strict=True)),
            }
            try:
                async with services.database.transaction(SYSTEM) as connection:
                    await operations.say(connection, process, said)
            except Exception as error:
                log.warning("process not reported", error=type(error).__name__)
            last, pause = (number, isolation), 0.0
        await asyncio.sleep(1.0)
        pause += 1.0
