"""The worker's side: it has the cluster told of a release whose shares are open.

A client of Dask runs whatever the scheduler sends it, so this process is none. It starts one for
each such release (`client`), which is given the address, its certificate and the job's name, can
read no other file, reach no other port and leave no process. Of that process's words it knows those
below and a small number, and uses them for the log alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import structlog
from prometheus_client import Counter

from discreet.errors import InvalidInput
from discreet.isolation.processes import plain_environment
from discreet.settings import Settings
from discreet.usecases.shares import SHARES

log = structlog.get_logger()

CLIENT_MODULE = "discreet.worker.cluster.client"
GOODBYE_SECONDS = 10.0
"""How long a client may take to withdraw its tasks; nobody waits for it meanwhile."""

LINE_BYTES = 64
TROUBLES = {
    "away": "the cluster does not answer, or refuses the certificate",
    "refused": "a node of the cluster did not help: Dask shows why",
    "open": "this machine has no Landlock or no filter of system calls, without which a client of "
    "Dask is not run",
}

_asked = Counter(
    "discreet_cluster_requests_total",
    "Releases of which DISCREET_CLUSTER was told, by what came of it: tasks were `asked` for, or "
    "`away`, `refused`, `open` (no walls), `failed`",
    ["answer"],
)


class Cluster:
    """The cluster of the settings, or none. InvalidInput if they do not suffice for one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ending: set[asyncio.Task[None]] = set()
        if settings.cluster is None:
            return
        if settings.cluster.startswith("tls:") and None in self._files():
            raise InvalidInput(
                "DISCREET_CLUSTER with tls:// needs DISCREET_CLUSTER_AUTHORITY, "
                "DISCREET_CLUSTER_CERTIFICATE and DISCREET_CLUSTER_CERTIFICATE_KEY"
            )
        if importlib.util.find_spec("distributed") is None:
            raise InvalidInput("DISCREET_CLUSTER needs the extra `cluster`: discreet[cluster]")

    @asynccontextmanager
    async def told(self, job_id: str, attempt: int) -> AsyncIterator[Callable[[], None]]:
        """What to call when shares of this attempt are open. Its tasks are withdrawn at the end of
        the block, which waits for nothing."""
        asking: asyncio.Task[None] | None = None

        def tell() -> None:
            nonlocal asking
            if self._settings.cluster is not None and asking is None:
                asking = asyncio.create_task(self._ask(job_id, attempt))
                self._ending.add(asking)
                asking.add_done_callback(self._ending.discard)

        try:
            yield tell
        finally:
            if asking is not None:
                asking.cancel()

    def _files(self) -> list[str | None]:
        named = self._settings
        files = (named.cluster_authority, named.cluster_certificate, named.cluster_certificate_key)
        return [None if one is None else str(one.absolute()) for one in files]

    async def _ask(self, job_id: str, attempt: int) -> None:
        asked: dict[str, Any] = {
            "address": self._settings.cluster,
            "files": self._files() if str(self._settings.cluster).startswith("tls:") else [],
            "job": job_id,
            "attempt": attempt,
            "version": version("discreet"),
            "most": SHARES,
        }
        try:
            client = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", CLIENT_MODULE, json.dumps(asked)),
                env=_environment(),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=LINE_BYTES,
            )
        except OSError as error:
            log.warning("the cluster is not asked", error=type(error).__name__)
            _asked.labels("failed").inc()
            return
        try:
            await self._hear(client)
        finally:
            await _end(client)

    async def _hear(self, client: Process) -> None:
        """Tell operators what the client says, until it ends."""
        assert client.stdout is not None
        for _ in range(len(TROUBLES) + 1):
            try:
                word = (await client.stdout.readline()).decode("ascii").strip()
            except ValueError:
                word = "?"
            if word.isdecimal() and int(word) <= SHARES:
                _asked.labels("asked").inc()
                log.info("the cluster is asked for helpers", tasks=int(word))
            elif word in TROUBLES:
                _asked.labels(word).inc()
                log.warning("help from the cluster", detail=TROUBLES[word])
            else:
                _asked.labels("failed").inc()
                log.warning("the cluster is not asked", detail="its client has ended")
                return
        await client.wait()


def _environment() -> dict[str, str]:
    """That of a process without secrets, with no settings of Dask's that somebody may have."""
    kept = {name: value for name, value in plain_environment().items() if name != "HOME"}
    return {**kept, "DASK_CONFIG": "/dev/null/none"}


async def _end(client: Process) -> None:
    """Let it withdraw its tasks, then end it."""
    assert client.stdin is not None
    client.stdin.close()
    try:
        async with asyncio.timeout(GOODBYE_SECONDS):
            await _until_ended(client)
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            client.kill()
        await _until_ended(client)


async def _until_ended(client: Process) -> None:
    assert client.stdout is not None
    while await client.stdout.read(LINE_BYTES):  # whatever it says now
        pass
    await client.wait()
