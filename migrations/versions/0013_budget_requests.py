"""Who needs more of a budget asks for it, and an owner answers.

Code of the version before runs on: it knows of no requests.
"""

from __future__ import annotations

import psycopg
from alembic import context, op

revision = "0013"
down_revision = "0012"

UPGRADE = """
CREATE TABLE budget_requests (
  id text PRIMARY KEY,
  tenant_id text NOT NULL REFERENCES tenants,
  account_id text NOT NULL REFERENCES accounts,
  principal text NOT NULL,
  more jsonb NOT NULL,
  reason text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  state text NOT NULL DEFAULT 'open',
  answered_by text,
  answer text,
  answered_at timestamptz,
  CONSTRAINT budget_requests_state CHECK (state IN ('open', 'granted', 'declined'))
);
CREATE INDEX budget_requests_account ON budget_requests (account_id, created_at, id);
CREATE INDEX budget_requests_open ON budget_requests (tenant_id, principal) WHERE state = 'open';
ALTER TABLE budget_requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE budget_requests FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON budget_requests USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
COMMENT ON TABLE budget_requests IS 'Somebody asks an owner to raise a cap. No ledger changes before a grant answers.';
COMMENT ON COLUMN budget_requests.id IS 'identifies the request';
COMMENT ON COLUMN budget_requests.tenant_id IS 'whose account it is about';
COMMENT ON COLUMN budget_requests.account_id IS 'the account whose cap shall be raised';
COMMENT ON COLUMN budget_requests.principal IS 'who asks';
COMMENT ON COLUMN budget_requests.more IS 'by how much: epsilon and delta in the units of the ledger';
COMMENT ON COLUMN budget_requests.reason IS 'why; the reason of a grant that answers it repeats that';
COMMENT ON COLUMN budget_requests.created_at IS 'when it was asked';
COMMENT ON COLUMN budget_requests.state IS 'open until an owner has granted or declined it';
COMMENT ON COLUMN budget_requests.answered_by IS 'the owner who did; null: nobody yet';
COMMENT ON COLUMN budget_requests.answer IS 'what that owner said; null: nobody yet';
COMMENT ON COLUMN budget_requests.answered_at IS 'when that was; null: not yet';
"""
DOWNGRADE = """
DROP TABLE budget_requests;
"""
GRANTS = """
GRANT SELECT, INSERT, UPDATE (state, answered_by, answer, answered_at) ON budget_requests TO {role};
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
    execute_script(UPGRADE)
    grant(GRANTS)


def downgrade() -> None:
    execute_script(DOWNGRADE)
