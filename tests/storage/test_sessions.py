"""The state between rounds: kept in one message, under the fencing token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

from sqlalchemy import text

from discreet.problems.numbers import Privacy
from discreet.settings import Settings
from discreet.storage import sessions
from discreet.storage.database import SYSTEM
from discreet.usecases import access, jobs
from discreet.usecases.services import Services, open_services
from tests.rpc import kinds


@asynccontextmanager
async def federated(settings: Settings) -> AsyncIterator[tuple[Services, str, int]]:
    """A session that the process `first` holds: services, job and fencing token."""
    with kinds.registered():
        async with open_services(settings) as services:
            row = await jobs.submit(
                services,
                await access.local_owner(services),
                idempotency_key="one",
                request=b"",
                problem=kinds.NoisySum.model_validate(
                    {"protocol": "federated", "federation": {"agents": 2}}
                ),
                privacy=Privacy(epsilon=Decimal("0.5")),
                seed=None,
            )
            async with services.database.transaction(SYSTEM) as connection:
                taken = await sessions.take(connection, row["id"], "first", 60.0)
            assert taken is not None
            yield services, row["id"], taken[1]["attempt"]


async def keep(services: Services, job: str, attempt: int, number: int) -> bool:
    return await sessions.keep_round(
        services.database,
        job,
        attempt,
        number=number,
        key_id="k'1",
        sealed=b"\0sealed%s",
        transcript=b"\xff" * 32,
    )


async def kept(services: Services, job: str) -> tuple[Any, ...]:
    async with services.database.transaction(SYSTEM) as connection:
        row = await sessions.find(connection, job)
    assert row is not None
    return row["round"], row["content_key_id"], row["sealed"], row["transcript"]


def test_a_round_is_kept_by_the_holder_alone(settings: Settings) -> None:
    async def go() -> None:
        async with federated(settings) as (services, job, attempt):
            before = await kept(services, job)
            assert not await keep(services, job, attempt - 1, 3)
            assert not await keep(services, "job_none", attempt, 3)
            assert await kept(services, job) == before
            assert await keep(services, job, attempt, 3)
            assert await kept(services, job) == (3, "k'1", b"\0sealed%s", b"\xff" * 32)
            async with services.database.transaction(SYSTEM) as connection:
                await connection.execute(
                    text("UPDATE jobs SET state = 'failed' WHERE id = :job"), {"job": job}
                )
            assert not await keep(services, job, attempt, 4)
            assert (await kept(services, job))[0] == 3

    asyncio.run(go())


def test_a_round_that_waits_for_the_next_holder_is_not_kept(settings: Settings) -> None:
    """It was sent before the new token was committed, and is looked at after."""

    async def go() -> None:
        async with federated(settings) as (services, job, attempt):
            await keep(services, job, attempt, 3)
            async with services.database.transaction(SYSTEM) as connection:
                fence = "UPDATE jobs SET attempt = attempt + 1 WHERE id = :job"
                await connection.execute(text(fence), {"job": job})
                late = asyncio.create_task(keep(services, job, attempt, 4))
                # Not pg_stat_activity, which a transaction reads once: who connects later is never
                # in it.
                waiting = (
                    "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = "
                    "ANY(pg_blocking_pids(pid))"
                )
                while not (await connection.execute(text(waiting))).scalar_one():
                    assert not late.done()
                    await asyncio.sleep(0.01)
            assert not await late
            assert (await kept(services, job))[0] == 3
            assert await keep(services, job, attempt + 1, 4)

    asyncio.run(go())


def test_a_round_is_kept_over_connections_that_are_gone(settings: Settings) -> None:
    async def go() -> None:
        async with federated(settings) as (services, job, attempt):
            await asyncio.gather(*(kept(services, job) for _ in range(3)))
            others = (
                "SELECT pg_terminate_backend(pid, 500000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND usename = current_user AND pid <> "
                "pg_backend_pid()"
            )
            async with services.database.transaction(SYSTEM) as connection:
                ended = (await connection.execute(text(others))).scalars().all()
            assert ended
            assert all(ended)
            for number in range(1, 6):
                assert await keep(services, job, attempt, number)
            assert (await kept(services, job))[0] == 5

    asyncio.run(go())
