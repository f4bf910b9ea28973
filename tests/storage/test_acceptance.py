"""Jobs are accepted together where they would wait for each other, each as if it had come alone."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import (
    acceptance,
    datasets,
    jobs,
    ledger,
    queue,
    secrets,
    tamper_seals,
    tenants,
)
from discreet.storage.acceptance import JobOrder, Submission
from discreet.storage.database import SYSTEM, Database, libpq_url
from discreet.storage.secrets import SecretsFile
from discreet.usecases.budgets import cap_amounts, filter_limits
from tests.conftest import DEADLINE_SECONDS

CAP = Cap(10**9, 0)
PRICE = Price.pure(100_000_000)
"""Ten of them fit."""


def order(name: str, **more: Any) -> JobOrder:
    made = JobOrder(
        key=name,
        digest=b"\0\xff" * 16,
        job_id=f"job_{name}",
        dataset_id=None,
        kind="routing",
        problem='{"kind": "routing", "name": "a \\"quoted\\" ünit\\n"}',
        plan='{"noise": 1e-05}',
        seed=None,
        steps=3,
        price=PRICE.to_json(),
        events='[{"mechanism":"discrete_laplace","neighbours":"a \\"quoted\\" ünit"}]',
    )
    return replace(made, **more)


async def submit(database: Database, one: JobOrder, *accounts: str) -> Submission:
    return await acceptance.submit(
        database, one, tenant_id="ten_1", principal="p", accounts=accounts or ("acc_1",)
    )


def run(settings: Settings, work: Callable[[Database], Awaitable[None]]) -> None:
    async def go() -> None:
        database = Database(settings)
        try:
            async with database.transaction(SYSTEM) as connection:
                await tenants.add_tenant(connection, "ten_1", "one")
                for name in ("acc_1", "acc_2", "acc_3"):
                    await ledger.open_account(
                        connection,
                        name,
                        tenant_id="ten_1",
                        scope="data",
                        subject=name,
                        unit="request",
                        cap=cap_amounts(CAP),
                        filters=filter_limits(CAP),
                        actor="owner",
                    )
            await work(database)
        finally:
            await database.close()

    asyncio.run(go())


def statements(database: Database) -> list[str]:
    """Every statement of this database's connections from now on."""
    seen: list[str] = []
    event.listen(
        database.engine.sync_engine, "before_cursor_execute", lambda *call: seen.append(call[2])
    )
    return seen


