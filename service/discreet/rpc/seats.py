"""One agent's stream: what waits to be sent, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from discreet.errors import DiscreetError, Unavailable
from discreet.rpc.admission import Messages

WRITE_SECONDS = 60.0
"""An agent that takes so long to read one message has lost its stream: what it does not read lies
in our memory."""
ROUNDS_REMEMBERED = 9
"""An answer to one of so many rounds may come late; one to an earlier round is refused."""


@dataclass(eq=False)
class Seat:
    """One agent's stream. Only the newest message of each kind waits: a slow reader misses
    rounds instead of taking memory."""

    fingerprint: str
    messages: Messages
    outbox: dict[str, bytes] = field(default_factory=dict)
    closing: DiscreetError | None = None
    ready: bool = False
    """It has accepted roster and charge on this stream."""
    asked: range = range(0)
    """Rounds that this stream was asked to answer, the last few: it is asked for each, from its
    first on."""
    patience: asyncio.Timeout | None = None
    _idle: asyncio.Future[None] | None = None
    """What `write` waits for while there is nothing to send. A future of its own, since an event
    took twice as long, for each message."""
    _writing_since: float | None = None
    _alarm: asyncio.TimerHandle | None = None

    def ask(self, number: int, message: bytes) -> None:
        """Send the round of this number, which may be sent again."""
        first = self.asked.start if self.asked else number
        self.asked = range(max(first, number + 1 - ROUNDS_REMEMBERED), number + 1)
        self.send("round", message)

    def send(self, kind: str, message: bytes) -> None:
        self.outbox[kind] = message
        self._wake()

    def close(self, reason: DiscreetError) -> None:
        """Close after the agent has read its waiting messages."""
        self.closing = reason
        self._wake()

    def close_now(self, reason: DiscreetError) -> None:
        """Close at once, whether the agent reads or not."""
        self.close(reason)
        if self.patience is not None:
            self.patience.reschedule(asyncio.get_running_loop().time())

    async def write(self, context: Any) -> None:
        """Send waiting messages until the session has ended for this agent or the seat is
        closed."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                if not self.outbox and self.closing is None:
                    self._idle = loop.create_future()
                    await self._idle
                while self.outbox:
                    kind = next(iter(self.outbox))
                    message = self.outbox.pop(kind)
                    self._writing_since = loop.time()
                    if self._alarm is None:
                        self._alarm = loop.call_later(WRITE_SECONDS, self._look)
                    await context.write(message)
                    self._writing_since = None
                    if kind == "end":
                        return
                if self.closing is not None:
                    raise self.closing
        finally:
            if self._alarm is not None:
                self._alarm.cancel()

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _look(self) -> None:
        """Close where a message has been under way for WRITE_SECONDS.

        One alarm that looks when it rings, and is set again where something is under way: an alarm
        a message took longer than all else that is done for one here.
        """
        loop, self._alarm = asyncio.get_running_loop(), None
        if self._writing_since is None:
            return
        end = self._writing_since + WRITE_SECONDS
        if loop.time() < end:
            self._alarm = loop.call_at(end, self._look)
        else:
            self.close_now(
                Unavailable(f"nothing was read for {WRITE_SECONDS:g} s", code="not_reading")
            )


async def first_to_end(*what: Coroutine[Any, Any, None]) -> None:
    """Run until one of them ends, stop the others, and end as it did.

    No name is left that holds a task or its error: through the traceback this frame would hold
    itself, and with it what its callers have read, until a collector comes.
    """
    tasks = [asyncio.create_task(each) for each in what]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        tasks.clear()
        del task
    try:
        for error in errors:
            if error is not None:
                raise error
    finally:
        errors.clear()
        error = None
