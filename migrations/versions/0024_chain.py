"""One chain a source: a job over many blocks writes three entries, not three a block.

Sources and blocks that are there keep the accounts and chains that they have. Code of the version before cannot read the
balances of blocks of new sources.
"""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from alembic import context, op

from discreet.storage.schema import WrongSchema

revision = "0024"
down_revision = "0023"
OLDEST = "0024"

DOWNGRADE = """
DROP FUNCTION ledger_open_chain(text, text, text);
DROP FUNCTION ledger_open_block(text, jsonb, jsonb, text, text);
DROP FUNCTION ledger_grant_block(text, jsonb, jsonb, text, text);
DROP FUNCTION ledger_reserve_blocks(text, text[], jsonb, text, text);
DROP FUNCTION ledger_write_blocks(
  ledger_entries, accounts, text, text, text, text, jsonb, integer, integer, int4multirange);
DROP FUNCTION ledger_write(
  ledger_entries, accounts, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, text, int4multirange, text);
DROP FUNCTION ledger_body(
  accounts, bigint, timestamptz, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, text, text, text);
DROP FUNCTION ledger_block_sums(text);
DROP FUNCTION ledger_block_text(block_sums);
DROP FUNCTION ledger_amounts(numeric, numeric, numeric, numeric);
DROP FUNCTION ledger_limits(jsonb);
DROP FUNCTION ledger_within(numeric, numeric, numeric, numeric, numeric[]);
DROP FUNCTION ledger_blocks_text(int4multirange);
DROP FUNCTION ledger_block(integer);
DROP TABLE block_sums;
ALTER TABLE sources DROP COLUMN chain_id;
ALTER TABLE ledger_entries DROP COLUMN blocks;
ALTER TABLE accounts DROP CONSTRAINT accounts_scope;
ALTER TABLE accounts ADD CONSTRAINT accounts_scope CHECK (scope IN ('data', 'tenant', 'principal', 'agent'));
COMMENT ON COLUMN accounts.scope IS 'what is protected or capped: data of a dataset, all of a tenant, a principal, an agent';
"""
BEFORE = {
    "ledger_body": "0020_blocks",
    "ledger_write": "0020_blocks",
    "ledger_write_all": "0020_blocks",
    "ledger_reserve": "0020_blocks",
    "ledger_open": "0001_ledger",
    "ledger_grant": "0001_ledger",
    "read_budgets": "0003_keys",
}
"""The script that made each of these functions as every version until this one kept it."""
REVOKED = """
REVOKE ALL ON FUNCTION
  ledger_body(accounts, bigint, timestamptz, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, text),
  ledger_write(ledger_entries, accounts, text, text, text, text, text, jsonb, jsonb, jsonb, jsonb, text)
FROM PUBLIC;
"""
GRANTS = """
GRANT SELECT ON block_sums TO {role};
GRANT EXECUTE ON FUNCTION ledger_amounts(numeric, numeric, numeric, numeric), ledger_open_chain(text, text, text),
  ledger_open_block(text, jsonb, jsonb, text, text) TO {role};
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()


def upgrade() -> None:
    execute_script(script("0024_chain"))
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(GRANTS.format(role=quoted))


def downgrade() -> None:
    op.execute("SELECT set_config('discreet.tenant', '*', true)")
    chains = op.get_bind().exec_driver_sql("SELECT count(*) FROM accounts WHERE scope = 'source'")
    if chains.scalar_one() > 0:
        raise WrongSchema(
            "there are sources whose blocks share one chain, which schema 0023 cannot read: there is no way back"
        )
    execute_script(DOWNGRADE)
    for function, name in BEFORE.items():
        found = re.search(
            rf"CREATE (?:OR REPLACE )?(FUNCTION {function}\(.*?\n\$\$;)", script(name), re.DOTALL
        )
        assert found is not None
        execute_script(f"CREATE OR REPLACE {found[1]}")
    execute_script(REVOKED)
    execute_script("ALTER FUNCTION read_budgets(text, text) SET enable_sort = off")