async def count(database: Database, table: str) -> int:
    async with database.transaction(SYSTEM) as connection:
        return int((await connection.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one())  # noqa: S608


def test_a_crowd_goes_in_few_statements_and_never_over_the_cap(settings: Settings) -> None:
    async def work(database: Database) -> None:
        seen = statements(database)
        found = await asyncio.gather(
            *(submit(database, order(f"a{number}")) for number in range(40))
        )
        assert Counter(one.outcome for one in found) == {"accepted": 10, "refused": 30}
        assert [one.outcome for one in found[:10]] == ["accepted"] * 10  # who came first
        refused = found[-1].balances
        assert [(one.account_id, one.totals["epsilon"], one.admitted) for one in refused] == [
            ("acc_1", 10**9, False)
        ]
        asked = [one for one in seen if "accept_jobs" in one]
        assert len(asked) == -(-40 // acceptance.MOST_TOGETHER)
        async with database.transaction(SYSTEM) as connection:
            tags = (
                (await connection.execute(text("SELECT fair_tag FROM jobs ORDER BY fair_tag")))
                .scalars()
                .all()
            )
            stored = await jobs.find(connection, "job_a0")
            entries = await ledger.entries(connection, "acc_1", after=1, size=100)
        assert tags == list(range(1, 11))  # each took a turn of its own
        assert stored is not None
        assert (stored["problem"], stored["plan"]) == (
            json.loads(order("").problem),
            {"noise": 1e-05},
        )
        assert [json.loads(one["body"])["job"] for one in entries] == [
            f"job_a{number}" for number in range(10)
        ]
        assert json.loads(entries[0]["body"])["events"] == json.loads(order("").events)
        assert {
            await count(database, name)
            for name in ("jobs", "idempotent_requests", "procrastinate_jobs")
        } == {10}

    run(settings, work)


def test_the_same_key_at_once_is_one_job(settings: Settings) -> None:
    async def work(database: Database) -> None:
        ahead = submit(database, order("first"))
        same = [submit(database, order("twice", job_id=f"job_{number}")) for number in range(5)]
        other = submit(database, order("twice", job_id="job_other", digest=b"other"))
        found = await asyncio.gather(ahead, *same, other)
        assert Counter(one.outcome for one in found) == {"accepted": 2, "known": 4, "reused": 1}
        assert {one.job_id for one in found[1:]} == {"job_0"}
        assert await count(database, "jobs") == 2

    run(settings, work)


def test_one_that_fails_takes_nobody_with_it(settings: Settings) -> None:
    async def work(database: Database) -> None:
        ahead = submit(database, order("ahead"))
        good = [submit(database, order(f"good{number}")) for number in range(3)]
        bad = submit(database, order("bad", price={**PRICE.to_json(), "rho": "-1"}))
        found = await asyncio.gather(
            ahead, *good, bad, submit(database, order("last")), return_exceptions=True
        )
        assert [getattr(one, "outcome", None) for one in found] == ["accepted"] * 4 + [
            None,
            "accepted",
        ]
        assert isinstance(found[4], DBAPIError)
        assert "non-negative integers" in str(found[4])
        assert await count(database, "jobs") == 5

    run(settings, work)


def test_accounts_in_any_order_end_without_a_deadlock(settings: Settings) -> None:
    async def work(database: Database) -> None:
        pairs = [
            ("acc_1", "acc_2"),
            ("acc_2", "acc_1"),
            ("acc_3", "acc_1"),
            ("acc_2", "acc_3"),
            ("acc_1",),
        ]
        second = Database(settings)  # another process
        try:
            small = Price.pure(1_000_000).to_json()
            found = await asyncio.gather(
                *(
                    submit(
                        where, order(f"{number}{place}", price=small), *pairs[number % len(pairs)]
                    )
                    for number in range(60)
                    for place, where in enumerate((database, second))
                )
            )
        finally:
            await second.close()
        assert {one.outcome for one in found} == {"accepted"}
        async with database.transaction(SYSTEM) as connection:
            after = await ledger.balances(connection, ["acc_1", "acc_2", "acc_3"])
        assert {name: one.totals["epsilon"] for name, one in after.items()} == {
            "acc_1": 96_000_000,
            "acc_2": 72_000_000,
            "acc_3": 48_000_000,
        }

    run(settings, work)


def test_who_goes_away_stops_nothing(settings: Settings) -> None:
    async def work(database: Database) -> None:
        calls = [asyncio.create_task(submit(database, order(f"a{number}"))) for number in range(4)]
        await asyncio.sleep(0)
        calls[0].cancel()
        calls[2].cancel()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [getattr(one, "outcome", None) for one in found] == [
            None,
            "accepted",
            None,
            "accepted",
        ]
        assert (await submit(database, order("a5"))).outcome == "accepted"

    run(settings, work)


@pytest.mark.parametrize(
    "gone", ["deleted_at = now()", "expires_at = now()", "delete_after_job = true"]
)
def test_a_dataset_that_is_not_offered_is_gone(settings: Settings, gone: str) -> None:
    async def work(database: Database) -> None:
        async with database.transaction("ten_1") as connection:
            await datasets.add(
                connection,
                [],
                id="dst_1",
                tenant_id="ten_1",
                account_id="acc_1",
                name="n",
                kind="routing",
                public={},
                mode="private",
                digest=b"d",
                content_key_id="k",
            )
        assert (await submit(database, order("before", dataset_id="dst_1"))).outcome == "accepted"
        async with database.transaction("ten_1") as connection:
            await connection.execute(text("UPDATE jobs SET state = 'succeeded'"))
            await connection.execute(text(f"UPDATE datasets SET {gone}"))  # noqa: S608
        assert (
            await submit(database, order("after", dataset_id="dst_1"))
        ).outcome == "dataset_gone"
        assert (await submit(database, order("before", dataset_id="dst_1"))).outcome == "known"
        assert await count(database, "jobs") == 1

    run(settings, work)


def test_few_chunks_of_a_content_are_in_memory_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many it has: a gigabyte of them was."""
    asked: list[int] = []
    fetch = psycopg.AsyncServerCursor.fetchmany

    async def counted(cursor: Any, size: int = 0) -> Any:
        asked.append(size)
        return await fetch(cursor, size)

    monkeypatch.setattr(psycopg.AsyncServerCursor, "fetchmany", counted)

    async def work(database: Database) -> None:
        async with database.transaction("ten_1") as connection:
            await datasets.add(
                connection,
                (bytes([number]) for number in range(200)),
                id="dst_1",
                tenant_id="ten_1",
                account_id="acc_1",
                name="n",
                kind="routing",
                public={},
                mode="private",
                digest=b"d",
                content_key_id="k",
            )
        async with database.transaction("ten_1") as connection:
            found = [chunk[0] async for chunk in datasets.chunks(connection, "dst_1")]
        assert found == list(range(200))
        assert asked
        assert max(asked) <= datasets.CHUNKS_AT_ONCE

    run(settings, work)


def test_workers_and_listeners_are_told_after_the_commit(settings: Settings) -> None:
    async def heard(connection: psycopg.AsyncConnection[Any], wanted: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        async for news in connection.notifies(timeout=DEADLINE_SECONDS, stop_after=wanted):
            found.append((news.channel, news.payload))
        return found

    async def work(database: Database) -> None:
        worker, *_ = queue.WAKE_WORKERS
        async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as listener:
            for channel in (acceptance.CHANNEL, worker):
                await listener.execute(f'LISTEN "{channel}"'.encode())
            assert (await submit(database, order("told"))).outcome == "accepted"
            told = dict(await heard(listener, 2))
            assert told[acceptance.CHANNEL] == "job_told"
            assert json.loads(told[worker])["type"] == "job_inserted"
            # What is put on the queue by others, and by older versions beside this one, still tells
            # in its transaction.
            async with database.transaction(SYSTEM) as connection:
                await connection.execute(text("DELETE FROM procrastinate_jobs"))
                await queue.enqueue(connection, "job_told", 0)
            ((channel, payload),) = await heard(listener, 1)
            assert (channel, json.loads(payload)["type"]) == (worker, "job_inserted")

    run(settings, work)


def test_the_last_news_are_told_before_the_pool_closes(settings: Settings) -> None:
    async def go() -> str:
        async with await psycopg.AsyncConnection.connect(
            libpq_url(settings.database_url or ""), autocommit=True
        ) as listener:
            await listener.execute("LISTEN news")
            database = Database(settings)
            database.tell({"news": "one"})
            database.tell({"news": "two"})
            await database.close()
            async for news in listener.notifies(timeout=DEADLINE_SECONDS, stop_after=1):
                return news.payload
        return "nothing"

    assert asyncio.run(go()) == "two"


def test_trace_seal_and_session_are_kept(settings: Settings) -> None:
    async def work(database: Database) -> None:
        carried = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        made = order(
            "s",
            seal="5ea1",
            traceparent=carried,
            session_id="ses_1",
            terms={"agents": 3},
            budget={"epsilon": "1"},
        )
        found = await acceptance.submit(
            database, made, tenant_id="ten_1", principal="p", accounts=[]
        )
        assert found.row is not None
        assert found.row["state"] == "awaiting_agents"
        assert abs((found.row["created_at"] - datetime.now(UTC)).total_seconds()) < 3600
        async with database.transaction("ten_1") as connection:
            row = await jobs.find(connection, "job_s")
            assert row is not None
            assert (row["traceparent"], row["tamper_seal"]) == (carried, "5ea1")
            seen = await jobs.events(connection, "job_s", 0)
            terms = (await connection.execute(text("SELECT terms, budget FROM sessions"))).one()
        assert [one["details"]["state"] for one in seen] == ["queued", "awaiting_agents"]
        assert tuple(terms) == ({"agents": 3}, {"epsilon": "1"})
        assert await count(database, "procrastinate_jobs") == 0

    run(settings, work)


@pytest.mark.parametrize("objects", [None, (), ("net_1",)])
def test_who_names_no_object_does_not_even_look_at_what_jobs_name(
    settings: Settings, objects: Any
) -> None:
    """With the table locked away from all, a job that names none is accepted, as is one of code
    that knows of none; one that names something would wait."""

    async def work(database: Database) -> None:
        async with database.transaction("ten_1") as connection:
            add = (
                "INSERT INTO public_objects VALUES ('ten_1', 'net_1', 'network', 'n', '{}', '', "
                "'p')"
            )
            await connection.execute(text(add))
        url = settings.migration_database_url
        assert url is not None
        async with await psycopg.AsyncConnection.connect(libpq_url(url)) as other:
            await other.execute("LOCK TABLE job_objects IN ACCESS EXCLUSIVE MODE")
            one = json.loads(acceptance._order_text(order("o", objects=objects or ())))
            if objects is None:
                del one["objects"]
            async with database.transaction("ten_1") as connection:
                await connection.execute(text("SET LOCAL lock_timeout = '1s'"))
                accept = (
                    "accept_jobs('ten_1', 'p', ARRAY['acc_1'], 'jobs', 'run', CAST(:o AS jsonb))"
                )
                ask = text(f"SELECT outcome FROM {accept}")  # noqa: S608
                if objects:
                    with pytest.raises(DBAPIError, match="lock timeout"):
                        await connection.execute(ask, {"o": json.dumps([one])})
                    return
                assert (
                    await connection.execute(ask, {"o": json.dumps([one])})
                ).scalar_one() == "accepted"

    run(settings, work)


def test_a_seal_made_of_texts_is_that_of_the_row(tmp_path: Path) -> None:
    """MAC over the canonical JSON of `[job, seed]`, with the whole job in one object."""
    secrets.create(tmp_path / "secrets.json")
    keys = SecretsFile(tmp_path / "secrets.json").current
    job = {
        "id": "job_1",
        "tenant_id": "ten_1",
        "dataset_id": None,
        "kind": "routing",
        "problem": {"z": [1.5, 2, 'a "quoted" ünit\n'], "a": {"b": None}},
        "plan": {"noise": 1e-05, "large": 2**53},
        "price": PRICE.to_json(),
    }
    said = json.dumps(
        [{**job, "plan": {"noise": 1e-05, "large": 2.0**53}}, "7"],
        sort_keys=True,
        separators=(",", ":"),
    )
    assert keys.job_key_id is not None
    expected = hmac.digest(
        keys.job_keys[keys.job_key_id], b"discreet/job/v2\0" + said.encode(), hashlib.sha256
    ).hex()
    assert tamper_seals.seal_job(keys, {**job, "seed": 7}) == f"{keys.job_key_id}:{expected}"
