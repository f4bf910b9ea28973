"""A TLS connection between two parties that carries MPyC's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

MOST_WAITING_BYTES = 1 << 26
"""Most bytes received from a peer that the computation has not asked for yet; more than the longest
computation sends in all."""
MOST_WAITING = 1 << 14
"""Most such messages. Parties wait for each other in every step, so at most a few hundred arrive
early."""


def link_class(
    certificates: Sequence[bytes], fail: Callable[[str], None], closing: Callable[[], bool]
) -> type[Any]:
    """The class of one computation's connections. `certificates`: by party, DER; `fail` ends the
    computation with a code; `closing`: whether connections may end now."""
    from mpyc.asyncoro import MessageExchanger  # noqa: PLC0415  # an extra

    class Link(MessageExchanger):  # type: ignore[misc]  # MPyC ships no types
        """`peer_pid` is the peer's number as MPyC knows it, `certified` that of its certificate."""

        certified: int | None = None
        done = False
        """Whether the peer has said that it needs nothing more."""

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
