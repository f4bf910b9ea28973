"""Whose turn it is: tenants that come late, often, or cancel, against one that has filled the queue
or sends long jobs.

Counted, not timed: a queued job waits for so many starts of other jobs. The queue is the real one;
a start is its fetch and the worker's claim.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from procrastinate import App, PsycopgConnector
from sqlalchemy import text

from discreet.privacy.units import Price
from discreet.problems.rehearsals.job import Rehearsal
from discreet.settings import Settings
from discreet.storage import acceptance, jobs, tenants
from discreet.storage.database import SYSTEM, Database
from discreet.storage.queue import LONG_QUEUE, QUEUE, enqueue
from discreet.worker.runner import PlacedJobs

HEAVY = 1500
TENANTS = ("heavy", "steady", "seldom", "late")


class Queue:
    """One database's queue with its tenants; nothing runs but what the test starts."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.numbers = itertools.count(1)
        self.started: list[str] = []
        self.worker = 0

    async def open(self) -> None:
        async with self.database.transaction(SYSTEM) as connection:
            for name in TENANTS:
                await tenants.add_tenant(connection, name, name)
            registered = await connection.execute(
                text("SELECT * FROM procrastinate_register_worker_v1()")
            )
            self.worker = registered.scalar_one()

    async def submit(
        self, tenant: str, count: int = 1, seconds: float | None = None, **more: Any
    ) -> list[str]:
        """`seconds`: what the plan gives to a release; None: no plan that says so."""
        plan = {} if seconds is None else {"resources": {"release_quantum_seconds": seconds}}
        made = []
        for _ in range(count):
            job = f"job_{tenant}_{next(self.numbers)}"
            order = acceptance.JobOrder(
                key=job,
                digest=bytes(32),
                job_id=job,
                dataset_id=None,
                kind="routing",
                problem="{}",
                plan=json.dumps(plan),
                seed=None,
                steps=1,
                price=Price.zero().to_json(),
                events="[]",
                **more,
            )
            found = await acceptance.submit(
                self.database, order, tenant_id=tenant, principal="p", accounts=[]
            )
            assert found.outcome == "accepted"
            made.append(job)
        return made

    async def start(self, *, end: bool = True) -> str:
        """The next job begins, and by default ends at once; the tenant whose turn it was."""
        async with self.database.transaction(SYSTEM) as connection:
            fetched = await connection.execute(
                text("SELECT id, queueing_lock FROM procrastinate_fetch_job_v2(NULL, :worker)"),
                {"worker": self.worker},
            )
            entry, job = fetched.one()
            assert job is not None, "the queue is empty"
            row = await jobs.claim(connection, job, 60.0)
            assert row is not None
            if end:
                await jobs.end(connection, job, "succeeded")
            await connection.execute(
                text("DELETE FROM procrastinate_jobs WHERE id = :entry"), {"entry": entry}
            )
        self.started.append(job)
        return str(row["tenant_id"])

    async def cancel(self, job: str) -> None:
        async with self.database.transaction(SYSTEM) as connection:
            await jobs.end(connection, job, "cancelled")
            await connection.execute(
                text("DELETE FROM procrastinate_jobs WHERE queueing_lock = :job"), {"job": job}
            )


def run(settings: Settings, work: Callable[[Queue], Awaitable[None]]) -> None:
    async def go() -> None:
        database = Database(settings)
        try:
            queue = Queue(database)
            await queue.open()
            await work(queue)
        finally:
            await database.close()

    asyncio.run(go())


def test_a_full_queue_delays_the_others_by_their_fair_share_at_most(settings: Settings) -> None:
    """With n tenants at work a job that has p of its own tenant before it waits for n (p + 1)
    starts at most."""

    async def work(queue: Queue) -> None:
        draw = random.Random(1)
        await queue.submit("heavy", HEAVY)
        for _ in range(20):
            assert await queue.start() == "heavy"
        waiting: dict[str, tuple[int, int]] = {}
        waits: Counter[str] = Counter()
        for number in range(300):
            for tenant in TENANTS[1:]:
                count = {
                    "steady": 1,
                    "seldom": int(number % 20 == 0),
                    "late": 3 * int(number == 100),
                }[tenant]
                for job in await queue.submit(tenant, count if draw.random() < 0.7 else 0):
                    before = sum(name.split("_")[1] == tenant for name in waiting)
                    waiting[job] = (before, len(queue.started))
            await queue.start()
            if (job := queue.started[-1]) in waiting:
                before, since = waiting.pop(job)
                waits[job.split("_")[1]] += 1
                assert len(queue.started) - since <= len(TENANTS) * (before + 1), job
        assert set(waits) >= {"steady", "seldom"}
        assert sum(waits.values()) > 100

    run(settings, work)


