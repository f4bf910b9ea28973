"""Jobs have names, and say in lists whether their results are mostly noise, without a look at the results.

Code of the version before runs on: its jobs have no name, and its results no mark in lists.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0010"
down_revision = "0009"

UPGRADE = """
ALTER TABLE jobs ADD COLUMN name text, ADD COLUMN mostly_noise boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN jobs.name IS 'what who asked calls it; null: nothing';
COMMENT ON COLUMN jobs.mostly_noise IS 'its result says of itself that it is';
SELECT set_config('discreet.tenant', '*', true);
UPDATE jobs SET mostly_noise = true FROM job_results AS r
  WHERE r.job_id = jobs.id AND position('"mostly_noise":true'::bytea IN r.result) > 0;
DROP FUNCTION accept_jobs(text, text, text[], text, text, jsonb);
"""
DOWNGRADE = """
DROP FUNCTION accept_jobs(text, text, text[], text, text, jsonb);
ALTER TABLE jobs DROP COLUMN name, DROP COLUMN mostly_noise;
"""
GRANTS = """
GRANT UPDATE (mostly_noise) ON jobs TO {role};
"""
GRANTS_OF_BOTH = """
GRANT EXECUTE ON FUNCTION accept_jobs(text, text, text[], text, text, jsonb) TO {role};
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
    execute_script(UPGRADE)
    execute_script(script("0010_accept_jobs"))
    grant(GRANTS + GRANTS_OF_BOTH)


def downgrade() -> None:
    execute_script(DOWNGRADE)
    execute_script(script("0009_accept_jobs"))
    grant(GRANTS_OF_BOTH)
