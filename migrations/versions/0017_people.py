"""People of an identity provider, their logins, and the audit log.

Code of the version before runs on: it finds no login of a person, and writes no audit log.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0017"
down_revision = "0016"

DOWNGRADE = """
DROP TABLE audit_log;
DROP FUNCTION audit_log_refuse_change(), meet_identity(text, text, text, text, text, text), identity_lock(text, text);
SELECT set_config('discreet.tenant', '*', true);
DELETE FROM web_sessions WHERE key_id IS NULL;
SELECT set_config('discreet.tenant', '', true);
ALTER TABLE web_sessions DROP COLUMN identity_id, DROP COLUMN role, DROP COLUMN issued_at, DROP COLUMN sid,
  DROP COLUMN hint;
ALTER TABLE web_sessions ALTER COLUMN key_id SET NOT NULL;
COMMENT ON TABLE web_sessions IS
  'A login of the dashboard: a MAC of its cookie, never the cookie. It ends with the key that it came from.';
COMMENT ON COLUMN web_sessions.tenant_id IS 'of the key';
COMMENT ON COLUMN web_sessions.key_id IS 'whose rights the login has';
DROP TABLE identities;
"""
GRANTS = """
GRANT SELECT, INSERT,
  UPDATE (name, role, last_used_at, ended_at, removed_at, everywhere, used_window, used_requests) ON identities
  TO {role};
GRANT SELECT, INSERT ON audit_log TO {role};
GRANT EXECUTE ON FUNCTION identity_lock(text, text), meet_identity(text, text, text, text, text, text) TO {role};
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
    execute_script(Path(__file__).with_name("0017_people.sql").read_text())
    grant(GRANTS)


def downgrade() -> None:
    execute_script(Path(__file__).with_name("0017_take_requests_before.sql").read_text())
    execute_script(DOWNGRADE)
