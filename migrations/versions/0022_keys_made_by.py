"""Whoever removes a person finds the keys that they have made by an index of the audit log.

Code of the version before runs on.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import op

revision = "0022"
down_revision = "0021"

DOWNGRADE = "DROP INDEX audit_log_keys_made"


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0022_keys_made_by.sql").read_text())


def downgrade() -> None:
    execute_script(DOWNGRADE)
