"""Sources: data that keep coming, in blocks, each with an account of its own; a job reads several at once.

Code of the version before runs on: a job that reads blocks it ends as one of another version, charging nothing.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0019"
down_revision = "0018"

DOWNGRADE = """
DROP TABLE job_blocks;
ALTER TABLE datasets DROP COLUMN source_id, DROP COLUMN block, DROP COLUMN version;
DROP TABLE sources;
COMMENT ON COLUMN jobs.dataset_id IS 'what it reads; null: its data stand in the problem, or agents have them';
"""
GRANTS = """
GRANT SELECT, INSERT ON sources, job_blocks TO {role};
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()


def grant(statements: str) -> None:
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(
            statements.format(role=op.get_bind().dialect.identifier_preparer.quote(role))
        )


def upgrade() -> None:
    execute_script(script("0019_sources"))
    execute_script(script("0019_accept_jobs"))
    grant(GRANTS)


def downgrade() -> None:
    execute_script(script("0015_accept_jobs"))
    execute_script(DOWNGRADE)
