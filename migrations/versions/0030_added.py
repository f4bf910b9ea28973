"""What a job charges to all blocks of a row is added once, beside what they stand at.

What entries say stays as it was, and code of the version before runs on: it reads the view alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from alembic import context, op

revision = "0030"
down_revision = "0029"

DOWNGRADE = """
LOCK TABLE accounts, block_caps, block_pages IN ACCESS EXCLUSIVE MODE;
SELECT set_config('discreet.tenant', '*', true);
CREATE TEMPORARY TABLE sums_of_0030 ON COMMIT DROP AS TABLE block_sums;
CREATE TEMPORARY TABLE pages_of_0030 ON COMMIT DROP AS
  SELECT chain_id, page, tenant_id, many, limits FROM block_pages;
DROP VIEW block_sums;
DROP FUNCTION ledger_write_blocks(
  ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange, text, block_pages[]);
DROP FUNCTION ledger_blocks_after(text, int4multirange, jsonb, integer, integer);
DROP FUNCTION ledger_page_blocks(
  integer, integer, numeric[], numeric[], numeric[], numeric[], numeric[], numeric[], numeric[], numeric[]);
DROP FUNCTION ledger_page_amounts(numeric[], integer, numeric);
DROP FUNCTION ledger_shared(numeric[]);
DROP TABLE block_pages;
"""
FILL = """
INSERT INTO block_pages
  SELECT p.chain_id, p.page, p.tenant_id, p.many, p.limits,
    CASE WHEN b.sums = array_fill(b.sums[1], ARRAY[p.many]) THEN b.sums[1:1] ELSE b.sums END
  FROM pages_of_0030 AS p
  CROSS JOIN LATERAL (
    SELECT array_agg(ROW(s.delta, s.delta_z, s.epsilon, s.rho, s.reserved_delta, s.reserved_delta_z, s.reserved_epsilon,
      s.reserved_rho)::block_amounts ORDER BY s.number) AS sums
    FROM sums_of_0030 AS s WHERE s.chain_id = p.chain_id AND (s.number - 1) / 32 = p.page) AS b;
"""
SAID = re.compile(r"COMMENT ON (?:TABLE|COLUMN) block_pages\b.*?';\n", re.DOTALL)
BEFORE = (
    "ledger_block_text",
    "ledger_page_sums",
    "ledger_blocks_after",
    "ledger_write_blocks",
    "ledger_open_block",
    "ledger_grant_block",
    "ledger_write_all",
    "ledger_reserve_blocks",
)
"""Functions that are again what 0026 made of them."""
REVOKES = """
REVOKE ALL ON FUNCTION ledger_block_text(block_amounts), ledger_page_sums(block_amounts[], integer),
  ledger_blocks_after(text, int4multirange, jsonb, integer, integer),
  ledger_write_blocks(
    ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange, text, block_pages[])
FROM PUBLIC;
"""
GRANTS = "GRANT SELECT ON block_pages, block_sums TO {role}"
KEYS = """
ALTER TABLE job_blocks ADD FOREIGN KEY (job_id) REFERENCES jobs, ADD FOREIGN KEY (dataset_id) REFERENCES datasets;
COMMENT ON COLUMN job_blocks.job_id IS 'which job';
COMMENT ON COLUMN job_blocks.dataset_id IS 'which version';
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()


def grant() -> None:
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(GRANTS.format(role=quoted))


def upgrade() -> None:
    execute_script(script("0030_added"))
    grant()


def part(sql: str, first: str, last: str) -> str:
    """A script from where `first` begins to the end of the next `last`."""
    begins = sql.index(first)
    return sql[begins : sql.index(last, begins) + len(last)]


def downgrade() -> None:
    before = script("0026_pages")
    execute_script(DOWNGRADE)
    execute_script(part(before, "CREATE TABLE block_pages (", "(tenant_id, '*'));"))
    execute_script("".join(SAID.findall(before)))
    execute_script(FILL)
    execute_script(part(before, "CREATE VIEW block_sums", ";"))
    execute_script(part(before, "CREATE TRIGGER block_pages_kept", ";"))
    for name in BEFORE:
        found = re.search(rf"CREATE (OR REPLACE )?FUNCTION {name}\(.*?\n\$\$;", before, re.DOTALL)
        assert found is not None
        execute_script(found[0])
    execute_script(REVOKES + KEYS)
    grant()
