"""Migrations: up and down with data in them, beside running processes, and what other versions are
told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import rfc8785
import sqlalchemy
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import sql

from discreet.errors import Unavailable
from discreet.installation.local import _DATASET, _JOB
from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger.chain import Chain
from discreet.ledger.entries import entry_line
from discreet.privacy.filters import Cap
from discreet.settings import Settings
from discreet.storage import acceptance, audit_log, migrations, schema
from discreet.storage.database import Database as Pool
from discreet.storage.database import may_be_other_schema
from discreet.storage.migrations import migrate
from discreet.storage.schema import (
    WrongSchema,
    check_schema,
    judge,
    oldest_code,
    revisions,
    scripts,
)
from discreet.usecases import access, datasets, jobs, running
from discreet.usecases.budgets import cap_amounts, filter_limits
from discreet.usecases.services import open_services
from discreet.web.bodies import validate
from discreet.web.uploads import whole_registration
from tests import bodies
from tests.conftest import eventually, settings_for
from tests.ledgers import EVENT, PRICE
from tests.postgres_fixture import Database, fresh_database

KEPT = (
    "accounts",
    "datasets",
    "idempotent_requests",
    "job_events",
    "jobs",
    "keys",
    "ledger_entries",
    "tenants",
)
"""Tables of the foundation, whose rows no later migration may lose."""

SUBMIT = """
SELECT outcome FROM submit_job('ten_1', 'owner', %(job)s, '\\x00', %(job)s, NULL, 'routing', '{}',
  '{}', NULL, 1, ARRAY['acc_1'], '{"delta": "0", "delta_z": "0", "epsilon": "1", "rho": "1"}', '[]',
  'jobs', 'discreet.run_job', 'discreet_jobs', NULL, NULL, NULL)
"""
ACCEPT = """
SELECT outcome FROM accept_jobs('ten_1', 'owner', ARRAY['acc_1'], 'jobs', 'discreet.run_job',
  jsonb_build_array(jsonb_build_object('key', %(job)s::text, 'digest', '00', 'job', %(job)s::text,
    'kind', 'routing', 'problem', jsonb '{}', 'plan', jsonb '{}', 'total', 1, 'events', '[]',
    'price', jsonb '{"delta": "0", "delta_z": "0", "epsilon": "1", "rho": "1"}')))
