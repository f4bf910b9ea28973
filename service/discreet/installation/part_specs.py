"""Which parts `discreet up` runs, and with which arguments and sockets."""

from __future__ import annotations

import socket

from discreet.installation.parts import PartSpec
from discreet.installation.ports import listen


def specs_of_parts(
    listener: socket.socket,
    orders: socket.socket,
    host: str,
    rpc_port: int,
    workers: int,
    monitors: dict[str, socket.socket],
) -> list[PartSpec]:
    """What has to run. Stopped from the last to the first kind. `monitors` gets a socket for the
    metrics of each part but the API."""
    file, files = listener.fileno(), (orders.fileno(),)
    children = ("--children-fd", str(orders.fileno()))
    rpc = ("rpc", "--host", host, "--port", str(rpc_port))
    specs = [
        PartSpec("api", ("api", "--fd", str(file), *children), (file, *files)),
        PartSpec("rpc", (*rpc, *children), files),
        *(
            PartSpec(f"worker-{number}", ("worker", *children), files)
            for number in range(1, workers + 1)
        ),
    ]
    # The API has its metrics among its pages; the others get a port of loopback, the same when
    # they start again.
    for number in range(1, len(specs)):
        monitor = monitors[specs[number].name] = listen("127.0.0.1", 0)
        more = ("--metrics-fd", str(monitor.fileno()))
        spec = specs[number]
        specs[number] = PartSpec(
            spec.name, (*spec.arguments, *more), (*spec.files, monitor.fileno())
        )
    return specs
