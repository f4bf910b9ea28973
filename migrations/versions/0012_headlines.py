"""Jobs keep what their results answer in a sentence, so that lists say it without a look at the results.

Code of the version before runs on: what it publishes has no such sentence. Nor has what was published before.
"""

from __future__ import annotations

import psycopg
from alembic import context, op

revision = "0012"
down_revision = "0011"

UPGRADE = """
ALTER TABLE jobs ADD COLUMN headline text, ADD CONSTRAINT jobs_headline CHECK (length(headline) <= 200);
COMMENT ON COLUMN jobs.headline IS 'what its result answers, in a sentence; null: nothing, or from before schema 0012';
"""
DOWNGRADE = """
ALTER TABLE jobs DROP COLUMN headline;
"""
GRANTS = """
GRANT UPDATE (headline) ON jobs TO {role};
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
