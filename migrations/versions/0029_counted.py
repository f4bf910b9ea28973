"""Jobs that have not ended are counted from an index alone.

Code of the version before runs on.
"""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"

OPEN = "state IN ('queued', 'awaiting_agents', 'waiting', 'running')"


def upgrade() -> None:
    op.execute("DROP INDEX jobs_open")
    op.execute(
        "CREATE INDEX jobs_open ON jobs (tenant_id, dataset_id) "
        f"INCLUDE (state, kind, created_at, lease_until) WHERE {OPEN}"
    )


def downgrade() -> None:
    op.execute("DROP INDEX jobs_open")
    op.execute(f"CREATE INDEX jobs_open ON jobs (tenant_id, dataset_id) WHERE {OPEN}")
