"""What is asked of much costs no more than of little: counted in rows and pages that the database
looks at."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
import rfc8785
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.installation.postgres import EmbeddedPostgres
from discreet.privacy.filters import Cap
from discreet.settings import Settings
from discreet.storage import audit_log, jobs, ledger_entries, metrics, operations
from discreet.storage.database import SYSTEM, Database, raw
from discreet.usecases import access, budgets, verification
from discreet.usecases.budgets import cap_amounts, filter_limits
from discreet.usecases.services import open_services
from tests.ledgers import EVENT, PRICE
from tests.postgres_fixture import Database as Fresh
from tests.reliability.chains import superuser_url

JOBS = 1000
"""Of three entries each, on one account."""
AT_ALL, EACH = 15, 8
"""Rows and pages that an answer may take, those of sorts and joins among them: for itself, and for
each of its rows."""

LIVES = """
DO $$
BEGIN
  FOR n IN {first} .. {last} LOOP
    PERFORM ledger_reserve('job_' || n, ARRAY['acc_much'], '{price}', '{events}', 'ada');
    PERFORM ledger_touch('job_' || n, 'worker');
    PERFORM ledger_settle('job_' || n, 'worker');
  END LOOP;
END
$$
"""
ENDED = """
INSERT INTO jobs (id, tenant_id, principal, kind, problem, plan, price, state, finished_at)
SELECT 'job_' || n, %(tenant)s, 'ada', 'routing', '{}', '{}', '{}', 'succeeded', now()
FROM generate_series(1, 3000) AS n
"""
WAITING = """
INSERT INTO jobs (id, tenant_id, principal, kind, problem, plan, price, state, created_at)
SELECT 'job_waits_' || n, %(tenant)s, 'ada', 'routing', '{}', to_jsonb(repeat('plan', 400)), '{}',
  'queued', now() - make_interval(secs => n) FROM generate_series(1, 1000) AS n
"""
CHANGED = """
INSERT INTO audit_log (tenant_id, action, principal, role, credential, details)
SELECT %(tenant)s, 'key.create', 'ada', 'owner', 'key', '{}' FROM generate_series(1, 3000)
"""


@pytest.fixture
def much(settings: Settings, database: Fresh) -> tuple[Settings, str, datetime]:
    """An installation with a history; its tenant, and when half of the ledger was written."""

    async def tenant() -> str:
        async with open_services(settings) as services:
            return (await access.local_owner(services)).tenant_id

    owner = asyncio.run(tenant())
    spent = {"price": json.dumps(PRICE.to_json()), "events": rfc8785.dumps([EVENT]).decode()}
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute("SET discreet.tenant = '*'")
        amounts = [json.dumps(part(Cap(10**15, 0))) for part in (cap_amounts, filter_limits)]
        connection.execute(
            "SELECT ledger_open('acc_much', %s, 'data', 'much', 'request', %s, %s, 'owner', NULL)",
            (owner, *amounts),
        )
        connection.execute(LIVES.format(first=1, last=JOBS // 2, **spent).encode())
        half = connection.execute("SELECT clock_timestamp()").fetchone()
        connection.execute(LIVES.format(first=JOBS // 2 + 1, last=JOBS, **spent).encode())
        for filling in (ENDED, CHANGED):
            connection.execute(filling.encode(), {"tenant": owner})
        connection.execute("ANALYZE")
    assert half is not None
    return settings, owner, half[0]


async def read(
    database: Database, scope: str, ask: Callable[[AsyncConnection], Awaitable[Any]]
) -> tuple[int, Any]:
    """What an answer takes, and the answer: each statement is explained and run again."""
    asked: list[tuple[str, Any]] = []

    def hear(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        asked.append((statement, values))

    async with database.transaction(scope) as connection:
        event.listen(database.engine.sync_engine, "after_cursor_execute", hear)
        answer = await ask(connection)
        event.remove(database.engine.sync_engine, "after_cursor_execute", hear)
        driver = await raw(connection)
        work = 0
        for statement, values in asked:
            explained = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode()
            row = await (await driver.execute(explained, values)).fetchone()
            assert row is not None
            plan = row[0][0]["Plan"]
            work += looked_at(plan) + plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return work, answer


def looked_at(plan: dict[str, Any]) -> int:
    """Rows that a plan's nodes gave and threw away, and how often an index was descended."""
    rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    own = int(rows * plan["Actual Loops"]) + plan.get("Index Searches", 0)
    return own + sum(looked_at(part) for part in plan.get("Plans", ()))