"""
"""How code of schema 0001 and of 0006 accepts a job."""


@pytest.fixture
def empty(postgres: EmbeddedPostgres) -> Iterator[Database]:
    with fresh_database(postgres, None) as database:
        yield database


def settings_of(database: Database, tmp_path: Path) -> Settings:
    return settings_for(database, tmp_path / "state")


def rows(postgres: EmbeddedPostgres, database: Database, table: str) -> list[dict[str, Any]]:
    with psycopg.connect(postgres.url("postgres", database.name)) as connection:
        query = sql.SQL("SELECT to_jsonb(t) FROM {} AS t ORDER BY to_jsonb(t)::text").format(
            sql.Identifier(table)
        )
        found = [row for (row,) in connection.execute(query)]
    if table == "job_events":  # a column that 0008 renamed
        found = [
            {"data" if name == "details" else name: value for name, value in row.items()}
            for row in found
        ]
    return found


def columns(found: list[dict[str, Any]], names: set[str]) -> list[str]:
    return sorted(
        json.dumps({name: row.get(name) for name in sorted(names)}, default=str) for row in found
    )


def fill(database: Database) -> None:
    """A tenant with an account, and jobs in its queue: one that was settled, one that was only
    reserved."""
    with psycopg.connect(database.app_url) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        connection.execute(
            "INSERT INTO tenants (id, name) VALUES ('ten_1', 'one') ON CONFLICT DO NOTHING"
        )
        exists = connection.execute("SELECT FROM accounts WHERE id = 'acc_1'").fetchone()
        if exists is None:
            amounts = dict.fromkeys(("delta", "epsilon"), "1000000")
            limits = {"basic": {"delta": "1000000", "epsilon": "1000000"}}
            connection.execute(
                "SELECT ledger_open('acc_1', 'ten_1', 'data', 'subject', 'person', %s, %s, "
                "'owner', NULL)",
                [json.dumps(amounts), json.dumps(limits)],
            )
        job = f"job_{uuid.uuid4().hex[:26]}"
        newer = connection.execute(
            "SELECT count(*) FROM pg_proc WHERE proname = 'accept_jobs'"
        ).fetchone() == (1,)
        for name in (job, f"{job}x"):
            said = connection.execute(ACCEPT if newer else SUBMIT, {"job": name}).fetchone()
            assert said == ("accepted",)
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        connection.execute("SELECT ledger_touch(%s, 'worker')", [job])
        connection.execute("SELECT ledger_settle(%s, 'worker')", [job])


def chain_holds(postgres: EmbeddedPostgres, database: Database) -> int:
    """The number of entries, after every hash was computed again."""
    import hashlib

    found = sorted(
        rows(postgres, database, "ledger_entries"), key=lambda row: (row["account_id"], row["seq"])
    )
    previous: dict[str, bytes] = {}
    for row in found:
        before = previous.get(row["account_id"], bytes(32))
        assert row["previous_hash"] == "\\x" + before.hex()
        previous[row["account_id"]] = hashlib.sha256(before + row["body"].encode()).digest()
        assert row["hash"] == "\\x" + previous[row["account_id"]].hex()
    return len(found)


def test_numbers_are_a_line() -> None:
    config = Config()
    config.set_main_option("script_location", str(scripts()))
    known = list(ScriptDirectory.from_config(config).walk_revisions())[::-1]
    assert tuple(script.revision for script in known) == revisions()
    assert [script.down_revision for script in known] == [None, *revisions()[:-1]]
    for script in known:
        assert Path(script.path).name.startswith(f"{script.revision}_")
        assert len(script.revision) == 4
        assert script.revision.isdigit()
        oldest = getattr(script.module, "OLDEST", "0001")
        assert oldest in revisions()
        assert oldest <= script.revision
    assert oldest_code(revisions()[0]) == "0001"


def test_up_with_data_down_and_up_again(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path
) -> None:
    settings = settings_of(empty, tmp_path)
    migrate(settings, "0001")
    fill(empty)
    first = {table: rows(postgres, empty, table) for table in KEPT}
    names = {table: {name for row in found for name in row} for table, found in first.items()}
    entries = chain_holds(postgres, empty)
    assert entries == 5
    for revision in revisions()[1:]:  # one by one, as installations were upgraded
        assert migrate(settings, revision) == revision
        for table in KEPT:
            assert columns(rows(postgres, empty, table), names[table]) == columns(
                first[table], names[table]
            ), table
    fill(empty)
    assert chain_holds(postgres, empty) == entries + 4
    kept = {table: rows(postgres, empty, table) for table in KEPT}
    for revision in revisions()[-2::-1]:
        if migrate_refuses(settings, revision):
            migrate(settings, revision, down=True)
        assert chain_holds(postgres, empty) == entries + 4
    fill(empty)  # older code works on what a downgrade leaves
    assert migrate(settings) == revisions()[-1]
    assert migrate(settings) == revisions()[-1]
    fill(empty)
    assert chain_holds(postgres, empty) == entries + 12
    for table in KEPT:
        now = columns(rows(postgres, empty, table), names[table])
        assert set(columns(kept[table], names[table])) <= set(now), table
    asyncio.run(ready(settings))


def test_there_is_no_way_back_from_a_chain_of_blocks(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path
) -> None:
    """A downgrade would lose what was spent on blocks: it changes nothing."""
    settings = settings_of(empty, tmp_path)
    migrate(settings, "0024")
    fill(empty)
    with psycopg.connect(empty.app_url) as connection:
        connection.execute("SELECT set_config('discreet.tenant', 'ten_1', false)")
        connection.execute("SELECT ledger_open_chain('acc_s', 'ten_1', 'request')")
    with pytest.raises(WrongSchema, match="there is no way back"):
        migrate(settings, "0023", down=True)
    assert [row["version_num"] for row in rows(postgres, empty, "alembic_version")] == ["0024"]
    fill(empty)
    assert chain_holds(postgres, empty) > 0


def test_sums_of_blocks_go_into_pages_and_back(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path
) -> None:
    """Each schema goes on with what the other left, and the chain binds what both made of it."""
    settings = settings_of(empty, tmp_path)
    migrate(settings, "0025")
    fill(empty)
    jobs_made = 0

    def sums() -> list[dict[str, Any]]:
        return sorted(rows(postgres, empty, "block_sums"), key=lambda row: row["number"])

    def spend(connection: psycopg.Connection[Any]) -> None:
        nonlocal jobs_made
        for first, last, settled in ((1, 40, False), (3, 38, True), (5, 5, False), (31, 36, True)):
            jobs_made += 1
            job = f"job_block_{jobs_made}"
            blocks = [f"acc_s.{number}" for number in range(first, last + 1)]
            connection.execute(
                "SELECT * FROM ledger_reserve(%s, %s, %s, %s, 'p')",
                [job, blocks, json.dumps(PRICE.to_json()), rfc8785.dumps([EVENT]).decode()],
            )
            if settled:
                connection.execute("SELECT ledger_touch(%s, 'worker')", [job])
                connection.execute("SELECT ledger_settle(%s, 'worker')", [job])

    with psycopg.connect(empty.app_url, autocommit=True) as connection:
        connection.execute("SELECT set_config('discreet.tenant', 'ten_1', false)")
        connection.execute("SELECT ledger_open_chain('acc_s', 'ten_1', 'request')")
        for number in range(40):
            cap = Cap((100 if number else 90) * PRICE.epsilon, 0)
            amounts = [json.dumps(cap_amounts(cap)), json.dumps(filter_limits(cap))]
            connection.execute("SELECT ledger_open_block('acc_s', %s, %s, 'o', 'b')", amounts)
        spend(connection)
        for schema_after, down in (
            *(("0026", False), ("0025", True), ("0026", False)),
            *(("0030", False), ("0026", True), ("0030", False)),
        ):
            before = sums()
            migrate(settings, schema_after, down=down)
            assert sums() == before
            spend(connection)
    chain = Chain("ten_1", "acc_s")
    for row in sorted(rows(postgres, empty, "ledger_entries"), key=lambda row: row["seq"]):
        if row["account_id"] == "acc_s":
            line = (bytes.fromhex(row[name][2:]) for name in ("hash", "previous_hash"))
            chain.follow(entry_line(row["body"], *line))
    assert [(row["number"], row["epsilon"], row["reserved_epsilon"]) for row in sums()] == [
        (number, block.totals["epsilon"], block.reserved["epsilon"])
        for number, block in sorted(chain.blocks.items())
    ]
    assert chain.blocks[5].totals["epsilon"] == 21 * PRICE.epsilon


SOURCE_OF_0032 = """
INSERT INTO sources (id, tenant_id, name, kind, public, mode, block_by, cap_of, cap, block_bytes,
  chain_id, created_by)
