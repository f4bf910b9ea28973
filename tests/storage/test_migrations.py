"""Migrations: a new database, one of an earlier version with data in it, beside running processes,
and what other versions are told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import sql

from discreet.errors import Unavailable
from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.storage import migrations, schema
from discreet.storage.database import Database as Pool
from discreet.storage.migrations import migrate
from discreet.storage.schema import (
    WrongSchema,
    check_schema,
    judge,
    oldest_code,
    revisions,
    scripts,
)
from tests.conftest import settings_for
from tests.postgres_fixture import Database, fresh_database, next_revision

ACCEPT = """
SELECT outcome FROM accept_jobs('ten_1', 'owner', ARRAY['acc_1'], 'jobs', 'discreet.run_job',
  jsonb_build_array(jsonb_build_object('key', %(job)s::text, 'digest', '00', 'job', %(job)s::text,
    'kind', 'routing', 'problem', jsonb '{}', 'plan', jsonb '{}', 'total', 1, 'events', '[]',
    'price', jsonb '{"delta": "0", "delta_z": "0", "epsilon": "1", "rho": "1"}')))
"""


@pytest.fixture
def empty(postgres: EmbeddedPostgres) -> Iterator[Database]:
    with fresh_database(postgres, None) as database:
        yield database


def settings_of(database: Database, tmp_path: Path) -> Settings:
    return settings_for(database, tmp_path / "state")


async def ready(settings: Settings) -> None:
    pool = Pool(settings)
    try:
        await check_schema(pool)
    finally:
        await pool.close()


def rows(postgres: EmbeddedPostgres, database: Database, table: str) -> list[dict[str, Any]]:
    with psycopg.connect(postgres.url("postgres", database.name)) as connection:
        query = sql.SQL("SELECT to_jsonb(t) FROM {} AS t ORDER BY to_jsonb(t)::text").format(
            sql.Identifier(table)
        )
        return [row for (row,) in connection.execute(query)]


def everything(postgres: EmbeddedPostgres, database: Database) -> dict[str, list[dict[str, Any]]]:
    """The rows of every table of discreet's."""
    with psycopg.connect(postgres.url("postgres", database.name)) as connection:
        found = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' "
            "AND tablename NOT IN ('alembic_version', 'comes_next')"
        ).fetchall()
    return {table: rows(postgres, database, table) for (table,) in found}


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
        for name in (job, f"{job}x"):
            assert connection.execute(ACCEPT, {"job": name}).fetchone() == ("accepted",)
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        connection.execute("SELECT ledger_touch(%s, 'worker')", [job])
        connection.execute("SELECT ledger_settle(%s, 'worker')", [job])


def chain_holds(postgres: EmbeddedPostgres, database: Database) -> int:
    """The number of entries, after every hash was computed again."""
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
        assert getattr(script.module, "OLDEST", "0001") in revisions()[: known.index(script) + 1]


def test_an_earlier_version_with_data_goes_on_to_the_next_schema(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is there changes; code of before runs on what has only grown, and is told where
    it cannot."""
    settings, ours = settings_of(empty, tmp_path), revisions()[-1]
    assert migrate(settings) == ours
    fill(empty)
    entries, kept = chain_holds(postgres, empty), everything(postgres, empty)
    with monkeypatch.context() as patched:
        after = next_revision(tmp_path, patched)
        assert migrate(settings) == migrate(settings) == after > ours
        assert rows(postgres, empty, "comes_next") == [{"number": 1}]
        asyncio.run(ready(settings))
    now = everything(postgres, empty)
    for row in now["jobs"]:
        assert row.pop("comes_next") is None
    assert now == kept
    asyncio.run(ready(settings))
    fill(empty)
    assert chain_holds(postgres, empty) == entries + 4
    with pytest.raises(WrongSchema, match=f"schemas up to {ours}: a newer discreet"):
        migrate(settings)
    with monkeypatch.context() as patched:
        last = next_revision(tmp_path / "contracts", patched, oldest=after)
        assert oldest_code() == last == after
        with psycopg.connect(empty.owner_url) as connection:
            connection.execute(f"COMMENT ON TABLE alembic_version IS '{after}'".encode())
    with pytest.raises(WrongSchema, match="start the newer version instead"):
        asyncio.run(ready(settings))


def test_the_application_role_may_be_called_anything(
    postgres: EmbeddedPostgres, empty: Database, tmp_path: Path
) -> None:
    role = 'an "app" of ours'
    with psycopg.connect(postgres.url("postgres", empty.name), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
    try:
        url = empty.app_url.replace("discreet_app", quote(role), 1)
        settings = settings_of(empty, tmp_path).model_copy(update={"database_url": url})
        migrate(settings)
        with psycopg.connect(postgres.url("postgres", empty.name)) as connection:
            may = connection.execute(
                "SELECT has_table_privilege(%(role)s, 'ledger_entries', 'SELECT'), "
                "has_table_privilege(%(role)s, 'ledger_entries', 'INSERT'), "
                "has_table_privilege('discreet_app', 'ledger_entries', 'SELECT')",
                {"role": role},
            ).fetchone()
            assert may == (True, False, False)
    finally:
        with psycopg.connect(postgres.url("postgres", empty.name), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


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
    stamp, pauses = migrations.command.stamp, []

    def circle(*arguments: Any) -> None:
        stamp(*arguments)
        if not pauses:
            raise psycopg.errors.DeadlockDetected("deadlock detected")

    monkeypatch.setattr(migrations.command, "stamp", circle)
    settings = settings_of(empty, tmp_path)
    assert migrate(settings, pause=pauses.append) == revisions()[-1]
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
