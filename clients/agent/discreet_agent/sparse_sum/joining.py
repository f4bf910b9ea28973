"""An agent of a run over gRPC: it answers the server until the server says that the run is over."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from discreet_agent.federation.errors import AgentError, Lost
from discreet_agent.secure_sum.errors import Refused, Tampered
from discreet_agent.sparse_sum.conversation import HEAD, Values, answer
from discreet_agent.sparse_sum.durable import DurableAgent
from discreet_agent.sparse_sum.serving import END, METHOD, NONCE, PLACE, SERVICE, hello

LONGEST_BYTES = 64 << 20
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 3.0
Log = Callable[[str], None]


def take_part(
    durable: DurableAgent,
    values: Values,
    connect: Callable[[], Any],
    *,
    log: Log,
    patience_seconds: float = 60.0,
) -> None:
    """Answer the server's messages, through broken connections. `connect` opens a gRPC channel.

    A message that this agent refuses is logged and gets an empty answer. Raises Lost when the
    server stays silent, AgentError when it does not know this agent or is not a server of such
    sums, and whatever `values` raises.
    """
    heard, pause = time.monotonic(), FIRST_PAUSE
    while True:
        with connect() as channel:
            talk = _Talk(durable, values, log)
            try:
                if talk.over(channel):
                    return
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    raise AgentError(f"the server refuses this agent: {error.details()}") from None
        if talk.heard:
            heard, pause = time.monotonic(), FIRST_PAUSE
        elif time.monotonic() - heard > patience_seconds:
            raise Lost(f"the server has not answered for {patience_seconds:g} s")
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  so that not all come at once
        pause = min(2 * pause, LONGEST_PAUSE)


class _Talk:
    """One stream."""

    def __init__(self, durable: DurableAgent, values: Values, log: Log) -> None:
        self._durable, self._values, self._log = durable, values, log
        self.heard = False

    def over(self, channel: Any) -> bool:
        """Answer until the stream ends; returns whether the server has said that the run is
        over."""
        say: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        stream = channel.stream_stream(f"/{SERVICE}/{METHOD}")(_until_none(say))
        try:
            for message in stream:
                if message == END:
                    return True
                if not self.heard:
                    say.put(self._greeting(message))
                else:
                    say.put(message[: HEAD.size] + self._answer(message))
                self.heard = True
            return False
        finally:
            say.put(None)
            stream.cancel()

    def _greeting(self, nonce: bytes) -> bytes:
        if len(nonce) != NONCE:
            raise AgentError("the other side is not a server of sparse sums")
        durable = self._durable
        return PLACE.pack(durable.place) + durable.sign(hello(durable.roster, nonce))

    def _answer(self, message: bytes) -> bytes:
        try:
            return answer(self._durable, message, self._values)
        except (Refused, Tampered) as error:
            self._log(f"refused: {error}")
            return b""


def _until_none(say: queue.SimpleQueue[bytes | None]) -> Iterator[bytes]:
    return iter(say.get, None)
