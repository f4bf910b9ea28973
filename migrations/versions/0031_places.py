"""Contents that stay where they lie: their place, sealed, and when they were last seen unchanged.

Code of the version before runs on as long as no content stays at its place: a job on such a content
fails there, before data are touched.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0031"
down_revision = "0030"

GRANT = """
GRANT UPDATE (stays, place, seen_at) ON datasets TO {role};
"""
DOWNGRADE = """
DO $$
BEGIN
  PERFORM set_config('discreet.tenant', '*', true);
  IF EXISTS (SELECT FROM datasets WHERE stays IS NOT NULL AND deleted_at IS NULL) THEN
    RAISE EXCEPTION 'contents stay at their places: erase these datasets first, the version before cannot fetch them';
  END IF;
END
$$;
ALTER TABLE datasets DROP COLUMN stays, DROP COLUMN place, DROP COLUMN seen_at;
COMMENT ON TABLE datasets IS
  'A registered dataset. Its content is stored sealed, in chunks or in an object, and is recognised by a keyed digest.';
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0031_places.sql").read_text())
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(GRANT.format(role=quoted))


def downgrade() -> None:
    execute_script(DOWNGRADE)
