"""Server-sent events: a parser of the stream, and when to connect again if it breaks. No I/O here.

Source: WHATWG HTML, "Server-sent events", sections on parsing and on interpreting an event stream.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import Any

import httpx

from discreet_client.errors import Unreachable
from discreet_client.retries import BUSY, backoff, problem_of

FINAL = ("succeeded", "failed", "cancelled")
ATTEMPTS = 7
"""Connections in a row without a byte before the server counts as gone: 12 seconds of pauses, and
the time that connecting takes."""


@dataclass(frozen=True)
class Event:
    """One event; `last_id` is the id that a resumed stream continues after."""

    event: str
    data: str
    last_id: str


class EventParser:
    """Turns bytes into events. They may be cut anywhere, even within a character or between CR and
    LF."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self._event = ""
        self._data: list[str] = []

    def feed(self, part: bytes) -> list[Event]:
        """The events that end in this part of the stream. One that is incomplete when the stream
        breaks is dropped."""
        text = self._rest + self._decoder.decode(part)
        kept = ""
        if text.endswith("\r"):  # the LF of a CR LF may come with the next part
            text, kept = text[:-1], "\r"
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = lines.pop() + kept
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self.last_id = value
        return None  # comments and unknown fields are ignored

    def _dispatch(self) -> Event | None:
        event, data = self._event or "message", self._data
        self._event, self._data = "", []
        return Event(event, "\n".join(data), self.last_id) if data else None


class Following:
    """The state that is kept while the events of a job are followed over several connections.

    `silent` counts the connections in a row without a single byte.
    """

    def __init__(self) -> None:
        self.last_id = "0"
        self.ended = False
        self.silent = 0
        self._asked: float | None = None
        self._parser = EventParser()

    def connect(self) -> str:
        """Begin a new connection; returns the Last-Event-ID to send with it."""
        self._parser = EventParser(self.last_id)
        self.silent += 1
        return self.last_id

    def feed(self, part: bytes) -> list[tuple[str, dict[str, Any]]]:
        """The events (name, data) that end in this part."""
        self.silent = 0
        found = []
        for event in self._parser.feed(part):
            data = json.loads(event.data)
            self.last_id = event.last_id
            self.ended = self.ended or (event.event == "state" and data["state"] in FINAL)
            found.append((event.event, data))
        return found

    def refused(self, response: httpx.Response) -> None:
        """Raise the server's refusal to stream, unless it is only busy; then `pause` is at least as
        long as it asked for."""
        refusal = problem_of(response)
        if refusal.status not in BUSY:
            raise refusal
        self._asked = refusal.retry_after

    def pause(self) -> float:
        """Seconds to wait before the next connection; Unreachable after ATTEMPTS silent ones."""
        if self.silent >= ATTEMPTS:
            raise Unreachable("the server does not answer")
        asked, self._asked = self._asked, None
        return backoff(max(self.silent, 1), asked)