def test_who_comes_while_a_long_job_runs_does_not_pass_those_who_wait(settings: Settings) -> None:
    async def work(queue: Queue) -> None:
        await queue.submit("heavy", 200)
        # With the smallest tag of all, and runs for ever.
        assert await queue.start(end=False) == "heavy"
        for _ in range(100):
            await queue.start()
        await queue.submit("late", 50)
        turns = [await queue.start() for _ in range(40)]
        assert abs(turns.count("late") - turns.count("heavy")) <= 2, turns

    run(settings, work)


def test_what_was_cancelled_or_waits_for_agents_took_no_turn(settings: Settings) -> None:
    async def work(queue: Queue) -> None:
        for job in await queue.submit("seldom", 100):
            await queue.cancel(job)
        sessions = [
            (await queue.submit("late", 1, session_id=f"ses_{number}", terms={}, budget={}))[0]
            for number in range(100)
        ]
        async with queue.database.transaction(
            SYSTEM
        ) as connection:  # a session that has begun, as its coordinator says
            begun = text(
                "UPDATE jobs SET state = 'running', started_at = now() WHERE id = :job RETURNING "
                "fair_tag"
            )
            assert (await connection.execute(begun, {"job": sessions[-1]})).scalar_one() == 0
        await queue.submit("heavy", 50)
        await queue.submit("seldom", 5)
        await queue.submit("late", 5)
        turns = Counter([await queue.start() for _ in range(15)])
        assert turns == {"heavy": 5, "seldom": 5, "late": 5}

    run(settings, work)


def test_a_turn_costs_the_seconds_that_a_job_is_planned_to_take(settings: Settings) -> None:
    """Short jobs of others pass a tenant's next long one until they have had the seconds of its
    last."""

    async def work(queue: Queue) -> None:
        await queue.submit("heavy", 3, seconds=30.0)
        assert await queue.start() == "heavy"
        await queue.submit("late", 100, seconds=0.3125)
        turns = [await queue.start() for _ in range(70)]
        assert [place for place, tenant in enumerate(turns) if tenant == "heavy"] == [30, 61]

    run(settings, work)


def test_what_follows_the_release_counts_where_the_plan_knows_it(settings: Settings) -> None:
    """A rehearsal costs nobody anything and holds a place for a minute."""
    asked = Rehearsal.model_validate(Rehearsal.example()["problem"])
    plans = (
        asked.plan(None, asked.budget(None)).model_dump(mode="json"),
        {},
        {"resources": {"result_seconds": 0.5}},
    )

    async def work(queue: Queue) -> None:
        cost = text(
            "SELECT planned_seconds(CAST(:plan AS jsonb)), queue_of('jobs', CAST(:plan AS jsonb))"
        )
        async with queue.database.transaction(SYSTEM) as connection:
            found = [
                (await connection.execute(cost, {"plan": json.dumps(plan)})).one() for plan in plans
            ]
        assert [tuple(one) for one in found] == [(61, LONG_QUEUE), (1, QUEUE), (1, QUEUE)]

    run(settings, work)


def test_long_jobs_of_whoever_leave_a_place_of_every_worker_free(settings: Settings) -> None:
    async def work(queue: Queue) -> None:
        app = App(connector=PsycopgConnector(conninfo=queue.database.url))
        both = [LONG_QUEUE, QUEUE]
        async with app.open_async():

            async def fetched(placed: PlacedJobs) -> Any:
                job = await placed.fetch_job(both, queue.worker)
                return None if job is None else job.queueing_lock

            two, one = PlacedJobs(app.connector, 2), PlacedJobs(app.connector, 1)
            long = await queue.submit("heavy", 4, seconds=1800.0)
            assert await fetched(two) == long[0]
            assert await fetched(two) is None  # though three wait, and a place is free
            assert await fetched(one) == long[1]  # all of one place is for all
            short = await queue.submit("late", 1, seconds=60.0)
            assert await fetched(two) == short[0]
            entry = text("SELECT id FROM procrastinate_jobs WHERE queueing_lock = :job")
            async with queue.database.transaction(SYSTEM) as connection:
                held = (await connection.execute(entry, {"job": long[0]})).scalar_one()
                two.ended(held)
                await connection.execute(
                    text("DELETE FROM procrastinate_jobs WHERE queueing_lock = :job"),
                    {"job": long[0]},
                )
                await enqueue(
                    connection, long[0], priority=1
                )  # as one that is handed back: where it was
            assert await fetched(two) == long[0]
            assert await fetched(two) is None
            # One that turns out to be long when it runs counts as well, and once.
            other = PlacedJobs(app.connector, 2)
            assert [other.takes_long(one) for one in (7, 7, 8)] == [True, True, False]
            assert await fetched(other) is None
            other.ended(7)
            assert other.takes_long(8)

    run(settings, work)
