"""A job on blocks has the set of their versions in its own row, and writes no row for each.

Code of the version before runs on: it names versions by their ids, which `accept_jobs` still reads,
and asks the view that `job_blocks` has become. Whatever erases, or adds a first rule, takes the
lock of the source by a trigger.
"""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from alembic import context, op

revision = "0034"
down_revision = "0033"

GRANTS = """
GRANT SELECT ON job_blocks TO {role};
GRANT EXECUTE ON FUNCTION source_keep(text), source_alone(text), versions_offered(text, text, int4multirange) TO {role};
"""
BEFORE_GRANTS = """
GRANT SELECT, INSERT ON job_blocks TO {role};
"""
DOWNGRADE = """
LOCK TABLE datasets, jobs, source_rules IN ACCESS EXCLUSIVE MODE;
SELECT set_config('discreet.tenant', '*', true);
CREATE TEMPORARY TABLE blocks_of_0034 ON COMMIT DROP AS TABLE job_blocks;
DROP VIEW job_blocks;
DROP TRIGGER jobs_counted ON jobs;
DROP TRIGGER jobs_budget_free ON jobs;
DROP TRIGGER source_rules_first ON source_rules;
DROP TRIGGER datasets_numbered ON datasets;
DROP TRIGGER datasets_erased ON datasets;
DROP FUNCTION jobs_counted(), source_rules_first(), datasets_numbered(), datasets_erased();
"""
AFTER = """
DROP FUNCTION source_keep(text), source_alone(text), versions_offered(text, text, int4multirange);
DROP INDEX datasets_ends;
ALTER TABLE jobs DROP COLUMN source_id, DROP COLUMN versions;
ALTER TABLE datasets DROP CONSTRAINT datasets_in_source, DROP COLUMN number, ADD CONSTRAINT datasets_in_source CHECK (
  (source_id IS NULL) = (block IS NULL) AND (source_id IS NULL) = (version IS NULL));
INSERT INTO job_blocks (job_id, dataset_id, tenant_id) SELECT job_id, dataset_id, tenant_id FROM blocks_of_0034;
REVOKE ALL ON FUNCTION job_blocks_counted() FROM PUBLIC;
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
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(statements.format(role=quoted))


def part(sql: str, first: str, last: str) -> str:
    """A script from where `first` begins to the end of the next `last`."""
    begins = sql.index(first)
    return sql[begins : sql.index(last, begins) + len(last)]


def upgrade() -> None:
    execute_script(script("0034_versions"))
    grant(GRANTS)


def downgrade() -> None:
    sources, added = script("0019_sources"), script("0030_added")
    waits, counted = script("0023_waits"), script("0025_waits_counted")
    execute_script(DOWNGRADE)
    execute_script(
        part(
            sources,
            "CREATE TABLE job_blocks",
            "COMMENT ON COLUMN job_blocks.tenant_id IS 'whose both are';",
        )
        + part(added, "ALTER TABLE job_blocks DROP CONSTRAINT", "is ever deleted';")
    )
    execute_script(script("0019_accept_jobs"))
    count = part(waits, "CREATE FUNCTION count_use(", "\n$$;").replace(
        "CREATE", "CREATE OR REPLACE", 1
    )
    execute_script(count)
    execute_script(part(counted, "CREATE OR REPLACE FUNCTION jobs_budget_free()", "\n$$;"))
    execute_script(part(waits, "CREATE TRIGGER jobs_budget_free", ";"))
    # Rows before the trigger: their uses are counted already.
    execute_script(part(counted, "CREATE FUNCTION job_blocks_counted()", "\n$$;") + AFTER)
    execute_script(part(counted, "CREATE TRIGGER job_blocks_counted", ";"))
    for name in ("ledger_write_blocks", "ledger_reserve_blocks"):
        found = re.search(rf"CREATE (OR REPLACE )?(FUNCTION {name}\(.*?\n\$\$;)", added, re.DOTALL)
        assert found is not None
        execute_script(f"CREATE OR REPLACE {found[2]}")
    grant(BEFORE_GRANTS)
