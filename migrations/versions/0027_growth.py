"""Indexes for what is rare among much, and results that go when their time is over.

Code of the version before runs on as long as no result has gone: it takes one that has for broken.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0027"
down_revision = "0026"

GRANT = """
GRANT EXECUTE ON FUNCTION forget_results(integer, integer) TO {role};
"""
DOWNGRADE = """
DO $$
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  IF EXISTS (SELECT FROM job_results WHERE result IS NULL) THEN
    RAISE EXCEPTION 'results have gone by retention: the version before cannot read their jobs';
  END IF;
END
$$;
DROP FUNCTION forget_results(integer, integer);
DROP INDEX jobs_ended;
COMMENT ON TABLE job_events IS 'What the event stream of a job tells, in order. Rows are added and never changed.';
COMMENT ON COLUMN job_results.result IS 'JSON text, as it is answered';
COMMENT ON COLUMN jobs.headline IS 'what its result answers, in a sentence; null: nothing, or from before schema 0012';
ALTER TABLE jobs DROP COLUMN result_gone_at;
ALTER TABLE job_results ALTER COLUMN result SET NOT NULL;
DROP INDEX audit_log_action;
DROP INDEX audit_log_principal;
DROP INDEX jobs_open;
DROP INDEX ledger_entries_time;
DROP INDEX ledger_entries_rare;
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0027_growth.sql").read_text())
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(GRANT.format(role=quoted))


def downgrade() -> None:
    execute_script(DOWNGRADE)