VALUES ('src_' || %(s)s, 'ten_1', %(s)s, 'routing', '{}', 'private', 'label', 'block', '{}', 1024,
  'acc_' || %(s)s, 'owner')
"""
VERSION_OF_0032 = """
INSERT INTO datasets (id, tenant_id, account_id, name, kind, public, mode, digest, content_key_id,
  source_id, block, version)
VALUES ('dst_' || %(s)s || %(n)s, 'ten_1', 'acc_' || %(s)s || '.1', 'b', 'routing', '{}', 'private',
  sha256(convert_to(%(s)s || %(n)s, 'UTF8')), 'key', 'src_' || %(s)s, 'block', %(n)s)
"""
ON_BLOCKS = """
SELECT outcome FROM accept_jobs('ten_1', 'owner', ARRAY[%(account)s], 'jobs', 'discreet.run_job',
  jsonb_build_array(jsonb_build_object('key', %(job)s::text, 'digest', '00', 'job', %(job)s::text,
    'kind', 'routing', 'problem', jsonb '{}', 'plan', jsonb '{}', 'total', 1, 'events', '[]',
    'price', jsonb '{"delta": "0", "delta_z": "0", "epsilon": "1", "rho": "1"}',
    'blocks', to_jsonb(%(blocks)s::text[]))))