def test_answers_look_at_little(much: tuple[Settings, str, datetime]) -> None:
    settings, tenant, half = much
    day = timedelta(days=1)

    def found(**filters: Any) -> Callable[[AsyncConnection], Awaitable[Any]]:
        wanted = {"account_id": None, "kinds": (), "job_id": None, "since": None, "until": None}
        values = wanted | {"after": None} | filters
        return lambda connection: ledger_entries.search(connection, tenant, size=50, **values)

    def changed(**filters: Any) -> Callable[[AsyncConnection], Awaitable[Any]]:
        return lambda connection: audit_log.page(connection, tenant, size=50, **filters)

    questions: dict[str, tuple[Callable[[AsyncConnection], Awaitable[Any]], int]] = {
        "newest": (found(), 50),
        "one kind of many": (found(kinds=("commit",)), 50),
        "a rare kind": (found(kinds=("grant",)), 0),
        "rare kinds": (found(kinds=("open", "grant")), 1),
        "a rare kind of one account": (found(kinds=("release",), account_id="acc_much"), 0),
        "since tomorrow": (found(since=half + day), 0),
        "until yesterday": (found(until=half - day), 0),
        "until the middle": (found(until=half), 50),
        "after the middle": (found(after=(half, "acc_much", 10**9)), 50),
        "one job": (found(job_id="job_7"), 3),
        "newest bodies": (lambda c: ledger_entries.newest(c, "acc_much", 50), 50),
        "what nobody did": (changed(action="tenant.create"), 0),
        "who did nothing": (changed(principal="bo"), 0),
        "a dataset in use": (lambda c: jobs.active_of_dataset(c, "dst_none"), 0),
        "the queue": (operations.queue, 0),
    }

    async def go() -> dict[str, tuple[int, int]]:
        database = Database(settings)
        try:
            counted = {}
            for name, (ask, _) in questions.items():
                scope = SYSTEM if name == "the queue" else tenant
                work, answer = await read(database, scope, ask)
                counted[name] = work, len(answer) if isinstance(answer, list) else 0
            return counted
        finally:
            await database.close()

    counted = asyncio.run(go())
    assert {name: answers for name, (_, answers) in counted.items()} == {
        name: answers for name, (_, answers) in questions.items()
    }
    assert {
        name: work for name, (work, rows) in counted.items() if work > AT_ALL + EACH * rows
    } == {}


def test_jobs_that_wait_are_counted_before_they_are_asked_for(
    much: tuple[Settings, str, datetime], database: Fresh
) -> None:
    """What operators read of a thousand looks at as much as of none, and is exact."""
    settings, tenant, _ = much

    async def go() -> tuple[list[int], Any, metrics.Figures]:
        here = Database(settings)
        try:
            work = [
                (await read(here, SYSTEM, asked))[0]
                for asked in (operations.queue, lambda c: c.execute(metrics.ACTIVE))
            ]
            async with here.transaction(SYSTEM) as connection:
                return work, await operations.queue(connection), await metrics.figures(here)
        finally:
            await here.close()

    none, _, _ = asyncio.run(go())
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        connection.execute("SET discreet.tenant = '*'")
        connection.execute(WAITING.encode(), {"tenant": tenant})
    work, (queue, tenants), figures = asyncio.run(go())
    # What remains: rows that came in one transaction are counted in versions of one row, of which
    # there are some pages until the next that changes it. A look at the jobs would be 1,000 rows.
    assert max(none) < 200
    assert max(work) < max(none) + 45
    assert (queue["queued"], [one["queued"] for one in tenants]) == (1000, [1000])
    assert tenants[0]["oldest_wait_seconds"] == queue["oldest_wait_seconds"] >= 1000
    assert (tenants[0]["share"], queue["leases_over"]) == (1, 0)
    assert figures.jobs == {("routing", "queued"): 1000}
    assert figures.oldest_queued_seconds >= 1000


