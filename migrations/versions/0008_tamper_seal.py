"""A job's MAC and trace are columns of the job; the database explains itself; what nothing calls any more goes.

They were the rows -1 and 0 of `job_events`. A worker of the version before would look for them there, find none,
and fail every job as one that was never accepted. The column that it reads therefore has another name now: its
transaction ends with `undefined_column` and changes nothing, and it waits, saying `wrong_schema`, until it is replaced.

The application role could change any column of a job. It may no longer change what was accepted: a MAC that was removed
would turn the job into one of a version that made none.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0008"
down_revision = "0007"
OLDEST = "0008"

UPGRADE = """
SELECT set_config('discreet.tenant', '*', true);
ALTER TABLE jobs ADD COLUMN tamper_seal text, ADD COLUMN traceparent text;
UPDATE jobs SET tamper_seal = kept.mac, traceparent = kept.traceparent
  FROM (SELECT job_id, max(data ->> 'mac') FILTER (WHERE seq = -1) AS mac,
               max(data ->> 'traceparent') FILTER (WHERE seq = 0) AS traceparent
        FROM job_events WHERE seq <= 0 GROUP BY job_id) AS kept
  WHERE jobs.id = kept.job_id;
DELETE FROM job_events WHERE seq <= 0;
ALTER TABLE job_events ADD CONSTRAINT job_events_seq CHECK (seq > 0);
ALTER TABLE job_events RENAME COLUMN data TO details;
DROP FUNCTION find_key(text);
DROP FUNCTION submit_job(text, text, text, bytea, text, text, text, jsonb, jsonb, bigint, integer, text[], jsonb, text,
  text, text, text, text, jsonb, jsonb);
"""
DOWNGRADE = """
SELECT set_config('discreet.tenant', '*', true);
ALTER TABLE job_events DROP CONSTRAINT job_events_seq;
ALTER TABLE job_events RENAME COLUMN details TO data;
INSERT INTO job_events (job_id, seq, event, data)
  SELECT id, -1, 'seal', jsonb_build_object('mac', tamper_seal) FROM jobs WHERE tamper_seal IS NOT NULL
  UNION ALL
  SELECT id, 0, 'trace', jsonb_build_object('traceparent', traceparent) FROM jobs WHERE traceparent IS NOT NULL;
ALTER TABLE jobs DROP COLUMN tamper_seal, DROP COLUMN traceparent;
"""
GRANTS = """
REVOKE UPDATE ON jobs FROM {role};
GRANT UPDATE (plan, price, state, attempt, failures, lease_until, cancel_requested, step, total, error_code,
  error_detail, started_at, finished_at) ON jobs TO {role};
"""
GRANTS_BEFORE = """
GRANT UPDATE ON jobs TO {role};
GRANT EXECUTE ON FUNCTION find_key(text),
  submit_job(text, text, text, bytea, text, text, text, jsonb, jsonb, bigint, integer, text[], jsonb, text, text, text,
    text, text, jsonb, jsonb) TO {role};
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
    execute_script(script("0008_accept_jobs"))
    execute_script(script("0008_comments"))
    grant(GRANTS)


def downgrade() -> None:
    """Comments stay: they are true of the columns that stay."""
    execute_script(DOWNGRADE)
    for name in ("0001_find_key", "0001_submit_job", "0006_accept_jobs"):
        execute_script(script(name))
    grant(GRANTS_BEFORE)
