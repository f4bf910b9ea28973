"""Shares of releases that idle workers take.

Code of the version before runs on: its workers neither offer shares nor take any.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0032"
down_revision = "0031"

GRANTS = (
    "GRANT SELECT, INSERT, DELETE, UPDATE (wrapped_key, taken_by, sealed) ON job_shares TO {role}"
)


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0032_shares.sql").read_text())
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(GRANTS.format(role=op.get_bind().dialect.identifier_preparer.quote(role)))


def downgrade() -> None:
    execute_script("DROP TABLE job_shares")