def test_counts_of_jobs_add_up_whoever_changes_them_at_once(
    much: tuple[Settings, str, datetime], database: Fresh
) -> None:
    """Each of many transactions that are open at once counts in a row of its own and waits for
    none; what is rolled back was not counted, and rows are used again."""
    _, tenant, _ = much
    states = ("queued", "awaiting_agents", "waiting", "running")
    luck = random.Random(22)

    def counted(connection: psycopg.Connection[Any]) -> tuple[list[Any], list[Any]]:
        kept = connection.execute(
            "SELECT kind, sum(queued), sum(awaiting_agents), sum(waiting), sum(running), "
            "sum(queued_since) FROM job_counts GROUP BY kind ORDER BY kind"
        ).fetchall()
        each = ", ".join(f"count(*) FILTER (WHERE state = '{state}')" for state in states)
        since = "sum(extract(epoch FROM created_at)) FILTER (WHERE state = 'queued')"
        found = connection.execute(
            f"SELECT kind, {each}, coalesce({since}, 0) FROM jobs WHERE finished_at IS NULL "  # noqa: S608
            "GROUP BY kind ORDER BY kind".encode()
        ).fetchall()
        return kept, found

    with ExitStack() as stack:
        several = [stack.enter_context(psycopg.connect(database.app_url)) for _ in range(5)]
        for connection in several:
            connection.execute("SELECT set_config('discreet.tenant', %s, false)", [tenant])
            connection.execute("SELECT set_config('lock_timeout', '5s', false)")
            connection.commit()
        made: list[list[str]] = [[] for _ in several]
        for turn in range(60):
            who = luck.randrange(len(several))
            one, own = several[who], made[who]
            if not own or luck.random() < 0.4:
                own.append(f"job_{who}_{turn}")
                one.execute(
                    "INSERT INTO jobs (id, tenant_id, principal, kind, problem, plan, price, state)"
                    " VALUES (%s, %s, 'ada', %s, '{}', '{}', '{}', %s)",
                    [own[-1], tenant, luck.choice(("routing", "mdp")), luck.choice(states)],
                )
            else:
                state = luck.choice((*states, "failed"))
                one.execute(
                    "UPDATE jobs SET state = %s, finished_at = CASE %s WHEN 'failed' THEN now() END"
                    " WHERE id = %s",
                    [state, state, luck.choice(own)],
                )
            if luck.random() < 0.2:
                if luck.random() < 0.3:
                    one.rollback()
                    own.clear()
                else:
                    one.commit()
        for connection in several:
            connection.commit()
        kept, found = counted(several[0])
        assert [row for row in kept if any(row[1:])] == found != []
        ((rows,),) = several[0].execute("SELECT count(*) FROM job_counts").fetchall()
        assert rows <= 2 * len(several)


def test_a_clock_that_was_set_back_hides_no_entry(
    much: tuple[Settings, str, datetime], postgres: EmbeddedPostgres
) -> None:
    """As when a server takes over whose clock is behind: what is written then is earlier by its
    times than what was before in the chain. Pages have all entries once, newest first, and a filter
    has those of its time."""
    settings, tenant, half = much
    with psycopg.connect(superuser_url(postgres, settings), autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE ledger_entries SET at = at - (SELECT max(at) - %s FROM ledger_entries)"
            " WHERE at >= %s",
            (half, half),
        )
        entries = connection.execute("SELECT seq, at FROM ledger_entries").fetchall()
    middle = sorted(at for _, at in entries)[len(entries) // 2]

    async def go(**times: Any) -> list[int]:
        found: list[int] = []
        after = None
        async with open_services(settings) as services:
            owner = await access.local_owner(services)
            async with services.database.transaction(tenant) as connection:
                while True:
                    rows = await ledger_entries.search(
                        connection,
                        owner.tenant_id,
                        account_id=None,
                        kinds=(),
                        job_id=None,
                        **{"since": None, "until": None} | times,
                        after=after,
                        size=500,
                    )
                    found += [row["seq"] for row in rows]
                    if len(rows) < 500:
                        return found
                    after = (rows[-1]["at"], rows[-1]["account_id"], rows[-1]["seq"])

    ordered = [seq for _, seq in sorted(((at, seq) for seq, at in entries), reverse=True)]
    times = dict(entries)
    assert asyncio.run(go()) == ordered != sorted(ordered, reverse=True)
    assert asyncio.run(go(since=middle)) == [seq for seq in ordered if times[seq] >= middle]
    assert asyncio.run(go(until=middle)) == [seq for seq in ordered if times[seq] < middle]


def test_what_was_before_is_one_sum(much: tuple[Settings, str, datetime]) -> None:
    """Of an account with more entries than are drawn the newest are, and all add up."""
    settings, _, _ = much

    async def go() -> budgets.Spending:
        async with open_services(settings) as services:
            owner = await access.local_owner(services)
            return await budgets.history(services, owner, "acc_much")

    spent = asyncio.run(go())
    assert len(spent.lately) == budgets.HISTORY_ENTRIES
    assert spent.lately[-1][1] == 3 * JOBS + 1
    lately = sum(one[5] for one in spent.lately if one[4] == "reserve")
    assert spent.earlier[0] > 0
    assert spent.earlier[0] + lately == PRICE.epsilon * JOBS


def test_who_looks_at_the_ledger_in_passing_waits_for_no_verification(
    much: tuple[Settings, str, datetime],
) -> None:
    settings, _, _ = much
    verifier = verification.Verifier()

    async def go() -> None:
        async with open_services(settings) as services:
            owner = await access.local_owner(services)
            passing = await verifier.look(services, owner, passing=True)
            assert (passing.state, passing.entries) == ("partial", 0)
            whole = await verifier.look(services, owner)
            assert (whole.state, whole.entries) == ("whole", 3 * JOBS + 1)
            assert (await verifier.look(services, owner, passing=True)).state == "whole"

    asyncio.run(go())
