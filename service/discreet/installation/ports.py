"""Ports of this machine: taking them, holding them for a part, and the addresses at which others
reach them."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable

from discreet.errors import DiscreetError
from discreet.installation.parts import Signals


class PortTaken(DiscreetError):
    """The port is taken by another program."""

    code = "port_taken"


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """A listening TCP socket; errors name host and port in one line, and the command's `option`
    that chooses another port."""
    if not 0 <= port < 1 << 16:  # getaddrinfo would cut off the upper bits
        raise DiscreetError(f"{port} is not a port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (socket.gaierror, UnicodeError) as error:
        raise DiscreetError(f"{host!r} is not an address of this machine") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"port {port} of {host} is taken by another program; {option} chooses another"
            ) from error
        raise DiscreetError(f"cannot listen on port {port} of {host}: {error.strerror}") from error
    return listener


def reserve(host: str, port: int) -> socket.socket:
    """A port for gRPC, which cannot inherit a socket: bound here with SO_REUSEPORT and never
    listened on, so that the kernel keeps it for this user and gives its connections to the process
    that does listen."""
    # First without SO_REUSEPORT, so that a port of another program is refused.
    with listen(host, port, "--rpc-port") as free:
        address = free.getsockname()
    reserved = socket.socket(free.family, socket.SOCK_STREAM)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(address)
    except OSError as error:
        reserved.close()
        raise PortTaken(f"port {address[1]} of {host} is taken by another program") from error
    return reserved


def reachable(host: str) -> str:
    """The host at which a program on this machine reaches a server that listens on `host`."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  compared, not bound


def patiently(
    take: Callable[[], socket.socket], signals: Signals, patience: float
) -> socket.socket:
    """The result of `take`, which is repeated for up to `patience` seconds while the port is
    taken."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return take()
        except PortTaken:
            if signals.stops or time.monotonic() >= deadline:
                raise
        signals.sleep(0.1)
