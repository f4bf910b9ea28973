"""A TLS connection between two parties as MPyC's messages use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

MOST_WAITING_BYTES = 1 << 26
"""That a peer may have sent and nobody here has asked for yet, in whole messages and parts of one;
more than the longest computation sends in all."""
MOST_WAITING = 1 << 14
"""Such messages. Parties wait for each other in every step, so that a few hundred are ahead at
most."""


def link_class(
    certificates: Sequence[bytes], fail: Callable[[str], None], closing: Callable[[], bool]
) -> type[Any]:
    """Connections of one computation. `certificates` by party, DER; `fail` ends it with a code."""
    from mpyc.asyncoro import MessageExchanger  # noqa: PLC0415  # an extra

    class Link(MessageExchanger):  # type: ignore[misc]  # MPyC ships no types
        """`peer_pid` is what MPyC knows of the peer; `certified` is who it is."""

        certified: int | None = None
        done = False
        """The peer has said that it needs nothing more."""

        def leave(self, _: Any) -> None:
            self.done = True

        def connection_made(self, transport: Any) -> None:
            document = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            self.certified = certificates.index(document) if document in certificates else None
            if self.certified is None or self.certified == self.runtime.pid:
                transport.abort()
                return
            if self.peer_pid not in (None, self.certified):
                transport.abort()
                fail("party")
                return
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            if self.peer_pid is None:  # the first bytes say who comes; the certificate has said it
                begun = bytes(self.bytes) + data
                taken = (
                    self.certified is not None
                    and self.runtime.parties[self.certified].protocol is not None
                )
                if taken or (
                    len(begun) >= 2 and int.from_bytes(begun[:2], "little") != self.certified
                ):
                    self.transport.abort()
                    fail("party")
                    return
            try:
                super().data_received(data)
            except Exception:
                fail("message")
                return
            waiting = [len(one) for one in self.buffers.values() if isinstance(one, bytes)]
            if len(self.bytes) + sum(waiting) > MOST_WAITING_BYTES or len(waiting) > MOST_WAITING:
                self.transport.abort()
                fail("message")

        def connection_lost(self, exc: Exception | None) -> None:
            known = self.peer_pid is not None or self.certified is not None
            if known and not (closing() or self.done):
                fail("connection")

    return Link
