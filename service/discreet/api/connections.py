"""How long connections wait for their client.

uvicorn ends a connection that stays idle between two requests, but waits forever for the rest of
a request that has begun: a few hundred unfinished heads would hold every descriptor of the
process.
Here a head must be complete within `header_seconds` of its start (or of the connection's),
however slowly its bytes drip. A body may pause for `body_stall_seconds`; in all it has that time
and one second more for each `body_bytes_per_second` received. Of the connections whose head is
incomplete, only the `waiting_connections` youngest are kept.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from discreet.settings import Settings
from discreet.web import problem_details
from discreet.web.middleware import guard

TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def bounded_protocol(settings: Settings) -> type[H11Protocol]:
    """uvicorn's protocol with these limits; connections of the returned class are counted
    together."""

    class Bounded(_BoundedProtocol):
        header_seconds = settings.header_seconds
        body_stall_seconds = settings.body_stall_seconds
        body_bytes_per_second = settings.body_bytes_per_second
        most_waiting = settings.waiting_connections

    Bounded.waiting = OrderedDict()
    return Bounded


class _BoundedProtocol(H11Protocol):
    header_seconds: float
    body_stall_seconds: float
    body_bytes_per_second: int
    most_waiting: int
    waiting: ClassVar[OrderedDict[_BoundedProtocol, None]]
    """Connections whose head is incomplete, oldest first."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._begun = False
        """Part of a head has been received."""
        self._body_since: float | None = None
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch(len(data))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self._watch(0)  # the next request may have begun in the packet of this one

    def send_400_response(self, msg: str) -> None:
        """A problem document with the usual headers, even for a client that does not speak HTTP."""
        answer = problem_details.document(
            400, "invalid_http", "this is not an HTTP/1.1 request", headers={"Connection": "close"}
        )
        guard(answer.headers)
        head = h11.Response(status_code=400, headers=answer.raw_headers, reason=STATUS_PHRASES[400])
        for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self, came: int) -> None:
        """Wait for what the client must send now, of which so many bytes have arrived."""
        state = self.conn.their_state
        if state is h11.IDLE:
            self._body_since = None
            # A whole request may have been answered already; then none of the next one has arrived.
            self._begun = bool(self.conn.trailing_data[0])
            if self._begun and self not in self.waiting:
                self._wait_for_head()
        elif state is h11.SEND_BODY:
            self._stop_waiting()
            if self._is_dripping(came):
                self._stalled()
            else:
                self._timer = self.loop.call_later(self.body_stall_seconds, self._stalled)
        else:
            self._body_since = None
            self._stop_waiting()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self.header_seconds, self._end)
        self.waiting[self] = None
        if len(self.waiting) > self.most_waiting:
            next(iter(self.waiting))._end()

    def _stop_waiting(self) -> None:
        self.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_dripping(self, came: int) -> bool:
        """Whether the body, including these bytes, is slower than the pace that is allowed."""
        if self._body_since is None:
            self._body_since, self._body_bytes = self.loop.time(), 0
        self._body_bytes += came
        allowed = self.body_stall_seconds + self._body_bytes / self.body_bytes_per_second
        return self.loop.time() - self._body_since > allowed

    def _stalled(self) -> None:
        if self.flow.read_paused:  # it is the application that does not read
            self._timer = self.loop.call_later(self.body_stall_seconds, self._stalled)
        elif self.cycle is not None and self.cycle.response_started:
            self.transport.close()
        else:
            self._begun = True
            self._end()

    def _end(self) -> None:
        """Close, and tell the reason to a client that has begun a request."""
        self._stop_waiting()
        if self._begun and not self.transport.is_closing():
            self.transport.write(TIMEOUT)
        self.transport.close()
