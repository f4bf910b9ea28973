"""Version 0002 goes on an installation that has data, and goes off again while nothing needs it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text

from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.storage.database import sync_engine
from discreet.storage.migrations import migrate
from discreet.storage.schema import scripts
from tests.postgres_fixture import Database, fresh_database


def downgrade(database: Database, revision: str) -> None:
    engine = sync_engine(database.owner_url)
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        config.attributes["application_role"] = database.app_url.split("://")[1].split(":")[0]
        command.downgrade(config, revision)
        connection.commit()
    engine.dispose()


def ask(database: Database, statement: str, **values: Any) -> list[Any]:
    engine = sync_engine(database.owner_url)
    with engine.begin() as connection:
        connection.execute(text("SELECT set_config('discreet.tenant', '*', true)"))
        found = connection.execute(text(statement), values)
        rows = list(found) if found.returns_rows else []
    engine.dispose()
    return rows


DATASET = """
    INSERT INTO datasets
      (id, tenant_id, account_id, name, kind, public, mode, digest, content_key_id)
    VALUES (:id, 'ten_1', 'acc_1', 'd', 'routing', '{}', 'private', :digest, 'k')
"""


def test_up_and_down(postgres: EmbeddedPostgres) -> None:
    with fresh_database(postgres, None) as database:
        settings = Settings(
            database_url=database.app_url, migration_database_url=database.owner_url
        )
        migrate(settings, "0001")
        ask(database, "INSERT INTO tenants (id, name) VALUES ('ten_1', 'one')")
        ask(
            database,
            "INSERT INTO accounts (id, tenant_id, scope, subject, unit) VALUES ('acc_1', 'ten_1', "
            "'data', 'x', 'u')",
        )
        ask(database, DATASET, id="dst_1", digest=b"1")
        migrate(settings)
        kept = (
            "SELECT wrapped_key, object_name, expires_at, delete_after_job FROM datasets WHERE "
            "id = 'dst_1'"
        )
        assert ask(database, kept) == [(None, None, None, False)]
        downgrade(database, "0001")
        assert ask(database, "SELECT to_regclass('webhooks')") == [(None,)]
        migrate(settings)
        # Code before schema 0033 fetches nothing from a database, so nothing may stay in one.
        ask(database, DATASET, id="dst_3", digest=b"3")
        ask(
            database,
            "UPDATE datasets SET stays = 'postgresql', place = 'p', seen_at = now(), "
            "wrapped_key = 'w' WHERE id = 'dst_3'",
        )
        revision = "SELECT version_num FROM alembic_version"
        place = "SELECT stays, place FROM datasets WHERE id = 'dst_3'"
        newest = ask(database, revision)
        with pytest.raises(psycopg.DatabaseError, match="contents stay in databases"):
            downgrade(database, "0032")
        assert ask(database, revision) == newest
        assert ask(database, place) == [("postgresql", b"p")]
        ask(
            database,
            "UPDATE datasets SET deleted_at = now(), wrapped_key = NULL WHERE id = 'dst_3'",
        )
        downgrade(database, "0032")
        assert ask(database, place) == [(None, None)]
        migrate(settings)
        ask(database, DATASET, id="dst_2", digest=b"2")
        ask(database, "UPDATE datasets SET wrapped_key = 'w' WHERE id = 'dst_2'")
        with pytest.raises(RuntimeError, match="1 datasets are sealed"):
            downgrade(database, "0001")
        assert ask(database, "SELECT count(*) FROM webhooks") == [(0,)]
