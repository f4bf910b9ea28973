"""A transparency log over all ledgers: what was written before is pending, and taken in when the service runs.

Code of the version before runs on: it writes entries as before, which the log takes in later.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0016"
down_revision = "0015"

DOWNGRADE = """
DROP TRIGGER ledger_entries_noted ON ledger_entries;
DROP FUNCTION log_require(text, bigint, bytea), log_sign(bigint, bytea, text), log_append(bytea[]), log_root(bytea[]),
  log_note();
DROP TABLE log_origin, log_cosignatures, log_checkpoints, log_nodes, log_leaves, log_pending;
"""
GRANTS = """
GRANT SELECT ON log_pending, log_leaves, log_nodes, log_checkpoints, log_origin TO {role};
GRANT SELECT, INSERT ON log_cosignatures TO {role};
GRANT EXECUTE ON FUNCTION log_append(bytea[]), log_sign(bigint, bytea, text), log_require(text, bigint, bytea)
  TO {role};
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
    execute_script(Path(__file__).with_name("0016_log.sql").read_text())
    grant(GRANTS)


def downgrade() -> None:
    execute_script(DOWNGRADE)
