"""Who may spend which share of a source's blocks, and jobs that wait for budget.

Code of the version before runs on: it takes no job that waits, and none waits unless a source has a rule.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0023"
down_revision = "0022"

DOWNGRADE = """
DROP TRIGGER jobs_budget_free ON jobs;
DROP TRIGGER jobs_turn_after_wait ON jobs;
DROP FUNCTION jobs_budget_free();
DROP FUNCTION jobs_turn_after_wait();
DROP FUNCTION count_use(text, integer);
UPDATE jobs SET state = 'cancelled', finished_at = now() WHERE state = 'waiting';
DROP TABLE job_waits, source_wakes, source_uses, source_rules;
ALTER TABLE jobs DROP CONSTRAINT jobs_state;
ALTER TABLE jobs ADD CONSTRAINT jobs_state CHECK (
  state IN ('queued', 'awaiting_agents', 'running', 'succeeded', 'failed', 'cancelled'));
"""
GRANTS = """
GRANT SELECT, INSERT ON source_rules TO {role};
GRANT SELECT, INSERT, UPDATE (epsilon, delta, rho, delta_z) ON source_uses TO {role};
GRANT SELECT, INSERT, DELETE, UPDATE (next_try, block) ON job_waits TO {role};
GRANT SELECT, INSERT, DELETE ON source_wakes TO {role};
GRANT EXECUTE ON FUNCTION count_use(text, integer) TO {role};
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
    execute_script(Path(__file__).with_name("0023_waits.sql").read_text())
    grant(GRANTS)


def downgrade() -> None:
    execute_script(DOWNGRADE)
