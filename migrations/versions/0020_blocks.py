"""A job over many blocks is written to all of its accounts by one statement for each step of its life.

Code of the version before runs on: it calls the same functions, which write the same entries.
"""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from alembic import op

revision = "0020"
down_revision = "0019"

DOWNGRADE = """
DROP TRIGGER ledger_entries_noted ON ledger_entries;
DROP FUNCTION ledger_lock(text);
DROP FUNCTION ledger_write_all(ledger_entries[], accounts[], text, text, text, text, jsonb, integer, integer);
DROP FUNCTION ledger_hold(text[]);
DROP FUNCTION ledger_ends(accounts[]);
DROP FUNCTION ledger_body(
  accounts, bigint, timestamptz, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, text);
COMMENT ON COLUMN ledger_entries.account_id IS 'whose chain it is';
ALTER TABLE ledger_entries
  ADD CONSTRAINT ledger_entries_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts (id);
"""
BEFORE = {
    "0001_ledger": "ledger_write",
    "0006_acceptance": "ledger_reserve",
    "0016_log": "log_note",
}
"""The script that made each of these functions as every version until this one kept it."""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()


def upgrade() -> None:
    execute_script(script("0020_blocks"))


def downgrade() -> None:
    execute_script(DOWNGRADE)
    for name, function in BEFORE.items():
        found = re.search(
            rf"CREATE (?:OR REPLACE )?(FUNCTION {function}\(.*?\n\$\$;)", script(name), re.DOTALL
        )
        assert found is not None
        execute_script(f"CREATE OR REPLACE {found[1]}")
    execute_script(script("0018_flat_ledger"))
    noted = re.search(r"CREATE TRIGGER ledger_entries_noted .*?;", script("0016_log"), re.DOTALL)
    assert noted is not None
    execute_script(noted[0])
