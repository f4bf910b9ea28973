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
    """The API, gRPC and the workers. Each part gets a socket for its metrics, a loopback port that
    it keeps when it is started again; it is added to `monitors` by the part's name."""
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
    for number, spec in enumerate(specs):
        monitor = monitors[spec.name] = listen("127.0.0.1", 0)
        more = ("--metrics-fd", str(monitor.fileno()))
        specs[number] = PartSpec(
            spec.name, (*spec.arguments, *more), (*spec.files, monitor.fileno())
        )
    return specs
