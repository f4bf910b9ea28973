"""One agent's stream: who does not read is noticed, and which answers may come late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from discreet.rpc import attendance
from discreet.rpc.attendance import ROUNDS_REMEMBERED, Seat


class Reader:
    """A stream's other side, which reads so many messages and no more. `stalled` is when it was
    given the first one that it leaves."""

    def __init__(self, reads: int) -> None:
        self.left, self.read = reads, asyncio.Event()
        self.stalled = 0.0

    async def write(self, message: bytes) -> None:
        if self.left == 0:
            self.stalled = asyncio.get_running_loop().time()
            await asyncio.Event().wait()
        self.left -= 1
        self.read.set()


def seat() -> Seat:
    return Seat("fingerprint", None)  # type: ignore[arg-type]  # it reads nothing here


@pytest.mark.parametrize("reads", [0, 1, 5])
def test_who_does_not_read_a_message_in_time_is_closed(
    monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """However many it has read before, and not sooner because of them."""
    monkeypatch.setattr(attendance, "WRITE_SECONDS", 0.05)

    async def work() -> None:
        agent, reader = seat(), Reader(reads)
        loop = asyncio.get_running_loop()

        async def ask() -> None:
            for number in range(reads + 1):
                agent.send("round", bytes([number]))
                await asyncio.sleep(0.02)

        asking = asyncio.create_task(ask())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as agent.patience:
                await agent.write(reader)
        assert agent.closing is not None
        assert agent.closing.code == "not_reading"
        assert reader.left == 0
        assert loop.time() - reader.stalled >= attendance.WRITE_SECONDS
        await asking

    asyncio.run(work())


def test_who_has_read_all_may_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "WRITE_SECONDS", 0.01)

    async def work() -> None:
        agent, reader = seat(), Reader(2)
        writing = asyncio.create_task(agent.write(reader))
        agent.send("round", b"")
        await reader.read.wait()
        await asyncio.sleep(10 * attendance.WRITE_SECONDS)
        assert agent.closing is None
        agent.send("end", b"")
        await writing
        assert reader.left == 0
        rings = [one for one in handles() if one._callback == agent._look]
        assert all(one.cancelled() for one in rings), "an alarm keeps the seat alive"

    asyncio.run(work())


def handles() -> list[Any]:
    loop: Any = asyncio.get_running_loop()
    return list(loop._scheduled)


def test_answers_to_the_last_rounds_may_come_late() -> None:
    agent, message = seat(), b""
    assert 0 not in agent.asked
    for number in (3, 4, 4, 5):
        agent.ask(number, message)
    assert [number for number in range(8) if number in agent.asked] == [3, 4, 5]
    for number in range(6, 30):
        agent.ask(number, message)
    assert list(agent.asked) == list(range(30 - ROUNDS_REMEMBERED, 30))
    assert agent.outbox == {"round": message}
