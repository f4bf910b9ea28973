"""A process that tells Dask's scheduler of one release, and withdraws its tasks when standard input
ends: `python -m discreet.worker.cluster.client JSON`.

Dask's clients unpickle what a scheduler sends, which is to run it. So before it connects this
process gives up what it does not need: it has no settings and no secrets, opens no file but code
and its certificate, connects to the scheduler's port alone, starts no process, and nobody believes
it (`asking`). Where the kernel cannot hold it to that it does not connect.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from discreet.isolation.processes import ends_with_parent
from discreet.isolation.sandbox import keep_to
from discreet.worker.cluster.task import help_with

CONNECT_SECONDS = 30.0
LOOK_SECONDS = 1.0
GOODBYE_SECONDS = 5.0
MEMORY_BYTES = 8 << 30
NAMES = [Path("/etc") / name for name in ("hosts", "resolv.conf", "nsswitch.conf", "gai.conf")]
"""What the resolver of names reads."""


async def ask(asked: dict[str, Any]) -> None:
    """Send the tasks of `asked`, and withdraw them when standard input ends."""
    from distributed import Client  # noqa: PLC0415
    from distributed.security import Security  # noqa: PLC0415

    security = None
    if asked["files"]:
        authority, certificate, key = asked["files"]
        security = Security(
            tls_ca_file=authority,
            tls_client_cert=certificate,
            tls_client_key=key,
            require_encryption=True,
        )
    ended = asyncio.create_task(_input_ends())
    async with contextlib.AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(
                Client(
                    asked["address"],
                    security=security,
                    asynchronous=True,
                    set_as_default=False,
                    timeout=CONNECT_SECONDS,
                )
            )
            # A cluster that grows with its tasks may have no node yet.
            cores = sum((await client.nthreads()).values())
        except Exception:
            _tell("away")
            return
        tasks = [
            client.submit(
                help_with,
                *(asked["job"], asked["attempt"], asked["version"]),
                key=f"discreet-help-{asked['job']}-{asked['attempt']}-{number}",
                pure=False,
            )
            for number in range(max(1, min(asked["most"], cores)))
        ]
        _tell(str(len(tasks)))
        refused = False
        while not (await asyncio.wait({ended}, timeout=LOOK_SECONDS))[0]:
            if not refused and any(task.status == "error" for task in tasks):
                refused = True
                _tell("refused")
        with contextlib.suppress(Exception):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await client.cancel(tasks)


def _tell(word: str) -> None:
    print(word, flush=True)


async def _input_ends() -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(0, ended.set)  # nobody writes to it: it is readable when it ends
    await ended.wait()
    loop.remove_reader(0)


def main(asked: dict[str, Any], parent: int) -> None:
    """Ask, inside the walls; says `open` where there are none."""
    import signal  # noqa: PLC0415

    if not ends_with_parent(signal.SIGKILL, parent):
        return
    import distributed.comm.tcp  # noqa: F401, PLC0415 - before files cannot be opened any more

    port = int(asked["address"].rpartition(":")[2])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if not keep_to([*NAMES, *map(Path, asked["files"])], port):
        _tell("open")
        return
    asyncio.run(ask(asked))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), os.getppid())
