"""Touching and settling cost the same however long the accounts' histories are.

Code of the version before runs on: it calls the same functions, which write the same entries.
"""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from alembic import op

revision = "0018"
down_revision = "0017"

BEFORE = r"CREATE (FUNCTION ledger_(?:touch|settle)\(.*?\nEND\n\$\$;)"
"""Of these functions as 0001 made them and every version until this one kept them."""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    execute_script(Path(__file__).with_name("0018_flat_ledger.sql").read_text())


def downgrade() -> None:
    first = Path(__file__).with_name("0001_ledger.sql").read_text()
    touch, settle = re.findall(BEFORE, first, re.DOTALL)
    execute_script(
        f"CREATE OR REPLACE {touch}\nCREATE OR REPLACE {settle}\nDROP FUNCTION ledger_lock(text);"
    )
