"""Contents that stay in a PostgreSQL database.

Code of the version before runs on as long as no content stays in a database: a job on such a
content fails there, before data are touched.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import op

revision = "0033"
down_revision = "0032"

DOWNGRADE = """
DO $$
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  IF EXISTS (SELECT FROM datasets WHERE stays = 'postgresql' AND deleted_at IS NULL) THEN
    RAISE EXCEPTION 'contents stay in databases: erase these datasets first, the version before cannot fetch them';
  END IF;
  UPDATE datasets SET stays = NULL, place = NULL, seen_at = NULL WHERE stays = 'postgresql';
END
$$;
ALTER TABLE datasets
  DROP CONSTRAINT datasets_stays,
  ADD CONSTRAINT datasets_stays CHECK (
    (stays IS NULL OR stays IN ('file', 'https', 's3') AND object_name IS NULL) AND (stays IS NULL) = (seen_at IS NULL)
    AND (place IS NULL OR stays IS NOT NULL));
COMMENT ON COLUMN datasets.stays IS
  'file, https or s3: the kind of place at which the content stays, to be fetched by each job; null: it is stored';
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0033_databases.sql").read_text())


def downgrade() -> None:
    execute_script(DOWNGRADE)
