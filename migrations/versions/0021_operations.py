"""What processes say of themselves, and which backups are known.

Code of the version before runs on: its processes say nothing, and stand as workers of the queue alone.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0021"
down_revision = "0020"

DOWNGRADE = "DROP TABLE backups, processes"
GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON processes TO {role};
GRANT SELECT, INSERT ON backups TO {role};
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def grant(statements: str) -> None:
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(
            statements.format(role=op.get_bind().dialect.identifier_preparer.quote(role))
        )


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0021_operations.sql").read_text())
    grant(GRANTS)


def downgrade() -> None:
    execute_script(DOWNGRADE)
