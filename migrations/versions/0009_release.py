"""What a job released is kept as long as its result, so that other questions can be asked of it; turns are by time.

A worker of the version before would drop a release with the end of its job, and not know what to do with a job that
asks again, so it must be replaced before it works on.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0009"
down_revision = "0008"
OLDEST = "0009"

UPGRADE = """
ALTER TABLE jobs ADD COLUMN released_by text[], ADD COLUMN release_key bytea;
ALTER TABLE releases ADD COLUMN wrapped_key bytea, ADD COLUMN terms bytea, ADD COLUMN digest bytea;
CREATE INDEX jobs_released ON jobs (tenant_id, release_key, ((price ->> 'rho')::numeric) DESC, created_at DESC)
  WHERE release_key IS NOT NULL AND state = 'succeeded';
DROP FUNCTION accept_jobs(text, text, text[], text, text, jsonb);

COMMENT ON COLUMN jobs.released_by IS
  'the jobs whose releases it finishes again, for nothing; null: it releases for itself';
COMMENT ON COLUMN jobs.release_key IS
  'SHA-256 of dataset, kind and all fields that its release fixes; null: it has no such release';
COMMENT ON TABLE releases IS
  'What a job''s mechanisms released, written before anything is made of it, so that data are touched once, and kept as'
  ' long as the job''s result, so that other questions can be asked of it.';
COMMENT ON COLUMN releases.job_id IS 'whose release; the row goes when the job fails or is cancelled';
COMMENT ON COLUMN releases.content_key_id IS
  'the master key that wraps wrapped_key, or sealed the release where there is none';
COMMENT ON COLUMN releases.wrapped_key IS
  'the release''s own key, bound to terms; null: a session''s, or of before schema 0009';
COMMENT ON COLUMN releases.terms IS
  'SHA-256 of what was accepted: tenant, problem, plan, price, dataset with public part; null: as there';
COMMENT ON COLUMN releases.digest IS
  'SHA-256 of what was released, which certificates name; null: the row goes with the end of the job';
"""
REUSABLE_JOBS = """
CREATE FUNCTION reusable_jobs(_tenant text, _key bytea)
RETURNS text[]
LANGUAGE sql STABLE SET enable_sort = off AS $$
SELECT coalesce(array_agg(found.id), '{}') FROM (
  SELECT j.id FROM jobs AS j
    WHERE j.tenant_id = _tenant AND j.release_key = _key AND j.state = 'succeeded'
      AND EXISTS (SELECT FROM releases AS r WHERE r.job_id = j.id AND r.digest IS NOT NULL)
    ORDER BY (j.price ->> 'rho')::numeric DESC, j.created_at DESC LIMIT 10) AS found
$$;
REVOKE ALL ON FUNCTION reusable_jobs(text, bytea) FROM PUBLIC;
"""
DOWNGRADE = """
SELECT set_config('discreet.tenant', '*', true);
DELETE FROM releases WHERE job_id IN (SELECT id FROM jobs WHERE state IN ('succeeded', 'failed', 'cancelled'));
DELETE FROM releases WHERE wrapped_key IS NOT NULL;
UPDATE jobs SET state = 'cancelled', lease_until = NULL, finished_at = now()
  WHERE released_by IS NOT NULL AND state NOT IN ('succeeded', 'failed', 'cancelled');
DROP FUNCTION accept_jobs(text, text, text[], text, text, jsonb);
DROP FUNCTION reusable_jobs(text, bytea);
DROP INDEX jobs_released;
ALTER TABLE releases DROP COLUMN wrapped_key, DROP COLUMN terms, DROP COLUMN digest;
ALTER TABLE jobs DROP COLUMN released_by, DROP COLUMN release_key;
"""
LONG_JOBS_GO = """
UPDATE procrastinate_jobs SET queue_name = 'jobs' WHERE queue_name = 'jobs-long';
DROP FUNCTION queue_of(text, jsonb), planned_seconds(jsonb);
"""
GRANTS = """
GRANT UPDATE (wrapped_key) ON releases TO {role};
GRANT EXECUTE ON FUNCTION planned_seconds(jsonb), queue_of(text, jsonb) TO {role};
GRANT EXECUTE ON FUNCTION reusable_jobs(text, bytea), accept_jobs(text, text, text[], text, text, jsonb) TO {role};
"""
GRANTS_BEFORE = """
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
    execute_script(REUSABLE_JOBS)
    execute_script(script("0009_fair_tag"))
    execute_script(script("0009_accept_jobs"))
    grant(GRANTS)


def downgrade() -> None:
    """Comments stay. Releases go, also of jobs that have not ended: nobody has seen these, and they are made again."""
    execute_script(DOWNGRADE)
    execute_script(script("0008_accept_jobs"))
    execute_script(script("0005_fairness").partition("CREATE FUNCTION jobs_no_turn")[0])
    execute_script(LONG_JOBS_GO)
    execute_script(
        "REVOKE ALL ON FUNCTION accept_jobs(text, text, text[], text, text, jsonb) FROM PUBLIC"
    )
    grant(GRANTS_BEFORE)
