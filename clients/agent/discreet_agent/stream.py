"""What an agent says on one stream."""

from __future__ import annotations

import queue
import time
from typing import Any

from discreet_agent.federation import signing
from discreet_agent.federation.errors import NotTrusted
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.stream_keys import Exchange, mac
from discreet_agent.stubs import federation_pb2 as pb


class SendingStream:
    """The sending half of one stream, which begins with Hello: it numbers messages, signs them, and
    gives contributions a MAC instead, under the key agreed on for this stream.

    `challenged` is the content of the server's message with the challenge, which the caller has
    checked. NotTrusted when no key can be agreed on; nothing has been said then.
    """

    def __init__(
        self,
        identity: Identity,
        session: str,
        challenge: pb.Challenge,
        challenged: bytes,
        out: queue.SimpleQueue[pb.AgentMessage | None],
    ) -> None:
        self._identity, self._out = identity, out
        self._statement = signing.messages(session, challenge.nonce)
        self._sequence = 0
        exchange = Exchange()
        hello = pb.Hello(
            session=session,
            public_key=identity.public_key,
            nonce=challenge.nonce,
            exchange=exchange.public,
        )
        data = pb.AgentContent(hello=hello).SerializeToString()
        try:
            self._key = exchange.key(challenge.exchange, session, challenged, data)
        except ValueError:
            raise NotTrusted("no secret can be agreed on with the server's X25519 key") from None
        self._put(0, data)

    def contribute(self, round_number: int, contribution: pb.Contribution) -> None:
        data = pb.AgentContent(contribution=contribution).SerializeToString()
        self._put(round_number, data, self._key)

    def send(self, **content: Any) -> None:
        self._put(0, pb.AgentContent(**content).SerializeToString())

    def _put(self, round_number: int, data: bytes, key: bytes | None = None) -> None:
        """Send a content: signed, or with a MAC under `key`."""
        now = time.time_ns() // 1_000_000
        statement = self._statement(self._sequence, round_number, now, data)
        message = pb.AgentMessage(
            content=data, round=round_number, sequence=self._sequence, timestamp_ms=now
        )
        if key is None:
            message.signature = self._identity.sign(statement)
        else:
            message.mac = mac(key, statement)
        self._out.put(message)
        self._sequence += 1
