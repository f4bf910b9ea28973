"""The last step of a huge routing job on a Dask cluster (extra `dask`).

    python -m discreet.worker.cluster FD ADDRESS

Only `finish` comes here: it sees what was released and public figures, and nothing else ever leaves
the machine by this way. A solver's child has no network, so this is a helper process of its own: it
gets one frame on the socket FD, as a child does, with no database address and no secrets, gives the
blocks of origins to the cluster's workers, and answers in the same frames. Each round of the
assignment is an all-reduce of the link flows (`solvers.block_assignment`).

Who runs the cluster can read what was released before it is published, and can falsify a result;
the scheduler and its workers run code for whoever reaches them, so give them TLS (`tls://`,
DASK_DISTRIBUTED__COMM__TLS__…) or a network of their own. When the cluster fails in any way the
worker does the step itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog

from discreet.isolation.children import OnProgress, Output, collect
from discreet.isolation.failures import ChildFailed, Limits, WallLimit
from discreet.isolation.frames import frame, receive
from discreet.isolation.processes import dies_with_parent, plain_environment
from discreet.isolation.solving import finish_on
from discreet.solvers.traffic import traffic_assignment
from discreet.solvers.traffic.block_assignment import Block, Part, assign_in_blocks
from discreet.usecases.claims import Claim

log = structlog.get_logger()

CONNECT_SECONDS = 20


class ClusterFinisher:
    """The worker's side: which jobs go to the cluster, and the helper process for one."""

    def __init__(self, address: str, least_pairs: int) -> None:
        self._address, self._least_pairs = address, least_pairs

    def takes(self, held: Claim) -> bool:
        """Huge, and not a simulation: what a simulation adds to its result is not worked on in
        blocks."""
        return (
            not held.simulation and held.problem.pairs_to_assign(held.public) >= self._least_pairs
        )

    async def run(
        self,
        header: dict[str, Any],
        payload: bytes,
        limits: Limits,
        on_progress: OnProgress | None = None,
    ) -> Output:
        """As `Zygote.run` of a step `finish`. ChildFailed when the cluster did not bring a
        result."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        dask = {name: value for name, value in os.environ.items() if name.startswith("DASK_")}
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", __name__, str(theirs.fileno()), self._address),
                pass_fds=(theirs.fileno(),),
                env={**plain_environment(), **dask},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                preexec_fn=dies_with_parent(signal.SIGKILL),
            )
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            async with asyncio.timeout(limits.wall_seconds):
                writer.write(frame(header, payload))
                await writer.drain()
                return await collect(reader, on_progress, limits.most_said)
        except TimeoutError as error:
            raise WallLimit(f"the cluster was not done within {limits.wall_seconds:g} s") from error
        except (EOFError, OSError, ValueError) as error:
            raise ChildFailed(
                "the helper that talks to the cluster ended without a result"
            ) from error
        finally:
            writer.close()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Cluster:
    """Blocks as Dask actors: one on each worker of the cluster, its state stays there."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._actors: list[Any] = []
        self.workers: list[str] = sorted(client.scheduler_info(n_workers=-1)["workers"])

    def open(self, parts: Sequence[Part]) -> None:
        made = [
            self._client.submit(
                Block, part, actor=True, pure=False, workers=[worker], allow_other_workers=False
            )
            for part, worker in zip(parts, self.workers, strict=False)
        ]
        self._actors = self._client.gather(made)

    def each(self, method: str, *arguments: Any) -> list[Any]:
        asked = [getattr(actor, method)(*arguments) for actor in self._actors]
        return [one.result() for one in asked]


def main(channel: socket.socket, address: str) -> None:
    """Do one step `finish` with its assignment on the cluster."""
    import distributed  # noqa: PLC0415

    header, payload = receive(channel)
    connect: Any = distributed.Client  # it has no types
    with connect(
        address, timeout=CONNECT_SECONDS
    ) as client:  # the default one, which actors look for
        places = Cluster(client)
        assert places.workers, "the cluster has no workers"
        traffic_assignment.elsewhere.set(partial(assign_in_blocks, places, len(places.workers)))
        finish_on(channel, header, payload)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
