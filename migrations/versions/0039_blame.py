"""Agents say what they speak, and a session says why it could not go on without one."""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import op

revision = "0039"
down_revision = "0036"

DOWNGRADE = """
ALTER TABLE session_agents DROP COLUMN speaks, DROP COLUMN cause;
ALTER TABLE group_members DROP COLUMN speaks;
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0039_blame.sql").read_text())


def downgrade() -> None:
    execute_script(DOWNGRADE)
