"""All that a browser sends to a server, byte by byte: what its tools tell of bodies leaves files
out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

BYTES = 1 << 16


@dataclass
class Overheard:
    """What went from the browser to the server by way of `origin`."""

    origin: str
    connections: list[bytearray] = field(default_factory=list)

    def __contains__(self, text: bytes) -> bool:
        return any(text in one for one in self.connections)


@contextmanager
def overheard(server: str) -> Iterator[Overheard]:
    """An address of its own, from which everything is handed on to the server as it comes."""
    there = (str(urlsplit(server).hostname), int(urlsplit(server).port or 80))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Overheard(f"http://127.0.0.1:{listener.getsockname()[1]}")
        open_sockets: list[socket.socket] = []

        def hand_on(source: socket.socket, to: socket.socket, heard: bytearray | None) -> None:
            with suppress(OSError):
                while data := source.recv(BYTES):
                    if heard is not None:
                        heard += data
                    to.sendall(data)
                to.shutdown(socket.SHUT_WR)

        def listen() -> None:
            with suppress(OSError):
                while True:
                    browser, _ = listener.accept()
                    upstream = socket.create_connection(there)
                    open_sockets.extend((browser, upstream))
                    found.connections.append(heard := bytearray())
                    for each in ((browser, upstream, heard), (upstream, browser, None)):
                        threading.Thread(target=hand_on, args=each, daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        try:
            yield found
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for one in open_sockets:
                one.close()
