"""Tokens of enrolment may be for one name, and owners send agents away before they sign.

Code of the version before runs on: it makes tokens without names, and looks at none.
"""

from __future__ import annotations

import psycopg
from alembic import context, op

revision = "0014"
down_revision = "0013"

UPGRADE = """
ALTER TABLE session_tokens ADD COLUMN name text;
COMMENT ON COLUMN session_tokens.name IS 'the name of the agent that it is for; null: of any';
"""
DOWNGRADE = """
ALTER TABLE session_tokens DROP COLUMN name;
"""
GRANTS = """
GRANT DELETE ON session_agents TO {role};
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
    execute_script(UPGRADE)
    grant(GRANTS)


def downgrade() -> None:
    execute_script(DOWNGRADE)
