"""Files that were sent to be looked at, before a dataset is registered from them."""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0040"
down_revision = "0001"


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0040_reads.sql").read_text())
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(f"GRANT SELECT, INSERT, DELETE ON reads, read_chunks TO {quoted};")