"""
"""How code of schema 0032 registers versions of blocks, and accepts a job on them."""


def test_rows_that_name_blocks_become_sets_and_rows_again(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path
) -> None:
    """Code of before goes on in between, a job of which is being accepted when the migration
    begins: whatever a job reads is known in each schema, and its use of a share counted once."""
    settings = settings_of(empty, tmp_path)
    migrate(settings, "0032")
    fill(empty)
    named: set[tuple[str, str]] = set()

    def accept(connection: psycopg.Connection[Any], job: str, *blocks: str) -> None:
        versions = [f"dst_{block}" for block in blocks]
        values = {"job": job, "account": f"acc_{blocks[0][0]}.1", "blocks": versions}
        assert connection.execute(ON_BLOCKS, values).fetchone() == ("accepted",)
        named.update((job, version) for version in versions)

    def state() -> tuple[set[tuple[str, str]], list[tuple[str, int]]]:
        found = rows(postgres, empty, "job_blocks")
        assert {row["tenant_id"] for row in found} == {"ten_1"}
        uses = rows(postgres, empty, "source_uses")
        kept = {(row["job_id"], row["dataset_id"]) for row in found}
        return kept, [(row["source_id"], row["epsilon"]) for row in uses]

    with (
        psycopg.connect(empty.app_url, autocommit=True) as old,
        psycopg.connect(empty.app_url) as late,
        psycopg.connect(postgres.url("postgres", "postgres"), autocommit=True) as watcher,
    ):
        for connection in (old, late):
            connection.execute("SELECT set_config('discreet.tenant', 'ten_1', false)")
            connection.commit()
        amounts = [json.dumps(part(Cap(10**6, 0))) for part in (cap_amounts, filter_limits)]
        for source, versions in (("a", 3), ("b", 2)):
            chain = f"acc_{source}"
            old.execute("SELECT ledger_open_chain(%s, 'ten_1', 'request')", [chain])
            old.execute("SELECT ledger_open_block(%s, %s, %s, 'o', 'b')", [chain, *amounts])
            old.execute(SOURCE_OF_0032, {"s": source})
            for number in range(1, versions + 1):
                old.execute(VERSION_OF_0032, {"s": source, "n": number})
        old.execute(
            "INSERT INTO source_rules (source_id, version, tenant_id, shares, lent_days, "
            "created_by) VALUES ('src_a', 1, 'ten_1', '{}', 28, 'o')"
        )
        accept(old, "job_1", "a1", "a3")
        accept(old, "job_2", "b2")
        accept(late, "job_3", "a2", "a3")
        failed: list[Exception] = []

        def up() -> None:
            try:
                migrate(settings)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=up)
        thread.start()
        waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
        eventually(
            lambda: watcher.execute(waits, [empty.name]).fetchone() is not None,
            "the migration waits for who accepts",
        )
        late.commit()
        thread.join()
        assert failed == []
        assert state() == (named, [("src_a", 2)])
        old.execute(VERSION_OF_0032, {"s": "a", "n": 4})
        accept(old, "job_4", "a4", "a1", "a2")
        accept(old, "job_5", "b2", "b1")
        assert state() == (named, [("src_a", 3)])
        numbers = "SELECT source_id, array_agg(number ORDER BY version) FROM datasets GROUP BY 1"
        assert dict(old.execute(numbers).fetchall()) == {"src_a": [1, 2, 3, 4], "src_b": [1, 2]}

        migrate(settings, "0032", down=True)
        assert state() == (named, [("src_a", 3)])
        accept(old, "job_6", "a4")
        old.execute("UPDATE jobs SET state = 'cancelled' WHERE id IN ('job_1', 'job_2')")
        assert state() == (named, [("src_a", 3)])

        migrate(settings)
        assert state() == (named, [("src_a", 3)])
        old.execute("UPDATE jobs SET state = 'cancelled' WHERE id IN ('job_3', 'job_6')")
        assert state() == (named, [("src_a", 1)])


@pytest.mark.parametrize(
    ("since", "to"), [("0025", "0026"), ("0026", "0025"), ("0029", "0030"), ("0030", "0029")]
)
def test_what_is_granted_while_sums_go_into_pages_is_kept(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path, since: str, to: str
) -> None:
    """A process of before has lowered a cap, and not yet committed, when the migration begins, and
    another one waits behind both: the cap stands, and nobody waits in a circle."""
    settings = settings_of(empty, tmp_path)
    migrate(settings, since)
    fill(empty)
    wide, narrow = (
        [json.dumps(cap_amounts(cap)), json.dumps(filter_limits(cap))]
        for cap in (Cap(100 * PRICE.epsilon, 0), Cap(PRICE.epsilon, 0))
    )
    job = [json.dumps(PRICE.to_json()), rfc8785.dumps([EVENT]).decode()]
    watched = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
    )
    outcomes: list[object] = []

    def attempt(what: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                outcomes.append(what())
            except Exception as error:
                outcomes.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    with (
        psycopg.connect(empty.app_url) as granter,
        psycopg.connect(empty.app_url) as other,
        psycopg.connect(postgres.url("postgres", "postgres"), autocommit=True) as watcher,
    ):

        def waiting(many: int) -> bool:
            return watcher.execute(watched, [empty.name]).fetchone() == (many,)

        for connection in (granter, other):
            connection.execute("SELECT set_config('discreet.tenant', 'ten_1', false)")
            connection.commit()
        granter.execute("SELECT ledger_open_chain('acc_s', 'ten_1', 'request')")
        for _ in range(2):
            granter.execute("SELECT ledger_open_block('acc_s', %s, %s, 'o', 'b')", wide)
        granter.execute(
            "SELECT * FROM ledger_reserve('job_a', '{acc_s.1,acc_s.2}', %s, %s, 'p')", job
        )
        granter.commit()
        granter.execute("SELECT ledger_grant('acc_s.1', %s, %s, 'o', 'less')", narrow)
        threads = [attempt(lambda: migrate(settings, to, down=to < since))]
        eventually(lambda: waiting(1), "the migration waits for who grants")
        threads.append(
            attempt(lambda: other.execute("SELECT ledger_touch('job_a', 'w')").fetchall())
        )
        eventually(lambda: waiting(2), "another one waits behind it")
        granter.commit()
        for thread in threads:
            thread.join()
        assert sorted(map(str, outcomes)) == [to, "[('',)]"]
        other.commit()
        admitted = other.execute(
            "SELECT admitted FROM ledger_reserve('job_b', '{acc_s.1}', %s, %s, 'p')", job
        ).fetchall()
        assert admitted == [(False,)]
        caps = other.execute("SELECT cap ->> 'epsilon' FROM block_sums ORDER BY number").fetchall()
        assert caps == [(str(PRICE.epsilon),), (str(100 * PRICE.epsilon),)]


CLAIM_OF_0007 = (
    """UPDATE jobs SET state = 'running', attempt = attempt + 1,
      lease_until = now() + interval '1 min' WHERE id = %s RETURNING id""",
    "SELECT data FROM job_events WHERE job_id = %s AND seq = -1",
)
"""What a worker of schema 0007 says of a job from its second attempt on; at the first it adds an
event before."""


def test_jobs_of_the_version_before_run_after_the_upgrade(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their MACs and traces are found where they are now; a worker of before takes none of them,
    and says why."""
    settings = settings_of(empty, tmp_path)
    migrate(settings, "0007")
    said = str(acceptance._ACCEPT).replace(
        ", reusable", ", NULL AS reusable"
    )  # which came with 0009
    said = said.replace("log_require(:tenant, :seen_size, :seen_root)", ":tenant")  # with 0016
    monkeypatch.setattr(acceptance, "_ACCEPT", sqlalchemy.text(said))

    async def not_yet(*_: object, **__: object) -> None:
        """The audit log came with 0017."""

    monkeypatch.setattr(audit_log, "note", not_yet)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def before() -> tuple[str, str]:
        async with open_services(settings) as services:
            owner = await access.local_owner(services)
            body = validate(_DATASET, bodies.dataset(mode="private")).root
            row, _ = await datasets.register(services, owner, whole_registration(body))
            request = validate(_JOB, bodies.job(row["id"]))
            made = [
                await jobs.submit(
                    services,
                    owner,
                    idempotency_key=key,
                    request=key.encode(),
                    problem=request.problem,
                    privacy=request.privacy,
                    seed=request.seed,
                )
                for key in ("one", "two")
            ]
            return made[0]["id"], made[1]["id"]

    since = (
        *("source_id text", "block text", "version integer"),  # with 0019
        *("stays text", "place bytea", "seen_at timestamptz"),  # with 0031
        "number integer",  # with 0034
        "revision integer DEFAULT 1",  # with 0036
    )
    administrator_url = postgres.url("postgres", empty.name)
    with psycopg.connect(administrator_url, autocommit=True) as administrator:
        for column in since:
            administrator.execute(f"ALTER TABLE datasets ADD COLUMN {column}".encode())
        administrator.execute(
            "CREATE TABLE dataset_revisions AS SELECT id AS dataset_id, tenant_id, digest, "
            "created_at AS corrected_at FROM datasets"
        )
        administrator.execute("GRANT SELECT ON dataset_revisions TO PUBLIC")
    whole, swapped = asyncio.run(before())
    with psycopg.connect(administrator_url, autocommit=True) as administrator:
        for column in since:
            administrator.execute(f"ALTER TABLE datasets DROP COLUMN {column.split()[0]}".encode())
        administrator.execute("DROP TABLE dataset_revisions")
        administrator.execute(
            "INSERT INTO job_events VALUES (%s, 0, 'trace', %s)",
            [whole, json.dumps({"traceparent": trace})],
        )
        administrator.execute(
            """UPDATE job_events SET data = other.data FROM job_events AS other
            WHERE job_events.job_id = %s AND other.job_id = %s
              AND job_events.seq = -1 AND other.seq = -1""",
            [swapped, whole],
        )
    kept = rows(postgres, empty, "job_events")
    assert [row["seq"] for row in kept].count(-1) == 2
    migrate(settings, "0008")
    migrate(settings, "0007", down=True)
    assert rows(postgres, empty, "job_events") == kept
    assert migrate(settings) == revisions()[-1]
    assert {row["seq"] for row in rows(postgres, empty, "job_events")} == {1}

    with psycopg.connect(empty.app_url) as old:
        old.execute("SET discreet.tenant = '*'")
        old.execute(CLAIM_OF_0007[0].encode(), [whole])
        with pytest.raises(psycopg.errors.UndefinedColumn) as refused:
            old.execute(CLAIM_OF_0007[1].encode(), [whole])
        assert may_be_other_schema(refused.value)
    present, oldest = (
        rows(postgres, empty, "alembic_version")[0]["version_num"],
        oldest_code(revisions()[-1]),
    )
    with pytest.raises(WrongSchema, match="start the newer version instead"):
        judge("0007", present, oldest)

    async def after() -> None:
        async with open_services(settings) as services:
            held = await running.claim(services, whole)
            assert held is not None
            assert (held.attempt, held.traceparent) == (1, trace)
            assert await running.open_content(services, held)
            assert await running.claim(services, swapped) is None
            ended = await jobs.find(services, await access.local_owner(services), swapped)
            assert ended["error_code"] == "job_altered"

    asyncio.run(after())


