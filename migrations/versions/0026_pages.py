"""The sums of 32 blocks stand in one row: a job over many blocks rewrites few rows.

What entries say stays as it was, and so does what code of the version before reads: it finds the
sums of blocks in a view.
"""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from alembic import context, op

revision = "0026"
down_revision = "0025"

DOWNGRADE = """
SELECT set_config('discreet.tenant', '*', true);
CREATE TEMPORARY TABLE sums_of_blocks ON COMMIT DROP AS TABLE block_sums;
DROP VIEW block_sums;
DROP FUNCTION ledger_write_blocks(
  ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange, text, block_pages[]);
DROP FUNCTION ledger_blocks_after(text, int4multirange, jsonb, integer, integer);
DROP FUNCTION ledger_page(integer);
DROP FUNCTION ledger_block_text(block_amounts);
DROP FUNCTION ledger_page_sums(block_amounts[], integer);
DROP TABLE block_pages, block_caps;
DROP TYPE block_amounts;
"""
FILL = """
INSERT INTO block_sums TABLE sums_of_blocks;
REVOKE ALL ON FUNCTION ledger_block_text(block_sums), ledger_block_sums(text),
  ledger_write_blocks(
    ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange)
FROM PUBLIC;
"""
BEFORE = (
    "ledger_within",
    "ledger_limits",
    "ledger_block_text",
    "ledger_block_sums",
    "ledger_open_block",
    "ledger_grant_block",
    "ledger_write_blocks",
    "ledger_write_all",
    "ledger_reserve_blocks",
)
"""Functions that are again what 0024 made of them."""
GRANTS = "GRANT SELECT ON block_caps, block_pages, block_sums TO {role}"
GRANTS_BEFORE = "GRANT SELECT ON block_sums TO {role}"


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()


def grant(statement: str) -> None:
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(statement.format(role=quoted))


def upgrade() -> None:
    execute_script(script("0026_pages"))
    grant(GRANTS)


def downgrade() -> None:
    before = script("0024_chain")
    table = before[before.index("CREATE TABLE block_sums (") :]
    execute_script(DOWNGRADE + table[: table.index("\n\nDROP FUNCTION ledger_body(")])
    for name in BEFORE:
        found = re.search(rf"CREATE OR REPLACE FUNCTION {name}\(.*?\n\$\$;", before, re.DOTALL)
        assert found is not None
        execute_script(found[0])
    execute_script(FILL)
    grant(GRANTS_BEFORE)
