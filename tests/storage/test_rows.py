"""Row-level security: a query that forgets its WHERE sees its own tenant, and one without a tenant
sees nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from sqlalchemy import insert, text

from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import (
    acceptance,
    audit_log,
    datasets,
    jobs,
    ledger,
    log,
    objects,
    reads,
    results,
    sources,
    tenants,
    waits,
    webhooks,
)
from discreet.storage.database import SYSTEM, Database, libpq_url
from discreet.storage.people_tables import Identity
from discreet.storage.tables import Base, DatasetRevision
from discreet.storage.tenants import Principal
from discreet.storage.wait_tables import JobWait, SourceUse
from discreet.usecases.budgets import cap_amounts, filter_limits

CAP = Cap(10**9, 0)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
TABLES = tuple(Base.metadata.tables)
OWNED = ("one", "two")
SHARED = (
    "log_nodes",
    "log_checkpoints",
    "log_cosignatures",
    "log_origin",
    "processes",
    "backups",
    "job_shares",
)
"""What the installation's processes alone see; without rows here, but for the name of the log."""
SALT = b"sixteen bytes..."
SOURCE = {
    **{
        "name": "s",
        "kind": "routing",
        "public": {},
        "mode": "private",
        "block_by": "day",
        "cap_of": "block",
    },
    **{"cap": {}, "block_bytes": 1, "created_by": "p"},
}


async def fill(database: Database) -> None:
    """Two tenants with a row in every table."""
    for name in OWNED:
        async with database.transaction(SYSTEM) as connection:
            await tenants.add_tenant(connection, name, name)
            await tenants.add_key(
                connection,
                id=f"key_{name}",
                tenant_id=name,
                principal="p",
                role="owner",
                lookup=name,
                mac=b"m",
                pepper_id="x",
            )
        async with database.transaction(name) as connection:
            await ledger.open_account(
                connection,
                f"acc_{name}",
                tenant_id=name,
                scope="data",
                subject=f"acc_{name}",
                unit="request",
                cap=cap_amounts(CAP),
                filters=filter_limits(CAP),
                actor="owner",
            )
            await datasets.add(
                connection,
                [b"chunk"],
                id=f"dst_{name}",
                tenant_id=name,
                account_id=f"acc_{name}",
                name="n",
                kind="routing",
                public={},
                mode="private",
                digest=name.encode(),
                content_key_id="k",
            )
            content = {
                "type": "network",
                "name": "n",
                "sizes": {},
                "content": b"{}",
                "created_by": "p",
            }
            await objects.add(connection, tenant_id=name, id="net_one", **content)
            await reads.add(
                connection,
                [b"chunk"],
                id=f"read_{name}",
                tenant_id=name,
                principal="p",
                format="csv",
                plain_bytes=1,
                sealed_bytes=1,
                content_key_id="k",
                wrapped_key=b"wrapped",
                expires_at=LATER,
            )
        assert (await submit(database, name, f"dst_{name}", f"acc_{name}")).outcome == "accepted"
        async with database.transaction(name) as connection:
            await connection.execute(text(ASKED.format(name=name)))
            await jobs.store_release(connection, f"job_{name}", 1, "k", b"sealed")
            await results.publish(connection, f"job_{name}", b"{}", {}, {"table": b"parquet"})
            await add_session(connection, name)
            await webhooks.add(
                connection,
                id=f"whk_{name}",
                tenant_id=name,
                url="https://example.org",
                events=["job.finished"],
                content_key_id="k",
                sealed_secret=b"sealed",
            )
            await webhooks.announce(connection, name, "job.finished", "job", {})
            for add in (tenants.add_session, tenants.add_link):
                await add(
                    connection,
                    mac=name.encode(),
                    tenant_id=name,
                    key_id=f"key_{name}",
                    expires_at=LATER,
                )
            person = insert(Identity).values(
                id=f"per_{name}", tenant_id=name, issuer="i", subject="s", role="owner"
            )
            await connection.execute(person)
            await sources.add(connection, **SOURCE, id=f"src_{name}", tenant_id=name)
            await ledger.open_chain(connection, f"acc_of_{name}", tenant_id=name, unit="request")
            await ledger.open_block(
                connection,
                f"acc_of_{name}",
                cap=cap_amounts(CAP),
                filters=filter_limits(CAP),
                actor="owner",
                reason="block 1",
            )
            rule = {"source_id": f"src_{name}", "version": 1, "tenant_id": name}
            said = {"shares": {"p": 10**6}, "lent_days": 1, "created_by": "p"}
            await waits.add_rule(connection, **rule, **said)  # which leaves a wake
            for row in (
                insert(DatasetRevision).values(
                    dataset_id=f"dst_{name}",
                    revision=1,
                    tenant_id=name,
                    digest=b"before",
                    public={},
                    corrected_by="p",
                ),
                insert(SourceUse).values(
                    source_id=f"src_{name}",
                    block="b",
                    principal="p",
                    tenant_id=name,
                    epsilon=1,
                    delta=0,
                    rho=1,
                    delta_z=0,
                ),
                insert(JobWait).values(
                    job_id=f"job_{name}",
                    source_id=f"src_{name}",
                    tenant_id=name,
                    place=0.0,
                    until=LATER,
                    next_try=LATER,
                    block="b",
                ),
            ):
                await connection.execute(row)
            await audit_log.note(
                connection, Principal(name, "p", "owner", f"key_{name}"), "key.create"
            )
    async with database.transaction(SYSTEM) as connection:
        await log.append(
            connection, [SALT, SALT, SALT, SALT]
        )  # of six entries: all three of the first, one of the second


