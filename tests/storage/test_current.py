"""`migrations/current` is what a new database is, with every column explained once."""

from __future__ import annotations

import hashlib
import re
from typing import LiteralString, get_args

import psycopg
from procrastinate.schema import SchemaManager

from discreet.storage.jobs import FINAL
from discreet.storage.migrations import comments_of, current_schema
from discreet.storage.tables import Base, JobState
from tests.postgres_fixture import Database

QUEUE_SHA256 = "c70ec4b400a60ad9592787653aae5ae77ae41bf801d56b5bd2712751a07f2009"
"""Of the queue's own schema, which a new database has from the library: see the test that reads
it."""

COMMENTS: LiteralString = """
    SELECT c.relname, a.attname, d.description FROM pg_description AS d
    JOIN pg_class AS c ON c.oid = d.objoid AND c.relnamespace = 'public'::regnamespace
    LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0
    WHERE d.classoid = 'pg_class'::regclass AND c.relname NOT LIKE 'procrastinate%'
      AND d.description <> '' AND NOT (c.relname = 'alembic_version' AND d.objsubid = 0)
"""


def test_every_column_is_explained_once(database: Database) -> None:
    """In the files, and with the same words in the database, for `\\d+`."""
    said = comments_of(current_schema())
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