def migrate_refuses(settings: Settings, revision: str) -> bool:
    with pytest.raises(WrongSchema, match=f"going back to {revision} needs --down"):
        migrate(settings, revision)
    return True


async def ready(settings: Settings) -> None:
    pool = Pool(settings)
    try:
        await check_schema(pool)
    finally:
        await pool.close()


def test_an_installation_without_its_migrations_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "scripts", lambda: tmp_path)
    with pytest.raises(WrongSchema, match="its migrations are missing"):
        revisions()


def test_many_at_once_migrate_once(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path
) -> None:
    settings, errors = settings_of(empty, tmp_path), []

    def run() -> None:
        try:
            migrate(settings)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [row["version_num"] for row in rows(postgres, empty, "alembic_version")] == [
        revisions()[-1]
    ]


def test_long_transaction_is_neither_waited_for_nor_broken(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds a table, a migration gives way to, and tries again; in the end it changes
    nothing."""
    monkeypatch.setattr(migrations, "LOCK_SECONDS", 1)
    monkeypatch.setattr(migrations, "LOCK_TRIES", 3)
    monkeypatch.setattr(migrations, "WAIT_SECONDS", 0.0)
    settings, pauses = settings_of(database, tmp_path), []
    with psycopg.connect(database.owner_url) as holder:
        holder.execute("LOCK TABLE alembic_version IN ACCESS SHARE MODE")  # what any reader holds
        holder.execute("LOCK TABLE alembic_version IN SHARE UPDATE EXCLUSIVE MODE")
        with pytest.raises(Unavailable, match="in use by long transactions; nothing was changed"):
            migrate(settings, pause=pauses.append)
        assert pauses == [1.0, 1.0]
        assert holder.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)

        def let_go(_: float) -> None:
            holder.rollback()

        assert migrate(settings, pause=let_go) == revisions()[-1]
    with psycopg.connect(
        database.owner_url
    ) as holder:  # another process that migrates is waited for, not for ever
        holder.execute("SELECT pg_advisory_lock(%s)", [migrations._MIGRATION_LOCK])
        with pytest.raises(Unavailable, match="another process has been migrating"):
            migrate(settings, pause=lambda _: None)


def test_a_migration_that_waits_in_a_circle_tries_again(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL ends one of those who wait for each other, and that may be the migration."""
    upgrade, pauses = migrations.command.upgrade, []

    def circle(*arguments: Any) -> None:
        upgrade(*arguments)
        if not pauses:
            raise psycopg.errors.DeadlockDetected("deadlock detected")

    monkeypatch.setattr(migrations.command, "upgrade", circle)
    settings = settings_of(empty, tmp_path)
    assert migrate(settings, "0001", pause=pauses.append) == "0001"
    assert pauses == [1.0]
    fill(empty)
    assert chain_holds(postgres, empty) > 0


def test_newer_database_is_left_alone(
    postgres: EmbeddedPostgres, database: Database, tmp_path: Path
) -> None:
    settings = settings_of(database, tmp_path)
    with psycopg.connect(postgres.url("postgres", database.name), autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    names = {"database_url": database.app_url, "migration_database_url": database.owner_url}
    done = subprocess.run(
        [sys.executable, "-m", "discreet", "migrate"],
        env={**os.environ, **{f"DISCREET_{name.upper()}": url for name, url in names.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    newest = revisions()[-1]
    assert done.stderr == (
        f"discreet: the database has schema 9999, this version knows schemas up to "
        f"{newest}: a newer discreet has migrated it; use that version\n"
    )
    with pytest.raises(WrongSchema, match="there is no schema 7777"):
        migrate(settings, "7777")
    asyncio.run(ready(settings))  # a newer schema that says nothing else has only grown


def test_database_without_tables(empty: Database, tmp_path: Path) -> None:
    with pytest.raises(WrongSchema, match="no tables of discreet: run `discreet migrate`"):
        asyncio.run(ready(settings_of(empty, tmp_path)))


@pytest.mark.parametrize(
    ("ours", "present", "oldest", "message"),
    [
        ("0002", "0002", "0001", None),
        ("0001", "0002", "0001", None),  # the next version's schema, while processes are replaced
        ("0001", "0003", None, None),
        ("0002", "0001", "0001", "this version needs 0002: run `discreet migrate`"),
        ("0002", None, None, "has schema none"),
        ("0001", "0003", "0002", "older ones than 0002 cannot use; this process has 0001"),
    ],
)
def test_which_code_runs_on_which_schema(
    ours: str, present: str | None, oldest: str | None, message: str | None
) -> None:
    if message is None:
        judge(ours, present, oldest)
    else:
        with pytest.raises(WrongSchema, match=message):
            judge(ours, present, oldest)