ASKED = """INSERT INTO budget_requests (id, tenant_id, account_id, principal, more, reason)
    VALUES ('req_{name}', '{name}', 'acc_{name}', 'p', '{{}}', 'r')"""


async def add_session(connection: Any, name: str) -> None:
    """A federated session with a token, an agent and a group; no job waits for it."""
    rows = {
        "sessions": {
            "job_id": f"job_{name}",
            "id": f"ses_{name}",
            "tenant_id": name,
            "terms": "{}",
            "budget": "{}",
        },
        "session_tokens": {
            "mac": name.encode(),
            "job_id": f"job_{name}",
            "expires_at": "2030-01-01",
        },
    }
    agent = {
        "fingerprint": "f",
        "name": "a",
        "public_key": b"k",
        "account_id": f"acc_{name}",
        "unit": "request",
    }
    rows["session_agents"] = {"job_id": f"job_{name}", **agent, "announcement": "{}"}
    rows["group_members"] = {"tenant_id": name, "group_name": "g", **agent, "announcement": "{}"}
    for table, row in rows.items():
        names = ", ".join(row)
        values = ", ".join(
            f"CAST(:{key} AS jsonb)" if value == "{}" else f":{key}" for key, value in row.items()
        )
        await connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)  # noqa: S608


async def submit(
    database: Database, tenant: str, dataset: str, account: str, job: str | None = None
) -> Any:
    order = acceptance.JobOrder(
        key=job or "key",
        digest=bytes(32),
        job_id=job or f"job_{tenant}",
        dataset_id=dataset,
        kind="routing",
        problem="{}",
        plan="{}",
        seed=None,
        steps=1,
        price=Price.pure(1).to_json(),
        events="[]",
        objects=("net_one",) if job is None else (),
    )
    return await acceptance.submit(
        database, order, tenant_id=tenant, principal="p", accounts=[account]
    )


def run(settings: Settings, work: Any) -> Any:
    async def go() -> Any:
        database = Database(settings)
        try:
            await fill(database)
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(go())


