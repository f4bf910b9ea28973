"""Uses of shares are counted by the database, and who left waits no more.

Code of the version before counts what it accepts itself, a second time: a share looks smaller than
it is until it is gone. Stop it first where sources have rules.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import op

revision = "0025"
down_revision = "0024"

DOWNGRADE = """
DROP TRIGGER keys_left ON keys;
DROP TRIGGER identities_left ON identities;
DROP TRIGGER job_blocks_counted ON job_blocks;
DROP FUNCTION waits_of_who_left();
DROP FUNCTION job_blocks_counted();
DROP INDEX source_wakes_source;
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0025_waits_counted.sql").read_text())


def downgrade() -> None:
    before = Path(__file__).with_name("0023_waits.sql").read_text()
    begin = before.index("CREATE FUNCTION jobs_budget_free()")
    free = before[begin : before.index("CREATE TRIGGER jobs_budget_free")]
    execute_script(DOWNGRADE + free.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
