"""Comments of tables and columns in standard terms. Nothing but comments changes.

Code of the version before runs on.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import op

revision = "0028"
down_revision = "0027"


def execute_file(name: str) -> None:
    """Run a file of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name(name).read_bytes())


def upgrade() -> None:
    execute_file("0028_comments.sql")


def downgrade() -> None:
    execute_file("0028_comments_before.sql")