async def counts(database: Database, scope: str) -> dict[str, int]:
    async with database.transaction(scope) as connection:
        return {
            table: (await connection.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one()  # noqa: S608
            for table in TABLES
        }


def test_queries_without_where_see_their_own_tenant(settings: Settings) -> None:
    async def work(database: Database) -> list[dict[str, int]]:
        return [await counts(database, scope) for scope in ("one", "three", "", SYSTEM)]

    own, stranger, nobody, system = run(settings, work)
    logged = dict.fromkeys(SHARED, 0) | {"log_leaves": 3, "log_pending": 0}
    ledger_rows = {"accounts": 3, "ledger_entries": 3}
    assert own == dict.fromkeys(TABLES, 1) | ledger_rows | logged
    assert stranger == nobody == dict.fromkeys(TABLES, 0)
    everything = {"log_origin": 1, "log_leaves": 4, "log_pending": 2}
    assert system == {table: 2 * count for table, count in own.items()} | everything
    assert settings.database_url is not None
    assert settings.migration_database_url is not None
    for url in (
        settings.database_url,
        settings.migration_database_url,
    ):  # no tenant set, and the owner role as well
        with psycopg.connect(libpq_url(url)) as connection:
            for table in TABLES:
                counted = connection.execute(f"SELECT count(*) FROM {table}".encode())  # noqa: S608
                assert counted.fetchone() == (0,)


def test_every_table_is_guarded(settings: Settings) -> None:
    assert settings.migration_database_url is not None
    with psycopg.connect(libpq_url(settings.migration_database_url)) as connection:
        guarded = connection.execute(
            "SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity AND relkind "
            "= 'r'"
        ).fetchall()
    assert {row[0] for row in guarded} == set(TABLES)


def test_other_tenants_rows_cannot_be_written(settings: Settings) -> None:
    async def work(database: Database) -> None:
        async with database.transaction("one") as connection:
            for statement in (
                "UPDATE jobs SET state = 'failed' WHERE tenant_id = 'two'",
                "DELETE FROM dataset_chunks WHERE dataset_id = 'dst_two'",
                "UPDATE keys SET revoked_at = now() WHERE tenant_id = 'two'",
                "UPDATE sessions SET round = 9 WHERE tenant_id = 'two'",
                "UPDATE session_tokens SET used_by = 'me'  WHERE job_id = 'job_two'",
                "DELETE FROM group_members WHERE tenant_id = 'two'",
            ):
                assert (await connection.execute(text(statement))).rowcount == 0
        for statement in (
            "INSERT INTO keys (id, tenant_id, principal, role, lookup, mac, pepper_id) VALUES "
            "('k', 'two', 'p', 'owner', 'l', '', 'x')",
            "INSERT INTO job_events (job_id, seq, event, details) VALUES ('job_two', 9, 'state', "
            "'{}')",
            "INSERT INTO dataset_chunks (dataset_id, index, sealed) VALUES ('dst_two', 9, '')",
            "SELECT ledger_open('a', 'two', 'data', 'x', 'u', '{\"epsilon\": \"1\", \"delta\": "
            "\"1\"}', '{}', '', '')",
        ):
            with pytest.raises(Exception, match="row-level security"):
                async with database.transaction("one") as connection:
                    await connection.execute(text(statement.replace(": ", r"\: ")))

    run(settings, work)


def test_the_ledgers_functions_stay_in_the_tenant(settings: Settings) -> None:
    """They run as the owner of the tables, and still see one tenant only."""

    async def work(database: Database) -> None:
        with pytest.raises(Exception, match="missing or named twice"):
            await submit(database, "one", "dst_one", "acc_two", "job_x")
        assert (
            await submit(database, "one", "dst_two", "acc_one", "job_x")
        ).outcome == "dataset_gone"
        async with database.transaction("one") as connection:
            assert await ledger.settle(connection, "job_two", "p") == []
        with pytest.raises(Exception, match="reserved nothing"):
            async with database.transaction("one") as connection:
                await ledger.touch(connection, "job_two", "p")
        with pytest.raises(Exception, match="no rows"):
            async with database.transaction("one") as connection:
                await ledger.grant(
                    connection,
                    "acc_two",
                    cap=cap_amounts(CAP),
                    filters=filter_limits(CAP),
                    actor="p",
                    reason="mine",
                )

    run(settings, work)


def test_the_scope_ends_with_its_transaction(settings: Settings) -> None:
    async def work(database: Database) -> None:
        async with database.transaction("one") as connection:
            assert (await connection.execute(text("SELECT count(*) FROM jobs"))).scalar_one() == 1
        assert (await tenants.find_key(database, "two")) is not None
        async with database.engine.connect() as connection:
            assert (await connection.execute(text("SELECT count(*) FROM jobs"))).scalar_one() == 0
        async with database.transaction("one") as connection:
            await tenants.find_key(database, "two")
            await connection.execute(text("SELECT fair_tag('one')"))
            assert (await connection.execute(text("SELECT count(*) FROM jobs"))).scalar_one() == 1

    run(settings, work)


def test_connections_that_the_server_closed_are_passed_over(settings: Settings) -> None:
    async def work(database: Database) -> None:
        all_of_them = asyncio.Barrier(5)

        async def hold() -> None:
            async with database.transaction("one"):
                await all_of_them.wait()  # so that each has a connection of its own

        await asyncio.gather(*(hold() for _ in range(5)))
        assert settings.migration_database_url is not None
        kill = (
            # returns when it is gone
            "SELECT pg_terminate_backend(pid, 500000) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = "
            "current_database()"
        )
        with psycopg.connect(libpq_url(settings.database_url or ""), autocommit=True) as connection:
            assert len(connection.execute(kill).fetchall()) >= 5
        async with database.transaction("one") as connection:
            assert (await connection.execute(text("SELECT count(*) FROM jobs"))).scalar_one() == 1
        with psycopg.connect(libpq_url(settings.database_url or ""), autocommit=True) as connection:
            connection.execute(kill)
        assert await tenants.find_key(database, "two") is not None

    run(settings, work)


def test_a_snapshot_sees_one_moment_and_writes_nothing(settings: Settings) -> None:
    async def work(database: Database) -> None:
        async with database.transaction("one", snapshot=True) as connection:
            before = await ledger.heads(connection, "one")
            assert (
                await submit(database, "one", "dst_one", "acc_one", "job_later")
            ).outcome == "accepted"
            assert await ledger.heads(connection, "one") == before
            with pytest.raises(Exception, match="read-only"):
                await connection.execute(text("UPDATE jobs SET step = 1"))
        async with database.transaction("one") as connection:
            assert [seq for _, seq, _ in await ledger.heads(connection, "one")] == [1, 3]

    run(settings, work)
