"""The TLS connections of one agent. They carry MPyC's messages, and shares of what agents that do
not compute input and are opened."""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Sequence
from typing import Any

MOST_WAITING_BYTES = 1 << 26
"""Most bytes received from a peer that the computation has not asked for yet; more than the longest
computation sends in all."""
MOST_WAITING = 1 << 14
"""Most such messages. Parties wait for each other in every step, so at most a few hundred arrive
early."""


PAUSE_SECONDS = 0.1
CLOSING, INPUT, RESULT = (-(1 << 62) + place for place in range(3))
"""Labels of messages that are not MPyC's, whose program counters are hashes of 64 bits: the last
one to each agent, and shares of the inputs and results of agents that do not compute."""


class Broken(Exception):
    """The computation cannot go on; the message is a fixed code."""


class Links:
    """One agent's connections. `order` is that of `party.order_of`; the first `computing` agents
    compute, and all others connect to each of these. `broken` holds the fault that ends it all."""

    def __init__(self, mpc: Any, order: dict[str, Any], computing: int) -> None:
        self._mpc, self._order, self._index = mpc, order, int(order["index"])
        self._places = order["parties"]
        self._certificates = [base64.b64decode(one["certificate"]) for one in self._places]
        self._computing = computing
        self._computes = self._index < computing
        outside = range(computing, len(self._places)) if self._computes else range(computing)
        self.outside: dict[int, Any] = dict.fromkeys(outside)
        """By agent: connections of which MPyC does not know, between one that computes and one that
        does not."""
        self._all_outside: asyncio.Future[None] = mpc._loop.create_future()
        if not self.outside:
            self._all_outside.set_result(None)
        self.broken: asyncio.Future[Any] = mpc._loop.create_future()
        self._closing = False
        self._server: asyncio.Server | None = None

    @property
    def all(self) -> list[Any]:
        computing = [one.protocol for one in self._mpc.parties if one.pid != self._index]
        return [*(computing if self._computes else []), *self.outside.values()]

    async def connect(self) -> None:
        """Connect with all others: of two that compute the later one on the roster listens, and all
        that compute listen to those that do not."""
        mpc, loop = self._mpc, self._mpc._loop
        link = link_class(self._certificates, self._index, self)
        first = 0
        if self._computes:
            mpc.parties[self._index].protocol = loop.create_future()
            first = self._index + 1
            if self._index or self.outside:
                host, port = self._order["listen"]
                self._server = await loop.create_server(
                    lambda: link(mpc), host, port, ssl=self._context(server=True)
                )
        for peer in range(first, self._computing):
            context = self._context(server=False)
            while True:
                try:
                    await loop.create_connection(
                        lambda peer=peer: link(mpc, peer),
                        self._places[peer]["host"],
                        int(self._places[peer]["port"]),
                        ssl=context,
                        server_hostname="",
                    )
                    break
                except ssl.SSLError:
                    raise Broken("party") from None
                except OSError:  # it does not listen yet, or its name does not resolve yet
                    await asyncio.sleep(PAUSE_SECONDS)
        if self._computes:
            await mpc.parties[self._index].protocol
        await self._all_outside

    async def received(self, agent: int, label: int) -> bytes:
        """The message with this label from an agent of `outside`."""
        said = self.outside[agent].receive(label)
        return bytes(await said if isinstance(said, asyncio.Future) else said)

    async def part(self) -> None:
        """Wait until all are done, so that no connection ends while a party needs it."""
        for link in self.all:
            link.send(CLOSING, b"done")
        waited = []
        # All of them before the first await: a party that has heard from all may leave at once.
        for link in self.all:
            said = link.receive(CLOSING)
            if isinstance(said, asyncio.Future):
                said.add_done_callback(link.leave)
                waited.append(said)
            else:
                link.leave(said)
        for said in waited:
            await said

    def close(self) -> None:
        self._closing = True
        if self._server is not None:
            self._server.close()

    # What connections tell

    @property
    def closing(self) -> bool:
        """Whether connections may end now."""
        return self._closing

    def joins(self, agent: int, link: Any) -> bool:
        """Whether this is the first connection with an agent of `outside`, which it then is."""
        if self.outside.get(agent, link) is not None:
            return False
        self.outside[agent] = link
        if None not in self.outside.values():
            self._all_outside.set_result(None)
        return True

    def fail(self, code: str) -> None:
        """End the computation."""
        if not self.broken.done():
            self.broken.set_exception(Broken(code))

    def _context(self, *, server: bool) -> ssl.SSLContext:
        """TLS 1.3 that accepts only the certificates of the roster, on either side."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate itself is known
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=b"".join(self._certificates))
        with tempfile.NamedTemporaryFile(prefix="discreet-", suffix=".pem") as file:  # of mode 0600
            file.write(self._order["pem"].encode())
            file.flush()
            context.load_cert_chain(file.name)
        return context


def link_class(certificates: Sequence[bytes], own: int, links: Links) -> type[Any]:
    """The class of one agent's connections. `certificates`: by agent, DER; `own`: this agent's
    number."""
    from mpyc.asyncoro import MessageExchanger  # noqa: PLC0415  # an extra

    class Link(MessageExchanger):  # type: ignore[misc]  # MPyC ships no types
        """`peer_pid` is the peer's number as MPyC knows it, `certified` that of its certificate."""

        certified: int | None = None
        peer_pid: int | None
        done = False
        """Whether the peer has said that it needs nothing more."""

        def leave(self, _: Any) -> None:
            self.done = True

        def connection_made(self, transport: Any) -> None:
            document = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            self.certified = certificates.index(document) if document in certificates else None
            if self.certified is None or self.certified == own:
                transport.abort()
                return
            if self.peer_pid not in (None, self.certified):
                transport.abort()
                links.fail("party")
                return
            if self.certified in links.outside:
                if not links.joins(self.certified, self):
                    transport.abort()
                    links.fail("party")
                    return
                # No numbers or keys of MPyC's are exchanged.
                self.peer_pid, self.transport = self.certified, transport
                return
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            # The first bytes are the peer's number, which must be that of its certificate.
            if self.peer_pid is None:
                begun = bytes(self.bytes) + data
                taken = (
                    self.certified is not None
                    and self.runtime.parties[self.certified].protocol is not None
                )
                if taken or (
                    len(begun) >= 2 and int.from_bytes(begun[:2], "little") != self.certified
                ):
                    self.transport.abort()
                    links.fail("party")
                    return
            try:
                super().data_received(data)
            except Exception:
                links.fail("message")
                return
            waiting = [len(one) for one in self.buffers.values() if isinstance(one, bytes)]
            if len(self.bytes) + sum(waiting) > MOST_WAITING_BYTES or len(waiting) > MOST_WAITING:
                self.transport.abort()
                links.fail("message")

        def connection_lost(self, exc: Exception | None) -> None:
            known = self.peer_pid is not None or self.certified is not None
            if known and not (links.closing or self.done):
                links.fail("connection")

    return Link
