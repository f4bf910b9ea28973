"""Jobs that have not ended are counted by triggers, in rows for which nobody waits.

Code of the version before runs on, and counts each by an index as it did.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0035"
down_revision = "0034"

GRANTS = """
GRANT SELECT, INSERT, UPDATE (queued, awaiting_agents, waiting, running, queued_since) ON job_counts TO {role};
GRANT EXECUTE ON FUNCTION oldest_queued(text), leases_over() TO {role};
"""
DOWNGRADE = """
DROP TRIGGER jobs_count_new ON jobs;
DROP TRIGGER jobs_count_changed ON jobs;
DROP FUNCTION jobs_count(), oldest_queued(text), leases_over();
DROP TABLE job_counts;
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0035_job_counts.sql").read_text())
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(GRANTS.format(role=op.get_bind().dialect.identifier_preparer.quote(role)))


def downgrade() -> None:
    execute_script(DOWNGRADE)
