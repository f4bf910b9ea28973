"""Who comes in, what strangers can hold, and what they leave behind."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from discreet.errors import DiscreetError, PayloadTooLarge, Unavailable
from discreet.installation.postgres import EmbeddedPostgres
from discreet.rpc import admission, server
from discreet.rpc.admission import Messages, Seats, WaitingRoom
from discreet.rpc.interceptors import Checked, Received
from discreet.settings import Settings
from discreet.usecases.services import open_services
from discreet.usecases.sessions import enrolment, rounds
from discreet_client.federation.links import Link
from tests.conftest import eventually
from tests.rpc.conftest import Federation, federation
from tests.rpc.crowds import enrolments, first_messages, memory_of, silence
from tests.rpc.helpers import final, run

SMALL = {"DISCREET_RPC_WAITING": "16", "DISCREET_RPC_STREAMS": "8"}


@pytest.fixture(scope="module")
def small(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Federation]:
    """An rpc process with few places."""
    with federation(postgres, template, tmp_path_factory.mktemp("small"), SMALL) as running:
        yield running


def test_large_first_messages_leave_nothing_behind(small: Federation) -> None:
    """What a crowd brought is given back: of 240 MB, once the first calls have loaded what every
    call needs."""
    pid = small.rpcs[0].pid
    asyncio.run(first_messages(small.rpc_port, 20, 100, at_once=12))
    before = memory_of(pid)
    answers = asyncio.run(first_messages(small.rpc_port, 60, 4_000_000, at_once=12))
    assert answers == Counter({("RESOURCE_EXHAUSTED", "message_too_large"): 60})
    eventually(lambda: memory_of(pid) - before < 24 << 20, "the memory is given back")


@pytest.mark.long
def test_agents_come_in_beside_silent_streams(small: Federation) -> None:
    """Ten times as many silent streams as there are places, on connections that hold 20 each."""
    job = small.submit(agents=2, rounds=2, mode="simulation")
    with silence(small.rpc_port, streams=160, channels=8) as tally:
        agents = run(small, job, 2)
        assert [agent.outcome()["rounds"] for agent in agents] == [2, 2]
        with grpc.insecure_channel(
            f"127.0.0.1:{small.rpc_port}"
        ) as channel:  # probes are let in as well
            assert (
                health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status
                == 1
            )
    assert small.job(job)["state"] == "succeeded"
    assert tally["too_many_streams"] > 0


def test_a_silent_stream_is_closed(small: Federation) -> None:
    with silence(small.rpc_port, streams=2, channels=1) as tally:
        end = time.monotonic() + 60
        while not tally["first_message_late"] and time.monotonic() < end:
            time.sleep(0.05)
    assert tally["first_message_late"]


def test_a_flood_of_enrolments_is_told_to_come_again(small: Federation) -> None:
    job = small.submit(agents=2, rounds=2, mode="simulation")
    session = Link.parse(small.invite(job, 1)[0]).session
    answers = asyncio.run(enrolments(small.rpc_port, 120, session, "guess", at_once=60))
    assert answers.total() == 120
    assert answers.keys() <= {
        ("UNAUTHENTICATED", "wrong_token"),
        ("UNAVAILABLE", "too_many_streams"),
    }
    agents = run(small, job, 2)
    assert [agent.outcome()["state"] for agent in agents] == ["succeeded"] * 2


def test_seats_of_a_roster_are_kept_from_guests(small: Federation) -> None:
    """Guests take all eight seats; a roster of two is signed, and its members take part."""
    waiting = small.submit(agents=8, rounds=2, mode="simulation")
    for number, link in enumerate(small.invite(waiting, 8)):
        small.agent(link, name=f"guest-{number}")
    small.joined(waiting, 8)
    job = small.submit(agents=2, rounds=2, mode="simulation")
    agents = run(small, job, 2)
    assert final(small, job)["state"] == "succeeded"
    with small.client() as client:
        client.cancel(waiting)
    assert [agent.outcome()["state"] for agent in agents] == ["succeeded"] * 2


# By themselves


async def _silent(room: WaitingRoom, connection: str, ends: list[str], name: str) -> None:
    try:
        async with room.visit(connection):
            await asyncio.Event().wait()
    except Unavailable as error:
        ends.append(f"{name} {error.code}")


async def _later() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_fullest_connection_makes_room() -> None:
    async def go() -> list[str]:
        room, ends = WaitingRoom(4), list[str]()
        tasks = []
        for connection, name in (
            ("x", "x1"),
            ("y", "y1"),
            ("x", "x2"),
            ("x", "x3"),
            ("z", "z1"),
            ("x", "x4"),
        ):
            tasks.append(asyncio.create_task(_silent(room, connection, ends, name)))
            await _later()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return ends

    # z1 takes the place of the oldest of x; x4, of a connection that has most, finds nobody who was
    # silent for long.
    assert asyncio.run(go()) == ["x1 too_many_streams", "x4 too_many_streams"]


def test_among_equals_the_oldest_makes_room_when_it_was_silent_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def go() -> list[str]:
        room, ends = WaitingRoom(2), list[str]()
        tasks = []
        for name in ("a", "b", "c", "d"):
            tasks.append(asyncio.create_task(_silent(room, name, ends, name)))
            await _later()
            if name == "c":
                monkeypatch.setattr(admission, "YIELD_SECONDS", 0.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return ends

    assert asyncio.run(go()) == ["c too_many_streams", "a too_many_streams"]


def test_who_has_spoken_is_not_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "YIELD_SECONDS", 0.0)

    class Context:
        said = [b"first", bytes(100)]  # noqa: RUF012

        async def read(self) -> bytes:
            return self.said.pop(0)

    async def go() -> None:
        room = WaitingRoom(1)
        async with room.visit("x") as visitor:
            messages = Messages(Context(), visitor, room, 10)
            messages.most = 99
            assert await anext(messages) == b"first"
            with pytest.raises(Unavailable):
                async with room.visit("y"):
                    pass
            with pytest.raises(PayloadTooLarge) as refusal:
                await anext(messages)
            assert refusal.value.code == "message_too_large"
            messages.seated()
            async with room.visit("y"):
                pass

    asyncio.run(go())


def test_seats() -> None:
    seats, gone = Seats(3), list[str]()

    def guest(name: str) -> None:
        def leave(reason: DiscreetError) -> None:
            gone.append(name)

        seats.seat_guest(name, leave)

    for name in "abc":
        guest(name)
    with pytest.raises(Unavailable):
        guest("d")
    seats.reserve("job", 2)
    assert gone == ["c", "b"]
    with pytest.raises(Unavailable):
        seats.reserve("other", 2)
    seats.free_guest_seat("a")
    guest("e")
    with pytest.raises(Unavailable):
        guest("f")
    seats.free("job")
    seats.reserve("large", 10)  # it would never have room otherwise
    assert gone == ["c", "b", "e"]


class _Deaf:
    """A peer that says Hello to a session that has ended, and reads nothing."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def write(self, _message: Any) -> None:
        self.asked.set()
        await asyncio.Event().wait()


