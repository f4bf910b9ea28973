"""`migrations/current` is what the database is: equal to a migrated one, with every column
explained once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, LiteralString, get_args

import psycopg
import pytest
from procrastinate.schema import SchemaManager

from discreet.installation.postgres import EmbeddedPostgres
from discreet.storage import (  # noqa: F401 - whose tables are declared there
    log_tables,
    object_tables,
    operation_tables,
    people_tables,
    session_tables,
    source_tables,
    wait_tables,
)
from discreet.storage.jobs import FINAL
from discreet.storage.schema import scripts
from discreet.storage.tables import Base, JobState
from tests.postgres_fixture import Database, fresh_database

QUEUE_SHA256 = "c70ec4b400a60ad9592787653aae5ae77ae41bf801d56b5bd2712751a07f2009"
"""Of the queue's own schema, which migration 0001 takes from the library: see the test that reads
it."""

ABSENT_BEFORE_17 = "MAINTAIN"

CATALOGUES: dict[str, LiteralString] = {
    "columns": """
        SELECT table_name, column_name, data_type, character_maximum_length, is_nullable,
          column_default
        FROM information_schema.columns WHERE table_schema = 'public'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",  # 'n': columns say it
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "functions": """
        SELECT pg_get_functiondef(oid), proowner::regrole::text FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'""",
    "triggers": "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "row security": """
        SELECT c.relname, c.relkind, c.relowner::regrole::text, c.relrowsecurity,
          c.relforcerowsecurity, p.polname, p.polcmd, p.polpermissive,
          pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)
        FROM pg_class AS c LEFT JOIN pg_policy AS p ON p.polrelid = c.oid
        WHERE c.relnamespace = 'public'::regnamespace""",
    "rights on tables": """
        SELECT c.relname, a.grantee::regrole::text, a.privilege_type, a.is_grantable
        FROM pg_class AS c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS a
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'S')""",
    "rights on columns": """
        SELECT attrelid::regclass::text, attname, a.grantee::regrole::text, a.privilege_type
        FROM pg_attribute, aclexplode(attacl) AS a""",
    "rights on functions": """
        SELECT p.oid::regprocedure::text, a.grantee::regrole::text, a.privilege_type
        FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
        WHERE p.pronamespace = 'public'::regnamespace""",
}
COMMENTS: LiteralString = """
    SELECT c.relname, a.attname, d.description FROM pg_description AS d
    JOIN pg_class AS c ON c.oid = d.objoid AND c.relnamespace = 'public'::regnamespace
    LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0
    WHERE d.classoid = 'pg_class'::regclass AND c.relname NOT LIKE 'procrastinate%'
      AND d.description <> '' AND NOT (c.relname = 'alembic_version' AND d.objsubid = 0)
"""


def current() -> str:
    """The whole schema, in the order in which its files can be run."""
    return "\n".join(path.read_text() for path in sorted((scripts() / "current").glob("*.sql")))


def explained() -> dict[tuple[str, str | None], str]:
    """What the files say of each table (column None) and of each column; the empty text where they
    say nothing."""
    found: dict[tuple[str, str | None], str] = {}
    above: list[str] = []
    table = None
    for line in current().splitlines():
        if table is None:
            if begins := re.match(r"CREATE TABLE (\w+) \($", line):
                table = begins[1]
                found[table, None] = " ".join(above)
            above = [*above, line[3:]] if line.startswith("-- ") else []
        elif line == ");":
            table = None
        elif column := re.match(r"  ([a-z]\w*) [^-]*?(?:--  ?(.*))?$", line):
            found[table, column[1]] = column[2] or ""
    return found


def catalogues(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    connection.execute("SET search_path = public")
    return {name: sorted(map(str, connection.execute(query))) for name, query in CATALOGUES.items()}


@pytest.fixture
def built(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """A database that was made from the files, as its owner makes it."""
    with fresh_database(postgres, None) as database:
        with psycopg.connect(database.owner_url) as connection:
            text = current()
            if connection.info.server_version < 170000:
                text = text.replace(f", {ABSENT_BEFORE_17}", "")
            connection.execute(SchemaManager.get_schema().encode())
            connection.execute(text.encode())
        yield database


def test_current_is_what_migrations_make(built: Database, database: Database) -> None:
    with psycopg.connect(built.owner_url) as ours, psycopg.connect(database.owner_url) as migrated:
        made, wanted = catalogues(ours), catalogues(migrated)
    for name in CATALOGUES:
        assert wanted[name], name
        assert made[name] == wanted[name], name


def test_every_column_is_explained_once(database: Database) -> None:
    """In the files, and with the same words in the database, for `\\d+`."""
    said = explained()
    assert [
        name for name, comment in said.items() if not comment and name != ("alembic_version", None)
    ] == []
    with psycopg.connect(database.owner_url) as connection:
        there = {
            (table, column): comment for table, column, comment in connection.execute(COMMENTS)
        }
    del said["alembic_version", None]  # its comment is the oldest schema whose code may run
    assert there == said
    declared = {
        (table.name, column.name)
        for table in Base.metadata.tables.values()
        for column in table.columns
    }
    assert {name for name in said if name[1] is not None} == declared | {
        ("alembic_version", "version_num")
    }


def test_states_of_jobs_are_those_that_the_code_knows(database: Database) -> None:
    with psycopg.connect(database.owner_url) as connection:
        found = connection.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'jobs_state'"
        )
        ((rule,),) = found.fetchall()
    assert tuple(re.findall(r"'(\w+)'", rule)) == get_args(JobState)
    assert set(FINAL) < set(get_args(JobState))


def test_the_queues_schema_is_the_one_that_was_migrated() -> None:
    """Another version of procrastinate with another schema needs a migration that brings older
    databases to it."""
    assert hashlib.sha256(SchemaManager.get_schema().encode()).hexdigest() == QUEUE_SHA256
