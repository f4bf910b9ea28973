"""Turns of requests: one key, or session, has no more than it may, however it is written."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest

from discreet.web.middleware import Envelope

Raw = Sequence[tuple[bytes, bytes]]


class Door:
    """An application whose requests stay until they are let out; `most` were inside at once."""

    def __init__(self, kind: bytes = b"text/plain") -> None:
        self.out, self.inside, self.most, self.kind = asyncio.Event(), 0, 0, kind

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            headers = [(b"content-type", self.kind)]
            if self.kind == b"text/event-stream":
                await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self.out.wait()
        finally:
            self.inside -= 1


async def come(envelope: Envelope, headers: Raw) -> None:
    async def send(message: Any) -> None:
        return None

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": list(headers)}
    await envelope(scope, receive, send)


async def crowd(door: Door, envelope: Envelope, each: Sequence[Raw]) -> int:
    """How many of these requests were inside at once."""
    tasks = [asyncio.create_task(come(envelope, one)) for one in each]
    for _ in range(10):
        await asyncio.sleep(0)
    door.out.set()
    await asyncio.gather(*tasks)
    return door.most


SPELLINGS: dict[str, list[Raw]] = {
    "one key in many ways": [
        [(b"authorization", b"%s%s dsc_key%s" % (word, b" " * n, b" " * n))]
        for word in (b"Bearer", b"bearer", b"BEARER")
        for n in range(4)
    ],
    "a key beside invented cookies": [
        [
            (b"authorization", b"Bearer dsc_key"),
            (b"cookie", b"discreet_session=%d; a=%d" % (n, n)),
        ]
        for n in range(12)
    ],
    "a session beside invented cookies": [
        [(b"cookie", b"a=%d; __Host-discreet_session=ours; discreet_session=%d" % (n, n))]
        for n in range(12)
    ],
    "a session beside invented keys": [
        [(b"authorization", b"Bearer %d" % n), (b"cookie", b"discreet_session=ours")]
        for n in range(12)
    ],
}


@pytest.mark.parametrize("way", SPELLINGS)
def test_a_key_has_its_turns_however_it_is_written(way: str) -> None:
    async def at_once() -> int:
        door = Door()
        return await crowd(door, Envelope(door, 3), SPELLINGS[way])

    assert asyncio.run(at_once()) == 3


def test_others_and_streams_wait_for_nobody() -> None:
    """Other keys, requests without any, and event streams that have begun."""

    async def at_once() -> tuple[int, ...]:
        keys = [[(b"authorization", b"Bearer %d" % n)] for n in range(12)]
        plain, begun = Door(), Door(b"text/event-stream")
        none: list[Raw] = [[] for _ in range(12)]
        return (
            await crowd(plain, Envelope(plain, 3), [*keys, *none]),
            await crowd(begun, Envelope(begun, 3), [keys[0]] * 12),
        )

    assert asyncio.run(at_once()) == (24, 12)


def test_who_goes_away_leaves_no_turn_behind() -> None:
    """While waiting for a turn, or inside; and nothing is kept of a credential."""
    headers = [(b"authorization", b"Bearer a"), (b"cookie", b"discreet_session=b")]

    async def leave(envelope: Envelope) -> None:
        tasks = [asyncio.create_task(come(envelope, headers)) for _ in range(6)]
        for _ in range(10):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def left() -> tuple[int, int]:
        door = Door()
        envelope = Envelope(door, 2)
        await leave(envelope)
        door.most = 0
        inside = await crowd(door, envelope, [headers] * 4)
        await asyncio.sleep(0)
        gc.collect()
        return inside, len(envelope._free)

    assert asyncio.run(left()) == (2, 0)