def test_who_does_not_read_how_its_session_ended_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    ended = rounds.Farewell("failed", "agents_absent", b"", b"", 0, charged=False)

    async def enrolled(_services: object, _session: str, _fingerprint: str) -> str:
        return "job_1"

    async def farewell(_services: object, _session: str) -> rounds.Farewell:
        return ended

    monkeypatch.setattr(enrolment, "session_of", enrolled)
    monkeypatch.setattr(rounds, "farewell", farewell)
    monkeypatch.setattr(server, "MOST_PARTING", 2)

    async def hello(agent: str) -> AsyncIterator[Received]:
        yield Received("ses_1", b"", agent, 0, "hello", None)

    async def work() -> None:
        room = WaitingRoom(8)
        async with open_services(settings) as services:
            service = server.Federation(services, None)  # type: ignore[arg-type]

            async def comes(agent: str, context: Any) -> None:
                async with room.visit(agent) as visitor:
                    visitor.arrived()
                    stream = Checked(hello(agent), Messages(context, visitor, room, 100))
                    await service.Participate(stream, context)

            deaf = [_Deaf(), _Deaf()]
            tasks = [
                asyncio.create_task(comes(str(number), one)) for number, one in enumerate(deaf)
            ]
            for one in deaf:
                await one.asked.wait()
            assert not room._there, "they have no place where others come in"
            for again in ("0", "2"):  # one stream an agent, and few in all
                with pytest.raises(Unavailable) as refused:
                    await comes(again, _Deaf())
                assert refused.value.code == "too_many_streams"
            tasks[0].cancel()
            await asyncio.wait(tasks[:1])
            monkeypatch.setattr(server, "WRITE_SECONDS", 0.01)
            with pytest.raises(Unavailable) as late:
                await comes("2", _Deaf())
            assert late.value.code == "not_reading"
            tasks[1].cancel()
            await asyncio.wait(tasks)
            assert not service._parting

    asyncio.run(work())
