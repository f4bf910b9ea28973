"""Fair turns that nobody can hold back or jump, and indexes for long lists.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

from pathlib import Path

import psycopg
import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def execute_script(sql: str) -> None:
    """Run SQL of several statements on the driver's own connection, in this transaction."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    op.drop_index("jobs_newest", "jobs")
    op.drop_index("jobs_fair", "jobs")
    op.create_index(
        "jobs_turn", "jobs", ["fair_tag"], postgresql_where=sa.text("started_at IS NOT NULL")
    )
    op.create_index(
        "jobs_fair",
        "jobs",
        ["tenant_id", "fair_tag"],
        postgresql_where=sa.text("started_at IS NOT NULL OR state = 'queued'"),
    )
    op.create_index("jobs_state", "jobs", ["tenant_id", "state", "created_at", "id"])
    execute_script(Path(__file__).with_name("0005_fairness.sql").read_text())


def downgrade() -> None:
    execute_script("DROP TRIGGER jobs_no_turn ON jobs; DROP FUNCTION jobs_no_turn()")
    execute_script(Path(__file__).with_name("0001_fair_tag.sql").read_text())
    op.drop_index("jobs_state", "jobs")
    op.drop_index("jobs_fair", "jobs")
    op.drop_index("jobs_turn", "jobs")
    op.create_index("jobs_fair", "jobs", ["tenant_id", "fair_tag"])
    op.create_index("jobs_newest", "jobs", ["fair_tag"])
