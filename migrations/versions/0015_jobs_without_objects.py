"""A job that names no public object is accepted without a look at what jobs name.

Code of the version before runs on: it calls the same function.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import op

revision = "0015"
down_revision = "0014"


def replace_function(version: str) -> None:
    """`accept_jobs` as this version has it; who may call it stays."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name(f"{version}_accept_jobs.sql").read_bytes())


def upgrade() -> None:
    replace_function("0015")


def downgrade() -> None:
    replace_function("0011")
